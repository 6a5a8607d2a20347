"""torch.jit.script, torch.jit.trace and modules: the constructs that their programs consist of."""

from __future__ import annotations

import numpy as np
import pytest

import treadle.compat.torch as torch
import treadle.compat.torch.nn.functional as F  # noqa: N812
from treadle.compat.torch import nn
from treadle.tracing.record import record

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def runs_of(program, *args) -> int:
    """Returns how many graphs a call runs."""
    program(*args)
    with record() as recording:
        program(*args)
    return len({event.run for event in recording.events})


@torch.jit.script
def branches(x, flag: bool = True):
    if x.sum() > 0 and flag:
        y = x + 1
    elif flag:
        y = x - 1
    else:
        y = x
    return y


def test_if_over_tensors_and_python_values() -> None:
    """
    Conditions may be tensors, numbers, or both.
    """
    x = torch.from_numpy(X)

    assert branches(x).tolist() == (X + 1).tolist()
    assert branches(-x).tolist() == (-X - 1).tolist()
    assert branches(x, flag=False).tolist() == X.tolist()


@torch.jit.script
def loops(x, n: int):
    parts: list[torch.Tensor] = []
    for i in range(n):
        if i == 3:
            continue
        parts.append(x * i)
    total = torch.zeros_like(x)
    for part in parts:
        total += part
    for row in x:
        total = total + row
    k = 0
    while k < n:
        k += 1
        if k > 3:
            break
    return total, (k, [part.sum() for part in parts], {"last": parts[-1]})


def test_loops_lists_tuples_and_dicts() -> None:
    """
    A body on Python values is one graph, however far it unrolls.
    """
    total, (k, sums, named) = loops(torch.from_numpy(X), 5)

    np.testing.assert_allclose(total.numpy(), X * (0 + 1 + 2 + 4) + X.sum(0))
    assert k == 4
    assert [each.item() for each in sums] == [X.sum() * i for i in (0, 1, 2, 4)]
    assert named["last"].tolist() == (4 * X).tolist()
    assert runs_of(loops, torch.from_numpy(X), 5) == 1


def halve(x):
    steps = 0
    while x.abs().max() > 1:
        x = x / 2
        steps += 1
    return x, steps


def test_while_over_tensors_and_calls_of_other_functions() -> None:
    """
    Functions that a script calls are scripted too; several results are a tuple.
    """

    @torch.jit.script
    def program(x):
        y, steps = halve(x)
        return y if steps > 1 else -y

    assert program(torch.from_numpy(X)).tolist() == (X / 4).tolist()
    assert program(torch.from_numpy(X / 6)).tolist() == (-X / 6).tolist()


def test_keyword_arguments_defaults_and_closures() -> None:
    """
    They are those of the original function.
    """
    factor = 3.0

    @torch.jit.script
    def program(x, *, shift: float = 1.0):
        return x * factor + shift

    assert program(torch.from_numpy(X), shift=0.5).tolist() == (X * 3 + 0.5).tolist()
    assert program(torch.from_numpy(X)).tolist() == (X * 3 + 1).tolist()


def test_unsupported_statements_are_refused_with_their_line() -> None:
    """
    The error names file, function and line, and what to do.
    """

    def generator(x):
        yield x

    with pytest.raises(
        RuntimeError, match=r"test_scripts.py, .*generator, line \d+: torch.jit.script does not take yield"
    ):
        torch.jit.script(generator)
    with pytest.raises(RuntimeError, match="consider passing an instance instead"):
        torch.jit.script(nn.Linear)


def test_errors_keep_their_line() -> None:
    """
    Tracebacks show the line of the script that failed.
    """

    @torch.jit.script
    def program(x):
        y = x + 1
        return torch.mm(y, y)  # the line

    with pytest.raises(RuntimeError, match="cannot be multiplied") as caught:
        program(torch.from_numpy(X))

    assert any("# the line" in str(entry.statement) for entry in caught.traceback)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(4 * 4 * 4, 5), nn.ReLU(), nn.Dropout(0.5))
        self.table = nn.ModuleList([nn.Linear(5, 5), nn.Linear(5, 5)])

    def forward(self, x):
        """Uses many constructs of the language."""
        x = F.relu(self.norm(self.conv(x)))
        x = self.head(F.max_pool2d(x, 2))
        for layer in self.table:
            x = torch.tanh(layer(x)) + x
        return F.log_softmax(x, dim=-1)

    @torch.jit.export
    def doubled(self, x):
        return self.forward(x) * 2


def test_modules_agree_eager_scripted_frozen_and_traced() -> None:
    """
    Layers, containers, functionals; the whole is one graph.
    """
    net = Net().eval()
    x = torch.rand(2, 3, 8, 8)
    expected = net(x).numpy()
    scripted = torch.jit.script(net)

    np.testing.assert_allclose(scripted(x).numpy(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scripted.doubled(x).numpy(), 2 * expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(torch.jit.freeze(scripted)(x).numpy(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(torch.jit.trace(net, x)(x).numpy(), expected, rtol=1e-4, atol=1e-5)
    assert runs_of(scripted, x) == 1
    assert isinstance(scripted, Net)


def test_state_dicts_load_into_another_module() -> None:
    """
    Names are dotted as in PyTorch; arrays work as well as tensors; all errors are listed.
    """
    a, b = Net().eval(), Net().eval()
    b.load_state_dict({name: tensor.numpy() for name, tensor in a.state_dict().items()})
    x = torch.rand(1, 3, 8, 8)

    np.testing.assert_array_equal(a(x).numpy(), b(x).numpy())
    assert {"conv.weight", "norm.running_var", "head.1.bias", "table.0.weight"} <= set(a.state_dict())
    with pytest.raises(RuntimeError, match=r'Missing key.*"conv.weight"'):
        b.load_state_dict({})
    assert b.load_state_dict({"more": torch.zeros(1)}, strict=False).unexpected_keys == ["more"]
    assert {tensor.dtype for tensor in b.half().cpu().parameters()} == {torch.float16}


def test_training_only_layers_raise_in_training_mode() -> None:
    """
    Dropout and batch statistics are refused.
    """
    with pytest.raises(NotImplementedError, match=r"module.eval\(\)"):
        nn.Dropout(0.5)(torch.ones(2))
    with pytest.raises(NotImplementedError, match="does not train"):
        torch.tensor([1.0], requires_grad=True)


def test_a_trace_keeps_the_branch_and_takes_other_shapes() -> None:
    """
    The branch is the example's; forks are part of the graph; each call reads the parameters.
    """
    layer = nn.Linear(3, 3)

    def program(x):
        future = torch.jit.fork(torch.relu, x)
        y = layer(x)
        if x.sum() > 0:
            return {"y": y + torch.jit.wait(future), "x": x}
        return y

    traced = torch.jit.trace(program, torch.ones(2, 3))
    layer.bias.zero_()
    x = -np.ones((2, 3), np.float32)

    np.testing.assert_allclose(traced(torch.from_numpy(x))["y"].numpy(), x @ layer.weight.numpy().T, rtol=1e-5)
    assert traced(torch.ones(4, 3))["x"].shape == (4, 3)


def test_ignored_functions_run_as_python() -> None:
    """
    Functions under torch.jit.ignore may use NumPy.
    """

    @torch.jit.ignore
    def outside(x):
        return torch.from_numpy(np.cbrt(x.numpy()))

    @torch.jit.script
    def program(x):
        return outside(x * 8) + 1

    np.testing.assert_allclose(program(torch.ones(2)).numpy(), [3, 3])


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x)

    @staticmethod
    def plus(a, b):
        return a + b

    @property
    def count(self):
        return 3

    def __hidden(self, x):
        return x * 1

    def shown(self, x):
        return self.__hidden(x)

    def fails(self, x):
        raise ValueError(f"{x.shape[0]} rows")


class Python(Base):
    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Much of the language in one body."""
        with torch.no_grad():
            z = super().forward(x)
        out: list[torch.Tensor] = []
        for i, (a, b) in enumerate(zip([z, x], [x, z], strict=True)):
            out.append(self.plus(a, b) * i)
        assert x.shape[0] == 2, f"{x.shape[0]} rows"
        try:
            q = self.fails(x)
        except ValueError:
            q = x
        if y is not None and y.sum() > 0:
            q = q + y
        rows = [[each * k for each in out if each.sum() != 0] for k in range(self.count)]
        both = (x, self.shown(x))
        named = {str(n): self.plus(*both) for n in range(2)}
        shifted = (lambda t: t + 1)(named["1"])  # noqa: PLC3002
        largest = max(each.sum().item() for each in out)
        return q, [*out, shifted, *[each for row in rows for each in row], torch.tensor(largest)]


def test_scripts_take_most_of_python() -> None:
    """
    super(), static and private methods, properties, try, with, lambda and nested comprehensions work as in the module.
    """
    module = Python()
    x = torch.rand(2, 3)
    (q, expected), (scripted_q, found) = module(x, x), torch.jit.script(module)(x, x)

    np.testing.assert_allclose(scripted_q.numpy(), q.numpy(), rtol=1e-5)
    assert len(found) == len(expected)
    for each, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(each.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


def test_an_exception_of_a_script_is_a_torch_jit_error() -> None:
    """
    As in PyTorch, and one of its own class. The script itself may catch it as such.
    """

    @torch.jit.script
    def raising(x):
        if x.shape[0] > 2:
            raise ValueError(f"{x.shape[0]} rows")
        return x

    @torch.jit.script
    def catching(x):
        try:
            return raising(x)
        except ValueError as error:
            return x[: len(str(error))]

    for _ in range(3):
        with pytest.raises(torch.jit.Error, match=r"^3 rows$") as caught:
            raising(torch.ones(3))
        assert isinstance(caught.value, ValueError)
        assert raising(torch.ones(2)).tolist() == [1, 1]
        assert len(catching(torch.ones(9))) == 6
    assert not issubclass(torch.jit.Error, RuntimeError)


def test_a_name_that_is_defined_nowhere_is_an_error_of_scripting() -> None:
    """
    A function may call itself, which is not defined yet.
    """

    def undefined(x):
        return [unknown_scale * each for each in x]  # noqa: F821 - that is what is tested

    with pytest.raises(RuntimeError, match=r"undefined value unknown_scale: .*test_scripts.py.*undefined, line \d+"):
        torch.jit.script(undefined)

    class Undefined(torch.nn.Module):
        def forward(self, x):
            return x * unknown_scale  # noqa: F821 - that is what is tested

    with pytest.raises(RuntimeError, match="undefined value unknown_scale"):
        torch.jit.script(Undefined())
