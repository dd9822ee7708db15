"""What `@op` refuses when an op is declared, and that every built-in op passes the same checks."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import structir
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.ir import op as registry
from structir.ir import registered_ops
from structir.ir.struct_info import OBJECT
from structir.opdef.declaration import DeclaredOp
from structir.opdef.declaration_checks import check_declaration
from structir.opdef.define import op
from structir.opdef.notation import NotationError
from structir.projections.monoid import MONOIDS
from structir.projections.scalar_expr import LoopIndex, ScalarExpr


@pytest.fixture(autouse=True)
def _same_ops_afterwards() -> Iterator[None]:
    registered_ops()
    before = dict(registry._ops)
    yield
    registry._ops.clear()
    registry._ops.update(before)


def one(x: ScalarExpr) -> ScalarExpr:
    return x


def two(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    return x * y


def of_numpy(x: ScalarExpr) -> ScalarExpr:
    return np.exp(x)


def of_math(x: ScalarExpr) -> ScalarExpr:
    return math.exp(x)  # type: ignore[arg-type, return-value]


def branching(x: ScalarExpr) -> ScalarExpr:
    return x if x > 0 else 0 * x


def an_array(x: ScalarExpr) -> ScalarExpr:
    return np.zeros(3)  # type: ignore[return-value]


def without_return(x: ScalarExpr) -> ScalarExpr:  # type: ignore[empty-body]
    pass


def of_an_index(x: ScalarExpr, k: LoopIndex) -> ScalarExpr:
    return x


def pair(x: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
    return x, x


pair.__annotations__["return"] = ScalarExpr


def exp(x: ScalarExpr) -> ScalarExpr:
    return x


def bare(x: ScalarExpr):
    return x


WRONG: list[tuple[str, Callable[..., Any], dict[str, Any], str, str]] = [
    # signature, body, options, what is under the caret, message
    ("x[i, j] -> out[i]", one, {}, "x[i, j]", "index j .* missing from the output out"),
    ("x[*s] -> out[]", one, {}, "x[*s]", "index s .* missing from the output"),
    ("x[flat(i, *s)] -> out[i]", one, {}, "x[flat(i, *s)]", "index s .* missing"),
    ("x[i, 2 * j : n] -> out[i]", one, {}, "x[i, 2 * j : n]", "found j"),
    ("x[i], y[i, j] -> out[i]", two, {}, "y[i, j]", "index j .* missing"),
    ("x[i, j -> out[i]", one, {}, "[", "expected `]`"),
    ("x[], y[i]] -> out[]", two, {}, "]", "expected an opening bracket"),
    ("x[i) -> out[i]", one, {}, ")", "expected an opening bracket"),
    ("x[i] out[i]", one, {}, None, "expected `->`, found none"),
    ("", one, {}, None, "expected `->`, found none"),
    ("x[i] -> ", one, {}, "->", "expected a result"),
    ("x[i i] -> out[i]", one, {}, "i", "syntax error"),
    ("x[i], y[] -> out[i k]", two, {}, "i", "syntax error"),
    ("x[i / 2] -> out[i]", one, {}, "i / 2", "expected an index expression"),
    ("x[], y[f(i)] -> out[i]", two, {}, "f(i)", "expected size, flat, min or max, found f"),
    ("x[size()] -> out[i]", one, {}, "size()", "expected an index expression"),
    ("x -> out[i]", one, {}, "x", "expected an operand or a result"),
    ("x[i] or q + 1 -> out[i]", one, {}, "q + 1", "expected a number"),
    ("x[i, j] -> out[i]", one, {"reduce": "avg"}, None, "one of sum.*found 'avg'"),
    ("x[i] -> out[i, l]", one, {}, "out[i, l]", "found l"),
    ("x[i] -> out[i, *q]", one, {}, "out[i, *q]", "found q"),
    ("x[i] -> out[l : i]", one, {}, "out[l : i]", "found l"),
    ("y[i] -> out[i]", one, {}, "y[i]", r"expected a body parameter y .*, found \(x\)"),
    ("x[i] -> out[i]", two, {}, None, "expected an operand of the signature, found .* y"),
    ("x[i] -> out[i]", of_an_index, {}, None, "found the index k"),
    ("x[i] -> x[i]", one, {}, "x[i]", "found x twice"),
    ("x[i] @ F -> out[i] @ T1", one, {}, "T1", "dtype variable of an operand, found T1"),
    ("x[i] @ F -> out[i]", one, {}, "out[i]", "dtype variable of an operand, found T"),
    ("x[i] @ F1, y[i] @ F2 -> out[i] @ I", two, {}, "I", "dtype variable of an operand, found I"),
    ("x[i] @ int64 -> out[i] @ J", one, {}, "J", "dtype variable of an operand, found J"),
    ("x[i] @ Q -> out[i]", one, {}, "Q", "expected a dtype.*found Q"),
    ("x[i] -> out[i] @ flaot32", one, {}, "flaot32", "expected a dtype.*found flaot32"),
    ("x[i] -> out[i]", one, {"where": "i in 3"}, "i in 3", "expected a comparison"),
    ("x[i] -> out[i]", one, {"on": "i < 3 and g(i) == 2"}, "g(i)", "found g"),
    ("x[i] -> out[i]", one, {"at": {"i": "axis"}}, None, "expected an attribute in `at`"),
    ("x[i] -> out[i]", one, {"base": "z"}, None, "operand in `base`, found 'z'"),
    ("x[i] -> out[i]", one, {"fill": "z"}, None, "attribute in `fill`, found 'z'"),
    ("x[i] -> out[i]", of_numpy, {}, "np.exp(x)", "scalar expression.*raises TypeError"),
    ("x[i] -> out[i]", of_math, {}, "math.exp(x)", "scalar expression.*raises TypeError"),
    ("x[i] -> out[i]", branching, {}, "x > 0", "no truth value"),
    ("x[i] -> out[i]", without_return, {}, None, "value of the body, found none"),
    ("x[i] -> out[i]", an_array, {}, None, "or a number, found ndarray"),
    ("x[i] -> out[i]", pair, {}, "out[i]", "one value for each of 1 results, found 2"),
    ("x[i] -> out[i]", exp, {}, None, "name of the built-in op R.exp"),
    ("x[i] -> out[i]", one, {"name": "nn.relu"}, None, "name of the built-in op R.nn.relu"),
    ("x[i] -> out[i]", one, {"name": "a b"}, None, "expected identifiers"),
    ("x[i], y[i] out[i]", two, {}, " ", "expected `->`, found none"),
    ("x[-1] -> out[]", one, {}, "-1", "expected the size of an axis, at least 0, found -1"),
    ("x[i:j:k] -> out[i]", one, {}, "i:j:k", "expected an index expression"),
    (
        "x[i] -> out[i]",
        one,
        {"on": "i < 3 and q < 3"},
        "q < 3",
        "of the signature in `on`, found q",
    ),
    ("x[i], x[j] -> out[i, j]", one, {}, "x[j]", "found x twice"),
    ("x[i] -> out[i * q]", one, {}, "out[i * q]", "found q"),
    (" -> out[i]", one, {}, " -> out[i]", "found the parameter x"),
    ("x[é✓] -> out[é]", one, {}, "✓", "syntax error"),
    ("x[i] -> out[i] -> z[i]", one, {}, "-", "syntax error"),
    ("x[i] -> out[i])", one, {}, ")", "expected an opening bracket"),
    ("x[i] -> out[i]", one, {"reduc": "sum"}, None, "expected an option of `op`, found 'reduc'"),
    (
        "x[i] -> out[i]",
        bare,
        {},
        None,
        "missing return annotation: expected ScalarExpr, Expr or Array, found none",
    ),
]


@pytest.mark.parametrize(
    ("signature", "body", "options", "under", "told"),
    WRONG,
    ids=[f"{k}" for k in range(len(WRONG))],
)
def test_a_wrong_declaration_is_one_error_with_its_position(
    signature: str, body: Any, options: Any, under: str | None, told: str
) -> None:
    before = dict(registry._ops)
    with pytest.raises(NotationError, match=told) as error:
        op(signature, **options)(body)
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.op
    assert "expected" in diagnostic.message or "syntax error" in diagnostic.message
    if under is not None:
        span = diagnostic.span
        assert span is not None
        assert span.source.line(span.line)[span.column : span.end_column] == under
    assert dict(registry._ops) == before, "a refused op is not registered"


RIGHT = [
    ("x[i, j] -> out[i]", one, {"reduce": "sum"}),
    ("x[i, j] -> out[i]", one, {"on": "i == j"}),
    ("x[~i], y[i] -> out[i]", two, {}),
    ("x[*s, i], y[*s, i] -> out[*s]", two, {"reduce": "max"}),
    ("x[flat(i, j)], y[j] -> out[i, j]", two, {}),
    ("x[i]\n -> out[i, j]", one, {"where": "j == 3"}),
]


@pytest.mark.parametrize(("signature", "body", "options"), RIGHT)
def test_a_right_declaration_is_accepted(signature: str, body: Any, options: Any) -> None:
    assert op(signature, name="accepted", **options)(body).definition.name == "accepted"
    op(signature, name="accepted", **options)(body)  # its author may declare it again


def test_an_example_of_another_rank_is_rejected_where_it_is_added() -> None:
    declaration = op("x[i, j] -> out[i]", name="with_example", reduce="sum")(one)
    declaration.example(np.ones((2, 3), "float32"))
    with pytest.raises(DiagnosticError, match="expected 2 axes, found 1"):
        declaration.example(np.ones(3, "float32"))
    assert len(declaration.definition.samples) == 1


def test_every_edit_that_a_hint_gives_is_accepted() -> None:
    for reduce in MONOIDS:
        op("x[i, j] -> out[i]", name="reduced", reduce=reduce)(one)
    with pytest.raises(NotationError) as error:
        op("x[i, j] -> out[i]")(one)
    assert 'reduce="sum"' in str(error.value)


def test_built_in_ops_pass_the_checks() -> None:
    wrong = {}
    for each in registered_ops():
        if isinstance(each.definition, DeclaredOp):
            try:
                check_declaration(each.definition)
            except Exception as error:
                wrong[each.name] = str(error)
    assert wrong == {}


ROW = "x[], y1 -> *ij@F~:+"


@given(st.text(alphabet=ROW, max_size=14), st.text(alphabet=ROW, max_size=8))
def test_any_text_is_a_signature_or_a_notation_error(left: str, right: str) -> None:
    for text in (left, f"x[{left}] -> y[{right}]"):
        try:
            check_declaration(DeclaredOp("fuzzed", text, one))
        except DiagnosticError as error:
            assert len(error.diagnostics) == 1
            assert str(error)


def test_a_declared_op_runs() -> None:
    op("x[i, j] -> out[i]", name="row_sums", reduce="sum")(one)
    text = "@R.function\ndef main(x: R.Tensor((2, 3), 'float32')):\n    return R.row_sums(x)\n"
    result = structir.interpret(structir.parse(text), "main", np.ones((2, 3), np.float32))
    assert result.tolist() == [3.0, 3.0]


def test_a_body_in_place_of_the_signature_is_an_error() -> None:
    with pytest.raises(NotationError, match="expected an index signature, found a body") as error:
        op(one)
    assert error.value.diagnostics[0].hint == 'write `@op("x[i] -> y[i]")` above the body'


@pytest.mark.parametrize(("target", "edit"), [("gpu", "cuda"), ("CPU", "cpu"), (3, "cpu")])
def test_an_unknown_target_of_a_kernel_is_an_error(target: Any, edit: str) -> None:
    declared = op("x[*s, [i]] @ F -> y[*s, [i]] @ F", name="sorted_in_test")(of_arrays)
    with pytest.raises(
        NotationError, match=r"expected a target such as \(.*cpu.*\), found"
    ) as error:
        declared.kernel(target)(lambda x, y: None)
    assert error.value.diagnostics[0].hint == f'write `@sorted_in_test.kernel("{edit}")`'
    declared.kernel("rocm")(lambda x, y: None)  # of a backend that is not installed here


def of_arrays(x: Any) -> Any:
    return x


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("body", "told"),
    [
        (lambda x: x[..., :2], r"expected an array of shape \(2, 4\), found \(2, 2\)"),
        (lambda x: x.sum(-1), r"expected an array of shape \(2, 4\), found \(2,\)"),
        (lambda x: (x, x), "expected 1 results, found 2"),
        (lambda x: None, "an array of integers or floats, found None"),
        (lambda x: [[None] * 4] * 2, "an array of integers or floats, found .*None"),
        (lambda x: x * 1j, "an array of integers or floats, found an array of comp"),
        (lambda x: "text", "an array of integers or floats, found 'text'"),
        (lambda x: [[1], [1, 2]], "expected an array, found list: .*inhomogeneous"),
        (lambda x: x.missing, "the body raises AttributeError at .*'missing'"),
    ],
)
def test_a_wrong_value_of_a_body_on_arrays_is_an_error(
    body: Any, told: str, compiled: bool
) -> None:
    body.__annotations__["return"] = Any
    declare = op("x[*s, [i]] @ F -> y[*s, [i]] @ F", name="wrong_in_test")
    declare(body)
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    return R.wrong_in_test(x)
""")
    x = np.ones((2, 4), "float32")
    for attached in (False, True):  # as the body, and as the reference
        if attached:
            declare(body).reference(body)
        with pytest.raises(ShapeMismatchError, match=told) as error:
            if compiled:
                structir.compile(module)["main"](x)
            else:
                structir.interpret(module, "main", x)
        assert error.value.code == "E1135"


@pytest.mark.parametrize("as_list", [tuple, list, np.stack])
@pytest.mark.parametrize("attached", ["body", "reference"])
def test_several_results_may_be_a_tuple_or_a_list(as_list: Any, attached: str) -> None:
    def body(x: Any) -> Any:
        return as_list([x, x + 1])

    if attached == "body" and as_list is np.stack:
        return  # one array is one result of a body
    declared = op("x[*s, [i]] @ F -> y[*s, [i]] @ F, z[*s, [i]] @ F", name="pair_in_test")(body)
    if attached == "reference":
        declared.reference(body)
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    return R.pair_in_test(x)
""")
    x = np.ones((2, 4), "float32")
    first, second = structir.interpret(module, "main", x)
    np.testing.assert_array_equal([first, second], [x, x + 1])


@pytest.mark.parametrize("value", ["text", {"a": 1}, np.array(["a", "b"]), None, Fraction(1, 2)])
def test_a_reference_of_an_object_returns_any_value(value: Any) -> None:
    declared = op("x[*s, [i]] @ F -> y[*s, [i]] @ F", name="object_in_test")(of_arrays)
    declared.struct_info(lambda call: OBJECT)
    declared.reference(lambda x: value)
    module = structir.parse("""
@R.function
def main(x: R.Tensor((2, 4), "float32")) -> R.Object:
    return R.object_in_test(x)
""")
    assert structir.interpret(module, "main", np.ones((2, 4), "float32")) is value


def test_numbers_of_python_are_arrays() -> None:
    for name, number in (("fraction_in_test", Fraction(1, 2)), ("float_in_test", 0.5)):
        declared = op("x[*s, [i]] @ F -> y[*s] @ F", name=name)(of_arrays)
        declared.reference(lambda x, number=number: number)
        text = f"@R.function\ndef main(x: R.Tensor((4,), 'float32')):\n    return R.{name}(x)"
        result = structir.interpret(structir.parse(text), "main", np.ones(4, "float32"))
        assert result == 0.5 and result.dtype == np.float32
