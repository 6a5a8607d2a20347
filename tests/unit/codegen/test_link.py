"""Kernels linked without LLVM."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest

from treadle.codegen import build, jit
from treadle.codegen import target as targets
from treadle.codegen.link import LinkedCode, LinkError
from treadle.dtypes import f32
from treadle.plan.kernels.copy_bytes import CopyBytesSpec
from treadle.plan.kernels.reorder import ReorderSpec

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not targets.detect().triple.startswith("x86_64"), reason="links for x86-64 Linux only"
)

_SPEC = CopyBytesSpec()
_CALLS = """
declare i8* @memset(i8*, i32, i64)
@numbers = private constant [4 x i64] [i64 3, i64 5, i64 7, i64 11]
define i64 @fills(i8* %to, i64 %count) {
  call i8* @memset(i8* %to, i32 42, i64 %count)
  %at = getelementptr [4 x i64], [4 x i64]* @numbers, i64 0, i64 2
  %number = load volatile i64, i64* %at
  ret i64 %number
}
"""


_ALIGNED = """
@numbers = private constant [2 x i64] [i64 3, i64 5], align {alignment}
define i64* @f() {{
  ret i64* getelementptr ([2 x i64], [2 x i64]* @numbers, i64 0, i64 1)
}}
"""


def compiled(text: str) -> bytes:
    target = targets.detect()
    return jit.compile_ir(f'target triple = "{target.triple}"\n{text}', target)


def test_functions_of_the_c_library_and_constants_are_reached() -> None:
    """
    A call of the C library and a reference to a constant are resolved.
    """
    code = LinkedCode([("fills", compiled(_CALLS))])
    memory = np.zeros(8, np.uint8)

    fills = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(code.addresses["fills"])

    assert fills(memory.ctypes.data, 5) == 7
    assert memory.tolist() == [42] * 5 + [0] * 3


@pytest.mark.parametrize("alignment", [8, 64, 128, 512, 4096])
def test_constants_are_aligned_as_they_ask(alignment: int) -> None:
    """
    Up to a page, also where other objects lie before them: tables of wide vectors need not be linked by LLVM.
    """
    code = LinkedCode([("fills", compiled(_CALLS)), ("f", compiled(_ALIGNED.format(alignment=alignment)))])
    address = ctypes.CFUNCTYPE(ctypes.c_size_t)(code.addresses["f"])()

    assert ctypes.c_int64.from_address(address).value == 5
    assert (address - 8) % alignment == 0


def test_every_truncated_object_is_refused() -> None:
    """
    A truncated object raises LinkError and never crashes.
    """
    whole = jit.compile_kernel(_SPEC, targets.detect())
    for length in range(0, len(whole), 7):
        with pytest.raises(LinkError):
            LinkedCode([(_SPEC.symbol, whole[:length])])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("@state = global i64 0\ndefine i64* @f() {\n  ret i64* @state\n}", "section of kind|relocation"),
        (
            "declare i64 @no_such_function()\ndefine i64 @f() {\n  %r = call i64 @no_such_function()\n  ret i64 %r\n}",
            "no function",
        ),
        (_ALIGNED.format(alignment=1 << 20), "aligned to 1048576 bytes"),
        ("define i64 @other() {\n  ret i64 0\n}", "no function f"),
    ],
)
def test_unsupported_objects_are_refused(text: str, fault: str) -> None:
    """
    Writable data, unknown functions and objects without the function raise LinkError.
    """
    with pytest.raises(LinkError, match=fault):
        LinkedCode([("f", compiled(text))])


def test_llvm_links_refused_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The library works whether LLVM or treadle linked it.
    """

    def refuse(objects: object) -> None:
        raise LinkError("refused")

    monkeypatch.setattr(build, "LinkedCode", refuse)
    spec = ReorderSpec(dtype=f32, block=4, side=4, to_blocked=True)
    one = build.ObjectCode(str(spec), spec.symbol, jit.compile_kernel(spec, targets.detect()))

    assert build.Library([one]).addresses[str(spec)] > 0


def test_code_cannot_be_written() -> None:
    """
    Executable memory is not writable.
    """
    code = LinkedCode([(_SPEC.symbol, jit.compile_kernel(_SPEC, targets.detect()))])
    address = code.addresses[_SPEC.symbol]
    spans = [line.split()[:2] for line in Path("/proc/self/maps").read_text().splitlines()]
    rights = [mode for span, mode in spans if int(span.split("-")[0], 16) <= address < int(span.split("-")[1], 16)]

    assert rights == ["r-xp"]
