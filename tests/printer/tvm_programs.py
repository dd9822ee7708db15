"""Programs of the kinds in TVM's tests: as users write them, and as TVM prints them.

Each has its arguments and the function of NumPy that computes its result. `VALUES` of a program
gives the arrays of its `metadata[...]`.
"""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np


@attrs.frozen(eq=False)
class Program:
    """A text, its arguments, and the function of NumPy with the same result."""

    name: str
    text: str
    expected: Callable[..., Any]
    args: tuple[Any, ...]
    constants: dict[str, Any] = attrs.field(factory=dict)


def floats(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Returns distinct numbers of both signs."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 7 % 23 - 9) / 8).reshape(shape).astype(dtype)


def ints(*shape: int, dtype: str = "int64") -> np.ndarray:
    """Returns small integers that are not negative."""
    return (np.arange(int(np.prod(shape))) * 5 % 7).reshape(shape).astype(dtype)


PROGRAMS: list[Program] = []


def case(
    name: str,
    text: str,
    expected: Callable[..., Any],
    *args: Any,
    constants: dict[str, Any] | None = None,
) -> None:
    """Adds one program."""
    PROGRAMS.append(Program(name, text, expected, args, constants or {}))


X = floats(3, 4)
Y = floats(3, 4) + 1
W = floats(4, 5)


ONE_TO_FOUR = np.array([[1, 2], [3, 4]], "float32")


def relu(x: np.ndarray) -> np.ndarray:
    """Returns max(x, 0)."""
    return np.maximum(x, 0)


def softmax(x: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# ---- functions, blocks and bindings

case(
    "one binding",
    """
@R.function
def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
    gv0 = R.add(x, x)
    return gv0
""",
    lambda x: x + x,
    X,
)
case(
    "nested calls",
    """
@R.function
def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
    return R.multiply(R.add(x, y), R.subtract(x, y))
""",
    lambda x, y: (x + y) * (x - y),
    X,
    Y,
)
case(
    "operators",
    """
@R.function
def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
    a = x + y * x - y / R.const(2.0, "float32")
    b = -a
    return b
""",
    lambda x, y: -(x + y * x - y / 2),
    X,
    Y,
)
case(
    "dataflow with dims",
    """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("m", "n"), dtype="float32"), w: R.Tensor(("n", "k"), dtype="float32")) -> R.Tensor(("m", "k"), dtype="float32"):
        m = T.int64()
        k = T.int64()
        n = T.int64()
        R.func_attr({"relax.force_pure": True})
        with R.dataflow():
            lv: R.Tensor((m, k), dtype="float32") = R.matmul(x, w, out_dtype="void")
            lv1: R.Tensor((m, k), dtype="float32") = R.nn.relu(lv)
            gv: R.Tensor((m, k), dtype="float32") = lv1
            R.output(gv)
        return gv
""",
    lambda x, w: relu(x @ w),
    X,
    W,
)
case(
    "two dataflow blocks",
    """
@R.function
def foo(x: R.Tensor(("n",), "float32")) -> R.Tensor(None, "float32", ndim=1):
    with R.dataflow():
        a = R.exp(x)
        b = R.add(a, x)
        R.output(b)
    c = R.sqrt(b)
    with R.dataflow():
        d = R.multiply(c, c)
        R.output(d)
    return d
""",
    lambda x: np.exp(x) + x,
    np.abs(floats(5)),
)
case(
    "annotations without shape",
    """
@R.function
def main(x: R.Tensor(dtype="float32", ndim=2), y: R.Tensor(None, dtype="float32", ndim=2), z: R.Tensor) -> R.Any:
    a: R.Tensor(dtype="float32", ndim=2) = R.add(x, y)
    b: R.Any = a
    c: R.Tensor = z
    return (a, c)
""",
    lambda x, y, z: (x + y, z),
    X,
    Y,
    ints(3),
)
case(
    "match cast binds dims",
    """
@R.function
def main(x: R.Tensor("float32"), y: R.Tensor("float32")) -> R.Tensor(dtype="float32"):
    m = T.int64()
    n = T.int64()
    x0 = R.match_cast(x, R.Tensor([m], "float32"))
    with R.dataflow():
        y0 = R.match_cast(y, R.Tensor([n], "float32"))
        gv = R.concat((x0, y0), axis=0)
        gv1: R.Tensor((m + n,), "float32") = gv
        R.output(gv1)
    return gv1
""",
    lambda x, y: np.concatenate([x, y]),
    floats(3),
    floats(4),
)
case(
    "match cast of tuples",
    """
@R.function
def main(t: R.Tuple(R.Tensor("float32", ndim=1), R.Any)):
    m, n = T.int64(), T.int64()
    t0 = R.match_cast(t, R.Tuple(R.Tensor([m], "float32"), R.Tensor([n, 2], "int64")))
    return (t0[0], t0[1])
""",
    lambda t: t,
    (floats(3), ints(4, 2)),
)
case(
    "match cast of shapes",
    """
@R.function
def main(x: R.Tensor(("b", "s"), "float32")):
    b = T.int64()
    s = T.int64()
    sh: R.Shape(ndim=2) = R.shape_of(x)
    sh1 = R.match_cast(sh, R.Shape((b, s)))
    y = R.reshape(x, R.shape([s, b]))
    return y
""",
    lambda x: x.reshape(4, 3),
    X,
)
case(
    "tuples",
    """
@R.function
def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")) -> R.Tuple(R.Tensor((3, 4), "float32"), R.Tuple(R.Tensor((3, 4), "float32"))):
    t = (x, (y, x))
    u = R.tuple(x, y)
    a: R.Tensor((3, 4), "float32") = t[0]
    b = t[1][0]
    c = u[1]
    d = R.add(a, R.add(b, c))
    return (d, (x,))
""",
    lambda x, y: (x + 2 * y, (x,)),
    X,
    Y,
)
case(
    "tuple parameters",
    """
@R.function
def main(t: R.Tuple([R.Tensor((3, 4), "float32"), R.Tuple(R.Tensor((4, 5), "float32"), R.Tensor)])):
    w = t[1]
    return R.matmul(t[0], w[0])
""",
    lambda t: t[0] @ t[1][0],
    (X, (W, ints(2))),
)
case(
    "empty tuple",
    """
@R.function
def main(x: R.Tensor((3, 4), "float32")) -> R.Tuple:
    return R.tuple()
""",
    lambda x: (),
    X,
)
case(
    "shadowing",
    """
@R.function
def main(x: R.Tensor((3, 4), "float32")):
    y = R.add(x, x)
    z = R.multiply(x, y)
    x = R.add(z, z)
    y = x
    return y
""",
    lambda x: 4 * x * x,
    X,
)
case(
    "if and else",
    """
@R.function
def main(cond: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
    if cond:
        w = R.add(x, x)
        y = R.multiply(w, w)
    else:
        w = R.multiply(x, x)
        y = R.add(w, w)
    return y
""",
    lambda c, x: 2 * x * x,
    np.array(False),
    floats(1),
)
case(
    "nested branches on prim values",
    """
@R.function
def main(x: R.Tensor((2,), "float32"), a: R.Prim("bool"), b: R.Prim("bool")):
    if a:
        if b:
            out = R.add(x, x)
        else:
            out = R.negative(x)
    else:
        out = x
    return out
""",
    lambda x, a, b: -x,
    floats(2),
    True,
    False,
)
case(
    "inner function",
    """
@R.function
def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    @R.function
    def inner(x1: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        s: R.Tensor((2, 3), "float32") = R.add(x1, y)
        return s
    r = inner(x)
    return r
""",
    lambda x, y: x + y,
    floats(2, 3),
    floats(2, 3),
)
case(
    "inner function returned by a function",
    """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        f = Module.make(x)
        r = f(x)
        return r

    @R.function
    def make(y: R.Tensor((2, 3), "float32")) -> R.Callable((R.Tensor((2, 3), "float32"),), R.Tensor((2, 3), "float32")):
        @R.function
        def inner(x1: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            return R.multiply(x1, y)
        return inner
""",
    lambda x: x * x,
    floats(2, 3),
)
case(
    "recursion",
    """
@I.ir_module
class Module:
    @R.function
    def main(i: R.Tensor((), "int64"), s: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        c = R.less(i, R.const(3, "int64"))
        if c:
            j = R.add(i, R.const(1, "int64"))
            t = R.add(s, s)
            r = Module.main(j, t)
        else:
            r = s
        return r
""",
    lambda i, s: 8 * s,
    np.array(0),
    floats(2),
)
case(
    "recursive inner function",
    """
@R.function
def main(x: R.Tensor((2,), "float32"), i: R.Tensor((), "int32")) -> R.Tensor((2,), "float32"):
    @R.function
    def loop(k: R.Tensor((), "int32"), acc: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        cond: R.Tensor((), "bool") = R.greater(k, R.const(0, "int32"))
        if cond:
            r: R.Tensor((2,), "float32") = loop(R.subtract(k, R.const(1, "int32")), R.add(acc, x))
        else:
            r: R.Tensor((2,), "float32") = acc
        return r
    y = loop(i, x)
    return y
""",
    lambda x, i: 3 * x,
    floats(2),
    np.array(2, "int32"),
)
case(
    "private functions and cls",
    """
@I.ir_module
class Module:
    @R.function(private=True)
    def square(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        gv: R.Tensor((n,), dtype="float32") = R.multiply(x, x)
        return gv

    @R.function
    def main(x: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
        m = T.int64()
        cls = Module
        with R.dataflow():
            a: R.Tensor((m,), dtype="float32") = cls.square(x)
            b: R.Tensor((m,), dtype="float32") = cls.square(a)
            R.output(b)
        return b
""",
    lambda x: x**4,
    floats(3),
)
case(
    "functions as values",
    """
@I.ir_module
class Module:
    @R.function
    def twice(f: R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32")), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return f(f(x))

    @R.function
    def inc(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.add(x, R.const(1, "float32"))

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        cls = Module
        return cls.twice(cls.inc, x)
""",
    lambda x: x + 2,
    floats(2),
)
case(
    "attributes of functions and modules",
    """
@I.ir_module
class Module:
    I.module_attrs({"version": 3, "name": "net", "flags": [1, 2]})
    I.module_global_infos({"vdevice": []})
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        R.func_attr({"global_symbol": "main", "num_input": 1, "Composite": "x.y", "list": [1, 2], "map": {"a": 1}})
        return x
""",
    lambda x: x,
    floats(2),
)
case(
    "aliases in blocks",
    """
@R.function
def main(x: R.Tensor((2,), "float32")):
    a = x
    with R.dataflow():
        b = a
        c = b
        R.output(c)
    d = c
    return d
""",
    lambda x: x,
    floats(2),
)
case(
    "several outputs",
    """
@R.function
def main(x: R.Tensor((2,), "float32")):
    with R.dataflow():
        lv = R.exp(x)
        a = R.add(lv, lv)
        b = R.negative(lv)
        R.output(a, b)
    return (a, b)
""",
    lambda x: (2 * np.exp(x), -np.exp(x)),
    floats(2),
)
case(
    "an unused expression",
    """
@R.function
def main(x: R.Tensor((2,), "float32")):
    _ = R.add(x, x)
    _1 = R.exp(x)
    return x
""",
    lambda x: x,
    floats(2),
)
case(
    "func_ret_struct_info",
    """
@R.function
def main(x: R.Tensor((2,), "float32")):
    R.func_ret_struct_info(R.Tensor((2,), "float32"))
    return R.add(x, x)
""",
    lambda x: x + x,
    floats(2),
)
case(
    "func_ret_type and func_ret_value",
    """
@R.function
def main(x: R.Tensor((2,), "float32")):
    R.func_attr({"a": 1})
    R.func_ret_type(R.Tensor((2,), "float32"))
    y = R.emit(R.add(x, x))
    R.func_ret_value(y)
""",
    lambda x: x + x,
    floats(2),
)
case(
    "emit forms",
    """
@R.function
def main(x: R.Tensor("float32", ndim=1)):
    n = T.int64()
    a = R.emit_match_cast(x, R.Tensor((n,), "float32"))
    b = R.emit(R.add(a, a))
    return b
""",
    lambda x: x + x,
    floats(2),
)

# ---- sizes, shapes and prim values

case(
    "sizes computed from dims",
    """
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    n = T.int64()
    m = T.int64()
    y: R.Tensor((n * m,), "float32") = R.reshape(x, (n * m,))
    z = R.reshape(y, R.shape([m, n]))
    s: R.Shape([n, m * 2 + 1]) = R.shape([n, m * 2 + 1])
    w = R.zeros((n + 1, T.max(n, m), m // 2, m % 3, T.floordiv(n, 2)), "float32")
    return (z, w)
""",
    lambda x: (x.reshape(4, 3), np.zeros((4, 4, 2, 1, 1), "float32")),
    X,
)
case(
    "quoted sizes",
    """
@R.function
def main(x: R.Tensor(("n", 2, "2*n"), "float32"), y: R.Tensor(("n + 1",), "float32")) -> R.Tensor(("n", 2, "n * 2"), "float32"):
    return R.add(x, x)
""",
    lambda x, y: 2 * x,
    floats(2, 2, 4),
    floats(3),
)
case(
    "a shape parameter",
    """
@R.function
def main(x: R.Tensor(("a", "b"), "float32"), s: R.Shape(["c", "d"])) -> R.Tensor(("c", "d"), "float32"):
    c = T.int64()
    d = T.int64()
    y = R.reshape(x, R.shape([c, d]))
    z = R.reshape(y, s)
    return z
""",
    lambda x, s: x.reshape(s),
    X,
    (2, 6),
)
case(
    "prim parameters with a value",
    """
@R.function
def main(x: R.Tensor((12,), "float32"), n: R.Prim(value="n")) -> R.Tensor(("n", "12 // n"), "float32"):
    n = T.int64()
    y = R.reshape(x, (n, 12 // n))
    return y
""",
    lambda x, n: x.reshape(n, 12 // n),
    floats(12),
    3,
)
case(
    "prim parameters as TVM prints them",
    """
@R.function
def main(x: R.Tensor((12,), dtype="float32"), n: T.int64) -> R.Tensor(("n", 2), dtype="float32"):
    y: R.Tensor((n, 2), dtype="float32") = R.zeros(R.shape([n, 2]), dtype="float32")
    return y
""",
    lambda x, n: np.zeros((n, 2), "float32"),
    floats(12),
    3,
)
case(
    "prim values",
    """
@R.function
def main(n: R.Prim("int64")):
    a = R.prim_value(3)
    b: R.Prim("int64") = R.prim_value(T.int64(4))
    c = R.prim_value(True)
    d = R.prim_value(1.5)
    e = R.prim_value(T.float32(0.5))
    return (a, b, c, d, e, n)
""",
    lambda n: (3, 4, True, 1.5, 0.5, n),
    7,
)
case(
    "prim values of sizes",
    """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    a = R.prim_value(n * 2)
    b = R.prim_value(n > 2)
    c = R.prim_value(n == 3)
    d = R.prim_value(n // 2 + 1)
    return (a, b, c, d)
""",
    lambda x: (6, True, True, 2),
    floats(3),
)
case(
    "a branch on a size",
    """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    if R.prim_value(n >= 3):
        y = R.add(x, x)
    else:
        y = x
    return y
""",
    lambda x: 2 * x,
    floats(3),
)
case(
    "a branch on a bare comparison of sizes",
    """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    if n % 2 == 0:
        y = R.add(x, x)
    else:
        y = x
    return y
""",
    lambda x: x,
    floats(3),
)
case(
    "arange and full of sizes",
    """
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    n = T.int64()
    a = R.arange(R.prim_value(0), R.prim_value(n), R.prim_value(1), dtype="int64")
    b = R.full((n, 2), R.const(3, "float32"), dtype="float32")
    c = R.ones(R.shape([n]), dtype="int32")
    d = R.arange(n)
    return (a, b, c, d)
""",
    lambda x: (np.arange(3), np.full((3, 2), 3, "float32"), np.ones(3, "int32"), np.arange(3)),
    X,
)
case(
    "shape_to_tensor",
    """
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    n = T.int64()
    s = R.shape_to_tensor(R.shape([n, T.int64(4), 2]))
    t = R.shape_to_tensor(R.shape_of(x))
    u = R.tensor_to_shape(t)
    y = R.reshape(x, (4, n))
    return (s, t, y)
""",
    lambda x: (np.array([3, 4, 2]), np.array([3, 4]), x.reshape(4, 3)),
    X,
)
case(
    "tensor_to_shape",
    """
@R.function
def main(x: R.Tensor((12,), "float32"), s: R.Tensor((2,), "int64")) -> R.Tensor(ndim=2, dtype="float32"):
    sh: R.Shape(ndim=2) = R.tensor_to_shape(s)
    y = R.reshape(x, sh)
    return y
""",
    lambda x, s: x.reshape(3, 4),
    floats(12),
    np.array([3, 4]),
)
case(
    "strings and dtypes",
    """
@R.function
def main(x: R.Tensor((2,), "float32")):
    s = R.str("hello")
    d = R.dtype("float32")
    return (s, x)
""",
    lambda x: ("hello", x),
    floats(2),
)
case(
    "dims declared above",
    """
n = T.dynamic("n", "int64")
m = T.dynamic("m", "int64")

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, m), dtype="float32")) -> R.Tensor((m, n), dtype="float32"):
        gv: R.Tensor((m, n), dtype="float32") = R.permute_dims(x, axes=None)
        return gv
""",
    lambda x: x.T,
    X,
)
case(
    "dims declared in the class",
    """
@I.ir_module
class Module:
    n = T.dynamic("n")
    @R.function
    def main(x: R.Tensor((n, 4), dtype="float32")):
        return R.add(x, x)
""",
    lambda x: 2 * x,
    X,
)
case(
    "T.Var dims and axis names",
    """
@R.function
def main(x: R.Tensor(("batch_size", "seq_len"), "float32")):
    batch_size, seq_len = T.int64(), T.int64()
    y = R.broadcast_to(R.const(1.0, "float32"), (batch_size, seq_len))
    return R.add(x, y)
""",
    lambda x: x + 1,
    X,
)
case(
    "negative and wrapped sizes",
    """
@R.function
def main(x: R.Tensor((T.int64(3), T.int64(4)), "float32")):
    a = R.reshape(x, (-1, T.int64(6)))
    b = R.expand_dims(a, axis=[-1, 0])
    return R.squeeze(b, axis=[0])
""",
    lambda x: x.reshape(2, 6, 1),
    X,
)

# ---- constants

case(
    "constants",
    """
@R.function
def main(x: R.Tensor((2, 2), "float32")):
    a = R.add(x, R.const([[1, 2], [3, 4]], "float32"))
    b = R.multiply(a, R.const(2.0, dtype="float32"))
    c = R.where(R.const([True, False]), a, b)
    return c
""",
    lambda x: np.where([True, False], 1, 2).astype("float32") * (x + ONE_TO_FOUR),
    floats(2, 2),
)
case(
    "metadata constants",
    """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        with R.dataflow():
            lv: R.Tensor((2,), dtype="float32") = R.add(x, metadata["relax.expr.Constant"][0])
            gv: R.Tensor((2,), dtype="float32") = R.multiply(lv, metadata["relax.expr.Constant"][1])
            R.output(gv)
        return gv
""",
    lambda x: (x + 1) * 2,
    floats(2),
    constants={"relax.expr.Constant": [np.ones(2, "float32"), np.full(2, 2, "float32")]},
)
case(
    "constants of relax",
    """
@R.function
def main(x: R.Tensor((2,), "float32")):
    a = relax.op.add(x, relax.const(1, "float32"))
    b = relax.op.nn.relu(a)
    return relax.Tuple([a, b])
""",
    lambda x: (x + 1, relu(x + 1)),
    floats(2),
)
case(
    "int32 constants without a dtype",
    """
@R.function
def main(x: R.Tensor((2,), "int32")):
    return R.add(x, R.const(3, "int32"))
""",
    lambda x: x + np.int32(3),
    ints(2, dtype="int32"),
)

# ---- ops as TVM prints and users write them

case(
    "reductions",
    """
@R.function
def main(x: R.Tensor((3, 4), "float32")):
    a = R.sum(x, axis=[1], keepdims=True)
    b = R.mean(x, axis=None, keepdims=False)
    c = R.max(x, axis=-1)
    d = R.argmax(x, axis=1, keepdims=False)
    e = R.variance(x, axis=[0])
    return (a, b, c, d, e)
""",
    lambda x: (x.sum(1, keepdims=True), x.mean(), x.max(-1), x.argmax(1), x.var(0)),
    X,
)
case(
    "slices",
    """
@R.function
def main(x: R.Tensor((3, 4), "float32")):
    a = R.strided_slice(x, axes=[0, 1], begin=[0, 1], end=[2, 4], strides=[1, 2])
    b = R.strided_slice(x, (R.prim_value(1),), (R.prim_value(0),), (R.prim_value(3),), (R.prim_value(2),), assume_inbound=False)
    c = R.strided_slice(x, [1], [-2], [4])
    return (a, b, c)
""",
    lambda x: (x[:2, 1:4:2], x[:, 0:3:2], x[:, -2:]),
    X,
)
case(
    "dynamic slices",
    """
@R.function
def main(x: R.Tensor((8, 9), "float32"), b: R.Tensor((2,), "int64"), e: R.Tensor((2,), "int64"), s: R.Tensor((2,), "int64")) -> R.Tensor(dtype="float32", ndim=2):
    return R.dynamic_strided_slice(x, b, e, s)
""",
    lambda x, b, e, s: x[1:8:2, 0:6:3],
    floats(8, 9),
    np.array([1, 0]),
    np.array([8, 6]),
    np.array([2, 3]),
)
case(
    "splits and concatenations",
    """
@R.function
def main(x: R.Tensor((4, 6), "float32")):
    t = R.split(x, indices_or_sections=2, axis=1)
    a: R.Tensor((4, 3), "float32") = t[0]
    u = R.split(x, [1, 3], axis=0)
    b = R.concat((a, t[1]), axis=0)
    c = R.concat([u[0], u[2]], axis=0)
    d = R.stack((a, a), axis=1)
    return (b, c, d)
""",
    lambda x: (
        np.concatenate([x[:, :3], x[:, 3:]]),
        np.concatenate([x[:1], x[3:]]),
        np.stack([x[:, :3]] * 2, 1),
    ),
    floats(4, 6),
)
case(
    "takes and gathers",
    """
@R.function
def main(x: R.Tensor((4, 3), "float32"), i: R.Tensor((2,), "int64")):
    a = R.take(x, i, axis=0, mode="fast")
    b = R.take(x, R.prim_value(1), axis=1)
    c = R.take(x, R.const(2, "int64"), axis=0)
    d = R.gather_elements(x, R.const([[0, 1, 2]], "int64"), axis=0)
    return (a, b, c, d)
""",
    lambda x, i: (x[i], x[:, 1], x[2], x[[0, 1, 2], [0, 1, 2]][None]),
    floats(4, 3),
    np.array([3, 0]),
)
case(
    "convolution",
    """
@R.function
def main(x: R.Tensor((1, 2, 6, 6), "float32"), w: R.Tensor((3, 2, 1, 1), "float32")) -> R.Tensor((1, 3, 6, 6), "float32"):
    gv: R.Tensor((1, 3, 6, 6), "float32") = R.nn.conv2d(x, w, strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW", out_dtype="void")
    return gv
""",
    lambda x, w: np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]),
    floats(1, 2, 6, 6),
    floats(3, 2, 1, 1),
)
case(
    "convolution in NHWC",
    """
@R.function
def main(x: R.Tensor((1, 6, 6, 2), "float32"), w: R.Tensor((3, 1, 1, 2), "float32")):
    return R.nn.conv2d(x, w, strides=(2, 2), data_layout="NHWC", kernel_layout="OHWI", out_dtype="float32")
""",
    lambda x, w: np.einsum("nhwc,oc->nhwo", x[:, ::2, ::2], w[:, 0, 0]),
    floats(1, 6, 6, 2),
    floats(3, 1, 1, 2),
)
case(
    "convolution in NCHW4c",
    """
@R.function
def main(x: R.Tensor((1, 2, 6, 6, 4), "float32"), w: R.Tensor((2, 2, 1, 1, 4, 4), "float32")):
    return R.nn.conv2d(x, w, data_layout="NCHW4c", kernel_layout="OIHW4i4o", out_layout="NCHW4c")
""",
    lambda x, w: np.einsum("nchwa,ocab->nohwb", x, w[:, :, 0, 0]),
    floats(1, 2, 6, 6, 4),
    floats(2, 2, 1, 1, 4, 4),
)
case(
    "convolution in NCHW4c from OIHW weights",
    """
@R.function
def main(x: R.Tensor((1, 8, 6, 6), "float32"), w: R.Tensor((8, 8, 1, 1), "float32")):
    with R.dataflow():
        a: R.Tensor((1, 2, 6, 6, 4), "float32") = R.layout_transform(x, index_map=T.index_map(lambda i0, i1, i2, i3: (i0, i1 // 4, i2, i3, i1 % 4)), pad_value=None, axis_separators=[], input_axis_separators=[])
        b = R.layout_transform(w, index_map=lambda o, i, h, w: (o // 4, i // 4, h, w, i % 4, o % 4))
        c = R.nn.conv2d(a, b, data_layout="NCHW4c", kernel_layout="OIHW4i4o", out_layout="NCHW4c")
        d = R.layout_transform(c, index_map=lambda n, c, h, w, k: (n, c * 4 + k, h, w))
        R.output(d)
    return d
""",
    lambda x, w: np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]),
    floats(1, 8, 6, 6),
    floats(8, 8, 1, 1),
)
case(
    "layout_transform",
    """
@R.function
def main(x: R.Tensor((8, 6), "float32")):
    a = R.layout_transform(x, index_map=lambda i, j: (j, i))
    b = R.layout_transform(x, index_map=lambda i, j: (i // 4, j, i % 4))
    c = R.layout_transform(x, index_map=lambda i, j: (i * 6 + j,))
    return (a, b, c)
""",
    lambda x: (x.T, x.reshape(2, 4, 6).transpose(0, 2, 1), x.reshape(-1)),
    floats(8, 6),
)
case(
    "layout_transform with padding",
    """
@R.function
def main(x: R.Tensor((14,), "float32")):
    a = R.layout_transform(x, index_map=lambda i: (i // 4, i % 4), pad_value=2)
    return a
""",
    lambda x: np.concatenate([x, [2, 2]]).reshape(4, 4).astype("float32"),
    floats(14),
)
case(
    "layout_transform of several digits",
    """
@R.function
def main(x: R.Tensor((16, "4*n", 3, 1), "float32"), y: R.Tensor(("n",), "float32")):
    n = T.int64()
    a = R.layout_transform(x, index_map=T.index_map(lambda i, j, k, l: (j // 4, i // 8, k, i // 4 % 2, j % 4 * 4 + i % 4)))
    b = R.layout_transform(x, index_map=lambda i, j, k, l: (T.floordiv(i, T.int64(4)), 0, (j * 3 + k) * 4 + T.floormod(i, 4)))
    return (a, b)
""",
    lambda x, y: (
        x.reshape(2, 2, 4, 2, 4, 3, 1).transpose(3, 0, 5, 1, 4, 2, 6).reshape(2, 2, 3, 2, 16),
        x.reshape(4, 4, 8, 3).transpose(0, 2, 3, 1).reshape(4, 1, 96),
    ),
    floats(16, 8, 3, 1),
    floats(2),
)
case(
    "pooling",
    """
@R.function
def main(x: R.Tensor((1, 2, 4, 4), "float32")):
    a = R.nn.max_pool2d(x, pool_size=[2, 2], strides=[2, 2], padding=[0, 0, 0, 0], dilation=[1, 1], ceil_mode=False, count_include_pad=False, layout="NCHW", out_layout="NCHW")
    b = R.nn.adaptive_avg_pool2d(x, output_size=[1, 1], layout="NCHW", out_layout="NCHW")
    c = R.nn.avg_pool2d(x, (2, 2), (2, 2))
    return (a, b, c)
""",
    lambda x: (
        x.reshape(1, 2, 2, 2, 2, 2).max((3, 5)),
        x.mean((2, 3), keepdims=True),
        x.reshape(1, 2, 2, 2, 2, 2).mean((3, 5)),
    ),
    floats(1, 2, 4, 4),
)
case(
    "pooling in NCHW2c",
    """
@R.function
def main(x: R.Tensor((1, 3, 4, 4, 2), "float32")):
    a = R.nn.max_pool2d(x, pool_size=(2, 2), strides=(2, 2), layout="NCHW2c", out_layout="NCHW2c")
    b = R.nn.adaptive_avg_pool2d(x, (1, 1), layout="NCHW2c")
    return (a, b)
""",
    lambda x: (x.reshape(1, 3, 2, 2, 2, 2, 2).max((3, 5)), x.mean((2, 3), keepdims=True)),
    floats(1, 3, 4, 4, 2),
)
case(
    "convolution from blocks to no blocks",
    """
@R.function
def main(x: R.Tensor((1, 2, 6, 6, 4), "float32"), w: R.Tensor((3, 8, 1, 1), "float32"), v: R.Tensor((2, 8, 1, 1, 4), "float32")):
    a = R.nn.conv2d(x, w, data_layout="NCHW4c", kernel_layout="OIHW", out_layout="NCHW")
    b = R.nn.conv2d(x, v, data_layout="NCHW4c", kernel_layout="OIHW4o")
    return (a, b)
""",
    lambda x, w, v: (
        np.einsum("nchwa,oca->nohw", x, w[:, :, 0, 0].reshape(3, 2, 4)),
        np.einsum("nchwa,ocab->nohwb", x, v[:, :, 0, 0].reshape(2, 2, 4, 4)),
    ),
    floats(1, 2, 6, 6, 4),
    floats(3, 8, 1, 1),
    floats(2, 8, 1, 1, 4),
)
case(
    "norms",
    """
@R.function
def main(x: R.Tensor((2, 4), "float32"), g: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")):
    a = R.nn.layer_norm(x, g, b, axes=[-1], epsilon=1e-05, center=True, scale=True)
    c = R.nn.rms_norm(x, g, axes=[-1], epsilon=1e-05)
    d = R.nn.batch_norm(x, g, b, b, g, axis=1, epsilon=1e-05, center=True, scale=True, momentum=0.1, training=False)
    e = d[0]
    return (a, c, e)
""",
    lambda x, g, b: (
        (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b,
        x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g,
        (x - b) / np.sqrt(g + 1e-5) * g + b,
    ),
    floats(2, 4),
    np.array([1, 2, 3, 0.5], "float32"),
    floats(4),
)
case(
    "activations",
    """
@R.function
def main(x: R.Tensor((2, 4), "float32")):
    a = R.nn.softmax(x, axis=-1)
    b = R.nn.leakyrelu(x, alpha=0.1)
    c = R.nn.silu(x)
    d = R.nn.relu6(x)
    e = R.clip(x, min=0, max=R.prim_value(1))
    f = R.nn.log_softmax(x, axis=1)
    return (a, b, c, d, e, f)
""",
    lambda x: (
        softmax(x),
        np.where(x > 0, x, np.float32(0.1) * x),
        x / (1 + np.exp(-x)),
        np.clip(x, 0, 6),
        np.clip(x, 0, 1),
        np.log(softmax(x)),
    ),
    floats(2, 4),
)
case(
    "dropout and losses",
    """
@R.function
def main(x: R.Tensor((2, 4), "float32"), t: R.Tensor((2,), "int64")):
    d = R.nn.dropout(x, rate=0.5)
    y = d[0]
    p = R.nn.log_softmax(y)
    loss = R.nn.nll_loss(p, t, reduction="mean", ignore_index=-100)
    return loss
""",
    lambda x, t: -np.log(softmax(x))[np.arange(2), t].mean(),
    floats(2, 4),
    np.array([1, 3]),
)
case(
    "attention",
    """
@R.function
def main(q: R.Tensor((1, 3, 2, 4), "float32"), k: R.Tensor((1, 5, 2, 4), "float32"), v: R.Tensor((1, 5, 2, 4), "float32")) -> R.Tensor((1, 3, 2, 4), "float32"):
    return R.nn.attention(q, k, v, scale=R.prim_value(0.5), causal_mask=None, window_size=None)
""",
    lambda q, k, v: np.einsum(
        "bhqk,bkhd->bqhd", softmax(0.5 * np.einsum("bqhd,bkhd->bhqk", q, k)), v
    ),
    floats(1, 3, 2, 4),
    floats(1, 5, 2, 4),
    floats(1, 5, 2, 4),
)
case(
    "casts and comparisons",
    """
@R.function
def main(x: R.Tensor((2, 4), "float32")):
    a = R.astype(x, dtype="int32")
    b = R.greater(x, R.const(0, "float32"))
    c = R.where(b, x, R.zeros_like(x))
    d = x.astype("float16")
    e = R.logical_not(b)
    return (a, b, c, d, e)
""",
    lambda x: (x.astype("int32"), x > 0, relu(x), x.astype("float16"), ~(x > 0)),
    floats(2, 4),
)
case(
    "creation",
    """
@R.function
def main(x: R.Tensor((2, 4), "float32")):
    a = R.full((2, 3), R.const(2.5, "float32"), dtype="void")
    b = R.zeros(R.shape([2, 3]), dtype="float16")
    c = R.full_like(x, R.const(1, "float32"), dtype="void")
    d = R.ones_like(x, dtype="int32")
    e = R.tril(x, k=0)
    f = R.triu(x, R.prim_value(1))
    g = R.eye(3, dtype="float32")
    return (a, b, c, d, e, f, g)
""",
    lambda x: (
        np.full((2, 3), 2.5, "float32"),
        np.zeros((2, 3), "float16"),
        np.ones_like(x),
        np.ones(x.shape, "int32"),
        np.tril(x),
        np.triu(x, 1),
        np.eye(3, dtype="float32"),
    ),
    floats(2, 4),
)
case(
    "linear and einsum",
    """
@R.function
def main(x: R.Tensor((3, 4), "float32"), w: R.Tensor((5, 4), "float32"), b: R.Tensor((5,), "float32")):
    wt = R.permute_dims(w, axes=[1, 0])
    a = R.matmul(x, wt, out_dtype="float32")
    c = R.add(a, b)
    d = R.einsum((x, w), subscripts="ij,kj->ik")
    e = R.linear(x, w, b)
    return (c, d, e)
""",
    lambda x, w, b: (x @ w.T + b, x @ w.T, x @ w.T + b),
    X,
    floats(5, 4),
    floats(5),
)
case(
    "topk, sort and cumsum",
    """
@R.function
def main(x: R.Tensor((2, 5), "float32")):
    a = R.topk(x, k=2, axis=-1, ret_type="values", largest=True, dtype="int64")
    b = R.sort(x, axis=-1, descending=True)
    c = R.cumsum(x, axis=1, dtype="void", exclusive=False)
    d = R.argsort(x, axis=-1, descending=False, dtype="int32")
    return (a, b, c, d)
""",
    lambda x: (
        -np.sort(-x)[:, :2],
        -np.sort(-x),
        np.cumsum(x, 1),
        np.argsort(x, kind="stable").astype("int32"),
    ),
    floats(2, 5),
)
case(
    "padding and tiling",
    """
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    a = R.nn.pad(x, pad_width=[0, 0, 1, 2], pad_mode="constant", pad_value=0.5)
    b = R.tile(x, repeats=[2, 1])
    c = R.repeat(x, repeats=2, axis=0)
    d = R.flip(x, axis=1)
    e = R.nn.pad(x, (0, 0, 1, 1), "replicate")
    return (a, b, c, d, e)
""",
    lambda x: (
        np.pad(x, ((0, 0), (1, 2)), constant_values=0.5),
        np.tile(x, (2, 1)),
        np.repeat(x, 2, 0),
        x[:, ::-1],
        np.pad(x, ((0, 0), (1, 1)), "edge"),
    ),
    floats(2, 3),
)
case(
    "one_hot with prim values",
    """
@R.function
def main(x: R.Tensor((3,), "int64")):
    a = R.one_hot(x, R.prim_value(1.0), R.prim_value(0.0), 4, axis=-1)
    return a
""",
    lambda x: np.eye(4)[x],
    np.array([0, 3, 1]),
)
case(
    "collapse_sum and broadcasting",
    """
@R.function
def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((4,), "float32")):
    a = R.collapse_sum_to(x, (1, 4))
    b = R.collapse_sum_like(x, y)
    c = R.broadcast_to(y, R.shape([3, 4]))
    return (a, b, c)
""",
    lambda x, y: (x.sum(0, keepdims=True), x.sum(0), np.broadcast_to(y, (3, 4)).copy()),
    X,
    floats(4),
)
case(
    "unique with prim values",
    """
@R.function
def main(x: R.Tensor((6,), "int64")):
    u = R.unique(x, R.prim_value(True), R.prim_value(False), R.prim_value(False), R.prim_value(False))
    return u
""",
    lambda x: np.unique(x),
    ints(6),
)
case(
    "images",
    """
@R.function
def main(x: R.Tensor((1, 1, 2, 2), "float32")):
    a = R.image.resize2d(x, R.shape([4, 4]), roi=[T.float32(0), T.float32(0), T.float32(0), T.float32(0)], layout="NCHW", method="nearest_neighbor", coordinate_transformation_mode="asymmetric", rounding_method="floor", cubic_alpha=-0.5, cubic_exclude=0, extrapolation_value=0, out_dtype="void")
    return a
""",
    lambda x: x.repeat(2, 2).repeat(2, 3),
    floats(1, 1, 2, 2),
)

# ---- external functions and effects

case(
    "assertions and prints",
    """
@R.function(pure=False)
def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
    y = R.print(x, format="{}")
    z = R.assert_op(R.const(True), x, format="x: {}")
    w: R.Tuple = R.assert_op(R.const(True, "bool"), format="")
    return x
""",
    lambda x: x,
    floats(2),
)
case(
    "assertions on sizes",
    """
@R.function(pure=False)
def main(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    _ = R.assert_op(R.prim_value(n > 1), R.prim_value(n), format="n = {}")
    return x
""",
    lambda x: x,
    floats(2),
)
case(
    "call_packed",
    """
@R.function(pure=False)
def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
    a = R.call_packed("structir.test.double", x, sinfo_args=(R.Tensor((2,), "float32"),))
    b: R.Tensor((2,), dtype="float32") = R.call_packed("structir.test.double", a, ty_args=(R.Tensor((2,), dtype="float32"),))
    _ = R.call_packed("structir.test.double", a, sinfo_args=R.Any())
    return b
""",
    lambda x: 4 * x,
    floats(2),
)
case(
    "call_pure_packed and call_dps_packed",
    """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    a = R.call_pure_packed("structir.test.double", x, sinfo_args=R.Tensor((n,), "float32"))
    b = R.call_dps_packed("structir.test.double_into", (a,), out_sinfo=R.Tensor((n,), "float32"))
    return b
""",
    lambda x: 4 * x,
    floats(2),
)
case(
    "ExternFunc",
    """
@R.function(pure=False)
def main(x: R.Tensor((2,), "float32")):
    f = R.ExternFunc("structir.test.double")
    a: R.Tensor((2,), "float32") = R.call_packed("structir.test.double", x, sinfo_args=R.Tensor((2,), "float32"))
    return a
""",
    lambda x: 2 * x,
    floats(2),
)
case(
    "inplace calls",
    """
@R.function
def main(x: R.Tensor((2,), "float32")):
    a = R.call_inplace_packed("structir.test.double", x, inplace_indices=[0], sinfo_args=[R.Tensor((2,), "float32")])
    return a
""",
    lambda x: 2 * x,
    floats(2),
)

# ---- devices

case(
    "devices in annotations",
    """
@I.ir_module
class Module:
    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})
    @R.function
    def main(x: R.Tensor((2,), "float32", "llvm"), y: R.Tensor((2,), "float32", "llvm")) -> R.Tensor((2,), "float32", "llvm"):
        z: R.Tensor((2,), "float32", "llvm") = R.add(x, y)
        return z
""",
    lambda x, y: x + y,
    floats(2),
    floats(2),
)
case(
    "devices with scopes",
    """
@I.ir_module
class Module:
    I.module_global_infos({"vdevice": [I.vdevice({"kind": "llvm", "tag": ""}, 0, "global"), I.vdevice("llvm")]})
    @R.function
    def main(x: R.Tensor((2,), "float32", vdevice="llvm:0:global"), y: R.Tensor((2,), "float32", "vdevice:0")) -> R.Tensor((2,), "float32"):
        z = R.to_vdevice(x, "llvm")
        w = R.hint_on_device(y, R.cpu(0))
        return R.add(z, w)
""",
    lambda x, y: x + y,
    floats(2),
    floats(2),
)

# ---- functions of TIR

case(
    "call_tir of a block",
    """
@I.ir_module(s_tir=True)
class Module:
    @T.prim_func(s_tir=True)
    def add_one(A: T.Buffer((T.int64(3), T.int64(4)), "float32"), B: T.Buffer((T.int64(3), T.int64(4)), "float32")):
        T.func_attr({"tirx.noalias": True})
        for i, j in T.grid(T.int64(3), T.int64(4)):
            with T.sblock("add"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                T.reads(A[v_i, v_j])
                T.writes(B[v_i, v_j])
                B[v_i, v_j] = A[v_i, v_j] + T.float32(1.0)

    @R.function
    def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
        cls = Module
        with R.dataflow():
            gv = R.call_tir(cls.add_one, (x,), out_ty=R.Tensor((3, 4), dtype="float32"))
            R.output(gv)
        return gv
""",
    lambda x: x + 1,
    X,
)
case(
    "call_tir with dynamic shapes",
    """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def mul(var_A: T.handle, var_B: T.handle, var_C: T.handle):
        T.func_attr({"tir.noalias": T.bool(True)})
        m, n = T.int64(), T.int64()
        A = T.match_buffer(var_A, (m, n))
        B = T.match_buffer(var_B, (m, n), "float32")
        C = T.match_buffer(var_C, (m, n), dtype="float32")
        # with T.block("root"):
        for ax0, ax1 in T.grid(m, n):
            with T.block("T_multiply"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(A[v_ax0, v_ax1], B[v_ax0, v_ax1])
                T.writes(C[v_ax0, v_ax1])
                C[v_ax0, v_ax1] = A[v_ax0, v_ax1] * B[v_ax0, v_ax1]

    @R.function
    def main(x: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
        m = T.int64()
        n = T.int64()
        y = R.call_tir(Module.mul, (x, x), R.Tensor((m, n), "float32"))
        return y
""",
    lambda x: x * x,
    X,
)
case(
    "call_tir with tir_vars",
    """
@I.ir_module
class Module:
    @T.prim_func
    def fill(A: T.handle, B: T.handle, k: T.int64):
        n = T.int64()
        a = T.match_buffer(A, (n,), "int64")
        b = T.match_buffer(B, (n,), "int64")
        for i in range(n):
            with T.block("fill"):
                vi = T.axis.spatial(n, i)
                b[vi] = a[vi] + k

    @R.function
    def main(x: R.Tensor(("n",), "int64"), s: R.Shape(["k"])) -> R.Tensor(("n",), "int64"):
        n = T.int64()
        k = T.int64()
        y = R.call_tir(Module.fill, (x,), out_sinfo=R.Tensor((n,), dtype="int64"), tir_vars=R.shape([k]))
        return y
""",
    lambda x, s: x + 5,
    ints(3),
    (5,),
)
case(
    "call_tir with several results",
    """
@I.ir_module
class Module:
    @T.prim_func
    def both(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in T.serial(4):
            with T.block("both"):
                vi = T.axis.remap("S", [i])
                B[vi] = A[vi] * T.float32(2)
                C[vi] = T.exp(A[vi])

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Module
        gv = R.call_tir(cls.both, (x,), out_sinfo=[R.Tensor((4,), "float32"), R.Tensor((4,), "float32")])
        a: R.Tensor((4,), "float32") = gv[0]
        b = gv[1]
        return (a, b)
""",
    lambda x: (2 * x, np.exp(x)),
    floats(4),
)
case(
    "call_tir without operands",
    """
@I.ir_module
class Module:
    @T.prim_func
    def iota(A: T.Buffer((4,), "int64")):
        for i in range(4):
            A[i] = T.Cast("int64", i) * T.int64(2)

    @R.function
    def main() -> R.Tensor((4,), "int64"):
        return R.call_tir(Module.iota, R.tuple(), out_sinfo=R.Tensor((4,), "int64"))
""",
    lambda: np.arange(4) * 2,
)
case(
    "call_tir with one operand in no tuple",
    """
@I.ir_module
class Module:
    @T.prim_func
    def neg(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")) -> None:
        for i in T.parallel(0, 4):
            B[i] = -A[i]

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return R.call_tir(Module.neg, x, R.Tensor((4,), "float32"))
""",
    lambda x: -x,
    floats(4),
)
case(
    "a schedule without effect",
    """
@I.ir_module
class Module:
    @T.prim_func
    def scale(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tx in T.thread_binding(4, thread="threadIdx.x"):
                for u in T.unroll(2):
                    for v in T.vectorized(2):
                        with T.block("scale"):
                            vi = T.axis.spatial(8, bx * 4 + tx)
                            vj = T.axis.spatial(4, u * 2 + v)
                            B[vi, vj] = A[vi, vj] * T.float32(0.5)

    @R.function
    def main(x: R.Tensor((8, 4), "float32")):
        return R.call_tir(Module.scale, (x,), R.Tensor((8, 4), "float32"))
""",
    lambda x: x / 2,
    floats(8, 4),
)
case(
    "matmul with init",
    """
@I.ir_module
class Module:
    @T.prim_func
    def matmul(rxplaceholder: T.Buffer((3, 4), "float32"), rxplaceholder_1: T.Buffer((4, 5), "float32"), matmul: T.Buffer((3, 5), "float32")):
        T.func_attr({"global_symbol": "matmul", "tir.noalias": True})
        for i0, i1, k in T.grid(3, 5, 4):
            with T.block("matmul"):
                v_i0, v_i1, v_k = T.axis.remap("SSR", [i0, i1, k])
                with T.init():
                    matmul[v_i0, v_i1] = T.float32(0)
                matmul[v_i0, v_i1] = matmul[v_i0, v_i1] + rxplaceholder[v_i0, v_k] * rxplaceholder_1[v_k, v_i1]

    @R.function
    def main(x: R.Tensor((3, 4), "float32"), w: R.Tensor((4, 5), "float32")):
        cls = Module
        y = R.call_tir(cls.matmul, (x, w), out_sinfo=R.Tensor((3, 5), "float32"))
        return y
""",
    lambda x, w: x @ w,
    X,
    W,
)
case(
    "padded convolution",
    """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def conv2d(A: T.Buffer((T.int64(1), T.int64(2), T.int64(4), T.int64(4)), "float32"), W: T.Buffer((T.int64(3), T.int64(2), T.int64(3), T.int64(3)), "float32"), conv: T.Buffer((T.int64(1), T.int64(3), T.int64(4), T.int64(4)), "float32")):
        pad_temp = T.alloc_buffer((T.int64(1), T.int64(2), T.int64(6), T.int64(6)))
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(2), T.int64(6), T.int64(6)):
            with T.block("pad_temp"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(A[v_i0, v_i1, v_i2 - T.int64(1), v_i3 - T.int64(1)])
                T.writes(pad_temp[v_i0, v_i1, v_i2, v_i3])
                pad_temp[v_i0, v_i1, v_i2, v_i3] = T.if_then_else(T.int64(1) <= v_i2 and v_i2 < T.int64(5) and T.int64(1) <= v_i3 and v_i3 < T.int64(5), A[v_i0, v_i1, v_i2 - T.int64(1), v_i3 - T.int64(1)], T.float32(0))
        for nn, ff, yy, xx, rc, ry, rx in T.grid(T.int64(1), T.int64(3), T.int64(4), T.int64(4), T.int64(2), T.int64(3), T.int64(3)):
            with T.block("conv2d_nchw"):
                v_nn, v_ff, v_yy, v_xx, v_rc, v_ry, v_rx = T.axis.remap("SSSSRRR", [nn, ff, yy, xx, rc, ry, rx])
                with T.init():
                    conv[v_nn, v_ff, v_yy, v_xx] = T.float32(0)
                conv[v_nn, v_ff, v_yy, v_xx] = conv[v_nn, v_ff, v_yy, v_xx] + pad_temp[v_nn, v_rc, v_yy + v_ry, v_xx + v_rx] * W[v_ff, v_rc, v_ry, v_rx]

    @R.function
    def main(x: R.Tensor((1, 2, 4, 4), "float32"), w: R.Tensor((3, 2, 3, 3), "float32")):
        cls = Module
        gv = R.call_tir(cls.conv2d, (x, w), out_sinfo=R.Tensor((1, 3, 4, 4), dtype="float32"))
        return gv
""",
    lambda x, w: sum(
        np.einsum(
            "nchw,oc->nohw",
            np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))[:, :, i : i + 4, j : j + 4],
            w[:, :, i, j],
        )
        for i in range(3)
        for j in range(3)
    ),
    floats(1, 2, 4, 4),
    floats(3, 2, 3, 3),
)


def tir(name: str, body: str, expected: Callable[..., Any], x: np.ndarray, out: str = "") -> None:
    """Adds a program that calls one function of TIR with the buffers A and B of x's shape."""
    shape = ", ".join(map(str, x.shape)) + ","
    dtype, lines = out or x.dtype.name, body.strip("\n").split("\n")
    text = "\n".join("        " + line for line in lines)
    case(
        name,
        f"""
@I.ir_module
class Module:
    @T.prim_func
    def f(A: T.Buffer(({shape}), "{x.dtype.name}"), B: T.Buffer(({shape}), "{dtype}")):
{text}

    @R.function
    def main(x: R.Tensor(({shape}), "{x.dtype.name}")):
        return R.call_tir(Module.f, (x,), R.Tensor(({shape}), "{dtype}"))
""",
        expected,
        x,
    )


V = floats(8)
tir(
    "select",
    """
for i in range(8):
    B[i] = T.Select(A[i] > T.float32(0), A[i], A[i] * T.float32(0.25))
""",
    lambda x: np.where(x > 0, x, x / 4),
    V,
)
tir(
    "functions of floats",
    """
for i in range(8):
    with T.block("f"):
        vi = T.axis.spatial(8, i)
        B[vi] = T.sqrt(T.fabs(A[vi])) + T.tanh(A[vi]) + T.sigmoid(A[vi]) + T.max(A[vi], T.float32(0)) + T.pow(A[vi], T.float32(2)) + T.floor(A[vi])
""",
    lambda x: np.sqrt(np.abs(x)) + np.tanh(x) + 1 / (1 + np.exp(-x)) + relu(x) + x**2 + np.floor(x),
    V,
)
tir(
    "more functions of floats",
    """
for i in range(8):
    B[i] = T.rsqrt(A[i] * A[i] + T.float32(1)) + T.log(A[i] * A[i] + T.float32(1)) + T.cos(A[i]) + T.erf(A[i]) + T.exp2(A[i]) + T.round(A[i]) + T.ceil(A[i]) + T.trunc(A[i]) + T.atan(A[i])
""",
    lambda x: (
        1 / np.sqrt(x * x + 1)
        + np.log(x * x + 1)
        + np.cos(x)
        + np.vectorize(__import__("math").erf)(x).astype("float32")
        + np.exp2(x)
        + np.round(x)
        + np.ceil(x)
        + np.trunc(x)
        + np.arctan(x)
    ),
    V,
)
tir(
    "casts",
    """
for i in range(8):
    B[i] = T.Cast("int32", A[i] * T.float32(4)) + T.cast(i, "int32") + T.int32(1)
""",
    lambda x: (x * 4).astype("int32") + np.arange(8, dtype="int32") + 1,
    V,
    "int32",
)
tir(
    "casts of bools",
    """
for i in range(8):
    B[i] = T.Cast("int8", A[i] > T.float32(0))
""",
    lambda x: (x > 0).astype("int8"),
    V,
    "int8",
)
tir(
    "bool results",
    """
for i in range(8):
    B[i] = A[i] > T.float32(0) and not A[i] > T.float32(1)
""",
    lambda x: (x > 0) & ~(x > 1),
    V,
    "bool",
)
tir(
    "comparisons as results",
    """
for i in range(8):
    with T.sblock("T_greater"):
        v_i = T.axis.spatial(T.int64(8), i)
        B[v_i] = T.float32(0) < A[v_i]
""",
    lambda x: x > 0,
    V,
    "bool",
)
tir(
    "half precision",
    """
for i in range(8):
    B[i] = A[i] * T.float16(2) + T.float16(0.5)
""",
    lambda x: x * np.float16(2) + np.float16(0.5),
    floats(8, dtype="float16"),
)
tir(
    "casts to half precision",
    """
for i in range(8):
    B[i] = T.Cast("float16", A[i])
""",
    lambda x: x.astype("float16"),
    V,
    "float16",
)
tir(
    "block predicates and split loops",
    """
for io, ii in T.grid(3, 3):
    with T.block("f"):
        vi = T.axis.spatial(8, io * 3 + ii)
        T.where(io * 3 + ii < 8)
        B[vi] = A[vi] + T.float32(1)
""",
    lambda x: x + 1,
    V,
)
tir(
    "fused indices",
    """
for f in range(12):
    with T.block("f"):
        vi = T.axis.spatial(3, f // 4)
        vj = T.axis.spatial(4, f % 4)
        B[vi, vj] = A[vi, vj] - A[vi, 0]
""",
    lambda x: x - x[:, :1],
    X,
)
tir(
    "allocated buffers",
    """
s = T.alloc_buffer((8,), "float32", scope="local")
t = T.alloc_buffer([1])
for i in range(8):
    s[i] = A[i] * A[i]
t[0] = T.float32(0)
for i in range(8):
    t[0] = t[0] + s[i]
for i in range(8):
    B[i] = A[i] / t[0]
""",
    lambda x: x / (x * x).sum(),
    V,
)
tir(
    "buffers of no dims",
    """
s = T.alloc_buffer((), "float32")
s[()] = T.float32(0)
for i in range(8):
    s[()] = s[()] + A[i]
for i in range(8):
    B[i] = s[()]
""",
    lambda x: np.full(8, x.sum(), "float32"),
    V,
)
tir(
    "let bindings",
    """
for i in range(8):
    a: T.float32 = A[i] + T.float32(1)
    b = T.meta_var(a * a)
    B[i] = a + b
""",
    lambda x: x + 1 + (x + 1) ** 2,
    V,
)
tir(
    "branches",
    """
for i in range(8):
    if i % 2 == 0:
        B[i] = A[i]
    else:
        if A[i] > T.float32(0) or i > 5:
            B[i] = T.float32(0)
        else:
            B[i] = -A[i]
""",
    lambda x: np.where(np.arange(8) % 2 == 0, x, np.where((x > 0) | (np.arange(8) > 5), 0, -x)),
    V,
)
tir(
    "while loops",
    """
k = T.alloc_buffer((1,), "int32")
k[0] = 0
while k[0] < 8:
    B[k[0]] = A[k[0]] + T.float32(2)
    k[0] = k[0] + 1
""",
    lambda x: x + 2,
    V,
)
tir(
    "integer arithmetic",
    """
for i in range(8):
    B[i] = T.truncdiv(A[i] - T.int64(3), T.int64(2)) + T.floormod(A[i], T.int64(3)) + T.shift_left(A[i], T.int64(1)) + T.bitwise_and(A[i], T.int64(5)) + T.min(A[i], T.int64(2))
""",
    lambda x: np.trunc((x - 3) / 2).astype("int64") + x % 3 + (x << 1) + (x & 5) + np.minimum(x, 2),
    ints(8),
)
tir(
    "gathers",
    """
for i in range(8):
    with T.block("T_take"):
        v_i = T.axis.spatial(8, i)
        T.reads(A[T.int64(0):T.int64(8)])
        B[v_i] = A[A[v_i]]
""",
    lambda x: x[x],
    ints(8),
)
tir(
    "infinities and limits",
    """
for i in range(8):
    B[i] = T.min(T.max(A[i], T.min_value("float32")), T.float32("inf")) + T.float32(0)
""",
    lambda x: x,
    V,
)
tir(
    "scans",
    """
B[0] = A[0]
for i in range(1, 8):
    B[i] = B[i - 1] + A[i]
""",
    lambda x: np.cumsum(x, dtype="float32"),
    V,
)
tir(
    "argmax by pairs",
    """
best = T.alloc_buffer((1,), "float32")
where = T.alloc_buffer((1,), "int64")
for k in range(8):
    with T.block("argmax"):
        vk = T.axis.reduce(8, k)
        with T.init():
            best[0] = T.min_value("float32")
            where[0] = T.int64(-1)
        v_i: T.int64 = T.Select(best[0] >= A[vk], where[0], T.Cast("int64", vk))
        v_v: T.float32 = T.Select(best[0] >= A[vk], best[0], A[vk])
        where[0] = v_i
        best[0] = v_v
for i in range(8):
    B[i] = where[0]
""",
    lambda x: np.full(8, x.argmax()),
    V,
    "int64",
)
tir(
    "nested blocks with buffers",
    """
with T.block("root"):
    T.reads()
    T.writes()
    tmp = T.alloc_buffer((8,))
    for i in T.serial(T.int64(8), annotations={"pragma_auto_unroll_max_step": 16}):
        with T.block("a"):
            vi = T.axis.spatial(T.int64(8), i)
            T.block_attr({"schedule_rule": "none"})
            tmp[vi] = A[vi] + T.float32(1)
    for i in T.serial(8):
        with T.block("b"):
            vi, = T.axis.remap("S", [i])
            B[vi] = tmp[vi] * tmp[7 - vi]
""",
    lambda x: (x + 1) * (x + 1)[::-1],
    V,
)
case(
    "two functions of TIR",
    """
@I.ir_module
class Module:
    @T.prim_func
    def exp(A: T.Buffer((T.int64(2), T.int64(2)), "float32"), B: T.Buffer((T.int64(2), T.int64(2)), "float32")):
        T.evaluate(0)
        for i, j in T.grid(T.int64(2), T.int64(2)):
            B[i, j] = T.exp(A[i, j])
    @T.prim_func
    def add(A: T.Buffer((T.int64(2), T.int64(2)), "float32"), B: T.Buffer((), "float32"), C: T.Buffer((T.int64(2), T.int64(2)), "float32")):
        for i, j in T.grid(T.int64(2), T.int64(2)):
            C[i, j] = A[i, j] + B[()]
    @R.function
    def main(x: R.Tensor((2, 2), "float32"), y: R.Tensor((), "float32")) -> R.Tensor((2, 2), "float32"):
        cls = Module
        with R.dataflow():
            lv = R.call_tir(cls.exp, (x,), out_sinfo=R.Tensor((2, 2), dtype="float32"))
            lv1 = R.call_tir(cls.add, (lv, y), out_sinfo=R.Tensor((2, 2), dtype="float32"))
            R.output(lv1)
        return lv1
""",
    lambda x, y: np.exp(x) + y,
    floats(2, 2),
    np.array(2, "float32"),
)
case(
    "sizes of TIR computed from dims",
    """
@I.ir_module
class Module:
    @T.prim_func
    def pairs(var_A: T.handle, var_B: T.handle):
        n = T.int64()
        A = T.match_buffer(var_A, (n * 2,))
        B = T.match_buffer(var_B, (n,))
        for i in range(n):
            with T.block("pairs"):
                vi = T.axis.spatial(n, i)
                B[vi] = A[vi * 2] + A[vi * T.int64(2) + 1]
    @R.function
    def main(x: R.Tensor(("n * 2",), "float32"), y: R.Tensor(("n",), "float32")):
        n = T.int64()
        z = R.call_tir(Module.pairs, (x,), R.Tensor((n,), "float32"))
        return R.add(z, y)
""",
    lambda x, y: x[::2] + x[1::2] + y,
    floats(6),
    floats(3),
)
case(
    "bias and relu after matmul in one function",
    """
@I.ir_module
class Module:
    @T.prim_func
    def fused(x: T.handle, w: T.Buffer((T.int64(4), T.int64(5)), "float32"), b: T.Buffer((T.int64(5),), "float32"), out: T.handle):
        T.func_attr({"op_pattern": 4})
        n = T.int32(is_size_var=True)
        X = T.match_buffer(x, [n, 4], "float32")
        O = T.match_buffer(out, [n, 5], "float32")
        mm = T.alloc_buffer([n, 5], "float32")
        for i, j, k in T.grid(n, 5, 4):
            with T.block("mm"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    mm[vi, vj] = 0.0
                mm[vi, vj] += X[vi, vk] * w[vk, vj]
        for i, j in T.grid(n, 5):
            with T.block("bias"):
                vi, vj = T.axis.remap("SS", [i, j])
                O[vi, vj] = T.max(mm[vi, vj] + b[vj], 0.0)

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 5), "float32"), b: R.Tensor((5,), "float32")):
        n = T.int64()
        cls = Module
        lv = R.call_tir(cls.fused, (x, w, b), out_sinfo=R.Tensor((n, 5), "float32"))
        return lv
""",
    lambda x, w, b: relu(x @ w + b),
    X,
    W,
    floats(5),
)
case(
    "numbers of a dtype in one_hot",
    """
@R.function
def main(x: R.Tensor((3,), "int64")) -> R.Tensor((3, 4), "float32"):
    gv: R.Tensor((3, 4), dtype="float32") = R.one_hot(x, T.float32(1.5), T.float32(0.0), depth=4, axis=-1)
    return gv
""",
    lambda x: np.where(x[:, None] == np.arange(4), np.float32(1.5), np.float32(0)),
    np.array([0, 3, 1]),
)
case(
    "functions that LegalizeOps calls",
    """
@R.function(pure=False)
def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
    R.call_packed("relax.run.assert_op", c, R.str("{} is wrong"), x, ty_args=(R.Tuple,))
    u: R.Tensor(dtype="float32", ndim=1) = R.call_pure_packed("relax.run.unique", x, True, False, False, False, ty_args=(R.Tensor(dtype="float32", ndim=1),))
    i: R.Tensor(dtype="int64", ndim=2) = R.call_pure_packed("relax.run.nonzero", x, ty_args=(R.Tensor(dtype="int64", ndim=2),))
    return (u, i)
""",
    lambda x, c: (np.unique(x), np.stack(np.nonzero(x))),
    np.array([0, 2, 1, 2], "float32"),
    np.array(True),
)
case(
    "a number with an annotation as a size",
    """
@R.function
def main(x: R.Tensor((4,), "float32")):
    a: R.Prim("int64") = 2
    b: R.Prim("int64") = R.prim_value(4)
    y: R.Tensor((a, 2), "float32") = R.reshape(x, R.shape([a, 2]))
    z = R.reshape(y, (a, a))
    w = R.zeros(shape=(b,), dtype="float32")
    return (z, w)
""",
    lambda x: (x.reshape(2, 2), np.zeros(4, "float32")),
    floats(4),
)
