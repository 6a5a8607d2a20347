"""A kernel under construction: the function, its arguments, and integer arithmetic on indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from typing import Any, TypeAlias, TypeVar

from llvmlite import ir

from treadle.codegen.emit.builder import Builder
from treadle.codegen.emit.types import I32, I64, POINTER, scalar
from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec
from treadle.plan.target import Target

A = TypeVar("A", bound=KernelArgs[Any])

Index: TypeAlias = "ir.Value | int"


class Kernel:
    """A function `int32 name(pointers, args, chunk, scratch)` being emitted; `b` is its IR builder.

    `chunk` is the number of the chunk to do (i64), `scratch` the worker's own memory. Pointers and
    args are loaded in the entry block, once each. Indices may be Python ints or i64 values everywhere;
    arithmetic on two ints stays in Python.
    """

    def __init__(self, name: str, target: Target) -> None:
        self.name = name
        self.target = target
        self.module = ir.Module(name)
        self.module.triple = target.triple
        signature = ir.FunctionType(I32, [POINTER, POINTER, I64, POINTER])
        self.function = ir.Function(self.module, signature, name)
        pointers, args, chunk, scratch = self.function.args
        for argument, label in zip(self.function.args, ("pointers", "args", "chunk", "scratch"), strict=True):
            argument.name = label
        self._pointers, self._args = pointers, args
        self.chunk: ir.Value = chunk
        self.scratch: ir.Value = scratch
        numbers = count()
        self._entry = Builder(self.function.append_basic_block("entry"), numbers)
        body = self.function.append_basic_block("body")
        self.b = Builder(body, numbers)
        self._body = body
        self._cache: dict[tuple[str, int], ir.Value] = {}

    def pointer(self, number: int) -> ir.Value:
        """Pointer `number` of the call: outputs first, then inputs. An output never aliases another pointer."""
        key = ("pointer", number)
        if key not in self._cache:
            address = self._entry.gep(self._pointers, [I64(number)], source_etype=POINTER)
            self._cache[key] = self._entry.load(address, name=f"p{number}", typ=POINTER)
        return self._cache[key]

    def arg(self, number: int) -> ir.Value:
        """Argument `number` of the call, an i64."""
        key = ("arg", number)
        if key not in self._cache:
            address = self._entry.gep(self._args, [I64(number)], source_etype=I64)
            self._cache[key] = self._entry.load(address, name=f"a{number}", typ=I64)
        return self._cache[key]

    def local(self, name: str, elements: int, dtype: DType) -> ir.Value:
        """Memory of the call for `elements` of `dtype`, the same for the same `name` and size."""
        key = (f"{name} {dtype.name}", elements)
        if key not in self._cache:
            self._cache[key] = self._entry.alloca(scalar(dtype), elements)
        return self._cache[key]

    def args(self, kind: type[A], spec: KernelSpec) -> A:
        """The arguments of a kernel of `spec` by name: `k.args(SoftmaxArgs[ir.Value], spec)`."""
        return kind.unpacked(spec, self.arg)

    @contextmanager
    def part(
        self, pointers: Sequence[ir.Value], spec: KernelSpec, args: KernelArgs[Index], scratch: ir.Value
    ) -> Iterator[None]:
        """In its body, the generator of `spec` emits chunk 0 of a call with these pointers, arguments and scratch."""
        before = self._cache, self.chunk, self.scratch
        own = {("pointer", number): pointer for number, pointer in enumerate(pointers)}
        self._cache = own | {("arg", number): as_i64(arg) for number, arg in enumerate(args.packed(spec))}
        self.chunk, self.scratch = I64(0), scratch
        yield
        self._cache, self.chunk, self.scratch = before

    def at(self, base: ir.Value, index: Index, dtype: DType) -> ir.Value:
        """The address of element `index` of the array of `dtype` at `base`."""
        if isinstance(index, int) and index == 0:
            return base
        return self.b.gep(base, [as_i64(index)], inbounds=True, source_etype=scalar(dtype))

    def add(self, left: Index, right: Index) -> Index:
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        if isinstance(left, int) and left == 0:
            return right
        if isinstance(right, int) and right == 0:
            return left
        return self.b.add(as_i64(left), as_i64(right), flags=("nsw",))

    def sub(self, left: Index, right: Index) -> Index:
        if isinstance(left, int) and isinstance(right, int):
            return left - right
        if isinstance(right, int) and right == 0:
            return left
        return self.b.sub(as_i64(left), as_i64(right), flags=("nsw",))

    def mul(self, left: Index, right: Index) -> Index:
        if isinstance(left, int) and isinstance(right, int):
            return left * right
        for one, other in ((left, right), (right, left)):
            if isinstance(one, int) and one in (0, 1):
                return other if one else 0
        return self.b.mul(as_i64(left), as_i64(right), flags=("nsw",))

    def div(self, left: Index, right: Index) -> Index:
        """Quotient of two non-negative indices, rounded down."""
        if isinstance(left, int) and isinstance(right, int):
            return left // right
        if isinstance(right, int) and right == 1:
            return left
        return self.b.udiv(as_i64(left), as_i64(right))

    def rem(self, left: Index, right: Index) -> Index:
        """Remainder of two non-negative indices."""
        if isinstance(left, int) and isinstance(right, int):
            return left % right
        if isinstance(right, int) and right == 1:
            return 0
        return self.b.urem(as_i64(left), as_i64(right))

    def min(self, left: Index, right: Index) -> Index:
        if isinstance(left, int) and isinstance(right, int):
            return min(left, right)
        a, c = as_i64(left), as_i64(right)
        return self.b.select(self.b.icmp_signed("<", a, c), a, c)

    def max(self, left: Index, right: Index) -> Index:
        if isinstance(left, int) and isinstance(right, int):
            return max(left, right)
        a, c = as_i64(left), as_i64(right)
        return self.b.select(self.b.icmp_signed(">", a, c), a, c)

    def less(self, left: Index, right: Index) -> ir.Value:
        """left < right, signed, as an i1."""
        return self.b.icmp_signed("<", as_i64(left), as_i64(right))

    def chunk_range(self, total: Index, per_chunk: Index) -> tuple[Index, Index]:
        """The half-open range of units of this chunk, where each chunk has `per_chunk` of `total` units."""
        begin = self.mul(self.chunk, per_chunk)
        return begin, self.min(self.add(begin, per_chunk), total)

    def fail_if(self, condition: ir.Value, code: int) -> None:
        """Return the status `code` (see plan.status) where `condition` (an i1) holds."""
        with self.b.if_then(condition, likely=False):
            self.b.ret(I32(code))

    def intrinsic(self, name: str, result: ir.Type, *operands: ir.Type) -> ir.Function:
        """The LLVM intrinsic of the full mangled `name`, declared once a module."""
        function = self.module.globals.get(name)
        if function is None:
            function = ir.Function(self.module, ir.FunctionType(result, operands), name)
        return function

    def finish(self) -> str:
        """End the function with status 0 and return the module's text. Nothing can be emitted after it."""
        self.b.ret(I32(0))
        self._entry.branch(self._body)
        text = str(self.module)
        for (
            block
        ) in self.function.blocks:  # breaks the cycles between blocks and instructions, so that memory is freed at once
            block.instructions.clear()
            block.terminator = None
        return text


def as_i64(index: Index) -> ir.Value:
    """`index` as an LLVM value."""
    return _number(index) if isinstance(index, int) else index


@lru_cache(maxsize=1 << 12)
def _number(index: int) -> ir.Constant:
    return I64(index)
