"""An IR builder whose common instructions are lines of text at once.

llvmlite's own instructions are objects that check their operands and format themselves when the module is printed. A
kernel has thousands of instructions, so that took most of the time of emitting it. LLVM checks the operands of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llvmlite import ir

from treadle.codegen.emit.types import I1, vector_of

Binary = Callable[..., ir.Value]

_VOID = ir.VoidType()
_SIGNED = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}


class Line(ir.Value):  # type: ignore[misc]
    """An instruction as text, and its result as an operand of others."""

    __slots__ = ("reference", "text", "type")

    def __init__(self, type_: ir.Type, reference: str, text: str) -> None:
        self.type = type_
        self.reference = reference
        self.text = text

    def get_reference(self) -> str:
        """Return the name of the result, as operands write it."""
        return self.reference

    def __str__(self) -> str:
        return self.text


def _binary(opcode: str) -> Binary:
    """Return the builder's method for an instruction with two operands and a result of one type."""
    plain = getattr(ir.IRBuilder, opcode)

    def emit(self: Builder, left: ir.Value, right: ir.Value, name: str = "", flags: Sequence[str] = ()) -> ir.Value:
        type_ = left.type
        if name or (type_ is not right.type and type_ != right.type):
            return plain(self, left, right, name, flags)
        words = " ".join((opcode, *flags)) if flags else opcode
        return self.line(type_, f"{words} {type_} {left.get_reference()}, {right.get_reference()}")

    emit.__doc__ = f"Emit `{opcode}`."
    return emit


class Builder(ir.IRBuilder):  # type: ignore[misc]
    """llvmlite's builder. A result that gets no name is called `%_<number>`, with the next of `numbers`."""

    def __init__(self, block: ir.Block, numbers: Iterator[int]) -> None:
        super().__init__(block)
        self._numbers = numbers

    def line(self, type_: ir.Type, text: str) -> Line:
        """Append the instruction `text`, whose result has the type `type_`, and return the result."""
        reference = ""
        if not isinstance(type_, ir.VoidType):
            reference = f"%_{next(self._numbers)}"
            text = f"{reference} = {text}"
        line = Line(type_, reference, text)
        self._insert(line)
        return line

    add, sub, mul, udiv, urem = map(_binary, ("add", "sub", "mul", "udiv", "urem"))
    fadd, fsub, fmul, fdiv = map(_binary, ("fadd", "fsub", "fmul", "fdiv"))

    def gep(self, ptr: ir.Value, indices: Sequence[ir.Value], inbounds: bool = False, **rest: Any) -> ir.Value:
        """Emit an address: `ptr` and the offset of element `indices` of an array of `source_etype`."""
        element = rest.get("source_etype")
        if len(rest) != 1 or element is None or len(indices) != 1:
            return super().gep(ptr, indices, inbounds, **rest)
        (index,) = indices
        words = "getelementptr inbounds" if inbounds else "getelementptr"
        return self.line(
            ptr.type, f"{words} {element}, ptr {ptr.get_reference()}, {index.type} {index.get_reference()}"
        )

    def load(self, ptr: ir.Value, name: str = "", align: int | None = None, typ: ir.Type | None = None) -> ir.Value:
        """Emit a load of a `typ` from `ptr`."""
        if name or typ is None:
            return super().load(ptr, name, align, typ)
        aligned = "" if align is None else f", align {align}"
        return self.line(typ, f"load {typ}, ptr {ptr.get_reference()}{aligned}")

    def store(self, value: ir.Value, ptr: ir.Value, align: int | None = None) -> ir.Value:
        """Emit a store of `value` to `ptr`."""
        aligned = "" if align is None else f", align {align}"
        text = f"store {value.type} {value.get_reference()}, ptr {ptr.get_reference()}{aligned}"
        return self.line(_VOID, text)

    def call(self, fn: ir.Value, args: Sequence[ir.Value], name: str = "", **rest: Any) -> ir.Value:
        """Emit a call of `fn`."""
        if name or rest or type(fn) is not ir.Function:
            return super().call(fn, args, name, **rest)
        return self._call(fn, [f"{arg.type} {arg.get_reference()}" for arg in args])

    def call_aligned(self, fn: ir.Function, args: Sequence[ir.Value], pointer: int, align: int) -> ir.Value:
        """Emit a call of `fn`, of which argument `pointer` is an address that is a multiple of `align` bytes."""
        operands = [f"{arg.type} {arg.get_reference()}" for arg in args]
        operands[pointer] = f"ptr align {align} {args[pointer].get_reference()}"
        return self._call(fn, operands)

    def _call(self, fn: ir.Function, operands: Sequence[str]) -> Line:
        result = fn.function_type.return_type
        return self.line(result, f"call {result} {fn.get_reference()}({', '.join(operands)})")

    def insert_element(self, vector: ir.Value, value: ir.Value, idx: ir.Value, name: str = "") -> ir.Value:
        """Emit `vector` with element `idx` replaced by `value`."""
        if name:
            return super().insert_element(vector, value, idx, name)
        operands = ", ".join([f"{each.type} {each.get_reference()}" for each in (vector, value, idx)])
        return self.line(vector.type, f"insertelement {operands}")

    def shuffle_vector(self, vector1: ir.Value, vector2: ir.Value, mask: ir.Constant, name: str = "") -> ir.Value:
        """Emit the elements of two vectors that `mask` numbers."""
        if name:
            return super().shuffle_vector(vector1, vector2, mask, name)
        operands = ", ".join([f"{each.type} {each.get_reference()}" for each in (vector1, vector2, mask)])
        return self.line(vector_of(vector1.type.element, mask.type.count), f"shufflevector {operands}")

    def icmp_signed(self, cmpop: str, lhs: ir.Value, rhs: ir.Value, name: str = "") -> ir.Value:
        """Emit the signed comparison `lhs` <cmpop> `rhs`."""
        type_ = lhs.type
        if name:
            return super().icmp_signed(cmpop, lhs, rhs, name)
        result = vector_of(I1, type_.count) if isinstance(type_, ir.VectorType) else I1
        return self.line(result, f"icmp {_SIGNED[cmpop]} {type_} {lhs.get_reference()}, {rhs.get_reference()}")

    def select(
        self, cond: ir.Value, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()
    ) -> ir.Value:
        """Emit `lhs` where `cond` holds, else `rhs`."""
        if name or flags:
            return super().select(cond, lhs, rhs, name, flags)
        operands = ", ".join([f"{each.type} {each.get_reference()}" for each in (cond, lhs, rhs)])
        return self.line(lhs.type, f"select {operands}")
