"""What `import treadle` offers, and what it costs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import treadle

HEAVY = {"numpy", "onnx", "torch", "rich", "click", "llvmlite", "ray", "google.protobuf", "typing", "dataclasses"}


def test_public_names_are_sorted_and_exist() -> None:
    """
    Every name in `__all__` can be had, and nothing else is offered.
    """
    assert sorted(treadle.__all__) == treadle.__all__
    assert treadle.__all__ == dir(treadle)
    for name in treadle.__all__:
        assert getattr(treadle, name) is not None


def test_thread_settings_show_only_what_users_need() -> None:
    """
    `dir(treadle.threads)` is its documented functions, each with a docstring.
    """
    assert dir(treadle.threads) == treadle.threads.__all__
    assert all(getattr(treadle.threads, name).__doc__ for name in treadle.threads.__all__)


def test_an_unknown_name_lists_the_known_ones() -> None:
    """
    A misspelt name is answered with the names there are.
    """
    with pytest.raises(AttributeError, match=r"it offers .*Session"):
        treadle.Sesion  # noqa: B018 - the access is the test


def test_importing_treadle_loads_nothing_heavy_and_changes_no_environment() -> None:
    """
    Neither protobuf nor LLVM nor a terminal library comes with `import treadle`; `typing` and `dataclasses` would
    be most of its time.
    """
    program = (
        "import json, os, sys; before = dict(os.environ); there = set(sys.modules);"
        "import treadle; treadle.__version__;"
        "print(json.dumps([sorted(set(sys.modules) - there), before == dict(os.environ)]))"
    )
    loaded, same = json.loads(subprocess.check_output([sys.executable, "-c", program], text=True))

    assert not HEAVY & set(loaded)
    assert same


def test_the_version_is_that_of_the_distribution() -> None:
    """
    `treadle.__version__` and the package's metadata agree.
    """
    from importlib.metadata import version

    assert treadle.__version__ == version("treadle")
