"""Constant indices: beyond a known size an error, beyond a symbolic size a lower bound."""

import re
from functools import partial

import numpy as np
import pytest

import structir
from structir.build import BlockBuilder
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.ir.expr import Constant, Var
from structir.ir.struct_info import TensorStructInfo
from structir.script import R

# a call with the index {i} on the axis of x that is `n`, which has rank 2
CALLS = {
    "take": "R.take(x, R.const([0, {i}]), axis=0)",
    "take of a scalar": "R.take(x, R.const({i}), axis=-2)",
    "gather_elements": "R.gather_elements(x, R.const([[0], [{i}]]), axis=0)",
    "gather_nd": "R.gather_nd(x, R.const([[{i}, 0], [0, 1]]))",
    "gather_nd of rows": "R.gather_nd(x, R.const([[{i}]]))",
    "index_tensor": "R.index_tensor(x, (R.const([{i}, 0]), R.const([1])))",
    "scatter_elements": "R.scatter_elements(x, R.const([[{i}]]), R.const([[1.0]]), axis=0)",
    "index_put": "R.index_put(x, (R.const([{i}, 0]), R.const([1])), R.const([1.0, 2.0]))",
    "scatter_nd": "R.scatter_nd(x, R.const([[{i}, 0]]), R.const([1.0]))",
}


def parsed(name, index, size, form="literal"):
    lines = [f"return {CALLS[name].format(i=index)}"]
    if form != "literal":
        lines = with_bound_constants(lines[0], form)
    body = "".join([f"    {line}\n" for line in lines])
    head = f"@R.function\ndef main(x: R.Tensor(({size!r}, 3), 'float32')):\n"
    return structir.parse(head + body)


def with_bound_constants(line, form):
    """Returns the lines of a program that binds the constants of a line to variables."""
    lines = []

    def variable(match):
        value, name = match[0], f"k{len(lines)}"
        lines.append(f"{name} = {FORMS[form].format(value)}")
        return name

    line = re.sub(r"R\.const\([^()]*\)", variable, line)
    return [*lines, line]


FORMS = {
    "variable": "{}",
    "field": "({}, x)[0]",
    "cast": "R.match_cast({}, R.Tensor)",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("index", [4, -1])
def test_a_constant_that_is_bound_to_a_variable_is_checked_as_a_literal(name, index, form):
    with pytest.raises(DiagnosticError, match=f"size 4, found {index}"):
        parsed(name, index, 4, form)
    x = np.arange(12, dtype="float32").reshape(4, 3)
    results = [structir.interpret(parsed(name, 3, 4, f), "main", x) for f in (form, "literal")]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CALLS)
def test_a_constant_that_is_bound_to_a_variable_is_a_lower_bound(name, form):
    module = parsed(name, 5, "n", form)
    assert structir.structural_equal(structir.parse(module.script()), module)
    inferred = structir.infer(module)
    for run in [
        lambda x: structir.interpret(module, "main", x),
        lambda x: structir.interpret(inferred, "main", x),
        structir.compile(module)["main"],
    ]:
        assert run(np.ones((6, 3), "float32")) is not None
        with pytest.raises(ShapeMismatchError, match=r"expected n >= 6.*found n = 5"):
            run(np.ones((5, 3), "float32"))


def test_a_builder_checks_a_constant_that_is_bound_to_a_variable():
    builder = BlockBuilder()
    x = Var("x", TensorStructInfo((4,), "float32"))
    with builder.function("main", [x]):
        index = builder.emit(Constant(np.array([4])))
        with pytest.raises(DiagnosticError, match="size 4, found 4"):
            builder.emit(R.take(x, index, axis=0))
        builder.emit_func_output(x)


def test_defaulting_uses_a_constant_that_is_bound_to_a_variable():
    text = "@R.function\ndef main(x: R.Tensor(('*s',), 'float32')):\n    i = R.const([2, 7])\n"
    module = structir.parse(f"{text}    return R.take(x, i, axis=0)\n")
    inferred = structir.infer(module, close=True)
    assert inferred["main"].params[0].struct_info.dims == (8,)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("index", [4, 7, -1, -4, -5])
def test_an_index_outside_of_a_known_size_is_rejected(name, index):
    with pytest.raises(DiagnosticError) as caught:
        parsed(name, index, 4)
    (diagnostic,) = caught.value.diagnostics
    assert f"from 0 to 3 for an axis of size 4, found {index}" in diagnostic.message
    assert diagnostic.hint


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("index", [0, 1, 3])
def test_an_index_inside_of_a_known_size_is_accepted(name, index):
    module = parsed(name, index, 4)
    x = np.arange(12, dtype="float32").reshape(4, 3)
    expected = structir.interpret(module, "main", x)
    np.testing.assert_array_equal(structir.compile(module)["main"](x), expected)


@pytest.mark.parametrize("name", CALLS)
def test_a_negative_index_is_rejected_for_a_symbolic_size(name):
    with pytest.raises(DiagnosticError, match="expected indices of at least 0, found -2"):
        parsed(name, -2, "n")


@pytest.mark.parametrize("name", CALLS)
def test_an_index_is_a_lower_bound_of_a_symbolic_size(name):
    module = parsed(name, 5, "n")
    runs = (lambda x: structir.interpret(module, "main", x), structir.compile(module)["main"])
    for run in runs:
        assert run(np.ones((6, 3), "float32")) is not None
        with pytest.raises(ShapeMismatchError, match=r"expected n >= 6.*found n = 5"):
            run(np.ones((5, 3), "float32"))


def test_defaulting_chooses_the_least_size_that_holds_the_indices():
    text = "@R.function\ndef main(x: R.Tensor(('*s',), 'float32')):\n"
    text += "    return R.take(x, R.const([2, 7]), axis=0)\n"
    module = structir.infer(structir.parse(text), close=True, refine="signature")
    assert module["main"].params[0].struct_info.dims == (8,)


@pytest.mark.parametrize("mode", ["clip", "wrap", "nan"])
def test_modes_that_define_other_indices_accept_them(mode):
    text = "@R.function\ndef main(x: R.Tensor((4, 3), 'float32')):\n"
    text += f"    return R.take(x, R.const([-9, 9]), axis=0, mode='{mode}')\n"
    assert structir.parse(text)["main"].ret_struct_info.dims == (2, 3)


@pytest.mark.parametrize("value", ["x", "R.exp(x)", "R.unique(x)"])
def test_constant_indices_are_checked_against_sizes_that_only_a_run_knows(value):
    module = structir.parse(f"""
@R.function
def main(x: R.Tensor(dtype="float32", ndim=1)):
    v = {value}
    i = R.const([3], "int64")
    y = R.take(v, i, axis=0)
    return y
""")
    for run in (structir.compile(module)["main"], partial(structir.interpret, module, "main")):
        assert run(np.arange(4, dtype="float32")).shape == (1,)
        with pytest.raises(ShapeMismatchError, match="take"):
            run(np.arange(3, dtype="float32"))
