"""What the guide's table of operators says of those without a rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from onnx import defs
from onnx.reference.ops._op_list import load_op
from onnx.reference.ops.aionnxml._op_list import load_op as load_ml_op

PAGE = Path(__file__).resolve().parents[4] / "docs" / "guide" / "onnx.md"


def listed(domain: str) -> list[set[str]]:
    """The names in each column of a row: by kernels, by reference, refused."""
    start = f"| `{domain}` |"
    (row,) = (line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(start))
    return [set(re.findall("`([^`]+)`", cell)) for cell in row.split("|")[2:5]]


@pytest.mark.parametrize(
    ("domain", "own"), [("ai.onnx", set()), ("ai.onnx.ml", {"CastMap", "CategoryMapper", "ZipMap"})]
)
def test_the_onnx_package_computes_what_is_by_reference(domain: str, own: set[str]) -> None:
    """And not what is refused; `own` are Python steps of treadle's."""
    _, reference, refused = listed(domain)
    stored = "" if domain == "ai.onnx" else domain
    load = load_op if domain == "ai.onnx" else load_ml_op

    def is_there(name: str) -> bool:
        schema = defs.get_schema(name, stored)
        try:
            return load(stored, name, schema.since_version) is not None
        except (NotImplementedError, RuntimeError):
            return bool(schema.has_function)

    assert {name for name in reference - own if not is_there(name)} == set()
    assert {name for name in refused if is_there(name)} == set()
