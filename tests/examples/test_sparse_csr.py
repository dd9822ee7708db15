"""The example of a kind from outside: read, printed, joined, erased, checked and run."""

from typing import Any

import numpy as np
import pytest

import sparse_csr
import structir
from sparse_csr import SparseCSRTensorStructInfo, csr_add
from structir.analysis import (
    FAIL_L0,
    FAIL_L1,
    PASS,
    all_vars,
    base_check,
    check_well_formed,
    erase_to_well_defined,
    get_static_type,
    symbolic_vars,
    unify_to_lca,
)
from structir.errors import DiagnosticError, ShapeMismatchError, StructInfoError
from structir.ir import ObjectStructInfo, StructInfo, TensorStructInfo, Var, structural_equal
from structir.ir.dims import sym

N, M, E, P = sym("n"), sym("m"), sym("e"), sym("p")
KNOWN = SparseCSRTensorStructInfo(N, M, "float32", E, P)
SIZE = SparseCSRTensorStructInfo(N, M, "float32")


def module() -> structir.ir.IRModule:
    return structir.parse(sparse_csr.PROGRAM, "sparse.py")


def test_the_text_reads_back() -> None:
    text = module().script()
    assert (
        'R.SparseCSRTensor(rows="n", cols="m", dtype="float32", entries="e", pattern="p")' in text
    )
    assert structural_equal(structir.parse(text), module())
    assert structir.parse(text).script() == text


def test_an_info_reads_back_by_itself() -> None:
    symbols = {"n": N, "m": M, "e": E, "p": P}
    assert structir.parse_struct_info(str(KNOWN), symbols) == KNOWN
    assert structir.parse_struct_info(str(SIZE), symbols) == SIZE


def test_the_program_is_well_formed_and_deduced() -> None:
    check_well_formed(module())
    function = module()["main"]
    infos = {binding.var.name: binding.var.struct_info for binding in function.bindings()}
    given = function.params[0].struct_info
    assert infos["alike"] == given
    assert infos["total"] == function.params[2].struct_info  # the join of both branches


def test_a_sum_keeps_the_pattern_that_is_shared() -> None:
    x, y = Var("x", KNOWN), Var("y", KNOWN)
    assert csr_add(x, y).struct_info == KNOWN
    other = Var("z", SparseCSRTensorStructInfo(N, M, "float32", E, sym("q")))
    assert csr_add(x, other).struct_info == SIZE
    assert csr_add(x, Var("w", SIZE)).struct_info == SIZE


@pytest.mark.parametrize(
    "info",
    [
        SparseCSRTensorStructInfo(N + 1, M, "float32"),
        SparseCSRTensorStructInfo(N, M, "float64"),
        TensorStructInfo((N, M), "float32"),
        ObjectStructInfo(),
    ],
)
def test_a_wrong_sum_is_refused(info: StructInfo) -> None:
    with pytest.raises(StructInfoError) as caught:
        csr_add(Var("x", KNOWN), Var("y", info))
    message = str(caught.value)
    assert message.startswith("error[E0200]: csr_add: ")
    assert f"y: {info}" in message


def test_a_wrong_program_points_at_the_call() -> None:
    with pytest.raises(DiagnosticError, match=r"sparse.py:\d+:13"):
        structir.parse(sparse_csr.PROGRAM.replace("(a, b)", "(a, more)"), "sparse.py")


def test_joins() -> None:
    other = SparseCSRTensorStructInfo(N, M, "float32", E, sym("q"))
    assert unify_to_lca(KNOWN, other) == SparseCSRTensorStructInfo(N, M, "float32", E)
    assert unify_to_lca(KNOWN, SIZE) == SIZE
    assert unify_to_lca(KNOWN, SparseCSRTensorStructInfo(N, N)) == ObjectStructInfo()
    assert unify_to_lca(KNOWN, TensorStructInfo((N, M), "float32")) == ObjectStructInfo()


def test_precision() -> None:
    assert base_check(SIZE, KNOWN) is PASS
    assert base_check(KNOWN, SIZE) is FAIL_L1
    assert base_check(KNOWN, SparseCSRTensorStructInfo(N, M, "float32", E + 1, P)) is FAIL_L0
    assert base_check(SIZE, SparseCSRTensorStructInfo(N, M, "float64")) is FAIL_L0


def test_erasure() -> None:
    assert erase_to_well_defined(KNOWN, [N, M]) == SIZE
    assert erase_to_well_defined(KNOWN, {N: 4, M: N, E: 7}) == SparseCSRTensorStructInfo(
        4, N, "float32", 7
    )
    assert erase_to_well_defined(KNOWN, [N]) == ObjectStructInfo()
    assert get_static_type(KNOWN) == ObjectStructInfo()


def test_variables() -> None:
    assert [str(symbol) for symbol in symbolic_vars(KNOWN)] == ["n", "m", "e", "p"]
    assert all_vars(KNOWN) == []


# ---- run


def arguments() -> list[Any]:
    return [*map(sparse_csr.from_scipy, sparse_csr.matrices()), np.asarray(True)]


def test_it_runs_and_keeps_what_it_says() -> None:
    alike, total = structir.interpret(module(), "main", *arguments())
    first, second, third = sparse_csr.matrices()
    np.testing.assert_allclose(sparse_csr.to_scipy(alike).todense(), (first + second).todense())
    expected = (first + second + third).todense()
    np.testing.assert_allclose(sparse_csr.to_scipy(total).todense(), expected)
    assert alike[3] is arguments()[0][3] or np.array_equal(alike[3], arguments()[0][3])


def test_the_boundary_checks_the_parts() -> None:
    a, b, c, more = arguments()
    with pytest.raises(ShapeMismatchError, match="main: parameter b"):
        structir.interpret(module(), "main", a, c, c, more)  # c has another pattern
    with pytest.raises(ShapeMismatchError, match="parameter a"):
        structir.interpret(module(), "main", (*a[:4], a[4].astype("float64")), b, c, more)
    with pytest.raises(ShapeMismatchError, match="parameter c"):
        structir.interpret(module(), "main", a, b, c[0], more)


def test_compiled_it_gives_the_same() -> None:
    executable = structir.compile(module())
    compiled = executable["main"](*arguments())
    for found, expected in zip(
        compiled, structir.interpret(module(), "main", *arguments()), strict=True
    ):
        assert found[:2] == expected[:2]
        for array, other in zip(found[2:], expected[2:], strict=True):
            np.testing.assert_array_equal(array, other)


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    sparse_csr.main()
    assert "entries: 7 + 7 -> 7" in capsys.readouterr().out
