"""An op of a user that is declared anew: no memo and no cached program has the first body."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import structir
from structir import ScalarExpr, op
from structir.distributed import search, shard
from structir.errors import StructIRError
from structir.ir import op as ops
from structir.ir import scalar_functions
from structir.ir.code_hash import code_hash
from structir.ir.scalar_functions import declare
from structir.passes import pipeline
from structir.runtime.files.cached_plans import CachedPlans

Array = Any

SQUARES = """
@R.function
def main(x: R.Tensor(("n",), "float64")):
    y = R.scaled_square(x)
    return R.sum(y)
"""
MAPPED = '@R.function\ndef main(x: R.Tensor((6,), "float64")):\n    return R.scaled_square(x)\n'


@pytest.fixture
def declared() -> Iterator[Any]:
    def declare(factor: float) -> None:
        @op("x[i] @ F -> y[i] @ F")
        def scaled_square(x: ScalarExpr) -> ScalarExpr:
            """Multiplies a square by a number."""
            return x * x * factor

    yield declare
    ops._ops.pop("scaled_square", None)


def test_programs_follow_the_last_declaration(declared: Any) -> None:
    x = np.arange(6.0)
    for factor in (2.0, 3.0):
        declared(factor)
        module = structir.parse(SQUARES)
        gradient = pipeline("gradient")(module)
        for run in (
            lambda m, f: structir.compile(m)[f](x),
            lambda m, f: structir.interpret(m, f, x),
        ):
            assert run(module, "main") == factor * (x * x).sum()
            assert run(gradient, "main_adjoint")[1][0].tolist() == (2 * factor * x).tolist()
        mapped = structir.parse(MAPPED)
        plans = shard(mapped, grid=(2,)), search(mapped, workers=2, mesh=(2,), stages=1)
        assert [plan(x).tolist() for plan in plans] == [(factor * x * x).tolist()] * 2


def test_programs_with_ops_of_other_packages_are_not_in_the_disk_cache(declared: Any) -> None:
    declared(2.0)
    module = structir.parse(SQUARES)
    for program in (module, pipeline("gradient")(module)):
        assert CachedPlans(program)._key is None
    assert CachedPlans(structir.parse(SQUARES.replace("scaled_square", "exp")))._key is not None


WHOLE = '@R.function\ndef main(x: R.Tensor((3,), "float32")):\n    return R.whole_axis(x)\n'
FACTOR = 0.0


def scaled_whole(x: Any, y: Any) -> None:
    for i in range(len(x)):
        y[i] = x[i] * FACTOR


def capturing(factor: float) -> Any:
    def kernel(x: Any, y: Any) -> None:
        for i in range(len(x)):
            y[i] = x[i] * factor

    return kernel


def without_source(factor: float) -> Any:
    names: dict[str, Any] = {}
    exec(f"def kernel(x, y):\n    for i in range(len(x)): y[i] = x[i] * {factor}", names)
    return names["kernel"]


def reading_a_global(factor: float) -> Any:
    globals()["FACTOR"] = factor
    return scaled_whole


@pytest.mark.parametrize("kernel", [reading_a_global, capturing, without_source])
def test_a_kernel_is_compiled_with_the_values_that_it_reads(kernel: Any) -> None:
    x = np.arange(3, dtype="float32")
    for factor in (2.0, 3.0):

        @op("x[*s, [i]] @ F -> y[*s, [i]] @ F")
        def whole_axis(x: Any) -> Array:
            return x

        whole_axis.kernel("cpu")(kernel(factor))
        exe = structir.compile(structir.parse(WHOLE))
        assert exe["main"](x).tolist() == (x * factor).tolist() and not exe.fallbacks


def test_the_hash_of_a_function_has_all_constants_that_it_reads() -> None:
    module = ModuleType("constants")

    def reading(value: Any) -> Any:
        return lambda x, *, by=2: x * value * module.FACTOR * by

    hashes = set()
    for value, factor in ((np.float32(2), 1.0), (np.float32(3), 1.0), (np.float32(2), 5.0)):
        module.FACTOR = factor  # type: ignore[attr-defined]
        hashes.add(code_hash(reading(value)))
        assert code_hash(reading(value)) in hashes
    function = reading(np.float32(2))
    function.__kwdefaults__ = {"by": 3}
    assert len({*hashes, code_hash(function)}) == 4


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (3, "expected a Python function as kernel, found 3"),
        (lambda x: None, "expected a parameter of the kernel for the result y"),
        (lambda x, y, k: None, "expected parameters of the kernel among .*, found k"),
    ],
)
def test_an_invalid_kernel_is_rejected(kernel: Any, message: str) -> None:
    @op("x[*s, [i]] @ F -> y[*s, [i]] @ F")
    def whole_axis(x: Any) -> Array:
        return x

    with pytest.raises(StructIRError, match=message):
        whole_axis.kernel("cpu")(kernel)


CALLED = """
@I.ir_module
class Module:
    @I.kernel
    def k(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
        for i in range(n):
            y[i] = T.scaled_of_test(x[i])

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        return R.call_kernel(k, (x,), out_sinfo=R.Tensor((n,), "float32"))
"""


def scaled_by(factor: float) -> Any:
    return lambda value: value * factor  # the factor is not in the code


@pytest.mark.parametrize("field", ["body", "single"])
def test_kernels_follow_the_last_declaration_of_a_scalar_function(field: str) -> None:
    keys, x = set(), np.arange(3, dtype="float32")
    try:
        for factor in (2.0, 3.0):
            scaled = scaled_by(factor)
            value = scaled if field == "body" else lambda scaled=scaled: scaled
            declare("scaled_of_test", numpy=scaled, **{field: value})
            module = structir.parse(CALLED)
            keys.add(CachedPlans(module)._key)
            assert structir.compile(module)["main"](x).tolist() == (x * factor).tolist()
    finally:
        scalar_functions._declared.pop("scaled_of_test", None)
    assert len(keys) == 2 and None not in keys
