"""An order in which every node follows what it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class Cycle(Exception):  # noqa: N818 - not an error: the caller catches it and words one
    """A dependency cycle: the indices of its nodes, each reading the next."""

    def __init__(self, indices: Sequence[int]) -> None:
        super().__init__(indices)
        self.indices = tuple(indices)


def depth_first(needs: Sequence[Sequence[int]]) -> list[int]:
    """Returns the indices ordered so that each follows its `needs`. Iterative, because chains may be long.

    Raises Cycle if there is no such order.
    """
    order: list[int] = []
    state = [0] * len(needs)  # 0 new, 1 on the path, 2 placed
    for start in range(len(needs)):
        path: list[tuple[int, Iterator[int]]] = []
        if state[start] == 0:
            state[start] = 1
            path.append((start, iter(needs[start])))
        while path:
            index, rest = path[-1]
            for need in rest:
                if state[need] == 1:
                    chain = [entry for entry, _ in path]
                    raise Cycle(chain[chain.index(need) :])
                if state[need] == 0:
                    state[need] = 1
                    path.append((need, iter(needs[need])))
                    break
            else:
                state[index] = 2
                order.append(index)
                path.pop()
    return order
