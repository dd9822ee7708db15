"""The policies `signature` and `checks` raise for the same arguments, and agree otherwise."""

import warnings
from itertools import product

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticWarning, StructIRError
from structir.ir.module import IRModule

PROGRAMS = {
    "named sizes": """
def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
    return R.ewise_fma(x, y, R.zeros((3,), "float32"))
""",
    "expressions": """
def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("2 * n + 1",), "float32")):
    return R.concat((x, R.ewise_fma(y, y, R.zeros((5,), "float32"))))
""",
    "declared result": """
def main(
    x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")
) -> R.Tensor(("n",), "float32"):
    R.require("n >= 2")
    return R.ewise_fma(y, y, y)
""",
    "row variables": """
def main(x: R.Tensor(("*s",), "float32"), y: R.Tensor(("*s", "m"), "float32")):
    return R.sort(x), R.reshape(y, (2, 4))
""",
    "conditions": """
def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("k",), "float32")):
    R.require("n == 2 * k", "k <= 2")
    return R.add(x, R.ones((4,), "float32")), y
""",
}
SHAPES = [shape for rank in range(3) for shape in product((1, 2, 3, 4, 5), repeat=rank)]


def parsed(text: str) -> IRModule:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        return structir.parse("@R.function" + text)


def outcome(module: IRModule, *arguments: np.ndarray) -> str:
    """Returns the result of a run as text, or that it raises."""
    try:
        return str(structir.interpret(module, "main", *arguments))
    except StructIRError:
        return "raises"


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_signature_and_checks_raise_for_the_same_arguments(text: str) -> None:
    module = parsed(text)
    policies = [structir.infer(module, refine=refine) for refine in ("signature", "checks")]
    accepted = 0
    for shapes in product(SHAPES, repeat=2):
        arguments = [np.ones(shape, "float32") for shape in shapes]
        first, second = [outcome(each, *arguments) for each in policies]
        assert first == second == outcome(module, *arguments), shapes
        accepted += first != "raises"
    assert 0 < accepted < len(SHAPES) ** 2
