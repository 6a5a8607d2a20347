"""Memory that compiling gives back."""

import subprocess
import sys
from pathlib import Path

import pytest

from treadle.codegen import resident_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

_SCRIPT = """
import re, sys
from treadle.codegen import jit
from treadle.codegen import target as targets
from treadle.dtypes import f32
from treadle.plan.kernels.reorder import ReorderSpec

def resident():
    text = open("/proc/self/smaps").read()
    mapping = r" r-xp [^\\n]*llvmlite[^\\n]*\\n(?:(?!Rss)[^\\n]*\\n)*Rss: +(\\d+)"
    return sum(int(match[1]) for match in re.finditer(mapping, text))

spec = ReorderSpec(dtype=f32, block=4, side=4, to_blocked=True)
first = jit.compile_kernel(spec, targets.detect())
before = resident()
jit.release_memory()
after = resident()
print(before, after, jit.compile_kernel(spec, targets.detect()) == first)
"""


def test_llvms_code_leaves_memory_and_comes_back() -> None:
    """
    After compiling, most of LLVM's code is not resident any more; what it compiles then is the same.
    """
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    before, after, same = done.stdout.split()
    assert int(before) > 8_000
    assert int(after) < int(before) / 4
    assert same == "True"


def test_only_code_of_the_library_itself_is_dropped() -> None:
    """
    Mappings that were or may be written, and those of other files, are left alone.
    """
    maps = """1000-2000 r--p 00000000 fe:00 1    /lib/one.so
2000-5000 r-xp 00001000 fe:00 1    /lib/one.so
5000-6000 rw-p 00004000 fe:00 1    /lib/one.so
7000-9000 r-xp 00000000 fe:00 2    /lib/one.so.2
a000-b000 rwxp 00000000 00:00 0
"""
    assert list(resident_memory._executable(maps, "/lib/one.so")) == [(0x2000, 0x3000)]


def test_where_nothing_can_be_read_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Without /proc the memory stays as it is.
    """
    monkeypatch.setattr(resident_memory, "_MAPS", tmp_path / "none")
    resident_memory._code_of.cache_clear()
    resident_memory.release_code("/lib/one.so")
    resident_memory._code_of.cache_clear()
