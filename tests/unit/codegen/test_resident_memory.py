"""Memory that is released after a compile."""

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


def test_llvms_code_is_dropped_and_mapped_again() -> None:
    """
    Most of LLVM's code is not resident after a release. A later compile gives the same code.
    """
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    before, after, same = done.stdout.split()
    assert int(before) > 8_000
    assert int(after) < int(before) / 4
    assert same == "True"


def test_only_code_of_the_library_is_dropped() -> None:
    """
    Writable mappings and those of other files are not dropped.
    """
    maps = """1000-2000 r--p 00000000 fe:00 1    /lib/one.so
2000-5000 r-xp 00001000 fe:00 1    /lib/one.so
5000-6000 rw-p 00004000 fe:00 1    /lib/one.so
7000-9000 r-xp 00000000 fe:00 2    /lib/one.so.2
a000-b000 rwxp 00000000 00:00 0
"""
    assert list(resident_memory._executable(maps, "/lib/one.so")) == [(0x2000, 0x3000)]


def test_without_proc_nothing_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The release does nothing if the mappings cannot be read.
    """
    monkeypatch.setattr(resident_memory, "_MAPS", tmp_path / "none")
    resident_memory._code_of.cache_clear()
    resident_memory.release_code("/lib/one.so")
    resident_memory._code_of.cache_clear()
