"""torch.backends: what computes. Kernels are weft's own; none comes from MKL, oneDNN, OpenMP or CUDA."""

from types import SimpleNamespace

from weft.codegen.target import detect


def _never() -> bool:
    return False


def get_cpu_capability() -> str:
    """The instruction set kernels are generated for, in PyTorch's words: AVX512, AVX2 or DEFAULT."""
    return {"avx512": "AVX512", "avx2": "AVX2"}.get(detect().isa, "DEFAULT")


cpu = SimpleNamespace(get_cpu_capability=get_cpu_capability)
weft = SimpleNamespace(is_available=lambda: True, provider=lambda: f"weft kernels for {detect().isa}, threads: native")
mkl, mkldnn, openmp, cuda, mps = (SimpleNamespace(is_available=_never) for _ in range(5))
