"""Thread settings, the available names, and the errors for missing ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import treadle
import treadle.compat.torch as torch
from treadle.compat.torch.recording import COMPILED


def test_thread_numbers_can_be_set_at_any_time() -> None:
    """
    More than once, and after work has begun, which PyTorch refuses.
    """
    before = treadle.threads.get()
    torch.ones(2) + 1
    try:
        for number in (2, 3, 1):
            torch.set_num_threads(number)
            torch.set_num_interop_threads(number + 1)
            assert (torch.get_num_threads(), torch.get_num_interop_threads()) == (number, number + 1)
            assert treadle.threads.get() == treadle.threads.get().__class__(number, number + 1, "", "")
        text = torch.__config__.parallel_info()
        assert "at::get_num_threads() : 1 (" in text
        assert "at::get_num_interop_threads() : 2 (" in text
        assert "OMP_NUM_THREADS : " in text
    finally:
        treadle.threads.set(intra_op=before.intra_op, inter_op=before.inter_op)


@pytest.mark.parametrize("name", ["set_num_threads", "set_num_interop_threads"])
def test_invalid_thread_numbers_raise_pytorchs_error(name: str) -> None:
    """
    RuntimeError with PyTorch's message.
    """
    with pytest.raises(RuntimeError, match=f"^{name} expects a positive integer$"):
        getattr(torch, name)(0)
    with pytest.raises(RuntimeError, match=f"^{name} expects an int, but got str$"):
        getattr(torch, name)("two")


def test_backends_report_what_is_available() -> None:
    """
    The instruction set has PyTorch's name.
    """
    for name, provider in (("mkl", "mkl"), ("mkldnn", "onednn")):
        try:
            treadle.threads.set_matmul_provider(provider)
            usable = True
        except treadle.errors.ProviderError:
            usable = False
        finally:
            treadle.threads.set_matmul_provider(None)
        assert getattr(torch.backends, name).is_available() is usable
    assert not torch.backends.cuda.is_available()
    assert torch.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")


def test_a_new_provider_is_reported_and_used_at_once() -> None:
    """
    PyTorch's queries name it, and the next call does not use code compiled for another one.
    """
    x = torch.ones(64, 64)
    assert "matmul: treadle" in torch.backends.treadle.provider()
    assert "matrix products : treadle " in torch.__config__.parallel_info()
    before = (x @ x).numpy()
    treadle.threads.set_matmul_provider("openblas")
    try:
        assert "matmul: openblas" in torch.backends.treadle.provider()
        assert "matrix products : openblas OpenBLAS " in torch.__config__.parallel_info()
        assert "matrix products: openblas" in torch.__config__.show()
        held = set(COMPILED._sessions._entries)
        assert ((x @ x).numpy() == before).all()
        assert {provider for provider, _ in set(COMPILED._sessions._entries) - held} == {"openblas"}
    finally:
        treadle.threads.set_matmul_provider(None)


@pytest.mark.parametrize("module", [torch, torch.nn, torch.nn.functional, torch.jit])
def test_every_listed_name_exists(module) -> None:
    """
    dir() lists exactly the names that work.
    """
    assert dir(module) == sorted(module.__all__)
    for name in dir(module):
        assert getattr(module, name) is not None


def test_missing_names_say_what_to_use() -> None:
    """
    A similar name, an alternative, or where to look.
    """
    for access, text in (
        (lambda: torch.sofmax, r"did you mean torch\.softmax"),
        (lambda: torch.ones(2).cuda, "treadle runs on CPUs"),
        (lambda: torch.optim, "does not train"),
        (lambda: torch.jit.save, "keep the source of the model"),
        (lambda: torch.profiler, r"treadle\.trace"),
        (lambda: torch.utils, "from any number of threads"),
        (lambda: torch.nn.CTCLoss, "has no 'CTCLoss'$"),
        (lambda: torch.foo, "has no 'foo'$"),
        (lambda: torch.byte, "has no 'byte'$"),
        (lambda: torch.ones(2).backward, "no 'backward': treadle runs models and does not train"),
    ):
        with pytest.raises(AttributeError, match=text):
            access()


def test_loading_a_script_without_pytorch_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"PK")
    for name in ("treadle.compat.torch.jit.loaded", "treadle.frontends.torch.methods"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="install torch"):
        torch.jit.load(tmp_path / "model.pt")
    with pytest.raises(ValueError, match="does not exist"):
        torch.jit.load(tmp_path / "other.pt")
