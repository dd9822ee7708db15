"""Tests of parameters without annotation: tensors, or tuples and functions by their uses."""

import ast
import re
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, StructIRError
from structir.ir import IRModule
from structir.tools.comparison import require_agreement, result
from structir.tools.generate import random_arguments, random_module

pytestmark = pytest.mark.filterwarnings("ignore::structir.errors.DiagnosticWarning")
TENSOR = "R.Tensor"
PAIR = "R.Tuple(R.Tensor, R.Tensor)"
RAGGED = re.compile(r"""['"]\*(:\w+)?['"]""")  # in an annotation: the name of a ragged axis


def params_of(module: IRModule) -> list[str]:
    """Returns the StructInfos of the parameters of `main`; checks the round trip."""
    assert structir.structural_equal(structir.parse(module.script()), module)
    structir.analysis.check_well_formed(module)
    return [str(param.struct_info) for param in module["main"].params]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["return x"], TENSOR),
        (["return R.exp(x)"], TENSOR),
        (["a, b = x", "return R.add(a, b)"], PAIR),
        (["y = x", "a, b = y", "return a"], PAIR),
        (["a, p = x", "b, c = p", "return (a, b, c)"], f"R.Tuple(R.Tensor, {PAIR})"),
        (["with R.dataflow():", "    a, b = x", "    R.output(a)", "return a"], PAIR),
        (["x = R.split(x, 2)", "a, b = x", "return a"], TENSOR),
        (["a, x = x", "return R.add(a, x)"], PAIR),
        (["a, x = x", "b, c = x", "return (a, b, c)"], f"R.Tuple(R.Tensor, {PAIR})"),
        (["y = x", "x = (c, c)", "a, b = x", "return R.add(a, y)"], TENSOR),
        (["for k in range(2):", "    a, b = x", "    c = R.add(a, b)", "return c"], PAIR),
        (
            ["if c:", "    a, b = x", "    y = a", "else:", "    y = R.sum(c)", "return c"],
            PAIR,
        ),
    ],
)
def test_parameter_without_annotation_has_the_structure_that_the_body_requires(
    lines: list[str], expected: str
) -> None:
    body = "\n".join(f"    {line}" for line in lines)
    module = structir.parse(f'@R.function\ndef main(x, c: R.Tensor((), "bool")):\n{body}')
    assert params_of(module)[0] == expected


def test_inference_completes_parameters_without_annotation() -> None:
    program = structir.parse("""
@R.function
def main(x, w, b):
    return R.tanh(R.matmul(x, w) + b) * R.const(0.5, "float32") + R.zeros((2, 3), "float32")
""")
    assert params_of(program) == [TENSOR] * 3
    inferred = structir.infer(program)
    assert params_of(inferred) == ['R.Tensor(dtype="float32")'] * 3
    arguments = [np.ones(sizes, "float32") for sizes in ((2, 4), (4, 3), (3,))]
    expected = 0.5 * np.tanh(np.full((2, 3), 5, "float32"))
    for module in (program, inferred):
        for run in (structir.interpret(module, "main", *arguments), structir.compile(module)):
            value = run(*arguments) if callable(run) else run
            np.testing.assert_allclose(value, expected, rtol=1e-6)
    with pytest.raises(StructIRError):
        structir.interpret(program, "main", arguments[0].astype("float16"), *arguments[1:])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["return f(x)"], "R.Callable((R.Tensor,), R.Tensor)"),
        (["return R.add(x, f(R.exp(x), x))"], "R.Callable((R.Tensor, R.Tensor), R.Tensor)"),
        (["g = f", "return g(x)"], "R.Callable((R.Tensor,), R.Tensor)"),
        (["@R.function", "def f(y):", "    return y", "return f(x)"], TENSOR),
        (["y, s = f(x, (x, x))", "h, c = s", "return R.add(y, h)"], "LSTM"),
        (["p = f(x, (x, x))", "y, s = p", "a, b = s", "return y"], "LSTM"),
    ],
)
def test_parameter_without_annotation_that_is_called_is_a_function(
    lines: list[str], expected: str
) -> None:
    body = "\n".join(f"    {line}" for line in lines)
    module = structir.parse(f"@R.function\ndef main(f, x):\n{body}")
    expected = expected.replace(
        "LSTM", f"R.Callable((R.Tensor, {PAIR}), R.Tuple(R.Tensor, {PAIR}))"
    )
    assert params_of(module) == [expected, TENSOR]


@pytest.mark.parametrize(
    "cell",
    [
        "x, state",
        "x, state: R.Tuple(R.Tensor, R.Tensor)",
        "x, state: R.Tuple([R.Tensor, R.Tensor])",
    ],
)
@pytest.mark.parametrize("call", ["cls.cell(x, s)", "cls.cell(state=s, x=x)", "cls.again(x, s)"])
def test_parameter_without_annotation_has_the_structure_that_a_callee_requires(
    cell: str, call: str
) -> None:
    program = structir.parse(f"""
@I.ir_module
class M:
    @R.function
    def main(s, x):
        cls = M
        return {call}

    @R.function
    def again(x, state) -> R.Tensor:
        cls = M
        if R.const(False, "bool"):
            y = cls.again(x, state)
        else:
            y = cls.cell(x, state)
        return y

    @R.function
    def cell({cell}) -> R.Tensor:
        h, c = state
        return R.add(R.add(x, h), c)
""")
    assert params_of(program) == [PAIR, TENSOR]


def test_each_field_has_the_structure_that_the_same_callee_requires() -> None:
    program = structir.parse("""
@I.ir_module
class M:
    @R.function
    def main(states, x):
        cls = M
        s, t = states
        return cls.cell(cls.cell(x, s), t)

    @R.function
    def cell(x, state):
        h, c = state
        return R.add(R.add(x, h), c)
""")
    assert params_of(program) == [f"R.Tuple({PAIR}, {PAIR})", TENSOR]


def test_structures_that_grow_exponentially_through_calls_are_one_error() -> None:
    text = "\n".join(
        f"    @R.function\n    def f{k}(s):\n        cls = M\n        a, b = s\n"
        f"        return R.add(cls.f{k + 1}(a), cls.f{k + 1}(b))"
        for k in range(30)
    )
    last = "    @R.function\n    def f30(s):\n        return s\n"
    with pytest.raises(DiagnosticError):
        structir.parse(f"@I.ir_module\nclass M:\n{text}\n{last}")


@pytest.mark.parametrize("count", [10, 3000])
def test_long_chains_of_names_do_not_exhaust_the_stack(count: int) -> None:
    aliases = "\n".join(f"    x{k + 1} = x{k}" for k in range(count))
    last = f"    a, b = x{count}\n    return a"
    text = f"@R.function\ndef main(x0):\n{aliases}\n{last}"
    if count == 10:
        assert params_of(structir.parse(text)) == [PAIR]
    else:
        with pytest.raises(DiagnosticError, match="not a tuple"):
            structir.parse(text)


@pytest.mark.parametrize("f", ["f", "f: R.Callable((R.Tensor,), R.Tensor)"])
def test_function_without_annotation_is_passed_on(f: str) -> None:
    program = structir.parse(f"""
@I.ir_module
class M:
    @R.function
    def main(f, x):
        cls = M
        return cls.residual(f, x)

    @R.function
    def residual({f}, x):
        return x + f(x)
""")
    assert params_of(program) == ["R.Callable((R.Tensor,), R.Tensor)", TENSOR]


def test_residual_and_loop_without_annotations_take_functions() -> None:
    program = structir.parse("""
@I.ir_module
class M:
    @R.function
    def residual(f, x):
        return x + f(x)

    @R.function
    def loop(cell, state, x):
        h, c = state
        y, s = cell(x, (h, c))
        h1, c1 = s
        return cell(y, (h1, c1))

    @R.function
    def layer(x):
        return R.tanh(x)

    @R.function
    def cell(x, state):
        h, c = state
        n = R.tanh(x + h)
        return n, (n, c * n)

    @R.function
    def main(x: R.Tensor((3,), "float32"), state):
        cls = M
        h, c = state
        y = cls.residual(cls.layer, x)
        return cls.loop(cls.cell, (h, c), y)
""")
    inferred = structir.infer(program)
    params_of(inferred)
    assert inferred["main"].params[1].struct_info.fields[0].dtype == "float32"
    x, h, c = np.random.default_rng(0).normal(size=(3, 3)).astype("float32")
    value = x + np.tanh(x)
    state = h, c
    for _ in range(2):
        value = np.tanh(value + state[0])
        state = value, state[1] * value
    for module in (program, inferred):
        interpreted = structir.interpret(module, "main", x, (h, c))
        for output in (interpreted, structir.compile(module)["main"](x, (h, c))):
            np.testing.assert_allclose(output[0], value, rtol=1e-5)
            np.testing.assert_allclose(output[1][1], state[1], rtol=1e-5)


def test_lstm_cell_without_annotations_has_a_tuple_state() -> None:
    program = structir.parse("""
@I.ir_module
class M:
    @R.function
    def cell(x, state, w, u):
        h, c = state
        gates = R.matmul(x, w) + R.matmul(h, u)
        i, f, o, g = R.split(gates, 4, axis=-1)
        c1 = R.sigmoid(f) * c + R.sigmoid(i) * R.tanh(g)
        h1 = R.sigmoid(o) * R.tanh(c1)
        return h1, (h1, c1)

    @R.function
    def main(x: R.Tensor((2, 5), "float32"), state, w, u: R.Tensor((3, 12))):
        cls = M
        h, c = state
        y, s = cls.cell(x, (h, c), w, u)
        return cls.cell(x, s, w, u)
""")
    assert params_of(program)[1] == PAIR
    inferred = structir.infer(program)
    params_of(inferred)
    state = inferred["main"].params[1].struct_info
    assert [field.dtype for field in state.fields] == ["float32", "float32"]
    rng = np.random.default_rng(0)
    sizes = (2, 5), (2, 3), (2, 3), (5, 12), (3, 12)
    x, h, c, w, u = [rng.normal(size=size).astype("float32") for size in sizes]
    expected = structir.interpret(program, "main", x, (h, c), w, u)
    value = structir.compile(inferred)["main"](x, (h, c), w, u)
    np.testing.assert_allclose(value[0], expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(value[1][1], expected[1][1], rtol=1e-5, atol=1e-6)


def test_number_as_a_default_without_annotation_needs_a_dtype() -> None:
    with pytest.raises(DiagnosticError) as error:
        structir.parse("@R.function\ndef main(x, y=2.0):\n    return x + y")
    assert error.value.diagnostics[0].hint == 'write the dtype: `y=R.const(2.0, "float32")`'
    text = '@R.function\ndef main(x, y=R.const(2.0, "float32")):\n    return x + y'
    assert params_of(structir.parse(text)) == [TENSOR, TENSOR]


class _WithoutAnnotations(ast.NodeTransformer):
    """Removes the annotations of bindings, and of results."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        node.returns = None
        return self.generic_visit(node)  # type: ignore[return-value]


def _without_annotations(text: str) -> tuple[IRModule, int] | None:
    """Removes the annotations of results and bindings, and each annotation of a tensor parameter
    of `main` without which the program is valid."""
    tree, removed, module = _WithoutAnnotations().visit(ast.parse(text)), 0, None
    mains = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "main"]
    for param in mains[0].args.args:
        text = ast.unparse(param.annotation)
        if not text.startswith(TENSOR) or RAGGED.search(text):
            continue  # whether an axis is ragged is not inferred
        annotation, param.annotation = param.annotation, None
        try:
            candidate = structir.parse(ast.unparse(tree))
            structir.analysis.check_well_formed(candidate)
            module, removed = candidate, removed + 1
        except DiagnosticError:
            param.annotation = annotation
    return None if module is None else (module, removed)


def test_random_programs_without_annotations_infer_to_the_same_results() -> None:
    total = 0
    for seed in range(40):
        original = random_module(seed, 3)
        reduced = _without_annotations(original.script())
        if reduced is None:
            continue
        total += reduced[1]
        inferred = result(structir.infer, [reduced[0]])
        if isinstance(inferred, StructIRError):  # of a function whose match_cast always fails
            assert isinstance(result(structir.infer, [original]), StructIRError), seed
            continue
        assert structir.structural_equal(structir.parse(inferred.script()), inferred)
        arguments = random_arguments(original["main"], seed)
        expected = _outcome(original, arguments)
        for module in (reduced[0], inferred):
            value = _outcome(module, arguments)
            if isinstance(expected, StructIRError):  # an argument that only the annotation rejects
                assert module is reduced[0] or isinstance(value, StructIRError), seed
            else:
                require_agreement(original, "main", arguments, expected, value)
    assert total >= 40


def _outcome(module: IRModule, arguments: Sequence[object]) -> object:
    return result(partial(structir.interpret, module, "main"), arguments)


@pytest.mark.parametrize(
    ("params", "value", "expected"),
    [
        ("x, y, z", "R.ewise_fma(x, y, z)", ['R.Tensor(("*r0",), dtype="\'T")'] * 4),
        (
            "x",
            "R.exp(x - R.max(x, axis=-1, keepdims=True)) / R.sum(x, axis=-1, keepdims=True)",
            ['R.Tensor(("*rest", i0), dtype="\'T")'] * 2,
        ),
        (
            "q, k, v",
            'R.einsum((R.nn.softmax(R.einsum((q, k), "*b n d; *b m d -> *b n m")), v), '
            '"*b n m; *b m e -> *b n e")',
            [f'R.Tensor(("*b", {axes}), dtype="\'T")' for axes in ("n, d", "m, d", "m, e", "n, e")],
        ),
    ],
    ids=["ewise_fma", "softmax", "attention"],
)
def test_axes_and_dtypes_of_parameters_without_annotation_are_inferred(
    params: str, value: str, expected: list[str]
) -> None:
    program = structir.parse(f"@R.function\ndef main({params}):\n    return {value}")
    inferred = structir.infer(program)
    infos = [*params_of(inferred), str(inferred["main"].ret_struct_info)]
    assert infos == expected
