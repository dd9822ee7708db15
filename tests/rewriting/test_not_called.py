"""Rewrites and instruments are not called on modules; unknown primitives are no refusals."""

import ast
import inspect
import re

import numpy as np
import pytest

import structir
from structir import passes
from structir.counterparts import SCHEDULES
from structir.ir import Expr
from structir.loops.primitives import find_primitive
from structir.script import R

MODULE = structir.parse("""
@R.function
def main(x: R.Tensor(("n",), "float32")):
    return R.exp(R.log(x))
""")


def test_the_edit_for_a_rewrite_works():
    @structir.rewrite
    def drop_exp_of_log_in_test(x: Expr):
        """Replaces exp(log(x))."""
        yield R.exp(R.log(x))
        yield x

    with pytest.raises(TypeError, match="the rewrite drop_exp_of_log_in_test is no") as caught:
        drop_exp_of_log_in_test(MODULE)
    edit = re.search("help: `(.*)`", str(caught.value))[1]
    assert eval(edit, {"passes": passes, "module": MODULE})["main"].bindings() == []


def test_instruments_observe():
    with pytest.raises(TypeError, match=r"`with passes.PassContext\(\[passes.VerifyIR\(\)\]\): "):
        passes.VerifyIR()(MODULE)


def test_attempting_an_unknown_primitive_is_an_error():
    kernel = structir.schedule(MODULE).kernel()
    with pytest.raises(AttributeError, match="unknown primitive `vectorize`"):
        kernel.attempt("vectorize", kernel.loops()[0])
    assert not kernel.attempt("unroll", kernel.loops()[0])  # refused: the size is symbolic
    assert kernel.attempt("vectorise", kernel.loops()[0])


@pytest.mark.parametrize(
    ("value", "edit"),
    [(3.0, 'yield R.const(3.0, "float32")'), ("x", "yield R.exp(x)"), ((1, 2), "yield R.tuple(1")],
)
def test_a_replacement_is_an_expression(value, edit):
    @structir.rewrite
    def replace_by_a_value_in_test(x: Expr):
        """Replaces a logarithm by a value of Python."""
        yield R.log(x)
        yield value

    with pytest.raises(structir.errors.DiagnosticError, match="as the replacement, found") as error:
        passes.pipeline("replace_by_a_value_in_test")(MODULE)
    assert edit in error.value.diagnostics[0].hint
    assert error.value.diagnostics[0].code == "E1133"


@pytest.mark.parametrize("wrong", [lambda x: np.exp(x), lambda x: x.missing, lambda x: -"x"])
def test_a_pattern_is_made_of_calls(wrong):
    @structir.rewrite
    def wrong_pattern_in_test(x: Expr):
        """Replaces nothing."""
        yield wrong(x)
        yield x

    with pytest.raises(
        structir.errors.DiagnosticError, match="expected a pattern of calls"
    ) as error:
        passes.pipeline("wrong_pattern_in_test")(MODULE)
    assert error.value.diagnostics[0].code == "E1133"


@pytest.mark.parametrize("name", SCHEDULES)
def test_names_of_other_compilers_have_an_edit(name):
    with pytest.raises(AttributeError, match=f"unknown primitive `{name}`") as error:
        getattr(structir.schedule(MODULE).kernel(), name)
    edit = re.search("help: write `(.*)`", str(error.value))[1]
    for node in ast.walk(ast.parse(edit)):
        if isinstance(node, ast.Call) and node.func.attr not in ("loops", "kernel"):
            transform = find_primitive(node.func.attr).transform
            inspect.signature(transform).bind(None, *map(ast.literal_eval, node.args))
