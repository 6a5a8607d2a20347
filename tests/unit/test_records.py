"""Data classes that are made quickly behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from treadle import records

T = TypeVar("T")


@records.dataclass(frozen=True, slots=True, kw_only=True)
class Base(Generic[T]):
    family: ClassVar[str] = "base"
    first: T
    second: int = 2


@records.dataclass(frozen=True, slots=True, kw_only=True)
class Derived(Base[int]):
    third: tuple[int, ...] = ()
    passed: int = field(default=0, compare=False, repr=False)


@records.dataclass(slots=True)
class Growing:
    name: str
    items: list[int] = field(default_factory=list)
    length: int = field(init=False)

    def __post_init__(self) -> None:
        self.length = len(self.items)


@records.dataclass(frozen=True, slots=True, eq=False)
class Lone:
    x: int


@records.dataclass(frozen=True, slots=True)
class Told:
    x: int

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 5

    def __repr__(self) -> str:
        return "told"


def standard(kind: type, **how: Any) -> Any:
    """What the standard library makes of the same annotations."""
    names = {each.name: each for each in fields(kind)}
    return dataclasses.make_dataclass(
        kind.__name__,
        [(name, Any, field(default=each.default)) if each.default is not dataclasses.MISSING else (name, Any)
         for name, each in names.items()],
        **how,
    )  # fmt: skip


def test_objects_are_made_from_places_names_and_defaults() -> None:
    one = Derived(first=1, third=(3,))
    assert (one.first, one.second, one.third, one.passed, one.family) == (1, 2, (3,), 0, "base")
    assert Growing("a", [1, 2]).length == 2
    assert Growing("a").items is not Growing("b").items
    for wrong in ({}, {"first": 1, "fourth": 4}):
        with pytest.raises(TypeError, match="argument"):
            Derived(**wrong)
    with pytest.raises(TypeError, match="positional"):
        Derived(1)


def test_fields_and_replace_are_those_of_the_standard_library() -> None:
    assert [each.name for each in fields(Derived)] == ["first", "second", "third", "passed"]
    assert replace(Derived(first=1), second=7) == Derived(first=1, second=7)
    assert Lone.__match_args__ == ("x",)
    assert not hasattr(Lone(1), "__dict__")


def test_objects_are_compared_hashed_and_shown_as_there() -> None:
    """Also a class with one attribute, and one that is not compared."""
    kind = standard(Base, frozen=True)
    assert repr(Base(first=1)) == repr(kind(first=1))
    assert repr(Derived(first=1)) == "Derived(first=1, second=2, third=())"
    assert hash(Base(first=1)) == hash(kind(first=1))
    assert Derived(first=1, passed=1) == Derived(first=1, passed=2)
    assert Base(first=1) != Derived(first=1)
    assert hash(Derived(first=1, passed=1)) == hash(Derived(first=1, passed=2))
    assert Lone(1) != Lone(1)
    assert Growing("a") == Growing("a")
    with pytest.raises(TypeError, match="unhashable"):
        hash(Growing("a"))
    assert (Told(1), hash(Told(1)), repr(Told(1))) == (Told(2), 5, "told")


def test_frozen_objects_cannot_be_changed() -> None:
    one = Derived(first=1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'first'"):
        one.first = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'first'"):
        del one.first
    growing = Growing("a")
    growing.name = "b"
    assert growing.name == "b"


def test_objects_are_copied_and_pickled() -> None:
    for one in (Derived(first=1, third=(2,)), Growing("a", [1]), Told(3)):
        for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert repr(other) == repr(one)
            assert [getattr(other, each.name) for each in fields(one)] == [
                getattr(one, each.name) for each in fields(one)
            ]
