"""Tests of the lattice: its laws on random StructInfo, and examples."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structir.analysis import (
    FAIL_L0,
    FAIL_L1,
    FAIL_L2,
    PASS,
    base_check,
    derive_call_ret_struct_info,
    erase_to_well_defined,
    get_static_type,
    unify_to_lca,
)
from structir.errors import StructInfoError
from structir.ir import (
    Call,
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeExpr,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    Var,
    derive_func,
    struct_info,
)
from structir.ir.axes import AnySize, Labelled, RowVar, fields_of
from structir.ir.dims import Dim, sym
from tests.analysis.infos import DATA, DTYPE_VARS, INFOS, K, M, N, function, tensor

OBJECT = ObjectStructInfo()


@given(INFOS)
def test_an_info_describes_its_own_values(info: StructInfo) -> None:
    assert base_check(info, info) is PASS
    assert unify_to_lca(info, info) == info


@given(DATA, DATA)
def test_the_join_describes_both(a: StructInfo, b: StructInfo) -> None:
    joined = unify_to_lca(a, b)
    assert base_check(joined, a) is PASS
    assert base_check(joined, b) is PASS


@given(DATA, DATA)
def test_the_join_does_not_depend_on_the_order(a: StructInfo, b: StructInfo) -> None:
    one, other = unify_to_lca(a, b), unify_to_lca(b, a)
    assert base_check(one, other) is PASS
    assert base_check(other, one) is PASS


@given(DATA, DATA, DATA)
def test_the_join_associates(a: StructInfo, b: StructInfo, c: StructInfo) -> None:
    left = unify_to_lca(unify_to_lca(a, b), c)
    right = unify_to_lca(a, unify_to_lca(b, c))
    assert base_check(left, right) is PASS
    assert base_check(right, left) is PASS


@given(DATA, DATA)
def test_the_join_with_a_base_is_the_base(a: StructInfo, b: StructInfo) -> None:
    if base_check(a, b) is PASS:
        assert base_check(a, unify_to_lca(a, b)) is PASS


@given(DATA, DATA, DATA)
def test_precision_is_transitive(a: StructInfo, b: StructInfo, c: StructInfo) -> None:
    if base_check(a, b) is PASS and base_check(b, c) is PASS:
        assert base_check(a, c) is PASS


@given(DATA, DATA)
def test_fail_l0_implies_disjoint_struct_infos(a: StructInfo, b: StructInfo) -> None:
    """If FAIL_L0 excludes all values, no StructInfo is below both."""
    if base_check(a, b) is PASS:
        assert base_check(b, a) is not FAIL_L0 or base_check(b, get_static_type(a)) is FAIL_L0


@given(INFOS)
def test_erasing_forgets_every_dim_and_only_loses(info: StructInfo) -> None:
    erased = erase_to_well_defined(info)
    assert base_check(erased, info) is PASS
    assert erase_to_well_defined(erased) == erased


@given(INFOS)
def test_erasing_in_the_same_scope_changes_nothing(info: StructInfo) -> None:
    assert erase_to_well_defined(info, [N, M, K, *DTYPE_VARS]) == info


@given(DATA)
def test_the_static_type_keeps_structure_only(info: StructInfo) -> None:
    static = get_static_type(info)
    assert base_check(static, info) is PASS
    assert get_static_type(static) == static
    assert erase_to_well_defined(static) == static


@pytest.mark.parametrize(
    ("base", "derived", "expected"),
    [
        (OBJECT, tensor(N), PASS),
        (tensor(N), OBJECT, FAIL_L1),
        (tensor(N), ShapeStructInfo((N,)), FAIL_L0),
        (tensor(N + M), tensor(M + N), PASS),
        (tensor(N), tensor(N + 1), FAIL_L0),
        (tensor(2 * N), tensor(2 * M + 1), FAIL_L0),
        (tensor(N), tensor(N + M), FAIL_L2),
        (tensor(N), tensor(3), FAIL_L2),
        (tensor(2), tensor(3), FAIL_L0),
        (tensor(N), tensor(N, 1), FAIL_L0),
        (tensor(N), TensorStructInfo(dtype="float32", ndim=1), FAIL_L2),
        (tensor(N), TensorStructInfo(dtype="float32", ndim=2), FAIL_L0),
        (tensor(N), tensor(N, dtype=None), FAIL_L1),
        (tensor(N), tensor(N, dtype="int64"), FAIL_L0),
        (tensor(N, dtype=None), tensor(N), PASS),
        (TupleStructInfo((tensor(N),)), TupleStructInfo(()), FAIL_L0),
        (TupleStructInfo((OBJECT, tensor(2))), TupleStructInfo((tensor(N), tensor(2))), PASS),
        (PrimStructInfo("int64"), PrimStructInfo("int64", N), PASS),
        (PrimStructInfo("int64", N), PrimStructInfo("int64"), FAIL_L1),
        (PrimStructInfo("int64", 1), PrimStructInfo("int64", 2), FAIL_L0),
    ],
)
def test_base_check(base: StructInfo, derived: StructInfo, expected: int) -> None:
    assert base_check(base, derived) is expected


def test_a_shape_variable_equals_itself_alone() -> None:
    shape = Var("s", ShapeStructInfo(ndim=2))
    other = Var("t", ShapeStructInfo(ndim=2))
    known = TensorStructInfo(shape, "float32")
    assert known.ndim == 2
    assert base_check(known, TensorStructInfo(shape, "float32")) is PASS
    assert base_check(known, TensorStructInfo(other, "float32")) is FAIL_L2
    joined = unify_to_lca(known, TensorStructInfo(other, "float32"))
    assert joined == TensorStructInfo(dtype="float32", ndim=2)


# ---- functions


def test_functions_that_name_their_own_dims_otherwise_are_the_same() -> None:
    a, b = sym("a"), sym("b")
    first = function(tensor(a, 4), ret=tensor(a + 1))
    second = function(tensor(b, 4), ret=tensor(b + 1))
    assert base_check(first, second) is PASS
    assert unify_to_lca(first, second) == first


def test_two_dims_of_a_function_are_not_called_by_one_name() -> None:
    a, b, c = sym("a"), sym("b"), sym("c")
    square = function(tensor(c, c), ret=tensor(c))
    any_matrix = function(tensor(a, b), ret=tensor(b))
    assert base_check(square, any_matrix) is FAIL_L2
    assert base_check(any_matrix, square) is FAIL_L2
    assert unify_to_lca(square, any_matrix).ret == TensorStructInfo(dtype="float32", ndim=1)


def test_an_impure_function_is_no_pure_one() -> None:
    pure, impure = function(tensor(N)), function(tensor(N), purity=False)
    assert base_check(pure, impure) is FAIL_L0
    assert base_check(impure, pure) is PASS
    assert unify_to_lca(pure, impure) == impure
    assert unify_to_lca(impure, pure) == impure


def test_functions_of_other_counts_join_as_opaque_ones() -> None:
    joined = unify_to_lca(function(tensor(4), ret=tensor(4)), function(ret=tensor(4)))
    assert joined == FuncStructInfo(None, tensor(4), True)


def test_an_opaque_function_keeps_no_dim_of_the_parameters() -> None:
    joined = unify_to_lca(function(tensor(N), ret=tensor(N)), function(ret=tensor(4)))
    assert joined == FuncStructInfo(None, TensorStructInfo(dtype="float32", ndim=1), True)


def test_erasing_keeps_the_dims_that_a_function_binds_itself() -> None:
    callable_info = function(tensor(N), ret=tensor(N, M))
    assert erase_to_well_defined(callable_info, [M]) == callable_info
    lost = FuncStructInfo((tensor(N),), TensorStructInfo(dtype="float32", ndim=2), True)
    assert erase_to_well_defined(callable_info) == lost


# ---- calls


def test_a_call_binds_the_dims_of_the_parameters() -> None:
    callee = function(tensor(N, M), tensor(M, K), ret=tensor(N, K))
    a, b = sym("a"), sym("b")
    assert derive_call_ret_struct_info(callee, [tensor(a, 3), tensor(3, b)]) == tensor(a, b)


def test_a_size_that_is_an_expression_binds_its_one_unknown() -> None:
    callee, b = function(tensor(N * 2 + 1), ret=tensor(N)), sym("b")
    assert derive_call_ret_struct_info(callee, [tensor(9)]) == tensor(4)
    assert derive_call_ret_struct_info(callee, [tensor(b * 4 + 3)]) == tensor(b * 2 + 1)


@pytest.mark.parametrize(
    ("size", "given"),
    [
        pytest.param(N * 2, sym("b"), id="no exact quotient"),
        pytest.param(N * M, 8, id="two unknowns"),
        pytest.param(N * N, 9, id="not linear"),
    ],
)
def test_a_size_without_one_answer_binds_nothing(size: Dim, given: Dim) -> None:
    callee = function(tensor(size), ret=tensor(N))
    unknown = TensorStructInfo(dtype="float32", ndim=1)
    assert derive_call_ret_struct_info(callee, [tensor(given)]) == unknown


def test_a_symbolic_factor_may_be_zero() -> None:
    callee = function(tensor(M), tensor(N * M), ret=tensor(N))
    unknown = TensorStructInfo(dtype="float32", ndim=1)
    a, b = sym("a"), sym("b")
    assert derive_call_ret_struct_info(callee, [tensor(a), tensor(a * b)]) == unknown


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="too few"),
        pytest.param([tensor(3), tensor(3), tensor(3)], id="too many"),
        pytest.param([tensor(3), tensor(4)], id="one dim, two sizes"),
        pytest.param([tensor(3), tensor(3, 3)], id="rank"),
        pytest.param([tensor(3), tensor(3, dtype="int64")], id="dtype"),
        pytest.param([tensor(3), OBJECT], id="less is known"),
    ],
)
def test_invalid_calls_are_rejected(arguments: list[StructInfo]) -> None:
    callee = function(tensor(N), tensor(N), ret=tensor(N))
    with pytest.raises(StructInfoError):
        derive_call_ret_struct_info(callee, arguments)


# ---- erasure with replacements


def test_dims_and_shape_variables_are_replaced_at_once() -> None:
    info = TupleStructInfo((tensor(N, M), ShapeStructInfo((N + M,))))
    swapped = erase_to_well_defined(info, {N: M, M: N + 1})
    assert swapped == TupleStructInfo((tensor(M, N + 1), ShapeStructInfo((M + N + 1,))))


def test_a_shape_variable_is_replaced_by_sizes() -> None:
    shape = Var("s", ShapeStructInfo(ndim=2))
    info = TensorStructInfo(shape, "float32")
    assert erase_to_well_defined(info, vars={shape: ShapeExpr((N, 4))}) == tensor(N, 4)
    assert erase_to_well_defined(info, vars=[shape]) == info
    assert erase_to_well_defined(info) == TensorStructInfo(dtype="float32", ndim=2)


# ---- a kind from outside


@struct_info
class PagedStructInfo(StructInfo):
    """A user-defined subclass; `dtype` and `pages` are required, `shape` is optional."""

    dtype: str
    pages: Dim
    shape: StructInfo | None = None


def test_user_defined_struct_info_joins_and_erases_by_its_fields() -> None:
    one = PagedStructInfo("float32", N, ShapeStructInfo((N,)))
    two = PagedStructInfo("float32", N, ShapeStructInfo((M,)))
    assert unify_to_lca(one, two) == PagedStructInfo("float32", N, ShapeStructInfo(ndim=1))
    assert unify_to_lca(one, PagedStructInfo("float32", M)) == OBJECT
    assert erase_to_well_defined(one) == OBJECT
    assert erase_to_well_defined(one, {N: 4}) == PagedStructInfo(
        "float32", 4, ShapeStructInfo((4,))
    )
    assert base_check(one, PagedStructInfo("float32", N + 1)) is FAIL_L0
    assert base_check(PagedStructInfo("float32", N), one) is PASS


def test_functions_without_common_parameters_join_as_opaque_ones() -> None:
    square = function(tensor(N, N), ret=tensor(N))
    any_matrix = function(tensor(M, K), ret=tensor(M))
    row = TensorStructInfo(dtype="float32", ndim=1)
    assert unify_to_lca(square, any_matrix) == FuncStructInfo(None, row, True)


def test_parameters_of_functions_meet() -> None:
    """A join of two functions accepts the arguments that both accept."""
    matrix, any_float = (TensorStructInfo(dtype="float32", ndim=rank) for rank in (2, None))
    of_object, of_matrix = function(OBJECT), function(matrix)
    assert base_check(of_matrix, of_object) is PASS
    assert base_check(of_object, of_matrix) is FAIL_L1
    assert unify_to_lca(of_object, of_matrix) == of_matrix
    mixed = unify_to_lca(function(any_float, matrix), function(matrix, any_float))
    assert mixed == function(matrix, matrix)
    nested = unify_to_lca(function(of_matrix), function(of_object))
    assert nested == function(of_object)


def test_erasing_a_dim_of_a_parameter_gives_an_opaque_function() -> None:
    """A parameter of unknown size would accept more than the function does."""
    callable_info = function(tensor(N + 1), ret=tensor(4))
    assert erase_to_well_defined(callable_info) == FuncStructInfo(None, tensor(4), True)


@derive_func
def rule(call: Call) -> StructInfo:
    """A rule for joins of functions that have it."""
    return OBJECT


S = RowVar("s")
T = RowVar("t")
AXES = [N, M, 4, S, T, AnySize(), Labelled(3, "rgb"), Labelled(3, "hsv"), Labelled(N, "rgb"), 3]
SHAPE = Var("shape", ShapeStructInfo(ndim=2))
TENSORS = st.one_of(
    st.builds(
        lambda axes, dtype: TensorStructInfo(dtype=dtype, **fields_of(tuple(axes))),
        st.lists(st.sampled_from(AXES), max_size=3),
        st.sampled_from(["float32", "int64", None]),
    ),
    st.builds(lambda dtype: TensorStructInfo(SHAPE, dtype), st.sampled_from(["float32", None])),
)
PAGED = st.builds(
    PagedStructInfo, st.just("float32"), st.sampled_from([N, M, 4]), st.none() | TENSORS
)
EVERY_DATA = st.one_of(
    DATA, TENSORS, PAGED, st.builds(lambda a, b: TupleStructInfo((a, b)), TENSORS, PAGED)
)
PARAMS = st.lists(st.one_of(TENSORS, st.just(OBJECT), PAGED), max_size=2).map(tuple)
FUNCTIONS = st.one_of(
    st.builds(FuncStructInfo, PARAMS, TENSORS, st.booleans(), st.sampled_from([None, "rule"])),
    st.builds(FuncStructInfo, st.none(), TENSORS, st.booleans(), st.sampled_from([None, "rule"])),
)
EVERY_KIND = st.one_of(EVERY_DATA, FUNCTIONS)


def same(a: StructInfo, b: StructInfo) -> bool:
    return base_check(a, b) is PASS and base_check(b, a) is PASS


@given(EVERY_KIND, EVERY_KIND)
def test_the_join_of_every_kind_is_a_commutative_upper_bound(a: StructInfo, b: StructInfo) -> None:
    joined = unify_to_lca(a, b)
    assert base_check(joined, a) is PASS
    assert base_check(joined, b) is PASS
    assert same(joined, unify_to_lca(b, a))
    assert unify_to_lca(a, a) == a


@settings(max_examples=300)
@given(
    st.one_of(st.tuples(*[TENSORS] * 3), st.tuples(*[FUNCTIONS] * 3), st.tuples(*[EVERY_KIND] * 3))
)
def test_the_join_of_every_kind_associates(triple: tuple[StructInfo, ...]) -> None:
    a, b, c = triple
    left, right = unify_to_lca(unify_to_lca(a, b), c), unify_to_lca(a, unify_to_lca(b, c))
    assert same(left, right), f"{left} | {right}"
