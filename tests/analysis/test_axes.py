"""Tests of the lattice on row variables, ragged axes and labels: check, join, scopes, calls."""

import itertools

import pytest

import structir
from structir.analysis import (
    base_check,
    derive_call_ret_struct_info,
    erase_to_well_defined,
    get_static_type,
    unify_to_lca,
)
from structir.analysis.lattice import FAIL_L0, FAIL_L1, FAIL_L2, PASS
from structir.ir.axes import rows_in
from tests.cases import every_case

SYMBOLS: dict = {}


def info(shape: str):
    if shape.startswith("R."):
        return structir.parse_struct_info(shape, SYMBOLS)
    return structir.parse_struct_info(f'R.Tensor({shape}, "float32")', SYMBOLS)


ANY = 'R.Tensor(dtype="float32")'
OF_TWO = 'R.Tensor(dtype="float32", ndim=2)'


@pytest.mark.parametrize(
    ("base", "derived", "result"),
    [
        (ANY, "(*s, k)", PASS),
        ("(*s, k)", "(*s, k)", PASS),
        ("(*s, k)", ANY, FAIL_L1),
        ("(*s, k)", "(n, k)", FAIL_L2),
        ("(*s, 4)", "(n, 3)", FAIL_L0),
        ("(3, *s, 4)", "(3,)", FAIL_L0),
        ("(n, k)", "(*s, k)", FAIL_L1),
        ("(n, 3)", "(*s, 4)", FAIL_L0),
        ("(n,)", "(*s, 1, 4)", FAIL_L0),
        ("(*s, k)", "(*t, k)", FAIL_L2),
        (OF_TWO, '("*", 3)', PASS),
        ('("*", 3)', OF_TWO, FAIL_L1),
        ('("*", 3)', "(4, 3)", FAIL_L0),
        ('("*:a", 3)', '("*:b", 3)', FAIL_L2),
        ('("n", "3:rgb")', "(n, 3)", PASS),
        ('("n", "3:rgb")', '("n", "3:hsv")', FAIL_L0),
        ("(n, 3)", '("n", "3:rgb")', PASS),
        ('("n", "3:rgb")', '("n", "4:rgb")', FAIL_L0),
    ],
)
def test_base_check_of_axes(base: str, derived: str, result: int) -> None:
    assert base_check(info(base), info(derived)) == result


def test_anonymous_sizes_take_any_size() -> None:
    local = structir.parse(
        '@R.function\ndef main(x: R.Tensor((2, "n"))) -> R.Tensor(("_", "n")):\n    return x\n'
    )["main"]
    assert base_check(local.ret_struct_info, local.params[0].struct_info) == PASS
    assert base_check(local.params[0].struct_info, local.ret_struct_info) == FAIL_L1


@pytest.mark.parametrize(
    ("one", "other", "join"),
    [
        ("(*s, k)", "(*s, k)", "(*s, k)"),
        ("(*s, k)", "(n, k)", ANY),
        ("(*s, k)", "(*s, n)", ANY),
        ('("*", 3)', '("*", 3)', '("*", 3)'),
        ('("*", 3)', "(4, 5)", OF_TWO),
        ('("n", "3:rgb")', '("n", "3:hsv")', "(n, 3)"),
        ('("n", "3:rgb")', "(n, 3)", "(n, 3)"),
        ('("k", "3:rgb")', '("k", "n:rgb")', None),
        ("(*s, k)", ANY, ANY),
    ],
)
def test_joins(one: str, other: str, join: str | None) -> None:
    found = unify_to_lca(info(one), info(other))
    assert found == unify_to_lca(info(other), info(one))
    if join is not None:
        assert found == info(join)


SHAPES = [
    ANY,
    OF_TWO,
    "(n, 3)",
    "(n, k)",
    "(*s, k)",
    "(*s, 3)",
    "(*t, *s)",
    '("*", 3)',
    '("n", "3:rgb")',
    '("n", "3:hsv")',
    "(n, k, 3)",
    'R.Tensor(("*s", "k"), "int32")',
]


@every_case(("one", "other"), itertools.product(SHAPES, SHAPES))
def test_a_join_describes_both(one: str, other: str) -> None:
    join = unify_to_lca(info(one), info(other))
    assert base_check(join, info(one)) == PASS
    assert base_check(join, info(other)) == PASS


def test_rows_do_not_leave_their_scope() -> None:
    shape = info("(*s, n)")
    n = SYMBOLS["n"]
    (row,) = rows_in(shape.axes)
    assert erase_to_well_defined(shape, [n], []) == info(ANY)
    assert erase_to_well_defined(shape, [n, row], []) == shape
    erased = erase_to_well_defined(info('("*", n)'), [], [])
    assert str(erased) == 'R.Tensor(("*", "_"), dtype="float32")'


def test_a_row_is_replaced_by_axes() -> None:
    shape = info("(*s, n)")
    (row,) = rows_in(shape.axes)
    assert erase_to_well_defined(shape, {SYMBOLS["n"]: 7, row: (2, 3)}, []) == info("(2, 3, 7)")


def test_static_types_keep_ranks() -> None:
    assert get_static_type(info("(*s, n)")) == info(ANY)
    assert get_static_type(info('("*", n)')) == info(OF_TWO)


@pytest.mark.parametrize(
    ("argument", "result"),
    [
        ("(2, 3, 4)", "(4, 2, 3)"),
        ("(4,)", "(4,)"),
        ("(*t, n, 5)", "(5, *t, n)"),
        ('(2, "*", 3)', '(3, 2, "*")'),
        (ANY, ANY),
    ],
)
def test_a_call_gives_rows_their_axes(argument: str, result: str) -> None:
    function = info(
        'R.Callable((R.Tensor(("*s", "k"), "float32"),), R.Tensor(("k", "*s"), "float32"))'
    )
    assert derive_call_ret_struct_info(function, [info(argument)]) == info(result)


def test_a_call_with_two_meanings_of_one_row() -> None:
    function = info('R.Callable((R.Tensor(("*s", "k")), R.Tensor(("*s",))), R.Tensor(("*s",)))')
    with pytest.raises(structir.errors.StructInfoError, match="argument 1"):
        derive_call_ret_struct_info(
            function, [info("R.Tensor((2, 3, 4))"), info("R.Tensor((2, 4))")]
        )


def test_functions_that_name_their_rows_otherwise_are_the_same() -> None:
    one = info('R.Callable((R.Tensor(("*a", "i")),), R.Tensor(("i", "*a")))')
    other = info('R.Callable((R.Tensor(("*b", "j")),), R.Tensor(("j", "*b")))')
    assert base_check(one, other) == PASS
    assert unify_to_lca(one, other) == one


ON_CUDA = 'R.Tensor((*s, k), "float32", "cuda")'


@pytest.mark.parametrize(
    ("base", "derived", "result"),
    [
        ("(*s, k)", ON_CUDA, PASS),
        (ON_CUDA, "(*s, k)", FAIL_L1),
        (ON_CUDA, ON_CUDA.replace("cuda", "llvm"), FAIL_L0),
        (ON_CUDA, ON_CUDA.replace("cuda", "cuda:1"), FAIL_L0),
    ],
)
def test_check_compares_vdevices(base, derived, result):
    assert base_check(info(base), info(derived)) is result


def test_join_and_scopes_keep_a_common_vdevice():
    other = info(ON_CUDA.replace("*s, k", "n,"))
    assert unify_to_lca(info(ON_CUDA), other).vdevice.target == "cuda"
    assert unify_to_lca(info(ON_CUDA), info("(*s, k)")) == info("(*s, k)")
    assert erase_to_well_defined(info(ON_CUDA)).vdevice.target == "cuda"
