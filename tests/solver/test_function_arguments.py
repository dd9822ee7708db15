"""Tests of functions passed as arguments: a loop written by a user knows the cell of each call."""

from itertools import product

import numpy as np
import pytest

import structir
from structir.errors import StructInfoError, StructIRError
from tests.solver.test_unifying_calls import module, params_of, parsed

OPEN_CELL = """
@R.function
def cell(h: R.Tensor, x: R.Tensor, w: R.Tensor):
    return R.tanh(R.add(h, R.matmul(x, w)))
"""
TYPED_CELL = OPEN_CELL.replace(
    "h: R.Tensor, x: R.Tensor, w: R.Tensor",
    'h: R.Tensor(("b", "k"), "float32"), x: R.Tensor(("b", "i"), "float32"), '
    'w: R.Tensor(("i", "k"), "float32")',
)
OPEN = "R.Callable((R.Tensor, R.Tensor, R.Tensor), R.Tensor)"
TYPED = OPEN.replace("R.Tensor, R.Tensor, R.Tensor", "H, X, W").replace("), R.Tensor)", "), H)")
TYPED = TYPED.replace("H", 'R.Tensor(("b", "k"))').replace("X", 'R.Tensor(("b", "i"))')
TYPED = TYPED.replace("W", 'R.Tensor(("i", "k"))')
LOOP = """
@R.function(refine="signature")
def loop(f: CELL, h: R.Tensor, x: R.Tensor, w: R.Tensor):
    a = f(h, x, w)
    g = f
    b = g(a, x, w)
    return b
"""
MAIN = """
@R.function(refine="signature")
def main(h: R.Tensor((2, 3), "float32"), x: R.Tensor((2, 4), "float32"), w: R.Tensor(ndim=2)):
    cls = M
    p = cls.loop(cls.cell, h, x, w)
    return p
"""
ARGUMENTS = [np.ones(sizes, "float32") for sizes in ((2, 3), (2, 4), (4, 3))]


@pytest.mark.parametrize(
    ("cell", "kind"), [(OPEN_CELL, OPEN), (TYPED_CELL, OPEN), (TYPED_CELL, TYPED)]
)
def test_call_of_a_loop_infers_the_result_of_the_cell_that_it_passes(cell: str, kind: str) -> None:
    text = module(cell, LOOP.replace("CELL", kind), MAIN)
    program = parsed(text)
    inferred = structir.infer(program)
    assert inferred["main"].ret_struct_info.dims == (2, 3)
    params_of(text)
    for run in (structir.compile(program), structir.compile(inferred)):
        assert run["main"](*ARGUMENTS).shape == (2, 3)
    assert structir.interpret(inferred, "main", *ARGUMENTS).dtype == "float32"


def test_each_call_of_a_loop_uses_its_own_cell() -> None:
    other = OPEN_CELL.replace("cell(", "product(").replace("R.tanh(R.add(h, ", "R.matmul(h, (")
    main = MAIN.replace("return p", "q = cls.loop(cls.product, k, x, w)\n    return (p, q)")
    main = main.replace(
        "w: R.Tensor(ndim=2))", 'w: R.Tensor((4, 3), "float16"), k: R.Tensor((5, 2)))'
    )
    main = main.replace('h: R.Tensor((2, 3), "float32"), x: R.Tensor((2, 4), "float32")', "HX")
    main = main.replace("HX", 'h: R.Tensor((2, 3), "float16"), x: R.Tensor((2, 4), "float16")')
    loop = LOOP.replace("CELL", OPEN).replace("    b = g(a, x, w)\n    return b", "    return a")
    inferred = structir.infer(parsed(module(OPEN_CELL, other, loop, main)))["main"]
    fields = inferred.ret_struct_info.fields
    assert [field.dims for field in fields] == [(2, 3), (5, 3)]
    assert fields[0].dtype == "float16"


def test_cell_passed_through_two_functions_is_inferred() -> None:
    outer = """
@R.function(refine="signature")
def outer(f: CELL, h: R.Tensor, x: R.Tensor, w: R.Tensor):
    cls = M
    return cls.loop(f, h, x, w)
"""
    functions = [text.replace("CELL", OPEN) for text in (OPEN_CELL, LOOP, outer)]
    inferred = structir.infer(parsed(module(*functions, MAIN.replace("cls.loop", "cls.outer"))))
    assert inferred["main"].ret_struct_info.dims == (2, 3)


def test_scan_of_a_parameter_infers_the_states_of_the_cell_that_is_passed() -> None:
    cell = """
@R.function
def cell(h: R.Tensor, c: R.Tensor, x: R.Tensor, w: R.Tensor):
    n = R.tanh(R.add(h, R.matmul(x, w)))
    return (n, R.multiply(c, n), n)
"""
    tensors = ", ".join(["R.Tensor"] * 4)
    loop = f"""
@R.function(refine="signature")
def loop(f: R.Callable(({tensors}), R.Tuple(R.Tensor, R.Tensor, R.Tensor)),
         h: R.Tensor, c: R.Tensor, x: R.Tensor, w: R.Tensor):
    return R.scan(f, (h, c), x, (w,))
"""
    main = MAIN.replace("(2, 4)", "(7, 2, 4)").replace("h, x, w)", "h, c, x, w)")
    open_info = 'R.Tensor(ndim=2, dtype="float32")'
    main = main.replace("w: R.Tensor(ndim=2)", f"w: {open_info}, c: {open_info}")
    program = parsed(module(cell, loop, main))
    inferred = structir.infer(program)["main"]
    assert inferred.params[3].struct_info.dims == (2, 3)
    fields = inferred.ret_struct_info.fields
    assert [(f.dims, f.dtype) for f in fields][2] == ((7, 2, 3), "float32")
    arguments = [np.ones(sizes, "float32") for sizes in ((2, 3), (7, 2, 4), (4, 3), (2, 3))]
    results = structir.interpret(program, "main", *arguments)
    assert [field.dims for field in fields] == [result.shape for result in results]


def test_cell_that_contradicts_the_arguments_of_the_loop_is_rejected() -> None:
    main = MAIN.replace("w: R.Tensor(ndim=2)", 'w: R.Tensor((5, 3), "float32")')
    for cell in (OPEN_CELL, TYPED_CELL):
        with pytest.raises(StructInfoError, match=r"both (4 and 5|5 and 4)"):
            structir.infer(parsed(module(cell, LOOP.replace("CELL", OPEN), main)))


def test_function_whose_result_is_less_precise_than_its_parameter_states_is_rejected() -> None:
    """No run would check the result of the function."""
    with pytest.raises(StructInfoError, match="argument 0: expected"):
        parsed(module(OPEN_CELL, LOOP.replace("CELL", TYPED), MAIN))


def test_call_of_a_typed_parameter_binds_the_dims_of_its_type() -> None:
    apply = """
@R.function(refine="signature")
def main(f: R.Callable((R.Tensor(("n", 4), "float32"),), R.Tensor((4, "n"), "float32")),
         x: R.Tensor):
    y = f(x)
    z = f(R.zeros((7, 4), "float32"))
    return (y, z)
"""
    inferred = structir.infer(parsed(module(apply)))["main"]
    n = inferred.params[1].struct_info.dims[0]
    fields = inferred.ret_struct_info.fields
    assert [field.dims for field in fields] == [(4, n), (4, 7)]


def test_function_that_is_passed_keeps_its_signature_so_that_the_call_parses_back() -> None:
    helper = '@R.function\ndef helper(x: R.Tensor):\n    return R.einsum((x,), "b i -> b i")'
    cell = """
@R.function
def cell(x: R.Tensor):
    cls = M
    y = R.match_cast(x, R.Tensor(ndim=2, dtype="float32"))
    return cls.helper(y)
"""
    residual = """
@R.function
def residual(f: R.Callable((R.Tensor,), R.Tensor), x: R.Tensor):
    y = f(x)
    return R.ewise_fma(y, x, x)
"""
    main = """
@R.function
def main(x: R.Tensor(dtype="float32")):
    cls = M
    y = cls.residual(cls.cell, x)
    return y
"""
    text = module(helper, cell, residual, main)
    assert params_of(text) == ['R.Tensor((d0, d1), dtype="float32")']
    assert structir.analysis.well_formed(structir.infer(parsed(text)))
    assert str(structir.infer(parsed(text))["cell"].params[0].struct_info) == "R.Tensor"


STATE = "R.Tuple(R.Tensor, R.Tensor)"
LSTM = f"""
@R.function
def cell(s: {STATE}, x: R.Tensor, w: R.Tensor, r: R.Tensor, b: R.Tensor):
    h, c = s
    a = R.einsum((x, w), "*s i; i k -> *s k")
    g = R.ewise_fma(a, R.einsum((h, r), "*s k; k j -> *s j"), a)
    i = R.sigmoid(R.add(g, b))
    c2 = R.ewise_fma(i, c, c)
    h2 = R.tanh(c2)
    return ((h2, c2), h2)
"""
LSTM_LOOP = f"""
@R.function
def loop(f: R.Callable(({STATE}, R.Tensor, R.Tensor, R.Tensor, R.Tensor),
                       R.Tuple({STATE}, R.Tensor)),
         s: {STATE}, x: R.Tensor, w: R.Tensor, r: R.Tensor, b: R.Tensor):
    y = R.scan(f, (s,), x, (w, r, b))
    return y
"""
LSTM_MAIN = """
@R.function
def main(h: R.Tensor((2, 5), "float32"), c: R.Tensor(dtype="float32"),
         x: R.Tensor((3, 2, 4), "float32"), w: R.Tensor(dtype="float32"),
         r: R.Tensor(dtype="float32"), b: R.Tensor(("k",), "float32")):
    cls = M
    y = cls.loop(cls.cell, (h, c), x, w, r, b)
    return y
"""


def test_tuple_state_of_a_passed_cell_is_inferred_and_every_run_satisfies_it() -> None:
    program = parsed(module(LSTM, LSTM_LOOP, LSTM_MAIN))
    inferred = structir.infer(program)
    assert inferred["main"].params[1].struct_info.dims == (2, 5)
    state, outputs = inferred["main"].ret_struct_info.fields
    assert [field.dims for field in (*state.fields, outputs)] == [(2, 5), (2, 5), (3, 2, 5)]
    runs = 0
    for w, r, b in product((1, 2, 5), repeat=3):
        sizes = [(2, 5), (2, 5), (3, 2, 4), (4, w), (5, r), (b,)]
        arguments = [np.ones(size, "float32") for size in sizes]
        try:
            expected = structir.interpret(program, "main", *arguments)
        except StructIRError:
            with pytest.raises(StructIRError):
                structir.interpret(inferred, "main", *arguments)
            continue
        runs += 1
        assert np.array_equal(structir.interpret(inferred, "main", *arguments)[1], expected[1])
    assert runs == 3
