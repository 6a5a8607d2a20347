"""torch.jit.isinstance: whether a value, with what it contains, is of a type that annotations can name."""

from __future__ import annotations

import types
from typing import Any, Union, get_args, get_origin


def isinstance_(obj: Any, target_type: Any) -> bool:
    """Returns whether `obj` is of a type, which may say what containers hold.

    See torch.jit.isinstance in PyTorch's documentation.

    Args:
        obj: Any value.
        target_type: A class, List[T], Dict[K, V], Tuple[...], Optional[T], Union[...], or a tuple of these.

    Raises:
        RuntimeError: A container type that does not say what it holds.
    """
    if type(target_type) is tuple:
        return any(isinstance_(obj, each) for each in target_type)
    origin, inner = get_origin(target_type), get_args(target_type)
    if target_type in (list, dict, tuple) or (origin in (list, dict, tuple) and not inner):
        raise RuntimeError(
            f"Attempted to use {getattr(target_type, '__name__', target_type)} without a contained type. "
            "Please add a contained type, e.g. List[int], Dict[str, int] or Tuple[int, int]"
        )
    if origin in (Union, types.UnionType):
        return any(obj is None if each is type(None) else isinstance_(obj, each) for each in inner)
    if origin is list:
        return isinstance(obj, list) and all(isinstance_(each, inner[0]) for each in obj)
    if origin is dict:
        return isinstance(obj, dict) and all(
            isinstance_(key, inner[0]) and isinstance_(value, inner[1]) for key, value in obj.items()
        )
    if origin is tuple:
        return isinstance(obj, tuple) and len(obj) == len(inner) and all(map(isinstance_, obj, inner))
    return isinstance(obj, target_type)
