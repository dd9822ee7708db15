"""Every refusal prevents a wrong result: without its check, a kernel computes something else."""

import sys
from random import Random
from typing import Any

import attrs
import numpy as np
import pytest

from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.kernel import Kernel
from structir.loops.primitives import find_primitive
from structir.loops.schedule.loop_tree import prepared
from structir.loops.schedule.refusal import ScheduleError
from tests.loops.running import arguments, parsed, run

HEAD = (
    '@I.kernel\ndef f(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("n", "m"), "float32")):\n'
)


@attrs.frozen
class Case:
    """A step that is refused; `checks` are the functions, as `module.name`, whose removal lets it
    pass, each with a replacement."""

    name: str
    body: str
    step: tuple[Any, ...]
    checks: dict[str, Any]
    before: tuple[tuple[Any, ...], ...] = ()
    sizes: tuple[int, int] = (5, 6)
    code: str = "E1117"
    locations: int = 2


def nothing(*args: Any, **options: Any) -> None:
    """Replaces a check that raises, or one that returns what it objects to."""


def never(*args: Any, **options: Any) -> bool:
    return False


def always(*args: Any, **options: Any) -> bool:
    return True


CASES = [
    Case(
        "interchange of a dependence that goes back in the inner loop",
        """
for i in range(1, n):
    for j in range(m - 1):
        out[i, j] = out[i - 1, j + 1] + x[i, j]
""",
        ("reorder", "j", "i"),
        {"primitives.reorder.meets_later": never},
    ),
    Case(
        "the distance between iterations",
        """
for i in range(1, n):
    for j in range(m - 1):
        out[i, j] = out[i - 1, j + 1] + x[i, j]
""",
        ("reorder", "j", "i"),
        {"schedule.legality._exceeds": always},
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
        {"schedule.legality.first_uninitialised_read": nothing},
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
        {"schedule.legality.read_after": nothing},
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
        {"primitives.reorder.refuse_dependent_bounds": nothing},
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
        {"primitives.split.refuse_varying_bounds": nothing},
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
        {"primitives.split.refuse_jumps": nothing},
        code="E1116",
    ),
    Case(
        "iterations that remain",
        """
for i in range(n):
    out[i, 0] = x[i, 0]
""",
        ("split", "i", 4, "exact"),
        {"primitives.split._require_multiple": nothing},
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
        {"primitives.unroll.refuse_jumps": nothing},
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
        {"schedule.legality.meets_later": never},
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
        {"schedule.legality.meets_later": never},
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
        {"primitives.fuse._require_same_range": nothing},
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
        {"primitives.fuse._pair": nothing},
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
        {"primitives.fuse.jumps": nothing},
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
        {"schedule.legality.meets_later": never},
    ),
    Case(
        "elements of later iterations",
        """
for i in range(1, n):
    out[i, 0] = out[i - 1, 1] + x[i, 0]
    out[i, 1] = out[i, 0] * 2.0 + 1.0
""",
        ("fission", "i"),
        {"schedule.legality.meets_later": never},
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
        {
            "primitives.parallel.meets_later": never,
            "primitives.parallel._require_filled_results": nothing,
        },
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
        {"schedule.legality.first_uninitialised_read": nothing},
    ),
    Case(
        "results that are not set to zero",
        """
for i in range(n):
    for j in range(m):
        out[i, j] = out[i, j] + x[i, j]
""",
        ("parallel", "i"),
        {"primitives.parallel._require_filled_results": nothing},
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
        {"primitives.parallel.is_filled": always},
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
        {"primitives.parallel._require_whole_kernel": nothing},
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
        {"primitives.vectorise.Local": object},
    ),
    Case(
        "lanes that depend on each other",
        """
for i in range(1, n):
    out[i, 0] = out[i - 1, 0] + x[i, 0]
""",
        ("vectorise", "i"),
        {"primitives.vectorise.meets_later": never},
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
        {"primitives.vectorise.meets_later": never},
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
        {"primitives.expand._refuse_lanes": nothing},
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
        {"primitives.expand.first_uninitialised_read": nothing},
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
        {"primitives.expand.read_after": nothing},
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
        {"primitives.parallel._count": lambda tree, loop: dims.sym("n")},
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
        {
            "primitives.reorder.refuse_varying_bounds": nothing,
            "primitives.reorder._refuse_dependences": nothing,
        },
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
        {"primitives.reorder.refuse_jumps": nothing},
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
        {"primitives.collapse.refuse_jumps": nothing},
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
        {"primitives.collapse._count": lambda tree, loop: tree.index(loop.stop)},
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
        {
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
        {"primitives.shrink.is_same_element": always},
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
        {"primitives.shrink._require_private": nothing},
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
        {"primitives.shrink._require_private": nothing},
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
        {"primitives.shrink._require_block": nothing},
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
        {"primitives.shrink._require_block": nothing},
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
        {"primitives.shrink.computed_in": str},
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
        {"schedule.producers.computed_in": str},
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
        {"primitives.inline.require_reads_after": nothing},
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
        {"primitives.inline.refuse_changes": nothing},
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
        {"primitives.hoist._require_invariant": nothing},
    ),
    Case(
        "a value that depends on the loop variable",
        """
for i in range(m):
    s = x[0, i] * 2.0
    out[0, i] = s
""",
        ("hoist", "s", "i"),
        {"primitives.hoist.depends_on": never, "primitives.hoist._require_safe": nothing},
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
        {
            "primitives.hoist.first_uninitialised_read": nothing,
            "primitives.hoist._require_safe": nothing,
        },
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
        {"primitives.hoist._require_safe": nothing},
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
        {"primitives.compute_at._require_reads_inside": nothing},
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
        {"primitives.compute_at.refuse_changes": nothing},
    ),
    Case(
        "elements out of range, which a condition excludes",
        """
for j in range(m):
    if j < m - 1:
        out[0, j] = x[0, j + 1]
""",
        ("stage", "x", "j"),
        {"primitives.stage.extremes": lambda *args: [0]},
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
        {"primitives.rfactor._function": lambda *args: "add_to"},
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
        {"primitives.tensorise._refuse_live": nothing},
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
        {"primitives.tensorise._are_arrays": always},
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
        {"primitives.tensorise._is_zero": always},
        code="E1116",
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
        {"primitives.tensorise._ends": lambda nest, loop: (0, [0])},
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
        {"primitives.bound._limits": lambda tree, loop, test: ([], [])},
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
        {"primitives.bound._has_alternative": never},
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
        {"primitives.demote._require_alone": nothing},
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
        {"primitives.skew._is_around": always},
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
        {"schedule.block_loops._are_consecutive": always},
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
        {"primitives.prefetch._require_known": nothing},
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
        {"primitives.prefetch._require_known": nothing},
        code="E1116",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.step[0]}: {case.name}")
def test_refusal_prevents_a_wrong_result(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "\n".join(f"    {line}" for line in case.body.strip().splitlines())
    naive = kernel = prepared(parsed(HEAD + body))
    for name, *args in case.before:
        kernel = find_primitive(name)(kernel, *args)
    name, *args = case.step
    with pytest.raises(ScheduleError) as caught:
        find_primitive(name)(kernel, *args)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == case.code and diagnostic.hint and diagnostic.op == name
    assert len(diagnostic.notes) >= case.locations, "both locations are named"

    for path, replacement in case.checks.items():
        module, _, function = path.rpartition(".")
        monkeypatch.setattr(sys.modules[f"structir.loops.{module}"], function, replacement)
    wrong = find_primitive(name)(kernel, *args)
    sizes = {s: k for s, k in zip(dims_of(naive), case.sizes, strict=True)}
    arrays = arguments(naive, sizes, 1)
    (expected,) = run(naive, arrays, sizes)
    assert not all(computes(wrong, expected, arrays, sizes, seed) for seed in range(4)), wrong


def computes(kernel: Kernel, expected: Any, arrays: Any, sizes: Any, seed: int) -> bool:
    """Whether a kernel runs, and has this result."""
    try:
        (result,) = run(kernel, arrays, sizes, Random(seed))
    except (KeyError, DiagnosticError):  # it reads a variable that has no value yet
        return False
    return np.array_equal(result, expected)


def dims_of(kernel: Any) -> list[Any]:
    """Returns the symbolic sizes of a kernel, in order."""
    info: Any = kernel.params[0].struct_info
    return [dims.as_sym(dim) for dim in info.dims]
