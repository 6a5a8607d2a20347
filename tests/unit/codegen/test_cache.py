"""The on-disk kernel cache, and libraries built through it."""

import gc
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from treadle.codegen import build, cache, jit
from treadle.codegen import target as targets
from treadle.codegen.cache import KernelCache, cache_folder, generator_hash, generator_sources, kernel_key, open_cache
from treadle.dtypes import f32, f64
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.kernels.copy_bytes import CopyBytesSpec
from treadle.plan.kernels.reorder import ReorderSpec
from treadle.plan.kernels.trilu import TriluSpec

_SPEC = CopyBytesSpec()
_OTHER = ReorderSpec(dtype=f32, block=4, side=4, to_blocked=True)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder for this test, and no kernels linked in the process."""
    path = tmp_path / "cache"
    monkeypatch.setenv("TREADLE_CACHE", str(path))
    monkeypatch.delenv("TREADLE_CACHE_MB", raising=False)
    cache._warn.cache_clear()
    build._linked.clear()
    build._recent.clear()
    yield path
    build._linked.clear()


def _counts(*specs: KernelSpec) -> tuple[int, int, int]:
    build._recent.clear()
    built = build.build_kernels(specs, targets.detect())
    assert set(built.addresses) == set(specs)
    return built.compiled, built.loaded, built.shared


def test_the_second_build_compiles_nothing(folder: Path) -> None:
    """
    Kernels are compiled once, then read from disk. Repeated specs count once.
    """
    assert _counts(_SPEC, _OTHER, _SPEC) == (2, 0, 0)
    gc.collect()
    assert _counts(_SPEC, _OTHER) == (0, 2, 0)
    assert len(list(folder.iterdir())) == 2


def test_kernels_in_use_are_shared() -> None:
    """
    A kernel that this process has linked is neither compiled, read nor linked again.
    """
    first = build.build_kernels([_SPEC], targets.detect())
    second = build.build_kernels([_SPEC, _OTHER], targets.detect())
    assert (second.compiled, second.shared) == (1, 1)
    assert first.addresses[_SPEC] == second.addresses[_SPEC]


def test_recently_used_kernels_are_shared() -> None:
    """
    An unused kernel stays linked for a while, so that short-lived sessions link nothing.
    """
    address = build.build_kernels([_SPEC], targets.detect()).addresses[_SPEC]
    gc.collect()
    again = build.build_kernels([_SPEC], targets.detect())

    assert (again.shared, again.addresses[_SPEC]) == (1, address)


def test_a_plan_without_kernels_builds() -> None:
    """
    The set of kernels is empty.
    """
    assert _counts() == (0, 0, 0)


def test_the_folder_and_its_files_are_private(folder: Path) -> None:
    """
    Only the user can read or write code that processes execute.
    """
    _counts(_SPEC)
    assert folder.stat().st_mode & 0o777 == 0o700
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "grow", "other kernel"])
def test_a_damaged_file_is_recompiled_and_replaced(folder: Path, damage: str) -> None:
    """
    Code with a wrong hash is never executed. It is replaced without a warning.
    """
    _counts(_SPEC)
    (file,) = folder.iterdir()
    content = file.read_bytes()
    if damage == "other kernel":
        with open_cache() as opened:
            assert opened is not None
            opened.store("other", content[100:])
        (folder / "other").rename(file)
    else:
        middle = len(content) // 2
        damaged = {
            "flip": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            "cut": content[:middle],
            "empty": b"",
            "grow": content + b"x",
        }
        file.write_bytes(damaged[damage])
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _counts(_SPEC) == (1, 0, 0)
    assert file.read_bytes() == content


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o701])
def test_a_folder_open_to_others_is_refused_with_one_warning(folder: Path, mode: int) -> None:
    """
    The message names the fault and the remedy. Kernels are compiled nevertheless.
    """
    folder.mkdir()
    folder.chmod(mode)
    with pytest.warns(RuntimeWarning, match=f"mode {mode:04o}.*chmod 700"):
        assert _counts(_SPEC) == (1, 0, 0)
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _counts(_SPEC) == (1, 0, 0)
    assert not list(folder.iterdir())


def test_a_folder_of_another_user_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Code that another user could have written is not executed.
    """
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.warns(RuntimeWarning, match="belongs to user"):
        assert _counts(_SPEC) == (1, 0, 0)


def test_a_path_of_a_file_is_refused(folder: Path) -> None:
    """
    A path that is not a folder causes a warning, not an error.
    """
    folder.write_text("")
    with pytest.warns(RuntimeWarning, match="cannot be kept"):
        assert _counts(_SPEC) == (1, 0, 0)


def test_off_stores_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """
    TREADLE_CACHE=off touches no disk.
    """
    monkeypatch.setenv("TREADLE_CACHE", "off")
    monkeypatch.chdir(tmp_path)
    assert _counts(_SPEC) == (1, 0, 0)
    assert not list(tmp_path.iterdir())


def test_the_default_folder_follows_the_desktop_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    XDG_CACHE_HOME is used if it is absolute, else ~/.cache.
    """
    monkeypatch.delenv("TREADLE_CACHE")
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/treadle")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path("/home/someone/.cache/treadle")


@pytest.mark.parametrize("home", ["", "relative"])
@pytest.mark.parametrize("setting", [None, "~/kernels"])
def test_an_empty_home_is_no_home(home: str, setting: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Nothing is written to the root folder, nor to that of the process.
    """
    monkeypatch.setenv("HOME", home)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if setting is None:
        monkeypatch.delenv("TREADLE_CACHE")
    else:
        monkeypatch.setenv("TREADLE_CACHE", setting)

    assert cache_folder() is None
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_folder() == Path("/home/someone/kernels" if setting else "/home/someone/.cache/treadle")


def test_what_is_no_file_is_missing(folder: Path) -> None:
    """
    A FIFO or a folder under a kernel's name neither blocks nor fails: the kernel is compiled.
    """
    assert _counts(_SPEC) == (1, 0, 0)
    (kernel,) = folder.iterdir()
    kernel.unlink()
    os.mkfifo(kernel)
    gc.collect()
    assert _counts(_SPEC) == (1, 0, 0)
    assert kernel.is_file(), "replaced"
    kernel.unlink()
    kernel.mkdir()
    with open_cache() as opened:
        assert opened is not None
        assert opened.load(kernel.name) is None
        assert opened.open(kernel.name) is None


def test_the_least_recently_used_files_are_removed(folder: Path) -> None:
    """
    Beyond the limit, down to seven eighths of it. Unfinished files of dead writers are removed too.
    """
    with open_cache() as opened:
        assert opened is not None
        for age in range(4):
            opened.store(f"k{age}", bytes(400))
            os.utime(folder / f"k{age}", (1e9 - age, 1e9 - age))
        (folder / "dead.partial").write_bytes(b"x")
        os.utime(folder / "dead.partial", (1e9, 1e9))
        assert opened.load("k3") == bytes(400)
        small = KernelCache(opened._folder, folder, 1100)
        small.store("new", b"")
        small.trim()
        assert {path.name for path in folder.iterdir()} == {"new", "k0", "k3"}


def test_a_folder_is_looked_through_when_it_may_be_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    At the first store of a process, then after a quarter of what was free: not at each store, which takes the longer
    the more files there are.
    """
    looked: list[int] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looked.append(len([*folder.iterdir()])) or scan(path))
    monkeypatch.setenv("TREADLE_CACHE_MB", "1")

    for number in range(40):
        with open_cache() as opened:
            assert opened is not None
            opened.store(f"k{number}", bytes(50_000))
        assert sum(path.stat().st_size for path in folder.iterdir()) <= 1 << 20
    assert looked[:3] == [1, 6, 10]
    assert len(looked) < 30


def test_the_key_covers_everything_that_shapes_the_code() -> None:
    """
    Different parameters, targets and generators have different keys.
    """
    here, generic = targets.detect(), targets.for_isa("generic")
    specs = [_OTHER, replace(_OTHER, dtype=f64), TriluSpec(size=4, upper=True)]
    keys = {kernel_key(spec, target) for spec in specs for target in (here, generic)}
    assert len(keys) == (6 if here != generic else 3)
    assert len(generator_hash()) == 64


def test_the_key_depends_on_every_generator_and_record() -> None:
    """
    A kernel from before a change of its generator would otherwise be used after it.
    """
    parts = ("treadle.codegen.kernels.", "treadle.codegen.emit.", "treadle.plan.kernels.")
    loaded = {Path(str(module.__file__)) for name, module in sys.modules.items() if name.startswith(parts)}

    assert len(loaded) > 50
    assert loaded <= set(generator_sources())


def test_threads_that_build_the_same_kernels_compile_them_once() -> None:
    """
    Sessions made in many threads at the same time share the work.
    """
    built: list[build.KernelSet] = []
    workers = [
        threading.Thread(target=lambda: built.append(build.build_kernels([_SPEC, _OTHER], targets.detect())))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sum(one.compiled for one in built) == 2
    assert len({one.addresses[_SPEC] for one in built}) == 1


def test_concurrent_writers_leave_complete_files(folder: Path) -> None:
    """
    A reader never sees a part of a file while several processes write it.
    """
    script = (
        "from treadle.codegen.cache import open_cache\n"
        "with open_cache() as c:\n"
        "    for i in range(200):\n"
        "        c.store('key', bytes(5000))\n"
        "        assert c.load('key') == bytes(5000)\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2)]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert [path.name for path in folder.iterdir()] == ["key"]


def test_progress_counts_only_kernels_that_are_compiled() -> None:
    """
    It counts up to the number of kernels missing on disk, and is not called if there are none.
    """
    told: list[tuple[int, int]] = []
    build.build_kernels([_SPEC], targets.detect())
    gc.collect()
    build.build_kernels([_SPEC, _OTHER], targets.detect(), lambda done, total: told.append((done, total)))
    assert told == [(0, 1), (1, 1)]


def test_a_failed_write_is_one_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    On a full disk nothing is cached, but the run succeeds.
    """

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert _counts(_SPEC) == (1, 0, 0)
    assert not list(folder.iterdir())


def test_a_read_only_folder_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    As in a container's image, where not even the date of a file can be set.
    """
    assert _counts(_SPEC) == (1, 0, 0)
    gc.collect()

    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", read_only)
    assert _counts(_SPEC) == (0, 1, 0)
    with open_cache() as opened:
        assert opened is not None
        file = opened.open(next(folder.iterdir()).name)
        assert file is not None
        os.close(file)


def test_objects_from_disk_run(folder: Path) -> None:
    """
    The loaded code equals the compiled code.
    """
    target = targets.detect()
    build.build_kernels([_SPEC], target)
    with open_cache() as opened:
        assert opened is not None
        assert opened.load(kernel_key(_SPEC, target)) == jit.compile_kernel(_SPEC, target)
