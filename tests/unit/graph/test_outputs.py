"""The list of a graph's outputs, which knows where its values stand."""

from treadle.graph.outputs import Outputs
from treadle.graph.value import Value

A, B, C = (Value(name) for name in "abc")


def test_a_value_is_replaced_wherever_it_stands():
    outputs = Outputs([A, B, A])
    outputs.replace(A, C)
    assert list(outputs) == [C, B, C]
    assert A not in outputs
    outputs.replace(B, C)
    outputs.replace(C, A)
    assert list(outputs) == [A, A, A]


def test_replacing_a_value_by_itself_or_one_that_is_not_there_changes_nothing():
    outputs = Outputs([A, B])
    outputs.replace(C, A)
    outputs.replace(A, A)
    assert list(outputs) == [A, B]
    assert A in outputs


def test_places_follow_every_change():
    outputs = Outputs([A])
    assert B not in outputs
    outputs.append(B)
    outputs[0] = B
    assert A not in outputs
    outputs.insert(0, A)
    outputs[-1] = C
    assert list(outputs) == [A, B, C]
    assert C in outputs
    outputs[1:2] = [C, C]
    assert B not in outputs
    outputs.replace(C, B)
    assert list(outputs) == [A, B, B, B]


def test_every_other_change_of_a_list_is_followed_too():
    outputs = Outputs([A])
    assert A in outputs
    outputs.extend([B, C])
    assert C in outputs
    outputs += [C]
    outputs.remove(A)
    assert A not in outputs
    assert outputs.pop() is C
    del outputs[0]
    assert B not in outputs
    outputs.clear()
    assert C not in outputs
