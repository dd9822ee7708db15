"""Arenas: kept for the latest sizes, and not for all there ever were."""

import numpy as np

import structir
from structir.backend import plan


def test_arenas_of_many_sizes_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(plan, "KEPT_BYTES", 100_000)
    executable = structir.compile(products())
    for n in (50, 100, 150, 200, 50, 200):
        x = np.ones((n, 60), np.float32)
        w = np.full((60, 60), 0.1, np.float32)
        np.testing.assert_allclose(executable["main"](x, w), np.exp(x @ w) @ w, rtol=1e-4)
    (region,) = executable._regions["main"]
    kept = region._bound.latest()
    assert 1 <= len(kept) < 4
    assert sum(bound.layout[1] for bound in kept[1:]) <= 100_000


def products():
    return structir.parse("""
@R.function
def main(x: R.Tensor(("n", 60), "float32"), w: R.Tensor((60, 60), "float32")):
    return R.matmul(R.exp(R.matmul(x, w)), w)
""")
