"""Tables of the scalar functions and library functions of kernels."""

from __future__ import annotations

from typing import Any

import attrs

from structir.ir.dtype import is_int
from structir.ir.scalar_functions import FunctionTable, ScalarFunction

WEAK = {"int": "int64", "float": "float32"}  # the dtype of a literal without a typed operand


KIND_NAMES = {
    "float": "floats",
    "int": "integers",
    "number": "numbers",
    "bits": "integers or booleans",
    "bool": "booleans",
    "any": "numbers or booleans",
    "single": "float32 numbers",
    "double": "float64 numbers",
}
EIGHTHS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
NARROW = ("float16", "bfloat16", *EIGHTHS)  # dtypes of memory, computed in float32
ROUND = "round_to_"

# Binding strengths are Python's, weakest first.
CHOICE, OR, AND, NOT, COMPARE, BITOR, BITXOR, BITAND, SHIFT, SUM, PRODUCT, SIGN, POWER, ATOM = (
    range(14)
)

_OPERATORS = (
    ScalarFunction("or", "bool", 2, symbol="or", strength=OR),
    ScalarFunction("and", "bool", 2, symbol="and", strength=AND),
    ScalarFunction("not", "bool", 1, symbol="not ", strength=NOT),
    *[
        ScalarFunction(name, "number", 2, test=True, symbol=symbol, strength=COMPARE)
        for name, symbol in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))
    ],
    ScalarFunction("eq", "any", 2, test=True, symbol="==", strength=COMPARE),
    ScalarFunction("ne", "any", 2, test=True, symbol="!=", strength=COMPARE),
    ScalarFunction("bitor", "bits", 2, symbol="|", strength=BITOR),
    ScalarFunction("bitxor", "bits", 2, symbol="^", strength=BITXOR),
    ScalarFunction("bitand", "bits", 2, symbol="&", strength=BITAND),
    ScalarFunction("shl", "int", 2, symbol="<<", strength=SHIFT),
    ScalarFunction("shr", "int", 2, symbol=">>", strength=SHIFT),
    ScalarFunction("add", "number", 2, symbol="+", strength=SUM),
    ScalarFunction("sub", "number", 2, symbol="-", strength=SUM),
    ScalarFunction("mul", "number", 2, symbol="*", strength=PRODUCT),
    ScalarFunction("div", "float", 2, symbol="/", strength=PRODUCT),
    ScalarFunction("floordiv", "number", 2, symbol="//", strength=PRODUCT),
    ScalarFunction("mod", "number", 2, symbol="%", strength=PRODUCT),
    ScalarFunction("neg", "number", 1, symbol="-", strength=SIGN),
    ScalarFunction("bitnot", "int", 1, symbol="~", strength=SIGN),
    ScalarFunction("pow", "number", 2, symbol="**", strength=POWER),
)
_PLAIN = (
    ScalarFunction("min", "number", -1),
    ScalarFunction("max", "number", -1),
    ScalarFunction("abs", "number", 1),
)
ROUNDINGS = ("ceil", "floor", "round", "trunc")
_OF_T = (
    *[ScalarFunction(name, "float", 1) for name in ROUNDINGS],
    *[ScalarFunction(name, "float", 1, test=True) for name in ("isfinite", "isinf", "isnan")],
    # NaN if an operand is NaN; sums (their terms may be reordered) and products
    *[ScalarFunction(name, "float", 2) for name in ("maximum", "minimum", "add_to", "multiply_to")],
    ScalarFunction("quotient", "int", 2),  # rounded toward zero; 0 where the divisor is 0
    *[ScalarFunction(f"{ROUND}{dtype}", "single") for dtype in NARROW],
    ScalarFunction("to_odd", "double"),  # of 24 bits: what rounds it further rounds once
)


def rounds_to_integers(fn: str, dtype: str) -> bool:
    """Whether a function with results of a dtype rounds floats to integers: the last bit of an
    argument may decide which integer."""
    return fn in ROUNDINGS or (fn == "cast" and is_int(dtype))


@attrs.frozen
class LibraryFunction:
    """A library function on memory regions.

    `regions` maps each region to the (count, step) of each of its axes, as names of `integers`.
    `written` is the index of the region that the function writes, or adds to if it `accumulates`.
    `tables` are regions of int64; the other ones have one dtype.
    """

    regions: dict[str, tuple[tuple[str, str], ...]]
    integers: tuple[str, ...]
    written: int
    tables: frozenset[str] = frozenset()
    accumulates: bool = False

    def steps(self, region: str, values: dict[str, Any]) -> list[tuple[Any, Any]]:
        """Returns the count and the step of each axis of a region."""
        return [(values[count], values.get(step, 1)) for count, step in self.regions[region]]


PANEL_COLUMNS = 16  # panels have a multiple of this many columns

# The integers of a window: its sizes, strides and dilations.
WINDOW = (
    *("window_rows", "window_columns", "row_step", "column_step"),
    *("row_dilation", "column_dilation"),
)


# A product of strided matrices.
PRODUCT_REGIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "left": (("rows", "left_row"), ("terms", "left_term")),
    "right": (("terms", "right_term"), ("columns", "right_column")),
    "out": (("rows", "out_row"), ("columns", "")),
}
PRODUCT_INTEGERS = (
    *("rows", "columns", "terms", "left_row", "left_term", "right_term", "right_column"),
    "out_row",
)


def _window_function(
    weights: tuple[str, ...] = (), strides: tuple[str, ...] = ()
) -> LibraryFunction:
    """Returns a reduction over the windows of an image: element (i, j) of a window is that at
    (row * row_step + i * row_dilation - top, column * column_step + j * column_dilation - left).

    Elements outside of the image do not count.
    """
    regions: dict[str, tuple[tuple[str, str], ...]] = {
        "out": (("rows", "out_row"), ("columns", "")),
        "image": (("height", "image_row"), ("width", "")),
        **{name: (("window_rows", strides[0]), ("window_columns", strides[1])) for name in weights},
    }
    sizes = ("rows", "columns", "height", "width", "top", "left", "image_row", "out_row")
    return LibraryFunction(regions, (*sizes, *strides, *WINDOW), 0)


LIBRARY = {
    "pack_panels": LibraryFunction(
        {
            "panels": (("terms", "panel_columns"), ("panel_columns", "")),
            "source": (("terms", "source_row"), ("columns", "source_column")),
        },
        ("terms", "columns", "panel_columns", "source_row", "source_column"),
        0,
    ),
    "packed_product": LibraryFunction(
        {
            "left": (("rows", "left_row"), ("terms", "left_term")),
            "panels": (("terms", "panel_columns"), ("panel_columns", "")),
            "out": (("rows", "out_row"), ("columns", "")),
        },
        ("rows", "columns", "terms", "panel_columns", "left_row", "left_term", "out_row"),
        2,
    ),
    "column_product": LibraryFunction(
        {
            "left": (("rows", "left_row"), ("terms", "left_term")),
            "right": (("terms", "right_term"), ("all_columns", "right_column")),
            "out": (("rows", "out_row"), ("columns", "")),
        },
        (
            *("rows", "columns", "terms", "left_row", "left_term", "all_columns", "first"),
            *("right_term", "right_column", "out_row"),
        ),
        2,
    ),
    "gathered_product": LibraryFunction(
        {
            "left": (("rows", "left_row"), ("terms", "")),
            "right": (("span", ""),),
            "starts": (("terms", ""),),
            "out": (("rows", "out_row"), ("columns", "")),
        },
        ("rows", "columns", "terms", "left_row", "span", "out_row"),
        3,
        frozenset({"starts"}),
    ),
    "pixel_product": LibraryFunction(
        {
            "weights": (("weight_rows", "weight_row"), ("terms", "")),
            "image": (("span", ""),),
            "starts": (("terms", ""),),
            "points": (("columns", ""),),
            "out": (("rows", "out_row"), ("columns", "")),
        },
        ("rows", "columns", "terms", "weight_rows", "weight_row", "first", "span", "out_row"),
        4,
        frozenset({"starts", "points"}),
    ),
    "tiled_product": LibraryFunction(PRODUCT_REGIONS, PRODUCT_INTEGERS, 2),
    "ordered_product": LibraryFunction(PRODUCT_REGIONS, PRODUCT_INTEGERS, 2, accumulates=True),
    "transpose": LibraryFunction(
        {
            "out": (("rows", "out_row"), ("columns", "")),
            "source": (("columns", "source_row"), ("rows", "")),
        },
        ("rows", "columns", "out_row", "source_row"),
        0,
    ),
    "window_products": _window_function(("weights",), ("weight_row", "weight_column")),
    **{name: _window_function() for name in ("window_sums", "window_maxima", "window_minima")},
}

# The indices of a thread and of its block, their counts, and values of other lanes of the warp.
OF_THREADS = tuple([ScalarFunction(n, "any", 0) for n in ("thread", "threads", "block", "blocks")])
OF_LANES = tuple(
    [ScalarFunction(f"shuffle_{n}", "number", 2) for n in ("xor", "up", "down", "from")]
)


def _with_declared(*rows: ScalarFunction) -> FunctionTable:
    return FunctionTable({row.name: row for row in rows}, lambda function: function.kind)


SCALAR_FUNCTIONS = _with_declared(*_OPERATORS, *_PLAIN, *_OF_T, *OF_THREADS, *OF_LANES)
OF_PYTHON = {row.name: row for row in _PLAIN}  # written min(a, b)
OF_T = _with_declared(*_OF_T, *OF_THREADS, *OF_LANES)  # written T.exp(a)
UNARY = {row.symbol.strip(): row for row in _OPERATORS if row.count == 1}
BINARY = {row.symbol: row for row in _OPERATORS if row.count == 2}
CONVERSIONS = frozenset(
    {"bool", "float32", "float64"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
