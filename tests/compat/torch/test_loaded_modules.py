"""torch.jit.load: modules in files that PyTorch has written, beside PyTorch."""

from __future__ import annotations

import copy
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle.compat.torch as torch

peer = pytest.importorskip("torch", reason="PyTorch is not installed")
from tests.compat.torch import file_modules  # noqa: E402 - it needs PyTorch
from tests.unit.frontends.torch import scripts  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*torch.jit")


def saved(module: Any) -> bytes:
    file = io.BytesIO()
    peer.jit.save(peer.jit.script(module), file)
    return file.getvalue()


def both(module: Any) -> tuple[Any, Any]:
    """The module of the file, here and in PyTorch."""
    file = saved(module)
    return torch.jit.load(io.BytesIO(file)), peer.jit.load(io.BytesIO(file))


def mine(value: Any) -> Any:
    """Returns a copy of an argument of PyTorch for this facade."""
    if isinstance(value, peer.Tensor):
        return torch.from_numpy(value.detach().numpy().copy())
    if isinstance(value, list | tuple):
        return type(value)(map(mine, value))
    return {name: mine(each) for name, each in value.items()} if isinstance(value, dict) else value


def assert_same(found: Any, wanted: Any) -> None:
    """Kinds, structure, dtypes, shapes and elements agree."""
    if isinstance(wanted, peer.Tensor):
        assert isinstance(found, torch.Tensor)
        one, other = found.numpy(), wanted.detach().numpy()
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    elif isinstance(wanted, list | tuple):
        assert type(found).__name__ == type(wanted).__name__
        assert getattr(found, "_fields", None) == getattr(wanted, "_fields", None)
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for name in wanted:
            assert_same(found[name], wanted[name])
    else:
        assert type(found) is type(wanted)
        assert found == pytest.approx(wanted) if isinstance(wanted, float) else found == wanted


def called(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns what a call returns, or the error that it raises."""
    try:
        return function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - both are compared
        return error


def r(*shape: int) -> Any:
    return peer.randn(*shape)


CALLS: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "tied": (file_modules.Tied, [(r(2, 4),), (r(4), 3), (r(1, 4), 1, peer.ones(4)), (r(0, 4),)]),
    "normed": (file_modules.Normed, [(r(2, 2, 5, 5),), (r(1, 2, 3, 4),)]),
    "structured": (
        file_modules.Structured,
        [(peer.ones(2, 2), [1, 2], {"y": r(3)}), (peer.full((3,), 2.0), [], {"y": r(1)})],
    ),
    "found": (file_modules.Found, [(r(9, 4),), (-r(9, 4).abs(),), (r(5, 4).abs(),)]),
    "forked": (lambda: scripts.Forked(8), [(r(3, 8),)]),
    "lists of forks": (scripts.ForkedList, [(r(3, 8),)]),
    "on data": (scripts.OnData, [(peer.full((4, 4), 2.0),), (-peer.ones(4, 4),)]),
    "searching": (scripts.Searching, [(r(4, 4),), (r(4, 4),)]),
    "growing": (scripts.Growing, [(peer.tensor([3.0, 1.0]),), (peer.tensor([1.0, 1.0]),)]),
    "chosen": (scripts.Chosen, [(peer.tensor([3.0, 1.0, 2.0]),), (peer.tensor([-1.0, 1.0]),)]),
    "recurrent": (scripts.Recurrent, [(r(5, 2, 3),), (r(300, 2, 3),)]),
    "unrolled": (scripts.Unrolled, [(r(3),)]),
    "nested lists": (scripts.NestedLists, [(r(5, 4),)]),
    "writes its argument": (scripts.WritesInput, [(r(3),)]),
    "takes a list": (scripts.Listed, [([r(2), r(2)], 1.5), ([r(3)], 2)]),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_give_what_pytorch_gives(name: str) -> None:
    """
    What the script writes into its arguments too. Once a form has been there, no further plan is compiled.
    """
    make, calls = CALLS[name]
    loaded, wanted = both(make().eval())
    compiles = []
    for _ in range(3):
        for args in calls:
            given = mine(args)
            theirs = copy.deepcopy(args)
            assert_same(loaded(*given), wanted(*theirs))
            assert_same(given, theirs)
        compiles.append(loaded.compiles)
    assert compiles[1] == compiles[2] > 0


def test_a_call_is_one_native_run() -> None:
    loaded, _ = both(file_modules.Normed().eval())
    for count in range(1, 4):
        loaded(torch.ones(1, 2, 4, 4))
        assert loaded.native_runs == count
    assert loaded.compiles == 1


def test_tensors_and_submodules_have_the_names_of_pytorch() -> None:
    for module in (file_modules.Tied(), file_modules.Normed(), scripts.ForkedList()):
        loaded, wanted = both(module)
        for names in ("named_parameters", "named_buffers"):
            assert_same(dict(getattr(loaded, names)()), dict(getattr(wanted, names)()))
            for options in ({"recurse": False}, {"remove_duplicate": False}, {"prefix": "model"}):
                assert [n for n, _ in getattr(loaded, names)(**options)] == [
                    n for n, _ in getattr(wanted, names)(**options)
                ]
        assert [n for n, _ in loaded.named_modules()] == [n for n, _ in wanted.named_modules()]
        assert [n for n, _ in loaded.named_children()] == [n for n, _ in wanted.named_children()]
        assert len(list(loaded.parameters())) == len(list(wanted.parameters()))
        assert_same(dict(loaded.state_dict()), dict(wanted.state_dict()))
        assert repr(loaded) == repr(wanted)
        assert loaded.original_name == wanted.original_name
        assert loaded.code == wanted.code
        assert (loaded.training, loaded.eval().training, loaded.train().training) == (True, False, True)
        assert isinstance(loaded, torch.jit.ScriptModule)


def test_parts_are_found_by_dotted_names() -> None:
    module = file_modules.Tied()
    loaded, wanted = both(module)[0], module
    assert_same(loaded.get_parameter("first.bias"), wanted.get_parameter("first.bias"))
    assert_same(loaded.get_buffer("shift"), wanted.get_buffer("shift"))
    assert loaded.get_submodule("second") is loaded.second
    assert loaded.get_submodule("") is loaded
    for name, target in (("parameter", "shift"), ("parameter", "first.no"), ("buffer", "scale"), ("submodule", "no.x")):
        ours, theirs = (called(getattr(each, f"get_{name}"), target) for each in (loaded, wanted))
        assert type(ours) is type(theirs) is AttributeError


def test_attributes_and_other_methods() -> None:
    """
    Submodules are called by themselves, too.
    """
    loaded, wanted = both(file_modules.Tied().eval())
    x = r(3, 4)
    for call in (
        lambda m, x: m.halved(x), lambda m, x: m.halved(x, by=4.0), lambda m, x: m.forward(x, times=1),
        lambda m, x: m.first(x), lambda m, _: (m.scale, m.names, m.bare), lambda m, x: m(rest=x, x=x),
    ):  # fmt: skip
        assert_same(call(loaded, mine(x)), call(wanted, x))
    for name in ("nothing", "_nothing"):
        assert str(called(getattr, loaded, name)) == str(called(getattr, wanted, name))


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}), ((1,), {}), ((r(4), 1.5), {}), ((r(4), None), {}), ((r(4), True), {}), ((r(4), 1, 2), {}),
        ((r(4), 1, None, 2), {}), ((r(4),), {"steps": 1}), ((r(4),), {"x": 1}), (([1.0],), {}), ((r(4), "a"), {}),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_raise_what_pytorch_raises(args: Any, kwargs: Any) -> None:
    loaded, wanted = both(file_modules.Tied().eval())
    found, theirs = called(loaded, *mine(args), **kwargs), called(wanted, *args, **kwargs)
    if isinstance(theirs, Exception):
        assert type(found) is type(theirs)
        assert str(found).split("\nDeclaration")[0] == str(theirs).split("\nDeclaration")[0]
    else:
        assert_same(found, theirs)


def test_calls_read_the_tensors_of_the_module() -> None:
    """
    After a state was loaded, a parameter replaced or written, the dtype changed, an attribute set.
    """
    loaded, wanted = both(file_modules.Tied().eval())
    x = r(3, 4)
    state = {name: each + 0.25 for name, each in wanted.state_dict().items()}

    def check(dtype: str = "float32") -> None:
        for _ in range(3):
            given = x.to(getattr(peer, dtype))
            assert_same(loaded(mine(given)), wanted(given))

    check()
    assert not loaded.load_state_dict(mine(state)).missing_keys
    wanted.load_state_dict(state)
    check()
    loaded.first.weight = torch.nn.Parameter(torch.ones(4, 4))
    wanted.first.weight = peer.nn.Parameter(peer.ones(4, 4))
    check()
    loaded.shift[2] = 7.0
    loaded.bare += 1
    wanted.shift[2] = 7.0
    wanted.bare += 1
    check()
    loaded.scale = wanted.scale = 5
    check()
    with pytest.raises(RuntimeError, match=r"Missing key\(s\)"):
        loaded.load_state_dict({})
    bare = loaded.bare
    loaded.double(), wanted.double()
    loaded.bare, wanted.bare = bare.double(), wanted.bare.double()
    check("float64")


def test_a_script_may_write_into_its_buffers() -> None:
    loaded, wanted = both(file_modules.Counting())
    for seed in range(5):
        x = peer.full((3,), float(seed))
        given = mine(x)
        assert_same(loaded(given), wanted(x))
        assert_same(given, x)
        assert_same(dict(loaded.state_dict()), dict(wanted.state_dict()))


def test_a_written_tensor_that_shares_memory_is_refused() -> None:
    loaded, _ = both(file_modules.Counting())
    with pytest.raises(NotImplementedError, match=r"shares memory .* \.clone\(\)"):
        loaded(loaded.seen)


def test_training_mode_is_refused_where_it_matters() -> None:
    """
    A module that acts the same in both modes runs in both.
    """
    loaded, wanted = both(file_modules.Normed())
    assert loaded.training
    x = r(1, 2, 4, 4)
    with pytest.raises(RuntimeError, match=r"training mode.*\.eval\(\)"):
        loaded(mine(x))
    assert_same(loaded.eval()(mine(x)), wanted.eval()(x))
    with pytest.raises(RuntimeError, match="training mode"):
        loaded.train()(mine(x))
    tied, other = both(file_modules.Tied())
    assert_same(tied(mine(r(2, 4) * 0)), other(r(2, 4) * 0))


def test_frozen_modules_and_copies_have_tensors_of_their_own() -> None:
    loaded, wanted = both(file_modules.Tied().eval())
    x = r(2, 4)
    frozen, copied = torch.jit.freeze(loaded), copy.deepcopy(loaded)
    with pytest.raises(RuntimeError, match="eval"):
        torch.jit.freeze(copy.deepcopy(loaded).train())
    before = wanted(x)
    for each in loaded.parameters():
        each.zero_()
    for _ in range(3):
        assert_same(frozen(mine(x)), before)
        assert_same(copied(mine(x)), before)
        assert not np.allclose(loaded(mine(x)).numpy(), before.detach().numpy())
    assert copied.second.weight is copied.first.weight


def test_scripts_call_loaded_modules() -> None:
    """
    They are parts of the graph of the script, which sees new parameters.
    """
    loaded, wanted = both(file_modules.Tied().eval())

    @torch.jit.script
    def call(x: Any) -> Any:
        future = torch.jit.fork(loaded, x)
        return loaded(x * 2) + torch.jit.wait(future)

    x = r(2, 4)
    for count in range(1, 4):
        assert_same(call(mine(x)), wanted(x * 2) + wanted(x))
        assert call.native_runs == count
    loaded.shift.zero_()
    wanted.shift.zero_()
    assert_same(call(mine(x)), wanted(x * 2) + wanted(x))


def test_loaded_modules_are_parts_of_modules() -> None:
    loaded, wanted = both(file_modules.Tied().eval())

    class Around(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = loaded

        def forward(self, x: Any) -> Any:
            return self.inner(x) + 1

    around = Around()
    assert next(name for name, _ in around.named_parameters()) == "inner.first.weight"
    x = r(2, 4)
    for module in (around, torch.jit.script(around), torch.jit.script(around)):
        assert_same(module(mine(x)), wanted(x) + 1)


def test_threads_share_a_module() -> None:
    loaded, wanted = both(file_modules.Tied().eval())
    operands = [r(1 + at % 4, 4) for at in range(32)]
    with ThreadPoolExecutor(4) as pool:
        for found, x in zip(pool.map(lambda x: loaded(mine(x)), operands), operands, strict=True):
            assert_same(found, wanted(x))


def test_what_a_script_raises() -> None:
    loaded, _ = both(file_modules.Raising())
    assert loaded(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(torch.jit.Error, match="two rows at most"):
        loaded(torch.ones(3))
    assert loaded(torch.ones(1)).tolist() == [2]


def test_what_cannot_run_is_said_at_the_call() -> None:
    """
    All of it, with its lines. The tensors of the module are there.
    """
    loaded, _ = both(file_modules.Unknown())
    assert loaded.weight.tolist() == [1, 1]
    for _ in range(2):
        with pytest.raises(NotImplementedError, match=r"digamma at .*file_modules.py:\d+"):
            loaded(torch.ones(2))
    counting, _ = both(file_modules.Setting())
    with pytest.raises(NotImplementedError, match="sets the attribute 'count'"):
        counting(torch.ones(2))
    forks, _ = both(file_modules.Forks())
    with pytest.raises(NotImplementedError, match=r"forked in a branch or loop on data reads 'layer\.weight'"):
        forks(torch.ones(1, 4))


def test_members_that_cannot_be_set() -> None:
    loaded, _ = both(file_modules.Tied())
    for name, value in (("first", torch.nn.Linear(4, 4)), ("shift", 3), ("forward", None), ("halved", None)):
        with pytest.raises(TypeError, match=name):
            setattr(loaded, name, value)


def test_paths_files_and_further_files(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    script = peer.jit.script(file_modules.Tied().eval())
    peer.jit.save(script, str(path), _extra_files={"note.txt": "hello"})
    x = r(2, 4)
    for file in (path, str(path), io.BytesIO(path.read_bytes())):
        found: dict[str, Any] = {"note.txt": ""}
        assert_same(torch.jit.load(file, map_location="cpu", _extra_files=found)(mine(x)), script(x))
        assert found == {"note.txt": b"hello"}


def test_traced_modules_and_functions() -> None:
    for traced in (
        peer.jit.trace(file_modules.Normed().eval(), r(1, 2, 4, 4)),
        peer.jit.trace(lambda x: peer.relu(x[:, 0]) + 1, r(1, 2, 4, 4)),
    ):
        file = io.BytesIO()
        peer.jit.save(traced, file)
        loaded = torch.jit.load(io.BytesIO(file.getvalue()))
        x = r(2, 2, 5, 5)
        assert_same(loaded(mine(x)), traced(x))


def test_files_that_are_none(tmp_path: Path) -> None:
    """
    The kind of the error is PyTorch's.
    """
    (tmp_path / "text.pt").write_text("no archive")
    peer.save({"a": peer.ones(2)}, tmp_path / "state.pt")
    whole = saved(file_modules.Tied())
    (tmp_path / "cut.pt").write_bytes(whole[: len(whole) // 2])
    for name in ("missing.pt", "text.pt", "state.pt", "cut.pt", "."):
        path = tmp_path / name
        found, wanted = called(torch.jit.load, path), called(peer.jit.load, path)
        assert isinstance(wanted, Exception)
        assert type(found) is type(wanted)


def test_tensors_that_treadle_does_not_have() -> None:
    class Complex(peer.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turn", peer.ones(2, dtype=peer.complex64))

        def forward(self, x):
            return x

    file = io.BytesIO()
    peer.jit.save(peer.jit.trace(Complex(), r(2)), file)
    with pytest.raises(NotImplementedError, match=r"'turn'.*complex64"):
        torch.jit.load(io.BytesIO(file.getvalue()))
