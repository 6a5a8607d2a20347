"""Prints the kinds of some contents, with their scores, by magika."""

from __future__ import annotations

import json

from magika import Magika

CONTENTS = (
    b"def f(x):\n    return x + 1\n\nimport os\nclass A:\n    pass\n",
    b"<html><body><p>hi there</p></body></html>",
    b"#include <stdio.h>\nint main(void) { return 0; }\n",
    b"SELECT name, size FROM files WHERE size > 10 ORDER BY name;\n",
)

found = [Magika().identify_bytes(content) for content in CONTENTS]
print(json.dumps([[each.output.label, float(each.score)] for each in found]))
