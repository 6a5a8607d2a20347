"""Tokens of the text form of graphs, and a cursor over them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from treadle.errors import GraphError
from treadle.records import dataclass

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\#[^\n]*)
      | (?P<newline>\n)
      | (?P<value>%(?:[A-Za-z0-9_./$-]+|"(?:[^"\\\n]|\\.)*"))
      | (?P<label>@(?:[A-Za-z0-9_./$-]+|"(?:[^"\\\n]|\\.)*"))
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<hash>sha256:[0-9a-f]+)
      | (?P<opaque><[^>\n]*>+)
      | (?P<number>-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf\b|nan\b))
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<mark>[?\[\](){},:;=])
    """,
    re.VERBOSE,
)

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Token:
    """A word, number, name or mark, with its line number."""

    kind: str
    text: str
    line: int


def tokens(text: str) -> list[Token]:
    """The tokens of `text`, the last one of kind `end`. Raises GraphError, naming the line, for what is none."""
    found: list[Token] = []
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise GraphError(f"line {line}: {text[at : at + 12]!r} is no part of a graph's text form")
        kind = match.lastgroup or ""
        if kind == "newline":
            line += 1
        elif kind != "space":
            found.append(Token(kind, match.group(), line))
        at = match.end()
    return [*found, Token("end", "the end of the text", line)]


class Cursor:
    """A position among tokens. Its methods raise GraphError, naming the line, for an unexpected token."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self.at = 0

    @property
    def token(self) -> Token:
        """The next one."""
        return self._tokens[self.at]

    def fail(self, message: str) -> NoReturn:
        """Raises GraphError at the next token."""
        raise GraphError(f"line {self.token.line}: {message}")

    def refuse(self, message: str) -> NoReturn:
        """Raises GraphError at the token just taken."""
        self.at -= 1
        self.fail(message)

    def take(self, kind: str, wanted: str) -> str:
        """The text of the next token, which must be of `kind`."""
        token = self.token
        if token.kind != kind:
            self.fail(f"wanted {wanted}, got {token.text!r}")
        self.at += 1
        return token.text

    def skip(self, text: str) -> bool:
        """Pass over the next token if it is `text`."""
        if self.token.text != text or self.token.kind == "string":
            return False
        self.at += 1
        return True

    def want(self, text: str) -> None:
        """Pass over the next token, which must be `text`."""
        if not self.skip(text):
            self.fail(f"wanted {text!r}, got {self.token.text!r}")

    def list_of(self, item: Callable[[], _Item], close: str) -> list[_Item]:
        """Items separated by commas, up to `close`, which is passed over; the last comma may dangle."""
        found: list[_Item] = []
        while not self.skip(close):
            found.append(item())
            if not self.skip(","):
                self.want(close)
                break
        return found


def number(text: str) -> int | float:
    """Returns the value of a number token."""
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def unquoted(text: str) -> str:
    """A name without the quotes that it may have."""
    return str(json.loads(text)) if text.startswith('"') else text
