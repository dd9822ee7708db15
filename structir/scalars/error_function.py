"""The error function, its complement and its inverse: the scalar functions, and the ops of the last
two and of the inverse normal distribution."""

import math

from structir.ir.scalar_functions import declare
from structir.lazy import lazy_module
from structir.opdef.define import op
from structir.opdef.examples import ExactValues
from structir.projections import scalar_expr as e
from structir.projections.scalar_expr import ScalarExpr
from structir.scalars.polynomial import polynomial

np = lazy_module("numpy")
special = lazy_module("scipy.special")
vector = lazy_module("structir.targets.cpu.math.error_function")
wide = lazy_module("structir.targets.cpu.math.wide_error_function")

# ndtri(p) / (2 p - 1) for w = -log(4 p (1 - p)): up to sqrt(w) = 2.5 in w less a center; divided by
# sqrt(w) + 1, in 1 / (sqrt(w) + 1) less a center. Interpolated at Chebyshev points.
NORMAL_MIDDLE = (
    2.338620710026593,
    0.3396349587011389,
    -0.008532899177267345,
    -0.001047511569485617,
    0.0002640820495406167,
    -1.9632852863696442e-05,
    -1.9310650275298804e-06,
    5.988894861277319e-07,
    -4.111174160550445e-08,
    -5.8161801676714855e-09,
    1.4866543569083624e-09,
    -7.65698113492015e-11,
    -1.8354802577559388e-11,
    3.7201267209535326e-12,
    -1.1415427137390895e-13,
    -5.659687073061811e-14,
    9.222558296724627e-15,
    -5.57226748086415e-17,
    -1.7275519790527177e-16,
    2.193556535248458e-17,
    8.591419094975001e-19,
    -4.912241660340459e-19,
    2.8273805909578654e-20,
    4.5170201066048494e-21,
    -5.081556263217504e-22,
)
NORMAL_TAIL = (
    1.0384499489143755,
    -1.6885109542211492,
    0.48688221660258624,
    3.982387670327407,
    25.395234689595593,
    280.9138761005026,
    1061.7832329520695,
    -13801.937871273682,
    -155339.22879951965,
    462461.4904321957,
    12009658.616334928,
    -19527105.983790338,
    -784755543.535342,
    1858403146.1522326,
    44480363024.28133,
    -195791580702.47076,
    -1975677196704.387,
    14037644022709.064,
    54155510380506.06,
    -496040667207771.7,
    -418986031740907.4,
)
NORMAL_FAR_TAIL = (
    1.2524884931891727,
    -1.6756912714557313,
    -0.558133353746909,
    2.848831911067177,
    -2.7985357513693114,
    19.961625476820807,
    -101.05424734566081,
    555.4824480721583,
    -3468.331041529775,
    22786.67207323895,
    -154917.32106919136,
    1104252.5901048724,
    -9299921.144169383,
    70836042.6587584,
    -60198466.02323996,
    303596979.0258252,
    -130420633135.6233,
    1072591229916.809,
    12185839655531.746,
    -102135039114435.67,
    -1082167024118782.5,
    9255985070517290.0,
)
NORMAL_ENDS = 2.5, 4.9  # of the first two intervals, in sqrt(w)
NORMAL_CENTERS = 3.125, 0.22801223835656353, 0.10235139651468131

declare(
    "erf",
    numpy=lambda x: special.erf(x),
    slopes=(lambda x: 2 / math.sqrt(math.pi) * e.exp(-x * x),),
    single=lambda: vector.erf,
    double=lambda: wide.erf,
    # 1 + erf(x) needs no digits of erf(x) below those of 1.
    plus_one=lambda x, dtype: e.ScalarOp("erf_plus_one", (x,)) if dtype == "float32" else None,
    parity="odd",
    monotone="increasing",
)
declare(
    "erf_plus_one",
    rule="",
    numpy=lambda x: special.erf(x) + 1,
    single=lambda: vector.erf_plus_one,
    body=lambda x: e.erf(x) + 1,
    monotone="increasing",
)
declare(
    "erfc",
    numpy=lambda x: special.erfc(x),
    slopes=(lambda x: -2 / math.sqrt(math.pi) * e.exp(-x * x),),
    single=lambda: vector.erfc,
    double=lambda: wide.erfc,
    monotone="decreasing",
)
declare(
    "erfinv",
    numpy=lambda x: np.where(x == 0, x, special.erfinv(x)),  # SciPy loses the sign of zero
    slopes=(lambda x: math.sqrt(math.pi) / 2 * e.exp(e.erfinv(x) * e.erfinv(x)),),
    single=lambda: vector.erfinv,
    double=lambda: wide.erfinv,
    cost=30,
    domain=(-1, 1),
    parity="odd",
    monotone="increasing",
)


@op("x[*s] @ F -> y[*s] @ F")
def erfc(x: ScalarExpr) -> ScalarExpr:
    """Computes 1 - erf(x), with its full relative accuracy for large x."""
    return e.erfc(x)


@op("x[*s] @ F -> y[*s] @ F")
def erfinv(x: ScalarExpr) -> ScalarExpr:
    """Computes the inverse of erf: infinite at -1 and 1, NaN outside of them."""
    return e.erfinv(x)


def _ndtri(p: ScalarExpr) -> ScalarExpr:
    # The quotient by 2 p - 1 is symmetric in p and 1 - p. At p = 1/2, where w = 0, the root is
    # bounded: its slope is infinite.
    inner = e.select(p > 0, e.select(p < 1, p, 0.5), 0.5)
    w = -e.log(4 * inner * (1 - inner))
    root = e.sqrt(e.max(w, NORMAL_ENDS[0] ** 2)) + 1
    middle, tail, far_tail = NORMAL_CENTERS
    near = polynomial(1 / root - tail, NORMAL_TAIL)
    far = polynomial(1 / root - far_tail, NORMAL_FAR_TAIL)
    outer = root * e.select(root < NORMAL_ENDS[1] + 1, near, far)
    quotient = e.select(w < NORMAL_ENDS[0] ** 2, polynomial(w - middle, NORMAL_MIDDLE), outer)
    value = e.select(e.eq(p, 0), -math.inf, (2 * inner - 1) * quotient)
    value = e.select(e.eq(p, 1), math.inf, value)
    result: ScalarExpr = e.select(p >= 0, e.select(p <= 1, value, math.nan), math.nan)
    return result


declare(
    "ndtri",
    kind="",
    numpy=lambda p: special.ndtri(p),
    slopes=(lambda p: math.sqrt(2 * math.pi) * e.exp(e.ndtri(p) * e.ndtri(p) / 2),),
    body=_ndtri,
    cost=60,
    domain=(0, 1),
    monotone="increasing",
)


@op("p[*s] @ F -> x[*s] @ F")
def ndtri(p: ScalarExpr) -> ScalarExpr:
    """Computes the inverse of the normal distribution function: infinite at 0 and 1, NaN outside
    of them."""
    return e.ndtri(p)


ndtri.example(ExactValues("float32", ((0.5, 0.25, 0.9), (0.01, 0.999, 0.0))))
