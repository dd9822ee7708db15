"""Products of float16 are rounded before sums, on CPUs with arithmetic of float16, too."""

import numpy as np
import pytest

import structir

LINES = (
    *("x * y + z", "z - x * y", "x * y - z * z", "(x + y) * z + x", "R.square(x) + x"),
    *("R.negative(x * y) + z", "x * x * x + y * y", "R.nn.relu(x * y) + z", "x / y + x * y"),
    *("R.astype(R.astype(x * y + z, 'float32'), 'float16')", "R.where(x > y, x * y, z) + z"),
    *("R.exp(x) * y + z", "x * R.const(0.1, 'float16') + y"),
)


@pytest.mark.parametrize("line", LINES)
def test_each_operation_is_rounded(line: str) -> None:
    params = ", ".join([f'{name}: R.Tensor(("n",), "float16")' for name in "xyz"])
    module = structir.parse(f"@R.function\ndef main({params}):\n    return {line}\n")
    x, y, z = np.random.default_rng(0).standard_normal((3, 1000)).astype("float16")
    expected = structir.interpret(module, "main", x, y, z)
    np.testing.assert_array_equal(structir.compile(module)["main"](x, y, z), expected)
