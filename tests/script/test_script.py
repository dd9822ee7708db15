"""Decorated programs in Python files, and nodes from the namespaces R, I and T."""

import pytest

import structir
from structir.errors import ParseError, StructIRError
from structir.ir import Call, Function, IRModule, ShapeExpr, TensorStructInfo, Var
from structir.script import I, R, T


def test_a_decorated_function_is_parsed_from_its_file() -> None:
    @R.function
    def double(x: R.Tensor(("n",), "float32")):
        y = x + x
        return y

    assert isinstance(double, Function)
    assert double.span is not None and double.span.source.filename == __file__
    assert double.span.source.line(double.span.line).strip().startswith("def double(")


def test_two_modules_of_one_name_are_distinguished() -> None:
    def first() -> IRModule:
        @I.ir_module
        class Module:
            @R.function
            def main(x: R.Tensor(("n",), "float32")):
                return R.exp(x)

        return Module

    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")):
            return R.log(x)

    assert "R.exp(x)" in first().script() and "R.log(x)" in Module.script()


def test_an_error_points_into_the_file() -> None:
    with pytest.raises(ParseError) as caught:

        @R.function
        def wrong(x: R.Tensor(("n",), "float32")):
            y = R.exp(nowhere)
            return y

    span = caught.value.diagnostics[0].span
    assert span is not None and span.source.filename == __file__
    assert span.source.line(span.line)[span.column : span.end_column] == "nowhere"


def test_a_function_without_a_source() -> None:
    scope = {"R": R}
    with pytest.raises(ParseError, match="no source available"):
        exec("@R.function\ndef f(x: R.Object):\n    return x\n", scope)


def test_ops_make_calls_outside_of_programs() -> None:
    n = T.int64("n")
    x = Var("x", R.Tensor((n, 4), "float32"))
    call = R.nn.softmax(R.matmul(x, R.const([[1.0]] * 4, "float32")), axis=-1)
    assert isinstance(call, Call)
    assert call.struct_info.shape == (n, 1)


def test_forms_make_nodes() -> None:
    n = T.int64("n")
    shape = R.shape([n, 2 * n])
    assert isinstance(shape, ShapeExpr) and shape.values == (n, 2 * n)
    info = R.Callable((R.Tensor((n,), "float32"), R.Object), R.Tuple(R.Shape, R.Tensor(ndim=2)))
    params = '(R.Tensor((n,), dtype="float32"), R.Object)'
    assert str(info) == f"R.Callable({params}, R.Tuple(R.Shape, R.Tensor(ndim=2)))"
    tensor = R.Tensor(("m", "m + 1"), "float32")
    assert isinstance(tensor, TensorStructInfo)
    assert str(tensor) == 'R.Tensor((m, m + 1), dtype="float32")'
    assert str(R.call_pure_packed("f", R.prim_value(3), sinfo_args=R.Shape([n]))) == (
        'R.call_pure_packed("f", R.prim_value(3), sinfo_args=R.Shape([n]))'
    )


def test_sizes_have_functions() -> None:
    n = T.int64("n")
    assert str(R.shape([T.max(n, 4), T.ceildiv(n, 2)])) == "R.shape([T.max(n, 4), (n + 1) // 2])"
    with pytest.raises(AttributeError):
        _ = T.sizeof


def test_names_are_completed() -> None:
    assert {"matmul", "nn", "Tensor", "Callable", "function", "match_cast"} <= set(dir(R))
    assert {"softmax", "layer_norm"} <= set(dir(R.nn))
    assert "max" in dir(T)
    assert "nn.softmax" not in dir(R)
    with pytest.raises(AttributeError):
        _ = R.no_such_op


def test_words_of_programs_are_not_executed() -> None:
    with pytest.raises(StructIRError, match="only allowed inside"):
        R.dataflow()
    assert isinstance(structir.parse("class M:\n    pass\n"), IRModule)
