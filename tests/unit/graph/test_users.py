"""The readers of a value."""

import pytest

from treadle.graph.node import Node
from treadle.graph.users import Users

A, B = (Node("relu", [], [], {}, name) for name in "ab")


def test_a_node_is_listed_once_for_each_reading():
    users = Users()
    for node in (A, B, A):
        users.append(node)
    assert sorted(node.name for node in users) == ["a", "a", "b"]
    assert len(users) == 3
    users.remove(A)
    assert list(users) == [A, B]
    users.remove(A)
    assert A not in users
    assert B in users
    users.clear()
    assert not users


def test_readers_may_change_while_they_are_listed():
    users = Users()
    users.append(A)
    users.append(B)
    for node in users:
        users.remove(node)
    assert not users


def test_removing_a_node_that_does_not_read_is_an_error():
    with pytest.raises(KeyError):
        Users().remove(A)
