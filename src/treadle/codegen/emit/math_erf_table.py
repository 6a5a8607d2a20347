"""The error function by table: sixteen polynomials, their coefficients picked lane by lane from registers."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.math_base import absolute, at_most, copysign, mad, magic
from treadle.codegen.emit.types import I32, lanes_of
from treadle.codegen.emit.vectors import bits_of, like, take

LANES = 16
"""f32 in one AVX-512 register, which holds a whole table of one coefficient."""

_WIDTH = 17 / 64
"""|x| is closest to `_CENTRES[i]` where |x| / _WIDTH rounds to i, nearly."""

_ONE_FROM = 4.0625

_CENTRES = (
    0.0, 0.26558420062065125, 0.531421422958374, 0.7967784404754639, 1.062185525894165, 1.328449010848999,
    1.593907356262207, 1.8596019744873047, 2.1248369216918945, 2.3909194469451904, 2.656726121902466,
    2.9218575954437256, 3.187354326248169, 3.4538402557373047, 3.7194652557373047, 3.9850902557373047,
)  # fmt: skip
"""Chosen such that erf and its slope there are nearly floats. x less its centre is exact."""

_COEFFICIENTS = (
    (
        0.0, 0.292780339717865, 0.547674298286438, 0.7401792407035828, 0.8669434785842896, 0.9397159814834595,
        0.9758117198944092, 0.9914583563804626, 0.9973439574241638, 0.9992784857749939, 0.9998281598091125,
        0.9999640583992004, 0.9999934434890747, 0.9999989867210388, 0.9999998807907104, 1.0,
    ),
    (
        0.12837916612625122, 1.0515310764312744, 0.8507589101791382, 0.5980543494224548, 0.36514678597450256,
        0.19320672750473022, 0.08894310146570206, 0.03553144261240959, 0.012349376454949379, 0.0037137484177947044,
        0.0009707793942652643, 0.00022119427740108222, 4.3687679863069206e-05, 7.4430608947295696e-06,
        1.1072444294768502e-06, 1.430378802069754e-07,
    ),
    (
        0.0, -0.2792700231075287, -0.45211151242256165, -0.47651681303977966, -0.38785362243652344,
        -0.25666528940200806, -0.14176706969738007, -0.06607434153556824, -0.026240410283207893,
        -0.008879273198544979, -0.002579094609245658, -0.0006462979945354164, -0.0001392480480717495,
        -2.5707122404128313e-05, -4.118352080695331e-06, -5.700177325707045e-07,
    ),
    (
        -0.3761213421821594, -0.30106106400489807, -0.12341327965259552, 0.05376385524868965, 0.1529303789138794,
        0.16290885210037231, 0.12099580466747284, 0.07007180154323578, 0.033054959028959274, 0.012915133498609066,
        0.004244243260473013, 0.0011851052986457944, 0.00028128508711233735, 5.669736856361851e-05,
        9.839265658229124e-06, 1.4658971849712543e-06,
    ),
    (
        0.0, 0.13306598365306854, 0.18349292874336243, 0.13741837441921234, 0.048064712435007095,
        -0.022651568055152893, -0.049171172082424164, -0.04312755540013313, -0.0263714250177145,
        -0.012479967437684536, -0.004778367932885885, -0.001516012940555811, -0.00040189819992519915,
        -8.935439109336585e-05, -1.6928621334955096e-05, -2.7315120405546622e-06,
    ),
    (
        0.11210142076015472, 0.07577301561832428, -0.0017673737602308393, -0.05940665304660797, -0.06595572829246521,
        -0.036826636642217636, -0.005112513899803162, 0.010918306186795235, 0.01244558859616518,
        0.008065932430326939, 0.003823379287496209, 0.0014294435968622565, 0.0004339590377639979,
        0.00010844413191080093, 2.277184285048861e-05, 4.031355729239294e-06,
    ),
    (
        0.0, -0.04190833494067192, -0.048281311988830566, -0.02070719189941883, 0.010478234849870205,
        0.022195586934685707, 0.015709640458226204, 0.004689671099185944, -0.0017749301623553038,
        -0.0030786471907049417, -0.0020951698534190655, -0.0009796021040529013, -0.0003506867215037346,
        -0.00010004526120610535, -2.3474374756915495e-05, -4.57560008726432e-06,
    ),
)  # fmt: skip
"""erf(centre + r) in r, lowest power first; around 0 the polynomial is of erf(r) - r."""


def has_table(k: Kernel, x: ir.Value) -> bool:
    """Whether this target can pick from a table, and x (f32) fills one register or two."""
    return k.target.isa == "avx512" and lanes_of(x.type) in (LANES, 2 * LANES)


def erf_by_table(k: Kernel, x: ir.Value) -> ir.Value:
    """erf(x) within 1.1 ulp"""
    if lanes_of(x.type) == 2 * LANES:
        low, high = (erf_by_table(k, take(k, x, half)) for half in (range(LANES), range(LANES, 2 * LANES)))
        return k.b.shuffle_vector(low, high, ir.Constant(ir.VectorType(I32, 2 * LANES), list(range(2 * LANES))))
    size = at_most(k, absolute(k, x), _ONE_FROM)
    number = bits_of(k, mad(k, size, like(x, 1 / _WIDTH), like(x, magic(x))))
    r = k.b.fsub(size, _pick(k, _CENTRES, number))
    value = _pick(k, _COEFFICIENTS[-1], number)
    for table in _COEFFICIENTS[-2:0:-1]:
        value = mad(k, value, r, _pick(k, table, number))
    around_zero = k.b.icmp_unsigned("==", number, bits_of(k, like(x, magic(x))))
    base = k.b.select(around_zero, r, _pick(k, _COEFFICIENTS[0], number))
    return copysign(k, mad(k, value, r, base), x)


def _pick(k: Kernel, table: tuple[float, ...], number: ir.Value) -> ir.Value:
    """table[number % 16] in each lane."""
    type_ = ir.VectorType(ir.FloatType(), LANES)
    function = k.intrinsic("llvm.x86.avx512.permvar.sf.512", type_, type_, number.type)
    return k.b.call(function, [ir.Constant(type_, list(table)), number])
