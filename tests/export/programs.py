"""Programs that the tests of the exporters share."""

import random
from collections.abc import Sequence

from structir.errors import StructIRError
from structir.ir import BlockBuilder, IRModule, TensorStructInfo, find_op
from structir.ir.dims import sym
from structir.ir.expr import Var
from structir.tools.calls import CallGenerator

SHARED = """
@I.ir_module
class Module:
    @R.function(private=True)
    def twice(x: R.Tensor(("k", "n"), "float32")) -> R.Tensor(("2*n", "k"), "float32"):
        t = R.permute_dims(R.concat([x, x], axis=1))
        return R.broadcast_to(R.sum(t, axis=[1], keepdims=True), R.shape([2 * n, k]))
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")):
        cls = Module
        y = cls.twice(x)
        return cls.twice(y)
"""
BRANCHES = """
@R.function
def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
    y = x * 2.0
    if c:
        a = y + x
        z = (a, y)
    else:
        z = (x, x)
    return z
"""
SCAN = """
@I.ir_module
class Module:
    @R.function(private=True)
    def cell(
        s: R.Tensor(("b", "h"), "float32"),
        x: R.Tensor(("b", "h"), "float32"),
        w: R.Tensor(("h", "h"), "float32"),
    ):
        new = R.tanh(R.matmul(s, w) + x)
        return (new, R.sum(new, axis=[1]))
    @R.function
    def main(x: R.Tensor(("t", "b", 3), "float32"), w: R.Tensor((3, 3), "float32")):
        cls = Module
        return R.scan(cls.cell, (R.zeros(R.shape([b, 3]), "float32"),), x, (w,))
"""
TUPLES = """
@R.function
def main(p: R.Tuple(R.Tensor(("n",), "float32"), R.Tuple(R.Tensor(("n",), "float32")))):
    a = p[0]
    b = p[1][0]
    return (a + b, (a, a + b), R.const([1.0, 2.0], "float32"))
"""


def random_program(name: str, seed: int, dtypes: Sequence[str]) -> IRModule | None:
    """Returns a program of one call with random operands and attributes; None if it is invalid."""
    rng = random.Random(f"{name} {seed}")
    n, m = sym("n"), sym("m")

    def operand(label: str, dtype: str) -> Var:
        sizes = [rng.choice([n, m, 1, 2, 3]) for _ in range(rng.randint(0, 4))]
        return Var(label, TensorStructInfo(tuple(sizes), dtype))

    dtype = rng.choice(dtypes)
    first = operand("a", dtype)
    live = [
        *(first, Var("b", first.struct_info), operand("c", dtype)),
        *(operand("d", rng.choice(dtypes)), Var("s", TensorStructInfo((n, m), dtype))),
    ]
    try:
        call = CallGenerator(rng).random_call(find_op(name), live, [n, m, 2, 3])
        if call is None:
            return None
        builder = BlockBuilder()
        with builder.function("main", live):
            builder.emit_func_output(builder.emit(call))
        return builder.get()
    except StructIRError:
        return None


# windows, parts, concatenations, constant indices and new axes, with the shapes of the operands
EINSUMS = [
    ("n i; k -> n i-k+1", (2, 5), (3,)),
    ("i; k -> i+k-1", (5,), (3,)),
    ("2*o+3*k; k -> o", (13,), (3,)),
    ("b 2*h=+k 2*w=+l c; k l c d -> b h w d", (1, 6, 6, 2), (3, 3, 2, 3)),
    ("i j; k l -> i-k+1 j-l+1", (6, 5), (2, 3)),
    ("a *s; b *s -> a+b *s", (2, 4), (3, 4)),
    ("a b; b c; d c -> a+d c", (2, 3), (3, 4), (5, 4)),
    ("a^b -> b^a where a == 2", (5,)),
    ("a^b c -> c", (5, 3)),
    ("3^a^5 -> a", (10,)),
    ("a^b -> a b where a == 2", (5,)),
    ("1:n i; 0:m i -> 0:3 i", (3, 4), (2, 4)),
    ("h w -> h w 4", (2, 3)),
    ("i j -> 2*i j where i == 3", (3, 2)),
]


def einsum_program(subscripts: str, *shapes: tuple[int, ...]) -> str:
    """Returns a program of one einsum."""
    params = ", ".join([f'x{k}: R.Tensor({shape}, "float32")' for k, shape in enumerate(shapes)])
    names = "".join([f"x{k}, " for k in range(len(shapes))])
    return f"@R.function\ndef main({params}):\n    return R.einsum(({names}), {subscripts!r})\n"
