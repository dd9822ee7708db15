"""BlockBuilder: bindings, names, inference, scopes and rejected calls."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import structir
from structir.analysis import check_well_formed
from structir.errors import (
    DiagnosticError,
    DiagnosticWarning,
    StructInfoError,
    StructIRError,
    WellFormedError,
)
from structir.ir import (
    BlockBuilder,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    ExternFunc,
    FuncStructInfo,
    IRModule,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeExpr,
    ShapeStructInfo,
    TensorStructInfo,
    Tuple,
    TupleStructInfo,
    Var,
    structural_equal,
)
from structir.ir.dims import sym
from structir.script import R

N, M = sym("n"), sym("m")
MATRIX = TensorStructInfo((N, M), "float32")


def matrix(name: str = "x") -> Var:
    return Var(name, MATRIX)


def flag() -> Var:
    return Var("flag", TensorStructInfo((), "bool"))


def one_function(text: str) -> IRModule:
    module: IRModule = structir.parse(text)
    return module


def test_a_program_like_its_text() -> None:
    builder, x, w = BlockBuilder(), matrix(), Var("w", TensorStructInfo((M, 4), "float32"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            product = builder.emit(R.matmul(x, w))
            result = builder.emit_output(R.nn.softmax(product))
        builder.emit_func_output(result)
    text = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), w: R.Tensor(("m", 4), "float32")):
    with R.dataflow():
        a = R.matmul(x, w)
        b = R.nn.softmax(a)
        R.output(b)
    return b
"""
    module = builder.get()
    check_well_formed(module)
    assert structural_equal(module, one_function(text))
    assert module["main"].ret_struct_info == TensorStructInfo((N, 4), "float32")


def test_nested_expressions_are_bound_innermost_first() -> None:
    builder, x = BlockBuilder(), matrix()
    with builder.function("main", [x]):
        shared = R.exp(x)
        total = builder.emit(R.add(R.multiply(shared, shared), R.log(shared)), "total")
        builder.emit_func_output(total)
    main = builder.get()["main"]
    names = [str(b.value).split("(")[0] for b in main.bindings()]
    # an expression that stands in several places is computed once
    assert names == ["R.exp", "R.multiply", "R.log", "R.add"]
    check_well_formed(builder.get())


def test_an_expression_may_be_nested_thousands_deep() -> None:
    builder, x = BlockBuilder(), matrix()
    with builder.function("main", [x]):
        value = R.exp(x)
        for _ in range(5000):
            value = R.exp(value)
        builder.emit_func_output(value)
    assert len(builder.get()["main"].bindings()) == 5001


def test_the_result_may_be_an_expression_or_a_tuple_of_them() -> None:
    builder, x = BlockBuilder(), matrix()
    with builder.function("main", [x]):
        builder.emit_func_output(Tuple((R.exp(x), Tuple((x, R.log(x))))))
    main = builder.get()["main"]
    assert len(main.bindings()) == 2
    assert main.ret_struct_info == TupleStructInfo((MATRIX, TupleStructInfo((MATRIX, MATRIX))))
    check_well_formed(main)


def test_fresh_names_do_not_meet_those_of_parameters() -> None:
    builder, x = BlockBuilder(), matrix("gv")
    with builder.function("main", [x]):
        made = [builder.emit(R.exp(x)) for _ in range(3)]
        builder.emit_func_output(made[-1])
    names = [var.name for var in made]
    assert len({"gv", *names}) == 4


def test_blocks_follow_the_dataflow_contexts() -> None:
    builder, x = BlockBuilder(), matrix()
    with builder.function("main", [x]):
        a = builder.emit(R.exp(x))
        with builder.dataflow():
            b = builder.emit(R.exp(a))
            c = builder.emit_output(b)
        with builder.dataflow():
            pass
        d = builder.emit(R.exp(c))
        builder.emit_func_output(d)
    blocks = builder.get()["main"].body.blocks
    assert [isinstance(block, DataflowBlock) for block in blocks] == [False, True, False]
    assert [type(var) for var in (a, b, c, d)] == [Var, DataflowVar, Var, Var]


# ---- scopes


def test_a_match_cast_binds_dims_that_a_caller_does_not_see() -> None:
    builder, x, k = BlockBuilder(), matrix(), sym("k")
    with builder.function("main", [x]):
        cast = builder.match_cast(x, TensorStructInfo((N, k), "float32"))
        twice = builder.emit(R.concat((cast, cast), axis=1))
        builder.emit_func_output(twice)
    main = builder.get()["main"]
    assert twice.struct_info == TensorStructInfo((N, 2 * k), "float32")
    assert main.ret_struct_info == TensorStructInfo(dtype="float32", ndim=2)
    # what the body gives is known in terms of the parameters' dims, and no others
    assert main.body.struct_info == TensorStructInfo(dtype="float32", ndim=2)
    check_well_formed(main)


def test_the_body_of_a_function_knows_the_parameters_dims() -> None:
    builder, x = BlockBuilder(), matrix()
    with builder.function("main", [x]):
        builder.emit_func_output(R.exp(x))
    assert builder.get()["main"].body.struct_info == MATRIX


def test_an_output_forgets_the_variables_of_its_block() -> None:
    builder, x = BlockBuilder(), matrix()
    callee = ExternFunc("f", FuncStructInfo(None, ObjectStructInfo()))
    with builder.function("main", [x]):
        with builder.dataflow():
            info = ShapeStructInfo(ndim=2)
            shape = builder.emit(Call(callee, (x,), sinfo_args=(info,)))
            known = TensorStructInfo(shape, "float32")
            inner = builder.emit(Call(callee, (x,), sinfo_args=(known,)))
            output = builder.emit_output(inner)
        builder.emit_func_output(output)
    assert inner.struct_info == known
    assert output.struct_info == TensorStructInfo(dtype="float32", ndim=2)
    check_well_formed(builder.get())


def test_branches_have_scopes_of_their_own() -> None:
    builder, x, cond, k = BlockBuilder(), matrix(), flag(), sym("k")
    with builder.function("main", [x, cond]):

        def then() -> Var:
            return builder.match_cast(x, TensorStructInfo((k, M), "float32"))

        choice = builder.if_else(cond, then, lambda: R.exp(R.exp(x)), "choice")
        builder.emit_func_output(choice)
    assert choice.struct_info == TensorStructInfo(dtype="float32", ndim=2)
    check_well_formed(builder.get())


def test_closures_use_outer_variables() -> None:
    builder, x, y = BlockBuilder(), matrix(), Var("y", TensorStructInfo((M, 3), "float32"))
    with builder.function("main", [x]):
        closure = builder.local_function([y], lambda: R.matmul(x, y), "times")
        wide = builder.emit(R.zeros((M, 3), "float32"))
        result = builder.emit(Call(closure, (wide,)))
        builder.emit_func_output(result)
    assert result.struct_info == TensorStructInfo((N, 3), "float32")
    check_well_formed(builder.get())


def test_functions_call_functions() -> None:
    builder, x, y = BlockBuilder(), matrix(), matrix("y")
    with builder.function("helper", [y]):
        builder.emit_func_output(R.permute_dims(y))
    p, q = sym("p"), sym("q")
    with builder.function("main", [z := Var("z", TensorStructInfo((p, q), "float32"))]):
        result = builder.emit(Call(builder.global_var("helper"), (z,)))
        builder.emit_func_output(result)
    assert result.struct_info == TensorStructInfo((q, p), "float32")
    assert list(builder.get()) == ["helper", "main"]
    check_well_formed(builder.get())
    assert x is not y


def test_a_builder_can_go_on_from_a_module() -> None:
    first, x = BlockBuilder(), matrix()
    with first.function("one", [x]):
        first.emit_func_output(x)
    second, y = BlockBuilder(first.get()), matrix("y")
    with second.function("two", [y]):
        second.emit_func_output(y)
    assert list(second.get()) == ["one", "two"]
    assert list(first.get()) == ["one"]


# ---- annotations


def test_annotations_are_checked_against_inferred_struct_info() -> None:
    builder, x = BlockBuilder(), matrix()
    with builder.function("main", [x]):
        weaker = builder.emit(R.exp(x), annotation=TensorStructInfo(ndim=2))
        assert weaker.struct_info == TensorStructInfo(ndim=2)
        with pytest.warns(DiagnosticWarning):
            builder.emit(R.exp(x), annotation=TensorStructInfo((N, 4), "float32"))
        with pytest.raises(StructInfoError, match="contradicts"):
            builder.emit(R.exp(x), annotation=TensorStructInfo((N, M + 1), "float32"))
        builder.emit_func_output(x, TensorStructInfo(ndim=2))
    assert builder.get()["main"].ret_struct_info == TensorStructInfo(ndim=2)


# ---- refusals


def test_an_invalid_call_is_rejected_on_emission() -> None:
    x, y = matrix(), Var("y", TensorStructInfo((M + 1, N), "float32"))
    with pytest.raises(StructInfoError, match="matmul"):
        R.matmul(x, y)


@pytest.mark.parametrize(
    "info",
    [
        TensorStructInfo((N, M, 1), "float32"),
        TensorStructInfo((N, M), "int64"),
        TensorStructInfo((N, M + 1), "float32"),
        ShapeStructInfo((N, M)),
    ],
)
def test_a_cast_that_can_never_succeed(info: object) -> None:
    builder, x = BlockBuilder(), matrix()
    with (
        pytest.raises(StructInfoError, match="StructInfo mismatch"),
        builder.function("main", [x]),
    ):
        builder.match_cast(x, info)  # type: ignore[arg-type]


def test_dataflow_blocks_reject_effects_and_branches() -> None:
    builder, x, cond = BlockBuilder(), matrix(), flag()
    effect = ExternFunc("print", FuncStructInfo(None, ObjectStructInfo(), False))
    with builder.function("main", [x, cond], pure=False):
        with builder.dataflow():
            with pytest.raises(StructInfoError, match="effects"):
                builder.emit(Call(effect, (x,)))
            with pytest.raises(StructInfoError, match="dataflow"):
                builder.if_else(cond, lambda: x, lambda: x)
            builder.emit(R.exp(x))
        builder.emit(Call(effect, (x,)))
        builder.emit_func_output(x)
    check_well_formed(builder.get())


def test_steps_out_of_order_are_errors() -> None:
    builder, x = BlockBuilder(), matrix()
    with pytest.raises(StructIRError, match="no function is open"):
        builder.emit(R.exp(x))
    with (
        pytest.raises(StructIRError, match="has no result"),
        builder.function("main", [x]),
    ):
        builder.emit(R.exp(x))
    with builder.function("main", [x]):
        with pytest.raises(StructIRError, match="no dataflow block is open"):
            builder.emit_output(x)
        builder.emit_func_output(x)


def test_an_error_in_a_function_leaves_the_builder_usable() -> None:
    builder, x, y = BlockBuilder(), matrix(), matrix("y")
    with pytest.raises(ZeroDivisionError), builder.function("broken", [x]):
        raise ZeroDivisionError
    with builder.function("main", [y]):
        builder.emit_func_output(R.exp(y))
    assert list(builder.get()) == ["main"]


def test_atoms_stay_where_they_are() -> None:
    builder, x = BlockBuilder(), matrix()
    with builder.function("main", [x]):
        builder.emit_func_output(R.add(x, 2.0))
    (binding,) = builder.get()["main"].bindings()
    assert isinstance(binding.value, Call)
    assert isinstance(binding.value.args[1], Constant)
    shape = ShapeExpr((N, 2))
    builder = BlockBuilder()
    with builder.function("main", [matrix()]):
        builder.emit_func_output(shape)
    assert builder.get()["main"].body.body is shape


OTHER_DIM = {
    "attribute": lambda x, b: R.reshape(x, (b, 2, 2)),
    "shape": lambda x, b: ShapeExpr((b, 4)),
    "stated result": lambda x, b: Call(
        ExternFunc("f"), (x,), sinfo_args=(TensorStructInfo((b,), "float32"),)
    ),
}


def module_with(value: Callable[[Var, Any], Any], b: Any) -> BlockBuilder:
    own = structir.SymVar("b")
    x = Var("x", TensorStructInfo((own, 4), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x], pure=False):
        builder.emit_func_output(builder.emit(value(x, own if b is None else b)))
    return builder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("value", OTHER_DIM.values(), ids=list(OTHER_DIM))
@pytest.mark.parametrize(
    ("name", "told"),
    [("b", "two different dims are named b"), ("c", "mentions c, which is not bound")],
)
def test_an_unbound_dim_is_rejected_before_it_runs(value, name: str, told: str) -> None:
    builder = module_with(value, structir.SymVar(name))
    module = IRModule(dict(builder.functions))
    x = np.zeros((2, 4), np.float32)
    for use in (
        builder.get,
        lambda: structir.compile(module),
        lambda: structir.compile(module["main"]),
        lambda: structir.interpret(module, "main", x),
        lambda: structir.interpret(module["main"], "main", x),
    ):
        with pytest.raises(WellFormedError, match=told):
            use()
    assert module_with(value, None).get()


def test_an_undefined_variable_is_rejected_before_it_runs() -> None:
    builder = BlockBuilder()
    with builder.function("main", [matrix()]):
        builder.emit_func_output(builder.emit(R.add(matrix(), matrix("y"))))
    with pytest.raises(WellFormedError, match="variable `y` is not in scope"):
        builder.get()


def test_a_module_is_checked_once(monkeypatch) -> None:
    checks = []
    rules = sys.modules[check_well_formed.__module__]
    monkeypatch.setattr(rules, "violations", lambda *given: checks.append(given) or [])
    module = structir.parse("@R.function\ndef main(x: R.Tensor((2,), 'float32')):\n    return x\n")
    for _ in range(3):
        structir.interpret(module, "main", np.zeros(2, np.float32))
        structir.compile(module)
    assert len(checks) == 1


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (lambda bb, x, y: bb.emit(R.permute_dims(x, (0, 7))), "R.permute_dims(x, (0, 7))"),
        (lambda bb, x, y: bb.match_cast(R.exp(x), y.struct_info), "bb.match_cast(R.exp"),
        (lambda bb, x, y: bb.emit(R.exp(x), annotation=y.struct_info), "bb.emit(R.exp"),
    ],
)
def test_errors_name_the_line_of_python_code_and_the_function(step: Any, code: str) -> None:
    x, y = matrix("x"), Var("y", TensorStructInfo((N + 1, M + 1), "float32"))
    builder = BlockBuilder()
    with pytest.raises(StructInfoError) as caught, builder.function("scaled", [x, y]):
        step(builder, x, y)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None and diagnostic.span.source.filename == __file__
    assert code in diagnostic.span.source.line(diagnostic.span.line)
    assert "in the function scaled" in str(caught.value)


def test_errors_of_passes_name_no_line_of_the_package() -> None:
    text = '@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n    return R.exp(x, 1)\n'
    with pytest.raises(StructIRError) as caught:
        structir.parse(text)
    assert "structir/" not in str(caught.value) and "<string>" in str(caught.value)


def test_sizes_as_strings_are_the_dims_of_their_names() -> None:
    shapes: tuple[Any, ...] = (("n", 8), ["n + 1", "2 * m"], ("*s", "n"), ("n:rows", "n // 2"))
    for shape in shapes:
        info = TensorStructInfo(shape, "float32")
        assert info == TensorStructInfo(shape, "float32") == R.Tensor(shape, "float32")
        assert str(info) == str(structir.parse_struct_info(f'R.Tensor({shape!r}, "float32")'))
    sizes = TensorStructInfo(("n", "m + n")).dims
    assert ShapeStructInfo(["n", "m + n"]).dims == ShapeExpr(("n", "m+n")).dims == sizes
    assert PrimStructInfo("int64", "n").value == sizes[0]
    assert TensorStructInfo(("_", "_")).ndim == 2
    x = Var("x", TensorStructInfo(("n", 8), "float32"))
    y = Var("y", TensorStructInfo(["n", 8], "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x, y]):
        builder.emit_func_output(R.concat([R.add(x, y), x]))
    text = """
@R.function
def main(x: R.Tensor(("n", 8), "float32"), y: R.Tensor(("n", 8), "float32")):
    return R.concat([R.add(x, y), x])
"""
    assert structural_equal(builder.get(), structir.parse(text))
    for wrong, message in (("n m", "found 'n m'"), ("n +", "found 'n \\+'"), ("-1", "found -1")):
        with pytest.raises(DiagnosticError, match=message) as caught:
            TensorStructInfo((wrong, 8), "float32")
        assert caught.value.code == "E0121"
    with pytest.raises(DiagnosticError, match="expected a size, found \\*s"):
        ShapeStructInfo(("*s", 8))


def test_python_tuples_are_tuples_of_the_program() -> None:
    builder, x = BlockBuilder(), matrix()
    with builder.function("f", [x]):
        pair = builder.emit((R.exp(x), 3))
        builder.emit_func_output((pair, [x, (R.exp(x), x)]))
    text = """
@R.function
def f(x: R.Tensor(("n", "m"), "float32")):
    y = R.exp(x)
    pair = (y, 3)
    z = R.exp(x)
    return (pair, (x, (z, x)))
"""
    assert structural_equal(builder.get(), structir.parse(text))
    with pytest.raises(StructIRError, match=r"found \{<Var x>"):
        in_one_function(lambda b, x: b.emit_func_output({x}))


def in_one_function(body: Callable[[BlockBuilder, Var], Any]) -> Any:
    builder, x = BlockBuilder(), matrix()
    with builder.function("main", [x]):
        return body(builder, x)


def test_a_reference_to_a_function_is_called() -> None:
    builder, x, y = BlockBuilder(), matrix(), matrix("y")
    with builder.function("f", [x]):
        builder.emit_func_output((R.exp(x), x))
    f = builder.global_var("f")
    with builder.function("main", [y]):
        builder.emit_func_output(R.add(f(y)[0], f(R.exp(y))[1]))
    module = builder.get()
    array = np.ones((2, 3), np.float32)
    assert np.allclose(structir.compile(module)["main"](array), 2 * np.e)
    with pytest.raises(StructInfoError, match="f: expected 1 argument, found 2"):
        f(x, y)
    with pytest.raises(DiagnosticError, match="f: unexpected keyword argument `x`"):
        f(x=y)


def test_a_second_dim_of_one_name_is_an_error_of_get_and_of_compile() -> None:
    batch, other = structir.SymVar("b"), structir.SymVar("b")

    def build(check: bool) -> Any:
        builder, x = BlockBuilder(), Var("x", TensorStructInfo((batch, 8), "float32"))
        with builder.function("main", [x]):
            builder.emit_func_output(builder.emit(R.reshape(x, (other, 8))))
        return builder.get() if check else structir.compile(builder.finished("main"))

    for check in (True, False):
        with pytest.raises(WellFormedError, match="two different dims are named b"):
            build(check)
