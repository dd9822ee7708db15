"""Sorting of dataflow blocks: moved bindings, dependencies and cycles."""

from random import Random
from typing import Any

import pytest

import structir
from structir.analysis import well_formed
from structir.errors import StructIRError, WellFormedError
from structir.ir import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    ExternFunc,
    FuncStructInfo,
    Function,
    IRModule,
    ObjectStructInfo,
    Op,
    SeqExpr,
    Var,
    VarBinding,
    replace,
    structural_equal,
)
from structir.passes import DeadCodeElimination, TopologicalSort
from structir.passes.manager.comparison import same
from structir.tools.calls import CallGenerator
from structir.tools.generate import random_arguments, random_module

PROGRAM = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    n = T.int64()
    m = T.int64()
    k = T.int64()
    with R.dataflow():
        shape: R.Shape(ndim=1) = R.call_pure_packed("shape_of", x, sinfo_args=R.Shape(ndim=1))
        opaque = R.call_pure_packed("fill", x, sinfo_args=R.Tensor(shape, "float32"))
        found = R.match_cast(opaque, R.Tensor((k,), "float32"))
        size = R.shape([k, n])
        filled = R.zeros(size, "float32")
        total = R.sum(filled)
        late = R.add(x, x)
        result = R.multiply(late, total)
        R.output(result)
    return result
"""


def block_of(module: IRModule) -> list[str]:
    return [binding.var.name for binding in module["main"].bindings()]


def shuffled(module: IRModule, seed: int) -> IRModule:
    """Returns the module with the bindings of its first block in another order."""
    main = module["main"]
    (block,) = main.body.blocks
    bindings = list(block.bindings)
    Random(seed).shuffle(bindings)
    body = replace(main.body, blocks=(replace(block, bindings=tuple(bindings)),))
    return module.with_functions({"main": replace(main, body=body)})


def test_a_sorted_program_is_unchanged() -> None:
    module = structir.parse(PROGRAM)
    assert TopologicalSort()(module) is module


@pytest.mark.parametrize("order", ["stable", "depth_first"])
@pytest.mark.parametrize("seed", range(20))
def test_any_order_is_sorted(order: str, seed: int) -> None:
    mixed = shuffled(structir.parse(PROGRAM), seed)
    sorted_module = TopologicalSort(order=order)(mixed)
    assert well_formed(sorted_module)
    assert sorted(block_of(sorted_module)) == sorted(block_of(mixed))
    names = block_of(sorted_module)
    for before, after in [
        ("shape", "opaque"),  # only the StructInfo of `opaque` mentions it
        ("found", "size"),  # only the dim k links them
        ("late", "result"),
        ("total", "result"),
    ]:
        assert names.index(before) < names.index(after)


def test_depth_first_puts_dependencies_directly_before_their_use() -> None:
    text = """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    with R.dataflow():
        a = R.exp(x)
        b = R.log(x)
        c = R.sin(a)
        d = R.cos(b)
        e = R.add(c, d)
        R.output(e)
    return e
"""
    before = structir.parse(text)
    assert block_of(TopologicalSort()(before)) == list("abcde")
    after = TopologicalSort(order="depth_first")(before)
    assert block_of(after) == list("acbde")
    assert structural_equal(structir.parse(after.script()), after)


def test_only_dataflow_blocks_are_sorted() -> None:
    text = PROGRAM.replace("    with R.dataflow():\n", "").replace("        R.output(result)\n", "")
    module = structir.parse(text.replace("\n        ", "\n    "))
    assert TopologicalSort(order="depth_first")(module) is module


def test_blocks_inside_branches_and_closures_are_sorted() -> None:
    text = """
@R.function
def main(x: R.Tensor(("n",), "float32"), flag: R.Tensor((), "bool")):
    @R.function
    def inner(y: R.Tensor(("n",), "float32")):
        with R.dataflow():
            a = R.exp(y)
            b = R.log(y)
            c = R.add(b, R.sin(a))
            R.output(c)
        return c
    if flag:
        with R.dataflow():
            d = R.exp(x)
            e = R.log(x)
            f = R.add(e, R.sin(d))
            R.output(f)
        r = f
    else:
        r = inner(x)
    return r
"""
    before = structir.parse(text)
    after = TopologicalSort(order="depth_first")(before)
    assert not structural_equal(before, after)
    assert well_formed(after)
    inner = after["main"].bindings()[0].value
    assert isinstance(inner, Function)
    assert inner.bindings()[0].var.name == "b"


def test_a_cycle_is_an_error_that_names_its_variables() -> None:
    info = ObjectStructInfo()
    a, b = DataflowVar("a", info), DataflowVar("b", info)
    callee = ExternFunc("f", FuncStructInfo(None, info))
    bindings = (VarBinding(a, Call(callee, (b,))), VarBinding(b, Call(callee, (a,))))
    x = Var("x", info)
    function = Function((x,), SeqExpr((DataflowBlock(bindings),), x), info)
    with pytest.raises(WellFormedError, match="cyclic dependency between the bindings of a, b"):
        TopologicalSort()(function)
    plain = replace(function, body=SeqExpr((BindingBlock(bindings),), x))
    assert TopologicalSort()(plain) is plain


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(StructIRError, match="unknown option 'direction'; available: order"):
        TopologicalSort(direction="down")


def is_one_line(op: Op) -> bool:
    """Whether an op is defined by its index signature alone."""
    definition: Any = op.definition
    return isinstance(definition.index_signature, str) and not definition.hooks


@pytest.mark.parametrize("seed", range(40))
def test_sorting_and_elimination_preserve_results(seed: int) -> None:
    module = random_module(seed, generator=CallGenerator(Random(seed), admits=is_one_line))
    arguments = random_arguments(module["main"], seed)
    changed = DeadCodeElimination()(TopologicalSort(order="depth_first")(module))
    assert well_formed(changed)
    try:
        expected = structir.interpret(module, "main", *arguments)
    except StructIRError:
        return
    result = structir.interpret(changed, "main", *arguments)
    assert same(expected, result, 0)
