"""What a graph keeps in order while it is built."""

from treadle.graph.graph import Graph


def test_values_of_one_name_are_numbered():
    """The first keeps the name; later ones take the next number that no value has."""
    graph = Graph()
    taken = [graph.unique_name(name) for name in ("x", "x", "x.2", "x", "x.2", "", "")]
    assert taken == ["x", "x.1", "x.2", "x.3", "x.2.1", "value", "value.1"]


def test_a_hundred_thousand_values_of_one_name_have_names_of_their_own():
    """A model may leave all its values nameless: each name is found without trying those before it."""
    graph = Graph()
    assert len({graph.unique_name("x") for _ in range(100_000)}) == 100_000
