"""Attributes: what each kind accepts, and the form in which values are kept."""

import pytest

from structir.errors import DiagnosticError
from structir.ir import (
    Constant,
    DataTypeImm,
    PrimValue,
    ShapeExpr,
    StringImm,
    TensorStructInfo,
    Tuple,
    Var,
    find_op,
)
from structir.ir.dims import sym
from structir.opdef import attributes
from structir.opdef.attributes import InvalidAttribute, dtype_among, kind_of
from structir.opdef.axis_packs import InvalidCall, normal_axis

N = sym("n")
X = Var("x", TensorStructInfo((2, 3, 4), "float32"))


def taken(annotation, value):
    return kind_of(annotation).normalize(value)


@pytest.mark.parametrize(
    ("annotation", "value", "kept"),
    [
        (attributes.Axis, -1, -1),
        (attributes.Axes, [0, 2], (0, 2)),
        (attributes.Axes, 1, 1),
        (attributes.Ints, 3, (3,)),
        (attributes.Ints, [1, 2], (1, 2)),
        (attributes.Ints, Tuple((PrimValue(1), PrimValue(2))), (1, 2)),
        (attributes.DType, "bfloat16", "bfloat16"),
        (attributes.DType, DataTypeImm("int8"), "int8"),
        (attributes.Number, 2, 2),
        (attributes.Number, PrimValue(0.5), 0.5),
        (float, 2, 2.0),
        (bool, 1, True),
        (str, StringImm("ij->ji"), "ij->ji"),
        (dtype_among("int8 uint8"), "uint8", "uint8"),
    ],
)
def test_values_are_kept_in_one_form(annotation, value, kept):
    found = taken(annotation, value)
    assert (found, type(found)) == (kept, type(kept))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (attributes.Axis, 1.0),
        (attributes.Axis, True),
        (attributes.Axis, "0"),
        (attributes.Axes, [0, 1.5]),
        (attributes.Axis, N),
        (attributes.DType, "float31"),
        (attributes.Size, 2.5),
        (attributes.Size, None),
        (attributes.Sizes, (2, 2.5)),
        (attributes.Sizes, 3),
        (attributes.Number, True),
        (attributes.Number, X),
        (bool, 2),
        (float, "1"),
        (int, 1.0),
        (dtype_among("int8 uint8"), "int32"),
    ],
)
def test_what_is_no_such_value_is_refused(annotation, value):
    with pytest.raises(InvalidAttribute):
        taken(annotation, value)


def test_sizes_may_be_symbolic_and_are_arguments():
    for annotation in (attributes.Size, attributes.Sizes, attributes.SizeOrSizes):
        assert kind_of(annotation).is_argument
    assert taken(attributes.Size, N).value == N
    shape = taken(attributes.Sizes, (2, N))
    assert isinstance(shape, ShapeExpr) and shape.dims == (2, N)
    assert isinstance(taken(attributes.SizeOrSizes, 3), PrimValue)


def test_an_operand_has_no_kind():
    assert kind_of(Var) is None
    assert kind_of(attributes.Operands) is None
    assert kind_of(attributes.Axes | None) is kind_of(attributes.Axes)


def test_axes_count_from_either_end():
    assert [normal_axis(a, 3) for a in (0, 2, -1, -3)] == [0, 2, 2, 0]
    for axis, rank in ((3, 3), (-4, 3), (0, 0)):
        with pytest.raises(InvalidCall):
            normal_axis(axis, rank)


def test_a_call_keeps_arguments_and_attributes_apart():
    call = find_op("reshape")(X, (N, -1))
    assert [type(a) for a in call.args] == [Var, ShapeExpr] and not call.attrs
    call = find_op("sum")(X, [0, 1], keepdims=True)
    assert call.args == (X,) and call.attrs == {"axis": (0, 1), "keepdims": True}


def test_an_operand_left_out_before_one_that_is_given_is_the_empty_tuple():
    q = Var("q", TensorStructInfo((1, 7, 2, 4), "float32"))
    starts = Var("s", TensorStructInfo((3,), "int32"))
    longest = Var("m", TensorStructInfo((), "int32"))
    op = find_op("nn.attention_var_len")
    call = op(q, q, q, starts, longest, max_seqlen_k=longest)
    assert isinstance(call.args[5], Tuple) and not call.args[5].fields
    assert len(op(q, q, q, starts, longest).args) == 5


def test_numbers_become_constants_beside_a_tensor():
    whole = Var("i", TensorStructInfo((2,), "int32"))
    assert find_op("add")(whole, 1).args[1].struct_info.dtype == "int32"
    assert find_op("add")(1, X).args[0].struct_info.dtype == "float32"
    assert isinstance(find_op("power")(X, 2).args[1], Constant)
    with pytest.raises(DiagnosticError, match="dtype mismatch"):
        find_op("add")(whole, 1.5)
    condition = find_op("greater")(X, 0)
    for operands in ((X, 0), (0, X)):  # a dtype of the condition cannot represent the number
        assert find_op("where")(condition, *operands).struct_info.dtype == "float32"


@pytest.mark.parametrize(
    ("args", "keywords", "words"),
    [
        ((), {}, "missing operand `x`"),
        ((X, 0, True, 1), {}, "expected 3 arguments, found 4"),
        ((X,), {"axes": 0}, "did you mean `axis`"),
        ((X, 0), {"axis": 0}, "expected one value of `axis`, found two"),
        ((X, "first"), {}, "axis: expected an axis or a list of axes"),
        (("x",), {}, "x: expected a tensor"),
        ((Tuple((X, X)),), {}, "x: expected a tensor"),
    ],
)
def test_calls_that_do_not_fit_the_signature(args, keywords, words):
    with pytest.raises(DiagnosticError, match=words):
        find_op("sum")(*args, **keywords)
