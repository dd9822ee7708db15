"""The one table by scalar function name: how each is written in a kernel, for each kind of
dtype. What the names in these texts stand for is each backend's own."""

from __future__ import annotations

from structir.ir.dtype import INTS, is_float, is_int
from structir.ir.kernel_functions import EIGHTHS
from structir.ir.scalar_functions import declared
from structir.projections.scalar_expr import OperandElement, fold

ALL_KINDS = {
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "select": "({1} if {0} else {2})",
}
FLOATS = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "floordiv": "floor_quotient_{dtype}({0}, {1})",
    "mod": "remainder_{dtype}({0}, {1})",
    "neg": "-{0}",
    "abs": "abs({0})",
    "sign": "sign_of({0})",
    "ceil": "ceil({0})",
    "floor": "floor({0})",
    "round": "nearest({0})",
    "trunc": "trunc({0})",
    "min": "lesser({0}, {1})",
    "max": "greater({0}, {1})",
    "accumulate_min": "minimum({0}, {1})",  # of a reduction, which may lose the sign of a zero
    "accumulate_max": "maximum({0}, {1})",
    "isnan": "{0} != {0}",
    "isinf": "abs({0}) == inf",
    "isfinite": "abs({0}) < inf",
    "to_odd": "odd_single({0})",
    "round_to_float16": "half_value(half_bits({0}))",
    "round_to_bfloat16": "brain_value(brain_bits({0}))",
    **{f"round_to_{eighth}": f"{eighth}_value({eighth}_code({{0}}))" for eighth in EIGHTHS},
}
WHOLE = {
    "add": "{dtype}({0} + {1})",
    "sub": "{dtype}({0} - {1})",
    "mul": "{dtype}({0} * {1})",
    "floordiv": "{dtype}(floordiv_{dtype}({0}, {1}))",
    "quotient": "{dtype}(quotient_{dtype}({0}, {1}))",
    "mod": "{dtype}(mod_{dtype}({0}, {1}))",
    "pow": "{dtype}(whole_power({0}, {1}))",
    "neg": "{dtype}(-{0})",
    "abs": "{dtype}(abs({0}))",
    "sign": "{dtype}({dtype}({0} > 0) - {dtype}({0} < 0))",
    "ceil": "{0}",
    "floor": "{0}",
    "round": "{0}",
    "trunc": "{0}",
    "min": "({0} if {0} < {1} else {1})",
    "max": "({0} if {0} > {1} else {1})",
    "bitand": "{dtype}({0} & {1})",
    "bitor": "{dtype}({0} | {1})",
    "bitxor": "{dtype}({0} ^ {1})",
    "bitnot": "{dtype}(~{0})",
    "shl": "{dtype}(shifted_left({0}, {1}, {bits}))",
    "shr": "{dtype}(shifted_right({0}, {1}, {bits}))",
    "isnan": "False",
    "isinf": "False",
    "isfinite": "True",
}
# The only integers whose sums the compiler would otherwise assume never to overflow: those of
# narrower dtypes are added as int64 and cut off, unsigned ones wrap by themselves.
INT64 = {
    **WHOLE,
    "add": "wrapping_add({0}, {1})",
    "sub": "wrapping_sub({0}, {1})",
    "mul": "wrapping_mul({0}, {1})",
}
TRUTH = {
    "add": "{0} | {1}",
    "mul": "{0} & {1}",
    "max": "{0} | {1}",
    "min": "{0} & {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "not": "not {0}",
    "bitand": "{0} & {1}",
    "bitor": "{0} | {1}",
    "bitxor": "{0} ^ {1}",
    "bitnot": "not {0}",
    "abs": "{0}",
    "ceil": "{0}",
    "floor": "{0}",
    "round": "{0}",
    "trunc": "{0}",
    "isnan": "False",
    "isinf": "False",
    "isfinite": "True",
}


def _table(dtype: str) -> dict[str, str]:
    own = {"bool": TRUTH, "int64": INT64}.get(dtype)
    if own is not None:
        return own
    return WHOLE if dtype in INTS else FLOATS


def _declared_text(fn: str, dtype: str, args: list[str]) -> str:
    """A declared function: its own text, a call of its vector form, or the text of its body."""
    function = declared()[fn]
    if not is_float(dtype):
        raise KeyError(fn)
    if function.source:
        return function.source.format(*args, dtype=dtype)
    if function.body is None or function.single is not None:
        return f"{function.symbol_of(dtype)}({', '.join(args)})"
    operands = {f"x{k}": arg for k, arg in enumerate(args)}
    tree = function.body(*map(OperandElement, operands))

    def write(name: str, inner: list[str]) -> str:
        return f"({application_text(name, dtype, dtype, inner)})"

    return fold(tree, operands, lambda value: number_text(value, dtype), write)


def application_text(fn: str, dtype: str, operand_dtype: str, args: list[str]) -> str:
    """A function applied to the texts of its arguments, all names or literals."""
    if fn == "cast":
        return _cast_text(args[0], operand_dtype, dtype)
    template = ALL_KINDS.get(fn) or _table(operand_dtype).get(fn)
    if template is None:
        return _declared_text(fn, operand_dtype, args)
    bits = operand_dtype.lstrip("uint") if is_int(operand_dtype) else ""
    return template.format(*args, dtype=dtype, bits=bits)


def _cast_text(value: str, source: str, target: str) -> str:
    if source == target:
        return value
    if target == "bool":
        return f"{value} != 0"
    return f"to_{target}({value})" if is_float(source) and is_int(target) else f"{target}({value})"


def number_text(value: float | int | bool, dtype: str) -> str:
    """A constant of a dtype."""
    if dtype == "bool":
        return str(bool(value))
    if is_float(dtype):
        return f"{dtype}({float(value)!r})"
    return repr(int(value)) if dtype == "int64" else f"{dtype}({int(value)!r})"


def load_text(stored: str, place: str) -> str:
    """An element read from memory, as kernels compute with it."""
    reads = {"bool": "{} != 0", "float16": "half_value({})", "bfloat16": "brain_value({})"}
    reads |= {eighth: f"{eighth}_value({{}})" for eighth in EIGHTHS}
    return reads.get(stored, "{}").format(place)


def store_text(stored: str, value: str) -> str:
    """What is written to memory for a value."""
    writes = {"bool": "uint8({})", "float16": "half_bits({})", "bfloat16": "brain_bits({})"}
    writes |= {eighth: f"{eighth}_code({{}})" for eighth in EIGHTHS}
    return writes.get(stored, "{}").format(value)


def rounded_text(dtype: str, value: str) -> str:
    """The text of a total as another op reads it, rounded to the dtype of its op."""
    return FLOATS.get(f"round_to_{dtype}", "{0}").format(value)


def accumulation_text(monoid: str, dtype: str, total: str, value: str) -> str:
    """The total combined with one value more; float sums may be reordered."""
    combine = {"sum": "add", "mean": "add", "prod": "mul", "any": "or", "all": "and"}
    fn = combine.get(monoid, monoid)
    if is_float(dtype) and fn in ("add", "mul"):
        return f"{'add_to' if fn == 'add' else 'multiply_to'}({total}, {value})"
    if is_float(dtype) and fn in ("max", "min"):
        return f"{'maximum' if fn == 'max' else 'minimum'}({total}, {value})"
    return application_text(fn, dtype, dtype, [total, value])
