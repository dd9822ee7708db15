"""The scalar functions of stages: on which dtypes kernels have them, and their costs."""

from __future__ import annotations

from structir.ir.dtype import INTS, is_float
from structir.ir.kernel_functions import EIGHTHS, NARROW, ROUND
from structir.ir.scalar_functions import declared

STORED_AS = {"bool": "uint8", "float16": "uint16", "bfloat16": "uint16"}  # the others as they are
STORED_AS |= dict.fromkeys(EIGHTHS, "uint8")
ALL_KINDS = frozenset({"cast", "select", "lt", "le", "gt", "ge", "eq", "ne", "abs", "min", "max"})
ALL_KINDS |= {"add", "mul", "ceil", "floor", "round", "trunc", "isnan", "isinf", "isfinite"}
BITS = frozenset({"bitand", "bitor", "bitxor", "bitnot"})
NUMBERS = frozenset({"sub", "floordiv", "mod", "neg", "sign"})
FLOATS = NUMBERS | {"div", "to_odd", "accumulate_min", "accumulate_max"}
FLOATS |= {f"{ROUND}{dtype}" for dtype in NARROW}
WHOLE = NUMBERS | BITS | {"quotient", "pow", "shl", "shr"}
BOOLS = BITS | {"and", "or", "xor", "not"}
# Roughly: additions. What is cheaper than this to compute again is not kept between loops.
COSTS = {"div": 4, "floordiv": 6, "quotient": 6, "mod": 6}


def cost_of(fn: str) -> float:
    """How much a scalar function costs, an addition being 1."""
    function = declared().get(fn)
    return COSTS.get(fn, 1) if function is None else function.cost


def is_written(fn: str, operand_dtype: str) -> bool:
    """Whether kernels have this function on this dtype."""
    own = BOOLS if operand_dtype == "bool" else WHOLE if operand_dtype in INTS else FLOATS
    return fn in ALL_KINDS or fn in own or (is_float(operand_dtype) and fn in declared())
