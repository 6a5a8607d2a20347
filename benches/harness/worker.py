"""The process of one engine: `python -m benches.harness.worker FACTORY ARGUMENTS required|optional`.

FACTORY is `module:function` and ARGUMENTS a JSON object of its arguments. The function loads the engine and returns the
figures of the load and a function from a question to its answer; all of these are values that JSON can carry. The
process prints `{"ready": figures}`, then reads questions, one a line, and prints `{"answer": ...}` for each. If the
engine is not installed, or cannot load and is optional, it prints `{"missing": reason}` instead and ends.

Only the standard library is imported before the factory, because some benchmarks measure the memory of imports.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

Answer = Callable[[Any], Any]


def main(factory: str, arguments: str, need: str) -> None:
    """Loads the engine, then answers questions until standard input ends."""
    module, _, name = factory.partition(":")
    make = getattr(importlib.import_module(module), name)
    answer: Answer
    try:
        ready, answer = make(**json.loads(arguments))
    except Exception as error:
        if need == "required" and not isinstance(error, ImportError):
            raise
        text = " ".join(str(error).split()) or type(error).__name__
        print(json.dumps({"missing": text[:300]}), flush=True)
        return
    print(json.dumps({"ready": ready}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"answer": answer(json.loads(line))}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
