"""Steps that are refused, without which there is no kernel, or one that computes the same."""

from tests.loops.refused import Case, JoiningCase

BAD_ARGUMENTS: list[Case] = [
    Case(
        "a scalar that is not stored",
        """
for i in range(n):
    t = T.float32(1.0)
    for j in range(m):
        t = t + x[i, j]
        out[i, j] = t
""",
        ("demote", "t"),
        code="E1116",
    ),
    Case(
        "a factor of 0",
        """
for i in range(n):
    for j in range(m):
        out[i, j] = x[i, j]
""",
        ("skew", "j", "i", 0),
        code="E1115",
        locations=0,
    ),
    Case(
        "an array that the loop does not access",
        """
t = T.float32(1.0)
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("expand", "t", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "all statements",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
    out[i, 1] = x[i, 1]
""",
        ("fission", "i", 2),
        code="E1115",
        locations=1,
    ),
    Case(
        "a vector loop",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("prefetch", "x", "i"),
        code="E1116",
        locations=1,
        before=(("vectorise", "i"),),
    ),
    Case(
        "an array that the loop does not read",
        """
for i in range(n):
    out[i, 0] = 1.0
""",
        ("prefetch", "x", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "a loop without a sum",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("reassociate", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "a loop without a division",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("reciprocal", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "one loop",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("reorder", "i"),
        code="E1115",
        locations=1,
    ),
    Case(
        "a loop between the others",
        """
for i in range(2):
    for j in range(n):
        for k in range(m):
            out[j, k] = x[j, k]
""",
        ("reorder", "k", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "elements of a block without a bound",
        """
row = T.empty((n, m), "float32")
for i in range(n):
    for j in range(T.int64(x[i, 0]) % m):
        row[i, j] = x[i, j]
        out[i, j] = row[i, j]
""",
        ("shrink", "row", "i"),
        code="E1116",
    ),
    Case(
        "a size that the kernel does not have",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("specialise", "q", 4),
        code="E1115",
        locations=0,
    ),
    Case(
        "an unknown tail",
        """
for i in range(8):
    out[0, i] = x[0, i]
""",
        ("split", "i", 4, "gard"),
        code="E1115",
        locations=1,
        sizes=(5, 8),
    ),
    Case(
        "an unknown memory",
        """
for i in range(n):
    for j in range(m):
        out[i, j] = x[i, j]
""",
        ("stage", "x", "i", "L1"),
        code="E1115",
        locations=1,
    ),
    Case(
        "registers of any number",
        """
for i in range(n):
    for j in range(m):
        out[i, j] = x[i, j]
""",
        ("stage", "x", "i", "registers"),
        code="E1116",
        locations=1,
    ),
    Case(
        "every second element",
        """
for i in range(0, m, 2):
    out[0, i] = x[0, i]
""",
        ("stream", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "elements of different rows",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("stream", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "lines that are read",
        """
for i in range(m):
    out[0, i] = out[0, i] + x[0, i]
""",
        ("stream", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "a loop of any length",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("unroll", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "a long loop",
        """
for i in range(5):
    out[0, i] = x[0, i]
""",
        ("unroll", "i", 4),
        code="E1116",
        locations=1,
    ),
    Case(
        "a loop of loops",
        """
for i in range(n):
    for j in range(m):
        out[i, j] = x[i, j]
""",
        ("vectorise", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "an array that the loop does not access",
        """
row = T.empty((m,), "float32")
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("shrink", "row", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "an array that the loop does not access",
        """
for i in range(n):
    out[i, 0] = 1.0
""",
        ("stage", "x", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "positions in an array as a whole",
        """
row = T.empty((m,), "float32")
for i in range(n):
    for j in range(m):
        row.flat[j] = x[i, j]
        out[i, j] = row.flat[j]
""",
        ("shrink", "row", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "an array of the loop",
        """
for i in range(n):
    row = T.zeros((m,), "float32")
    for j in range(m):
        row[j] = row[j] + x[i, j]
        out[i, j] = row[j]
""",
        ("stage", "row", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "iterations without a bound",
        """
for i in range(0, n, 2):
    t = x[i, 0]
    out[i, 0] = t
""",
        ("expand", "t", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "iterations without a bound",
        """
t = T.float32(0.0)
for i in range(0, n, 2):
    t = T.add_to(t, x[i, 0])
out[0, 0] = t
""",
        ("rfactor", "t", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "a statement beside the inner loop",
        """
for i in range(n):
    for j in range(m):
        out[i, j] = x[i, j]
    out[i, 0] = 3.0
""",
        ("collapse", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "a statement beside the inner loop",
        """
for i in range(n):
    for j in range(m):
        out[i, j] = x[i, j]
    out[i, 0] = 3.0
""",
        ("reorder", "j", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "no statement",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
    out[i, 1] = x[i, 1]
""",
        ("fission", "i", 0),
        code="E1115",
        locations=0,
    ),
    Case(
        "a negative size",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("specialise", "n", -1),
        code="E1115",
        locations=0,
    ),
    Case(
        "a negative limit",
        """
for i in range(2):
    out[i, 0] = x[i, 0]
""",
        ("unroll", "i", -2),
        code="E1115",
        locations=0,
    ),
    Case(
        "too many arguments",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("unroll", "i", 2, 3, 4),
        code="E1115",
        locations=0,
    ),
    Case(
        "an unknown loop",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("unroll", "ii", 2),
        code="E1115",
        locations=0,
    ),
    Case(
        "no kernel",
        "",
        ("split", "i", 4),
        code="E1115",
        locations=0,
    ),
    Case(
        "an unknown primitive",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("unrol", "i", 2),
        code="E1115",
        locations=0,
    ),
    JoiningCase(
        "different sizes of one array",
        """
@I.kernel
def first(x: R.Tensor((2, 3), "float32"), out: R.Tensor((2, 3), "float32")):
    for i in range(2):
        out[i, 0] = x[i, 0]

@I.kernel
def second(x: R.Tensor((3, 2), "float32"), out: R.Tensor((3,), "float32")):
    for i in range(3):
        out[i] = x[i, 0]
""",
        code="E1116",
    ),
    JoiningCase(
        "a result that is not written",
        """
@I.kernel
def first(
    x: R.Tensor((5,), "float32"), y: R.Tensor((5,), "float32"), z: R.Tensor((5,), "float32")
):
    for i in range(5):
        y[i] = x[i]
    for i in range(5):
        z[i] = x[i]

@I.kernel
def second(x: R.Tensor((5,), "float32"), out: R.Tensor((5,), "float32")):
    for i in range(5):
        out[i] = x[i]
""",
        kept=(1,),
        statements=1,
        code="E1116",
    ),
]
