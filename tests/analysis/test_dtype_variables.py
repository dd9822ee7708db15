"""Tests of dtype variables: text, equality, the lattice, calls and ops."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import structir
from structir.analysis import (
    FAIL_L1,
    FAIL_L2,
    PASS,
    BaseCheckResult,
    base_check,
    derive_call_ret_struct_info,
    erase_to_well_defined,
    unify_to_lca,
    well_formed,
)
from structir.errors import DiagnosticError, StructInfoError
from structir.ir import StructInfo, TensorStructInfo
from structir.ir.dtype import DtypeVar
from structir.ir.struct_info import OBJECT, FuncStructInfo, PrimStructInfo, TupleStructInfo
from tests.analysis.infos import DATA, DTYPE_VARS, N, function

S, T = DTYPE_VARS
ADD = """
@R.function
def {name}(x: R.Tensor(("n",), "'{T}"), y: R.Tensor(("n",), "'{U}")) -> R.Tensor(("n",), "'{T}"):
    z = R.match_cast(y, R.Tensor(("n",), "'{T}"))
    w = R.add(x, z)
    return w
"""


def tensor(dtype: Any) -> TensorStructInfo:
    return TensorStructInfo((N,), dtype)


def result_of(value: str, params: str = 'x: R.Tensor(("n",), "\'T")') -> str:
    """Returns the deduced StructInfo of an expression over parameters, as text."""
    main = structir.parse(f"@R.function\ndef main({params}):\n    y = {value}\n    return y\n")
    return str(main["main"].ret_struct_info)


# ---- text and equality


def test_a_module_with_dtype_variables_parses_back() -> None:
    module = structir.parse(ADD.format(name="main", T="T", U="U"))
    assert structir.structural_equal(structir.parse(str(module)), module)
    assert 'dtype="\'T"' in str(module)
    assert well_formed(module)


def test_equality_holds_up_to_renaming_of_dtype_variables() -> None:
    first, renamed, same = [
        structir.parse(ADD.format(name="main", T=t, U=u)) for t, u in ("TU", "AB", "TT")
    ]
    assert structir.structural_equal(first, renamed)
    assert structir.structural_hash(first) == structir.structural_hash(renamed)
    assert not structir.structural_equal(first, same)


def test_two_dtype_variables_of_one_name_print_apart() -> None:
    info = function(tensor(DtypeVar("T")), tensor(DtypeVar("T")))
    assert '"\'T"' in str(info) and '"\'T_1"' in str(info)


def test_a_name_is_one_dtype_variable_in_python_strings() -> None:
    first, second = (TensorStructInfo(("n",), "'Elem") for _ in range(2))
    assert first == second
    assert first.dtype is None
    assert str(first.dtype_var) == "'Elem"


def test_a_known_dtype_replaces_a_variable() -> None:
    info = TensorStructInfo((N,), "float32", dtype_var=T)
    assert (info.dtype, info.dtype_var) == ("float32", None)


@pytest.mark.parametrize("dtype", ["'", "'1", "''T", "'T'", "' T"])
def test_a_malformed_dtype_variable_is_an_unknown_dtype(dtype: str) -> None:
    with pytest.raises(DiagnosticError, match="unknown dtype"):
        TensorStructInfo((N,), dtype)
    with pytest.raises(DiagnosticError, match="unknown dtype"):
        structir.parse_struct_info(f'R.Tensor((n,), "{dtype}")')


@pytest.mark.filterwarnings("ignore:.*cannot prove")
def test_a_dtype_variable_of_the_result_must_be_bound() -> None:
    text = '@R.function\ndef main(x: R.Tensor(("n",))) -> R.Tensor(("n",), "\'U"):\n    return x\n'
    with pytest.raises(DiagnosticError, match=r"'U, which is not bound(.|\n)*dtype=\"'U\""):
        structir.compile(structir.parse(text))


def test_a_dtype_variable_in_another_position_is_an_error_with_a_hint() -> None:
    with pytest.raises(DiagnosticError, match=r"help: name a dtype here, and convert to that of"):
        result_of('R.zeros_like(x, "\'T")')


# ---- the lattice


@pytest.mark.parametrize(
    ("base", "derived", "expected"),
    [
        (T, T, PASS),
        (None, T, PASS),
        (T, None, FAIL_L1),
        (T, S, FAIL_L2),
        (T, "float32", FAIL_L2),
        ("float32", T, FAIL_L2),
    ],
)
def test_a_dtype_variable_may_be_any_dtype(base: Any, derived: Any, expected: int) -> None:
    assert base_check(tensor(base), tensor(derived)) is expected
    rows = TensorStructInfo(("*s",), base), TensorStructInfo(("*s",), derived)
    assert base_check(*rows) is expected


@pytest.mark.parametrize("other", [S, "float32", None])
def test_the_join_of_different_dtype_variables_is_unknown(other: Any) -> None:
    assert unify_to_lca(tensor(T), tensor(other)) == tensor(None)
    assert unify_to_lca(tensor(T), tensor(T)) == tensor(T)


def test_a_dtype_variable_is_erased_outside_its_scope() -> None:
    assert erase_to_well_defined(tensor(T), [N]) == tensor(None)
    assert erase_to_well_defined(tensor(T), [N, T]) == tensor(T)
    assert erase_to_well_defined(tensor(T), {N: N, T: "int64"}) == tensor("int64")
    assert erase_to_well_defined(tensor(T), {N: N, T: S}) == tensor(S)


def generic(variable: DtypeVar, other: DtypeVar | None = None) -> FuncStructInfo:
    return function(tensor(variable), tensor(other or variable), ret=tensor(variable))


def test_functions_that_name_their_dtype_variables_otherwise_are_the_same() -> None:
    assert base_check(generic(S), generic(T)) is PASS
    assert unify_to_lca(generic(S), generic(T)) == generic(S)
    assert base_check(generic(T), generic(T, S)) is FAIL_L2


# ---- calls


@given(st.sampled_from(["float32", S, T, None]), DATA)
def test_a_call_binds_the_dtype_variables_of_its_result(dtype: Any, other: StructInfo) -> None:
    param, ret = erase_to_well_defined(other), TupleStructInfo((tensor(T), tensor("int8")))
    result = derive_call_ret_struct_info(
        function(tensor(T), param, ret=ret), [tensor(dtype), other]
    )
    assert result == TupleStructInfo((tensor(dtype), tensor("int8")))


def test_arguments_of_different_dtypes_do_not_fit_one_variable() -> None:
    with pytest.raises(StructInfoError, match="argument 1"):
        derive_call_ret_struct_info(generic(T), [tensor("float32"), tensor("int64")])


def test_a_recursive_call_binds_the_variable_of_its_own_function() -> None:
    assert derive_call_ret_struct_info(generic(T), [tensor(T), tensor(T)]) == tensor(T)


def test_each_call_instantiates_the_variables_of_its_callee() -> None:
    module = structir.parse("""
@R.function
def twice(x: R.Tensor(("n",), "'T")) -> R.Tensor(("n",), "'T"):
    return R.add(x, x)

@R.function
def main(x: R.Tensor(("n",), "int32"), y: R.Tensor(("n",), "'T"), z: R.Tensor(("n",))):
    a = cls.twice(x)
    b = cls.twice(y)
    c = cls.twice(z)
    return (a, b, c)
""")
    expected = (
        'R.Tuple(R.Tensor(("n",), dtype="int32"), R.Tensor(("n",), dtype="\'T"), R.Tensor(("n",)))'
    )
    assert expected in str(module)


# ---- ops

PAIR = 'x: R.Tensor(("n",), "{}"), y: R.Tensor(("n",), "{}")'


@pytest.mark.parametrize(
    "value",
    [
        "R.add(x, x)",
        "R.exp(x)",
        "R.concat((x, x))",
        "R.cumsum(x)",
        "R.where(x > x, x, x)",
        "R.nn.gelu(x)",
        "R.nn.softmax(x)",
        "R.reshape(x, (1, -1))",
        "R.meshgrid((x,))",
    ],
)
def test_an_op_keeps_the_dtype_variable_of_its_operands(value: str) -> None:
    assert 'dtype="\'T"' in result_of(value)


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (("'T", "'T"), "'T"),
        (("'T", "float32"), "float32"),
        (("float32", "'T"), "float32"),
        (("'T", "'U"), "'T"),
    ],
)
def test_an_op_that_requires_equal_dtypes_accepts_variables(
    dtypes: tuple[str, str], expected: str
) -> None:
    assert f'dtype="{expected}"' in result_of("R.add(x, y)", PAIR.format(*dtypes))
    params = PAIR.format(*dtypes) + ', z: R.Tensor(("n",))'
    assert result_of("R.add(R.add(x, y), z)", params) == "R.Tensor((n,))"


@given(st.permutations(["'T", "float32", "'U"]))
def test_a_known_dtype_of_operands_is_that_of_the_result(dtypes: list[str]) -> None:
    params = ", ".join(f'x{k}: R.Tensor(("n",), "{dtype}")' for k, dtype in enumerate(dtypes))
    assert result_of("R.add(R.add(x0, x1), x2)", params) == 'R.Tensor((n,), dtype="float32")'


# ---- scalars


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (T, T, PASS),
        (T, S, FAIL_L2),
        (T, "float32", FAIL_L2),
        ("float32", T, FAIL_L2),
        ("float32", "int64", 0),
    ],
)
def test_scalars_of_dtype_variables_are_compared_as_tensors(a: Any, b: Any, expected: int) -> None:
    assert base_check(PrimStructInfo(a), PrimStructInfo(b)) is BaseCheckResult(expected)
    join = unify_to_lca(PrimStructInfo(a), PrimStructInfo(b))
    assert join == (PrimStructInfo(a) if a is b else OBJECT)
    assert erase_to_well_defined(PrimStructInfo(T), {T: "int8"}) == PrimStructInfo("int8")
    assert erase_to_well_defined(PrimStructInfo(T)) == OBJECT


def test_a_call_binds_the_dtype_of_a_scalar() -> None:
    generic = FuncStructInfo((tensor(T), PrimStructInfo(T)), PrimStructInfo(T))
    args = [tensor("int8"), PrimStructInfo("int8")]
    assert derive_call_ret_struct_info(generic, args) == PrimStructInfo("int8")
    with pytest.raises(StructInfoError, match=r'argument 1: expected R.Prim\("int8"\)'):
        derive_call_ret_struct_info(generic, [tensor("int8"), PrimStructInfo("int64")])


def test_a_scalar_of_a_dtype_variable_cannot_state_its_value() -> None:
    with pytest.raises(DiagnosticError, match=r"E1124(.|\n)*R.Prim\(\"int64\", value=\"n\"\)"):
        structir.parse_struct_info('R.Prim("\'T", value="n")')
