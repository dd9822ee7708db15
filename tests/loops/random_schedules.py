"""Random primitives on random kernels, compared with the interpreter.

`python tests/loops/random_schedules.py COUNT [FIRST]` prints counts; `--without CHECK` removes one
check of legality, to see that its absence is found.
"""

import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
import structir
from structir.ir.kernel import Assign, Kernel, Local
from structir.loops.loop_tree import loop_tree, prepared
from structir.loops.primitives import find_primitive, primitive_names
from structir.loops.refusal import ScheduleError
from structir.passes import Lower
from tests.loops.kernels import arrays_of, kernel_of, results, symbols_of

PROGRAM = "from structir.script import I, R, T\n\n@I.ir_module\nclass Module:\n"
EXPRESSIONS = (
    "R.nn.softmax(x, axis=-1)",
    "R.add(R.multiply(x, y), b)",
    "R.nn.layer_norm(x, b, b, axes=[-1])",
    "R.sum(R.multiply(x, y), axis=[1])",
    "R.matmul(x, w)",
    "R.nn.relu(R.add(R.matmul(x, w), c))",
    "R.max(x, axis=[0])",
    "R.subtract(x, R.mean(x, axis=[1], keepdims=True))",
    "R.sum(R.multiply(x, x), axis=[0, 1])",
    "R.permute_dims(R.add(x, y), [1, 0])",
    "R.matmul(R.permute_dims(x, [1, 0]), y)",
    "R.cumsum(x, axis=1)",
    "R.concat((x, y), axis=1)",
)
PARAMETERS = ", ".join(f'{name}: R.Tensor(("n", "m"), "float32")' for name in ("x", "y", "out"))
# Iterations that depend on each other: most primitives must be refused.
DEPENDENT = (
    """
row = T.zeros((m,), 'float32')
for i in range(n):
    t = x[i, 0]
    for j in range(m):
        row[j] = x[i, j] * t
    t = t + 1.0
    for k in range(m):
        out[i, k] = row[k] + t
""",
    """
for j in range(m):
    out[0, j] = x[0, j]
for i in range(1, n):
    for j in range(m):
        out[i, j] = out[i - 1, j] + x[i, j]
""",
    """
for i in range(n):
    for j in range(m):
        out[i, j] = x[i, j]
for i in range(n):
    for j in range(m):
        out[i, j] = out[i, j] + out[i, m - 1 - j]
""",
    """
row = T.zeros((m,), 'float32')
for i in range(n):
    for j in range(m):
        row[j] = row[j] + x[i, j]
        out[i, j] = row[j]
""",
    """
row = T.empty((m,), 'float32')
for i in range(n):
    for j in range(m):
        row[j] = x[i, j] * 2.0
    for k in range(m):
        out[i, k] = row[m - 1 - k] + row[k]
""",
    """
for i in range(n):
    t = x[i, 0]
    for j in range(m):
        t = t * 0.5 + x[i, j]
        out[i, j] = t
""",
    """
for i in range(n):
    for j in range(m):
        out[i, j] = x[i, j] + y[(i + 1) % n, j]
for i in range(n):
    for j in range(m):
        out[i, j] = out[(i * 2) % n, j]
""",
    """
for j in range(m):
    for i in range(n):
        out[i, j] = x[i, j] if j < 2 else out[i, j - 2]
""",
    """
for i in range(1, n):
    for j in range(m - 1):
        out[i, j] = out[i - 1, j + 1] + x[i, j]
""",
    """
for i in range(1, n):
    for j in range(1, m):
        out[i, j] = out[i - 1, j - 1] + x[i, j]
""",
    """
for i in range(n):
    out[i, 0] = x[i, 0]
for i in range(n):
    out[i, 1 % m] = x[i, 0] + out[(i + n - 1) % n, 0] if i > 0 else x[i, 0]
""",
    """
for i in range(n):
    out[i, 0] = x[i, 0]
for i in range(n):
    y_last = out[i - 1, 0] if i > 0 else 0.0
    out[i, m - 1] = y_last * 2.0
""",
    """
for i in range(n):
    k = i // 2
    for j in range(m):
        out[k, j] = out[k, j] * 0.5 + x[i, j]
""",
    """
t = 0.0
for i in range(n):
    for j in range(m):
        out[i, j] = t
        t = x[i, j]
""",
    """
for i in range(n - 1, -1, -1):
    for j in range(m):
        out[i, j] = x[i, j] + out[i + 1, j] if i + 1 < n else x[i, j]
""",
    """
k = 2
for i in range(n):
    for j in range(min(k, m)):
        out[i, j] = x[i, j]
    k = k + 1
""",
    """
for i in range(n):
    for j in range(m):
        out[i, j] = x[i, j]
        if y[i, j] < 0.0:
            continue
        out[i, j] = out[i, j] + out[0, 0]
""",
)


def random_kernel(rng: random.Random) -> Kernel:
    """Returns a naive kernel of an expression, or one whose iterations depend on each other."""
    if rng.random() < 0.45:
        return kernel_of(PARAMETERS, rng.choice(DEPENDENT))
    n, m = ("3", rng.choice(("4", "7", "16"))) if rng.random() < 0.3 else ('"n"', '"m"')
    shapes = {"x": (n, m), "y": (n, m), "w": (m, "5"), "b": (m,), "c": ("5",)}
    params = [f'{p}: R.Tensor(({", ".join(s)},), "float32")' for p, s in shapes.items()]
    body = f"        r = {rng.choice(EXPRESSIONS)}\n        return r\n"
    text = f"{PROGRAM}    @R.function\n    def main({', '.join(params)}):\n{body}"
    functions = Lower()(structir.parse(text)).functions.values()
    return rng.choice([f for f in functions if isinstance(f, Kernel)])


def random_arguments(kernel: Kernel, name: str, rng: random.Random) -> list[Any] | None:
    """Returns arguments of a primitive, by the annotations of its parameters."""
    tree, arguments = loop_tree(kernel), []
    tables = {"For": tree.loops, "Scratch": tree.arrays, "Local": tree.scalars}
    for parameter in find_primitive(name).parameters.values():
        table = tables.get(str(parameter.annotation))
        if table is not None:
            if not table:
                return None
            arguments.append(rng.choice(list(table)))
        elif str(parameter.annotation) == "int":
            arguments.append(rng.choice((1, 2, 3, 4)))
        elif parameter.name == "tail":
            arguments.append(rng.choice(("guard", "exact", "peel")))
        elif parameter.default is not parameter.empty:
            break
        else:
            return None
    if name == "fuse":  # neighbours, most of the time
        loops = list(tree.loops)
        index = rng.randrange(len(loops))
        arguments = [loops[index], rng.choice(loops[index + 1 : index + 4] or loops)]
    return arguments


def same(first: list[np.ndarray], second: list[np.ndarray], exact: bool) -> bool:
    """Whether results are equal, up to rounding unless `exact`."""
    return all(
        np.array_equal(a, b, equal_nan=True)
        or (not exact and np.allclose(a, b, 2e-4, 2e-4, equal_nan=True))
        for a, b in zip(first, second, strict=True)
    )


def violated_invariant(kernel: Kernel) -> str:
    """Returns what primitives must keep and a kernel does not have; "" if there is none."""
    statements = list(loop_tree(kernel).within(kernel.body))
    variables = [s.variable for s in statements if hasattr(s, "variable")]
    if len({id(s) for s in statements}) < len(statements):
        return "a statement is in two places"
    if len({v.name for v in variables}) < len(variables):
        return "two loops have one variable"
    names = {s.target.name for s in statements if isinstance(s, Assign) and type(s.target) is Local}
    return "a name has two meanings" if names & {v.name for v in variables} else ""


def parsed(kernel: Kernel) -> Kernel:
    """Returns a kernel, printed and parsed."""
    lines = "".join(f"    {line}\n" for line in str(kernel).splitlines())
    return structir.parse(PROGRAM + lines).functions[kernel.name]


class Run:
    """Counts of a run, and the schedules with wrong results."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.applied: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.wrong: list[tuple[int, list[Any], str]] = []

    def schedule(self, seed: int, steps: int = 10, compiled: bool = False) -> None:
        """Applies random primitives to a random kernel, comparing results after each."""
        rng = random.Random(seed)
        naive = kernel = prepared(random_kernel(rng))
        sizes = {s: rng.choice((1, 2, 3, 5, 7)) for s in symbols_of(naive)}
        arrays = arrays_of(naive, sizes, seed)
        expected, exact, log = results(naive, arrays, sizes), True, list[Any]()
        for _ in range(steps):
            name = rng.choice(self.names)
            arguments = random_arguments(kernel, name, rng)
            if arguments is None:
                continue
            try:
                kernel = find_primitive(name)(kernel, *arguments)
            except ScheduleError:
                self.refused[name] += 1
                continue
            self.applied[name] += 1
            exact = exact and not find_primitive(name).rounds
            log.append((name, *arguments))
            problem = self.problem(
                kernel, lambda k: results(k, arrays, sizes, seed), expected, exact
            )
            if problem:
                self.wrong.append((seed, log, problem))
                return
        if compiled:
            self.compile(seed, kernel, arrays, expected)

    def problem(self, kernel: Kernel, run: Any, expected: Any, exact: bool) -> str:
        """Returns what is wrong with a scheduled kernel; "" if nothing is."""
        try:
            if not same(expected, run(kernel), exact):
                return "wrong results"
        except (structir.errors.StructIRError, KeyError) as error:
            return f"fails: {error!r}"
        text_is_same = str(parsed(kernel)) == str(kernel)
        return violated_invariant(kernel) or ("" if text_is_same else "text does not round-trip")

    def compile(self, seed: int, kernel: Kernel, arrays: Any, expected: Any) -> None:
        """Compares the results of the compiled kernel."""
        lines = "".join(f"    {line}\n" for line in str(kernel).splitlines())
        run = structir.compile(structir.parse(PROGRAM + lines))[kernel.name]
        values = [array.copy() for array in arrays]
        count = len(kernel.operands)
        run(*values)
        if not same(expected, values[count:], False):
            self.wrong.append((seed, [str(kernel)], "wrong results of the compiled kernel"))


REMOVED: dict[str, Any] = {
    "meets_later": lambda *args, **keywords: False,
    "is_private": lambda *args: True,
    "first_uninitialised_read": lambda *args: None,
    "read_after": lambda *args: None,
    "accumulated": lambda accesses: {a.memory for a in accesses if a.mention.order},
    "_moves_apart": lambda *args: True,
    "_is_disjoint": lambda *args: True,
    "has_jump": lambda *args: None,
    "same_range": lambda *args: True,
    "surely_written": lambda *args: True,
    "surely_runs": lambda *args: True,
}


def without(check: str) -> None:
    """Replaces a check by one that allows everything, wherever it is imported."""
    for name, module in list(sys.modules.items()):
        if name.startswith("structir.loops") and hasattr(module, check):
            setattr(module, check, REMOVED.get(check, lambda *args, **keywords: None))


def main() -> None:
    arguments = sys.argv[1:]
    names = primitive_names()
    for name in names:
        find_primitive(name)
    if "--without" in arguments:
        at = arguments.index("--without")
        without(arguments[at + 1])
        del arguments[at : at + 2]
    count, first = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 0
    run, start = Run(names), time.process_time()
    for seed in range(first, first + count):
        run.schedule(seed, compiled=seed % 10 == 0)
    applied, refused = sum(run.applied.values()), sum(run.refused.values())
    print(f"{count} kernels, {applied} applied, {refused} refused, {len(run.wrong)} wrong")
    print(f"{time.process_time() - start:.1f} s of CPU")
    print("applied", dict(run.applied), "refused", dict(run.refused))
    for wrong in run.wrong[:5]:
        print(*wrong)


if __name__ == "__main__":
    main()
