"""Steps that are refused, without which a kernel computes something else."""

from typing import Any

from tests.loops.refused import Case, JoiningCase


def nothing(*args: Any, **options: Any) -> None:
    """Replaces a check that raises, or one that returns what it objects to."""


def always(*args: Any, **options: Any) -> bool:
    return True


WRONG_RESULTS: list[Case] = [
    Case(
        "interchange of a dependence that goes back in the inner loop",
        """
for i in range(1, n):
    for j in range(m - 1):
        out[i, j] = out[i - 1, j + 1] + x[i, j]
""",
        ("reorder", "j", "i"),
    ),
    Case(
        "the distance between iterations",
        """
for i in range(1, n):
    for j in range(m - 1):
        out[i, j] = out[i - 1, j + 1] + x[i, j]
""",
        ("reorder", "j", "i"),
        checks={"schedule.legality._exceeds": always},
    ),
    Case(
        "interchange of iterations that share a scalar",
        """
t = T.float32(1.0)
for i in range(n):
    for j in range(m):
        t = t * 0.5 + x[i, j]
        out[i, j] = t
""",
        ("reorder", "j", "i"),
    ),
    Case(
        "a scalar of the last iteration that is read after the loops",
        """
for i in range(n):
    for j in range(m):
        out[i, j] = x[i, j] * 2.0
t = T.float32(0.0)
for k in range(n):
    for l in range(m):
        t = x[k, l]
out[0, 0] = t
""",
        ("vectorise", "l"),
        sizes=(3, 7),
    ),
    Case(
        "bounds that depend on the outer loop",
        """
for i in range(n):
    for j in range(i, m):
        out[i, j] = x[i, j]
""",
        ("reorder", "j", "i"),
        code="E1116",
    ),
    Case(
        "a bound that the loop changes",
        """
stop = T.int64(4)
for i in range(stop):
    out[i, 0] = x[i, 0] + 1.0
    stop = T.int64(1)
""",
        ("split", "i", 1),
    ),
    Case(
        "a loop that is left early",
        """
for i in range(n):
    if i == 1:
        break
    out[i, 0] = x[i, 0]
""",
        ("split", "i", 2),
        code="E1116",
    ),
    Case(
        "iterations that remain",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("split", "i", 4, "exact"),
        code="E1116",
        locations=1,
    ),
    Case(
        "a continue in a loop that is written out",
        """
for k in range(2):
    if x[0, 0] < 100.0:
        continue
    out[0, k] = x[0, k]
for i in range(n):
    for j in range(m):
        out[i, j] = out[i, j] + x[i, j]
""",
        ("unroll", "k"),
        code="E1116",
    ),
    Case(
        "a later iteration of the first loop",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
for j in range(n):
    out[j, 1] = out[n - 1 - j, 0] * 2.0
""",
        ("fuse", "i", "j"),
    ),
    Case(
        "a sum that is complete only after the loop",
        """
t = T.float32(0.0)
for i in range(n):
    t = t + x[i, 0]
for j in range(n):
    out[j, 0] = x[j, 0] / t
""",
        ("fuse", "i", "j"),
    ),
    Case(
        "different ranges",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
for j in range(1, n):
    out[j, 1] = x[j, 0] + 5.0
""",
        ("fuse", "i", "j"),
        code="E1116",
    ),
    Case(
        "a statement between the loops",
        """
t = T.float32(1.0)
for i in range(n):
    out[i, 0] = x[i, 0] + t
t = T.float32(2.0)
for j in range(n):
    out[j, 1] = x[j, 0] + t
""",
        ("fuse", "i", "j"),
    ),
    Case(
        "a jump between the loops",
        """
for k in range(3):
    for i in range(n):
        out[i, 0] = out[i, 0] + x[i, 0]
    if k == 1:
        break
    for j in range(n):
        out[j, 1] = out[j, 1] + x[j, 1]
""",
        ("fuse", "i", "j"),
        code="E1116",
    ),
    Case(
        "a scalar that passes to the second loop",
        """
for i in range(n):
    t = x[i, 0] * 2.0
    out[i, 0] = t
""",
        ("fission", "i"),
    ),
    Case(
        "elements of later iterations",
        """
for i in range(1, n):
    out[i, 0] = out[i - 1, 1] + x[i, 0]
    out[i, 1] = out[i, 0] * 2.0 + 1.0
""",
        ("fission", "i"),
    ),
    Case(
        "iterations of different threads",
        """
for i in range(n):
    for j in range(m):
        out[i, j] = x[i, j]
    for k in range(m):
        out[i, k] = out[(i + 1) % n, k] * 2.0
""",
        ("parallel", "i"),
    ),
    Case(
        "a row of another iteration",
        """
row = T.zeros((m,), "float32")
for i in range(n):
    for j in range(m):
        row[j] = row[j] + x[i, j]
        out[i, j] = row[j]
""",
        ("parallel", "i"),
    ),
    Case(
        "results that are not set to zero",
        """
for i in range(n):
    for j in range(m):
        out[i, j] = out[i, j] + x[i, j]
""",
        ("parallel", "i"),
        code="E1119",
    ),
    Case(
        "results that are filled in part",
        """
for i in range(n):
    for j in range(1, m):
        out[i, j] = x[i, j]
""",
        ("parallel", "i"),
        code="E1119",
    ),
    Case(
        "statements outside of the parts",
        """
out[0, 0] = x[0, 0]
for i in range(n):
    for j in range(m):
        out[i, j] = x[i, j] + 1.0
""",
        ("parallel", "i"),
        code="E1116",
    ),
    Case(
        "lanes that share an element of an array",
        """
row = T.empty((1,), "float32")
for i in range(n):
    row[0] = x[i, 0]
    out[i, 0] = row[0]
""",
        ("vectorise", "i"),
    ),
    Case(
        "lanes that depend on each other",
        """
for i in range(1, n):
    out[i, 0] = out[i - 1, 0] + x[i, 0]
""",
        ("vectorise", "i"),
    ),
    Case(
        "a sum in one order",
        """
t = T.float32(0.0)
for i in range(n):
    t = t * 0.5 + x[i, 0]
out[0, 0] = t
""",
        ("vectorise", "i"),
    ),
    Case(
        "a scalar with a value for each lane",
        """
for i in range(n):
    for j in range(m):
        t = x[i, j]
        out[i, j] = t + t
""",
        ("expand", "t", "i"),
        before=(("vectorise", "j"),),
        code="E1119",
    ),
    Case(
        "memory that other iterations read",
        """
t = T.float32(1.0)
for i in range(n):
    out[i, 0] = t
    t = x[i, 0]
""",
        ("expand", "t", "i"),
        code="E1119",
    ),
    Case(
        "memory that is read after the loop",
        """
t = T.float32(1.0)
for i in range(n):
    t = x[i, 0]
out[0, 0] = t
""",
        ("expand", "t", "i"),
        code="E1119",
    ),
    Case(
        "iterations that count down",
        """
for i in range(n - 1, -1, -1):
    for j in range(m):
        out[i, j] = x[i, j] + 1.0
""",
        ("parallel", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "an inner bound that the loops change",
        """
stop = T.int64(1)
for i in range(n):
    for j in range(stop):
        out[i, j] = x[i, j] + 1.0
        stop = T.int64(4)
""",
        ("reorder", "j", "i"),
    ),
    Case(
        "an inner loop that is left early",
        """
for i in range(n):
    for j in range(m):
        if j > i:
            break
        out[i, j] = x[i, j] + 1.0
""",
        ("reorder", "j", "i"),
        code="E1116",
    ),
    Case(
        "loops that are left early",
        """
for i in range(n):
    for j in range(m):
        if j > i:
            break
        out[i, j] = x[i, j] + 1.0
""",
        ("collapse", "i"),
        code="E1116",
    ),
    Case(
        "a loop that does not begin at 0",
        """
for i in range(1, n):
    for j in range(m):
        out[i, j] = x[i, j] + 1.0
""",
        ("collapse", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "an inner bound that depends on the outer loop",
        """
for i in range(n):
    for j in range(i):
        out[i, j] = x[i, j] + 1.0
""",
        ("collapse", "i"),
        checks={
            "primitives.collapse.refuse_dependent_bounds": nothing,
            "primitives.collapse._count": lambda tree, loop: tree.index(loop.stop),
        },
        code="E1116",
    ),
    Case(
        "two elements of an array",
        """
row = T.zeros((m,), "float32")
for j in range(m):
    row[j] = x[0, j]
    row[m - 1 - j] = x[1, j] + 9.0
    out[0, j] = row[j]
""",
        ("shrink", "row"),
    ),
    Case(
        "elements of other iterations",
        """
row = T.zeros((m,), "float32")
for j in range(m):
    out[0, j] = row[j] + 1.0
    row[j] = x[0, j]
""",
        ("shrink", "row"),
        code="E1119",
    ),
    Case(
        "an array of zeros in each iteration",
        """
for j in range(m):
    row = T.zeros((m,), "float32")
    row[j] = row[j] + x[0, j]
    out[0, j] = row[j]
""",
        ("shrink", "row"),
        code="E1119",
    ),
    Case(
        "elements of a block that other iterations write",
        """
row = T.zeros((n, m), "float32")
for i in range(n):
    for j in range(m):
        out[i, j] = row[i, j] + 1.0
        row[i, j] = x[i, j]
""",
        ("shrink", "row", "i"),
        code="E1119",
    ),
    Case(
        "a block that is read after the loop",
        """
row = T.zeros((n, m), "float32")
for i in range(n):
    for j in range(m):
        row[i, j] = x[i, j]
for k in range(m):
    out[0, k] = row[0, k]
""",
        ("shrink", "row", "i"),
        code="E1119",
    ),
    Case(
        "an array of 16-bit floats, which rounds",
        """
row = T.zeros((m,), "float16")
for j in range(m):
    row[j] = x[0, j] * 0.3
    out[0, j] = row[j]
""",
        ("shrink", "row"),
        code="E1116",
        locations=1,
    ),
    Case(
        "an array of 16-bit floats",
        """
row = T.zeros((m,), "float16")
for j in range(m):
    row[j] = x[0, j] * 0.3
for k in range(m):
    out[0, k] = row[k]
""",
        ("inline", "row"),
        code="E1116",
        locations=1,
    ),
    Case(
        "elements that are not written",
        """
row = T.zeros((m,), "float32")
for j in range(1, m):
    row[j] = x[0, j] + 1.0
for k in range(m):
    out[0, k] = row[k]
""",
        ("inline", "row"),
        code="E1119",
    ),
    Case(
        "an operand that changes",
        """
row = T.zeros((m,), "float32")
t = T.float32(2.0)
for j in range(m):
    row[j] = x[0, j] + t
t = T.float32(3.0)
for k in range(m):
    out[0, k] = row[k]
""",
        ("inline", "row"),
    ),
    Case(
        "a value that changes in the loop",
        """
t = T.float32(2.0)
for j in range(m):
    s = t * 2.0
    t = t + 1.0
    out[0, j] = s
""",
        ("hoist", "s", "j"),
    ),
    Case(
        "a value that depends on the loop variable",
        """
for i in range(m):
    s = x[0, i] * 2.0
    out[0, i] = s
""",
        ("hoist", "s", "i"),
    ),
    Case(
        "a scalar that is read before it is assigned",
        """
s = T.float32(2.0)
for j in range(m):
    out[0, j] = s
    s = x[0, 0] + 5.0
""",
        ("hoist", "s", "j"),
        code="E1116",
        locations=1,
    ),
    Case(
        "a loop without iterations",
        """
s = T.float32(2.0)
for j in range(m - 6):
    s = T.float32(3.0)
    out[0, j] = s
out[1, 1] = s
""",
        ("hoist", "s", "j"),
        code="E1119",
    ),
    Case(
        "a value that another loop reads too",
        """
row = T.empty((m,), "float32")
for j in range(m):
    row[j] = x[0, j]
for k in range(m - 3):
    out[0, k] = row[k]
for l in range(m):
    out[1, l] = row[l]
""",
        ("compute_at", "row", "k"),
        code="E1116",
    ),
    Case(
        "an operand that changes before the loop reads the values",
        """
row = T.empty((m,), "float32")
for j in range(m):
    row[j] = out[0, j] + x[0, j]
for k in range(m):
    out[0, k] = x[1, k]
for l in range(m):
    out[1, l] = row[l]
""",
        ("compute_at", "row", "l"),
    ),
    Case(
        "elements out of range, which a condition excludes",
        """
for j in range(m):
    if j < m - 1:
        out[0, j] = x[0, j + 1]
""",
        ("stage", "x", "j"),
        checks={"primitives.stage.extremes": lambda *args: [0]},
        code="E1116",
    ),
    Case(
        "a sum that is read between its terms",
        """
t = T.float32(0.0)
for i in range(n):
    t = T.add_to(t, x[i, 0])
    out[i, 0] = t
""",
        ("rfactor", "t", "i"),
        checks={"primitives.rfactor._function": lambda *args: "add_to"},
    ),
    Case(
        "a sum that is read after the loops",
        """
total = T.float32(0.0)
for i in range(n):
    for j in range(m):
        total = T.float32(0.0)
        for k in range(n):
            total = total + x[i, k] * x[k, j]
        out[i, j] = total
out[0, 0] = total
""",
        ("tensorise", "i"),
        code="E1119",
    ),
    Case(
        "a product of its own result",
        """
for i in range(n):
    for j in range(m):
        total = T.float32(1.0)
        out[i, j] = x[i, j] + total
for i in range(n):
    for j in range(m):
        total = T.float32(0.0)
        for k in range(n):
            total = total + out[i, k] * x[k, j]
        out[i, j] = total
""",
        ("tensorise", "i_1"),
        checks={"primitives.tensorise._are_arrays": always},
        code="E1116",
    ),
    Case(
        "a sum that does not start at 0",
        """
for i in range(n):
    for j in range(m):
        total = T.float32(1.0)
        for k in range(n):
            total = total + x[i, k] * x[k, j]
        out[i, j] = total
""",
        ("tensorise", "i"),
        checks={"primitives.tensorise._is_zero": always},
        code="E1116",
    ),
    Case(
        "an index that the loop assigns",
        """
for i in range(n):
    at = T.int64(x[i, 0]) % n
    out[i, 0] = x[at, 0]
""",
        ("prefetch", "x", "i"),
        code="E1116",
    ),
    Case(
        "an index that is only in range where a condition holds",
        """
for i in range(n):
    if i + 2 < n:
        out[i, 0] = x[T.int64(x[i + 2, 0]) % n, 0]
""",
        ("prefetch", "x", "i", 1),
        code="E1116",
    ),
    Case(
        "zeros in each iteration",
        """
for i in range(n):
    row = T.zeros((m,), "float32")
    for j in range(m):
        row[j] = row[j] + x[i, j]
        out[i, j] = row[j]
""",
        ("expand", "row", "i"),
        code="E1116",
    ),
    Case(
        "the order of two loops",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
for j in range(n):
    out[j, 1] = out[j, 0] * 2.0
""",
        ("fuse", "j", "i"),
        code="E1116",
    ),
    Case(
        "axes that are not a permutation",
        """
for i in range(n):
    for j in range(m):
        out[i, j] = x[i, j]
""",
        ("pack", "x", "i", 0, 0),
        code="E1115",
        locations=1,
    ),
    Case(
        "a quotient that is rounded to an integer",
        """
d = T.float32(41.0)
for i in range(n):
    out[i, 0] = T.floor(41.0 * T.float32(i) / d)
""",
        ("reciprocal", "i"),
        checks={"primitives.reciprocal._rounded_divisions": lambda tree: ()},
        sizes=(100, 1),
        code="E1116",
        locations=1,
    ),
    Case(
        "a divisor that changes",
        """
d = T.float32(4.0)
for i in range(n):
    out[i, 0] = x[i, 0] / d
    d = d + 4.0
""",
        ("reciprocal", "i"),
        checks={"primitives.reciprocal._is_invariant": always},
    ),
    Case(
        "a block that other parts write",
        """
@I.kernel
def f(x: R.Tensor((3,), "float32"), out: R.Tensor((3,), "float32")):
    low, high = T.part(3)
    for i in range(low, high):
        for k in range(3):
            if k == i:
                out[k] = x[k] * 2.0
""",
        ("stage", "out", "k"),
        sizes=(),
        code="E1119",
    ),
    Case(
        "a loop in steps of 2",
        """
for i in range(0, n, 2):
    for j in range(n):
        out[i, j] = x[j, i]
""",
        ("tensorise", "i"),
        code="E1116",
    ),
    Case(
        "a diagonal",
        """
for i in range(n):
    for j in range(n):
        total = T.float32(0.0)
        for k in range(n):
            total = total + x[i, i] * x[k, j]
        out[i, j] = total
""",
        ("tensorise", "i"),
        code="E1116",
    ),
    Case(
        "every second element",
        """
for i in range(n):
    for j in range(2):
        total = T.float32(0.0)
        for k in range(2):
            total = total + x[i, 2 * k] * x[k, j]
        out[i, j] = total
""",
        ("tensorise", "i"),
        code="E1116",
    ),
    Case(
        "ends of the part that change",
        """
low, high = T.part(1)
row = T.zeros((n + 1,), "float32")
for i in range(n):
    row[low] = x[i, 0]
    low = low + 1
    out[i, 0] = row[low]
""",
        ("expand", "row", "i"),
        code="E1116",
        locations=1,
    ),
    Case(
        "a loop whose iterations all parts begin together",
        """
@I.kernel
def f(x: R.Tensor((5,), "float32"), out: R.Tensor((4, 5), "float32")):
    low, high = T.part(5)
    for i in range(low, high):
        out[0, i] = x[i]
    for t in T.synchronized(3):
        for i in range(low, high):
            out[t + 1, i] = out[t, (i + 1) % 5] * 2.0
""",
        ("unroll", "t"),
        sizes=(),
        code="E1116",
        locations=1,
    ),
    Case(
        "threads that wait for each other",
        """
@I.kernel(target="cuda", blocks=1, threads=2)
def f(x: R.Tensor((2, 3), "float32"), out: R.Tensor((2, 3), "float32")):
    shared = T.shared((2, 3), "float32")
    for i in range(3):
        shared[T.thread(), i] = x[T.thread(), i]
    T.sync_threads()
    for j in range(3):
        out[T.thread(), j] = shared[1 - T.thread(), j]
""",
        ("fuse", "i", "j"),
        sizes=(),
        code="E1116",
        locations=1,
    ),
    Case(
        "the last bits",
        """
d = T.float32(3.0)
for i in range(n):
    out[i, 0] = x[i, 0] / d
""",
        ("reciprocal", "i"),
        options={"exact": True},
        code="E1118",
        locations=1,
    ),
    Case(
        "a continue that skips both loops",
        """
for i in range(n):
    if x[i, 0] > 0.0:
        continue
    out[i, 0] = x[i, 0]
    out[i, 1] = x[i, 1]
""",
        ("fission", "i"),
        code="E1116",
    ),
    Case(
        "a continue that skips the second loop",
        """
for i in range(n):
    if x[i, 0] > 0.0:
        continue
    out[i, 0] = x[i, 0]
for j in range(n):
    out[j, 1] = x[j, 1]
""",
        ("fuse", "i", "j"),
        code="E1116",
    ),
    Case(
        "a loop that is left before the assignment",
        """
s = T.float32(2.0)
for i in range(5):
    if i == 0:
        break
    s = x[0, 0] + 3.0
    out[i, 0] = s
out[0, 1] = s
""",
        ("hoist", "s", "i"),
        code="E1116",
    ),
    Case(
        "a part that is left early",
        """
for i in range(n):
    for j in range(m):
        out[i, j] = 1.0
    if i == 1:
        break
""",
        ("parallel", "i"),
        code="E1116",
    ),
    Case(
        "an index that a continue keeps in range",
        """
for i in range(n):
    if i + 2 >= n:
        continue
    out[i, 0] = x[T.int64(x[i + 2, 0]) % n, 0]
""",
        ("prefetch", "x", "i", 1),
        code="E1116",
    ),
    Case(
        "lanes after the one that leaves the loop",
        """
for i in range(n):
    if i == 1:
        break
    out[i, 0] = x[i, 0]
""",
        ("vectorise", "i"),
        code="E1116",
    ),
    Case(
        "a bound that changes between both loops",
        """
stop = T.int64(4)
for i in range(stop):
    out[i, 0] = x[i, 0]
    stop = T.int64(1)
    out[i, 1] = x[i, 1]
""",
        ("fission", "i", 2),
    ),
    Case(
        "a bound that the first loop changes",
        """
stop = T.int64(4)
for i in range(stop):
    out[i, 0] = x[i, 0]
    stop = T.int64(1)
for j in range(stop):
    out[j, 1] = x[j, 1]
""",
        ("fuse", "i", "j"),
    ),
    Case(
        "the bound of the loop",
        """
stop = T.int64(4)
for i in range(stop):
    stop = T.int64(1)
    out[i, 0] = x[i, 0]
""",
        ("hoist", "stop", "i"),
    ),
    Case(
        "a negative factor",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("split", "i", -2),
        code="E1115",
        locations=0,
    ),
    Case(
        "a negative distance",
        """
for i in range(n):
    out[i, 0] = x[T.int64(x[i, 0]) % n, 0]
""",
        ("prefetch", "x", "i", -1),
        code="E1115",
        locations=0,
    ),
    Case(
        "two assignments",
        """
row = T.empty((m,), "float32")
for j in range(m):
    row[j] = x[0, j]
for l in range(m):
    row[l] = x[1, l]
for k in range(m):
    out[0, k] = row[k]
""",
        ("compute_at", "row", "k"),
        code="E1116",
    ),
    Case(
        "a sum that is computed again",
        """
row = T.zeros((m,), "float32")
for j in range(m):
    row[j] = row[j] + x[0, j]
for k in range(n):
    for l in range(m):
        out[k, l] = row[l]
""",
        ("compute_at", "row", "k"),
        code="E1116",
        locations=1,
    ),
    Case(
        "a sum",
        """
row = T.zeros((m,), "float32")
for j in range(m):
    row[j] = row[j] + x[0, j]
for k in range(m):
    out[0, k] = row[k]
""",
        ("inline", "row"),
        code="E1116",
        locations=1,
    ),
    Case(
        "elements in reversed order",
        """
row = T.zeros((m,), "float32")
for j in range(m):
    row[m - 1 - j] = x[0, j]
for k in range(m):
    out[0, k] = row[k]
""",
        ("compute_at", "row", "k"),
        code="E1116",
        locations=1,
    ),
    Case(
        "elements in reversed order",
        """
row = T.zeros((m,), "float32")
for j in range(m):
    row[m - 1 - j] = x[0, j]
for k in range(m):
    out[0, k] = row[k]
""",
        ("inline", "row"),
        code="E1116",
        locations=1,
    ),
    Case(
        "elements that are read before they are written",
        """
row = T.zeros((m,), "float32")
for k in range(m):
    out[0, k] = row[k]
for j in range(m):
    row[j] = x[0, j]
""",
        ("compute_at", "row", "k"),
        code="E1119",
    ),
    Case(
        "terms in an order that their own loop decides",
        """
for k in range(n):
    for i in range(k):
        for j in range(m):
            out[i, j] = out[i, j] + x[i, k] * x[k, j]
""",
        ("tensorise", "k", True),
        code="E1116",
    ),
    Case(
        "a test behind one of an element",
        """
for i in range(n):
    if x[i, 0] > 0.0 and i < 2:
        out[i, 0] = 1.0
""",
        ("bound", "i"),
        checks={"primitives.bound._limits": lambda tree, loop, test: ([], [])},
        code="E1116",
    ),
    Case(
        "a test with an alternative",
        """
for i in range(n):
    if i < 2:
        out[i, 0] = 1.0
    else:
        out[i, 0] = 2.0
""",
        ("bound", "i"),
        code="E1116",
    ),
    Case(
        "a scalar that is stored to an element that is read before",
        """
for i in range(n):
    t = T.float32(0.0)
    for j in range(m):
        t = t + x[i, j] + out[i, 0]
    out[i, 0] = t
""",
        ("demote", "t"),
        code="E1119",
    ),
    Case(
        "a loop that is not around the other",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
for j in range(m):
    out[0, j] = x[0, j]
""",
        ("skew", "i", "j"),
        code="E1116",
    ),
    Case(
        "blocks that overlap",
        """
for i_0 in range(0, n, 2):
    for i in range(i_0, min(i_0 + 3, n)):
        out[i, 0] = out[i, 0] + x[i, 0]
""",
        ("collapse", "i_0"),
        checks={"schedule.block_loops._are_consecutive": always},
        code="E1116",
    ),
    JoiningCase(
        "a kernel in parts",
        """
@I.kernel
def first(x: R.Tensor((5,), "float32"), out: R.Tensor((5,), "float32")):
    low, high = T.part(5)
    for i in range(low, high):
        out[i] = x[i]

@I.kernel
def second(x: R.Tensor((5,), "float32"), out: R.Tensor((5,), "float32")):
    for i in range(5):
        out[i] = x[4 - i]
""",
        code="E1116",
        locations=1,
    ),
]
