"""The README's example runs, and no link of the documents is broken."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import onnx

from tests.models import small
from tests.packaging.sources import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def vision_model() -> onnx.ModelProto:
    """A model with the input and output that the README's example has."""
    w = small.ModelWriter()
    x = w.op("Conv", "x", w.random(4, 3, 3, 3))
    w.op("GlobalAveragePool", x)
    w.nodes[-1].output[0] = "y"
    return w.model({"x": (small.FLOAT, [1, 3, 224, 224])}, {"y": (small.FLOAT, [1, 4, 1, 1])})


def test_the_example_runs(tmp_path: Path) -> None:
    """
    The README's first block of Python is a complete program.
    """
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[:1]
    onnx.save(vision_model(), tmp_path / "model.onnx")

    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run.json").exists()


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page: its headings in lower case, words joined by hyphens."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_every_link_of_the_documents_works() -> None:
    """
    Each link names a file of the repository and, after #, a heading of it.
    """
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "native" / "README.md"]
    broken = []
    for page in pages:
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            file, _, anchor = target.partition("#")
            aim = page.parent / file if file else page
            if not target.startswith("http") and (not aim.exists() or (anchor and anchor not in anchors(aim))):
                broken.append(f"{page.name}: {target}")

    assert not broken


def test_no_file_names_a_path_of_one_machine() -> None:
    """
    No file contains an absolute path of the machine on which it was written.
    """
    suffixes = {".py", ".md", ".h", ".cpp", ".toml", ".txt", ".pyi"}
    files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split()
    named = [name for name in files if Path(name).suffix in suffixes and "/work" + "/" in (ROOT / name).read_text()]

    assert not named
