"""Every pass on two layers of the sentence encoder: a small batch, random weights."""

from typing import Any

import numpy as np
import pytest

import structir
from minilm_program import minilm_text, weights_of
from structir.ir import IRModule, Kernel
from structir.passes import Pass, PassContext, VerifyIR, all_passes, pipeline
from structir.passes.manager.comparison import same
from structir.passes.manager.statistics import module_statistics

LAYERS = 2  # they share one function, as all six do
PASSES = [each for each in all_passes() if each.comparable]


@pytest.fixture(scope="module")
def arguments() -> list[Any]:
    numbers = np.random.default_rng(0)
    weights = [
        numbers.standard_normal(shape, "float32") * np.float32(0.05)
        for shape in weights_of(LAYERS).values()
    ]
    ids = np.array([[101, 1037, 102], [101, 102, 0]])
    return [ids, (ids != 0).astype("int64"), *weights]


@pytest.fixture(scope="module")
def original() -> IRModule:
    return structir.parse(minilm_text(LAYERS))


@pytest.fixture(scope="module")
def inlined(original: IRModule) -> IRModule:
    with PassContext([VerifyIR()]):
        return pipeline("inline_functions,dce{entries=main}")(original)


@pytest.fixture(scope="module")
def expected(original: IRModule, arguments: list[Any]) -> Any:
    return structir.interpret(original, "main", *arguments)


def run(module: IRModule, arguments: list[Any]) -> Any:
    """Returns the interpreted result; loops over elements are compiled, as they take minutes
    interpreted.
    """
    if any(isinstance(value, Kernel) for value in module.functions.values()):
        return structir.compile(module)["main"](*arguments)
    return structir.interpret(module, "main", *arguments)


@pytest.mark.parametrize("each", PASSES, ids=lambda each: each.name)
def test_the_encoder_computes_the_same(
    each: Pass, original: IRModule, inlined: IRModule, expected: Any, arguments: list[Any]
) -> None:
    """Runs on the inlined program, and if the pass does not change that, on the one with several
    functions.
    """
    for module in (inlined, original):
        with PassContext([VerifyIR()]):
            after = each(module)
        if after is not module:
            result = run(after, arguments)
            assert same(expected, result, max(each.tolerance, 1e-3))
            return


def test_a_whole_pipeline(inlined: IRModule, expected: Any, arguments: list[Any]) -> None:
    text = "canonicalise,cse,simplify,fold,combine_parallel_matmul,rewrite_dataflow_reshape,dce"
    with PassContext([VerifyIR()]):
        after = pipeline(f"{text},to_dataflow,toposort")(inlined)
    assert list(after.functions) == ["main"]
    assert module_statistics(after).calls["matmul"] < module_statistics(inlined).calls["matmul"]
    assert same(expected, structir.interpret(after, "main", *arguments), 1e-3)
