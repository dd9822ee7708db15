"""The reference interpreter: control flow, functions, arguments, sizes, external functions."""

import re
from functools import partial

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError, StructIRError
from structir.interpret import interpreter, register_extern
from structir.ir import (
    Call,
    DataflowBlock,
    Function,
    IRModule,
    SeqExpr,
    TensorStructInfo,
    Var,
    VarBinding,
    find_op,
)
from structir.ir import op as op_room
from structir.opdef.opaque import OpaqueDefinition


def module(body):
    """A module class around functions."""
    lines = [f"    {line}" if line else "" for line in body.strip("\n").splitlines()]
    return structir.parse("\n".join(["@I.ir_module", "class Module:", *lines]))


def run(body, name, *args):
    return structir.interpret(module(body), name, *args)


def ones(*shape, dtype="float32"):
    return np.ones(shape, dtype)


FACTORIAL = """
@R.function
def factorial(n: R.Tensor((), "int64"), product: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
    small = R.less(n, R.const(2, "int64"))
    if small:
        result = product
    else:
        less = R.subtract(n, R.const(1, "int64"))
        more = R.multiply(product, n)
        result = Module.factorial(less, more)
    return result
"""


def test_recursion_and_choice():
    assert run(FACTORIAL, "factorial", 5, 1) == 120
    assert run(FACTORIAL, "factorial", np.array(1), np.array(7)) == 7


COUNT_DOWN = """
@R.function
def down(n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
    done = R.less(n, R.const(1, "int64"))
    if done:
        result = n
    else:
        less = R.subtract(n, R.const(1, "int64"))
        inner = Module.down(less)
        result = R.add(inner, R.const(1, "int64"))
    return result
"""


def test_deep_recursion_needs_no_deep_stack():
    assert run(COUNT_DOWN, "down", 5000) == 5000


def test_recursion_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(interpreter, "RECURSION_LIMIT", 3000)
    with pytest.raises(StructIRError, match=r"recursion limit \(3000\) exceeded .*:10:21"):
        run(COUNT_DOWN, "down", 5000)
    assert run(COUNT_DOWN, "down", 1000) == 1000


@pytest.mark.exhaustive
def test_a_hundred_thousand_bindings():
    info = TensorStructInfo((2,), "float32")
    x = Var("x", info)
    previous, bindings = x, []
    negative = find_op("negative")
    for k in range(100_000):
        var = Var(f"v{k}", info)
        bindings.append(VarBinding(var, Call(negative, (previous,), {}, (), info)))
        previous = var
    body = SeqExpr((DataflowBlock(tuple(bindings)),), previous)
    mod = IRModule({"main": Function((x,), body, info)})
    np.testing.assert_array_equal(structir.interpret(mod, "main", ones(2)), ones(2))


CLOSURES = """
@R.function
def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
    n = T.int64()
    @R.function
    def scaled(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
        return R.multiply(x, y)
    a = scaled(x)
    b = scaled(a)
    return b
"""


def test_closures_capture_enclosing_values():
    x = np.array([2, 3], "float32")
    np.testing.assert_array_equal(run(CLOSURES, "main", x), x**3)


@pytest.mark.parametrize("compiles", [False, True])
def test_a_closure_shows_its_name_and_parameters(compiles):
    text = """
@R.function
def main(x: R.Tensor((2,), "float32")):
    @R.function
    def shifted(y: R.Tensor(("n",), "float32")):
        return R.add(R.exp(y), R.sum(x))
    return shifted
"""
    module, x = structir.parse(text), np.ones(2, np.float32)
    closure = structir.compile(module)["main"](x) if compiles else run(text, "main", x)
    assert repr(closure) == '<Closure shifted(y: R.Tensor((n,), dtype="float32"))>'


HIGHER = """
@R.function
def twice(f: R.Callable((R.Tensor(("n",), "float32"),), R.Tensor(("n",), "float32")),
          x: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
    once = f(x)
    again = f(once)
    return again

@R.function
def double(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
    return R.add(x, x)

@R.function
def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
    return Module.twice(Module.double, x)
"""


@pytest.mark.filterwarnings("ignore")
def test_functions_are_values():
    np.testing.assert_array_equal(run(HIGHER, "main", ones(3)), 4 * ones(3))
    np.testing.assert_array_equal(run(HIGHER, "twice", lambda v: v * 3, ones(2)), 9 * ones(2))


TUPLES = """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    pair = (x, R.shape([2, 3]))
    first = pair[0]
    nested = (pair, first)
    return nested
"""


def test_tuples_and_shapes():
    x = ones(2)
    (pair, first) = run(TUPLES, "main", x)
    np.testing.assert_array_equal(pair[0], x)
    np.testing.assert_array_equal(first, x)
    assert pair[1] == (2, 3)


SIZES = """
@R.function
def main(
    x: R.Tensor(("2 * n + 1", "m"), "float32"), s: R.Shape(["n", "k"])
) -> R.Shape(["k * m", "n"]):
    n = T.int64()
    m = T.int64()
    k = T.int64()
    return R.shape([k * m, n])
"""


def test_sizes_are_solved_from_arguments():
    assert run(SIZES, "main", ones(7, 5), (3, 4)) == (20, 3)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            (ones(6, 5), (3, 4)),
            r"main: parameter x: axis 0: expected 2 \* n \+ 1 for some n, found 6",
        ),
        ((ones(7, 5), (2, 4)), r"main: parameter s: axis 0: expected n = 3, found 2"),
        ((ones(7, 5), (3, -4)), r"main: parameter s: axis 1: expected k >= 0, found -4"),
        ((ones(7), (3, 4)), r"main: parameter x: expected 2 axes, found 1"),
        ((ones(7, 5, dtype="int32"), (3, 4)), r"parameter x: expected dtype float32, found int32"),
        ((ones(7, 5), (3, 4, 5)), r"parameter s: expected a shape of 2 sizes, found 3"),
        (((3, 4), (3, 4)), r"parameter x: expected a tensor, found a tuple of 2"),
        ((ones(7, 5), ones(2)), r"parameter s: expected a shape, found a float32 tensor"),
    ],
)
def test_wrong_arguments_are_named(args, message):
    with pytest.raises(ShapeMismatchError, match=message):
        run(SIZES, "main", *args)


def test_the_number_of_arguments_is_checked():
    with pytest.raises(StructIRError, match="main: expected 2 arguments, found 1"):
        run(SIZES, "main", ones(7, 5))
    with pytest.raises(StructIRError, match="no function `other`"):
        run(SIZES, "other")


MATCH = """
@R.function
def main(x: R.Tensor("float32", ndim=2), z: R.Tensor(("k",), "int64")):
    n = T.int64()
    k = T.int64()
    y = R.match_cast(x, R.Tensor((n, 3 * k), "float32"))
    return R.shape([n + k])
"""


@pytest.mark.filterwarnings("ignore")
def test_match_cast_checks_and_binds():
    assert run(MATCH, "main", ones(4, 6), np.zeros(2, np.int64)) == (6,)
    with pytest.raises(ShapeMismatchError, match=r"match_cast of y: axis 1: expected 3 \* k"):
        run(MATCH, "main", ones(4, 5), np.zeros(2, np.int64))


RESULT = """
@R.function
def liar(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
    y = R.call_pure_packed("test.shorten", x, sinfo_args=R.Tensor("float32", ndim=1))
    return y

@R.function
def honest(x: R.Tensor(("n",), "float32")):
    y = R.call_pure_packed("test.shorten", x, sinfo_args=R.Tensor("float32", ndim=1))
    return y

@R.function
def wrong(x: R.Tensor(("n",), "float32")):
    y = R.call_pure_packed("test.shorten", x, sinfo_args=R.Tensor("int32", ndim=1))
    return y

@R.function
def absent(x: R.Tensor(("n",), "float32")):
    y = R.call_pure_packed("test.nobody", x, sinfo_args=R.Tensor("int32", ndim=1))
    return y
"""


@pytest.mark.filterwarnings("ignore")
def test_functions_from_outside():
    register_extern("test.shorten", lambda x: x[1:])
    assert run(RESULT, "honest", ones(3)).shape == (2,)
    with pytest.raises(ShapeMismatchError, match="liar: result: axis 0: expected n = 3, found 2"):
        run(RESULT, "liar", ones(3))
    with pytest.raises(ShapeMismatchError, match=r"result of test\.shorten: expected dtype int32"):
        run(RESULT, "wrong", ones(3))
    with pytest.raises(StructIRError, match="register_extern"):
        run(RESULT, "absent", ones(3))


TUPLE_PARAMETER = """
@R.function
def main(p: R.Tuple(R.Tensor(("n",), "float32"), R.Tensor(("n", "m"), "float32"))):
    return p[1]
"""


def test_tuples_are_checked_field_by_field():
    assert run(TUPLE_PARAMETER, "main", (ones(2), ones(2, 3))).shape == (2, 3)
    with pytest.raises(
        ShapeMismatchError, match=r"parameter p\[1\]: axis 0: expected n = 2, found 3"
    ):
        run(TUPLE_PARAMETER, "main", (ones(2), ones(3, 3)))
    with pytest.raises(ShapeMismatchError, match="a tuple of 2, found one of 1"):
        run(TUPLE_PARAMETER, "main", (ones(2),))


ASSUMED = """
@R.function
def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
    return R.add(x, y)
"""


def test_assumptions_are_checked_at_run_time():
    assert run(ASSUMED, "main", ones(3), ones(1)).shape == (3,)
    with pytest.raises(ShapeMismatchError, match="add"):
        run(ASSUMED, "main", ones(3), ones(2))


PRIMS = """
@R.function
def main(n: R.Prim("int64"), x: R.Tensor("float32", ndim=1)) -> R.Prim("int64"):
    return n
"""


def test_numbers():
    assert run(PRIMS, "main", 7, ones(2)) == 7
    with pytest.raises(ShapeMismatchError, match=r"a number of dtype int64, found float 1\.5"):
        run(PRIMS, "main", 1.5, ones(2))


def test_ops_from_outside(monkeypatch):
    monkeypatch.setattr(op_room, "_ops", dict(op_room._ops))
    OpaqueDefinition("test.doubled", lambda x: x * 2, lambda x: x)
    text = ASSUMED.replace("R.add(x, y)", "R.test.doubled(x)")
    np.testing.assert_array_equal(run(text, "main", ones(3), ones(1)), 2 * ones(3))


@pytest.mark.parametrize(
    "condition", ["m >= n", "m > n", "m >= 2 * n", "n <= m", "m == n + 3", "m > n + 1"]
)
def test_a_requirement_is_shown_as_written(condition):
    module = structir.parse(
        '@R.function\ndef main(x: R.Tensor(("n",)), y: R.Tensor(("m",))):\n'
        f'    R.require("{condition}")\n    return R.exp(x)\n'
    )
    x, y = np.zeros(8, "float32"), np.zeros(5, "float32")
    for call in (partial(structir.interpret, module, "main"), structir.compile(module)["main"]):
        with pytest.raises(
            ShapeMismatchError, match=re.escape(f"expected {condition}, found n = 8")
        ):
            call(x, y)
