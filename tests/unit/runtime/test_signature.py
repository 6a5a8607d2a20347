"""Arrays like those of the last run are taken without a closer look; everything else gets one."""

import numpy as np
import pytest

from treadle import _native
from treadle.errors import InputError
from treadle.graph.open_dims import Bounds, OpenDims
from treadle.runtime.signature import Interface, Tensor

F32 = np.dtype(np.float32)
INTERFACE = Interface((Tensor("a", F32, ("n", 3)), Tensor("b", F32, (2,))), ())
A, B = np.ones((4, 3), np.float32), np.ones(2, np.float32)


@pytest.fixture
def known() -> _native.KnownArrays:
    return _native.KnownArrays(np.ndarray, ("a", "b"), INTERFACE.arrays({"a": A, "b": B}))


def test_arrays_like_known_ones_are_not_checked_again(known: _native.KnownArrays) -> None:
    """
    They come in the order of the inputs, not copied, whatever the order of the mapping.
    """
    found = known.arrays({"b": B, "a": A})

    assert found is not None
    assert found[0] is A
    assert found[1] is B


@pytest.mark.parametrize(
    "given",
    [
        {"a": A},
        {"a": A, "c": B},
        {"a": A, "b": B, "c": B},
        {"a": A[:3], "b": B},
        {"a": A.astype(np.float64), "b": B},
        {"a": A.astype(">f4"), "b": B},
        {"a": np.ones((3, 4), np.float32).T, "b": B},
        {"a": A.tolist(), "b": B},
        {"a": np.ma.array(A), "b": B},
        [A, B],
        None,
    ],
    ids=str,
)
def test_arrays_unlike_known_ones_are_checked(known: _native.KnownArrays, given: object) -> None:
    """
    Another name, number, shape, dtype, byte order, memory order or kind of object is left to the full check.
    """
    assert known.arrays(given) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": A, "c": B}, "there is no input 'c'"),
        ({"a": A, "c": B}, "input 'b' is missing"),
        ({"a": A[:, :2].copy(), "b": B}, "axis 1 must be 3"),
        ({"a": A, "b": B[:, None]}, "wanted rank 1"),
        ({"a": A.astype(np.float64), "b": B}, "wanted dtype float32"),
    ],
)
def test_arrays_that_differ_from_what_is_declared_are_refused(given: dict[str, object], message: str) -> None:
    """
    The message names the input and what is wrong with it.
    """
    with pytest.raises(InputError, match=message):
        INTERFACE.arrays(given)


def test_sizes_of_one_name_must_be_equal() -> None:
    """
    Both inputs are named.
    """
    interface = Interface((Tensor("a", F32, ("n", 3)), Tensor("b", F32, ("n",))), ())

    assert np.shares_memory(interface.arrays({"a": A, "b": np.ones(4, np.float32)})[0], A)
    with pytest.raises(InputError, match="axis 0 \\(n\\) is 2, but input 'a' has n = 4"):
        interface.arrays({"a": A, "b": B})


def test_lists_of_text_and_bytes_are_strings() -> None:
    """
    Bytes are UTF-8, beside str too.
    """
    signature = Interface((Tensor("x", np.dtype(object), (2,)),), ())

    (array,) = signature.arrays({"x": ["a", b"caf\xc3\xa9"]})

    assert array.tolist() == ["a", "caf\u00e9"]


def test_an_element_that_is_no_text_is_named() -> None:
    """
    The error gives the index of the element.
    """
    signature = Interface((Tensor("x", np.dtype(object), (2,)),), ())

    with pytest.raises(InputError, match=r"wanted strings .*, got int at \[1\]"):
        signature.arrays({"x": ["a", 1]})


def declared(*inputs: Tensor) -> _native.DeclaredArrays:
    found = Interface(inputs, ()).declared_arrays()
    assert found is not None
    return found


def test_arrays_just_as_declared_need_no_closer_look() -> None:
    """
    The run gets the caller's own arrays, in the order of the inputs: making a view of one takes as long as a small
    kernel. Their shapes come along, and the sizes of open dimensions by name.
    """
    scalar, many = np.array(3, np.int64), np.ones((4, 0, 7), np.float32)
    many.flags.writeable = False
    inputs = (Tensor("a", F32, ("n", "none", "m")), Tensor("b", np.dtype(np.int64), ()), Tensor("c", F32, ("m", 2)))
    c = np.ones((7, 2), np.float32)
    found = declared(*inputs).fit({"c": c, "b": scalar, "a": many})

    assert found is not None
    arrays, shapes, sizes = found
    assert all(array is wanted for array, wanted in zip(arrays, (many, scalar, c), strict=True))
    assert shapes == ((4, 0, 7), (), (7, 2))
    assert sizes == {"n": 4, "none": 0, "m": 7}


class Mine(np.ndarray):
    """A class of arrays of the user."""


@pytest.mark.parametrize(
    "given",
    [
        {"a": A},
        {"a": A, "c": B},
        {"a": A, "b": B, "c": B},
        {"a": A.reshape(3, 4), "b": B},
        {"a": A[0], "b": B},
        {"a": A, "b": np.ones(3, np.float32)},
        {"a": A.astype(np.float64), "b": B},
        {"a": A.astype(">f4"), "b": B},
        {"a": np.ones((3, 4), np.float32).T, "b": B},
        {"a": A.tolist(), "b": B},
        {"a": A.view(Mine), "b": B},
        {"a": None, "b": B},
        [A, B],
        None,
    ],
    ids=str,
)
def test_all_other_arrays_need_one(given: object) -> None:
    """
    Another name, number, rank, size, dtype, byte order, memory order or kind of object is left to the full check.
    """
    assert declared(*INTERFACE.inputs).fit(given) is None


def test_unequal_sizes_of_one_name_need_a_closer_look() -> None:
    """
    Within one array and between two.
    """
    square = declared(Tensor("a", F32, ("n", "n")), Tensor("b", F32, ("n",)))

    assert square.fit({"a": np.ones((2, 2), np.float32), "b": B}) is not None
    assert square.fit({"a": np.ones((2, 3), np.float32), "b": B}) is None
    assert square.fit({"a": np.ones((3, 3), np.float32), "b": B}) is None


@pytest.mark.parametrize(
    "interface",
    [
        Interface((Tensor("a", None, (2,)),), ()),
        Interface((Tensor("a", F32, None),), ()),
        Interface((Tensor("a", np.dtype(object), (2,)),), ()),
        Interface((Tensor("a", F32, ("n",)),), (), dims=OpenDims(bounds={"n": Bounds(1, 4)})),
    ],
    ids=["any dtype", "any rank", "strings", "bounds"],
)
def test_what_is_declared_otherwise_always_needs_one(interface: Interface) -> None:
    """
    Arrays of any dtype or rank, strings, and sizes of which more is declared than their names.
    """
    assert interface.declared_arrays() is None
