"""The kinds of some contents, with their scores."""

from __future__ import annotations

from collections.abc import Callable

from magika import Magika

CONTENTS = (
    b"def f(x):\n    return x + 1\n\nimport os\nclass A:\n    pass\n",
    b"<html><body><p>hi there</p></body></html>",
    b"#include <stdio.h>\nint main(void) { return 0; }\n",
    b"SELECT name, size FROM files WHERE size > 10 ORDER BY name;\n",
)


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Load the model; what is returned finds the kinds."""
    magika = Magika()

    def answers() -> list[tuple[str, float]]:
        found = [magika.identify_bytes(content) for content in CONTENTS]
        return [(each.output.label, float(each.score)) for each in found]

    return answers
