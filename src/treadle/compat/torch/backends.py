"""torch.backends: which libraries are present, and which are used.

Kernels are treadle's own. Matrix products may come from MKL or oneDNN where they are installed (see `provider`), and
OpenMP may run the intra-op loop. CUDA and MPS are never available.
"""

from functools import partial
from types import SimpleNamespace

from treadle.codegen.target import detect
from treadle.runtime import backends, libraries, providers


def _never() -> bool:
    return False


def get_cpu_capability() -> str:
    """Returns the instruction set of the generated kernels.

    Returns:
        "AVX512", "AVX2" or "DEFAULT", as PyTorch names them.
    """
    return {"avx512": "AVX512", "avx2": "AVX2"}.get(detect().isa, "DEFAULT")


def provider() -> str:
    """Returns who provides kernels, matrix products and threads for code compiled from now on.

    Returns:
        One line: the instruction set of kernels, the provider of matrix products, the backend of the intra-op loop.
    """
    products = providers.current().name
    return f"treadle kernels for {detect().isa}, matmul: {products}, threads: {backends.current().name}"


cpu = SimpleNamespace(get_cpu_capability=get_cpu_capability)
treadle = SimpleNamespace(is_available=lambda: True, provider=provider)
mkl = SimpleNamespace(is_available=partial(libraries.is_available, "mkl"))
mkldnn = SimpleNamespace(is_available=partial(libraries.is_available, "onednn"))
openmp = SimpleNamespace(is_available=partial(backends.is_available, "openmp"))
cuda, mps = (SimpleNamespace(is_available=_never) for _ in range(2))
