"""The gradient of a mapped op equals the mapped gradient, for every differentiable op."""

import numpy as np
import pytest

import structir
from structir.adjoints.functions import Adjoints
from structir.batching.functions import Batching
from structir.build import BlockBuilder
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.ir import IRModule
from structir.ir.expr import Constant, Var
from structir.ir.struct_info import TensorStructInfo
from structir.script import R
from tests.data.example_calls import ExampleCall, example_calls, leaves

BATCH = 2
NOISE = np.random.default_rng(0)


def in_double(value: np.ndarray) -> np.ndarray:
    """Distinct numbers in float64, so that no maximum has ties."""
    if value.dtype.kind != "f" or value.dtype.itemsize < 4:
        return value
    return value.astype("float64") + NOISE.uniform(0, 0.01, value.shape)


EXAMPLES = [e for e in example_calls(in_double) if any(v.dtype == "float64" for v in e.values)]


def with_losses(example: ExampleCall, results: list[np.ndarray]) -> IRModule | None:
    """Adds `loss`, the weighted sum of the float64 results of `main`, and `total`, that of a batch
    of results."""
    weights = [np.random.default_rng(k).normal(size=r.shape) for k, r in enumerate(results)]
    kept = [k for k, r in enumerate(results) if r.dtype == "float64"]
    if not kept:
        return None
    main = example.module["main"]
    builder = BlockBuilder(example.module)
    params = [Var(p.name, p.struct_info) for p in main.params]
    with builder.function("loss", params):
        value = builder.emit(builder.global_var("main")(*params))
        is_tuple = len(results) > 1 or isinstance(value.struct_info, structir.ir.TupleStructInfo)
        parts = [builder.emit(value[k]) for k in range(len(results))] if is_tuple else [value]
        terms = [builder.emit(R.sum(R.multiply(parts[k], Constant(weights[k])))) for k in kept]
        total = terms[0]
        for term in terms[1:]:
            total = builder.emit(R.add(total, term))
        builder.emit_func_output(total)
    return builder.get()


@pytest.mark.parametrize("name", sorted({e.name for e in EXAMPLES}))
def test_gradient_and_map_commute(name: str) -> None:
    for example in [e for e in EXAMPLES if e.name == name]:
        check(example)


def check(example: ExampleCall) -> None:
    module = with_losses(
        example, leaves(structir.interpret(example.module, "main", *example.values))
    )
    if module is None:
        return
    floats = [k for k, v in enumerate(example.values) if v.dtype == "float64"]
    names = [module["loss"].params[k].name for k in floats]
    adjoints = Adjoints(module)
    try:
        adjoints.add("gradient", "loss", names, 0, with_value=False)
    except DiagnosticError:
        return
    with_gradient = IRModule({**module.functions, **adjoints.generated})
    mapped = [k in floats for k in range(len(example.values))]
    rows = [
        [v * (1 + 0.01 * b) for b in range(BATCH)] if flag else [v] * BATCH
        for v, flag in zip(example.values, mapped, strict=True)
    ]
    arguments = [np.stack(r) if flag else r[0] for r, flag in zip(rows, mapped, strict=True)]
    try:
        expected = [
            structir.interpret(with_gradient, "gradient", *[r[b] for r in rows])
            for b in range(BATCH)
        ]
    except ShapeMismatchError:
        return
    try:
        results = [mapped_gradient(with_gradient, mapped, arguments)]
    except DiagnosticError:
        assert example.name == "dynamic_strided_slice"  # the sizes of its result are data
        return
    results.append(gradient_of_map(module, mapped, names, arguments))
    for result in results:
        for k, array in enumerate(result):
            for b in range(BATCH):
                np.testing.assert_allclose(array[b], expected[b][k], rtol=1e-8, atol=1e-9)


def mapped_gradient(module: IRModule, mapped: list[bool], arguments: list[np.ndarray]) -> tuple:
    batching = Batching(module)
    batching.add("mapped", "gradient", mapped, BATCH)
    whole = IRModule({**module.functions, **batching.generated})
    return structir.interpret(whole, "mapped", *arguments)


def gradient_of_map(
    module: IRModule, mapped: list[bool], names: list[str], arguments: list[np.ndarray]
) -> tuple:
    batching = Batching(module)
    batching.add("losses", "loss", mapped, BATCH)
    builder = BlockBuilder(IRModule({**module.functions, **batching.generated}))
    params = [
        Var(p.name, TensorStructInfo(a.shape, a.dtype.name))
        for p, a in zip(module["loss"].params, arguments, strict=True)
    ]
    with builder.function("total", params):
        losses = builder.emit(builder.global_var("losses")(*params))
        builder.emit_func_output(builder.emit(R.sum(losses)))
    whole = builder.get()
    adjoints = Adjoints(whole)
    adjoints.add("gradient", "total", names, 0, with_value=False)
    return structir.interpret(
        IRModule({**whole.functions, **adjoints.generated}), "gradient", *arguments
    )
