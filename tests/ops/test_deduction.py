"""Inference from index signatures: known, symbolic and unknown sizes; assumptions and errors."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir.errors import DiagnosticError
from structir.ir import Constant, TensorStructInfo, Tuple, TupleStructInfo, Var, find_op
from structir.ir.dims import Sym, evaluate, substitute, sym, syms
from tests.ops.built_in import BUILT_IN_OPS


def calls(text, *infos, **attributes):
    """A call of the op named by `text` on operands of these infos, sizes shared by name."""
    symbols = {}
    args = [Var(f"x{k}", structir.parse_struct_info(i, symbols)) for k, i in enumerate(infos)]
    return find_op(text)(*args, **attributes)


def deduced(text, *infos, **attributes):
    return str(calls(text, *infos, **attributes).struct_info)


F = 'R.Tensor(({}), "float32")'.format


@pytest.mark.parametrize(
    ("op", "infos", "attributes", "expected"),
    [
        ("add", [F('"n", 4'), F("1, 4")], {}, 'R.Tensor((n, 4), dtype="float32")'),
        (
            "add",
            [F('"n", 4'), F('"m", 4')],
            {},
            'R.Tensor((T.max(n, m) * T.min(n, m, 1), 4), dtype="float32")',
        ),
        ("add", [F('"n",'), F("5,")], {}, 'R.Tensor((5,), dtype="float32")'),
        ("add", [F('"n",'), "R.Tensor((5,))"], {}, "R.Tensor((5,))"),
        (
            "add",
            [F("3, 1"), 'R.Tensor(dtype="float32", ndim=1)'],
            {},
            'R.Tensor(dtype="float32", ndim=2)',
        ),
        ("add", [F("2,"), 'R.Tensor(dtype="float32")'], {}, 'R.Tensor(dtype="float32")'),
        ("matmul", [F('"n", 4'), F('"b", 4, "k"')], {}, 'R.Tensor((b, n, k), dtype="float32")'),
        ("matmul", [F("4,"), F('4, "k"')], {}, 'R.Tensor((k,), dtype="float32")'),
        ("matmul", [F("4,"), F("4,")], {}, 'R.Tensor((), dtype="float32")'),
        ("sum", ["R.Tensor"], {}, "R.Tensor(())"),
        ("sum", ["R.Tensor(ndim=3)"], {"axis": 1, "keepdims": True}, "R.Tensor(ndim=3)"),
        ("permute_dims", ["R.Tensor"], {"axes": (1, 0)}, "R.Tensor(ndim=2)"),
        ("flatten", [F('"n", "m + 1"')], {}, 'R.Tensor((n * m + n,), dtype="float32")'),
        ("nn.conv2d", ["R.Tensor", "R.Tensor"], {}, "R.Tensor(ndim=4)"),
        (
            "nn.pixel_shuffle",
            [F('"n", "4 * c", 3, 5')],
            {"upscale_factor": 2},
            'R.Tensor((n, c, 6, 10), dtype="float32")',
        ),
        ("concat", [], {"tensors": []}, None),
        ("astype", [F("2,")], {"dtype": "int8"}, 'R.Tensor((2,), dtype="int8")'),
    ],
)
def test_deduction(op, infos, attributes, expected):
    if expected is None:
        with pytest.raises(DiagnosticError):
            deduced(op, *infos, **attributes)
    else:
        assert deduced(op, *infos, **attributes) == expected


def test_a_shape_variable_is_kept_where_the_result_has_the_operands_shape():
    shape = Var("s", structir.parse_struct_info("R.Shape(ndim=2)"))
    x = Var("x", TensorStructInfo(shape, "float32"))
    for name in ("exp", "zeros_like", "nn.dropout"):
        info = find_op(name)(x).struct_info
        info = info.fields[0] if isinstance(info, TupleStructInfo) else info
        assert info.dims is shape
    assert find_op("add")(x, x).struct_info.dims is shape
    assert find_op("zeros")(shape, "int8").struct_info.dims is shape


def test_sizes_that_are_known_replace_a_shape_variable():
    shape = Var("s", structir.parse_struct_info("R.Shape([2, 7])"))
    assert str(find_op("zeros")(shape, "bool").struct_info) == 'R.Tensor((2, 7), dtype="bool")'


@pytest.mark.parametrize(
    ("op", "infos", "attributes", "words"),
    [
        (
            "matmul",
            [F('"n", 4'), F("5, 3")],
            {},
            "lhs has k = 4 (axis -1), rhs has k = 5 (axis -2)",
        ),
        ("add", [F("3,"), F("2,")], {}, "cannot broadcast"),
        ("add", [F("3,"), 'R.Tensor((3,), "int32")'], {}, "dtype mismatch"),
        ("exp", ['R.Tensor((3,), "int32")'], {}, "a floating-point dtype"),
        ("sum", [F("2, 3")], {"axis": 4}, "axis out of range"),
        ("sum", [F("2, 3")], {"axis": (0, -2)}, "expected distinct axes"),
        ("reshape", [F('"n", 4')], {"shape": (-2, 4)}, "no negative size"),
        (
            "nn.pixel_shuffle",
            [F('"n", 5, 8, 8')],
            {"upscale_factor": 2},
            "expected a multiple of 4",
        ),
        ("nn.leakyrelu", [F("2,")], {"alhpa": 1.0}, "unexpected keyword argument `alhpa`"),
        ("nn.leakyrelu", [F("2,")], {"alpha": "a"}, "alpha: expected a number"),
        ("astype", [F("2,")], {"dtype": "float31"}, "dtype: expected"),
        ("astype", [F("2,")], {}, "missing argument `dtype`"),
        ("nn.pad", [F("2,")], {"pad_width": (-3, 0)}, "found -1"),
        ("nn.conv2d", [F("1, 3, 8, 8"), F("4, 3, 3, 3")], {"data_layout": "NCH"}, "(layout NCH)"),
    ],
)
def test_invalid_call_is_reported(op, infos, attributes, words):
    with pytest.raises(DiagnosticError) as caught:
        deduced(op, *infos, **attributes)
    assert words in str(caught.value)
    assert f"]: {op}: " in str(caught.value)


def assumed(op, *infos, **attributes):
    call = calls(op, *infos, **attributes)
    return [a for a in call.op.definition.assumptions(call)]


def test_what_cannot_be_decided_is_assumed():
    (one,) = assumed("matmul", F('"n", "k"'), F('"m", 3'))
    assert {str(one.left), str(one.right)} == {"k", "m"} or one.text == "k"
    assert assumed("matmul", F('"n", 3'), F("3, 4")) == []
    assert assumed("add", F('"n", 4'), F('"n", 4')) == []
    assert len(assumed("add", F('"n", 4'), F("5, 4"))) == 1


def test_a_join_that_cannot_be_decided_keeps_the_sizes_that_are_decided():
    symbols = {}
    info = "R.Tensor((\"n\", 4), 'float32')", "R.Tensor((\"m\", 4), 'float32')"
    x, y = (Var("x", structir.parse_struct_info(i, symbols)) for i in info)
    add = find_op("add")
    joined = Var("h", add(x, y).struct_info)
    size, four = joined.struct_info.dims
    assert four == 4
    n, m = (s for s in sorted(syms(size), key=lambda s: s.order))
    for a, b, wanted in (
        (3, 3, 3),
        (1, 3, 3),
        (3, 1, 3),
        (0, 1, 0),
        (1, 0, 0),
        (0, 0, 0),
        (1, 1, 1),
    ):
        assert evaluate(size, {n: a, m: b}) == wanted
    for again in (add(joined, x), add(y, joined), add(joined, joined), add(y, x)):
        assert again.struct_info == joined.struct_info
    assert add.definition.assumptions(add(joined, x)) == ()


def test_a_size_that_cannot_be_one_settles_a_join():
    assert deduced("add", F('"2 * n",'), F('"m",')) == 'R.Tensor((2 * n,), dtype="float32")'
    assert deduced("add", F('"n",'), F("0,")) == 'R.Tensor((0,), dtype="float32")'


def test_an_assumption_holds_exactly_where_the_sizes_fit():
    call = calls("add", F('"n", "m"'), F('5, "k"'))
    names = {
        s.name: s
        for a in call.op.definition.assumptions(call)
        for s in syms(a.left) | syms(a.right)
    }
    assert names.keys() == {"n", "m", "k"}
    for n, m, k in itertools.product((0, 1, 2, 5), repeat=3):
        at = {names["n"]: n, names["m"]: m, names["k"]: k}
        holds = all(
            a.holds(evaluate(a.left, at), evaluate(a.right, at))
            for a in call.op.definition.assumptions(call)
        )
        assert holds == (n in (1, 5) and (m == k or 1 in (m, k)))


def test_divisibility_that_is_taken_on_trust_is_assumed():
    call = calls("nn.pixel_shuffle", F('"n", "c", 8, 8'), upscale_factor=2)
    (one,) = call.op.definition.assumptions(call)
    (c,) = syms(one.left) | syms(one.right)
    assert [evaluate(one.left, {c: v}) == evaluate(one.right, {c: v}) for v in (4, 6, 8)] == [
        True,
        False,
        True,
    ]


def test_numbers_take_the_dtype_beside_them():
    half = Var("x", TensorStructInfo((2,), "float16"))
    call = find_op("add")(half, 1.5)
    assert isinstance(call.args[1], Constant)
    assert str(call.struct_info) == 'R.Tensor((2,), dtype="float16")'


def test_attributes_at_their_default_are_left_out():
    x = Var("x", TensorStructInfo((2, 3), "float32"))
    assert dict(find_op("sum")(x, axis=None, keepdims=False).attrs) == {}
    assert dict(find_op("sum")(x, [1], True).attrs) == {"axis": (1,), "keepdims": True}


# At any sizes, what is deduced from symbols is what is deduced from the sizes themselves.

SIZES = st.sampled_from([0, 1, 2, 3, 4, 6])
SYMBOLIC = [
    ("add", [("n", "m"), ("m",)], {}),
    ("matmul", [("n", "m", "k"), ("k", "m")], {}),
    ("nn.conv2d", [("n", "c", "h", "w"), ("k", "c", 3, 2)], {"padding": 1, "strides": 2}),
    ("nn.conv2d_transpose", [("n", "c", "h", "w"), ("c", "k", 3, 2)], {"strides": 2}),
    ("nn.max_pool2d", [("n", "c", "h", "w")], {"pool_size": 2, "ceil_mode": True, "strides": 2}),
    ("strided_slice", [("n", "m")], {"axes": [0, 1], "begin": [1, -3], "end": [-1, 5]}),
    ("split", [("n", "m")], {"indices_or_sections": 3, "axis": 0}),
    ("reshape", [("n", "m", 4)], {"shape": (-1, 2)}),
    ("nn.pad", [("n", "m")], {"pad_width": [1, 2, 0, 3]}),
    ("tile", [("n", "m")], {"repeats": (2, 1, 3)}),
    ("einsum", [], {"operands": [("n", "m"), ("m", "k")], "subscripts": "ij,jk->ki"}),
    ("concat", [], {"tensors": [("n", "m"), ("k", "m")], "axis": -2}),
]


def tensors(shapes, at):
    if isinstance(shapes, tuple):
        return Var("x", TensorStructInfo(tuple(at.get(d, d) for d in shapes), "float32"))
    return [tensors(s, at) for s in shapes]


def called(op, operands, attributes, at):
    lists = {n: tensors(v, at) for n, v in attributes.items() if n in ("operands", "tensors")}
    return find_op(op)(*tensors(operands, at), **{**attributes, **lists})


def at_sizes(info, values):
    if isinstance(info, TupleStructInfo):
        return tuple(at_sizes(field, values) for field in info.fields)
    return None if info.dims is None else tuple(substitute(d, values) for d in info.dims)


@pytest.mark.parametrize(("op", "operands", "attributes"), SYMBOLIC, ids=lambda v: str(v)[:12])
@settings(max_examples=40, derandomize=True)
@given(sizes=st.fixed_dictionaries({name: SIZES for name in "nmkchw"}))
def test_deduction_commutes_with_substitution(op, operands, attributes, sizes):
    symbols = {name: sym(name) for name in sizes}
    try:
        general = called(op, operands, attributes, symbols)
        special = called(op, operands, attributes, sizes)
    except DiagnosticError:
        return  # the sizes do not fit
    values = {symbol_of(s): sizes[n] for n, s in symbols.items()}
    assumed = general.op.definition.assumptions(general)
    if not all(a.holds(evaluate(a.left, values), evaluate(a.right, values)) for a in assumed):
        return  # it is refused when it runs
    found = at_sizes(general.struct_info, values)
    if found is not None:
        assert found == at_sizes(special.struct_info, {})


def symbol_of(dim):
    (one,) = syms(dim)
    assert isinstance(one, Sym)
    return one


def test_every_op_has_a_signature_and_says_what_it_does():
    for op in BUILT_IN_OPS.values():
        assert op.definition.doc, op.name
        assert op.definition.signature.op == op.name
        assert op.definition.argument_names == tuple(
            p.name for p in op.definition.signature.parameters if p.is_argument
        )


@pytest.mark.parametrize("text", ["shape_of", "tensor_to_shape", "size"])
def test_an_operand_that_is_left_out_is_refused(text):
    with pytest.raises(DiagnosticError, match="missing operand `x`"):
        find_op(text)(Tuple(()))


@pytest.mark.parametrize("op", ["meshgrid", "concat", "stack"])
@pytest.mark.parametrize("dtype", ["float64", "int32", "float32"])
def test_the_dtype_of_a_list_op_does_not_depend_on_earlier_calls(op: str, dtype: str) -> None:
    """A call of another dtype and equal ranks must not determine the result."""
    module = structir.parse(f"""
@R.function
def main(x: R.Tensor((3,), "{dtype}"), y: R.Tensor((3,), "{dtype}")):
    return R.{op}((x, y))
""")
    info = module["main"].ret_struct_info
    results = info.fields if isinstance(info, TupleStructInfo) else (info,)
    assert {result.dtype for result in results} == {dtype}


@pytest.mark.parametrize(
    ("op", "infos", "texts"),
    [
        ("matmul", [F('"m", "k"'), F('"l", "n"')], ["axis -1 of lhs and axis -2 of rhs"]),
        ("outer", [F('"m",'), F('"n",')], []),
        ("linear", [F('"m", "k"'), F('"n", "l"')], ["axis -1 of x and axis 1 of weight"]),
        (
            "add",
            [F('2, "m"'), F('"n",')],
            ["axis -1 of x and axis -1 of y must broadcast"] * 2,
        ),
        (
            "where",
            ['R.Tensor(("m",), "bool")', F("3,"), F("3,")],
            ["axis -1 of cond and axis -1 of x must broadcast"],
        ),
    ],
)
def test_a_run_time_check_names_the_axis_of_each_operand(
    op: str, infos: list[str], texts: list[str]
) -> None:
    call = calls(op, *infos)
    assert [assumption.text for assumption in call.op.definition.assumptions(call)] == texts
