"""Shapes from values, rules of functions, and user-defined StructInfos over variables."""

import numpy as np
import pytest

import structir
from structir.analysis import (
    FAIL_L2,
    PASS,
    base_check,
    check_well_formed,
    erase_to_well_defined,
    free_vars,
    unify_to_lca,
)
from structir.analysis.substitution import Substitution
from structir.errors import DiagnosticError
from structir.ir import BlockBuilder, Call, StructInfo, struct_info
from structir.ir.dims import sym
from structir.ir.expr import ShapeExpr, Var
from structir.ir.struct_info import (
    DERIVE_FUNCS,
    KINDS,
    OBJECT,
    FuncStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    derive_func,
)
from structir.script import R

N = sym("n")
MATRIX = TensorStructInfo((N, 4), "float32")


@struct_info
class ViewStructInfo(StructInfo):
    """A view of a variable, with a mask or without."""

    of: Var
    mask: Var | None = None


@pytest.fixture(autouse=True, scope="module")
def the_subclass_is_removed():
    yield
    del KINDS["View"]


# ---- shapes from values


@pytest.mark.parametrize("shape", [ShapeExpr((N, 4)), R.shape([3, 4])], ids=str)
def test_a_tensor_takes_the_sizes_of_a_shape_value(shape):
    info = TensorStructInfo(shape, "float32")
    assert info == R.Tensor(shape, "float32") == TensorStructInfo(shape.dims, "float32")
    assert structir.parse_struct_info(str(info), {"n": structir.SymVar("n")}).ndim == 2
    assert erase_to_well_defined(info, [N]) == info


def test_a_tensor_takes_the_sizes_of_a_call_of_known_shape():
    x = Var("x", MATRIX)
    assert R.Tensor(R.shape_of(x), "float32") == MATRIX


def test_a_call_of_unknown_shape_is_rejected_where_a_shape_is_expected():
    x = Var("x", TensorStructInfo(dtype="float32"))
    with pytest.raises(DiagnosticError, match="expected a shape of known sizes or a variable"):
        R.Tensor(R.shape_of(x))


def test_annotations_take_the_sizes_of_a_call():
    text = "@R.function\ndef main(x: R.Tensor(('n', 4), 'float32')):\n"
    text += "    y: R.Tensor(R.shape_of(x), 'float32') = R.add(x, x)\n    return y\n"
    module = structir.parse(text)
    assert structir.structural_equal(structir.parse(module.script()), module)
    unknown = text.replace("('n', 4), ", "dtype=")
    with pytest.raises(DiagnosticError, match="expected a shape of known sizes or a variable"):
        structir.parse(unknown)


# ---- rules of functions


def test_a_rule_determines_the_result_also_of_a_function_with_parameters():
    @derive_func
    def first_argument(call: Call) -> StructInfo:
        return call.args[0].struct_info

    try:
        text = "@R.function\ndef main(x: R.Tensor((3,), 'float32'), f: R.Callable("
        text += "(R.Tensor,), R.Object, purity=True, derive_func='first_argument')):\n"
        module = structir.parse(f"{text}    return f(x)\n")
        assert module["main"].ret_struct_info == TensorStructInfo((3,), "float32")
        assert structir.structural_equal(structir.parse(module.script()), module)
        with pytest.raises(DiagnosticError, match="expected 1 argument"):
            structir.parse(f"{text}    return f(x, x)\n")
    finally:
        del DERIVE_FUNCS["first_argument"]


def test_an_unknown_rule_is_rejected_where_it_is_named():
    text = "@R.function\ndef main(f: R.Callable(ret=R.Object, derive_func='nowhere')):\n"
    with pytest.raises(DiagnosticError, match="expected the name of a registered rule") as caught:
        structir.parse(f"{text}    return f\n")
    assert caught.value.diagnostics[0].span.line == 2
    with pytest.raises(DiagnosticError, match="found 'nowhere'"):
        FuncStructInfo(None, OBJECT, True, "nowhere")


# ---- fields that are variables


def test_a_field_that_is_a_variable_is_compared_by_identity():
    x, y = Var("x", MATRIX), Var("x", MATRIX)
    assert ViewStructInfo(x) == ViewStructInfo(x)
    assert ViewStructInfo(x) != ViewStructInfo(y)
    assert len({ViewStructInfo(x), ViewStructInfo(x), ViewStructInfo(y)}) == 2
    assert base_check(ViewStructInfo(x), ViewStructInfo(x, y)) is PASS
    assert base_check(ViewStructInfo(x), ViewStructInfo(y)) is FAIL_L2
    assert unify_to_lca(ViewStructInfo(x, y), ViewStructInfo(x)) == ViewStructInfo(x)
    assert unify_to_lca(ViewStructInfo(x), ViewStructInfo(y)) == OBJECT


def test_a_variable_out_of_scope_is_erased():
    x, y = Var("x", MATRIX), Var("y", MATRIX)
    info = ViewStructInfo(x, y)
    assert free_vars(info) == [x, y]
    assert erase_to_well_defined(info, vars=[x, y]) == info
    assert erase_to_well_defined(info, vars=[x]) == ViewStructInfo(x)
    assert erase_to_well_defined(info, vars=[y]) == OBJECT
    assert erase_to_well_defined(info, vars={x: y, y: x}) == ViewStructInfo(y, x)
    assert Substitution({x: y}).info(info) == ViewStructInfo(y, y)


def test_a_program_with_such_annotations_prints_and_parses_back():
    text = "@R.function\ndef main(x: R.Tensor(('n', 4), 'float32')):\n"
    text += "    v: R.View(of=x) = R.call_pure_packed('view', x, sinfo_args=R.View(of=x))\n"
    module = structir.parse(text + "    return R.add(x, x)\n")
    check_well_formed(module)
    assert "R.View(of=x)" in module.script()
    assert structir.structural_equal(structir.parse(module.script()), module)
    copy = structir.passes.DeadCodeElimination()(module)
    assert structir.interpret(copy, "main", np.ones((2, 4), "float32")).shape == (2, 4)


def test_the_result_of_a_function_mentions_no_variable_of_its_body():
    builder = BlockBuilder()
    x = Var("x", MATRIX)
    with builder.function("main", [x]):
        y = builder.emit(R.add(x, x))
        view = builder.emit(R.call_pure_packed("view", y, sinfo_args=ViewStructInfo(y)))
        builder.emit_func_output(view)
    module = builder.get()
    assert module["main"].ret_struct_info == OBJECT
    check_well_formed(module)
    assert structir.structural_equal(structir.parse(module.script()), module)


def test_a_shape_variable_is_still_a_shape():
    shape = Var("s", ShapeStructInfo(ndim=2))
    assert TensorStructInfo(shape, "float32").ndim == 2
