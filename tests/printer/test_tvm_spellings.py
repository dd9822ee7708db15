"""Programs in TVM's spelling parse as those in StructIR's, or name what to write instead."""

import ast
import re
import warnings

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, DiagnosticWarning, StructIRError
from structir.interpret import register_extern
from structir.printer.parser.tvm_spellings import SPELLINGS
from structir.script import I, R, T

PARAMS = "x: R.Tensor((3, 4), 'float32'), t: R.Tuple(R.Tensor((3, 4), 'float32'), R.Tensor)"
HEADER = "@R.function{options}\ndef main({params}):\n    n = T.int64()\n    {body}\n    return y\n"

# TVM's spelling of the value of `y`, StructIR's, and the function in other words
EQUAL = [
    ("relax.op.add(x, x)", "R.add(x, x)"),
    ("relax.op.nn.relu(relax.op.add(x, x))", "R.nn.relu(R.add(x, x))"),
    ("R.add(x, relax.const(1.0, 'float32'))", "R.add(x, R.const(1.0, 'float32'))"),
    ("relax.Tuple([x, x])", "R.tuple(x, x)"),
    ("relax.TupleGetItem(t, 0)", "t[0]"),
    ("R.TupleGetItem(t, 1)", "t[1]"),
    ("R.TupleGetItem(tuple_value=t, index=1)", None),
    ("x.astype('float16')", "R.astype(x, 'float16')"),
    ("R.add(x, x).astype('float16')", "R.astype(R.add(x, x), 'float16')"),
    ("R.nn.leakyrelu(x, alpha=T.float32(0.5))", "R.nn.leakyrelu(x, alpha=0.5)"),
    ("R.nn.leakyrelu(x, T.FloatImm('float64', 0.5))", "R.nn.leakyrelu(x, alpha=0.5)"),
    ("R.sum(x, axis=[T.int32(1)], keepdims=T.bool(True))", "R.sum(x, axis=[1], keepdims=True)"),
    ("R.zeros((T.Cast('int64', n) * 2,), 'float32')", "R.zeros((n * 2,), 'float32')"),
    ("R.zeros((T.Max(n, 4), T.Add(n, 1)), 'int8')", "R.zeros((T.max(n, 4), n + 1), 'int8')"),
    ("R.zeros((T.truncdiv(n, 2), T.Div(n, 3)), 'int8')", "R.zeros((n // 2, n // 3), 'int8')"),
    ("R.zeros((T.truncmod(n, 2),), 'int8')", "R.zeros((n % 2,), 'int8')"),
    ("R.matmul(x, x, out_dtype='void')", None),
    ("R.sum(x, axis=[1])", "R.sum(x, axis=[1])"),
    ("R.nn.pad(x, (0, 0, 1, 1), 'replicate')", "R.nn.pad(x, (0, 0, 1, 1), 'edge')"),
    ("R.nn.pad(x, (0, 0, 1, 1), pad_mode='replicate')", "R.nn.pad(x, (0, 0, 1, 1), 'edge')"),
    ("R.builtin.stop_lift_params(x)", "x"),
    ("R.memory.ensure_zero_offset(x)", "x"),
    (
        "R.call_pure_packed('f', x, ty_args=R.Tensor((3, 4), 'float32'))",
        "R.call_pure_packed('f', x, sinfo_args=R.Tensor((3, 4), 'float32'))",
    ),
    (
        "R.call_dps_packed('f', (x,), out_ty=R.Tensor((3, 4), 'float32'))",
        "R.call_dps_packed('f', (x,), R.Tensor((3, 4), 'float32'))",
    ),
]
EQUAL = [pair for pair in EQUAL if pair[1] is not None]


def program(value, params=PARAMS, options=""):
    body = value if value.startswith("y") else f"y = {value}"
    return HEADER.format(options=options, params=params, body=body)


def parsed(*args, **options):
    return structir.parse(program(*args, **options))


@pytest.mark.parametrize(("tvm", "own"), EQUAL)
def test_a_spelling_of_tvm_parses_as_its_counterpart(tvm, own):
    assert structir.structural_equal(parsed(tvm), parsed(own))


@pytest.mark.parametrize(("tvm", "own"), EQUAL)
def test_a_program_in_spellings_of_tvm_prints_and_parses_back(tvm, own):
    module = parsed(tvm)
    assert structir.structural_equal(structir.parse(module.script()), module)


@pytest.mark.parametrize(
    ("tvm", "own"),
    [
        ("R.Any", "R.Object"),
        ("R.Any()", "R.Object"),
        ("R.Tuple", "R.Tuple()"),
        ("R.Tensor((3,), 'void')", "R.Tensor((3,))"),
        ("R.Tensor((3,), dtype='void')", "R.Tensor((3,))"),
        ("relax.TensorStructInfo((3,), 'float32')", "R.Tensor((3,), 'float32')"),
        ("relax.ObjectStructInfo()", "R.Object"),
    ],
)
def test_an_annotation_of_tvm_parses_as_its_counterpart(tvm, own):
    pair = [parsed("y = p", f"p: {info}") for info in (tvm, own)]
    assert structir.structural_equal(*pair)


def test_out_dtype_void_is_the_dtype_of_the_operands():
    params = "x: R.Tensor((3, 4), 'float32'), w: R.Tensor((4, 5), 'float32')"
    for dtype in ("void", ""):
        module = parsed(f"R.matmul(x, w, out_dtype='{dtype}')", params)
        assert structir.structural_equal(module, parsed("R.matmul(x, w)", params))


@pytest.mark.parametrize(
    "declaration",
    ["n = T.dynamic('n', 'int64')", "n = T.dynamic('n')", "n = TypeVar('n')", "n = T.int64()"],
)
def test_dims_declared_above_functions_belong_to_each_function(declaration):
    function = "@R.function\ndef {}(x: R.Tensor((n, 4), 'float32')):\n    return R.add(x, x)\n"
    text = "\n".join([declaration, function.format("f"), function.format("g")])
    module = structir.parse(text)
    own = structir.parse(re.sub(r"\(n, 4\)", "('n', 4)", text.partition("\n")[2]))
    assert structir.structural_equal(module, own)
    assert structir.compile(module)["g"](np.ones((2, 4), "float32")).shape == (2, 4)


def test_a_dim_declared_above_and_not_in_the_signature_is_bound_by_a_match_cast():
    text = "n = T.dynamic('n')\n@R.function\ndef main(x: R.Tensor):\n"
    text += "    y = R.match_cast(x, R.Tensor((n, n), 'float32'))\n    return y\n"
    assert str(structir.parse(text)["main"].ret_struct_info.ndim) == "2"


def test_an_integer_parameter_is_a_size_and_a_value():
    module = parsed(
        "R.add(R.reshape(x, (n, 4)), R.zeros((n, 1), 'float32'))",
        "x: R.Tensor((12,), 'float32'), n: T.int64",
    )
    x = np.arange(12, dtype="float32")
    for run in (
        lambda *a: structir.interpret(module, "main", *a),
        structir.compile(module)["main"],
    ):
        assert run(x, 3).shape == (3, 4)


def test_a_decorated_program_has_annotations_of_tvm():
    n = T.dynamic("n", "int64")

    @R.function
    def main(x: R.Any, y: R.Tensor((n, 4), "float32")):
        return R.add(y, y)

    assert str(main.params[0].struct_info) == "R.Object"
    assert I is not None


def test_print_and_assert_run_at_their_place(capsys):
    body = "R.print(x, format='x = {}')\n    R.assert_op(c, x, format='wrong: {}')\n    y = x"
    text = HEADER.format(options="(pure=False)", body=body, params="x: R.Tensor((1,)), c: R.Object")
    module = structir.parse(text)
    x = np.ones(1, "float32")
    for run in (
        lambda *a: structir.interpret(module, "main", *a),
        structir.compile(module)["main"],
    ):
        run(x, np.array(True))
        assert capsys.readouterr().out == "x = [1.]\n"
        with pytest.raises(StructIRError, match=r"the condition is false: wrong: \[1\.\]"):
            run(x, np.array(False))
        capsys.readouterr()


def test_functions_with_destinations_and_in_place_functions_run_on_own_memory():
    def doubled(x, out):
        out[...] = 2 * x

    def incremented(x):
        x += 1
        return x

    register_extern("test.doubled", doubled)
    register_extern("test.incremented", incremented)
    params = "x: R.Tensor((3,), 'float32')"
    own = "R.Tensor((3,), 'float32')"
    calls = [
        f"R.call_dps_packed('test.doubled', x, {own})",
        f"R.call_dps_packed('test.doubled', (x,), out_sinfo=[{own}])",
        f"R.call_inplace_packed('test.incremented', x, inplace_indices=[0], sinfo_args={own})",
    ]
    for call in calls:
        module, x = parsed(call, params), np.ones(3, "float32")
        for result in (structir.interpret(module, "main", x), structir.compile(module)["main"](x)):
            np.testing.assert_array_equal(result, np.full(3, 2, "float32"))
        np.testing.assert_array_equal(x, np.ones(3, "float32"))


def test_constants_of_metadata_are_taken_from_a_list():
    text = "@R.function\ndef main(x: R.Tensor((2,), 'float32')):\n"
    text += "    y = R.add(x, metadata['relax.expr.Constant'][1])\n    return y\n"
    arrays = [np.zeros(3, "float32"), np.array([1, 2], "float32")]
    module = structir.parse(text, constants={"relax.expr.Constant": arrays})
    np.testing.assert_array_equal(structir.interpret(module, "main", arrays[1]), [2, 4])
    with pytest.raises(DiagnosticError, match=r"missing constant 'relax.expr.Constant\[1\]'"):
        structir.parse(text, constants={"relax.expr.Constant": arrays[:1]})


@pytest.mark.parametrize("spelling", [s for s in SPELLINGS if not s.structir], ids=str)
def test_a_call_without_counterpart_names_the_reason_and_an_edit(spelling):
    with pytest.raises(DiagnosticError) as caught:
        parsed(f"{spelling.path}(x)")
    message = str(caught.value)
    assert spelling.note in message and spelling.edit in message


INTEGERS = "x: R.Tensor((2,), 'int32'), y: R.Tensor((2,), 'int8')"


def test_an_integer_constant_without_dtype_takes_the_dtype_of_integers_next_to_it():
    for value in ("3", "[3, 4]"):
        pair = [parsed(f"R.add(x, R.const({value}{d}))", INTEGERS) for d in ("", ", 'int32'")]
        assert structir.structural_equal(*pair)
    assert parsed("R.const(3)", INTEGERS)["main"].ret_struct_info.dtype == "int64"
    with pytest.raises(DiagnosticError, match="dtype mismatch"):
        parsed("R.add(y, R.const(300))", INTEGERS)


@pytest.mark.parametrize("text", ["from tvm.script import relax as R\n", "", "import numpy\n"])
def test_an_integer_constant_without_dtype_warns_in_a_text_of_tvm(text):
    program_text = text + program("R.const(3)")
    if "tvm" not in text:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            structir.parse(program_text)
        return
    with pytest.warns(
        DiagnosticWarning, match=r"`R.const\(3\)` has dtype int64, where TVM has int32"
    ):
        structir.parse(program_text)


def test_a_function_of_the_module_is_named_by_a_global_var():
    text = "@I.ir_module\nclass Module:\n    @R.function\n"
    text += "    def f(x: R.Tensor((2,))):\n        return x\n    @R.function\n"
    text += "    def main(x: R.Tensor((2,))):\n        return {}(x)\n"
    pair = [structir.parse(text.format(name)) for name in ("I.GlobalVar('f')", "cls.f")]
    assert structir.structural_equal(*pair)


def test_a_null_value_is_an_argument_that_is_left_out():
    body = "y = R.null_value()\n    y = R.memory.view(x, (4, 3), {}, {})"
    for names in (("R.null_value()", "R.tuple()"), ("y", "y")):
        assert structir.structural_equal(
            parsed(body.format(*names)), parsed("R.memory.view(x, (4, 3))")
        )


def test_a_null_value_in_a_tuple_or_a_result_is_an_empty_tuple():
    text = """
@R.function
def _initialize_effect() -> R.Tuple(R.Any):
    with R.dataflow():
        _io: R.Any = R.null_value()
        lv: R.Tuple(R.Any) = (_io,)
        gv: R.Tuple(R.Any) = lv
        R.output(gv)
    return gv

@R.function
def null():
    y = R.null_value()
    return y

@R.function
def pair():
    return (R.null_value(), 1)
"""
    module = structir.parse(text)
    assert structir.structural_equal(structir.parse(module.script()), module)
    names = ("_initialize_effect", "null", "pair")
    assert [structir.interpret(module, name) for name in names] == [((),), (), ((), 1)]


def test_arguments_that_do_not_match_a_pattern_are_named():
    with pytest.raises(DiagnosticError, match=re.escape("expected `R.TupleGetItem(x, index)`")):
        parsed("R.TupleGetItem(t)")


@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
def test_patterns_and_counterparts_have_the_same_names(spelling):
    names = [
        {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
        | {k.arg for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call) for k in n.keywords}
        for text in (spelling.tvm, spelling.structir or spelling.tvm)
    ]
    extra = {"R", "T", "relax", "sinfo_args"}
    assert names[1] - extra <= names[0]
