"""Dims, row variables and dtype variables of a nested function belong to that function: each call
binds them, and no parameter of the outer function gets them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import structir
from structir.analysis.variables import free_symbols_in
from structir.analysis.well_formed import check_well_formed
from structir.errors import DiagnosticError
from structir.ir.binding_dims import own_dims
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.passes.manager.comparison import same

PARAMS = ("x, y", "x: R.Tensor(ndim=1), y: R.Tensor(ndim=1)", 'x, y: R.Tensor(("m",), "\'V")')
AXES = ('("n",)', '("n",), "\'T"', '("*s",), "\'T"', '("*s", "n"), "\'T"')
CALLS = (
    "a = f(x, x)\n    b = f(y, y)",
    "a = f(y, y)\n    b = R.map(f, w, w)",
    "a = f(x, x)\n    b = y",
    "a = R.map(f, w, w)\n    b = f(x, x)",
    "a = R.reduce(f, x, R.expand_dims(x, axis=0))\n    b = f(y, y)",
)
PROGRAM = """
@R.function
def main({params}, w):
    @R.function
    def f(s: R.Tensor({axes}), t: R.Tensor({axes})):
        u = R.maximum(s, t)
        return u
    {calls}
    z = (a, b)
    return z
"""


def closure_of(module: IRModule, name: str) -> Function:
    """Returns a nested function of `main`."""
    return next(b.value for b in module["main"].bindings() if b.var.name == name)


def cases() -> list[tuple[str, str, str]]:
    """Returns programs that parse: an argument of unknown rank needs a row variable."""
    accepted = []
    for params, axes, calls in product(PARAMS, AXES, CALLS):
        try:
            structir.parse(PROGRAM.format(params=params, axes=axes, calls=calls))
        except DiagnosticError:
            continue
        accepted.append((params, axes, calls))
    return accepted


def test_most_forms_are_accepted() -> None:
    assert len(cases()) > 15


@pytest.mark.parametrize(("params", "axes", "calls"), cases())
def test_calls_of_a_closure_share_no_dims_or_dtypes(params: str, axes: str, calls: str) -> None:
    module = structir.parse(PROGRAM.format(params=params, axes=axes, calls=calls))
    arguments = [np.arange(2, dtype="f4"), np.arange(3, dtype="f8"), np.ones((4, 5), "i4")]
    expected = structir.interpret(module, "main", *arguments)
    inferred = structir.infer(module)
    check_well_formed(inferred)
    outer = {v for p in inferred["main"].params for v in free_symbols_in(p.struct_info)}
    assert not outer & own_dims(closure_of(inferred, "f").struct_info)
    actual = structir.interpret(inferred, "main", *arguments)
    assert same(actual, expected, 0)
    assert structir.infer(inferred).script() == inferred.script()


CAPTURED = """
@R.function
def main(x: R.Tensor(("n", "*s"), "'T"), y):
    v = R.tropical((y,), subscripts="*a -> ")
    @R.function
    def f(t: R.Tensor(("*s",), "'T")):
        return v
    w = R.map(f, x)
    @R.function
    def g(s: R.Tensor((), "'U"), t: R.Tensor((), "'U")):
        u = R.maximum(s, t)
        return u
    z = R.reduce(g, v, w)
    return z
"""


def test_a_closure_returns_an_outer_value_of_an_inferred_dtype() -> None:
    module = structir.infer(structir.parse(CAPTURED))
    y, z = module["main"].params[1].struct_info, module["main"].ret_struct_info
    assert y.dtype_var is not None
    assert z.dtype_var is y.dtype_var
    inner = closure_of(module, "g")
    assert inner.params[0].struct_info.dtype_var is not y.dtype_var
    run = structir.interpret(module, "main", np.ones((2, 3), "f4"), np.arange(4.0))
    assert run == 3 or run == 0
