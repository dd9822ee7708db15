"""Tests of `structir.infer` and `structir.solver.explain` on source programs."""

import warnings

import pytest

import structir
from structir.errors import DiagnosticWarning, StructInfoError
from structir.ir.expr import MatchCast
from structir.ir.module import IRModule


def parsed(text: str) -> IRModule:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)  # annotations that only infer can decide
        return structir.parse(text)


def params(module: IRModule, name: str = "f") -> list[str]:
    return [str(p.struct_info) for p in module[name].params]


def bound(module: IRModule, name: str = "f") -> dict[str, str]:
    return {b.var.name: str(b.var.struct_info) for b in module[name].bindings()}


def reread(module: IRModule) -> None:
    """Checks that a completed module prints and parses to an equal module."""
    assert structir.structural_equal(parsed(module.script()), module)


def test_operand_of_a_product_comes_from_the_result() -> None:
    module = structir.infer(
        parsed("""
@R.function
def f(x: R.Tensor(dtype="float32"), w: R.Tensor((4, 5), "float32"),
      b: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(("n", 5), "float32"):
    y = R.matmul(x, w)
    z = R.add(y, b)
    return z
""")
    )
    assert params(module)[0] == 'R.Tensor((n, 4), dtype="float32")'
    assert bound(module)["y"] == 'R.Tensor((n, 5), dtype="float32")'
    reread(module)


def test_convolution_input_comes_from_its_output() -> None:
    module = structir.infer(
        parsed("""
@R.function
def f(x: R.Tensor(dtype="float32"), w: R.Tensor((4, 3, 3, 3), "float32")
      ) -> R.Tensor((2, 4, 6, 8), "float32"):
    y = R.nn.conv2d(x, w)
    return y
""")
    )
    assert params(module)[0] == 'R.Tensor((2, 3, 8, 10), dtype="float32")'
    reread(module)


NARROWED = """
@R.function{}
def f(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor((4, "k"), "float32")):
    z = R.ewise_fma(x, y, y)
    w = R.reshape(z, (2, 6))
    u = R.add(w, R.zeros((2, 6), "float32"))
    return u
"""


def test_facts_about_named_sizes_are_stored_in_the_parameters() -> None:
    module = structir.infer(parsed(NARROWED.format("")))
    assert params(module) == ['R.Tensor((4, 3), dtype="float32")'] * 2
    assert not [b for b in module["f"].bindings() if isinstance(b, MatchCast)]
    reread(module)


def test_facts_about_named_sizes_are_checked_on_entry_with_checks() -> None:
    module = structir.infer(parsed(NARROWED.format('(refine="checks")')))
    assert params(module)[0] == 'R.Tensor((n, m), dtype="float32")'
    checks = [b for b in module["f"].bindings() if isinstance(b, MatchCast)]
    assert str(checks[0].struct_info) == 'R.Tensor((4, 3), dtype="float32")'
    assert bound(module)["z"] == 'R.Tensor((4, 3), dtype="float32")'
    reread(module)


def test_refine_rewrites_the_signature_and_nothing_raises() -> None:
    text = """
@R.function
def f(x: R.Tensor(("n",), "float32"), y: R.Tensor((4,), "float32")):
    z = R.ewise_fma(x, y, y)
    return z
"""
    refined = structir.infer(parsed(text), refine="signature")
    assert params(refined)[0] == 'R.Tensor((4,), dtype="float32")'
    with pytest.raises(StructInfoError, match="narrows `x`"):
        structir.infer(parsed(text), refine="nothing")


def test_one_helper_serves_several_shapes() -> None:
    module = structir.infer(
        parsed("""
@I.ir_module
class M:
    @R.function(private=True)
    def g(a: R.Tensor(dtype="float32"), b: R.Tensor(dtype="float32")) -> R.Tensor(dtype="float32"):
        y = R.ewise_fma(a, b, b)
        return y
    @R.function
    def f(x: R.Tensor(("n", 3), "float32"), u: R.Tensor(dtype="float32"),
          v: R.Tensor((7,), "float32")):
        cls = M
        p = cls.g(x, u)
        q = cls.g(v, v)
        return p
""")
    )
    assert params(module)[1] == 'R.Tensor((n, 3), dtype="float32")'
    assert bound(module)["q"] == 'R.Tensor((7,), dtype="float32")'
    reread(module)


def test_conditional_result_is_the_join_of_its_branches() -> None:
    module = structir.infer(
        parsed("""
@R.function
def f(c: R.Tensor((), "bool"), x: R.Tensor(("n", 3), "float32"), y: R.Tensor(dtype="float32")):
    if c:
        r = R.ewise_fma(x, y, y)
    else:
        r = R.exp(x)
    return r
""")
    )
    assert bound(module)["r"] == 'R.Tensor((n, 3), dtype="float32")'
    assert params(module)[2] == 'R.Tensor(dtype="float32")'  # learnt in one branch only


IMPOSSIBLE = """
@R.function
def f(x: R.Tensor(("n", 3), "float32"), y: R.Tensor(dtype="float32")):
    a = R.exp(x)
    b = R.matmul(a, y)
    c = R.ewise_fma(b, b, R.zeros((2, 7), "float32"))
    d = R.ewise_fma(y, y, R.zeros((3, 8), "float32"))
    return d
"""


def test_unsatisfiable_program_reports_the_conflicting_lines() -> None:
    with pytest.raises(StructInfoError) as caught:
        structir.infer(parsed(IMPOSSIBLE))
    notes = [note.text for note in caught.value.diagnostics[0].notes]
    assert "`d` is defined here" in notes
    assert "`b` is defined here" in notes
    report = structir.solver.explain(parsed(IMPOSSIBLE))
    assert "8" in str(report)


def test_conflict_is_reported_at_the_last_location() -> None:
    with pytest.raises(StructInfoError) as caught:
        structir.infer(
            parsed("""
@R.function
def f(x: R.Tensor(ndim=2, dtype="float32"), w: R.Tensor((4, 5), "float32")
      ) -> R.Tensor((3, 6), "float32"):
    y = R.matmul(x, w)
    z = R.exp(y)
    return z
""")
        )
    shown = str(caught.value)
    assert "|     z = R.exp(y)" in shown
    assert "change or remove one of `y`, `z`, the annotation of the result" in shown


def test_zero_sizes_are_no_conflict() -> None:
    module = structir.infer(
        parsed("""
@R.function
def f(x: R.Tensor(("n", 3), "float32"), y: R.Tensor((0, 3), "float32")):
    z = R.ewise_fma(x, y, y)
    return z
""")
    )
    assert bound(module)["z"] == 'R.Tensor((0, 3), dtype="float32")'


FOR_ZERO_ONLY = """
@R.function
def f(x: R.Tensor(("n", 8), "float32")):
    n = T.int64()
    y = R.reshape(x, (n, 9))
    return y
"""


def test_a_program_for_size_0_only_is_an_error_that_shows_how_to_allow_it() -> None:
    with pytest.raises(StructInfoError, match="unless `n` is 0") as error:
        structir.infer(parsed(FOR_ZERO_ONLY))
    assert error.value.code == "E0410"
    edit = 'R.require("n >= 0")'
    assert f"help: to allow 0, add `{edit}`" in str(error.value)
    allowed = structir.infer(parsed(FOR_ZERO_ONLY.replace("    y =", f"    {edit}\n    y =")))
    assert bound(allowed)["y"] == 'R.Tensor((0, 9), dtype="float32")'


def test_a_size_that_must_be_0_is_named_in_a_sum() -> None:
    with pytest.raises(StructInfoError, match="unless `n` is 0"):
        structir.infer(
            parsed("""
@R.function
def f(x: R.Tensor(("n",)), y: R.Tensor(("n + 3",), "float32")):
    z = R.match_cast(y, R.Tensor((3,), "float32"))
    return z
""")
        )


def test_explain_returns_the_origins_of_a_shape() -> None:
    report = structir.solver.explain(
        parsed(
            """
@R.function
def f(x: R.Tensor(dtype="float32"), w: R.Tensor((4, 5), "float32"),
      u: R.Tensor((7, 7), "float32")) -> R.Tensor(("n", 5), "float32"):
    v = R.exp(u)
    y = R.linear(x, w)
    z = R.ewise_fma(y, y, y)
    return z
""".replace("(4, 5)", "(5, 4)")
        )
    )
    labels = {origin.label for origin in report.explain("f", "x")}
    assert "y" in labels
    assert "u" not in labels
    assert "v" not in labels
    assert "x: (n, 4)" in str(report)


CLOSABLE = """
@I.ir_module
class M:
    @R.function
    def g(
        a: R.Tensor((2, 3), "float32"), b: R.Tensor(dtype="float32")
    ) -> R.Tensor((2, 3), "float32"):
        y = R.add(a, b)
        return y
"""
CALLER = """
    @R.function
    def f(a: R.Tensor((2, 3), "float32"), b: R.Tensor((3,), "float32")):
        cls = M
        y = cls.g(a, b)
        return y
"""


def test_defaulting_gives_parameters_their_bound() -> None:
    found = structir.infer(parsed(CLOSABLE), close=True)
    assert params(found, "g")[1] == 'R.Tensor((2, 3), dtype="float32")'
    assert params(structir.infer(parsed(CLOSABLE)), "g")[1] == 'R.Tensor(dtype="float32")'
    assert "b: (2, 3)   chosen" in str(structir.solver.explain(parsed(CLOSABLE), close=True))


def test_called_functions_are_not_defaulted() -> None:
    found = structir.infer(parsed(CLOSABLE + CALLER), close=True)
    assert params(found, "g")[1] == 'R.Tensor(dtype="float32")'
    reread(found)


def test_refined_signature_uses_no_unbound_dims() -> None:
    found = structir.infer(
        parsed("""
@R.function
def main(x: R.Tensor(("k",), "float32"), s: R.Shape(["k + 1"])) -> R.Tensor((4,), "float32"):
    k = T.int64()
    y = R.exp(x)
    return y
"""),
        refine="signature",
    )
    assert params(found, "main") == ['R.Tensor((4,), dtype="float32")', "R.Shape([5])"]
    reread(found)


def test_a_size_that_would_be_negative_is_a_conflict() -> None:
    module = parsed("""
        @R.function
        def f(x: R.Tensor(("n",)), y: R.Tensor(("n - 2",)), z: R.Tensor((0,), "float32")):
            n = T.int64()
            w = R.match_cast(z, R.Tensor((n,), "float32"))
            return w
        """)
    with pytest.raises(StructInfoError, match="at least 2, found 0"):
        structir.infer(module)


NEGATIVE = "a = R.strided_slice(x, axes=[0], begin=(n,), end=(1,), assume_inbound=True)"
DEAD_CODE = {
    "branch": f"""
    if c:
        {NEGATIVE}
        r = R.sum(a)
    else:
        r = R.sum(x)
""",
    "closure": f"""
    @R.function
    def g(x: R.Tensor(("n", "m"))):
        {NEGATIVE}
        return R.sum(a)
    r = x
""",
}


def with_negative_size(code: str) -> IRModule:
    return parsed(f"""
@R.function
def f(x: R.Tensor(("n", "m"), "float32"), c: R.Tensor((), "bool")):
    n = T.int64()
    R.require("n == 2")
{code}
    return r
""")


def test_an_unused_result_of_negative_size_is_a_conflict() -> None:
    with pytest.raises(StructInfoError, match="at least 0, found -1") as error:
        structir.infer(with_negative_size(f"    {NEGATIVE}\n    r = x"))
    assert all(line in str(error.value) for line in ("n == 2", "`a` is defined here"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", DEAD_CODE.values(), ids=DEAD_CODE)
def test_sizes_that_are_negative_in_dead_code_keep_the_signature(code: str) -> None:
    completed = structir.infer(with_negative_size(code))
    assert params(completed)[0] == 'R.Tensor((n, m), dtype="float32")'
    assert bound(completed)["x_checked"] == 'R.Tensor((2, m), dtype="float32")'
    reread(completed)


def test_strided_window_that_exceeds_its_axis_is_rejected_with_sizes_of_0() -> None:
    module = parsed("""
        @R.function
        def f(x: R.Tensor(("n", 2, "k"), "float32"), one: R.Tensor(("k",), "float32"),
              none: R.Tensor((0,), "float32")):
            n = T.int64()
            k = T.int64()
            checked = R.match_cast(one, R.Tensor((1,), "float32"))
            y = R.nn.max_pool1d(x, pool_size=[2], strides=[2])
            return (y, checked, none)
        """)
    with pytest.raises(StructInfoError, match="window exceeds its axis"):
        structir.infer(module)


def test_a_size_that_broadcasts_to_two_others_is_1() -> None:
    module = parsed("""
        @R.function
        def f(x: R.Tensor(ndim=1, dtype="float32"), a: R.Tensor((3,), "float32"),
              b: R.Tensor((5,), "float32")):
            y: R.Tensor((3,), "float32") = R.add(x, a)
            z: R.Tensor((5,), "float32") = R.add(x, b)
            return (y, z)
        """)
    assert params(structir.infer(module))[0] == 'R.Tensor((1,), dtype="float32")'
