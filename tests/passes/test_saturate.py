"""Equality saturation as a pass: results, costs, explanations, and what stays as it is."""

import warnings
from random import Random

import numpy as np
import pytest

import structir
from structir import rewrite
from structir.errors import PassError, StructIRError
from structir.ir import Call, Expr, Function, IRModule, MatchCast, structural_equal
from structir.passes import (
    PassContext,
    Saturate,
    SaturationReport,
    VerifyIR,
    VerifyResults,
    find_pass,
    pipeline,
)
from structir.passes.manager.rules import rules_named
from structir.rewriting.rule import Rule
from structir.script import R
from structir.tools.generate import random_module
from tests.rewriting.algebraic_rules import PROGRAMS, RULES

SHIPPED = "simplify reorder_matmul combine_parallel_matmul fold_batch_norm"
ALL = [*rules_named("simplify"), *RULES.values()]


def function(params: str, *lines: str, result: str = "y", dataflow: bool = True) -> IRModule:
    """Returns a program of float32 matrices: `function("x: n m", "y = R.exp(x)")`."""
    annotations = []
    for param in params.split(";"):
        name, sizes = param.split(":")
        axes = "".join(f"{a}, " if a.isdigit() else f'"{a}", ' for a in sizes.split())
        annotations.append(f'{name.strip()}: R.Tensor(({axes}), "float32")')
    block = ["    with R.dataflow():"] if dataflow else []
    indent = "        " if dataflow else "    "
    body = [f"{indent}{line}" for line in lines]
    body += [f"        R.output({result})"] if dataflow else []
    head = ["@R.function", f"def main({', '.join(annotations)}):"]
    return structir.parse("\n".join([*head, *block, *body, f"    return {result}", ""]))


def saturated(module: IRModule, rules: list[Rule], **options: object) -> IRModule:
    """Returns the saturated module, with results and explanations verified."""
    report = SaturationReport()
    with PassContext([VerifyIR(), VerifyResults(edges=False)]):
        after = Saturate(rules, report=report, **options)(module)
    assert report.replay() == sum(len(b.ends) for bs in report.blocks.values() for b in bs)
    for block in report.blocks["main"]:
        assert block.after.seconds <= block.before.seconds or options.get("cost") is not None
    assert structural_equal(structir.parse(after.script()), after)
    return after


def ops(module: IRModule) -> list[str]:
    return sorted(b.value.op.name for b in module["main"].bindings() if type(b.value) is Call)


# Results


def test_rules_combine_in_an_order_that_no_pipeline_has() -> None:
    @rewrite
    def try_left(x: Expr, y: Expr, z: Expr):
        yield R.matmul(x, R.matmul(y, z))
        yield R.matmul(R.matmul(x, y), z)

    @rewrite
    def try_right(x: Expr, y: Expr, z: Expr):
        yield R.matmul(R.matmul(x, y), z)
        yield R.matmul(x, R.matmul(y, z))

    lines = ("p = R.matmul(R.matmul(a, b), c)", "y = R.matmul(p, v)")
    before = function("a: 64 64; b: 64 64; c: 64 64; v: 64 1", *lines)
    after = saturated(before, [try_left, try_right])
    last = [b.var.struct_info.dims for b in after["main"].bindings()]
    assert last == [(64, 1)] * 3


def test_parallel_products_are_merged_where_that_is_cheaper() -> None:
    params = "x: 512 64; u: 64 8; v: 64 8; w: 64 8"
    lines = [f"y{k} = R.matmul(x, {w})" for k, w in enumerate("uvw")]
    before = function(params, *lines, "y = R.add(R.add(y0, y1), y2)")
    merged = saturated(before, rules_named("combine_parallel_matmul"), cost="kernels")
    assert "matmul" in ops(merged)
    report = SaturationReport()
    Saturate(rules_named("combine_parallel_matmul"), report=report)(before)
    assert report.blocks["main"][0].saturation.applications["combine_parallel_matmul"] == 1


def test_a_shared_value_is_computed_once() -> None:
    lines = (
        "p = R.exp(R.multiply(x, z))",
        "q = R.exp(R.multiply(x, z))",
        "y = R.add(R.multiply(p, z), R.multiply(q, z))",
    )
    after = saturated(function("x: n m; z: n m", *lines), [RULES["common_factor"]])
    assert ops(after).count("exp") == 1


def test_the_result_is_not_worse_at_other_sizes() -> None:
    """A product with a wide matrix is cheaper for wide ones only."""

    @rewrite
    def try_square(x: Expr, y: Expr):
        yield R.multiply(x, y)
        yield R.multiply(R.sqrt(R.multiply(R.exp(x), R.exp(x))), y)

    before = function("x: n m; y: n m", "z = R.multiply(x, y)", result="z")
    assert Saturate([try_square])(before) is before


@pytest.mark.parametrize("name", RULES, ids=list(RULES))
def test_every_algebraic_rule_saturates(name: str) -> None:
    saturated(structir.parse(PROGRAMS[name]), [RULES[name]], iterations=2)


MATRIX_OPS = (
    "R.add({0}, {1})",
    "R.multiply({0}, {1})",
    "R.matmul({0}, {1})",
    "R.subtract({0}, {1})",
    "R.permute_dims({0}, [1, 0])",
    "R.negative({0})",
    "R.multiply({0}, R.const(0.5, 'float32'))",
    "R.add({0}, R.const(0, 'float32'))",
    "R.flip({0}, axis=0)",
    "R.matmul({0}, R.multiply({1}, R.const(0.25, 'float32')))",
    "R.strided_slice(R.concat(({0}, {1}), axis=0), [0], [0], [n])",
    "R.broadcast_to(R.max({0}, axis=0), (n, n))",
)


def matrix_program(seed: int, count: int) -> IRModule:
    """Returns a random program of square matrices."""
    rng = Random(seed)
    names, lines = ["x", "y", "z"], []
    for k in range(count):
        operands = [rng.choice(names[-4:]) for _ in range(2)]
        lines.append(f"v{k} = {rng.choice(MATRIX_OPS).format(*operands)}")
        names.append(f"v{k}")
    return function("x: n n; y: n n; z: n n", *lines, result=names[-1], dataflow=seed % 4 > 0)


MATRIX_RULES = [
    *rules_named(SHIPPED),
    *[RULES[name] for name in RULES if name not in ("outer_product", "divide_by_exponential")],
]


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_of_matrices(seed: int) -> None:
    saturated(matrix_program(seed, 8), MATRIX_RULES, nodes=1500, exact=seed % 3 == 0)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_stay_valid(seed: int) -> None:
    module = random_module(seed, size=8)
    report = SaturationReport()
    with warnings.catch_warnings(), PassContext([VerifyIR()]):
        warnings.simplefilter("ignore")
        after = Saturate(ALL, report=report, nodes=1000, iterations=3)(module)
        assert structural_equal(structir.parse(after.script()), after)
    report.replay()


# What stays as it is


def test_checks_and_calls_of_functions_stay_in_order() -> None:
    module = structir.parse("""
from structir.script import I, R, T

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), i: R.Tensor(("k",), "float32")):
        cls = Module
        m = T.int64()
        a = R.add(x, R.const(0, "float32"))
        b = R.match_cast(a, R.Tensor((m,), "float32"))
        c = cls.helper(b)
        d = R.match_cast(i, R.Tensor((m,), "float32"))
        e = R.add(R.add(c, d), R.const(0, "float32"))
        return e

    @R.function
    def helper(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        y = R.add(R.exp(x), R.const(0, "float32"))
        return y
""")
    after = saturated(module, rules_named("simplify"))
    kinds = [type(b) is MatchCast for b in after["main"].bindings()]
    assert kinds.count(True) == 2 and "add" not in ops(IRModule({"main": after["helper"]}))
    with pytest.raises(StructIRError):
        structir.interpret(after, "main", np.ones(3, "float32"), np.ones(4, "float32"))


def test_branches_and_local_functions_are_saturated() -> None:
    module = structir.parse("""
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")):
    @R.function
    def local(y: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        z = R.multiply(y, R.const(1, "float32"))
        return z
    if c:
        r = R.add(x, R.const(0, "float32"))
    else:
        r = local(x)
    return r
""")
    text = saturated(module, rules_named("simplify")).script()
    assert "R.add" not in text and "R.multiply" not in text


def test_a_size_that_a_cast_binds_is_used_after_it() -> None:
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n",), "float32")):
    m = T.int64()
    with R.dataflow():
        u = R.unique(x)
        y = R.match_cast(u, R.Tensor((m,), "float32"))
        z = R.broadcast_to(R.broadcast_to(y, (2, m)), (3, 2, m))
        R.output(z)
    return z
""")
    after = saturated(module, [RULES["broadcast_of_broadcast"]])
    assert ops(after) == ["broadcast_to", "unique"]


# Options and errors


def test_a_measurement_decides() -> None:
    before = function("x: n m; z: n m", "y = R.add(R.multiply(x, z), R.multiply(z, z))")
    seen: list[int] = []

    def fewest_adds(candidate: Function) -> float:
        seen.append(len(candidate.bindings()))
        return -float(len(candidate.bindings()))

    after = saturated(before, [RULES["common_factor"]], cost=fewest_adds)
    assert after is before and sorted(seen) == [2, 3]


def test_rules_are_named_in_a_pipeline() -> None:
    before = function("x: n m", "y = R.exp(R.add(x, R.const(0, 'float32')))")
    after = pipeline('saturate{rules="simplify,reorder_matmul" cost=bytes sizes="n=4"}')(before)
    assert ops(after) == ["exp"]


def test_budgets_end_a_saturation() -> None:
    @rewrite
    def try_grow(x: Expr):
        yield R.exp(x)
        yield R.exp(R.negative(R.negative(x)))

    before = function("x: n m", "y = R.exp(x)")
    for options, stop in (({"nodes": 20, "iterations": 1000}, "nodes"), ({}, "iterations")):
        report = SaturationReport()
        assert Saturate([try_grow], report=report, **options)(before) is before
        assert report.blocks["main"][0].saturation.stop == stop


def test_an_explanation_names_rules_and_is_replayed() -> None:
    before = function(
        "x: n m; y: n m; z: n m",
        "a = R.permute_dims(R.permute_dims(x, [1, 0]), [1, 0])",
        "r = R.add(R.multiply(a, z), R.multiply(y, z))",
        result="r",
    )
    report = SaturationReport()
    rules = [RULES["common_factor"], *rules_named("simplify")]
    after = Saturate(rules, report=report)(before)
    explanation = report.explain("r")
    assert ops(after) == ["add", "multiply"]
    assert set(explanation.rules) == {"common_factor", "merge_permutes", "drop_identity_permute"}
    assert explanation.replay(report.rules) == explanation.end
    assert "by common_factor" in str(explanation)
    verdicts = explanation.proofs(report.rules, lambda rule: rule.name == "common_factor")
    assert verdicts["common_factor"] and not verdicts["merge_permutes"]
    with pytest.raises(PassError, match="no variable `q`"):
        report.explain("q")


def test_a_rule_that_depends_on_more_than_its_arguments_is_not_replayed() -> None:
    calls: list[int] = []

    @rewrite
    def try_moody(x: Expr):
        yield R.exp(x)
        calls.append(1)
        yield R.negative(x) if len(calls) % 2 else R.abs(x)

    report = SaturationReport()
    Saturate([try_moody], report=report)(function("x: n m", "y = R.exp(x)"))
    report.replay() if len(calls) % 2 == 0 else calls.append(1)
    with pytest.raises(PassError, match="does not give the recorded term") as caught:
        report.replay() if len(calls) % 2 else (calls.append(1), report.replay())
    assert caught.value.diagnostics[0].code == "E0531"


def test_conflicting_struct_infos_name_the_rule() -> None:
    @rewrite
    def try_wrong(x: Expr, y: Expr):
        yield R.maximum(x, y)
        yield x

    text = """
@R.function
def main(x: R.Tensor(dtype="float32"), y: R.Tensor(dtype="float32")):
    with R.dataflow():
        a: R.Tensor((3,), "float32") = R.exp(R.maximum(x, y))
        b: R.Tensor((4,), "float32") = R.exp(x)
        R.output(a, b)
    return (a, b)
"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the annotations are assumed
        module = structir.parse(text)
    with pytest.raises(PassError, match="rule `try_wrong` equates") as caught:
        Saturate([try_wrong])(module)
    assert caught.value.diagnostics[0].code == "E0530"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"rules": "no_such_rule"}, "E0534"),
        ({"rules": [1]}, "E0534"),
        ({"cost": "beauty"}, "E0533"),
        ({"cost": lambda function: "cheap", "rules": [RULES["add_zero"]]}, "E0533"),
    ],
)
def test_wrong_options_are_errors(options: dict[str, object], code: str) -> None:
    before = function("x: n m", "y = R.exp(R.add(x, R.const(0, 'float32')))")
    with pytest.raises(StructIRError) as caught:
        find_pass("saturate").with_options(**options)(before)
    assert caught.value.code == code
