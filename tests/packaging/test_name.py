"""The project has one name."""

from __future__ import annotations

import subprocess

from tests.packaging.sources import ROOT

FORMER = "tfew"[::-1]
"""Another package on PyPI has this name, so nobody could have installed both."""


def test_nothing_has_the_former_name() -> None:
    """
    Neither file names nor their contents, in any case, in everything that git tracks.
    """
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    paths = [ROOT / name.decode() for name in listed.split(b"\0") if name]
    named = [path for path in paths if FORMER in str(path.relative_to(ROOT)).lower()]
    written = [path for path in paths if path.is_file() and FORMER.encode() in path.read_bytes().lower()]

    assert len(paths) > 500
    assert named == []
    assert written == []
