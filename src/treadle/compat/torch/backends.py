"""torch.backends: what is there to compute with, and what does.

Kernels are treadle's own. Matrix products may be MKL's or oneDNN's where they are installed (`provider()` tells), and
the loop inside an op OpenMP's. CUDA and MPS are never there.
"""

from functools import partial
from types import SimpleNamespace

from treadle.codegen.target import detect
from treadle.runtime import backends, libraries, providers


def _never() -> bool:
    return False


def get_cpu_capability() -> str:
    """The instruction set kernels are generated for, in PyTorch's words: AVX512, AVX2 or DEFAULT."""
    return {"avx512": "AVX512", "avx2": "AVX2"}.get(detect().isa, "DEFAULT")


def provider() -> str:
    """What makes the kernels, what multiplies matrices in code compiled from now on, what runs the loop inside an op."""
    products = providers.current().name
    return f"treadle kernels for {detect().isa}, matmul: {products}, threads: {backends.current().name}"


cpu = SimpleNamespace(get_cpu_capability=get_cpu_capability)
treadle = SimpleNamespace(is_available=lambda: True, provider=provider)
mkl = SimpleNamespace(is_available=partial(libraries.is_available, "mkl"))
mkldnn = SimpleNamespace(is_available=partial(libraries.is_available, "onednn"))
openmp = SimpleNamespace(is_available=partial(backends.is_available, "openmp"))
cuda, mps = (SimpleNamespace(is_available=_never) for _ in range(2))
