"""TorchScript graphs: inlining, a check of all ops, and the source lines of nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from treadle.errors import ModelFormatError, TreadleError
from treadle.frontends.faults import Faults, Unsupported
from treadle.frontends.torch.decompose import decomposition_of, overload_of
from treadle.frontends.torch.python import FUNCTIONS, NUMERIC
from treadle.frontends.torch.table import complex_rule_of, rule_of

PRIMS = frozenset({
    "prim::CallMethod", "prim::Constant", "prim::DictConstruct", "prim::GetAttr", "prim::If",
    "prim::ListConstruct", "prim::ListUnpack", "prim::Loop", "prim::Print", "prim::RaiseException",
    "prim::TupleConstruct", "prim::TupleIndex", "prim::TupleUnpack", "prim::Uninitialized", "prim::fork",
    "prim::isinstance", "prim::unchecked_cast", "prim::CreateObject", "prim::SetAttr", "prim::Enter", "prim::Exit",
    "aten::wait", "aten::warn",
})  # fmt: skip
"""Node kinds that the interpreter implements itself."""

KEEPS_NO_STATE = (
    "it sets the attribute {!r} of its module; a session keeps no state between runs: return the value, "
    "and pass it to the next run"
)

_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


@contextmanager
def readable() -> Iterator[None]:
    """Turns PyTorch's errors while reading a script into ModelFormatError."""
    try:
        yield
    except TreadleError:
        raise
    except (RuntimeError, AttributeError, IndexError, UnicodeDecodeError) as error:
        raise ModelFormatError(f"the script cannot be read by PyTorch: {type(error).__name__}: {error}") from error


def inline(graph: Any) -> Any:
    """Returns a copy of `graph` with calls of methods and functions inlined."""
    copy = graph.copy()
    torch._C._jit_pass_inline(copy)
    return copy


def location(node: Any) -> str:
    """Returns the op and its source line, for messages."""
    try:
        text = node.sourceRange()
    except (RuntimeError, MemoryError):  # the file's source map is damaged
        text = ""
    found = _LINE.search(text)
    if found is None:
        return f"node {node.kind()}"
    lines = text.splitlines()
    marked = next((number for number, line in enumerate(lines) if "<--- HERE" in line), 0)
    code = lines[marked - 1].strip() if marked else ""
    return f"node {node.kind()} at {found['file']}:{found['line']}" + (f" `{code}`" if code else "")


def schema_of(node: Any) -> Any:
    """Returns the parsed schema of the op, or None."""
    try:
        text = node.schema()
    except RuntimeError:  # an op that this PyTorch does not know
        return None
    return None if text == "(no schema)" else torch._C.parse_schema(text)


def check_ops(graph: Any, faults: Faults) -> None:
    """Records every node without a rule, in the bodies of branches, loops and forks too."""
    for node in _nodes(graph):
        if node.kind() == "prim::SetAttr" and next(node.inputs()).node().kind() != "prim::CreateObject":
            faults.add(location(node), Unsupported(KEEPS_NO_STATE.format(node.s("name"))))
        elif not _is_known(node):
            faults.add(location(node), Unsupported("treadle has no rule for it"))


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)
        if node.kind() == "prim::fork":
            yield from _nodes(inline(node.g("Subgraph")))


def _is_known(node: Any) -> bool:
    kind = node.kind()
    if kind in PRIMS or kind in FUNCTIONS:
        return True
    namespace, name = str(kind).split("::", 1)
    if namespace not in ("aten", "prim"):
        return False
    parsed = schema_of(node)
    if parsed is None:
        return name in NUMERIC
    if not any("Tensor" in str(part.type) for part in (*parsed.arguments, *parsed.returns)):
        return name in NUMERIC or f"{kind}.t" in FUNCTIONS
    overload = parsed.overload_name
    words = (name, name.removesuffix("_"))
    return any(find(word, overload) is not None for find in (rule_of, complex_rule_of) for word in words) or (
        decomposition_of(overload_of(parsed)) is not None
    )
