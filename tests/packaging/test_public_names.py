"""What `import weft` offers, and what it costs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import weft

HEAVY = {"numpy", "onnx", "torch", "rich", "click", "llvmlite", "ray", "google.protobuf", "typing", "dataclasses"}


def test_public_names_are_sorted_and_exist() -> None:
    """
    Every name in `__all__` can be had, and nothing else is offered.
    """
    assert sorted(weft.__all__) == weft.__all__
    assert weft.__all__ == dir(weft)
    for name in weft.__all__:
        assert getattr(weft, name) is not None


def test_thread_settings_show_only_what_users_need() -> None:
    """
    `dir(weft.threads)` is its documented functions, each with a docstring.
    """
    assert dir(weft.threads) == weft.threads.__all__
    assert all(getattr(weft.threads, name).__doc__ for name in weft.threads.__all__)


def test_an_unknown_name_lists_the_known_ones() -> None:
    """
    A misspelt name is answered with the names there are.
    """
    with pytest.raises(AttributeError, match=r"it offers .*Session"):
        weft.Sesion  # noqa: B018 - the access is the test


def test_importing_weft_loads_nothing_heavy_and_changes_no_environment() -> None:
    """
    Neither protobuf nor LLVM nor a terminal library comes with `import weft`; `typing` and `dataclasses` would
    be most of its time.
    """
    program = (
        "import json, os, sys; before = dict(os.environ); there = set(sys.modules); import weft; weft.__version__;"
        "print(json.dumps([sorted(set(sys.modules) - there), before == dict(os.environ)]))"
    )
    loaded, same = json.loads(subprocess.check_output([sys.executable, "-c", program], text=True))

    assert not HEAVY & set(loaded)
    assert same


def test_the_version_is_that_of_the_distribution() -> None:
    """
    `weft.__version__` and the package's metadata agree.
    """
    from importlib.metadata import version

    assert weft.__version__ == version("weft")
