"""Templates of programs: binding to sizes in the native core, against the same computed in Python."""

from __future__ import annotations

import itertools
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.unit.runtime.template_builder import Builder, Factory, Kernel, chain, fail, scale

from treadle import _native
from treadle.errors import KernelError
from treadle.plan.binder import OPS
from treadle.plan.first_fit import first_fit
from treadle.runtime.program_template import MOST_BINDINGS, ProgramTemplate


@pytest.fixture
def team():
    team = _native.Team("test", 2, 2)
    yield team
    team.close()


def test_division_by_zero_is_a_failure():
    """
    An expression that divides by a size that is 0 cannot be bound.
    """
    layout = Builder(1).layout()
    rows = np.array([[OPS.index("floordiv"), 0]], np.int32)
    template = ProgramTemplate(layout._replace(operations=rows, operands=np.array([1, 0], np.int32)))
    template.bind((1,))
    with pytest.raises(_native.BindingFailure, match="operation 0 divides by 0") as caught:
        template.bind((0,))
    assert caught.value.kind == "division"


def test_faulty_layouts_are_refused():
    """
    Every slot, operation, buffer and task is checked, and the message names the faulty entry.
    """
    good = chain().layout()
    ProgramTemplate(good)
    step = good.steps[0]
    faulty = [
        ({"symbols": -1}, "symbols"),
        ({"operands": good.operands + 1000}, "operation 0: slot must be in"),
        ({"operations": good.operations + np.array([100, 0], np.int32)}, f"wanted a number in 0..{len(OPS)} "),
        ({"operations": good.operations[::-1].copy()}, "operation 0: wanted 2 of"),
        ({"guards": [99]}, "guard 0: slot must be in"),
        ({"scratch_bytes": -1}, "scratch_bytes: slot must be in"),
        ({"buffers": [*good.buffers[:1], ("arena", 99), *good.buffers[2:]]}, "buffer 1, size: slot must be in"),
        ({"buffers": [*good.buffers[:1], ("heap", 0), *good.buffers[2:]]}, "buffer 1: kind must be"),
        ({"buffers": [("bound", -1), *good.buffers[1:]]}, "buffer 0: value must be at least 0"),
        ({"rivals": [(0, 1)]}, "rivals 0: wanted two buffers in the arena, got 0 and 1"),
        ({"rivals": [(1, 77)]}, "rivals 0: wanted two buffers in the arena, got 1 and 77"),
        ({"tasks": [(0, 1, False)]}, "belongs to no task"),
        ({"successors": [[1], [0]]}, "acyclic"),
        ({"steps": [step._replace(chunks=99), good.steps[1]]}, "step 0, chunks: slot must be in"),
        ({"steps": [step._replace(cost=step.chunks), good.steps[1]]}, "step 0, cost: wanted a real number"),
        ({"steps": [step._replace(chunks=step.cost), good.steps[1]]}, "in slot 5, which holds the other kind"),
        ({"steps": [step._replace(args=[-1]), good.steps[1]]}, "step 0, argument 0: slot must be in"),
        ({"steps": [step._replace(pointers=[(9, 0)]), good.steps[1]]}, "step 0, pointer 0: buffer must be in"),
        ({"steps": [step._replace(pointers=[(0, 99)]), good.steps[1]]}, "step 0, pointer 0: slot must be in"),
        ({"steps": [step._replace(body=0), good.steps[1]]}, "step 0: wanted either a non-null kernel address"),
    ]
    for changes, message in faulty:
        with pytest.raises(ValueError, match=message):
            ProgramTemplate(good._replace(**changes))


@pytest.mark.parametrize("seed", range(30))
def test_the_arena_is_assigned_as_the_planner_does(team, seed):
    """
    Random sizes and rivals: offsets are those of the planner for known sizes, and rivals do not overlap.
    """
    draw = random.Random(seed)
    count = draw.randint(1, 25)
    b = Builder(3)
    (n,) = b.symbols
    factors = [draw.choice([0, 1, 5, 16, 40, 100]) for _ in range(count)]
    sizes = [factor * n for factor in factors]
    b.buffers = [("arena", size) for size in sizes]
    b.rivals = [pair for pair in itertools.combinations(range(count), 2) if draw.random() < 0.4]
    seen: dict[int, int] = {}

    @Kernel
    def note(pointers, args, _chunk, _scratch):
        seen[args[0]] = pointers[0]
        return 0

    for i in range(count):
        b.add(note, [(i, 0)], [i], 1, after=(i - 1,) if i else ())
    template = b.build()
    rivals = {i: [j for pair in b.rivals if i in pair for j in pair if j != i] for i in range(count)}
    for value in (1, 64, 3):
        executable = template.bind((value,))
        executable.run([], team)
        planned = sorted(range(count), key=lambda i, value=value: (-factors[i] * value, i))
        offsets, arena = first_fit(((i, factors[i] * value) for i in planned), rivals.__getitem__)
        first = min(seen.values())
        lowest = min(offsets.values())
        assert [seen[i] - first for i in range(count)] == [offsets[i] - lowest for i in range(count)]
        assert executable.arena_bytes == arena
        for i, j in b.rivals:
            (low, size), (high, _) = sorted([(seen[i], factors[i] * value), (seen[j], factors[j] * value)])
            assert low + max(size, 1) <= high


def test_an_arena_beyond_the_limit_is_a_failure():
    """
    A buffer of more than 2**40 bytes, and buffers that exceed them together.
    """
    b = Builder(1)
    b.buffers = [("arena", b.symbols[0]), ("arena", b.symbols[0])]
    b.rivals = [(0, 1)]
    template = b.build()
    template.bind((1 << 39,))
    for size in ((1 << 40) + 1, (1 << 39) + 1):
        with pytest.raises(_native.BindingFailure, match="exceeds 2\\*\\*40 bytes") as caught:
            template.bind((size,))
        assert caught.value.kind == "arena"


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda b, n: b.add(scale, [], [], n - 2), "step"),
        (lambda b, n: b.add(scale, [(0, n - 2)], [], 1), "step"),
        (lambda b, n: b.add(scale, [], [], 1, cost=n * 0.5 - 1.0), "step"),
        (lambda b, n: b.buffers.append(("arena", n - 2)), "buffer"),
        (lambda b, n: b.outputs.append(((1, n - 2), np.float32)), "requested"),
    ],
)
def test_negative_sizes_are_failures(change, kind):
    """
    Chunks, offsets, costs, sizes and shapes that are negative fail; those that are 0 do not.
    """
    b = Builder(5)
    b.buffers = [("arena", 64)]
    change(b, b.symbols[0])
    template = b.build()
    template.bind((2,))
    with pytest.raises(_native.BindingFailure) as caught:
        template.bind((1,))
    assert caught.value.kind == kind


@pytest.mark.parametrize(("outputs", "width"), [(1, 1), (1, 5000), (9, 1), (9, 3000)])
def test_one_template_serves_all_sizes(team, outputs, width):
    """
    Small and large outputs, alone and in shared blocks, also empty ones.
    """
    template = chain(outputs=outputs, width=width).build()
    for rows in (1, 3, 0, 8, 1):
        x = np.random.default_rng(rows).random((rows, width), np.float32)
        results = template.bind((rows,)).run([x], team)
        assert len(results) == outputs
        for i, result in enumerate(results):
            np.testing.assert_array_equal(result, x * 2 * (3 + i))


def test_bindings_are_kept_and_the_oldest_dropped(team):
    """
    The same sizes give the same executable until others have taken its place.
    """
    template = chain().build()
    first = template.bind((3,))
    assert template.bind((3,)) is first
    assert template.bind((4,)) is not first
    for rows in range(10, 10 + MOST_BINDINGS):
        template.bind((rows,))
    again = template.bind((3,))
    assert again is not first
    x = np.ones((3, 1), np.float32)
    for executable in (first, again):
        np.testing.assert_array_equal(executable.run([x], team)[0], x * 6)


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_plan_of_one_user_is_bound_to_one_size_after_another(team, outputs):
    """
    One program serves them all, also after a size that no plan serves; results are as if it was bound to each.
    """
    template = chain(outputs=outputs, width=3).build()
    plan = template.moving(["rows"])
    first = plan.bind({"rows": 3})
    program = first.program
    assert plan.bind({"rows": 3}) is first
    for rows in (5, 1000, 1000, 1, 0, 40_000, 60_000, 30_000, 7):
        x = np.random.default_rng(rows).standard_normal((rows, 3), dtype=np.float32)
        executable = plan.bind({"rows": rows})
        assert executable is first
        assert executable.program is program
        for found, wanted in zip(executable.run([x], team), template.bind((rows,)).run([x], team), strict=True):
            np.testing.assert_array_equal(found, wanted)
        assert executable.arena_bytes == template.bind((rows,)).arena_bytes
        assert executable.cost_ns == template.bind((rows,)).cost_ns
        assert plan.bind({"rows": 1 << 62}) is None


def test_steps_with_functions_have_no_plan_of_one_user():
    """
    Functions are made for sizes.
    """
    b = Builder(1)
    b.add(Factory(lambda: lambda addresses: None), [], [], 1)
    assert b.build().moving(["rows"]) is None


def test_a_failing_kernel_names_its_node(team):
    """
    Labels and failures are those of the template.
    """
    b = Builder(1)
    b.add(fail, [], [], b.symbols[0])
    template = b.build()
    with pytest.raises(KernelError, match="node 'node0' \\(test\\): it always fails"):
        template.bind((2,)).run([], team)
    with pytest.raises(KernelError, match="node 'node0' \\(test\\): it always fails"):
        template.moving(["rows"]).bind({"rows": 2}).run([], team)
    assert template.bind((0,)).run([], team) == []


def test_caps_are_in_force_in_all_bindings():
    """
    In those that exist and in those that are made later: never more workers at once than the cap.
    """
    running, most = 0, 0
    lock = threading.Lock()

    @Kernel
    def count(_pointers, _args, _chunk, _scratch):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.005)
        with lock:
            running -= 1
        return 0

    b = Builder(1)
    b.add(count, [], [], b.symbols[0], cost=1e9, caps={"node": 0})
    template = b.build()
    own = template.moving(["rows"])
    team = _native.Team("caps", 4, 1)
    try:
        own.bind({"rows": 40}).run([], team)
        template.bind((40,)).run([], team)
        assert most > 1
        template.cap({"node": 1})
        for chunks in (40, 41):
            for executable in (template.bind((chunks,)), own.bind({"rows": chunks})):
                most = 0
                executable.run([], team)
                assert most == 1
        template.cap({})
        template.bind((42,)).run([], team)
        assert most > 1
    finally:
        team.close()


def test_priorities_are_the_paths_to_the_end():
    """
    Of two ready tasks the one with the longer path to the end starts first, whichever that is for the sizes.
    """
    order: list[int] = []

    @Kernel
    def note(_pointers, args, _chunk, _scratch):
        order.append(args[0])
        return 0

    b = Builder(1, 1)
    for i, cost in enumerate((b.symbols[0] * 1.0, b.symbols[1] * 1.0)):
        b.add(note, [], [i], 1, cost=1.0)
        b.add(note, [], [i + 10], 1, cost=cost, after=(2 * i,))
    template = b.build()
    team = _native.Team("priorities", 1, 1)
    try:
        for sizes, wanted in (((5, 2), [0, 10, 1, 11]), ((2, 5), [1, 11, 0, 10])):
            order.clear()
            template.bind(sizes).run([], team)
            assert order == wanted
    finally:
        team.close()


def test_threads_bind_and_run_at_the_same_time(team):
    """
    Each thread gets the results for its sizes while others bind and run the same template.
    """
    template = chain(outputs=2, width=3).build()

    def work(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(60):
            rows = draw.randint(0, MOST_BINDINGS + 10)
            x = np.full((rows, 3), rows, np.float32)
            for i, result in enumerate(template.bind((rows,)).run([x], team)):
                np.testing.assert_array_equal(result, x * 2 * (3 + i))
            if draw.random() < 0.05:
                template.trim()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
