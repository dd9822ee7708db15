"""Tests of inferred dtype variables: signatures, soundness on random programs, calls and loops."""

from functools import partial
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir.errors import StructIRError


def signature(text: str, name: str = "main") -> list[str]:
    """Returns the inferred dtypes of the parameters and the result of a function."""
    function = structir.infer(structir.parse(text))[name]
    infos = [*[param.struct_info for param in function.params], function.ret_struct_info]
    return [str(info) for info in infos]


def dtypes(params: str, *body: str) -> list[str]:
    """Returns the dtypes in the inferred signature of a function of tensors."""
    lines = "\n".join(f"    {line}" for line in body)
    function = structir.infer(structir.parse(f"@R.function\ndef main({params}):\n{lines}\n"))[
        "main"
    ]
    infos: list[Any] = [p.struct_info for p in function.params] + [function.ret_struct_info]
    return [str(info.element) for info in infos]


@pytest.mark.parametrize(
    ("params", "body", "expected"),
    [
        ("x, y", ["return R.add(x, y)"], ["'T", "'T", "'T"]),
        ("x", ["return R.nn.relu(x)"], ["'T", "'T"]),
        ("x, y", ["return R.add(x, x)"], ["'T", "None", "'T"]),
        ("x, y", ["return R.greater(x, y)"], ["None", "None", "bool"]),
        ("x, y", ['return R.add(R.add(x, R.const([1.0], "float32")), y)'], ["float32"] * 3),
        ("x, y", ['return (R.add(x, R.astype(y, "int8")))'], ["int8", "None", "int8"]),
        ("x, i", ["return R.take(x, i)"], ["'T", "None", "'T"]),
        (
            'x: R.Tensor(("n",), "\'A"), y: R.Tensor(("n",), "\'B"), z',
            ["return R.add(R.add(x, y), z)"],
            ["'A"] * 4,
        ),
        (
            'x: R.Tensor(("n",), "\'A"), y: R.Tensor(("n",), "\'A")',
            ['z = R.add(x, R.const([1.0], "float32"))', "return y"],
            ["float32"] * 3,
        ),
        ('x, s: R.Prim("\'S")', ["return x * s"], ["'S"] * 3),
        ('x: R.Tensor(("n",), "int8"), s: R.Prim("\'S")', ["return s * x"], ["int8"] * 3),
    ],
)
def test_dtypes_that_must_be_equal_are_one_variable(
    params: str, body: list[str], expected: list[str]
) -> None:
    assert dtypes(params, *body) == expected


def test_a_conditional_has_the_dtype_that_both_branches_return() -> None:
    text = """
@R.function
def main(x, y, c: R.Tensor((), "bool")):
    if c:
        z = R.exp(x)
    else:
        z = R.multiply(x, x)
    return (z, R.add(y, z))
"""
    infos = signature(text)
    assert all('dtype="\'T"' in info for info in (infos[0], infos[1], infos[3]))
    one_sided = text.replace("R.multiply(x, x)", "R.multiply(y, y)")
    assert "'T" not in signature(one_sided)[0]


def test_independent_dtypes_are_different_variables() -> None:
    text = "@R.function\ndef main(x, y):\n    return (R.exp(x), R.exp(y))\n"
    params = [f'R.Tensor(("*r{k}",), dtype="\'{name}")' for k, name in enumerate("TU")]
    assert signature(text) == [*params, f"R.Tuple({', '.join(params)})"]


def test_each_call_instantiates_the_inferred_variables_of_its_callee() -> None:
    text = """
@R.function
def dense(x, w):
    return R.nn.relu(R.matmul(x, w))

@R.function
def main(a: R.Tensor(("n", "k"), "float64"), b, c, d):
    x = cls.dense(a, b)
    y = cls.dense(c, d)
    return (x, y)
"""
    double, open_dtype = 'R.Tensor(dtype="float64")', 'R.Tensor(dtype="\'T")'
    assert signature(text, "dense") == [open_dtype] * 3
    result = f"R.Tuple({double}, {open_dtype})"
    assert signature(text)[1:] == [double, open_dtype, open_dtype, result]


def test_the_variable_of_a_match_cast_stays_in_its_function() -> None:
    text = """
@R.function
def cast(x):
    y = R.match_cast(R.call_pure_packed("f", x, sinfo_args=R.Object), R.Tensor(ndim=1, dtype="'V"))
    return y

@R.function
def main(x, y):
    a = cls.cast(x)
    return R.add(y, y)
"""
    assert "'V" not in str(signature(text, "cast")) + str(signature(text))
    assert structir.analysis.well_formed(structir.infer(structir.parse(text)))


LSTM = """
@R.function
def main(state, x, w, b):
    h, c = state
    gates = R.matmul(R.concat((x, h), axis=-1), w) + b
    i, f, o, g = R.split(gates, 4, axis=-1)
    c2 = R.sigmoid(f) * c + R.sigmoid(i) * R.tanh(g)
    h2 = R.sigmoid(o) * R.tanh(c2)
    return (h2, c2)
"""
RESIDUAL = """
@R.function
def residual(f: R.Callable((R.Tensor,), R.Tensor), x):
    return R.add(x, f(x))

@R.function
def main(x, w):
    y = R.matmul(x, w)
    return R.add(x, y)
"""


@pytest.mark.parametrize("text", [LSTM, RESIDUAL], ids=["lstm", "residual"])
def test_every_tensor_of_the_cells_of_axon_has_one_dtype(text: str) -> None:
    infos = signature(text)
    assert all('dtype="\'T"' in info for info in infos)
    assert "'U" not in str(infos)


# ---- random programs

OPS = ("R.add({}, {})", "R.multiply({}, {})", "R.maximum({}, {})", "R.exp({})", "R.cumsum({})")
OPS += ('R.astype({}, "float32")', "R.greater({}, {})", "R.where({} > {}, {}, {})", "cls.f({}, {})")
OPS += ('R.add({}, R.const([1, 2, 3], "int32"))', "R.concat(({}, {}))", "cls.g(({}, {}))[0]")
COMBINATORS = ("R.map(lambda a: R.multiply(a, a), {})", "R.vmap(lambda a, b: R.add(a, b))({}, {})")
COMBINATORS += ("R.add(R.reduce(R.maximum, R.sum({}), {}), {})", "cls.apply(cls.h, {})")
COMBINATORS += (
    "R.map(lambda a: R.add(a, R.max({})), {})",
    "R.multiply({}, 2)",
    "cls.loop(cls.h2, {})",
)
COMBINATORS += (
    "cls.apply(cls.cast, {})",
    "R.vmap(lambda a, b: R.add(b, a), in_axes=(0, None))({}, {})",
)
COMBINATORS += ("cls.pick({}, {})", "cls.same({}, {})", "R.add(cls.same({}, {}), {})")
HELPERS = """
@R.function(private=True)
def f(x, y):
    return R.add(R.add(x, x), R.astype(y, "int32"))

@R.function(private=True)
def g(pair):
    a, b = pair
    return (R.negative(b), R.multiply(a, a))

@R.function(private=True)
def h(a):
    return R.add(a, a)

@R.function(private=True)
def h2(s, a):
    n = R.add(s, a)
    return (n, n)

@R.function(private=True)
def cast(a):
    return R.astype(a, "int32")

@R.function(private=True)
def pick(a, b):
    if R.greater(R.max(b), R.min(b)):
        c = R.add(a, a)
    else:
        c = R.negative(b)
    return c

@R.function(private=True)
def same(a, b):
    if R.greater(R.max(b), R.min(b)):
        c = R.add(a, a)
    else:
        c = R.negative(a)
    return c

@R.function(private=True)
def apply(fn, a):
    return R.add(fn(a), a)

@R.function(private=True)
def loop(fn, a):
    return R.scan(fn, (R.sum(a),), a)[1]

@R.function
def main(x: R.Tensor((3,)), y: R.Tensor((3,)), z: R.Tensor((3,), {dtype})):
"""


def random_program(random: Random) -> str:
    """Returns a program over three parameters of unknown dtype."""
    names, lines = ["x", "y", "z"], []
    for k in range(random.randint(1, 4)):
        op = random.choice(random.choice((OPS, COMBINATORS)))
        operands = [random.choice(names[:3]) for _ in range(op.count("{}"))]
        lines.append(f"    v{k} = {op.format(*operands)}")
        if "concat" not in op and "None" not in op:
            names.insert(random.randint(0, 2), f"v{k}")
    head = HELPERS.replace("{dtype}", random.choice(["None", '"\'T"']))
    return "\n".join([head.rstrip("\n"), *lines, f"    return ({', '.join(sorted(names))})\n"])


def outcome(program: structir.ir.IRModule, arguments: list[np.ndarray]) -> Any:
    run = partial(structir.interpret, program, "main")
    try:
        return [(value.dtype, value.tolist()) for value in run(*arguments)]
    except StructIRError:
        return "error"


def check(text: str) -> int:
    """Compares a program and its completed form at all dtypes; returns the number of runs."""
    try:
        program = structir.parse(text)
    except StructIRError:
        return 0  # an op rejects a known dtype
    try:
        inferred = structir.infer(program)
    except StructIRError:
        inferred = None  # no run succeeds
    if inferred is not None:
        assert structir.structural_equal(structir.infer(inferred), inferred)
        assert structir.structural_equal(structir.parse(str(inferred)), inferred)
    for choice in product(("float32", "int32"), repeat=3):
        arguments = [np.array([3, 1, 2]).astype(dtype) for dtype in choice]
        expected = outcome(program, arguments)
        assert expected == ("error" if inferred is None else outcome(inferred, arguments))
    return 8


@pytest.mark.filterwarnings("ignore::structir.errors.DiagnosticWarning")
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**9))
def test_inferred_dtype_variables_reject_only_runs_that_fail(seed: int) -> None:
    check(random_program(Random(seed)))
