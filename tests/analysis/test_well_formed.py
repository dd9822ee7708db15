"""Tests of each well-formedness rule on a small program that violates only that rule."""

import pytest

import structir
from structir.analysis import check_well_formed, well_formed
from structir.analysis.well_formed import violations
from structir.errors import WellFormedError
from structir.ir import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    ExternFunc,
    FuncStructInfo,
    Function,
    GlobalVar,
    If,
    IRModule,
    MatchCast,
    ObjectStructInfo,
    PrimStructInfo,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    TupleStructInfo,
    Var,
    VarBinding,
)
from structir.ir.dims import sym
from structir.ir.expr import Binding
from structir.ir.node import replace

OBJECT = ObjectStructInfo()
N, K = sym("n"), sym("k")
VECTOR = TensorStructInfo((N,), "float32")
X = Var("x", VECTOR)
FLAG = Var("flag", TensorStructInfo((), "bool"))


def bind(name: str, value: Expr, info: StructInfo | None = None, kind: type[Var] = Var) -> Binding:
    return VarBinding(kind(name, info or value.struct_info or OBJECT), value)


def cast(name: str, value: Expr, info: StructInfo) -> Binding:
    return MatchCast(Var(name, info), value, info)


def extern(*args: Expr, info: StructInfo = OBJECT, effects: bool = False) -> Call:
    """Returns a call of an external function; pure unless `effects` is set."""
    callee = FuncStructInfo(None, OBJECT, not effects)
    return Call(ExternFunc("f", callee), args, sinfo_args=(info,), struct_info=info)


def function(
    *bindings: Binding,
    result: Expr | None = None,
    params: tuple[Var, ...] = (X, FLAG),
    ret: StructInfo = OBJECT,
    kind: type[BindingBlock] = BindingBlock,
) -> Function:
    body = result if result is not None else bindings[-1].var
    return Function(params, SeqExpr((kind(bindings),), body), ret)


def seq(*bindings: Binding, result: Expr | None = None) -> SeqExpr:
    return SeqExpr((BindingBlock(bindings),), bindings[-1].var if result is None else result)


def messages(program: Function | IRModule) -> str:
    assert not well_formed(program)
    with pytest.raises(WellFormedError) as caught:
        check_well_formed(program)
    return "\n".join(d.message for d in caught.value.diagnostics)


def test_a_good_program_passes() -> None:
    matrix = TensorStructInfo((N, K), "float32")
    a = cast("a", X, VECTOR)
    b = bind("b", extern(a.var))
    c = cast("c", b.var, matrix)
    d = bind("d", ShapeExpr((N, K + 1)))
    e = bind("e", If(FLAG, seq(bind("t", extern(c.var))), seq(bind("u", extern(X))), OBJECT))
    program = function(a, b, c, d, e, result=Tuple((c.var, e.var)))
    check_well_formed(program)
    assert well_formed(program)


def test_an_undefined_variable() -> None:
    assert messages(function(bind("a", extern(Var("z", VECTOR))))) == (
        "variable `z` is not in scope"
    )


def test_a_variable_used_before_it_is_bound() -> None:
    later = bind("later", extern(X))
    assert "`later` is not in scope" in messages(function(bind("a", extern(later.var)), later))


def test_a_variable_of_another_function() -> None:
    here, there = bind("a", extern(X)), Var("x", VECTOR)
    stray = function(bind("b", extern(here.var)), params=(there,))
    module = IRModule({"f": function(here), "g": stray})
    assert messages(module) == "variable `a` is not in scope"


def test_a_variable_bound_twice() -> None:
    one = bind("a", extern(X))
    assert messages(function(one, VarBinding(one.var, extern(X)))) == "a is defined twice"


def test_a_parameter_shared_by_two_functions() -> None:
    one, other = function(bind("a", extern(X))), function(bind("b", extern(X)))
    assert "x is defined twice" in messages(IRModule({"f": one, "g": other}))


def test_a_variable_of_a_branch_outside_of_it() -> None:
    inner = bind("t", extern(X))
    choice = bind("c", If(FLAG, seq(inner), seq(bind("u", extern(X))), OBJECT))
    assert "`t` is not in scope" in messages(function(choice, bind("d", extern(inner.var))))
    other = bind("c", If(FLAG, seq(inner), seq(bind("u", extern(inner.var))), OBJECT))
    assert "`t` is not in scope" in messages(function(other))


def test_a_variable_of_a_nested_function_outside_of_it() -> None:
    inner = bind("t", extern(X))
    nested = bind("g", function(inner, params=()))
    assert messages(function(nested, bind("d", extern(inner.var)))) == (
        "variable `t` is not in scope"
    )


def test_a_dataflow_variable_outside_its_block() -> None:
    local = bind("a", extern(X), kind=DataflowVar)
    block = DataflowBlock((local, bind("out", extern(local.var))))
    program = Function((X,), SeqExpr((block,), local.var), OBJECT)
    assert "dataflow variable `a` is not visible outside its block" in messages(program)


def test_a_dataflow_variable_in_a_plain_block() -> None:
    program = function(bind("a", extern(X), kind=DataflowVar), result=X)
    assert messages(program) == "the dataflow variable a is bound outside a dataflow block"


def test_an_output_whose_info_mentions_a_local_variable() -> None:
    shape = bind("s", extern(X, info=ShapeStructInfo(ndim=1)), kind=DataflowVar)
    info = TensorStructInfo(shape.var, "float32")
    block = DataflowBlock((shape, bind("out", extern(X, info=info))))
    program = Function((X,), SeqExpr((block,), X), OBJECT)
    assert "dataflow variable `s` is not visible outside its block" in messages(program)


@pytest.mark.parametrize(
    "value",
    [
        ShapeExpr((N, K)),
        PrimValue(K + 1),
        extern(PrimValue(K), X),
        extern(Tuple((X, ShapeExpr((K,))))),
        extern(X, info=TensorStructInfo((K,), "float32")),
    ],
)
def test_a_size_that_nothing_binds(value: Expr) -> None:
    assert "k, which is not bound" in messages(function(bind("a", value, OBJECT)))


def test_a_parameter_that_binds_nothing() -> None:
    odd = Var("y", TensorStructInfo((K * 2,), "float32"))
    assert "parameter y mentions k" in messages(function(params=(odd,), result=odd))
    whole = Var("z", TensorStructInfo((K,), "float32"))
    assert well_formed(function(params=(odd, whole), result=odd))


def test_a_dim_of_a_branch_outside_of_it() -> None:
    inner = cast("t", X, TensorStructInfo((K,), "float32"))
    info = TensorStructInfo((K,), "float32")
    choice = If(FLAG, seq(inner), seq(bind("u", extern(X))), info)
    assert "variable c mentions k" in messages(function(bind("c", choice, info)))


def test_a_result_that_mentions_what_a_caller_does_not_see() -> None:
    inner = cast("t", X, TensorStructInfo((K,), "float32"))
    assert "the result of main mentions k" in messages(function(inner, ret=inner.var.struct_info))
    shape = Var("s", ShapeStructInfo(ndim=1))
    ret = TensorStructInfo(shape, "float32")
    program = function(params=(X, shape), result=X, ret=ret)
    assert "mentions the variable s, which is not in scope of callers" in messages(program)


def test_a_nested_result_may_mention_dims_of_the_outer_function() -> None:
    nested = function(params=(), result=X, ret=VECTOR)
    assert well_formed(function(bind("g", nested)))


def test_an_impure_call() -> None:
    call = extern(X, effects=True)
    assert messages(function(bind("a", call))) == (
        "f has side effects, but the function is declared pure"
    )
    block = function(bind("a", call), kind=DataflowBlock)
    assert messages(block) == "f has side effects, which are not allowed in a dataflow block"
    choice = If(FLAG, seq(bind("t", call)), seq(bind("u", extern(X))), OBJECT)
    assert "declared pure" in messages(function(bind("c", choice)))


def test_a_recursive_call_is_as_pure_as_the_function() -> None:
    call = Call(GlobalVar("main"), (X, FLAG), struct_info=OBJECT)
    assert well_formed(IRModule({"main": function(bind("a", call))}))


def test_an_if_in_a_dataflow_block() -> None:
    choice = bind("c", If(FLAG, seq(result=X), seq(result=X), VECTOR))
    program = function(choice, kind=DataflowBlock)
    assert messages(program) == "`if` is not allowed in a dataflow block"


@pytest.mark.parametrize(
    ("info", "good"),
    [
        (TensorStructInfo((), "bool"), True),
        (TensorStructInfo(ndim=0), True),
        (PrimStructInfo("bool"), True),
        (OBJECT, True),
        (TensorStructInfo((), "float32"), False),
        (TensorStructInfo((N,), "bool"), False),
        (PrimStructInfo("int64"), False),
        (ShapeStructInfo(()), False),
        (TupleStructInfo(()), False),
    ],
)
def test_conditions(info: StructInfo, good: bool) -> None:
    flag = Var("flag", info)
    choice = bind("c", If(flag, seq(result=X), seq(result=X), VECTOR))
    program = function(choice, params=(X, flag))
    if good:
        check_well_formed(program)
    else:
        assert messages(program).startswith("the condition of `if`: expected a bool tensor")


@pytest.mark.parametrize(
    "value",
    [
        extern(extern(X)),
        Tuple((extern(X),)),
        TupleGetItem(Tuple((X, extern(X))), 0, VECTOR),
    ],
)
def test_a_nested_expression(value: Expr) -> None:
    assert "nested expression" in messages(function(bind("a", value, OBJECT)))


def test_a_result_or_a_condition_that_is_no_atom() -> None:
    assert "nested expression" in messages(function(result=extern(X)))
    choice = If(extern(X), seq(result=X), seq(result=X), VECTOR)
    assert "nested expression" in messages(function(bind("c", choice)))


@pytest.mark.parametrize(
    ("value", "info"),
    [
        (X_ITEM := TupleGetItem(Tuple((X,)), 0, VECTOR), TensorStructInfo((N,), "int64")),
        (X_ITEM, TensorStructInfo((N + 1,), "float32")),
        (X_ITEM, TensorStructInfo((N, N), "float32")),
        (If(FLAG, seq(result=X), seq(result=X), VECTOR), TensorStructInfo((N, N), "float32")),
        (ShapeExpr((N,)), ShapeStructInfo((N, N))),
        (Tuple((X, X)), TupleStructInfo((VECTOR,))),
        (PrimValue(1), PrimStructInfo("int64", 2)),
    ],
)
def test_an_info_that_contradicts_the_value(value: Expr, info: StructInfo) -> None:
    assert messages(function(bind("a", value, info))).startswith(
        "the StructInfo of a contradicts its value"
    )


def test_more_or_less_precise_struct_info_is_valid() -> None:
    less = bind("a", TupleGetItem(Tuple((X,)), 0, VECTOR), TensorStructInfo(ndim=1))
    more = bind("b", extern(X), VECTOR)
    check_well_formed(function(less, more))


def test_a_cast_that_can_never_succeed() -> None:
    impossible = cast("a", X, TensorStructInfo((N, K), "float32"))
    assert messages(function(impossible)).startswith("the StructInfo of a contradicts its value")


def test_a_result_that_contradicts_the_body() -> None:
    program = function(params=(X,), result=X, ret=TensorStructInfo((N, N), "float32"))
    assert messages(program).startswith("the result of main contradicts its body")


def test_call_of_an_undefined_function() -> None:
    call = Call(GlobalVar("missing"), (X,), struct_info=OBJECT)
    assert "no function `missing` in module" in messages(
        IRModule({"main": function(bind("a", call))})
    )


def test_every_violation_is_reported() -> None:
    program = function(
        bind("a", extern(Var("z", VECTOR))),
        bind("b", ShapeExpr((K,)), OBJECT),
        bind("c", extern(extern(X))),
    )
    found = messages(program)
    for part in ("`z` is not in scope", "k, which is not bound", "nested expression"):
        assert part in found


def test_messages_have_source_locations() -> None:
    text = (
        "@R.function\n"
        'def main(x: R.Tensor(("n",), "float32"), y: R.Tensor((), "float32")):\n'
        "    a = R.add(x, x)\n"
        "    if y:\n"
        "        r = a\n"
        "    else:\n"
        "        r = x\n"
        "    return r\n"
    )
    with pytest.raises(structir.errors.DiagnosticError) as caught:
        check_well_formed(structir.parse(text, "model.py"))
    assert "model.py:4:8" in str(caught.value)
    assert "bool tensor of rank 0" in str(caught.value)


def test_a_call_of_a_function_with_another_number_of_parameters() -> None:
    text = """
@I.ir_module
class Module:
    @R.function
    def helper(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        return R.exp(x)

    @R.function
    def main(x: R.Tensor((3,), "float32")):
        cls = Module
        return cls.helper(x, x)
"""
    module = structir.parse(text)
    helper = module["helper"]
    fewer = replace(helper, params=helper.params[:1])
    (found,) = violations(module.with_functions({**module.functions, "helper": fewer}))
    assert found.message == "helper: expected 1 argument, found 2"
