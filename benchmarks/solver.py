"""How fast the shape solver is: a mixed graph, a chain, a fan, a ladder, calls of one function,
and the explanation of a conflict. Times are processor time, of the best of three runs.

    python benchmarks/solver.py
"""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable
from random import Random

from structir.ir.polynomial import Dim
from structir.solver.constraints.constraint import Window
from structir.solver.constraints.scheme import Scheme
from structir.solver.constraints.signature import SignatureVars, read_signature, signature
from structir.solver.domains.reasons import Conflict, Origin
from structir.solver.domains.terms import Row, RowVar, variables
from structir.solver.program.generalisation import generalise
from structir.solver.program.unsat_core import explain
from structir.solver.propagation.arithmetic import fresh
from structir.solver.solver import ConstraintSolver, Value

ADD = read_signature("~s; ~s -> ~s")
SAME = read_signature("*s -> *s")
MATMUL = read_signature("~s m k; ~s k n -> ~s m n")
LINEAR = read_signature("*s k; n k; n -> *s n")
TURNED = read_signature("*s a b -> *s b a")


def _slides(letters: SignatureVars) -> list[Window]:
    of = letters.size
    return [Window(of(f"y{k}"), of(f"h{k}"), of(f"r{k}"), 1, 2, 1) for k in (0, 1)]


CONV = signature("n c h0 h1; o c r0 r1; o -> n o y0 y1", _slides)


class Graph:
    """A random program: 60 % elementwise, 15 % products, 10 % convolutions, the rest layout."""

    def __init__(self, count: int) -> None:
        self.random = Random(0)
        self.names: list[Dim] = [fresh(name) for name in "bthw"]
        self.params: list[tuple[Value, Row]] = []
        self.ops: list[tuple[Scheme, list[Value], Value]] = []
        batch, steps, height, width = self.names
        self.sequences = [self.param((batch, steps, 64))]
        self.images = [self.param((batch, 16, height, width))]
        for number in range(count):
            self.grow(Value(f"t{number}"))

    def param(self, row: Row) -> Value:
        value = Value(f"p{len(self.params)}")
        self.params.append((value, row))
        return value

    def pick(self, values: list[Value]) -> Value:
        return values[-1 - min(int(self.random.expovariate(0.5)), len(values) - 1)]

    def grow(self, made: Value) -> None:
        draw = self.random.random()
        if draw < 0.6:
            images = self.random.random() < 0.4
            self.elementwise(self.images if images else self.sequences, images, made)
        elif draw < 0.75:
            self.product(made)
        elif draw < 0.85:
            kernel, bias = self.param((16, fresh(), 3, 3)), self.param((RowVar(),))
            self.ops.append((CONV, [self.pick(self.images), kernel, bias], made))
            self.images.append(made)
        else:
            between = Value("turned")
            self.ops.append((TURNED, [self.pick(self.sequences)], between))
            self.ops.append((TURNED, [between], made))
            self.sequences.append(made)

    def elementwise(self, values: list[Value], images: bool, made: Value) -> None:
        draw, one = self.random.random(), self.pick(values)
        if draw < 0.4:
            self.ops.append((SAME, [one], made))
        elif draw < 0.8:
            self.ops.append((ADD, [one, self.pick(values)], made))
        else:
            narrow: Row = (fresh(), 1, 1) if images else (1, 64)
            self.ops.append((ADD, [one, self.param(narrow)], made))
        values.append(made)

    def product(self, made: Value) -> None:
        one = self.pick(self.sequences)
        if self.random.random() < 0.3:
            self.ops.append((MATMUL, [one, self.param((64, 64))], made))
        else:
            weight: Row = (64, fresh()) if self.random.random() < 0.5 else (RowVar(),)
            self.ops.append((LINEAR, [one, self.param(weight), self.param((64,))], made))
        self.sequences.append(made)

    def tell(self, solver: ConstraintSolver, times: list[float] | None = None) -> None:
        solver.prefer([symbol for name in self.names for symbol in variables(name)])
        for value, row in self.params:
            solver.assert_shape(value, row, Origin(value.name, "parameter"))
        for order, (scheme, operands, result) in enumerate(self.ops):
            start = time.perf_counter()
            solver.apply(scheme, operands, [result], Origin(result.name, order=order))
            if times is not None:
                times.append(time.perf_counter() - start)


def chain(count: int) -> None:
    """Row-broadcast adds with one leaf of unknown rank."""
    solver, value, leaf = ConstraintSolver(), Value("x"), Value("w")
    solver.assert_shape(value, (fresh("n"), 64), Origin("x", "parameter"))
    for number in range(count):
        made = Value(f"y{number}")
        solver.apply(ADD, [value, leaf], [made], Origin(made.name))
        value = made
    solver.solve()


def fan(count: int) -> None:
    """One value of unknown shape, used many times beside others; then its shape is told."""
    solver, value = ConstraintSolver(), Value("x")
    for number in range(count):
        other, made = Value("y"), Value(f"r{number}")
        solver.assert_shape(other, (fresh("n"), 64), Origin("y", "parameter"))
        solver.apply(ADD, [value, other], [made], Origin(made.name))
    solver.assert_shape(value, (fresh("m"), 64), Origin("x", "annotation"))
    solver.solve()


def ladder(count: int) -> None:
    """Residual blocks whose weights are unknown."""
    solver, value = ConstraintSolver(), Value("x")
    solver.assert_shape(value, (RowVar("s"), fresh("d")), Origin("x", "parameter"))
    for number in range(count):
        weight, inner, outer = Value("w"), Value("h"), Value(f"y{number}")
        solver.apply(LINEAR, [value, weight, Value("b")], [inner], Origin(f"h{number}"))
        solver.apply(ADD, [inner, value], [outer], Origin(outer.name))
        value = outer
    solver.solve()


def calls(count: int) -> None:
    """Many calls of one generalised function."""
    inner, x, w, y = ConstraintSolver(), Value("x"), Value("w"), Value("y")
    inner.apply(MATMUL, [x, w], [y], Origin("y"))
    scheme = generalise(inner, [x, w], [y])
    solver, value = ConstraintSolver(), Value("x")
    solver.assert_shape(value, (fresh("b"), fresh("t"), 64), Origin("x", "parameter"))
    for number in range(count):
        weight, made = Value("w"), Value(f"y{number}")
        solver.assert_shape(weight, (fresh(), 64), Origin("w", "parameter"))
        solver.apply(scheme, [value, weight], [made], Origin(made.name))
        value = made
    solver.solve()


def best(run: Callable[[], object]) -> float:
    """The least processor time of three runs, in seconds."""
    found: list[float] = []
    for _ in range(3):
        gc.collect()
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def explained() -> float:
    """The time to explain a conflict in the large graph."""
    graph, solver = Graph(10_000), ConstraintSolver()
    graph.tell(solver)
    last = next(made for scheme, _, made in reversed(graph.ops) if scheme is LINEAR)
    try:
        solver.assert_shape(last, (fresh(), fresh(), 65), Origin("annotation", "annotation"))
        solver.solve()
    except Conflict as conflict:
        start = time.process_time()
        explain(solver, conflict)
        return time.process_time() - start
    raise SystemExit("the graph should be impossible")


def bytes_each() -> float:
    """Memory for each op of the large graph."""
    graph = Graph(10_000)
    tracemalloc.start()
    solver = ConstraintSolver()
    graph.tell(solver)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / len(graph.ops)


def main() -> None:
    graphs = {count: Graph(count) for count in (1_000, 10_000)}
    graphs[1_000].tell(ConstraintSolver())  # warm up
    small, large = (
        best(lambda count=count: graphs[count].tell(ConstraintSolver())) for count in graphs
    )
    times: list[float] = []
    solver = ConstraintSolver()
    graphs[10_000].tell(solver, times)
    times.sort()
    start = time.process_time()
    solver.solve()
    solving = time.process_time() - start
    rows = [
        ("10,000 ops, propagated", f"{large:.2f} s", "1.0 s"),
        ("growth from 1,000 to 10,000 ops", f"{large / small:.1f} x", "13 x"),
        ("one op, median", f"{statistics.median(times) * 1e6:.0f} us", "60 us"),
        ("one op, 95th percentile", f"{times[len(times) * 95 // 100] * 1e6:.0f} us", "250 us"),
        ("solve() after it", f"{solving:.2f} s", "0.5 s"),
        ("chain of 10,000 adds, unknown leaf", f"{best(lambda: chain(10_000)):.2f} s", "1.5 s"),
        ("fan of 5,000 uses", f"{best(lambda: fan(5_000)):.2f} s", "-"),
        ("ladder of 3,000 residual blocks", f"{best(lambda: ladder(3_000)):.2f} s", "-"),
        ("2,000 calls of one function", f"{best(lambda: calls(2_000)):.2f} s", "-"),
        ("explanation of a conflict", f"{explained():.2f} s", "1.0 s"),
        ("memory for an op", f"{bytes_each() / 1024:.1f} KiB", "2 KiB a constraint"),
    ]
    for what, found, target in rows:
        print(f"{what:36} {found:>10}   target {target}")


if __name__ == "__main__":
    main()
