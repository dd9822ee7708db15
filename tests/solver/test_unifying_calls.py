"""Tests of calls in functions with `refine=`: arguments are unified with parameters."""

import warnings

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticWarning, ShapeMismatchError, StructInfoError, StructIRError
from structir.ir.module import IRModule

HELPER = """
@R.function
def helper(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, "k"), "float32")):
    return R.matmul(x, w)
"""


def parsed(text: str) -> IRModule:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)  # annotations that only infer can decide
        return structir.parse(text)


def module(*functions: str) -> str:
    lines = [line for function in functions for line in function.strip().splitlines()]
    return "@I.ir_module\nclass M:\n" + "\n".join(f"    {line}" for line in lines)


def caller(params: str, value: str = "cls.helper(x, w)", refine: str = "signature") -> str:
    option = f'(refine="{refine}")' if refine else ""
    return f"@R.function{option}\ndef main({params}):\n    cls = M\n    y = {value}\n    return y"


def params_of(text: str) -> list[str]:
    """Returns the inferred StructInfos of the parameters of `main`; checks laws of inference."""
    inferred = structir.infer(parsed(text))
    assert structir.structural_equal(parsed(inferred.script()), inferred)
    assert structir.structural_equal(structir.infer(inferred), inferred)
    return [str(param.struct_info) for param in inferred["main"].params]


OPEN = [
    "R.Tensor",
    "R.Tensor(ndim=2)",
    'R.Tensor(dtype="float32")',
    'R.Tensor(("*s",), "float32")',
    'R.Tensor(("a", "*s"))',
]


@pytest.mark.parametrize("open_info", OPEN)
@pytest.mark.parametrize("refine", ["signature", "checks"])
def test_call_of_a_refining_function_unifies_ranks_and_sizes(open_info: str, refine: str) -> None:
    main = caller(f'x: {open_info}, w: R.Tensor((4, 5), "float32")', refine=refine)
    inferred = structir.infer(parsed(module(HELPER, main)))["main"]
    assert inferred.ret_struct_info.ndim == 2
    x, w = np.ones((3, 4), "float32"), np.ones((4, 5), "float32")
    assert structir.interpret(parsed(module(HELPER, main)), "main", x, w).shape == (3, 5)
    if refine == "signature":
        assert ", 4)" in params_of(module(HELPER, main))[0]
        assert inferred.ret_struct_info.dims[1] == 5


@pytest.mark.parametrize("backend", [structir.interpret, structir.compile])
@pytest.mark.parametrize("x", [np.ones(4, "float32"), np.ones((3, 4)), np.ones((3, 5), "float32")])
def test_unified_argument_is_checked_at_run_time(backend: object, x: np.ndarray) -> None:
    program = parsed(module(HELPER, caller('x: R.Tensor, w: R.Tensor((4, 5), "float32")')))
    w = np.ones((4, 5), "float32")
    for checked in (program, structir.infer(program)):
        with pytest.raises((ShapeMismatchError, StructIRError)):
            if backend is structir.interpret:
                structir.interpret(checked, "main", x, w)
            else:
                structir.compile(checked)["main"](x, w)


@pytest.mark.parametrize("open_info", OPEN)
def test_call_without_refine_expects_the_rank_and_dtype_of_its_parameter(open_info: str) -> None:
    main = caller(f'x: {open_info}, w: R.Tensor((4, 5), "float32")', refine="")
    with pytest.raises(StructInfoError, match="argument 0: expected"):
        parsed(module(HELPER, main))


@pytest.mark.parametrize(
    "wrong", ['R.Tensor((3, 5), "float32")', 'R.Tensor((3, 4), "float16")', "R.Tensor(ndim=3)"]
)
def test_unified_argument_that_contradicts_its_parameter_is_rejected(wrong: str) -> None:
    with pytest.raises(StructInfoError, match="argument 0: expected"):
        parsed(module(HELPER, caller(f"x: {wrong}, w: R.Tensor")))


def test_calls_that_contradict_each_other_are_rejected() -> None:
    other = "@R.function\ndef other(x: R.Tensor((3, 5), 'float32')):\n    return x"
    main = caller("x: R.Tensor", "cls.other(x)").replace(
        "    return y", "    z = cls.helper(x, y)\n    return z"
    )
    with pytest.raises(StructInfoError):
        structir.infer(parsed(module(HELPER, other, main)))


CELL = """
@R.function
def cell(h: R.Tensor(("b", "k"), "float32"), c: R.Tensor(("b", "k"), "float32"),
         x: R.Tensor(("b", "i"), "float32"), w: R.Tensor(("i", "k"), "float32")):
    a = R.tanh(R.add(R.matmul(x, w), h))
    b = R.multiply(a, c)
    return (a, b, a)
"""


def test_loop_of_a_refining_function_unifies_states_sequence_and_captured_values() -> None:
    params = 'h: R.Tensor, c: R.Tensor((2, 3), "float32"), x: R.Tensor, w: R.Tensor'
    text = module(CELL, caller(params, "R.scan(cls.cell, (h, c), x, (w,))"))
    inferred = structir.infer(parsed(text))["main"]
    shapes = [str(param.struct_info.dims) for param in inferred.params]
    assert shapes[:2] == ["(2, 3)", "(2, 3)"]
    assert [param.struct_info.ndim for param in inferred.params] == [2, 2, 3, 2]
    params_of(text)
    sizes = [(2, 3), (2, 3), (5, 2, 4), (4, 3)]
    results = structir.interpret(parsed(text), "main", *[np.ones(s, "float32") for s in sizes])
    assert [result.shape for result in results] == [(2, 3), (2, 3), (5, 2, 3)]


def test_tuple_argument_is_unified_with_a_tuple_parameter() -> None:
    pair = 'R.Tuple(R.Tensor(("n", 3), "float32"), R.Tensor(("n", "m"), "float32"))'
    helper = f"@R.function\ndef helper(s: {pair}):\n    return s[0]"
    main = caller("s: R.Tuple(R.Tensor, R.Tensor((2, 5)))", "cls.helper(s)")
    assert params_of(module(helper, main))[0].startswith("R.Tuple(R.Tensor((2, 3)")


def test_loop_infers_a_state_that_is_a_tuple() -> None:
    text = CELL.replace('h: R.Tensor(("b", "k"), "float32"), c: ', "s: R.Tuple(R.Tensor, ")
    text = text.replace('"k"), "float32"),\n', '"k"), "float32")),\n').replace(
        "    a =", "    h, c = s\n    a ="
    )
    text = module(
        text.replace("return (a, b, a)", "return ((a, b), a)"),
        caller(
            'h: R.Tensor, c: R.Tensor((2, 3), "float32"), x: R.Tensor((5, 2, 4), "float32"), '
            'w: R.Tensor((4, 3), "float32")',
            "R.scan(cls.cell, ((h, c),), x, (w,))",
        ),
    )
    assert params_of(text)[0].startswith("R.Tensor((2, 3)")
    sizes = [(2, 3), (2, 3), (5, 2, 4), (4, 3)]
    arguments = [np.ones(s, "float32") for s in sizes]
    for run in (
        structir.compile(parsed(text))["main"],
        structir.compile(structir.infer(parsed(text)))["main"],
    ):
        state, outputs = run(*arguments)
        assert [part.shape for part in (*state, outputs)] == [(2, 3), (2, 3), (5, 2, 3)]
