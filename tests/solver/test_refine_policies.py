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


OPEN = {
    "result": ' -> R.Tensor((5,), "float32"):\n    y = HALF\n    return y',
    "field": ' -> R.Tuple(R.Tensor((5,)), R.Tensor(("d",))):\n    y = HALF\n    return (y, x)',
    "variable": ':\n    y: R.Tensor((5,), "float32") = HALF\n    return y',
    "cast": ':\n    y = R.match_cast(HALF, R.Tensor((5,), "float32"))\n    return y',
    "later axis": ' -> R.Tensor((1, 5), "float32"):\n    y = R.expand_dims(HALF, 0)\n    return y',
}


@pytest.mark.parametrize("refine", ["signature", "checks"])
@pytest.mark.parametrize("rest", OPEN.values(), ids=OPEN)
def test_a_declared_size_stays_a_check_where_its_equation_stays_open(
    rest: str, refine: str
) -> None:
    half = "R.strided_slice(x, axes=[0], begin=[0], end=[100], strides=[2])"
    module = parsed('\ndef main(x: R.Tensor(("d",), "float32"))' + rest.replace("HALF", half))
    inferred = structir.infer(module, refine=refine)
    assert structir.structural_equal(structir.infer(inferred, refine=refine), inferred)
    outcomes = {
        size: [outcome(each, np.ones(size, "float32")) for each in (module, inferred)]
        for size in (8, 9, 10, 11)
    }
    assert [one == other for one, other in outcomes.values()] == [True] * 4
    assert [size for size, (one, _) in outcomes.items() if one != "raises"] == [9, 10]


@pytest.mark.parametrize("size", ["n + 1", "2 * n", "n * m", "n // 2"])
def test_a_size_without_a_dim_that_binds_it_is_solved_or_rejected(size: str) -> None:
    text = f'\ndef main(x: R.Tensor(("{size}", 4), "float32"))RESULT:\n    return R.exp(x)'
    with pytest.raises(StructIRError, match=r"n, which (is|are) not bound"):
        structir.infer(parsed(text.replace("RESULT", "")))
    solved = parsed(text.replace("RESULT", ' -> R.Tensor((4, 4), "float32")'))
    if size not in ("n * m", "n // 2"):
        assert structir.infer(solved)["main"].params[0].struct_info.dims == (4, 4)


def test_a_product_of_open_dims_remains_in_the_signature() -> None:
    text = """
@R.function
def main(a: R.Tensor(("n",)), b: R.Tensor(("m",)), x: R.Tensor(("n * m",))):
    y = R.match_cast(x, R.Tensor((6,)))
    return y
"""
    main = structir.infer(structir.parse(text))["main"]
    n, m = [param.struct_info.dims[0] for param in main.params[:2]]
    assert main.params[2].struct_info.dims == (n * m,)
    assert main.ret_struct_info.dims == (6,)
