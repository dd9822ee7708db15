"""Results of handwritten kernels: elements that no statement writes are zero, also in parts."""

import numpy as np
import pytest

import structir
from structir.ir import IRModule, Kernel
from structir.loops.emit.code import code_of

KERNEL = """
@I.ir_module
class Module:
    @I.kernel
    def k(x: R.Tensor((SHAPE), "float32"), y: R.Tensor((SHAPE), "float32")):
        BODY

    @R.function
    def main(x: R.Tensor((SHAPE), "float32")):
        cls = Module
        n = T.int64()
        a = R.add(x, R.const(0.0, "float32"))
        return R.call_kernel(cls.k, (a,), out_sinfo=R.Tensor((OUT), "float32"))
"""
UNFILLED = {
    "half of a part": "for i in range(low, high // 2):\n            y[i] = x[i]",
    "under a condition": "for i in range(low, high):\n            if x[i] > 2.0:\n"
    "                y[i] = x[i]",
    "after a jump": "for i in range(low, high):\n            if x[i] < 2.0:\n"
    "                continue\n            y[i] = x[i]",
    "every other one": "for i in range(low, high, 2):\n            y[i] = x[i]",
    "blocks with gaps": "for b in range(low, high, 8):\n            e = min(b + 4, high)\n"
    "            for i in range(b, e):\n                y[i] = x[i]",
    "sums": "for i in range(low, high):\n            y[i] += x[i]",
    "read first": "for i in range(low, high):\n            y[i] = y[i] + x[i]",
    "filled later": "for i in range(low, high):\n            if x[i] > 2.0:\n"
    "                y[i] = y[i] + 1.0\n        for i in range(low, high // 2):\n"
    "            y[i] = x[i]",
    "flat, shifted": "for i in range(low, high):\n            y.flat[i // 2] = x[i]",
}
FILLED = {
    "elements": "for i in range(low, high):\n            y[i] = x[i]",
    "flat": "for i in range(low, high):\n            y.flat[i] = x.flat[i]",
    "both sides": "for i in range(low, high):\n            if x[i] > 2.0:\n"
    "                y[i] = x[i]\n            else:\n                y[i] = 0.0",
    "blocks": "for b in range(low, high, 8):\n            e = min(b + 8, high)\n"
    "            for i in range(b, e):\n                y[i] = x[i]",
}
FILLED |= {
    "read later": "for i in range(low, high):\n            y[i] = x[i]\n"
    "        for t in range(3):\n            for i in range(low, high):\n"
    "                y[i] = 2.0 * y[i]",
    "parts first": "for i in range(low, high // 2):\n            y[i] = 1.0\n"
    "        for i in range(low, high):\n            y[i] = x[i]",
}
ROWS = {
    "backwards": "for j in range(2, -1, -1):\n            for i in range(low, high):\n"
    "                y[i, j] = x[i, j]",
    "flat rows": "for i in range(low, high):\n            for j in range(3):\n"
    "                y.flat[3 * i + j] = x[i, j]",
    "columns first": "for j in range(3):\n            for i in range(low, high):\n"
    "                y[i, j] = x[i, j]",
}
TRANSPOSED = (
    "for i in range(low, high):\n            for j in range(3):\n"
    "                y.flat[i + 3 * j] = x[i, j]"
)


def module_of(body: str, shape: str = '"n",') -> IRModule:
    text = KERNEL.replace("BODY", f"low, high = T.part(n)\n        {body}")
    return structir.parse(text.replace("SHAPE", shape).replace("OUT", shape.replace('"', "")))


def runs_in_parts(module: IRModule) -> bool:
    kernel = module.functions["k"]
    assert isinstance(kernel, Kernel)
    return not code_of(kernel, frozenset()).is_whole


@pytest.mark.parametrize("size", [5, 100_000])
@pytest.mark.parametrize("name", UNFILLED)
def test_elements_that_a_part_does_not_write_are_zero(name: str, size: int) -> None:
    module = module_of(UNFILLED[name])
    assert not runs_in_parts(module)
    x = np.arange(size, dtype="float32") % 7
    expected = structir.interpret(module, "main", x)
    compiled = structir.compile(module, num_threads=2)["main"]
    for _ in range(3):  # memory of earlier results is used again
        used = [np.full(size, 7, "float32") for _ in range(4)]
        del used
        np.testing.assert_array_equal(compiled(x), expected)


@pytest.mark.parametrize(
    ("body", "shape"),
    [(body, '"n",') for body in FILLED.values()] + [(body, '"n", 3') for body in ROWS.values()],
    ids=[*FILLED, *ROWS],
)
def test_filled_results_run_in_parts(body: str, shape: str) -> None:
    module = module_of(body, shape)
    assert runs_in_parts(module)
    x = np.arange(3000, dtype="float32").reshape((-1, 3) if "3" in shape else -1)
    compiled = structir.compile(module, num_threads=2)["main"]
    np.testing.assert_array_equal(compiled(x), structir.interpret(module, "main", x))


def test_backward_loops_over_a_part_of_an_axis_are_not_proved() -> None:
    body = "for j in range(1, -1, -1):\n            for i in range(low, high):\n"
    module = module_of(body + "                y[i, j] = x[i, j]", '"n", 3')
    assert not runs_in_parts(module)
    x = np.arange(9, dtype="float32").reshape(3, 3)
    expected = structir.interpret(module, "main", x)
    np.testing.assert_array_equal(structir.compile(module)["main"](x), expected)


def test_a_transposed_position_is_not_proved() -> None:
    module = module_of(TRANSPOSED, '"n", 3')
    assert not runs_in_parts(module)
    x = np.arange(9, dtype="float32").reshape(3, 3)
    np.testing.assert_array_equal(structir.compile(module)["main"](x), x.T)
