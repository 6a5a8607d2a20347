"""Cases of spread."""

from tests.ops.case import Case, floats

CASES = [
    Case(
        f"spread/{name}",
        "spread",
        {
            "strides": strides,
            "channels": channels,
            "begins": begins or (0,) * len(strides),
            "ends": ends or (0,) * len(strides),
        },
        (floats("spread", 2, given, *sizes),),
    )
    for name, strides, channels, given, sizes, begins, ends in (
        ("square", (2, 2), 3, 12, (4, 5), (), ()),
        ("uneven", (2, 3), 2, 12, (3, 5), (), ()),
        ("row", (8,), 3, 24, (17,), (), ()),
        ("volume", (1, 2, 2), 3, 12, (2, 3, 4), (), ()),
        ("blocks", (2, 2), 32, 128, (5, 3), (), ()),
        ("first channels of blocks", (2, 2), 24, 128, (5, 7), (), ()),
        ("one channel", (2, 2), 1, 4, (6, 5), (), ()),
        ("nothing", (2, 2), 3, 12, (0, 5), (), ()),
        ("cut square", (2, 2), 3, 12, (4, 5), (1, 1), (1, 0)),
        ("cut blocks", (2, 3), 24, 192, (4, 5), (1, 2), (1, 2)),
        ("cut row", (8,), 16, 128, (9,), (4,), (4,)),
        ("cut to nothing", (2,), 3, 6, (1,), (1,), (1,)),
    )
]
