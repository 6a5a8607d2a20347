"""Records of kernels: lowering and generators agree on parameters and arguments by name."""

from __future__ import annotations

import typing
from dataclasses import fields, is_dataclass, replace
from types import ModuleType, new_class
from typing import Any

import numpy as np
import pytest
from tests import kernel_runner
from tests.single_node import SingleNode

from treadle.codegen import target as targets
from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.kernels import cumulative as cumulative_generator
from treadle.codegen.kernels.table import GENERATORS, by_record, records
from treadle.dtypes import DType, f32
from treadle.errors import InternalError
from treadle.graph.expr import Expr, Step
from treadle.passes.lower import cumulative as cumulative_lowering
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, NoArgs, T
from treadle.plan.kernels.cumulative import CumulativeArgs, CumulativeSpec
from treadle.records import dataclass

_EXAMPLES: dict[Any, Any] = {
    int: 3,
    bool: True,
    float: 0.5,
    str: "max",
    DType: f32,
    Expr: Expr((f32, f32), (Step("add", (0, 1), f32),), (2,)),
    tuple[int, int]: (2, 1),
    tuple[int, ...]: (4, 3),
    tuple[str, ...]: ("row", "full"),
    tuple[bool, ...]: (True, False),
}
"""Values of parameters, by their type."""

_ARGS_OF_SEVERAL = {"BlockedPoolSpec": "PoolArgs", "PlainPoolSpec": "PoolArgs"}
"""Records of arguments that are not named after the family."""


def example(record: type[Any]) -> Any:
    """Some parameters of a family."""
    hints = typing.get_type_hints(record)
    return record(**{each.name: _example_of(hints[each.name]) for each in fields(record)})


def _example_of(hint: Any) -> Any:
    if hint in _EXAMPLES:
        return _EXAMPLES[hint]
    if is_dataclass(hint):
        return example(hint)
    if typing.get_origin(hint) is typing.Literal:
        return typing.get_args(hint)[0]
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)
        return (_example_of(inner[0]),) * 2 if inner[1:] == (...,) else tuple(map(_example_of, inner))
    return next(_example_of(each) for each in typing.get_args(hint))


def args_of(spec: type[KernelSpec], module: ModuleType) -> type[KernelArgs[Any]]:
    """The arguments that belong to the parameters `spec`; both are in one module."""
    name = _ARGS_OF_SEVERAL.get(spec.__name__, spec.__name__.removesuffix("Spec") + "Args")
    kind: type[KernelArgs[Any]] = getattr(module, name, NoArgs)
    return kind


RECORDS = [pytest.param(spec, args_of(spec, module), id=spec.family) for spec, module in records()]


@pytest.mark.parametrize(("spec_type", "args_type"), RECORDS)
def test_arguments_survive_packing_and_unpacking(spec_type: type[KernelSpec], args_type: type[KernelArgs[Any]]) -> None:
    """
    Every argument has a position of its own, and generators read at it what lowering put there.
    """
    spec = example(spec_type)
    args = args_type.unpacked(spec, lambda position: position)
    packed = args.packed(spec)
    assert packed == tuple(range(len(packed)))
    assert args_type.unpacked(spec, packed.__getitem__) == args


@pytest.mark.parametrize(("spec_type", "args_type"), RECORDS)
def test_a_tuple_of_another_length_is_refused(spec_type: type[KernelSpec], args_type: type[KernelArgs[Any]]) -> None:
    """
    A tuple that has not as many numbers as the parameters say would move all arguments behind it.
    """
    spec = example(spec_type)
    args = args_type.unpacked(spec, lambda position: position)
    for name in args_type.tuple_lengths(spec):
        longer = replace(args, **{name: (*getattr(args, name), (0,))})
        with pytest.raises(ValueError, match=f"{args_type.__name__}.{name}"):
            longer.packed(spec)


@pytest.mark.parametrize(("spec_type", "args_type"), RECORDS)
def test_records_take_no_positional_values(spec_type: type[KernelSpec], args_type: type[KernelArgs[Any]]) -> None:
    """
    Parameters and arguments are given by name alone, so that their order means nothing.
    """
    spec = example(spec_type)
    values = [getattr(spec, each.name) for each in fields(spec)]
    if values:
        with pytest.raises(TypeError, match="positional"):
            spec_type(*values)
    if fields(args_type):
        with pytest.raises(TypeError, match="positional"):
            args_type(*range(len(fields(args_type))))


def _variant(rename: dict[str, str]) -> type[KernelArgs[Any]]:
    """CumulativeArgs in another order, with some fields renamed."""
    names = [rename.get(each.name, each.name) for each in reversed(fields(CumulativeArgs))]
    content = {"__annotations__": dict.fromkeys(names, Any), "__module__": __name__}
    kind = new_class("Variant", (KernelArgs[T],), exec_body=lambda found: found.update(content))
    return dataclass(frozen=True, kw_only=True)(kind)


def _cumsum() -> SingleNode:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    return SingleNode("cumsum", [x], {"axis": 1, "exclusive": False, "reverse": False})


def test_the_order_of_fields_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With the fields in another order the arguments lie elsewhere in memory, and results are the same.
    """
    variant = _variant({})
    assert [each.name for each in fields(variant)] != [each.name for each in fields(CumulativeArgs)]
    monkeypatch.setattr(cumulative_lowering, "CumulativeArgs", variant)
    monkeypatch.setattr(cumulative_generator, "CumulativeArgs", variant)
    monkeypatch.setattr(kernel_runner, "_cache", {})  # specs do not tell the variant's code from that of the record
    _cumsum().check(targets.detect())


def test_a_field_renamed_for_one_side_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Lowering cannot fill a field that the record does not have, and a generator cannot read one.
    """
    variant = _variant({"size": "length"})
    with monkeypatch.context() as patch:
        patch.setattr(cumulative_lowering, "CumulativeArgs", variant)
        with pytest.raises(TypeError, match="size"):
            _cumsum().check(targets.detect())
    with monkeypatch.context() as patch:
        patch.setattr(cumulative_generator, "CumulativeArgs", variant)
        with pytest.raises(AttributeError, match="size"):
            cumulative_generator.emit_cumulative(_kernel(), example(CumulativeSpec))


def _kernel() -> Kernel:
    return Kernel("kernel", targets.detect())


_WRONG = """
from llvmlite import ir
from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.kernels.cumulative import emit_cumulative
from treadle.dtypes import f32
from treadle.plan.kernels.cumulative import CumulativeArgs, CumulativeSpec
from treadle.plan.kernels.trilu import TriluSpec

CumulativeArgs(units=1, units_per_chunk=1, length=3, inner=1)
CumulativeSpec(dtype=f32, exclusive=False, reverse=False)
CumulativeSpec(f32, False, False, True)
def emit(k: Kernel, spec: CumulativeSpec) -> None:
    k.args(CumulativeArgs[ir.Value], spec).length
    spec.size
    emit_cumulative(k, TriluSpec(size=4, upper=True))
"""
"""Seven mistakes: two names, a missing and four positional parameters, two fields that are not there, a wrong
record."""


def test_a_type_checker_finds_what_does_not_match() -> None:
    """
    Fields that one side does not have, missing and positional ones, and a generator of another family are type errors.
    """
    api = pytest.importorskip("mypy.api")
    options = ["--config-file=", "--strict", "--ignore-missing-imports", "--follow-imports=silent"]
    report, failure, _ = api.run([*options, "--no-error-summary", "-c", _WRONG])
    errors = [line for line in report.splitlines() if ": error: " in line]
    lines = {int(line.split(":")[1]) for line in errors}
    wrong = {9, 10, 11, 13, 14, 15}
    assert lines == wrong, report + failure


def test_a_family_without_a_generator_fails() -> None:
    """
    The table is checked when it is imported: every record of parameters has a generator.
    """
    incomplete = [emit for emit in GENERATORS.values() if emit is not cumulative_generator.emit_cumulative]
    with pytest.raises(InternalError, match="CumulativeSpec has no generator"):
        by_record(incomplete)


def test_a_generator_without_a_record_fails() -> None:
    """
    A generator takes the record of its family.
    """

    def emit_anything(_: Kernel, spec: KernelSpec) -> None:
        raise NotImplementedError(spec)

    with pytest.raises(InternalError, match="emit_anything takes no record"):
        by_record([*GENERATORS.values(), emit_anything])
