"""The classes that `immutable` makes."""

from __future__ import annotations

import copy
import pickle

import pytest

from treadle.immutable import immutable


@immutable
class Size:
    """The size of something."""

    rows: int
    columns: int = 1

    @property
    def count(self) -> int:
        return self.rows * self.columns


@immutable
class Name:
    """One attribute."""

    text: str

    def __repr__(self) -> str:
        return f"<{self.text}>"


def test_attributes_are_given_by_place_or_name_and_have_defaults() -> None:
    assert (Size(3).count, Size(3, 4).count, Size(columns=5, rows=2).count) == (3, 12, 10)
    with pytest.raises(TypeError, match="rows"):
        Size()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="height"):
        Size(3, height=4)  # type: ignore[call-arg]


def test_objects_with_equal_attributes_are_equal() -> None:
    assert Size(3, 4) == Size(3, 4) != Size(4, 3)
    assert Name("a") != ("a",)
    assert {Size(3): "x", Name("a"): "y"}[Size(3, 1)] == "x"
    assert hash(Name("a")) == hash(Name("a"))


def test_attributes_cannot_change() -> None:
    size = Size(3)
    for change in (lambda: setattr(size, "rows", 4), lambda: delattr(size, "rows"), lambda: setattr(size, "other", 1)):
        with pytest.raises(AttributeError, match="cannot"):
            change()
    assert size == Size(3)
    assert not hasattr(size, "__dict__")


def test_a_text_names_the_attributes_unless_the_class_has_its_own() -> None:
    assert repr(Size(3)) == "Size(rows=3, columns=1)"
    assert repr(Name("a")) == "<a>"
    assert (Size.__doc__, Size.__module__) == ("The size of something.", __name__)


def test_objects_can_be_copied_pickled_and_matched() -> None:
    size = Size(3, 4)
    assert copy.copy(size) == copy.deepcopy(size) == pickle.loads(pickle.dumps(size)) == size
    match size:
        case Size(rows, columns):
            assert (rows, columns) == (3, 4)
