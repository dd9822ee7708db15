"""Two programs: proved, refuted or not decided; passes proved after the fact."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import structir
from structir.errors import PassError, StructIRError
from structir.ir import IRModule
from structir.ir.expr import Call, Function
from structir.ir.node import rebuild
from structir.ir.op import Op, registered_ops
from structir.passes import PassContext, Proved, pipeline
from structir.passes.base import Pass
from structir.passes.manager.proofs import Verdict
from structir.tools.generate import random_module
from tests.passes.test_pairs import CASES

ANY_RANK = 'x: R.Tensor(("*s", "n", "k"), "float32"), y: R.Tensor(("k", "m"), "float32")'
MATRICES = 'x: R.Tensor(("n", "k"), "float32"), y: R.Tensor(("k", "m"), "float32")'
MATRIX = 'x: R.Tensor(("n", "m"), "float32")'
VECTOR = 'x: R.Tensor(("n",), "float32")'
TURNED = "R.permute_dims"
REORDERING = "canonicalise_bindings,common_subexpression_elimination,dead_code_elimination"
TIDYING = f"inline_functions,lambda_lift,topological_sort,{REORDERING}"


def program(params: str, *lines: str) -> IRModule:
    body = "\n    ".join([*lines[:-1], f"return {lines[-1]}"])
    return structir.parse(f"@R.function\ndef main({params}):\n    {body}\n")


def verdict(params: str, before: str, after: str) -> Verdict:
    (result,) = structir.prove(program(params, before), program(params, after))
    return result


@pytest.mark.parametrize(
    ("params", "before", "after"),
    [
        (ANY_RANK, "R.matmul(x, R.add(y, y))", "R.add(R.matmul(x, y), R.matmul(x, y))"),
        (MATRICES, f"{TURNED}(R.matmul(x, y))", f"R.matmul({TURNED}(y), {TURNED}(x))"),
        (MATRIX, "R.sum(R.reshape(x, (-1,)))", "R.sum(x)"),
        (MATRIX, "R.sum(R.sum(x, axis=0))", "R.sum(R.sum(x, axis=1))"),
        (MATRIX, "R.mean(R.mean(x, axis=0))", "R.mean(R.mean(x, axis=1))"),
        (MATRIX, "R.nn.relu(R.nn.pad(x, [1, 0, 0, 2]))", "R.nn.pad(R.nn.relu(x), [1, 0, 0, 2])"),
        (MATRIX, "R.max(R.concat((x, x), axis=0))", "R.max(x)"),
        (MATRIX, f"R.nn.softmax({TURNED}(x), axis=0)", f"{TURNED}(R.nn.softmax(x, axis=1))"),
        (MATRIX, "R.sort(R.add(x, R.zeros_like(x)))", "R.sort(x)"),
    ],
)
def test_equal_programs_are_proved(params: str, before: str, after: str) -> None:
    result = verdict(params, before, after)
    assert result.kind == "proved", str(result)
    assert result.proof is not None and result.proof.check() and str(result.proof)


@pytest.mark.parametrize(
    ("params", "before", "after"),
    [
        (MATRICES, "R.matmul(x, R.add(y, y))", "R.matmul(x, y)"),
        (MATRIX, "R.sum(x, axis=0)", "R.multiply(R.sum(x, axis=0), 1.01)"),
        (MATRIX, "R.mean(x)", "R.sum(x)"),
        (MATRIX, "R.sort(x)", "x"),
        (MATRIX, "R.flip(x, axis=0)", "R.flip(x, axis=1)"),
        (MATRIX, "R.astype(R.astype(x, 'float16'), 'float32')", "x"),
        (MATRIX, "R.exp(R.abs(x))", "R.exp(x)"),
        (MATRIX, "R.nn.pad(x, [1, 0, 0, 2])", "R.nn.pad(x, [0, 1, 0, 2])"),
        (MATRIX, "R.subtract(x, R.multiply(x, 1e30))", "R.multiply(x, 0)"),
    ],
)
def test_wrong_programs_are_refuted(params: str, before: str, after: str) -> None:
    result = verdict(params, before, after)
    assert result.kind == "refuted" and "before:" in str(result)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("R.subtract(x, x)", "R.zeros_like(x)"),
        ("R.multiply(x, 0)", "R.zeros_like(x)"),
        ("R.divide(x, x)", "R.ones_like(x)"),
        ("R.where(R.isnan(x), R.zeros_like(x), x)", "x"),
        ("R.nn.softmax(x)", "R.divide(R.exp(x), R.sum(R.exp(x), axis=-1, keepdims=True))"),
        ("R.maximum(x, R.exp(x))", "R.where(R.greater(x, R.exp(x)), x, R.exp(x))"),
    ],
)
def test_what_differs_for_values_that_are_not_finite_is_not_proved(before: str, after: str) -> None:
    assert verdict(MATRIX, before, after).kind != "proved"


HALVES = 'x: R.Tensor(("n",), "float16"), y: R.Tensor(("n",), "float16")'
INDICES = (
    'x: R.Tensor(("n",), "float32"), i: R.Tensor(("k",), "int64"), g: R.Tensor(("k",), "int32"), '
    'h: R.Tensor(("k",), "int32"), u: R.Tensor(("k",), "uint8"), v: R.Tensor(("k",), "uint8")'
)
RANGE = 'R.arange(0, n, 1, dtype="int32")'


def cast(text: str, dtype: str) -> str:
    return f'R.astype({text}, "{dtype}")'


def widened(op: str) -> tuple[str, str, str]:
    """A function of float16, computed in float16 and in float32."""
    wide = ", ".join([cast(name, "float32") for name in "xy"])
    return HALVES, cast(f"R.{op}(x, y)", "float32"), f"R.{op}({wide})"


def wide_index(op: str, a: str, b: str) -> tuple[str, str, str]:
    """Indices that overflow in a narrow dtype, and indices that do not."""
    narrow, wide = f"R.{op}({a}, {b})", f"R.{op}({cast(a, 'int64')}, {cast(b, 'int64')})"
    return INDICES, f"R.take(x, {cast(narrow, 'int64')}, axis=0)", f"R.take(x, {wide}, axis=0)"


def cancelled(text: str) -> str:
    return f"R.subtract(R.add({text}, 65536.0), 65536.0)"


@pytest.mark.parametrize(
    ("params", "before", "after"),
    [
        widened("add"),
        widened("subtract"),
        widened("multiply"),
        (HALVES, cast("R.add(x, x)", "float32"), f"R.multiply({cast('x', 'float32')}, 2.0)"),
        wide_index("multiply", "g", "h"),
        wide_index("add", "g", "h"),
        wide_index("subtract", "u", "v"),
        (INDICES, f"R.take(x, {cast('i', 'int8')}, axis=0)", "R.take(x, i, axis=0)"),
        (INDICES, f"R.take(x, {cast('i', 'int32')}, axis=0)", "R.take(x, i, axis=0)"),
        (VECTOR, f"R.less(R.multiply({RANGE}, 1073741824), 0)", 'R.full((n,), False, "bool")'),
        (VECTOR, f"R.less(R.multiply({RANGE}, {RANGE}), 0)", 'R.full((n,), False, "bool")'),
        (MATRIX, cancelled("x"), "x"),
        (MATRIX, f"R.sum({cancelled('x')})", "R.sum(x)"),
        (MATRIX, f"R.add({cancelled('x')}, 1e-6)", "R.add(x, 1e-6)"),
        (MATRIX, f"R.nn.pad({cancelled('x')}, [1, 0, 0, 0])", "R.nn.pad(x, [1, 0, 0, 0])"),
    ],
)
def test_what_overflows_or_is_rounded_is_not_proved(params: str, before: str, after: str) -> None:
    (result,) = structir.prove(program(params, before), program(params, after), refute=False)
    assert result.kind == "not decided"


def lossy(text: str, much: str = "65536.0") -> str:
    return f"R.subtract(R.add({text}, {much}), {much})"


@pytest.mark.parametrize(
    ("before", "lossy"),
    [
        ("R.add(x, 1e-6)", lossy("R.add(x, 1e-6)")),
        ("R.where(R.less(x, 0.0), x, -1e9)", lossy("R.where(R.less(x, 0.0), x, -1e9)")),
        ("R.multiply(x, 3.0)", "R.subtract(R.multiply(x, 65539.0), R.multiply(x, 65536.0))"),
        ("R.exp(R.add(x, 0.25))", "R.multiply(R.exp(R.add(x, 64.25)), R.exp(-64.0))"),
        ("R.sum(R.add(x, 1e-6))", f"R.sum({lossy('R.add(x, 1e-6)')})"),
        ("R.where(R.less(x, 0.0), 0.0, x)", lossy("R.where(R.less(x, 0.0), 0.0, x)", "x")),
    ],
)
def test_digits_that_cancelling_numbers_lose_are_not_proved(before: str, lossy: str) -> None:
    pair = program(MATRIX, before), program(MATRIX, lossy)
    (result,) = structir.prove(*pair, refute=False)
    assert result.kind == "not decided" and "lose digits" in result.reason, result
    assert structir.prove(pair[1], pair[1], refute=False)[0].kind == "proved"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("R.exp(R.subtract(x, y))", "R.divide(R.exp(x), R.exp(y))"),
        ("R.log(R.exp(R.subtract(x, y)))", "R.log(R.divide(R.exp(x), R.exp(y)))"),
    ],
)
def test_overflow_refutes_programs_that_are_equal_over_the_reals(before: str, after: str) -> None:
    params = f"{MATRIX}, {MATRIX.replace('x:', 'y:')}"
    result = verdict(params, before, after)
    assert (result.kind, result.proof is not None) == ("refuted", True), str(result)
    assert "in floats, although proved over the reals" in str(result)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("R.log(R.exp(x))", "x"),
        ("R.subtract(R.multiply(x, 2.0), x)", "x"),
        ("R.add(R.subtract(x, 0.25), 0.5)", "R.add(x, 0.25)"),
        ("R.subtract(R.add(x, 2.0), 1e-6)", "R.add(R.subtract(x, 1e-6), 2.0)"),
    ],
)
def test_few_lost_digits_do_not_prevent_a_proof(before: str, after: str) -> None:
    assert verdict(MATRIX, before, after).kind == "proved"


@pytest.mark.parametrize(
    ("params", "before", "after"),
    [
        (HALVES, "R.where(R.less(x, y), x, y)", "R.where(R.less(x, y), {x}, {y})"),
        (HALVES, "R.concat((x, y, x), axis=0)", "R.concat(({x}, {y}, {x}), axis=0)"),
        (HALVES, "R.nn.pad(x, [1, 2])", "R.nn.pad({x}, [1, 2])"),
        (INDICES, f"R.take(x, {RANGE}, axis=0)", "R.take({x}, R.arange(0, n, 1), axis=0)"),
    ],
)
def test_elements_are_widened_and_indices_converted(params: str, before: str, after: str) -> None:
    wide = after.format(x=cast("x", "float32"), y=cast("y", "float32"))
    result = verdict(params, cast(before, "float32"), wide)
    assert result.kind == "proved", str(result)


def mapped(body: str) -> str:
    return f"R.map(lambda row: {body}, x)"


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("R.add(row, row)", "R.multiply(row, 2.0)", "proved"),
        ("R.add(row, row)", "R.multiply(row, 3.0)", "not decided"),
        ("R.map(lambda q: R.add(q, 1.0), row)", "R.map(lambda q: R.add(1.0, q), row)", "proved"),
        ("R.map(lambda q: q, row)", "R.map(lambda q: R.sum(row), row)", "not decided"),
    ],
)
def test_functions_are_equal_if_their_results_are(before: str, after: str, kind: str) -> None:
    pair = program(MATRIX, mapped(before)), program(MATRIX, mapped(after))
    assert structir.prove(*pair, refute=False)[0].kind == kind


CONDITIONAL = """
@R.function
def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
    if c:
        R.require("n > 1")
        y = R.exp(x)
    else:
        y = R.{}
    return y
"""


def test_branches_have_the_same_values_and_checks() -> None:
    module = structir.parse(CONDITIONAL.format("log(x)"))
    others = {
        "log(R.negative(R.negative(x)))": "proved",
        "sqrt(x)": "not decided",
    }
    for text, kind in others.items():
        other = structir.parse(CONDITIONAL.format(text))
        assert structir.prove(module, other, refute=False)[0].kind == kind
    checked = structir.parse(CONDITIONAL.format("log(x)").replace("n > 1", "n > 2"))
    assert structir.prove(module, checked, refute=False)[0].kind == "not decided"


def test_checks_and_effects_remain() -> None:
    checked = program(MATRIX, "n = T.int64()", 'R.require("n % 2 == 0")', "R.exp(x)")
    unchecked = program(MATRIX, "R.exp(x)")
    assert structir.prove(checked, checked)[0].kind == "proved"
    (result,) = structir.prove(checked, unchecked)
    assert result.kind != "proved"


def test_bitwise_proofs_are_reported_separately() -> None:
    assert verdict(MATRIX, "R.negative(R.negative(x))", "x").bitwise
    assert not verdict(MATRIX, "R.add(x, R.zeros_like(x))", "x").bitwise  # -0.0 + 0.0 is 0.0
    assert not verdict(MATRIX, "R.sum(R.sum(x, axis=0))", "R.sum(x)").bitwise


def test_different_parameters_are_not_proved() -> None:
    first, second = program(MATRIX, "x"), program('x: R.Tensor(("n", 4), "float32")', "x")
    (result,) = structir.prove(first, second)
    assert result.kind == "refuted"  # the second program rejects other sizes
    (result,) = structir.prove(first, second, refute=False)
    assert result.kind == "not decided" and "parameter" in result.reason
    with pytest.raises(StructIRError, match="E0522"):
        structir.prove(first, IRModule({"other": first["main"]}))


def test_proved_is_an_instrument() -> None:
    module = program(MATRIX, "a = R.exp(x)", "b = R.exp(x)", "c = R.log(x)", "R.add(a, b)")
    proved = Proved(strict=True)
    with PassContext([proved]):
        pipeline(REORDERING)(module)
    assert proved.verdicts and all(v.kind == "proved" for _, v in proved.verdicts)
    assert "proved" in proved.report()[0]
    with pytest.raises(PassError, match="E0520"), PassContext([Proved()]):
        Pass("wrong", lambda _: program(MATRIX, "R.exp(x)"))(module)
    with pytest.raises(PassError, match="E0521"), PassContext([Proved(strict=True)]):
        before = program(MATRIX, "R.sin(R.negative(x))")
        Pass("odd", lambda _: program(MATRIX, "R.negative(R.sin(x))"))(before)


@pytest.mark.filterwarnings("ignore::structir.errors.DiagnosticWarning")  # of a case
def test_reordering_passes_are_proved_on_the_pairs() -> None:
    """Passes that reorder and remove bindings are proved on the programs of other passes."""
    proved = changed = 0
    for case in CASES:
        before = structir.parse(str(case.values[2]))
        try:
            after = pipeline(REORDERING)(before)
        except StructIRError:
            continue
        for result in structir.prove(before, after, refute=False):
            if before.functions[result.function] is not after.functions[result.function]:
                changed += 1
                proved += result.kind == "proved"
    assert changed and proved / changed > 0.9


# Random programs


def changed_call(module: IRModule, seed: int) -> IRModule | None:
    """Returns a module in which the op of one call is another one of the same arity."""
    rng = Random(seed)
    function = module["main"]
    calls = [b.value for b in function.bindings() if isinstance(b.value, Call)]
    calls = [c for c in calls if isinstance(c.op, Op) and not c.attrs]
    if not calls:
        return None
    target = rng.choice(calls)
    others: list[Any] = [op for op in registered_ops() if op is not target.op]
    others = [op for op in others if op.definition.pure and hasattr(op.definition, "index_spec")]
    rng.shuffle(others)
    for op in others:
        try:
            call = op(*target.args)
        except (StructIRError, TypeError, AttributeError):
            continue
        if call.struct_info == target.struct_info and not call.attrs:
            return IRModule({**module.functions, "main": _replaced(function, target, call)})
    return None


def _replaced(function: Function, old: Call, new: Call) -> Any:
    def visit(part: Any) -> Any:
        if part is old:
            return new
        kind = type(part).__name__
        is_inner = kind in ("SeqExpr", "BindingBlock", "DataflowBlock", "VarBinding")
        return rebuild(part, visit) if is_inner else part

    body = rebuild(function.body, visit)
    return Function(function.params, body, function.ret_struct_info, function.is_pure)


def counts(seeds: range) -> dict[str, int]:
    """Proves correct passes and wrong changes of random programs; returns counts of verdicts."""
    total = {"correct": 0, "proved": 0, "refuted": 0, "wrong": 0, "wrongly proved": 0}
    for seed in seeds:
        module = random_module(seed, 6)
        for result in structir.prove(module, pipeline(TIDYING)(module)):
            total["correct"] += 1
            total["proved"] += result.kind == "proved"
            total["refuted"] += result.kind == "refuted"
        wrong = changed_call(module, seed)
        for result in structir.prove(module, wrong, refute=False) if wrong is not None else ():
            if result.function == "main":
                total["wrong"] += 1
                total["wrongly proved"] += result.kind == "proved" and differs(module, wrong)
    return total


def differs(before: IRModule, after: Any) -> bool:
    """Whether sampled inputs show a difference of two programs."""
    try:
        with PassContext([structir.passes.VerifyResults()]):
            Pass("changed", lambda _: after)(before)
    except PassError as error:
        return "before:" in str(error)
    return False


def test_random_programs() -> None:
    total = counts(range(3))
    assert total["refuted"] == total["wrongly proved"] == 0
    assert total["proved"] > 0.5 * total["correct"] and total["wrong"]
