"""Shared by commands that take a model: options, loading with progress, and inputs from files or at random."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click
import numpy as np

import treadle
from treadle import dtypes
from treadle.compile import runner_of
from treadle.compile_settings import Progress
from treadle.errors import InputError, LimitError, ModelError, ShapeError
from treadle.graph.open_dims import NOTHING, OpenDims
from treadle.graph.shape import elements
from treadle.passes.sample_sizes import large_samples
from treadle.runtime.signature import Tensor

Array = np.ndarray[Any, Any]
Command = Callable[..., None]

_MOST_DIGITS = 100
"""The largest number of digits of a size; Python refuses to parse some thousand."""


@contextmanager
def progress_bar(what: str = "compiling kernels") -> Iterator[Progress | None]:
    """Yields a progress callback that draws on stderr if that is a terminal; None otherwise."""
    if sys.stderr is None or not sys.stderr.isatty():  # None if the shell has closed it
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The model that a command takes, and the options of every such command.

    `files` and `dims` are the values of --input and --dim by name, `begin` and `end` the tensors of --from and --to,
    `signature` that of --signature.
    """

    path: str
    files: dict[str, str]
    dims: dict[str, int]
    begin: tuple[str, ...]
    end: tuple[str, ...]
    math: str
    precision: str
    signature: str | None

    def open_session(
        self, intra: int | None = None, inter: int | None = None, settings: str | None = None
    ) -> treadle.Session:
        """Makes a session of the model, or of its part. `settings` is a file of `treadle tune`."""
        with progress_bar() as report:
            return treadle.Session(
                Path(self.path),
                inputs=self.begin or None,
                outputs=self.end or None,
                signature=self.signature,
                intra_op=intra,
                inter_op=inter,
                settings=settings,
                math=self.math,  # type: ignore[arg-type]
                precision=self.precision,  # type: ignore[arg-type]
                progress=report,
            )

    def make_inputs(self, session: treadle.Session) -> dict[str, Array]:
        """Returns an array for each input; see the function of this name."""
        return make_inputs(session.inputs, self.files, self.dims, runner_of(session).interface.dims)

    def first_run(self, session: treadle.Session) -> tuple[dict[str, Array], dict[str, Any]]:
        """Returns an array for each input, and the outputs; see the function of this name. Says if sizes are large."""
        feed, outputs, sizes = first_run(session, self.files, self.dims)
        if sizes:
            chosen = " ".join(f"--dim {name}={size}" for name, size in sizes.items())
            click.echo(f"the model does not fit the least sizes; ran with {chosen}", err=True)
        return feed, outputs


def model_options(command: Command) -> Command:
    """Adds the argument MODEL and its options; `command` gets them as its first argument, a ModelOptions."""

    @wraps(command)
    def collect(
        model: str,
        inputs: tuple[str, ...],
        dims: tuple[str, ...],
        begin: tuple[str, ...],
        end: tuple[str, ...],
        math: str,
        precision: str,
        signature: str | None,
        **others: Any,
    ) -> None:
        files = parse_pairs(inputs, "--input")
        command(ModelOptions(model, files, parse_dims(dims), begin, end, math, precision, signature), **others)

    part = "at this tensor of a frozen TensorFlow graph."
    form = "An input's values, or the form of random ones, as f32[2,3]; random as declared if not given."
    bf16 = "bf16 lets factors of products be rounded, on CPUs with AVX512_BF16."
    exact = "exact forbids algorithms that round differently."
    for parameter in reversed((
        click.argument("model", type=click.Path()),
        click.option("--input", "inputs", multiple=True, metavar="NAME=FILE.npy", help=form),
        click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE",
                     help="Size of a symbolic dimension of random inputs; 1 if not given."),
        click.option("--from", "begin", multiple=True, metavar="NAME", help=f"Begin {part}"),
        click.option("--to", "end", multiple=True, metavar="NAME", help=f"End {part}"),
        click.option("--signature", metavar="NAME", help="A signature of a SavedModel; serving_default if not given."),
        click.option("--math", type=click.Choice(["fast", "exact"]), default="fast", show_default=True, help=exact),
        click.option("--precision", type=click.Choice(["f32", "bf16"]), default="f32", show_default=True, help=bf16),
    )):  # fmt: skip
        collect = parameter(collect)
    return collect


def parse_pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Parses `NAME=VALUE` options. Raises click.BadParameter for anything else, and for a name given twice."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise click.BadParameter(f"wanted NAME=VALUE, got {text!r}", param_hint=option)
        if name in pairs:
            raise click.BadParameter(f"{name!r} is given twice", param_hint=option)
        pairs[name] = value
    return pairs


def parse_dims(texts: Sequence[str]) -> dict[str, int]:
    """Parses `NAME=SIZE` options. Raises click.BadParameter unless each size is a natural number."""
    dims: dict[str, int] = {}
    for name, value in parse_pairs(texts, "--dim").items():
        size = _whole(value)
        if size is None:
            raise click.BadParameter(f"wanted a size, got {name}={value}", param_hint="--dim")
        dims[name] = size
    return dims


_FORM = re.compile(r"(\w+)\[([\d, ]*)\]")


def make_inputs(
    tensors: Sequence[Tensor], files: Mapping[str, str], dims: Mapping[str, int], declared: OpenDims = NOTHING
) -> dict[str, Array]:
    """Returns an array for each input: from its .npy file, else random with the given or declared dtype and shape.

    Symbolic dimensions are those of `dims`, else 1 or the least that is `declared`. Raises InputError for unknown names
    and unreadable files, LimitError for shapes too large to fill.
    """
    known = {tensor.name for tensor in tensors}
    names = {dim for tensor in tensors for dim in tensor.shape or () if isinstance(dim, str)}
    symbols = (names - declared.derived.keys()) | declared.roots.keys()
    for name in files:
        if name not in known:
            raise InputError(f"--input {name}: the model has no such input; it has {', '.join(sorted(known))}")
    for name in dims:
        if name not in symbols:
            raise InputError(
                f"--dim {name}: the model has no such dimension; it has {', '.join(sorted(symbols)) or 'none'}"
            )
    sizes = {**{name: declared.sample(name, 1) for name in symbols}, **dims}
    sizes.update((name, dim.compute(*(sizes[each] for each in dim.symbols))) for name, dim in declared.derived.items())
    return {tensor.name: _input(tensor, files.get(tensor.name), sizes) for tensor in tensors}


def first_run(
    session: treadle.Session, files: Mapping[str, str], dims: Mapping[str, int]
) -> tuple[dict[str, Array], dict[str, Any], dict[str, int]]:
    """Runs `session` on inputs that it fits.

    Args:
        session: The model.
        files: Inputs, as make_inputs() takes them.
        dims: Sizes of open dimensions; others are the least or, if the model does not fit them, large.

    Returns:
        The inputs, the outputs, and the large sizes that were chosen; none if the least fit.

    Raises:
        TreadleError: As make_inputs() and Session.run() do, for the least sizes.
    """
    declared = runner_of(session).interface.dims
    feed = make_inputs(session.inputs, files, dims, declared)
    try:
        return feed, session.run(feed), {}
    except (ModelError, ShapeError) as error:
        sizes = {name: size for name, size in large_samples(session.graph).items() if name not in dims}
        if not sizes:
            raise
        try:
            feed = make_inputs(session.inputs, files, {**dims, **sizes}, declared)
            return feed, session.run(feed), sizes
        except (ModelError, ShapeError, InputError):
            raise error from None


def _input(tensor: Tensor, file: str | None, sizes: Mapping[str, int]) -> Array:
    form = _FORM.fullmatch(file or "")
    if form is not None and not os.path.exists(form[0]):  # noqa: PTH110 - Path.exists() raises for one too long
        shape = [_size(tensor.name, size) for size in form[2].replace(" ", "").split(",") if size]
        return _made_up(tensor, shape, _dtype(tensor.name, form[1]))
    if file is not None:
        return _loaded(tensor.name, file)
    if tensor.type:
        raise InputError(
            f"input {tensor.name!r} is of type {tensor.type}: commands read and make up tensors of NumPy's own dtypes "
            "only; give it to treadle.Session.run in a program"
        )
    if tensor.shape is None or tensor.dtype is None:
        lacks = "rank" if tensor.dtype is not None else "rank and dtype"
        raise InputError(
            f"input {tensor.name!r} has no declared {lacks}; give it with --input {tensor.name}=FILE.npy, "
            f"or its form alone, as in --input '{tensor.name}=f32[1,3,224,224]'"
        )
    shape = [dim if isinstance(dim, int) else sizes[dim] for dim in tensor.shape]
    return _made_up(tensor, shape, tensor.dtype)


def _size(name: str, text: str) -> int:
    size = _whole(text)
    if size is None:
        raise InputError(f"--input {name}: wanted sizes of up to {_MOST_DIGITS} digits, got one of {len(text)}")
    return size


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _loaded(name: str, file: str) -> Array:
    """Loads the array of a .npy file. Raises InputError."""
    try:
        regular = stat.S_ISREG(os.stat(file).st_mode)  # noqa: PTH116 - Path("") is the folder
        array = np.load(file, allow_pickle=False) if regular else None
    except Exception as error:  # noqa: BLE001 - NumPy parses the header of a file as Python: it may raise what that does
        raise InputError(f"--input {name}: cannot read {file!r} as a .npy file: {error}") from None
    if array is None:
        raise InputError(f"--input {name}: {file!r} is no regular file; wanted a .npy file of one array")
    if not isinstance(array, np.ndarray):
        raise InputError(f"--input {name}: {file!r} is an archive; wanted a .npy file of one array")
    return array


def _dtype(name: str, text: str) -> np.dtype[Any]:
    try:
        return (dtypes.BY_NAME.get(text) or dtypes.from_numpy(np.dtype(text))).numpy
    except TypeError:
        known = ", ".join(dtype.name for dtype in dtypes.ALL)
        raise InputError(f"--input {name}: there is no element type {text!r}; wanted one of {known}") from None


def _made_up(tensor: Tensor, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    try:
        elements(shape)
        return _random(shape, dtype)
    except (LimitError, MemoryError) as error:
        raise LimitError(f"input {tensor.name!r} cannot be made up: {error}; give smaller sizes with --dim") from None


def _random(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Returns seeded values: standard normal for floats, 0 and 1 for integers and bool, empty strings."""
    rng = np.random.default_rng(0)
    if dtype.kind in "biu":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "O":
        return np.full(shape, "", object)
    return rng.standard_normal(shape).astype(dtype)
