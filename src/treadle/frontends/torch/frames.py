"""The state of an interpreter: its stack of blocks, and copies of what the rest of these blocks reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.build import Complex, Number
from treadle.frontends.torch.scalars import scalar
from treadle.frontends.torch.stacks import Joined, Stack
from treadle.frontends.torch.tensor import Box
from treadle.graph.dim import is_expression
from treadle.graph.value import Value

Env = dict[str, Any]
"""What is known by the names of a graph: Boxes, Numbers, Stacks, Python values, and lists of them."""

BEFORE = "before "
"""What the name of a list begins with in an environment that has its earlier entries."""

ARGUMENTS = ""
"""The name in an environment of the arguments of its graph, which the code that called it may hold too."""

Swap = Callable[[Any], Any]
"""A value, an expression of sizes, or a Place -> what takes its place."""


@dataclass(frozen=True, slots=True)
class Part:
    """A module of the script, with its path from the outermost module."""

    module: Any
    path: str


@dataclass(frozen=True, slots=True)
class Future:
    """The result of a fork, whose body is in the graph already."""

    result: Any


class State(Protocol):
    """The state of an interpreter of a program."""

    def copied(self, swap: Swap) -> State:
        """Return a copy that shares nothing with this one that is changed later.

        It has what the rest of the program reads. `swap` says what takes the place of values and expressions in it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Stands for a Python number: the element of an operand."""

    number: int


@dataclass(frozen=True, slots=True)
class Rounds:
    """Which iteration of a loop runs, and how many there are at most."""

    step: int
    most: int


@dataclass(slots=True)
class Frame:
    """A block that is being run.

    Attributes:
        block: The block, or a graph.
        env: What is known by names.
        node: The node whose block it is; None for the outermost one.
        outer: What is known around the node.
        rounds: What there is of a block of a loop.
        scope: The name of a fork.
        at: The number of the next node.
        watched: The names of lists to which it may append. Their entries before it are known by BEFORE.
    """

    block: Any
    env: Env
    node: Any = None
    outer: Env = field(default_factory=dict)
    rounds: Rounds | None = None
    scope: str = ""
    at: int = 0
    nodes: Sequence[Any] = ()
    watched: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.nodes = self.nodes or list(self.block.nodes())

    def start(self, args: Sequence[Any]) -> None:
        """Begin the block, with `args` for its inputs."""
        self.at = 0
        self.env.update(
            (value.debugName(), argument) for value, argument in zip(self.block.inputs(), args, strict=True)
        )

    def results(self) -> list[Any]:
        """Return the results of the block, then what it has appended to each list that is watched.

        Raises Unsupported if it has changed such a list otherwise.
        """
        around = [self.env[name] for name in self.watched]
        added = [added_entries(self.env[name], self.env[BEFORE + name], around) for name in self.watched]
        return [*(self.env[value.debugName()] for value in self.block.outputs()), *added]

    def watch(self, names: Sequence[str]) -> None:
        """Watch what is appended to the lists of these names."""
        self.watched = tuple(names)
        self.env.update((BEFORE + name, _with_same_entries(self.env[name])) for name in names)

    def finish(self, results: Sequence[Any]) -> None:
        """Give the node around the block its results."""
        names = [value.debugName() for value in self.node.outputs()]
        self.outer.update(zip(names, results, strict=True))

    def reads(self) -> set[str]:
        """Return the names that the rest of the block reads."""
        nodes = self.nodes[self.at :] if self.rounds is None else self.nodes
        outputs = {value.debugName() for value in self.block.outputs()}
        return {*_names_read(nodes), *outputs, *self.watched, *(BEFORE + name for name in self.watched)}


def added_entries(held: Any, before: Any, around: Sequence[Any]) -> list[Any] | Stack:
    """Return what was appended to a list whose entries were `before`.

    Raises Unsupported if it was changed otherwise, or one of the lists `around` it was appended.
    """
    if isinstance(held, Stack) and before == []:
        return held
    if _entries(held) == _entries(before):
        return []
    if not isinstance(held, list) or _entries(held[: len(before)]) != _entries(before):
        raise Unsupported("a body changes a list or dictionary of the code around it by more than appending to it")
    added = held[len(before) :]
    if any(entry is other for entry in added for other in around):
        raise Unsupported("a body appends a list of the code around it, which may change later")
    return added


def _entries(held: Any) -> Any:
    """Return what identifies the entries of lists and dictionaries in `held`, and of those in them."""
    if isinstance(held, list):
        return [_entries(entry) for entry in held]
    if isinstance(held, dict):
        return {key: _entries(entry) for key, entry in held.items()}
    return id(held)


def _with_same_entries(held: Any) -> Any:
    """Return copies of `held` and of the lists and dictionaries in it, with the same entries."""
    if isinstance(held, list):
        return [_with_same_entries(entry) for entry in held]
    if isinstance(held, dict):
        return {key: _with_same_entries(entry) for key, entry in held.items()}
    return held


def _names_read(nodes: Iterable[Any]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        found.update(value.debugName() for value in node.inputs())
        for block in node.blocks():
            found |= _names_read(block.nodes())
            found.update(value.debugName() for value in block.outputs())
    return found


@dataclass(frozen=True, slots=True)
class Blocks:
    """The state of an interpreter of a script: the blocks that it is inside of, outermost first."""

    frames: list[Frame]

    def copied(self, swap: Swap) -> Blocks:
        """Return a copy, as of State."""
        return Blocks(copied_frames(self.frames, swap))


def copied_frames(frames: Sequence[Frame], swap: Swap) -> list[Frame]:
    """Return copies of `frames` that share nothing with them that the interpreter changes.

    They have what the rest of the blocks reads. `swap` says what takes the place of values and expressions in it.
    """
    memo: dict[int, tuple[Any, Any]] = {}
    reads: dict[int, set[str]] = {}
    envs: dict[int, Env] = {}
    for frame in frames:
        reads.setdefault(id(frame.env), set()).update(frame.reads())
        envs[id(frame.env)] = frame.env
    made: dict[int, Env] = {}
    for key, env in envs.items():
        held = {name: env[name] for name in sorted(reads[key]) if name in env}
        held[ARGUMENTS] = [each for each in env.get(ARGUMENTS, ()) if isinstance(each, list | dict)]
        made[key] = {name: copied(each, swap, memo) for name, each in held.items()}
    return [
        replace(
            frame,
            env=made[id(frame.env)],
            outer=made.get(id(frame.outer), {}),
            rounds=None if frame.rounds is None else replace(frame.rounds, most=copied(frame.rounds.most, swap, memo)),
        )
        for frame in frames
    ]


def copied(held: Any, swap: Swap, memo: dict[int, tuple[Any, Any]]) -> Any:
    """Return a copy of an object of an environment. Names that share an object share its copy."""
    found = memo.get(id(held))
    if found is not None:
        return found[1]

    def inner(each: Any) -> Any:
        return copied(each, swap, memo)

    if isinstance(held, list | dict):  # it may hold itself
        made: Any = [] if isinstance(held, list) else {}
        memo[id(held)] = held, made
        if isinstance(held, list):
            made.extend(map(inner, held))
        else:
            made.update((key, inner(each)) for key, each in held.items())
        return made
    copy = _COPIES.get(type(held))
    if copy is not None:
        made = copy(held, inner, swap)
    elif isinstance(held, Place) or is_expression(held):
        made = swap(held)
    else:
        made = held
    memo[id(held)] = held, made  # held too, whose identity stays its own
    return made


def _copied_number(held: Number, inner: Swap, swap: Swap) -> Any:  # noqa: ARG001 - as all copies
    """Return the number itself if that is known now."""
    value = swap(held.value)
    return held if value is held.value else scalar(value)


_COPIES: dict[type, Callable[[Any, Swap, Swap], Any]] = {
    Box: lambda held, inner, _: held.copy(inner),
    Complex: lambda held, _, swap: Complex(swap(held.re), swap(held.im)),
    Future: lambda held, inner, _: Future(inner(held.result)),
    Joined: lambda held, inner, swap: Joined(swap(held.value), held.rank, inner(held.count)),
    Number: _copied_number,
    Stack: lambda held, _, swap: Stack(swap(held.value), held.depth),
    Value: lambda held, _, swap: swap(held),
    tuple: lambda held, inner, _: tuple(map(inner, held)),
}
"""What an environment holds -> its copy, by (it, what copies other things, what swaps values)."""
