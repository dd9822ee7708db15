"""Printed programs parse back to structurally equal programs."""

import contextlib
import warnings

import attrs
import pytest

import structir
from structir.errors import DiagnosticError
from structir.ir import (
    BlockBuilder,
    DataflowVar,
    Function,
    IRModule,
    ObjectStructInfo,
    PrimStructInfo,
    PrimValue,
    ShapeExpr,
    ShapeStructInfo,
    TensorStructInfo,
    Tuple,
    TupleStructInfo,
    Var,
    VarBinding,
)
from structir.ir.dims import sym
from structir.script import I, R, T
from structir.tools.generate import random_module
from tests.printer.corpus import modules


def assert_round_trip(module: IRModule) -> str:
    text = module.script()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = structir.parse(text)
    assert structir.structural_equal(again, module), text
    assert again.script() == text
    return text


def test_every_program_of_the_conformance_set() -> None:
    programs = modules()
    assert len(programs) > 900
    for module in programs.values():
        assert_round_trip(module)


def test_conflicting_names_are_renamed() -> None:
    builder = BlockBuilder()
    x, y = (Var("x", TensorStructInfo((3,), "float32")) for _ in range(2))
    with builder.function("main", [x, y]):
        first = builder.emit(R.add(x, y), "x")
        second = builder.emit(R.multiply(first, x), "not a name")
        builder.emit_func_output(second)
    text = assert_round_trip(builder.get())
    assert "def main(x: " in text and "x_1: " in text and "R.multiply(x_2, x)" in text


def test_dims_of_one_name_are_printed_differently() -> None:
    one, other = sym("n"), sym("n")
    builder = BlockBuilder()
    x = Var("x", TensorStructInfo((one, other), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(R.exp(x)))
    text = assert_round_trip(builder.get())
    assert 'R.Tensor(("n", "n_1"), dtype="float32")' in text


def test_dims_are_declared_where_all_that_mention_them_see_them() -> None:
    module = structir.parse(
        """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("m", 4), "float32")):
    n = T.int64()
    m = T.int64()
    @R.function
    def outer(a: R.Tensor(("n", 4), "float32")):
        k = T.int64()
        @R.function
        def inner(b: R.Tensor(("k", 4), "float32")):
            return R.concat((a, b, x))
        return inner
    pair = (outer, outer)
    return x
"""
    )
    text = assert_round_trip(module)
    lines = [line.strip() for line in text.splitlines() if "T.int64()" in line]
    assert sorted(lines) == ["k = T.int64()", "m = T.int64()", "n = T.int64()"]


def test_branches_keep_bound_and_unbound_results() -> None:
    module = structir.parse(
        """
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")):
    if c:
        if c:
            t = R.exp(x)
            r = R.log(t)
        else:
            r = (x, x)[0]
    else:
        r = x
    if c:
        q = (x, r)
    else:
        s = (r, x)
        q = s
    return q
"""
    )
    assert_round_trip(module)
    infos = structir.analysis.binding_struct_infos(module["main"])
    assert {"r.then.r.then.t", "r.then.r.then.r", "r.then.r", "q.else.s"} <= infos.keys()


def test_a_branch_may_promise_less_than_its_sides_give() -> None:
    text = """
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")):
    r: R.Tensor(ndim=1)
    if c:
        r = R.exp(x)
    else:
        r = x
    return r
"""
    module = structir.parse(text)
    assert str(module["main"].ret_struct_info) == "R.Tensor(ndim=1)"
    assert "r: R.Tensor(ndim=1)\n" in assert_round_trip(module)


def test_operands_left_out_and_operands_behind_attributes() -> None:
    module = structir.parse(
        """
@R.function
def main(x: R.Tensor(("n", 8), "float32")):
    n = T.int64()
    y = R.strided_slice(x, axes=[0, 1], begin=[1, 0], end=[n, 8], strides=[1, 2])
    z = R.arange(0, n, dtype="int64")
    return (y, z)
"""
    )
    text = assert_round_trip(module)
    assert "R.strided_slice(x, begin=(1, 0), end=(n, 8), axes=[0, 1], strides=[1, 2])" in text


def test_calls_beyond_ops() -> None:
    @I.ir_module
    class Module:
        I.module_attrs({"version": 2, "path": ("a", ["b", None])})

        @R.function(private=True)
        def loop(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")) -> R.Tensor(
            ("n",), "float32"
        ):
            R.func_attr({"steps": 3})
            if c:
                r = Module.loop(c, R.exp(x))
            else:
                r = x
            return r

        @R.function(pure=False)
        def main(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32"), f: R.Callable):
            n = T.int64()
            cls = Module
            y = cls.loop(c, x)
            z = R.call_packed("outside.f", y, sinfo_args=(R.Tensor((n,), "float32"), R.Shape([n])))
            w = R.call_pure_packed("outside.g", z, sinfo_args=R.Object)
            f(w)
            return (z[0], R.shape([n + 1]), R.prim_value(2 * n), R.str("s"), R.dtype("int8"))

    text = assert_round_trip(Module)
    assert Module["loop"].attrs == {"steps": 3, "private": True}
    assert not Module["main"].is_pure
    assert "@R.function(private=True)" in text and "cls = Module" in text


def test_a_function_alone_reads_back() -> None:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        return R.exp(x)

    assert isinstance(main, Function)
    assert structir.structural_equal(structir.parse(main.script())["main"], main)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    assert_round_trip(random_module(seed, 16))


def test_terms_are_in_the_order_in_which_dims_are_named() -> None:
    late, early = sym("late"), sym("early")
    builder = BlockBuilder()
    x = Var("x", TensorStructInfo((early, late, 2 * late * early + late + early), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(x)
    text = assert_round_trip(builder.get())
    assert '"early", "late", "2 * early * late + early + late"' in text


X = Var("x", TensorStructInfo((sym("n"), 4), "float32"))
TENSOR, OBJECT = TensorStructInfo(), ObjectStructInfo()
COARSER = {
    "fields": (Tuple((X, X)), TupleStructInfo((TENSOR, OBJECT))),
    "all": (Tuple((X, X)), OBJECT),
    "nested": (
        Tuple((X, Tuple((X, X)))),
        TupleStructInfo((OBJECT, TupleStructInfo((X.struct_info, TENSOR)))),
    ),
    "op": (R.split(X, 2, axis=1), TupleStructInfo((TENSOR, OBJECT))),
    "tensor": (R.exp(X), TensorStructInfo(dtype="float32", ndim=2)),
    "shape": (ShapeExpr((2, 4)), ShapeStructInfo(ndim=2)),
    "number": (PrimValue(3), PrimStructInfo("int64")),
    "constant": (R.const([1.0]), OBJECT),
}


@pytest.mark.parametrize("dataflow", [False, True])
@pytest.mark.parametrize(("value", "info"), COARSER.values(), ids=COARSER)
def test_a_variable_coarser_than_its_value_parses_back(value, info, dataflow: bool) -> None:
    builder = BlockBuilder()
    with builder.function("main", [X]), contextlib.ExitStack() as stack:
        if dataflow:
            stack.enter_context(builder.dataflow())
        value = builder.normalise(value)
        var = Var("y", info)
        if dataflow:
            builder.take(VarBinding(DataflowVar("z", info), value))
        builder.take(VarBinding(var, value))
        stack.close()
        builder.emit_func_output(var)
    assert_round_trip(builder.get())


def test_a_closure_coarser_than_its_function_parses_back() -> None:
    builder = BlockBuilder()
    with builder.function("main", [X]):
        p = Var("p", X.struct_info)
        closure = builder.local_function([p], lambda: builder.emit(R.exp(p)))
        builder.emit_func_output(closure)
    main = builder.get()["main"]
    (block,) = main.body.blocks
    (binding,) = block.bindings
    var = Var("closure", OBJECT)
    body = attrs.evolve(
        main.body,
        blocks=(attrs.evolve(block, bindings=(VarBinding(var, binding.value),)),),
        body=var,
    )
    text = assert_round_trip(
        IRModule({"main": attrs.evolve(main, body=body, ret_struct_info=OBJECT)})
    )
    assert "closure: R.Object\n" in text


def declared(lines: str) -> str:
    head = '@R.function\ndef main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):\n'
    return head + "".join(f"    {line}\n" for line in lines.split("; "))


def test_a_declaration_states_the_struct_info_of_the_next_binding() -> None:
    module = structir.parse(declared("y: R.Tensor; y = R.exp(x); y = R.exp(y); return y"))
    (block,) = module["main"].body.blocks
    infos = [binding.var.struct_info for binding in block.bindings]
    assert infos == [TENSOR, TENSOR]
    cast = structir.parse(declared("y: R.Object; y = R.match_cast(x, R.Tensor((4,))); return y"))
    assert cast["main"].ret_struct_info == OBJECT


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("y: R.Tensor; return x", "`y` is declared, but no statement binds it"),
        ("y: R.Tensor; y: R.Object = R.exp(x); return y", "`y` is annotated twice"),
        ("y: R.Tensor((5,)); y = R.exp(x); return y", "contradicts its value"),
        ("y: R.Tuple(R.Shape); y = (x,); return y", "contradicts its value"),
    ],
)
def test_a_wrong_declaration_is_rejected(lines: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message) as caught:
        structir.parse(declared(lines))
    assert caught.value.diagnostics[0].span is not None


def test_an_object_annotation_parses_back_unchanged() -> None:
    text = "@R.function\ndef main(x: R.Tensor((4,))):\n    y: R.Object = R.exp(x)\n    return y\n"
    module = structir.parse(text)
    assert "y: R.Object = R.exp(x)" in module.script()
    assert structir.structural_equal(structir.parse(module.script()), module)


NAMES = (
    "class",
    "x y",
    "",
    "1x",
    "x\u00b2",
    "\ufb01",
    "fi",
    "\U0001d535",
    "x",
    "e\u0301",
    "\u00e9",
)


@pytest.mark.parametrize("name", NAMES)
def test_names_that_python_lacks_or_identifies(name: str) -> None:
    for other in NAMES:
        dims = (structir.SymVar(name), structir.SymVar(other))
        builder = BlockBuilder()
        param = Var(name, TensorStructInfo(dims, "float32"))
        with builder.function("main", [param]):
            value = builder.emit(R.exp(param), other)
            builder.emit_func_output(builder.emit(R.add(value, param), name))
        module = builder.get()
        assert structir.structural_equal(structir.parse(module.script()), module)
