"""Patterns written as calls: what matches, what guards refuse, what stands there afterwards."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, PassError
from structir.ir import Constant, Expr, IRModule, Op, structural_equal
from structir.ir.op import registered_ops
from structir.opdef.attributes import Ints, Sizes
from structir.ops.broadcast import add, multiply
from structir.ops.contract import matmul
from structir.ops.elementwise import exp, negative, square, tanh
from structir.ops.joined import concat, split
from structir.ops.layout import flip, permute_dims
from structir.ops.reshape import reshape
from structir.passes import PassContext, Statistics, Trace, VerifyIR, VerifyResults, find_pass
from structir.rewriting.driver import rewrite_function
from structir.rewriting.extract import extract_matches
from structir.rewriting.guards import (
    acts_element_wise,
    dims_of,
    divisible,
    rank_of,
    used_once,
    value_of,
)
from structir.rewriting.provenance import Provenance
from structir.rewriting.rule import RULES, Parallel, rewrite
from structir.script import R
from structir.tools.op_page import example_call

HEAD = (
    '@R.function\ndef main(x: R.Tensor(("n", 8), "float32"), y: R.Tensor(("n", 8), "float32")):\n'
)


def program(*lines: str) -> IRModule:
    body = [f"    {line}\n" for line in lines]
    return structir.parse(HEAD + "".join(body))


def ran(generator: Callable[..., Iterator[Any]], module: IRModule) -> IRModule:
    rule = rewrite(generator)
    with PassContext([VerifyIR(), VerifyResults()]):
        return find_pass(rule.name)(module)


def test_pattern_variables_match_operands_and_attributes() -> None:
    def try_merge(x: Expr, p: Ints, q: Ints) -> Iterator[Expr]:
        """Two permutes in a row are one."""
        yield permute_dims(permute_dims(x, p), q)
        yield permute_dims(x, tuple(p[i] for i in q))

    before = program(
        "a = R.permute_dims(x, [1, 0])", "b = R.permute_dims(a, [1, 0])", "return R.exp(b)"
    )
    after = program("b = R.permute_dims(x, [0, 1])", "return R.exp(b)")
    assert structural_equal(ran(try_merge, before), after)


def test_a_field_of_a_tuple_matches_by_its_name() -> None:
    def try_named_field(x: Expr, params: Expr) -> Iterator[Expr]:
        """A product with the field `w` is a sum."""
        yield multiply(x, params["w"])
        yield add(x, params["w"])

    head = "@R.function\ndef main(x: R.Tensor((8,), 'float32'), p: R.Tuple(b={}, w={})):\n"
    head = head.format(*["R.Tensor((8,), 'float32')"] * 2)
    body = "    a = R.multiply(x, p.b)\n    b = R.{}(a, p.w)\n    return b\n"
    before, after = [structir.parse(head + body.format(op)) for op in ("multiply", "add")]
    rule = rewrite(try_named_field)
    assert structural_equal(find_pass(rule.name)(before), after)


def test_repeated_pattern_variable_matches_one_value() -> None:
    def try_square(x: Expr) -> Iterator[Expr]:
        """x * x is a square."""
        yield multiply(x, x)
        yield square(x)

    before = program("a = R.multiply(x, x)", "b = R.multiply(x, y)", "return (a, b)")
    after = program("a = R.square(x)", "b = R.multiply(x, y)", "return (a, b)")
    assert structural_equal(ran(try_square, before), after)


def test_patterns_are_graphs() -> None:
    def try_diamond(x: Expr) -> Iterator[Expr]:
        """exp(x) + tanh(exp(x)) only where both are one value."""
        power = exp(x)
        yield add(power, tanh(power))
        yield add(tanh(power), power)

    one = program("a = R.exp(x)", "b = R.tanh(a)", "c = R.add(a, b)", "return c")
    two = program("a = R.exp(x)", "d = R.exp(y)", "b = R.tanh(d)", "c = R.add(a, b)", "return c")
    turned = program("a = R.exp(x)", "b = R.tanh(a)", "c = R.add(b, a)", "return c")
    rule = rewrite(try_diamond)
    assert structural_equal(find_pass(rule.name)(one), turned)
    assert find_pass(rule.name)(two) is two


def test_used_once() -> None:
    def try_inward(x: Expr) -> Iterator[Expr]:
        """Only a value that nothing else reads."""
        inner = exp(x)
        yield negative(inner)
        if used_once(inner):
            yield tanh(x)

    rule = rewrite(try_inward)
    shared = program("a = R.exp(x)", "b = R.negative(a)", "return (a, b)")
    alone = program("a = R.exp(x)", "b = R.negative(a)", "return b")
    assert find_pass(rule.name)(shared) is shared
    assert structural_equal(find_pass(rule.name)(alone), program("b = R.tanh(x)", "return b"))


def test_guards_compare_sizes() -> None:
    def try_fours(x: Expr, shape: Sizes) -> Iterator[Expr]:
        """A size that is provably a multiple of 4."""
        made = reshape(x, shape)
        yield exp(made)
        sizes = dims_of(made)
        if sizes is not None and divisible(sizes[0], 4):
            yield reshape(exp(x), sizes)

    four = program("a = R.reshape(x, (4 * n, 2))", "b = R.exp(a)", "return b")
    two = program("a = R.reshape(x, (2 * n, 4))", "b = R.exp(a)", "return b")
    after = program("a = R.exp(x)", "b = R.reshape(a, (4 * n, 2))", "return b")
    assert structural_equal(ran(try_fours, four), after)
    assert find_pass("try_fours")(two) is two


def test_constants_and_literals() -> None:
    def try_scale(x: Expr, factor: Constant) -> Iterator[Expr]:
        """Two factors become one."""
        yield multiply(multiply(x, factor), 2.0)
        yield multiply(x, Constant(value_of(factor) * 2))

    before = program("a = x * R.const(3, 'float32')", "b = a * R.const(2, 'float32')", "return b")
    after = program("b = x * R.const(6, 'float32')", "return b")
    assert structural_equal(ran(try_scale, before), after)
    other = program("a = x * y", "b = a * R.const(2, 'float32')", "return b")
    assert find_pass("try_scale")(other) is other


def test_matched_op_keeps_its_attributes() -> None:
    def try_swap(x: Expr, f: Op) -> Iterator[Expr]:
        """Signs are turned first."""
        yield negative(f(x))
        if f.attrs:
            yield f(negative(x))

    before = program("a = R.permute_dims(x, [1, 0])", "b = R.negative(a)", "return b")
    after = program("a = R.negative(x)", "b = R.permute_dims(a, [1, 0])", "return b")
    assert structural_equal(ran(try_swap, before), after)


def test_parallel_calls_become_one() -> None:
    def try_together(x: Expr, weights: Parallel) -> Iterator[Any]:
        """Products that share their left side."""
        yield matmul(x, weights)
        if all(rank_of(w) == 2 for w in weights):
            sizes = [dims_of(w)[-1] for w in weights]  # type: ignore[index]
            ends = tuple(sum(sizes[: k + 1]) for k in range(len(sizes) - 1))
            parts = split(matmul(x, concat(weights, axis=-1)), ends, axis=-1)
            yield tuple(parts[k] for k in range(len(weights)))

    head = """
@R.function
def main(x: R.Tensor(("n", "k"), "float32"), u: R.Tensor(("k", 3), "float32"),
         v: R.Tensor(("k", 4), "float32"), w: R.Tensor(("k", 5), "float32")):
    with R.dataflow():
"""
    tail = "        r = (a, b, c)\n        R.output(r)\n    return r\n"
    before = structir.parse(
        head + "        a = R.matmul(x, u)\n        b = R.matmul(x, v)\n"
        "        d = R.exp(w)\n        c = R.matmul(x, d)\n" + tail
    )
    after = structir.parse(
        head + "        s = R.concat((u, v), axis=-1)\n        p = R.matmul(x, s)\n"
        "        q = R.split(p, [3], axis=-1)\n        a = q[0]\n        b = q[1]\n"
        "        d = R.exp(w)\n        c = R.matmul(x, d)\n" + tail
    )
    assert structural_equal(ran(try_together, before), after)


def test_values_out_of_scope_are_not_matched() -> None:
    def try_exp(x: Expr) -> Iterator[Expr]:
        """x is local to the first block."""
        yield tanh(exp(x))
        yield exp(x)

    module = program(
        "with R.dataflow():",
        "    a = R.negative(x)",
        "    b = R.exp(a)",
        "    R.output(b)",
        "with R.dataflow():",
        "    c = R.tanh(b)",
        "    R.output(c)",
        "return c",
    )
    rule = rewrite(try_exp)
    assert find_pass(rule.name)(module) is module


def test_replacements_with_other_struct_info_are_rejected() -> None:
    def try_row(x: Expr) -> Iterator[Expr]:
        """Adds what broadcasts: less is known of x."""
        yield add(x, 0.0)
        yield x

    text = (
        '@R.function\ndef main(x: R.Tensor((1, 8), "float32")):\n'
        "    a = R.add(x, R.zeros((4, 1), 'float32'))\n    return a\n"
    )
    module = structir.parse(text)
    rule = rewrite(try_row)
    assert find_pass(rule.name)(module) is module


def test_rules_that_change_results_are_detected() -> None:
    def try_wrong(x: Expr) -> Iterator[Expr]:
        """No."""
        yield exp(x)
        yield negative(x)

    with pytest.raises(PassError, match="try_wrong"):
        ran(try_wrong, program("a = R.exp(x)", "return a"))


def grows(x: Expr) -> Iterator[Expr]:
    """Matches in a part of its replacement, whose operand is larger."""
    yield negative(x)
    yield exp(negative(multiply(x, x)))


def doubles(x: Expr) -> Iterator[Expr]:
    """Matches twice in its replacement."""
    yield flip(x, 1)
    yield flip(flip(flip(x, 0), 1), 1)


def swaps(x: Expr, y: Expr) -> Iterator[Expr]:
    """Matches its replacement as a whole."""
    yield add(x, y)
    yield add(y, x)


def wraps(x: Expr) -> Iterator[Expr]:
    """Keeps the matched value."""
    yield tanh(x)
    yield square(tanh(x))


@pytest.mark.parametrize("generator", [grows, doubles, swaps, wraps], ids=lambda g: g.__name__)
def test_diverging_rules_are_an_error(generator: Callable[..., Iterator[Any]]) -> None:
    module = program("a = R.negative(x)", "b = R.flip(a, 1)", "c = R.add(b, y)", "return R.tanh(c)")
    counting = Trace()
    with PassContext([counting]), pytest.raises(PassError) as error:
        find_pass(rewrite(generator).name)(module)
    (diagnostic,) = error.value.diagnostics
    assert (
        f"rule `{generator.__name__}` diverges: it matches in its own replacement"
        in diagnostic.message
    )
    assert diagnostic.span is not None
    assert all(note.text.startswith(generator.__name__) for note in diagnostic.notes[:2])


def test_inverse_rules_are_an_error() -> None:
    def try_there(x: Expr) -> Iterator[Expr]:
        """exp becomes tanh."""
        yield exp(x)
        yield tanh(x)

    def try_back(x: Expr) -> Iterator[Expr]:
        """tanh becomes exp."""
        yield tanh(x)
        yield exp(x)

    function = program("a = R.exp(x)", "return a")["main"]
    with pytest.raises(PassError, match="`try_there` diverges: it matches in its own replacement"):
        rewrite_function(function, [rewrite(try_there), rewrite(try_back)])


def test_a_rule_moves_an_op_past_any_number_of_others() -> None:
    def try_sink(x: Expr) -> Iterator[Expr]:
        """Matches in its own replacement, with a smaller operand."""
        yield permute_dims(exp(x), (1, 0))
        yield exp(permute_dims(x, (1, 0)))

    chain = [f"a{k + 1} = R.exp(a{k})" for k in range(60)]
    module = program("a0 = R.exp(x)", *chain, "b = R.permute_dims(a60, [1, 0])", "return b")
    bindings = find_pass(rewrite(try_sink).name)(module)["main"].bindings()
    assert "permute_dims" in str(bindings[0].value)
    assert len(bindings) == 62


def test_a_rule_reassociates_a_long_sum() -> None:
    def try_right(x: Expr, y: Expr, z: Expr) -> Iterator[Expr]:
        """Matches in its own replacement, which is as large."""
        yield add(add(x, y), z)
        yield add(x, add(y, z))

    sums = [f"a{k + 1} = R.add(a{k}, y)" for k in range(40)]
    module = program("a0 = R.add(x, y)", *sums, "return a40")
    bindings = find_pass(rewrite(try_right).name)(module)["main"].bindings()
    last = bindings[-1].value
    assert len(bindings) == 41
    assert str(last.args[0]) == "x"


def test_a_rule_is_applied_once_per_binding() -> None:
    def try_halve(x: Expr) -> Iterator[Expr]:
        """A new call at each of many bindings."""
        yield square(x)
        yield multiply(x, x)

    lines = ["a0 = R.square(x)", *[f"a{k + 1} = R.square(a{k})" for k in range(200)]]
    module = program(*lines, "return a200")
    assert "square" not in find_pass(rewrite(try_halve).name)(module).script()


def test_applications_report_rule_and_location() -> None:
    counting = Statistics()
    with PassContext([counting]):
        find_pass("simplify")(program("a = R.add(x, R.const(0.0))", "b = R.exp(a)", "return b"))
    (note,) = counting.rows[0][0].notes
    assert note.startswith("main: drop_added_zero at a")


def test_matches_are_extracted_to_functions() -> None:
    def try_dense(x: Expr, y: Expr) -> Iterator[Expr]:
        """tanh of a sum."""
        total = add(x, y)
        yield tanh(total)
        yield total

    module = program(
        "a = R.add(x, y)", "b = R.tanh(a)", "c = R.add(x, b)", "d = R.tanh(c)", "return (c, d)"
    )
    made = extract_matches(module, rewrite(try_dense))
    assert list(made.functions) == ["main", "try_dense"]  # c is read elsewhere
    assert made["try_dense"].attrs == {"composite": "try_dense"}
    with PassContext([VerifyIR(), VerifyResults()]) as context:
        (checking,) = [i for i in context.instruments if isinstance(i, VerifyResults)]
        structir.passes.Pass("extract", lambda given: made)(module)
    assert checking.functions["main"].elements
    assert structural_equal(structir.parse(made.script()), made)


def test_elementwise_ops_preserve_the_shape():
    found = []
    for op in registered_ops():
        if acts_element_wise(SimpleNamespace(op=op)):
            call = example_call(op.definition)
            sizes = [getattr(operand.struct_info, "dims", None) for operand in call.args]
            assert call.struct_info.dims in sizes, op.name
            found.append(op.name)
    assert {"add", "exp", "where"} <= set(found)
    assert not {"flatten", "nonzero", "nn.cross_entropy_with_logits", "sum"} & set(found)


def _patterns() -> dict[str, tuple[Callable[[Any], Any], str]]:
    """Patterns with literals as a user writes them, and a program that each plainly means."""
    return {
        "list for a shape": (
            lambda x: R.roll(x, shift=[1], axis=[1]),
            "R.roll(x, shift=[1], axis=[1])",
        ),
        "tuple for a shape": (lambda x: R.roll(x, (1,), axis=[1]), "R.roll(x, (1,), axis=[1])"),
        "shape": (lambda x: R.reshape(x, (2, 8)), "R.reshape(R.ones((4, 4), 'float32'), (2, 8))"),
        "R.shape": (
            lambda x: R.reshape(x, R.shape([2, 8])),
            "R.reshape(R.ones((16,), 'float32'), (2, 8))",
        ),
        "Constant": (lambda x: R.add(x, Constant(np.float32(3.0))), "R.add(x, R.const(3.0))"),
        "R.const": (lambda x: R.add(x, R.const(3.0, "float32")), "R.add(x, R.const(3.0))"),
        "int for a float": (lambda x: R.clip(x, 0, 1), "R.clip(x, 0.0, 1.0)"),
        "R.prim_value": (
            lambda x: R.clip(x, R.prim_value(0.0), R.prim_value(1.0)),
            "R.clip(x, 0.0, 1.0)",
        ),
    }


@pytest.mark.parametrize("case", _patterns().values(), ids=_patterns())
def test_a_literal_in_a_pattern_matches_what_the_op_stores(
    case: tuple[Callable[[Any], Any], str],
) -> None:
    pattern, call = case

    def literal_rule(x: Expr) -> Iterator[Expr]:
        """Negates the result."""
        result = pattern(x)
        yield result
        yield negative(result)

    _, applications = rewrite_function(
        program(f"y = {call}", "return y")["main"], [rewrite(literal_rule)], Provenance()
    )
    assert len(applications) >= 1


def one_variable(x: Expr) -> Iterator[Expr]:
    yield x
    yield x


def foreign_variable(x: Expr, y: Expr) -> Iterator[Expr]:
    yield exp(x)
    yield add(x, y)


def no_generator(x: Expr) -> Any:
    return exp(x)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (one_variable, "expected a call of an op as the pattern, found a single variable"),
        (foreign_variable, "the pattern does not mention `y`"),
        (no_generator, "expected a generator, found no `yield`"),
    ],
)
def test_an_invalid_rule_is_an_error_at_its_declaration(function: Any, message: str) -> None:
    with pytest.raises(DiagnosticError, match="E1133") as caught:
        rewrite_function(program("return R.exp(x)")["main"], [rewrite(function)])
    RULES.pop(function.__name__, None)
    assert message in str(caught.value) and f"{function.__name__}: " in str(caught.value)
    assert "test_rewriting.py:" in str(caught.value)
