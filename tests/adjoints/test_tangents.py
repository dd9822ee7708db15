"""Jacobian-vector products of every op: the transposes of the pullbacks."""

import numpy as np
import pytest

import structir
from structir.adjoints.functions import Adjoints
from structir.adjoints.tangents import Tangents
from structir.errors import DiagnosticError
from structir.ir import IRModule
from tests.data.example_calls import example_calls, leaves


def in_double(value: np.ndarray) -> np.ndarray:
    """Distinct numbers in float64, so that no maximum has ties."""
    if value.dtype.kind != "f" or value.dtype.itemsize < 4:
        return value
    noise = np.random.default_rng(value.size).uniform(0, 0.01, value.shape)
    return value.astype("float64") + noise


EXAMPLES = [e for e in example_calls(in_double) if any(v.dtype == "float64" for v in e.values)]


@pytest.mark.parametrize("name", sorted({e.name for e in EXAMPLES}))
def test_tangent_is_the_transpose_of_the_pullback(name: str) -> None:
    for example in [e for e in EXAMPLES if e.name == name]:
        floats = [k for k, v in enumerate(example.values) if v.dtype == "float64"]
        result = leaves(structir.interpret(example.module, "main", *example.values))
        paths = [k for k, leaf in enumerate(result) if leaf.dtype == "float64"]
        tangents, adjoints = Tangents(example.module), Adjoints(example.module)
        try:
            tangents.add("tangent", "main", floats)
        except DiagnosticError as error:
            assert "E0307" in str(error) or "E0305" in str(error)
            continue
        module = IRModule({**example.module.functions, **tangents.generated})
        rng = np.random.default_rng(0)
        directions = [rng.normal(size=example.values[k].shape) for k in floats]
        value, derivative = structir.interpret(module, "tangent", *example.values, *directions)
        for a, b in zip(leaves(value), result, strict=True):
            np.testing.assert_array_equal(a, b)
        changes = leaves(derivative)
        if not paths:
            continue
        seeds = [rng.normal(size=result[k].shape) for k in paths]
        is_tuple = isinstance(value, tuple)
        plan = adjoints.pullback("main", floats, [(k,) if is_tuple else () for k in paths])
        assert plan is not None
        adjoints.generate_pending()
        pulled = IRModule({**example.module.functions, **adjoints.generated})
        cotangents = structir.interpret(pulled, plan[0].name, *example.values, *seeds)
        by_param = {k: c for (k, _), c in zip(plan[1], cotangents, strict=True)}
        forward = sum([np.sum(s * changes[k]) for s, k in zip(seeds, paths, strict=True)])
        backward = sum([np.sum(d * by_param[k]) for d, k in zip(directions, floats, strict=True)])
        np.testing.assert_allclose(forward, backward, rtol=1e-9, atol=1e-9)
