"""Kinds of mutations that `wrong_rewrites.py` does not have, for the held-out programs.

Run `python -m tests.passes.manager.held_out_rewrites`, or with a number of mutants to select.
"""

from __future__ import annotations

import ast
import sys

from structir.ir.dtype import is_float, is_int
from tests.passes.manager.held_out_programs import HELD_OUT
from tests.passes.manager.wrong_rewrites import Change, Kinds, Site, main, when

HELD_OUT_KINDS: Kinds = {}
ALIKE = {  # ops that agree on many values
    "exp": "sinh",
    "floor": "round",
    "round": "floor",
    "sqrt": "abs",
    "tanh": "erf",
    "erf": "tanh",
    "sin": "tan",
    "cos": "sin",
    "log": "sqrt",
    "less": "less_equal",
    "greater_equal": "greater",
    "logical_and": "logical_or",
    "bitwise_and": "bitwise_or",
    "bitwise_xor": "bitwise_or",
    "nn.relu": "abs",
    "nn.gelu": "nn.silu",
    "nn.silu": "nn.gelu",
    "maximum": "add",
    "minimum": "maximum",
    "argmax": "argmin",
    "floor_mod": "mod",
    "floor_divide": "divide",
    "mean": "max",
    "tril": "triu",
}


def kind(mutation):  # type: ignore[no-untyped-def]
    """Registers a held-out kind."""
    HELD_OUT_KINDS[mutation.__name__] = mutation
    return mutation


@kind
def similar_op(site: Site) -> Change:
    if site.op in ALIKE:
        yield ALIKE[site.op], site.text().replace(f"R.{site.op}(", f"R.{ALIKE[site.op]}(", 1)


@kind
def dropped_operand(site: Site) -> Change:
    """A term or factor is dropped: correct for 0 or 1 only."""
    args = [ast.unparse(arg) for arg in site.call.args]
    if site.op in ("add", "subtract", "multiply", "divide"):
        for arg in args:
            info = site.infos.get(arg)
            if info is not None and tuple(info.dims or ()) == site.dims:
                yield f"{site.op} of {arg} alone", arg


@kind
def wrong_constant(site: Site) -> Change:
    for arg in site.call.args:
        text = ast.unparse(arg)
        if text.startswith("R.const(") and isinstance(arg, ast.Call):
            value = ast.literal_eval(arg.args[0])
            other = value + 1 if isinstance(value, int) else value * 1.001 + 1e-9
            wrong = text.replace(ast.unparse(arg.args[0]), repr(other), 1)
            yield f"{value} is {other}", site.text().replace(text, wrong, 1)


@kind
def repeated_element(site: Site) -> Change:
    """The first element along an axis takes the place of the others, or of the last one."""
    for axis, _ in enumerate(site.dims):
        first = f"R.strided_slice({site.name}_, axes=[{axis}], begin=[0], end=[1])"
        if is_float(site.dtype) or is_int(site.dtype):
            zero = f"R.zeros_like({site.name}_)"
            yield f"along {axis}", f"R.add({first}, {zero})"


@kind
def wrong_order(site: Site) -> Change:
    """A reduction or a scan before an op that does not commute with it."""
    if site.op == "cumsum":
        axis = ast.literal_eval(site.call.keywords[0].value)
        turned = f"R.flip({site.arg(0)}, axis={axis})"
        yield "from the end", f"R.flip(R.cumsum({turned}, axis={axis}), axis={axis})"
    inner = site.calls.get(site.arg(0)) if site.call.args else None
    if inner is not None and site.op in ("sum", "mean", "max") and len(inner.args) == 1:
        operand = ast.unparse(inner.args[0])
        reduced = site.text().replace(site.arg(0), operand, 1)
        yield "before the op", ast.unparse(inner).replace(operand, reduced, 1)


@kind
def only_for_some_sizes(site: Site) -> Change:
    three = 'R.equal(R.floor_mod({}, R.const([3], "int64")), R.const([0], "int64"))'
    yield from when(site, "{} is a multiple of 3", three)
    yield from when(site, "{} is 2", 'R.equal({}, R.const([2], "int64"))')
    odd = 'R.equal(R.floor_mod({}, R.const([2], "int64")), R.const([1], "int64"))'
    yield from when(site, "{} is odd", odd)


@kind
def only_in_a_range(site: Site) -> Change:
    if is_float(site.dtype):
        value = f"{site.name}_"
        inside = f"R.less(R.abs(R.subtract({value}, {site.const(1.5)})), {site.const(0.5)})"
        yield "from 1 to 2", f"R.where({inside}, R.negative({value}), {value})"
        positive = f"R.greater({value}, {site.const(0)})"
        wrong = f"R.multiply({value}, {site.const(1.125)})"
        yield "positive", f"R.where({positive}, {wrong}, {value})"


@kind
def only_the_first_row(site: Site) -> Change:
    for axis, dim in enumerate(site.dims if is_float(site.dtype) else ()):
        shape = ", ".join(str(dim) if k == axis else "1" for k in range(len(site.dims)))
        ramp = f'R.reshape(R.arange(0, {dim}, 1, "int64"), ({shape},))'
        value = f"{site.name}_"
        first = f'R.equal({ramp}, R.const(0, "int64"))'
        yield f"axis {axis}", f"R.where({first}, R.multiply({value}, {site.const(0.75)}), {value})"


@kind
def lost_precision(site: Site) -> Change:
    """A constant part is cancelled, which loses digits, or small values vanish."""
    if is_float(site.dtype) and site.dtype != "float16":
        big = site.const(65536.0 if site.dtype == "float32" else 2.0**40)
        yield "added and subtracted", f"R.subtract(R.add({site.text()}, {big}), {big})"


@kind
def saturated(site: Site) -> Change:
    if is_float(site.dtype):
        yield "at 3", f"R.clip({site.text()}, -3.0, 3.0)"
    elif site.dtype in ("int32", "int64"):
        yield "at 1000", f"R.clip({site.text()}, -1000, 1000)"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else None, HELD_OUT, HELD_OUT_KINDS)
