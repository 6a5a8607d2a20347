"""PyTorch's thread settings: two limits of treadle's one team, which may be changed at any time."""

from __future__ import annotations

from typing import Any

from treadle.runtime import threads


def _checked(function: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise RuntimeError(f"{function} expects an int, but got {type(value).__name__}")  # noqa: TRY004 - as PyTorch has it
    if value <= 0:
        raise RuntimeError(f"{function} expects a positive integer")
    return value


def set_num_threads(num_threads: int) -> None:
    """Sets the intra-op limit of the whole process, from the next op on.

    Args:
        num_threads: How many workers may share one op, at least 1.

    Raises:
        RuntimeError: `num_threads` is not a positive int.
    """
    threads.set(intra_op=_checked("set_num_threads", num_threads))


def get_num_threads() -> int:
    """Returns the intra-op limit.

    Returns:
        How many workers may share one op.
    """
    return threads.get().intra_op


def set_num_interop_threads(num_threads: int) -> None:
    """Sets the inter-op limit of the whole process. Unlike in PyTorch, it can be set more than once.

    Args:
        num_threads: How many independent ops may be in progress at once, at least 1.

    Raises:
        RuntimeError: `num_threads` is not a positive int.
    """
    threads.set(inter_op=_checked("set_num_interop_threads", num_threads))


def get_num_interop_threads() -> int:
    """Returns the inter-op limit.

    Returns:
        How many independent ops may be in progress at once.
    """
    return threads.get().inter_op


def parallel_info() -> str:
    """Returns the thread settings, their sources, and the machine, in PyTorch's format.

    Returns:
        Text of several lines.
    """
    info = threads.info()
    variables = {"OMP_NUM_THREADS": "[not set]", "MKL_NUM_THREADS": "[not set]", **info["environment"]}
    topology, products = info["topology"], info["matmul_provider"]
    return "\n".join(
        [
            "ATen/Parallel:",
            f"\tat::get_num_threads() : {info['intra_op']['value']} ({info['intra_op']['source']})",
            f"\tat::get_num_interop_threads() : {info['inter_op']['value']} ({info['inter_op']['source']})",
            f"treadle {info['build']['treadle']}, {info['build']['compiler']}",
            f"\tone team of max(both) slots; threads alive : {info['threads']}",
            f"matrix products : {products['value']} {products['version']} ({products['source']})",
            f"\t{products['why']}",
            f"std::thread::hardware_concurrency() : {topology['online']}",
            f"\tavailable : {topology['available']} ({topology['reason']})",
            "Environment variables:",
            *(f"\t{name} : {value}" for name, value in variables.items()),
            f"ATen parallel backend: treadle {info['build']['backend']}",
            "",
        ]
    )


def show() -> str:
    """Returns the version, the CPU, the instruction set and the provider of matrix products.

    Returns:
        Text of two lines.
    """
    from treadle.codegen.target import detect

    info = threads.info()
    products = info["matmul_provider"]
    return (
        f"treadle {info['build']['treadle']} on {info['cpu']['model']}, kernels for {detect().isa}\n"
        f"  - matrix products: {products['value']} {products['version']}\n"
    )
