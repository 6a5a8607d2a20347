"""PyTorch programs with open dimensions are compiled once, and check the sizes that they are given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/test_torch installs and uses it)")

import torch.nn.functional as F  # noqa: E402, N812 - after the skip; the usual name
from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402

import treadle  # noqa: E402
from tests.unit.cli.test_commands import treadle as command  # noqa: E402
from tests.unit.frontends.torch.running import assert_same, run, traced  # noqa: E402
from tests.unit.frontends.torch.test_ops import CASES  # noqa: E402
from treadle import dtypes  # noqa: E402
from treadle.codegen.target import detect  # noqa: E402
from treadle.driver import Options, compile_open  # noqa: E402
from treadle.frontends.torch import load  # noqa: E402
from treadle.graph.value import Value  # noqa: E402
from treadle.runtime.per_size import PerSize  # noqa: E402
from treadle.runtime.pool import threads_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*", "ignore::FutureWarning")


def encoder() -> Any:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()


class Step(nn.Module):
    """Causal attention, positions, a last token and a size: what decoders do with their length."""

    def forward(self, x: Any) -> Any:
        heads = x.view(x.shape[0], x.shape[1], 4, 8).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        shifted = mixed.transpose(1, 2).flatten(2) + torch.arange(x.shape[1])[None, :, None]
        return shifted, x[:, -1], x.mean(1) * x.shape[1], x.shape[1] // 2


class Joined(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return torch.cat([x, y]).relu(), x.shape[0] * 2


class Halves(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.mul(*x.chunk(2, 0))


class Starred(nn.Module):
    def forward(self, *a: Any) -> Any:
        return a[0][: a[0].shape[0] // 2] + a[1]


class Mapped(nn.Module):
    """A module whose forward is `function`, of one tensor [n, 6]."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


COMPUTED: dict[str, Any] = {
    "twice and half": lambda x: (torch.zeros(x.shape[0] * 2, 2), x.new_ones(x.shape[0] // 2 + 1), x.numel()),
    "least and largest": lambda x: (x[: min(x.shape[0], 5)], torch.ones(max(x.shape[0], 6))),
    "joined, repeated, viewed": lambda x: torch.cat([x, x.repeat(2, 1)]).view(-1, 2),
    "size of a result": lambda x: torch.arange(torch.cat([x, x.repeat_interleave(3, 0)]).shape[0] // 2),
    "padded to a multiple": lambda x: F.pad(x, (0, 0, 0, -x.shape[0] % 4)).unflatten(0, (-1, 4)),
    "cropped or padded": lambda x: F.pad(x, (0, 0, 0, x.shape[0] - 7)),
    "square root": lambda x: (x / x.shape[0] ** 0.5, x * (x.shape[1] * x.shape[0]) ** -0.5),
    "a decomposition": lambda x: (F.cosine_similarity(x, x + 1), x.diff(dim=0), x.tile(2, 2)),
    "a decomposed view": lambda x: x[None].movedim(0, 2).squeeze(2),
    "bounds of halves": lambda x: torch.arange(0, x.shape[0], 0.5),
    "a pool along one axis": lambda x: F.adaptive_avg_pool2d(x[None], (None, 1)),
    "adaptive pools": lambda x: (F.adaptive_avg_pool1d(x.T[None], 4), F.adaptive_max_pool1d(x.T[None], 3)),
}
"""Results whose sizes are computed from others."""

D = Dim("d", min=3, max=20)


def joined(*dims: Any) -> treadle.Session:
    """A session of Joined, whose inputs have these first dimensions."""
    examples = (torch.zeros(10, 3), torch.zeros(11, 3))
    return treadle.Session(Joined().eval(), examples, dynamic_shapes=tuple({0: dim} for dim in dims))


def serve(session: treadle.Session, module: Any, runs: Sequence[Sequence[Any]]) -> None:
    """Run and compare with eager PyTorch, all with the plan that the session has compiled already."""
    assert session.why_per_size() is None
    compiles = session.compiles
    for args in runs:
        assert_same(run(session, args), module(*args), 1e-4)
    assert session.compiles == compiles
    assert len(session.open_plans()) == 1


class TestExported:
    @pytest.mark.parametrize("module", [encoder(), Step().eval()], ids=["encoder", "decoder"])
    def test_batch_and_length(self, module: Any) -> None:
        """
        One plan for all batches and lengths, compiled when the session is made.
        """
        dims = {0: Dim("batch"), 1: Dim("length")}
        session = treadle.Session(module, torch.randn(2, 7, 32), dynamic_shapes=(dims,))

        assert session.compiles <= 1
        serve(session, module, [(torch.randn(b, t, 32),) for b, t in ((1, 5), (3, 9), (4, 40))])

    def test_a_dimension_that_follows_from_another(self) -> None:
        """
        `d + 1` is no symbol of its own, and the bounds of `d` prove that no guard is needed.
        """
        session = joined(D, D + 1)

        serve(session, Joined(), [(torch.randn(n, 3), torch.randn(n + 1, 3)) for n in (3, 7, 20)])
        (plan,) = session.open_plans()
        (name,) = plan.samples
        assert plan.guards == [f"{name} >= 3", f"{name} <= 20"]

    @pytest.mark.parametrize("name", COMPUTED)
    def test_sizes_computed_from_sizes(self, name: str) -> None:
        """
        They are expressions in the plan, also where PyTorch decomposes the op.
        """
        module = Mapped(COMPUTED[name]).eval()
        session = treadle.Session(module, (torch.randn(8, 6),), dynamic_shapes=({0: Dim.DYNAMIC(min=5)},))

        assert session.compiles == 1
        serve(session, module, [(torch.randn(n, 6),) for n in (8, 5, 12, 7, 33)])

    def test_a_batch_of_one_has_a_plan_for_all_lengths(self) -> None:
        """
        PyTorch's decompositions decide whether a size is 1, as it may be broadcast then.
        """
        module = Mapped(lambda x: (x.diff(dim=1), torch.linalg.norm(x, dim=1), x.tile(1, 2, 1))).eval()
        dims = {0: Dim("batch"), 1: Dim("length", min=4)}
        session = treadle.Session(module, (torch.randn(2, 7, 6),), dynamic_shapes=(dims,))

        for batch, length in ((3, 9), (1, 5), (1, 12), (2, 8), (1, 30)):
            x = torch.randn(batch, length, 6)
            assert_same(run(session, (x,)), module(x))
        assert session.compiles <= 2
        assert session.why_per_size() is None

    def test_conditions_about_starred_arguments(self) -> None:
        """
        PyTorch calls the first of `*tensors` a_0 in the signature, and `['a'][0]` in conditions.
        """
        module = Starred().eval()
        session = treadle.Session(module, (torch.randn(8, 6), torch.randn(1, 6)), dynamic_shapes=(({0: Dim.AUTO}, {}),))

        serve(session, module, [(torch.randn(n, 6), torch.randn(1, 6)) for n in (8, 5, 12)])

    def test_sizes_for_which_the_exporter_decided(self) -> None:
        """
        A program that is valid for some sizes only, by conditions that are no ranges, refuses others by name.
        """
        module = Mapped(lambda x: x * int(x.shape[0] * 0.5)).eval()
        session = treadle.Session(module, (torch.randn(8, 6),), dynamic_shapes=({0: Dim.DYNAMIC},))

        for n in (8, 9):
            x = torch.randn(n, 6)
            assert_same(run(session, (x,)), module(x))
        with pytest.raises(treadle.errors.ShapeError, match=r"except where math\.trunc\(.*\.size\(\)\[0\].* == 4"):
            run(session, (torch.randn(5, 6),))

    def test_a_symbol_that_is_no_dimension(self) -> None:
        """
        Of `2*k` only the double is passed: it divides into two halves without a guard.
        """
        session = treadle.Session(Halves().eval(), (torch.zeros(10, 3),), dynamic_shapes=({0: 2 * Dim("k")},))

        serve(session, Halves(), [(torch.randn(2 * k, 3),) for k in (1, 4, 9)])
        (plan,) = session.open_plans()
        assert plan.guards == [f"{name} >= 1" for name in plan.samples]

    @pytest.mark.parametrize(
        ("x", "y", "message"),
        [
            (4, 1, r"input 'x': axis 0 \(2\*(\w+)\) is 4, so \1 is 2; wanted \1 from 3 to 20"),
            (42, 1, r"input 'x': axis 0 \(2\*(\w+)\) is 42, so \1 is 21; wanted \1 from 3 to 20"),
            (7, 1, r"input 'x': axis 0 \(2\*(\w+)\) is 7, which no \1 gives"),
        ],
    )
    def test_sizes_out_of_range_are_refused(self, x: int, y: int, message: str) -> None:
        """
        The error names the input, the axis and the dimension; the session stays usable.
        """
        session = joined(2 * D, Dim("e"))
        with pytest.raises(treadle.errors.InputError, match=message):
            run(session, (torch.zeros(x, 3), torch.zeros(y, 3)))

        serve(session, Joined(), [(torch.randn(8, 3), torch.randn(1, 3))])

    def test_sizes_that_contradict_each_other_are_refused(self) -> None:
        """
        The error says which size would fit.
        """
        session = joined(D, D + 1)
        message = r"input 'y': axis 0 \((\w+) \+ 1\) is 5, but \1 is 5 in input 'x': wanted 6"
        with pytest.raises(treadle.errors.InputError, match=message):
            run(session, (torch.zeros(5, 3), torch.zeros(5, 3)))

    def test_inspect_shows_the_plan_and_takes_sizes_of_symbols(self, tmp_path: Path) -> None:
        """
        Without sizes, and with the size of a symbol that is no dimension itself.
        """
        examples = (torch.zeros(10, 3), torch.zeros(6, 3))
        program = torch.export.export(Joined().eval(), examples, dynamic_shapes=({0: 2 * D}, {0: Dim("e")}))
        path = str(tmp_path / "joined.pt2")
        torch.export.save(program, path)
        (plan,) = treadle.Session(path).open_plans()
        root = next(name for name in plan.samples if f"{name} <= 20" in plan.guards)

        for arguments in ([], [f"--dim={root}=4"]):
            done = command("inspect", path, "--json", *arguments)
            assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert (report["sizes"][root], report["valid"]) == (4, [0])


class TestScripts:
    def test_dimensions_that_change_are_open(self) -> None:
        """
        The first shape is compiled for itself, the second with what has changed as open dimensions; no other is.
        """
        module = encoder()
        session = treadle.Session(traced(module, (torch.randn(1, 5, 32),)))
        for shape in ((1, 5, 32), (2, 9, 32)):
            x = torch.randn(*shape)
            assert_same(run(session, (x,)), module(x), 1e-4)

        serve(session, module, [(torch.randn(b, t, 32),) for b, t in ((4, 40), (1, 3), (1, 5))])
        assert session.compiles == 2

    def test_windows_of_the_whole_input(self) -> None:
        """
        A pool whose window is the image, as older networks end.
        """

        def pooled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return F.avg_pool2d(x, [x.size(2), x.size(3)]), F.max_pool2d(x, [x.size(2), x.size(3)])

        session = treadle.Session(torch.jit.script(pooled))
        for size, compiles in (((8, 9), 1), ((5, 4), 2), ((6, 11), 2)):
            x = torch.randn(2, 3, *size)
            assert_same(run(session, (x,)), pooled(x))
            assert session.compiles == compiles

    def test_a_dimension_that_changes_later(self) -> None:
        """
        A plan with one open dimension is followed by one with two.
        """
        script = torch.jit.script(nn.functional.relu)
        session = treadle.Session(script)
        for shape, compiles in (((2, 3), 1), ((5, 3), 2), ((7, 3), 2), ((7, 4), 3), ((9, 8), 3), ((6, 3), 3)):
            x = torch.randn(*shape)
            assert_same(run(session, (x,)), x.relu())
            assert session.compiles == compiles


ONE_PLAN = frozenset({
    "cumsum", "histograms", "masked_scatter", "modes", "places_of_maxima", "running", "running_integers",
    "running_to_nan", "unpooled",
})  # fmt: skip
"""Cases of ops that must have one plan."""


@pytest.mark.parametrize("name", CASES)
def test_ops_on_open_sizes(name: str) -> None:
    """
    Every op, imported with all sizes open: either one plan agrees with PyTorch, or it is known why there is none.
    """
    function, args = CASES[name]
    if any(0 in arg.shape for arg in args):
        pytest.skip("empty tensors have plans of their own")
    template = load(traced(function, args))
    inputs = [
        Value(
            value.name, dtypes.from_numpy(arg.numpy().dtype), tuple(f"{value.name}_{axis}" for axis in range(arg.dim()))
        )
        for value, arg in zip(template.inputs, args, strict=True)
    ]
    dims = (dim for each in inputs for dim in each.shape)
    sizes = dict(zip(dims, (size for arg in args for size in arg.shape), strict=True))
    opened = template.with_inputs(tuple(inputs))
    plan = compile_open(opened, Options(target=detect()), [each.name for each in template.outputs], sizes)
    if isinstance(plan, PerSize):
        assert plan.reason
        assert name not in ONE_PLAN, plan.reason
        return
    bound = plan.bind(sizes)
    assert bound is not None
    arrays = [np.ascontiguousarray(arg.numpy()) for arg in args]
    assert_same(bound.run(arrays, threads_of(None, "test").team()), function(*args), 1e-4)
