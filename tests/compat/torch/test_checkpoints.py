"""Checkpoints: files of PyTorch's, files for it, and files that are damaged or hostile."""

from __future__ import annotations

import io
import pickle
import random
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle.compat.torch as torch
from treadle.compat.torch import nn

FILES = Path(__file__).parent / "files"
"""PyTorch 2.13 wrote them: parameter number i of a state has elements i, i + 1, ..."""


def network() -> Any:
    return nn.Sequential(nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), nn.Linear(3, 2, bias=False))


def saved(value: Any, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


def with_pickle(data: bytes) -> io.BytesIO:
    """A checkpoint in the zip form whose pickle is `data`."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/data/0", bytes(8))
    file.seek(0)
    return file


@pytest.mark.parametrize("name", ["state.pt", "state_before_1.6.pt"])
def test_a_state_of_pytorchs_is_loaded_into_a_module(name: str) -> None:
    """
    Names, order, dtypes and values are PyTorch's, in both forms.
    """
    module = network()
    state = torch.load(FILES / name)

    assert list(state) == list(module.state_dict())
    assert repr(module.load_state_dict(state)) == "<All keys matched successfully>"
    for number, tensor in enumerate(module.state_dict().values()):
        wanted = (np.arange(tensor.numel()) + number).reshape(tensor.shape)
        np.testing.assert_array_equal(tensor.numpy(), wanted.astype(tensor.numpy().dtype))
    assert state["1.num_batches_tracked"].dtype is torch.int64


def test_all_that_weights_only_allows_is_loaded() -> None:
    """
    Views and tied tensors share memory; numbers, texts, containers, sizes and dtypes are what they were.
    """
    found = torch.load(FILES / "training.pt")

    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(found["base"].numpy(), base)
    np.testing.assert_array_equal(found["view"].numpy(), base.T[1:])
    assert np.shares_memory(found["base"].numpy(), found["view"].numpy())
    found["tied"].numpy()[0, 1] = 5
    assert found["base"].numpy()[0, 1] == found["view"].numpy()[0, 0] == 5
    assert found["half"].dtype is torch.float16
    assert found["bfloat"].dtype is torch.bfloat16
    assert float(found["bfloat"][0]) == pytest.approx(1 / 3, rel=2**-8)
    assert isinstance(found["parameter"], nn.Parameter)
    assert tuple(found["empty"].shape) == (0, 3)
    assert (found["epoch"], found["size"], found["dtype"]) == (7, torch.Size([2, 3]), torch.int16)
    assert found["lr"] == [0.5, None, True, b"\xff", 2**70, {1}]


@pytest.mark.parametrize("is_zip", [True, False])
def test_what_is_saved_is_loaded_again(is_zip: bool) -> None:
    """
    With its sharing, the strides of views, and objects that occur twice.
    """
    base = torch.arange(24).reshape(4, 6)
    twice: list[Any] = [1]
    value = {
        "base": base, "view": torch.t(base[1:, ::2]), "reversed": torch.from_numpy(base.numpy()[::-1]),
        "empty": base[:0], "bools": torch.tensor([True, False]), "scalar": torch.tensor(2.5), "twice": [twice, twice],
        "ordered": OrderedDict(a=1), "counted": Counter("aab"), "bytes": bytearray(b"x"), "complex": 1 + 2j,
        "parameter": nn.Parameter(torch.ones(2)), "device": torch.device(), "large": [-(2**31), 2**31, -(2**70)],
    }  # fmt: skip
    found = torch.load(saved(value, _use_new_zipfile_serialization=is_zip))

    assert list(found) == list(value)
    for name, wanted in value.items():
        if isinstance(wanted, torch.Tensor):
            np.testing.assert_array_equal(found[name].numpy(), wanted.numpy())
            assert type(found[name]) is type(wanted)
        else:
            assert found[name] == wanted
    assert np.shares_memory(found["base"].numpy(), found["view"].numpy())
    assert found["twice"][0] is found["twice"][1]


def test_equal_contents_are_equal_files(tmp_path: Path) -> None:
    """
    Storages begin at multiples of 64 bytes, where PyTorch maps them.
    """
    state = network().state_dict()
    torch.save(state, tmp_path / "a.pt")
    data = (tmp_path / "a.pt").read_bytes()
    assert saved(state).getvalue() == saved(state).getvalue()
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        assert archive.namelist()[0] == "a/data.pkl"
        for record in archive.infolist():
            if "/data/" in record.filename:
                header = data[record.header_offset :][:30]
                lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
                assert (record.header_offset + 30 + lengths) % 64 == 0


def test_tensors_on_other_devices_need_map_location() -> None:
    """
    As PyTorch without CUDA: None fails, a name, a dictionary and a function put them on the CPU.
    """
    file = saved({"w": torch.ones(2)})
    with zipfile.ZipFile(file) as archive:
        data = archive.read("archive/data.pkl")
    moved = data.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
    assert moved != data

    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        torch.load(with_pickle(moved))
    for place in ("cpu", torch.device("cpu"), b"cpu", {"cuda:0": "cpu"}, lambda storage, _: storage):
        assert torch.load(with_pickle(moved), map_location=place)["w"].shape == (2,)
    with pytest.raises(RuntimeError, match="CUDA device"):
        torch.load(with_pickle(moved), map_location=lambda *_: None)
    with pytest.raises(TypeError, match="map_location returned a int"):
        torch.load(with_pickle(moved), map_location=lambda *_: 3)


class Settings:
    """A class of the program in a checkpoint."""

    def __init__(self) -> None:
        self.rate = 0.5


def test_other_classes_need_the_programs_consent() -> None:
    """
    What a checkpoint names is neither imported nor called before.
    """
    data = pickle.dumps(Settings(), protocol=2)

    with pytest.raises(pickle.UnpicklingError, match=r"GLOBAL .*\.Settings was not an allowed global"):
        torch.load(with_pickle(data))
    with torch.serialization.safe_globals([Settings]):
        assert torch.load(with_pickle(data)).rate == 0.5
        assert torch.serialization.get_safe_globals() == [Settings]
    with pytest.raises(pickle.UnpicklingError, match="not an allowed global"):
        torch.load(with_pickle(data))


HOSTILE = {
    "calls a function": b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00ls\x85R.",
    "calls eval": b"\x80\x02c__builtin__\neval\nX\x01\x00\x00\x001\x85R.",
    "calls a method": b"\x80\x02X\x01\x00\x00\x00a\x85R.",
    "allocates": b"\x80\x02cbuiltins\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x40\x85R.",
    "allocates a tensor": b"\x80\x02ctorch\nTensor\n\x8a\x06\x00\x00\x00\x00\x00\x40\x85R.",
    "allocates a parameter": b"\x80\x02ctorch.nn.parameter\nParameter\n\x8a\x06\x00\x00\x00\x00\x00\x40\x85\x81.",
    "names a module": b"\x80\x02(X\x06\x00\x00\x00moduleNtQ.",
    "takes methods": b"\x80\x02ccollections\nOrderedDict\n)R}X\x04\x00\x00\x00itemsNsb.",
    "fills a tuple": b"\x80\x02)Na.",
    "has no mark": b"\x80\x02t.",
    "has no stack": b"\x80\x02R.",
    "remembers nothing": b"\x80\x02h\x05.",
    "is a long text": b"\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\x7fa.",
    "leaves two values": b"\x80\x02NN.",
    "extends by a code": b"\x80\x02\x82\x01.",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_pickles_are_refused(data: bytes) -> None:
    """
    Each by an UnpicklingError, in both forms.
    """
    with pytest.raises(pickle.UnpicklingError):
        torch.load(with_pickle(data))
    with pytest.raises(pickle.UnpicklingError):
        torch.load(io.BytesIO(data))


def tensor_pickle(offset: int, size: tuple[int, ...], stride: tuple[int, ...], elements: int = 2) -> io.BytesIO:
    """A checkpoint of a tensor of a storage of two numbers."""
    head = saved(torch.ones(2))
    with zipfile.ZipFile(head) as archive:
        data = archive.read("archive/data.pkl")
    # What follows the storage's name is the offset, the sizes, the strides and the rest.
    begin = data.index(b"Q") + 1
    end = data.index(b"\x89", begin)
    parts = b"".join(pickle.dumps(part, protocol=2)[2:-1] for part in (offset, size, stride))
    data = data[:begin] + parts + data[end:]
    data = data.replace(b"J\x02\x00\x00\x00tQ", pickle.dumps(elements, protocol=2)[2:-1] + b"tQ")
    return with_pickle(data)


OUTSIDE = {
    "offset": (1, (2,), (1,)), "negative offset": (-1, (2,), (1,)), "size": (0, (3,), (1,)), "stride": (0, (2,), (2,)),
    "negative stride": (1, (2,), (-1,)), "huge": (2**62, (2,), (2**62,)), "ranks": (0, (2,), (1, 1)),
    "axes": (0, (1,) * 65, (1,) * 65),
}  # fmt: skip


@pytest.mark.parametrize(("offset", "size", "stride"), OUTSIDE.values(), ids=OUTSIDE)
def test_tensors_outside_their_storage_are_refused(offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> None:
    """
    No tensor reads memory that is not the checkpoint's.
    """
    assert torch.load(tensor_pickle(0, (2,), (1,))).tolist() == [0, 0]
    with pytest.raises(pickle.UnpicklingError, match="corrupt"):
        torch.load(tensor_pickle(offset, size, stride))


@pytest.mark.parametrize("elements", [3, -1, 2**61, 2**70])
def test_storages_larger_than_the_file_are_refused(elements: int) -> None:
    """
    Before memory is taken.
    """
    with pytest.raises(pickle.UnpicklingError, match="corrupt"):
        torch.load(tensor_pickle(0, (2,), (1,), elements))


@pytest.mark.parametrize("is_zip", [True, False])
def test_damaged_files_give_a_typed_error(is_zip: bool) -> None:
    """
    Or what was in them.
    """
    value = {"w": torch.ones(3, 4), "n": [1, 2.5, "x", None, (1,)], "o": OrderedDict(a=torch.float16)}
    data = saved(value, _use_new_zipfile_serialization=is_zip).getvalue()
    random_ = random.Random(0)
    refused = 0
    for _ in range(1500):
        mutated = bytearray(data)
        for _ in range(random_.choice((1, 2, 4))):
            mutated[random_.randrange(len(mutated))] = random_.randrange(256)
        try:
            torch.load(io.BytesIO(mutated[: random_.choice((None, random_.randrange(len(data))))]))
        except (pickle.UnpicklingError, RuntimeError, EOFError):
            refused += 1
    assert refused > 1000


def test_what_is_no_checkpoint_is_said() -> None:
    """
    With PyTorch's classes of exceptions.
    """
    with pytest.raises(EOFError, match="Ran out of input"):
        torch.load(io.BytesIO())
    with pytest.raises(RuntimeError, match="Invalid magic number; corrupt file"):
        torch.load(io.BytesIO(pickle.dumps(5, protocol=2)))
    with pytest.raises(RuntimeError, match="failed reading zip archive"):
        torch.load(io.BytesIO(b"PK\x03\x04rubbish"))
    with pytest.raises(FileNotFoundError):
        torch.load("none.pt")
    with pytest.raises(AttributeError, match="seekable"):
        torch.load(5)
    with pytest.raises(NotImplementedError, match="would run code"):
        torch.load(FILES / "state.pt", weights_only=False)
    with pytest.raises(ValueError, match="must be a file path"):
        torch.load(io.BytesIO(), mmap=True)
    assert len(torch.load(FILES / "state.pt", mmap=True)) == len(torch.load(str(FILES / "state.pt")))


def test_what_cannot_be_saved_is_named() -> None:
    """
    By where it stands.
    """
    with pytest.raises(NotImplementedError, match=r"the object\['net'\] is a Linear; .*state_dict\(\)"):
        torch.save({"net": nn.Linear(1, 1)}, io.BytesIO())
    with pytest.raises(NotImplementedError, match=r"the object\[1\] is a ndarray"):
        torch.save([1, np.ones(2)], io.BytesIO())
    with pytest.raises(AttributeError, match="'write' attribute"):
        torch.save(1, 5)


def test_faults_of_a_state_are_listed_as_pytorch_lists_them() -> None:
    """
    All at once; sizes are checked though names are not.
    """
    module = nn.Linear(2, 3)
    state = {"weight": torch.zeros(3, 3), "scale": torch.zeros(1), "shift": torch.zeros(1)}
    wanted = (
        "Error(s) in loading state_dict for Linear:\n\t"
        'Missing key(s) in state_dict: "bias". \n\t'
        'Unexpected key(s) in state_dict: "scale", "shift". \n\t'
        "size mismatch for weight: copying a param with shape torch.Size([3, 3]) from checkpoint, the shape in current "
        "model is torch.Size([3, 2])."
    )
    with pytest.raises(RuntimeError) as error:
        module.load_state_dict(state)
    assert str(error.value) == wanted
    with pytest.raises(RuntimeError, match="size mismatch"):
        module.load_state_dict(state, strict=False)
    with pytest.raises(TypeError, match="dict-like"):
        module.load_state_dict(3)
    keys = module.load_state_dict({"bias": torch.ones(3, dtype=torch.float64)}, strict=False)
    assert (keys.missing_keys, keys.unexpected_keys) == (["weight"], [])
    assert module.bias.dtype is torch.float32
    module.load_state_dict({"bias": torch.ones(3, dtype=torch.float64)}, strict=False, assign=True)
    assert module.bias.dtype is torch.float64


def test_safetensors_are_loaded_by_their_package(tmp_path: Path) -> None:
    """
    Damaged ones are refused, and so is a map_location that is no device.
    """
    package = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    path = tmp_path / "model.safetensors"
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([1, 2], np.int64)}
    package.save_file(arrays, path)

    found = torch.load(path, map_location="cpu")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name].numpy(), array)
    with pytest.raises(RuntimeError, match="dict map_location is not supported"):
        torch.load(path, map_location={})
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(RuntimeError, match=r"model\.safetensors"):
        torch.load(path)


def test_pytorch_loads_what_is_saved_here(tmp_path: Path) -> None:
    """
    With weights_only=True, mapped too, in both forms; and a module's state fits PyTorch's.
    """
    pytorch = pytest.importorskip("torch", reason="PyTorch is not installed")
    layers = pytorch.nn
    net = layers.Sequential(layers.Conv2d(2, 3, 2), layers.BatchNorm2d(3), layers.Linear(3, 2, bias=False))
    for name in ("zip", "older"):
        torch.save(network().state_dict(), tmp_path / name, _use_new_zipfile_serialization=name == "zip")
    for name, mapped in (("zip", False), ("zip", True), ("older", False)):
        state = pytorch.load(tmp_path / name, weights_only=True, mmap=mapped)
        assert str(net.load_state_dict(state)) == "<All keys matched successfully>"
