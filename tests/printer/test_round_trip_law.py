"""The round trip is the identity for every well-formed module, from the API and from passes."""

from random import Random

import pytest

import structir
from structir.errors import DiagnosticError
from structir.ir import (
    BindingBlock,
    BlockBuilder,
    If,
    IRModule,
    ObjectStructInfo,
    SeqExpr,
    ShapeStructInfo,
    TensorStructInfo,
    Tuple,
    TupleStructInfo,
    Var,
    VarBinding,
)
from structir.ir.dims import sym
from structir.ir.node import rebuild, replace
from structir.script import R
from structir.tools.checks import require_round_trip, run_check
from structir.tools.declared_values import InfoSampler, sampled_subclass
from structir.tools.fuzzing import random_program

OBJECT, TENSOR = ObjectStructInfo(), TensorStructInfo()
INFO = TensorStructInfo((sym("n"), 4), "float32")
FLAG = TensorStructInfo((), "bool")


def module_of(*bindings: VarBinding, params: tuple[Var, ...], ret=None) -> IRModule:
    builder = BlockBuilder()
    with builder.function("main", list(params)):
        for binding in bindings:
            builder.take(binding)
        builder.emit_func_output(bindings[-1].var if bindings else params[0])
    main = builder.get()["main"]
    return IRModule({"main": main if ret is None else replace(main, ret_struct_info=ret)})


# ---- random programs


@pytest.mark.parametrize("chunk", range(4))
def test_coarser_random_programs_parse_back(chunk: int) -> None:
    for seed in range(chunk * 10, chunk * 10 + 10):
        run_check("coarse_text", random_program(seed, 4), seed)


@pytest.mark.parametrize("seed", range(4))
def test_the_output_of_every_pass_parses_back(seed: int) -> None:
    run_check("pass_text", random_program(seed, 3), seed)


def test_samples_are_of_every_struct_info_subclass_and_class_of_axes() -> None:
    shape = Var("s", ShapeStructInfo(ndim=2))
    row = structir.parse('@R.function\ndef main(x: R.Tensor(("*r", "n"))):\n    return x\n')
    params = (*row["main"].params, shape)
    with sampled_subclass():
        infos = [InfoSampler(Random(seed), params).info() for seed in range(200)]
        text = " ".join(map(str, infos))
    for part in ("Sampled(", "Callable(", "Shape(", "Prim(", "Tuple(", '"*r"', '"*"', ":a1", '"_"'):
        assert part in text, part
    assert "of=x" in text and "R.Tensor(s" in text


# ---- results of functions


@pytest.mark.parametrize("ret", [OBJECT, TENSOR, TensorStructInfo(dtype="float32", ndim=2)])
def test_a_result_coarser_than_the_body_parses_back(ret) -> None:
    require_round_trip(module_of(params=(Var("x", INFO),), ret=ret))


def test_a_local_function_with_a_coarser_result_parses_back() -> None:
    x = Var("x", INFO)
    builder = BlockBuilder()
    with builder.function("main", [x]):
        p = Var("p", INFO)
        builder.emit_func_output(builder.local_function([p], lambda: builder.emit(R.exp(p))))
    main = builder.get()["main"]
    (binding,) = main.bindings()
    function = replace(binding.value, ret_struct_info=OBJECT)
    var = Var("f", function.struct_info)
    body = SeqExpr((BindingBlock((VarBinding(var, function),)),), var)
    module = IRModule({"main": replace(main, body=body, ret_struct_info=var.struct_info)})
    require_round_trip(module)
    assert "opaque_result=True" in module.script()


def test_an_opaque_result_is_unknown_to_callers() -> None:
    module = structir.parse("""
@I.ir_module
class Module:
    @R.function(opaque_result=True)
    def helper(x: R.Tensor((4,), "float32")) -> R.Object:
        return R.exp(x)

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Object:
        cls = Module
        return cls.helper(x)
""")
    assert module["helper"].ret_struct_info == module["main"].ret_struct_info == OBJECT
    assert module.script().count("opaque_result=True") == 1
    require_round_trip(module)


def test_an_opaque_result_with_another_annotation_is_rejected() -> None:
    text = (
        "@R.function(opaque_result=True)\ndef main(x: R.Tensor((4,))) -> R.Tensor:\n    return x\n"
    )
    with pytest.raises(DiagnosticError, match=r"expected the result R\.Object, found R\.Tensor"):
        structir.parse(text)


# ---- StructInfos that are stored in a node


def test_the_struct_info_of_a_tuple_is_that_of_its_fields() -> None:
    x, y = Var("x", INFO), Var("y", TENSOR)
    renamed = rebuild(Tuple((x, x)), lambda part: y if part is x else part)
    assert renamed.struct_info == TupleStructInfo((TENSOR, TENSOR))


@pytest.mark.filterwarnings("ignore")
def test_an_if_over_branches_with_older_struct_infos_parses_back() -> None:
    c, coarse = Var("c", FLAG), Var("x", TENSOR)
    branch = SeqExpr((), coarse, INFO)
    for info in (INFO, TENSOR, OBJECT):
        value = If(c, branch, branch, INFO)
        module = module_of(VarBinding(Var("y", info), value), params=(c, coarse, Var("z", INFO)))
        require_round_trip(module)


def test_consecutive_plain_blocks_are_equal_to_one() -> None:
    x = Var("x", INFO)
    y, z = Var("y", INFO), Var("z", INFO)
    first, second = VarBinding(y, R.exp(x)), VarBinding(z, R.exp(y))
    module = module_of(first, second, params=(x,))
    main = module["main"]
    blocks = (BindingBlock((first,)), BindingBlock(()), BindingBlock((second,)))
    apart = IRModule({"main": replace(main, body=SeqExpr(blocks, z, INFO))})
    assert structir.structural_equal(apart, module)
    assert structir.structural_hash(apart) == structir.structural_hash(module)
    require_round_trip(apart)


def test_mixed_precision_accepts_ops_with_an_inference_rule() -> None:
    text = """
@R.function
def main(x: R.Tensor((4, 3), "float32")):
    @R.function
    def step(state: R.Tensor((3,), "float32"), row: R.Tensor((3,), "float32")):
        return (R.add(state, row), row)
    return R.scan(step, (x[0],), x)
"""
    text = text.replace("x[0]", 'R.take(x, R.const(0, "int64"), axis=0)')
    require_round_trip(structir.passes.ToMixedPrecision()(structir.parse(text)))
