"""Runs a program for onnxruntime on treadle, unchanged: python -m treadle.ort [--strict] PROGRAM.py [ARGUMENTS].

`-m MODULE` in place of the program runs a module. With --strict, models that treadle cannot run are refused; else they
run on onnxruntime itself, where it is installed, with a warning.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from treadle.compat.onnxruntime.install import install


def main(arguments: list[str]) -> int:
    """Run the program that `arguments` name. Returns the exit code of a wrong call; a program ends as it ends."""
    strict = arguments[:1] == ["--strict"]
    if strict:
        arguments = arguments[1:]
    module = arguments[1] if arguments[:1] == ["-m"] and len(arguments) > 1 else None
    if not arguments or (module is None and arguments[0].startswith("-")):
        sys.stderr.write(f"{(__doc__ or '').strip()}\n")
        return 2
    install(strict=strict)
    if module is not None:
        sys.argv = arguments[1:]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return 0
    program = arguments[0]
    if not Path(program).exists():
        sys.stderr.write(f"treadle.ort: there is no program {program!r}\n")
        return 2
    sys.argv = arguments
    sys.path[0] = str(Path(program).resolve().parent)
    runpy.run_path(program, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
