"""Tests of inference per language feature: rows, labels, facts, signatures, loops, helpers."""

import warnings
from functools import partial

import numpy as np
import pytest

import structir
from structir.analysis import binding_struct_infos
from structir.errors import DiagnosticError, DiagnosticWarning, ShapeMismatchError, StructIRError
from structir.interpret import register_extern


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        yield


def known(text: str, **options: object) -> dict[str, str]:
    """Returns every StructInfo of the completed `main`; checks round trip and well-formedness."""
    module = structir.infer(structir.parse(text), **options)  # type: ignore[arg-type]
    assert structir.structural_equal(structir.parse(module.script()), module)
    structir.analysis.check_well_formed(module)
    function = module["main"]
    infos = {param.name: param.struct_info for param in function.params}
    infos |= binding_struct_infos(function)
    return {name: str(info) for name, info in infos.items()} | {
        "result": str(function.ret_struct_info)
    }


def test_a_row_is_solved_from_the_result() -> None:
    infos = known("""
@R.function
def main(x: R.Tensor(("*s", "m", "k"), "float32"), y: R.Tensor) -> R.Tensor((2, 3, 4, 5)):
    return R.sig("*s a b; *s b c -> *s a c", dtype="float32")(x, y)
""")
    assert infos["result"] == 'R.Tensor((2, 3, 4, 5), dtype="float32")'
    assert infos["y"] == "R.Tensor((2, 3, k, 5))"
    assert infos["x"] == 'R.Tensor((2, 3, 4, k), dtype="float32")'


def test_conflict_of_axis_packs_is_reported_as_an_op_error() -> None:
    with pytest.raises(DiagnosticError) as error:
        structir.parse(
            """\
@R.function
def main(
    x: R.Tensor(("*batch", "n", 64), "float32"),
    w: R.Tensor((32, "m"), "float32"),
):
    with R.dataflow():
        h = R.matmul(x, w)
        R.output(h)
    return h
""",
            "model.py",
        )
    assert (
        str(error.value)
        == """\
error[E0201]: matmul: contraction dimension mismatch: lhs has k = 64 (axis -1), rhs has k = 32 (axis -2)
 --> model.py:7:13
  |
3 |     x: R.Tensor(("*batch", "n", 64), "float32"),
  |     ------------------------------------------- k = 64 (axis -1): x is R.Tensor(("*batch", n, 64), dtype="float32")
4 |     w: R.Tensor((32, "m"), "float32"),
  |     --------------------------------- k = 32 (axis -2): w is R.Tensor((32, m), dtype="float32")
...
7 |         h = R.matmul(x, w)
  |             ^^^^^^^^^^^^^^
  = note: index signature: lhs[~b, i, k], rhs[~b, k, j] -> out[~b, i, j]
  = help: correct the shape of `x` or `w`"""
    )


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("R.exp(x)", '("*s", n, 4)'),
        ("R.add(x, x)", '("*s", n, 4)'),
        ("R.sum(x, axis=-1)", '("*s", n)'),
        ("R.sum(x, axis=[-1], keepdims=True)", '("*s", n, 1)'),
        ("R.sum(x)", "()"),
        ("R.expand_dims(x, -1)", '("*s", n, 4, 1)'),
        ("R.expand_dims(x, 0)", '(1, "*s", n, 4)'),
        ("R.concat((x, x), axis=-1)", '("*s", n, 8)'),
        ("R.nn.softmax(x)", '("*s", n, 4)'),
        ("R.matmul(x, R.zeros((4, 5), 'float32'))", '("*s", n, 5)'),
        ("R.einsum((x,), '*s a b -> *s b a')", '("*s", 4, n)'),
        ("R.sig('*s a b -> b *s')(x)", '(4, "*s")'),
        ("R.permute_dims(x)", None),
    ],
)
def test_operands_with_rows_give_results_with_rows(value: str, result: str | None) -> None:
    text = f'@R.function\ndef main(x: R.Tensor(("*s", "n", 4), "float32")):\n    return {value}\n'
    shape = "" if result is None else f"{result}, "
    assert str(structir.parse(text)["main"].ret_struct_info) == f'R.Tensor({shape}dtype="float32")'


def test_deduced_rows_hold_at_every_rank() -> None:
    program = structir.parse("""
@R.function
def main(x: R.Tensor(("*s", "n", 4), "float32"), y: R.Tensor(("*s", 1, 4), "float32")):
    a = R.add(x, y)
    b = R.sum(R.concat((a, x), axis=-2), axis=-1)
    return (a, b)
""")
    random = np.random.default_rng(0)
    for row in [(), (3,), (2, 3), (0, 2)]:
        x, y = (random.random((*row, n, 4), dtype="float32") for n in (5, 1))
        a, b = structir.interpret(program, "main", x, y)  # checks the deduced result
        assert a.shape == (*row, 5, 4)
        assert b.shape == (*row, 10)


def test_a_softmax_over_the_first_axis_of_any_tensor() -> None:
    infos = known("""
@R.function
def main(x: R.Tensor(dtype="float32")):
    m = R.max(x, axis=0)
    e = R.exp(R.subtract(x, m))
    t = R.sum(e, axis=0)
    y = R.divide(e, t)
    return y
""")
    assert infos["x"] == infos["y"] == infos["result"]
    assert infos["x"].startswith("R.Tensor((")
    assert '"*' in infos["x"]


class TestLabels:
    def test_equal_axes_share_a_label(self) -> None:
        infos = known("""
@R.function
def main(x: R.Tensor(("n", "3:rgb"), "float32"), y: R.Tensor(("n", 3), "float32")):
    return R.ewise_fma(x, y, y)
""")
        assert infos["y"] == 'R.Tensor((n, "3:rgb"), dtype="float32")'
        assert infos["result"] == 'R.Tensor((n, "3:rgb"), dtype="float32")'

    def test_two_labels_conflict_though_the_sizes_agree(self) -> None:
        module = structir.parse("""
@R.function
def main(x: R.Tensor(("n", "3:rgb"), "float32"), y: R.Tensor(("n", "3:hsv"), "float32")):
    z = R.add(x, y)
    return z
""")
        with pytest.raises(DiagnosticError, match="cannot unify the axes labelled rgb and hsv"):
            structir.infer(module)


class TestFacts:
    def test_requirement_determines_a_size(self) -> None:
        infos = known("""
@R.function
def main(x: R.Tensor(("n", 3)), w: R.Tensor(("k",), "float32")) -> R.Tensor((12, 3)):
    R.require("k * 4 == n")
    return x
""")
        assert infos["w"] == 'R.Tensor((3,), dtype="float32")'

    def test_requirements_that_the_signature_proves_are_removed(self) -> None:
        module = structir.parse("""
@R.function
def main(x: R.Tensor(("n", "m")), w: R.Tensor(("k",), "float32")) -> R.Tensor((12, "m")):
    R.require("k * 4 == n", "m >= 2")
    R.require("n >= 2")
    return x
""")
        text = structir.infer(module).script()
        assert text.count("R.require") == text.count('R.require("m >= 2")') == 1
        assert "match_cast" not in text
        assert structir.structural_equal(structir.parse(text), structir.infer(module))

    def test_contradicting_requirements_are_rejected(self) -> None:
        module = structir.parse("""
@R.function
def main(x: R.Tensor(("n",), "float32")) -> R.Tensor((6,), "float32"):
    R.require("n % 4 == 0")
    y = R.exp(x)
    return y
""")
        with pytest.raises(DiagnosticError, match="conflicting shapes") as error:
            structir.infer(module)
        assert "R.require('n % 4 == 0')" in str(error.value)

    def test_sizes_declared_non_negative_may_be_zero(self) -> None:
        text = """
@R.function
def main(x: R.Tensor(("n", "m")), y: R.Tensor(("n * m",))) -> R.Tensor(("n * 5",)):
    {}
    return y
"""
        inferred = known(text.format("R.require('n >= 1')"))
        assert inferred["x"] == "R.Tensor((n, 5))"
        assert known(text.format("R.require('n >= 0')"))["x"] == "R.Tensor((n, m))"


class TestSignatures:
    def test_invalid_operands_of_a_signature_are_reported_at_the_call(self) -> None:
        with pytest.raises(DiagnosticError, match="one dim must be both 4 and 5") as error:
            structir.parse("""
@R.function
def main(x: R.Tensor((3, 4)), y: R.Tensor((5, 6))):
    return R.sig("a b; b c -> a c")(x, y)
""")
        assert error.value.diagnostics[0].span.line == 4  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            ('R.sig("a -> a")(x, x)', "expected 1 operands by the signature, found 2"),
            ('R.sig("a b")(x)', "expected `operands -> results`"),
            ("R.sig(3)(x)", "R.sig: signature: expected a string, found 3"),
            (
                'R.sig("a -> a", nothing="f")(x)',
                "R.sig: unexpected keyword argument `nothing`",
            ),
            ('R.sig("a b -> a b where a ~ b")(x)', "invalid size expression"),
        ],
    )
    def test_invalid_signatures_are_reported(self, call: str, message: str) -> None:
        with pytest.raises(DiagnosticError, match=message):
            structir.parse(f"@R.function\ndef main(x: R.Tensor((3, 4))):\n    return {call}\n")

    def test_elements_are_counted(self) -> None:
        infos = known("""
@R.function
def main(x: R.Tensor(("n", 6)), y: R.Tensor((3, 4))):
    return R.sig("*s; *t -> *t where elements(*s) == elements(*t)")(x, y)
""")
        assert infos["x"] == "R.Tensor((2, 6))"

    @pytest.mark.parametrize("compiled", [False, True])
    def test_run_time_shapes_are_checked_against_the_signature(self, compiled: bool) -> None:
        program = structir.parse("""
@R.function
def main(x: R.Tensor(("n", "k"), "float32"), y: R.Tensor(("k", "n"), "float32")):
    z = R.sig("*s a b; *s b c -> *s a c", function="test.product")(x, y)
    return R.exp(z)
""")
        run = structir.compile(program)["main"] if compiled else None
        x, y = np.ones((3, 4), "float32"), np.ones((4, 3), "float32")

        def result() -> np.ndarray:
            return structir.interpret(program, "main", x, y) if run is None else run(x, y)

        register_extern("test.product", np.matmul)
        np.testing.assert_allclose(result(), np.exp(x @ y))
        register_extern("test.product", lambda a, b: a)
        with pytest.raises(ShapeMismatchError, match="one dim must be both"):
            result()

    def test_sizes_alone_do_not_run(self) -> None:
        program = structir.parse(
            '@R.function\ndef main(x: R.Tensor((3, 4))):\n    return R.sig("a b -> b a")(x)\n'
        )
        with pytest.raises(StructIRError, match="function="):
            structir.interpret(program, "main", np.ones((3, 4)))


CELL = """
@R.function
def cell(
    h: R.Tensor(dtype="float32"), x: R.Tensor(dtype="float32"),
    w: R.Tensor(dtype="float32"), r: R.Tensor(dtype="float32"),
):
    a = R.einsum((x, w), "*s i; i k -> *s k")
    b = R.einsum((h, r), "*s k; k j -> *s j")
    h2 = R.tanh(R.ewise_fma(a, b, b))
    return (h2, h2)
"""


class TestLoops:
    PROGRAM = (
        CELL
        + """
@R.function
def main(
    x: R.Tensor((7, 2, 3), "float32"), h: R.Tensor((2, 5), "float32"),
    w: R.Tensor(dtype="float32"), r: R.Tensor(dtype="float32"),
):
    y = R.scan(cell, (h,), x, (w, r))
    return y[1]
"""
    )

    def test_weights_follow_from_the_state(self) -> None:
        infos = known(self.PROGRAM)
        assert infos["w"] == 'R.Tensor((3, 5), dtype="float32")'
        assert infos["r"] == 'R.Tensor((5, 5), dtype="float32")'
        assert infos["result"] == 'R.Tensor((7, 2, 5), dtype="float32")'

    @pytest.mark.parametrize("completed", [False, True])
    @pytest.mark.parametrize("compiled", [False, True])
    def test_the_loop_runs(self, completed: bool, compiled: bool) -> None:
        module = structir.parse(self.PROGRAM)
        module = structir.infer(module) if completed else module
        random = np.random.default_rng(0)
        x, h, w, r = (
            random.random(s, dtype="float32") for s in ((7, 2, 3), (2, 5), (3, 5), (5, 5))
        )
        state, expected = h, []
        for step in x:
            state = np.tanh((step @ w) * (state @ r) + state @ r)
            expected.append(state)
        args = (x, h, w, r)
        found = (
            structir.compile(module)["main"](*args)
            if compiled
            else structir.interpret(module, "main", *args)
        )
        np.testing.assert_allclose(found, np.stack(expected), rtol=1e-4)

    def test_a_state_that_changes_its_size(self) -> None:
        with pytest.raises(DiagnosticError, match="expected a state"):
            structir.parse("""
@R.function
def cell(h: R.Tensor((2,), "float32"), x: R.Tensor((3,), "float32")):
    return (x, x)

@R.function
def main(x: R.Tensor((7, 3), "float32"), h: R.Tensor((2,), "float32")):
    return R.scan(cell, (h,), x)
""")

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            ("R.scan(cell, h, x)", "states: expected a tuple such as"),
            ("R.scan(cell, ('h',), x)", "expected an expression of the program as operand"),
            ("R.scan(cell, (h,), s)", "expected at least 1 axis"),
            ("R.scan(h, (h,), x)", "a function of the program"),
        ],
    )
    def test_invalid_loops_are_reported(self, call: str, message: str) -> None:
        with pytest.raises(DiagnosticError, match=message):
            structir.parse(f"""
@R.function
def cell(h: R.Tensor((2,), "float32"), x: R.Tensor((2,), "float32")):
    return (x, x)

@R.function
def main(x: R.Tensor((7, 2), "float32"), h: R.Tensor((2,), "float32"), s: R.Tensor((), "float32")):
    return {call}
""")

    def test_a_loop_of_no_steps_has_empty_outputs(self) -> None:
        program = structir.parse("""
@R.function
def cell(h: R.Tensor((2,), "float32"), x: R.Tensor((2,), "float32")):
    return (x, x)

@R.function
def main(x: R.Tensor(("n", 2), "float32"), h: R.Tensor((2,), "float32")):
    return R.scan(cell, (h,), x)
""")
        h, x = np.ones(2, "float32"), np.zeros((0, 2), "float32")
        for run in (
            partial(structir.interpret, program, "main"),
            structir.compile(program)["main"],
        ):
            last, outputs = run(x, h)
            assert last.tolist() == [1, 1] and outputs.shape == (0, 2)


def test_a_helper_of_any_rank_serves_each_call() -> None:
    infos = known("""
@R.function(private=True)
def last(a: R.Tensor(("*s", "k"), "float32"), w: R.Tensor(("k", "j"), "float32")):
    return R.matmul(a, w)

@R.function
def main(
    x: R.Tensor((2, 3, 4), "float32"), y: R.Tensor(("n", 4), "float32"),
    w: R.Tensor((4, 5), "float32"),
):
    p = last(x, w)
    q = last(y, w)
    return (p, q)
""")
    assert infos["p"] == 'R.Tensor((2, 3, 5), dtype="float32")'
    assert infos["q"] == 'R.Tensor((n, 5), dtype="float32")'


def test_facts_of_a_branch_stay_inside() -> None:
    infos = known("""
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor(("*s",), "float32"), y: R.Tensor((2, 3), "float32")):
    if c:
        a = R.ewise_fma(x, y, y)
        z = R.exp(a)
    else:
        z = R.exp(y)
    return z
""")
    assert infos["x"] == 'R.Tensor(("*s",), dtype="float32")'
    assert infos["result"] == 'R.Tensor((2, 3), dtype="float32")'
    assert "x_checked" not in infos


class TestPolicies:
    TEXT = """
@R.function{}
def main(x: R.Tensor(("n",), "float32"), y: R.Tensor((3,), "float32")):
    return R.ewise_fma(x, y, y)
"""

    def test_a_signature_with_checks_stays(self) -> None:
        infos = known(self.TEXT.format('(refine="checks")'))
        assert infos["x"] == 'R.Tensor((n,), dtype="float32")'
        assert infos["x_checked"] == 'R.Tensor((3,), dtype="float32")'

    @pytest.mark.parametrize("options", ["", '(refine="signature")', "(private=True)"])
    def test_a_refined_signature_contains_inferred_sizes(self, options: str) -> None:
        infos = known(self.TEXT.format(options))
        assert infos["x"] == 'R.Tensor((3,), dtype="float32")'
        assert "x_checked" not in infos

    def test_strict_rejects_a_narrowed_signature(self) -> None:
        module = structir.parse(self.TEXT.format('(refine="nothing")'))
        with pytest.raises(DiagnosticError, match="the body narrows `x`"):
            structir.infer(module)

    def test_argument_of_infer_overrides_the_attribute(self) -> None:
        infos = known(self.TEXT.format('(refine="nothing")'), refine="signature")
        assert infos["x"] == 'R.Tensor((3,), dtype="float32")'

    def test_unknown_policy_is_rejected(self) -> None:
        with pytest.raises(
            DiagnosticError,
            match="refine: expected one of signature, checks, nothing, found 'guess'",
        ):
            structir.parse(self.TEXT.format('(refine="guess")'))


def test_a_row_that_turns_out_to_be_one_axis() -> None:
    infos = known("""
@R.function
def main(x: R.Tensor(("*s", 3, 9, 7), "float32"), w: R.Tensor((4, 3, 3, 2), "float32")):
    y = R.nn.conv2d(x, w)
    return y
""")
    assert infos["x"] == 'R.Tensor((n, 3, 9, 7), dtype="float32")'
    assert infos["y"] == 'R.Tensor((n, 4, 7, 6), dtype="float32")'


def test_a_helper_stays_as_wide_as_calls_that_do_not_run() -> None:
    module = structir.parse(
        """
from structir.script import I, R, T

@I.ir_module
class Module:
    @R.function(private=True)
    def helper(x: R.Tensor((1, "n"), "int32")):
        return R.match_cast(x, R.Tensor((1, 2), "int32"))

    @R.function
    def main(z: R.Tensor(("n",), "float32")):
        n = T.int64()
        @R.function
        def closure(y: R.Tensor((1, 1), "int32")):
            return Module.helper(y)
        return z
"""
    )
    completed = structir.infer(module)
    assert structir.parse(completed.script()).script() == completed.script()
    assert str(completed["helper"].params[0].struct_info) == 'R.Tensor((1, n), dtype="int32")'
