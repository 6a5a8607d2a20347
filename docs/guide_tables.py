"""Writes the tables of the guide that list names from the sources.

Run by `scripts/docs`; PyTorch need not be installed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "docs" / "guide"
ATEN_TABLE = ROOT / "src" / "treadle" / "frontends" / "torch" / "table.py"


def settings() -> str:
    """Returns the table of environment variables that are not about threads."""
    from treadle.knobs import KNOBS

    return _table(
        ("variable", "value", "default", "meaning"),
        [
            (f"`{knob.name}`", knob.wanted, "" if knob.default is None else str(knob.default), knob.doc)
            for knob in KNOBS.values()
        ],
    )


def torch_names() -> str:
    """Returns the table of the names of `treadle.compat.torch`."""
    from treadle.compat import torch

    parts = [("`torch`", torch), ("`torch.nn`", torch.nn), ("`torch.nn.functional`", torch.nn.functional)]
    methods = [name for name in dir(torch.tensor(0)) if not name.startswith("_")]
    rows = [*((label, list(dir(part))) for label, part in parts), ("`torch.jit`", list(dir(torch.jit)))]
    return _table(
        ("module", "names"), [(label, _code(names)) for label, names in [*rows, ("methods of tensors", methods)]]
    )


def aten_ops() -> str:
    """Returns the list of ATen ops that have rules, each once, without overloads."""
    for node in ast.walk(ast.parse(ATEN_TABLE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "RULES":
            assert isinstance(node.value, ast.Dict)
            keys = [key.value for key in node.value.keys if isinstance(key, ast.Constant)]
            return f"{_code(sorted({str(key).partition('.')[0] for key in keys}))}\n"
    raise ValueError(f"{ATEN_TABLE} has no table of rules")


def tensorflow_names() -> str:
    """Returns the table of the names of `treadle.compat.tensorflow`, notes on its ops, and the ops of files."""
    from treadle.compat.tensorflow import names
    from treadle.compat.tensorflow.table import OPS
    from treadle.frontends.tensorflow.nodes import NODES, STRUCTURE

    spaces: dict[str, list[str]] = {}
    for name in names.BOTH:
        space, _, last = f"tf.{name}".rpartition(".")
        spaces.setdefault(space, []).append(last)
    spaces["tf.compat.v1 (and tf)"] = list(names.V1)
    rows = [(f"`{space}`", _code(sorted(members))) for space, members in sorted(spaces.items())]
    notes = "; ".join(f"`{op.name}`: {op.note}" for op in OPS.values() if op.note)
    rows += [("notes", notes), ("ops of frozen graphs", _code(sorted([*NODES, *STRUCTURE])))]
    return _table(("where", "what there is"), rows)


_OPSETS = {"": 26, "ai.onnx.ml": 5}
"""Domain -> the operator set of the oldest onnx package treadle takes."""

_PREVIEW = {
    "ai.onnx.preview": ({"FlexAttention"}, set[str](), set[str]()),
    "ai.onnx.preview.training": (set[str](), {"Adagrad", "Adam", "Momentum"}, {"Gradient"}),
}
"""Domain of operators that are no part of the standard yet -> those with kernels, those that the onnx package computes,
and others."""

_REASONS = {
    "the onnx package has no reference for it": ("Gradient", "MaxRoiPool", "Multinomial"),
}
"""Why operators of ONNX are refused."""

_STEPS = {"CategoryMapper"}
"""Operators whose rules make Python steps."""

_WITHOUT_REFERENCE = {"MaxRoiPool", "Multinomial"}
"""Operators that neither treadle nor the onnx package computes."""

_MICROSOFT_STEPS = {"Tokenizer"}
"""Operators of com.microsoft whose rules make Python steps."""


def onnx_ops() -> str:
    """Returns the table of ONNX operators: which kernels compute, which Python steps, and which are refused."""
    from onnx import defs

    from treadle.frontends.onnx import control, microsoft_refused, microsoft_table, ml_table, table
    from treadle.frontends.onnx.rules import sequence

    rows = []
    for domain, rules in (("", {*table.RULES, *sequence.RULES, *control.OPERATORS}), ("ai.onnx.ml", ml_table.RULES)):
        first: dict[str, int] = {}
        for schema in defs.get_all_schemas_with_history():
            if schema.domain == domain:
                first[schema.name] = min(first.get(schema.name, schema.since_version), schema.since_version)
        known = {name for name, version in first.items() if version <= _OPSETS[domain]}
        native = set(rules) - _STEPS
        refused = known & _WITHOUT_REFERENCE
        by_reference = known - native - refused
        cells = (_code(sorted(names)) for names in (native, by_reference, refused))
        rows.append((f"`{domain or 'ai.onnx'}`", *cells))
    rows += [(f"`{domain}`", *map(_code, map(sorted, ways))) for domain, ways in _PREVIEW.items()]
    native = {*microsoft_table.RULES, *microsoft_table.SEARCHES} - _MICROSOFT_STEPS
    refused = _code(sorted(microsoft_refused.REFUSED))
    rows.append(("`com.microsoft`", _code(sorted(native)), _code(sorted(_MICROSOFT_STEPS)), refused))
    reasons: dict[str, list[str]] = {reason: list(names) for reason, names in _REASONS.items()}
    for name, reason in sorted(microsoft_refused.REFUSED.items()):
        reasons.setdefault(reason, []).append(name)
    why = [(reason, _code(names)) for reason, names in reasons.items()]
    ways = _table(("domain", "by kernels", "by reference, as Python steps", "refused"), rows)
    return f"{ways}\n{_table(('refused because', 'operators'), why)}"


TABLES: list[tuple[str, str, Callable[[], str]]] = [
    ("onnx.md", "ops", onnx_ops),
    ("settings.md", "table", settings),
    ("pytorch.md", "table", torch_names),
    ("pytorch.md", "ops", aten_ops),
    ("tensorflow.md", "table", tensorflow_names),
]
"""Page, the word in the comments that mark the place, and what stands there."""


def with_tables(page: str, text: str) -> str:
    """Returns the page's `text` with its tables as they should be. Raises ValueError if a place is not marked."""
    for name, mark, content in TABLES:
        if name == page:
            begin, end = f"<!-- {mark}: written by scripts/docs -->\n", f"<!-- end of {mark} -->\n"
            before, _, rest = text.partition(begin)
            _, found, after = rest.partition(end)
            if not found:
                raise ValueError(f"{page} must mark the place of a table with {begin!r} and {end!r}")
            text = before + begin + content() + end + after
    return text


def _code(names: list[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    for page in sorted({name for name, *_ in TABLES}):
        guide = GUIDE / page
        guide.write_text(with_tables(page, guide.read_text(encoding="utf-8")), encoding="utf-8")
