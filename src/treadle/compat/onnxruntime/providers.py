"""Execution providers: the CPU serves all. What is asked for is checked as onnxruntime checks it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

CPU = "CPUExecutionProvider"

KNOWN = (
    "TensorrtExecutionProvider", "CUDAExecutionProvider", "MIGraphXExecutionProvider", "OpenVINOExecutionProvider",
    "DnnlExecutionProvider", "VitisAIExecutionProvider", "QNNExecutionProvider", "NnapiExecutionProvider",
    "VSINPUExecutionProvider", "JsExecutionProvider", "CoreMLExecutionProvider", "DmlExecutionProvider",
    "RknpuExecutionProvider", "WebNNExecutionProvider", "WebGpuExecutionProvider", "XnnpackExecutionProvider",
    "CANNExecutionProvider", "AzureExecutionProvider", CPU,
)  # fmt: skip
"""The providers that onnxruntime 1.32 knows, whether they are installed or not."""

Providers = Sequence[str | tuple[str, Mapping[str, Any]]]


def check(providers: Providers | None, options: Sequence[Mapping[str, Any]] | None, level: int = 3) -> None:
    """Warn of providers that are not there or named twice.

    Args:
        providers: What is asked for; None for the default.
        options: Options in the same order.
        level: How many calls above this one the warnings are for.

    Raises:
        ValueError: Something is no list of providers, or the lists differ in length.
    """
    if providers is None:
        return
    if options is not None:
        _check_pair(providers, options)
    seen: set[str] = set()
    for one in [providers] if isinstance(providers, str) else providers:
        name = one[0] if isinstance(one, tuple) and len(one) == 2 and isinstance(one[1], dict) else one
        if not isinstance(name, str):
            raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
        if name != CPU:
            text = f"Specified provider '{name}' is not in available provider names.Available providers: '{CPU}'"
            warnings.warn(text, stacklevel=level)
        elif name in seen:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=level)
        seen.add(name)


def _check_pair(providers: Providers, options: Sequence[Mapping[str, Any]]) -> None:
    for given, name in ((providers, "providers"), (options, "provider_options")):
        if not isinstance(given, Sequence):
            raise ValueError(f"'{name}' should be a sequence.")
    if len(providers) != len(options):
        raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
    if not all(isinstance(one, str) for one in providers):
        raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
    if not all(isinstance(one, dict) for one in options):
        raise ValueError("'provider_options' values must be dicts.")


def check_known(providers: Providers | None) -> None:
    """Raise RuntimeError for a provider that onnxruntime does not know, of a list that check() has passed."""
    for one in providers or ():
        name = one if isinstance(one, str) else one[0]
        if name not in KNOWN:
            raise RuntimeError(f"Unknown Provider Type: {name}")


def check_or_fall_back(providers: Providers | None, options: Sequence[Mapping[str, Any]] | None) -> None:
    """Check what a new session is given: onnxruntime tells what is wrong, and uses the CPU."""
    try:
        check(providers, options, level=4)
    except ValueError as fault:
        warnings.warn(f"EP Error {fault} when using {providers}; falling back to ['{CPU}']", stacklevel=3)
