"""Costs fitted to times: known rates are recovered, and results are cached."""

from pathlib import Path

import pytest

import structir
from structir.distributed import measure_cost, measured_cost
from structir.distributed.measured_cost import TimedSample, fitted
from structir.errors import StructIRError

SIZES = [{"n": n, "k": k, "m": m} for n in (8, 64) for k in (8, 64) for m in (8, 64)]
MODEL = structir.parse(
    """
@R.function
def main(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", 4), "float32")):
    return R.matmul(x, w)
"""
)


def test_rates_are_recovered_from_exact_times() -> None:
    samples = [
        TimedSample(s, 3e-6 + 2e-10 * s["n"] * s["k"] * s["m"] + 5e-9 * s["n"], 0.0) for s in SIZES
    ]
    (term,) = fitted(("n", "k", "m"), samples).terms
    assert term.per_call == pytest.approx(3e-6)
    assert term.per_point == pytest.approx(2e-10)
    assert term.per_axis[0] == pytest.approx(5e-9)
    assert min(term.per_axis) >= 0


def test_a_clock_is_called_for_each_sample() -> None:
    calls = []

    def clock(call):  # type: ignore[no-untyped-def]
        calls.append(call().shape)
        return 1e-6 * calls[-1][0]

    sizes = [{"n": n, "k": k} for n in (2, 8) for k in (3, 5)]
    measured = measure_cost(MODEL, sizes, clock=clock)
    assert calls == [(2, 4), (2, 4), (8, 4), (8, 4)]
    assert measured.cost.unit == "seconds"
    assert measured.cost.marginal("n", {"k": 3}) == pytest.approx(1e-6)
    assert measured.samples[0].operations == 2 * 2 * 3 * 4
    assert measured.flops_per_second > 0


def test_a_measurement_is_cached_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STRUCTIR_CACHE", str(tmp_path))
    sizes = [{"n": 4, "k": 4}, {"n": 8, "k": 4}]
    first = measure_cost(MODEL, sizes)
    assert measure_cost(MODEL, sizes) is first
    monkeypatch.setattr(measured_cost, "_measured", {})
    monkeypatch.setattr(measured_cost, "_measure", None)  # is not called
    again = measure_cost(MODEL, sizes)
    assert (again.samples, again.cost) == (first.samples, first.cost)
    assert again.model().flops == first.flops_per_second
    for path in tmp_path.glob("*/*.entry"):
        path.write_bytes(b"damaged")
    monkeypatch.setattr(measured_cost, "_measured", {})
    with pytest.raises(TypeError):
        measure_cost(MODEL, sizes)


def test_a_sample_without_a_size() -> None:
    with pytest.raises(StructIRError, match="expected a size for the dim `k`"):
        measure_cost(MODEL, [{"n": 4}])
