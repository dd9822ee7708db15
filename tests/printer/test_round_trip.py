"""Printed programs parse back to structurally equal programs."""

import warnings

import pytest

import structir
from structir.ir import BlockBuilder, Function, IRModule, TensorStructInfo, Var
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


def test_an_object_annotation_parses_back_unchanged() -> None:
    text = "@R.function\ndef main(x: R.Tensor((4,))):\n    y: R.Object = R.exp(x)\n    return y\n"
    module = structir.parse(text)
    assert "y: R.Object = R.exp(x)" in module.script()
    assert structir.structural_equal(structir.parse(module.script()), module)
