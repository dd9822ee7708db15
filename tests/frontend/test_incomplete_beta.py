"""The incomplete beta function against SciPy."""

import itertools

import numpy as np
from scipy import special

import structir
from structir.frontend.builder import NodeBuilder
from structir.frontend.incomplete_beta import incomplete_beta
from structir.ir.expr import Var

EDGES = (-1.0, 0.0, 1e-3, 0.5, 1.0, 7.0, 2000.0)


def test_values_are_those_of_scipy() -> None:
    random = np.random.default_rng(0)
    points = np.exp(random.uniform(-8, 8, (2, 2000)))
    a, b, x = map(np.append, (*points, random.random(2000)), zip(*_edges(), strict=True))
    expected = special.betainc(a, b, x)
    np.testing.assert_allclose(_compiled()(a, b, x), expected, rtol=1e-9, atol=1e-11)


def _edges() -> list[tuple[float, ...]]:
    return [*itertools.product(EDGES, EDGES, (-0.1, 0.0, 0.3, 1.0, 1.1))]


def _compiled():
    info = structir.parse_struct_info('R.Tensor(("n",), "float64")')
    builder, params = NodeBuilder(), [Var(name, info) for name in "abx"]
    with builder.function("main", params):
        builder.emit_func_output(incomplete_beta(builder, *params))
    return structir.compile(builder.get())["main"]
