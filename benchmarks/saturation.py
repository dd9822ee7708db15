"""Compares equality saturation with a pipeline of passes: estimated cost, and measured time.

    python benchmarks/saturation.py                  all programs
    python benchmarks/saturation.py --only qkv,chain
    python benchmarks/saturation.py --matching       speed of e-matching, and sizes of e-graphs

Each program is compiled as written, after the pipeline, and after saturation with the rules of
`RULES`, which include all of the pipeline. Times are CPU times of one process with one thread:
the least of calls in turn, which other
processes disturb least.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("STRUCTIR_THREADS", "1")

import attrs
import numpy as np
from rich.console import Console
from rich.table import Table

import structir
from structir import passes, rewrite
from structir.ir import Constant, Expr, IRModule, Op
from structir.opdef import Axis, Ints
from structir.passes.manager.rules import rules_named
from structir.passes.manager.saturation import SaturationReport
from structir.rewriting import acts_element_wise, dims_of, dtype_of, rank_of
from structir.rewriting.egraph.block import BlockGraph
from structir.rewriting.egraph.saturation import Budget, Saturation
from structir.script import R

PIPELINE = (
    "simplify,reorder_matmul,fold_batch_norm,combine_parallel_matmul,"
    "simplify,fold_constant,cse,canonicalise_bindings,dce"
)
SHIPPED = "simplify reorder_matmul fold_batch_norm combine_parallel_matmul"
Rewrite = Iterator[Expr]


def is_matrix(*values: Expr) -> bool:
    return all(rank_of(value) == 2 for value in values)


@rewrite
def associate_left(a: Expr, b: Expr, c: Expr) -> Rewrite:
    """a @ (b @ c) = (a @ b) @ c"""
    yield R.matmul(a, R.matmul(b, c))
    if is_matrix(a, b) and rank_of(c) in (1, 2):
        yield R.matmul(R.matmul(a, b), c)


@rewrite
def associate_right(a: Expr, b: Expr, c: Expr) -> Rewrite:
    """(a @ b) @ c = a @ (b @ c)"""
    yield R.matmul(R.matmul(a, b), c)
    if is_matrix(a, b) and rank_of(c) in (1, 2):
        yield R.matmul(a, R.matmul(b, c))


@rewrite
def common_left_factor(a: Expr, b: Expr, c: Expr) -> Rewrite:
    """a @ b + a @ c = a @ (b + c)"""
    yield R.add(R.matmul(a, b), R.matmul(a, c))
    if dims_of(b) is not None and dims_of(b) == dims_of(c):
        yield R.matmul(a, R.add(b, c))


@rewrite
def common_right_factor(a: Expr, b: Expr, c: Expr) -> Rewrite:
    """a @ c + b @ c = (a + b) @ c"""
    yield R.add(R.matmul(a, c), R.matmul(b, c))
    if dims_of(a) is not None and dims_of(a) == dims_of(b):
        yield R.matmul(R.add(a, b), c)


@rewrite
def common_factor(x: Expr, y: Expr, z: Expr) -> Rewrite:
    """x * z + y * z = (x + y) * z"""
    yield R.add(R.multiply(x, z), R.multiply(y, z))
    yield R.multiply(R.add(x, y), z)


@rewrite
def commute_product(x: Expr, y: Expr) -> Rewrite:
    """x * y = y * x"""
    yield R.multiply(x, y)
    yield R.multiply(y, x)


@rewrite
def associate_sum(x: Expr, y: Expr, z: Expr) -> Rewrite:
    """(x + y) + z = x + (y + z)"""
    yield R.add(R.add(x, y), z)
    yield R.add(x, R.add(y, z))


@rewrite
def commute_sum(x: Expr, y: Expr) -> Rewrite:
    """x + y = y + x"""
    yield R.add(x, y)
    yield R.add(y, x)


@rewrite
def transpose_of_one(x: Expr, f: Op, axes: Ints) -> Rewrite:
    """Moves a permute before an elementwise op."""
    yield R.permute_dims(f(x), axes)
    if acts_element_wise(f):
        yield f(R.permute_dims(x, axes))


@rewrite
def transpose_after_one(x: Expr, f: Op, axes: Ints) -> Rewrite:
    """Moves a permute after an elementwise op."""
    yield f(R.permute_dims(x, axes))
    if acts_element_wise(f):
        yield R.permute_dims(f(x), axes)


@rewrite
def transpose_of_two(x: Expr, y: Expr, f: Op, axes: Ints) -> Rewrite:
    """Moves a permute before an elementwise op of two operands."""
    yield R.permute_dims(f(x, y), axes)
    if acts_element_wise(f) and rank_of(x) == rank_of(y) == len(axes):
        yield f(R.permute_dims(x, axes), R.permute_dims(y, axes))


@rewrite
def product_of_transposes(x: Expr, y: Expr, p: Ints) -> Rewrite:
    """x.T @ y.T = (y @ x).T"""
    yield R.matmul(R.permute_dims(x, p), R.permute_dims(y, p))
    if is_matrix(x, y) and tuple(p) == (1, 0):
        yield R.permute_dims(R.matmul(y, x), p)


@rewrite
def scale_of_left(x: Expr, y: Expr, c: Expr) -> Rewrite:
    """(x * c) @ y = (x @ y) * c"""
    yield R.matmul(R.multiply(x, c), y)
    if rank_of(c) == 0:
        yield R.multiply(R.matmul(x, y), c)


@rewrite
def scale_of_product(x: Expr, y: Expr, c: Expr) -> Rewrite:
    """(x @ y) * c = (x * c) @ y"""
    yield R.multiply(R.matmul(x, y), c)
    if rank_of(c) == 0:
        yield R.matmul(R.multiply(x, c), y)


@rewrite
def scale_of_operand(x: Expr, w: Expr, c: Expr) -> Rewrite:
    """(x * c) @ w = x @ (w * c)"""
    yield R.matmul(R.multiply(x, c), w)
    if rank_of(c) == 0:
        yield R.matmul(x, R.multiply(w, c))


@rewrite
def concat_of_products(x: Expr, y: Expr, w: Expr, axis: Axis) -> Rewrite:
    """concat(x @ w, y @ w) = concat(x, y) @ w"""
    yield R.concat((R.matmul(x, w), R.matmul(y, w)), axis=axis)
    if is_matrix(x, y, w) and axis == 0:
        yield R.matmul(R.concat((x, y), axis=0), w)


@rewrite
def product_of_concats(x: Expr, y: Expr, z: Expr, w: Expr) -> Rewrite:
    """x @ z + y @ w = concat(x, y) @ concat(z, w)"""
    yield R.add(R.matmul(x, z), R.matmul(y, w))
    if is_matrix(x, y, z, w):
        yield R.matmul(R.concat((x, y), axis=1), R.concat((z, w), axis=0))


@rewrite
def concat_of_one(x: Expr, y: Expr, f: Op, axis: Axis) -> Rewrite:
    """concat(f(x), f(y)) = f(concat(x, y))"""
    yield R.concat((f(x), f(y)), axis=axis)
    if acts_element_wise(f) and dtype_of(x) == dtype_of(y):
        yield f(R.concat((x, y), axis=axis))


@rewrite
def sum_of_product(x: Expr, c: Expr, axis: Axis) -> Rewrite:
    """sum(x * c) = sum(x) * c"""
    yield R.sum(R.multiply(x, c), axis)
    if rank_of(c) == 0:
        yield R.multiply(R.sum(x, axis), c)


@rewrite
def sum_of_columns(x: Expr, y: Expr) -> Rewrite:
    """sum(x @ y, axis=-1) = x @ sum(y, axis=-1)"""
    yield R.sum(R.matmul(x, y), -1)
    if is_matrix(x, y):
        yield R.matmul(x, R.sum(y, -1))


@rewrite
def merge_scales(x: Expr, c: Constant, d: Constant) -> Rewrite:
    """(x * c) * d = x * (c * d)"""
    yield R.multiply(R.multiply(x, c), d)
    yield R.multiply(x, R.multiply(c, d))


@rewrite
def product_of_exponentials(x: Expr, y: Expr) -> Rewrite:
    """exp(x) * exp(y) = exp(x + y)"""
    yield R.multiply(R.exp(x), R.exp(y))
    yield R.exp(R.add(x, y))


EXTRA = [value for value in list(globals().values()) if type(value).__name__ == "Rule"]


def source(params: str, *lines: str, result: str = "y") -> str:
    """Returns a function: params such as `x: 64 n` are float32 tensors."""
    annotations = []
    for param in params.split(";"):
        name, sizes = param.split(":")
        axes = "".join(f"{a}, " if a.isdigit() else f'"{a}", ' for a in sizes.split())
        annotations.append(f'{name.strip()}: R.Tensor(({axes}), "float32")')
    head = f"@R.function\ndef main({', '.join(annotations)}):\n    with R.dataflow():\n"
    body = "".join(f"        {line}\n" for line in lines)
    return f"{head}{body}        R.output({result})\n    return {result}\n"


SIZES = {"n": 192, "d": 64, "e": 256, "b": 4}
PROGRAMS = {
    "attention: scale of the scores": source(
        "q: n d; k: n d; v: n d",
        "s = R.multiply(R.matmul(q, R.permute_dims(k, [1, 0])), R.const(0.125, 'float32'))",
        "y = R.matmul(R.nn.softmax(s, axis=-1), v)",
    ),
    "attention: q, k, v projections": source(
        "x: n 64; wq: 64 64; wk: 64 64; wv: 64 64",
        "q = R.matmul(x, wq)",
        "k = R.matmul(x, wk)",
        "v = R.matmul(x, wv)",
        "s = R.matmul(q, R.permute_dims(k, [1, 0]))",
        "y = R.matmul(R.nn.softmax(s, axis=-1), v)",
    ),
    "attention: linear, no softmax": source(
        "q: n d; k: n d; v: n d",
        "y = R.matmul(R.matmul(q, R.permute_dims(k, [1, 0])), v)",
    ),
    "chain: (A @ B) @ v": source("a: n n; b: n n; v: n", "y = R.matmul(R.matmul(a, b), v)"),
    "chain: four factors": source(
        "a: n d; b: d n; c: n d; f: d n",
        "y = R.matmul(a, R.matmul(b, R.matmul(c, f)))",
    ),
    "chain: shared product": source(
        "a: n n; b: n n; c: n n; v: n",
        "p = R.matmul(a, b)",
        "r = R.matmul(p, c)",
        "s = R.matmul(R.matmul(p, c), v)",
        "y = R.add(r, s)",
    ),
    "chain: sum of columns": source("a: n n; b: n n", "y = R.sum(R.matmul(a, b), axis=-1)"),
    "sum: a @ b + a @ c": source(
        "a: n n; b: n n; c: n n", "y = R.add(R.matmul(a, b), R.matmul(a, c))"
    ),
    "sum: three products": source(
        "a: n n; b: n n; c: n n; f: n n",
        "y = R.add(R.add(R.matmul(a, b), R.matmul(f, c)), R.matmul(a, c))",
    ),
    "sum: common factor, elementwise": source(
        "x: n e; y: n e; z: n e; w: e",
        "y2 = R.add(R.add(R.multiply(x, w), R.multiply(y, w)), R.multiply(w, z))",
        result="y2",
    ),
    "transposes: through elementwise": source(
        "x: n e; z: n e",
        "t = R.permute_dims(R.exp(R.permute_dims(x, [1, 0])), [1, 0])",
        "u = R.tanh(R.permute_dims(R.add(t, z), [1, 0]))",
        "y = R.permute_dims(u, [1, 0])",
    ),
    "transposes: of two factors": source(
        "x: n d; w: e n",
        "p = R.matmul(R.permute_dims(x, [1, 0]), R.permute_dims(w, [1, 0]))",
        "y = R.permute_dims(p, [1, 0])",
    ),
    "merge: concat of products": source(
        "x: n d; z: n d; w: d e",
        "y = R.nn.relu(R.concat((R.matmul(x, w), R.matmul(z, w)), axis=0))",
    ),
    "merge: sum of two products": source(
        "x: n d; z: n d; w: d n; v: d n",
        "y = R.add(R.matmul(x, w), R.matmul(z, v))",
    ),
    "merge: scales": source(
        "x: n d; w: d n",
        "s = R.multiply(x, R.const(0.5, 'float32'))",
        "y = R.multiply(R.matmul(s, w), R.const(4.0, 'float32'))",
    ),
    "exp(a) * exp(b)": source(
        "a: n e; b: n e; c: n e",
        "y = R.multiply(R.multiply(R.exp(a), R.exp(b)), R.exp(c))",
    ),
    "conv + batch_norm + relu": source(
        "x: b 16 28 28; w: 16 16 3 3; g: 16; h: 16; m: 16; v: 16",
        "c = R.nn.conv2d(x, w, padding=[1, 1])",
        "t = R.nn.batch_norm(c, g, h, m, v, axis=1, training=False)",
        "y = R.nn.relu(t[0])",
    ),
    "two conv + batch_norm": source(
        "x: b 16 28 28; w: 16 16 3 3; u: 16 16 3 3; g: 16; h: 16; m: 16; v: 16",
        "c = R.nn.conv2d(x, w, padding=[1, 1])",
        "t = R.nn.batch_norm(c, g, h, m, v, axis=1, training=False)",
        "c2 = R.nn.conv2d(R.nn.relu(t[0]), u, padding=[1, 1])",
        "t2 = R.nn.batch_norm(c2, g, h, m, v, axis=1, training=False)",
        "y = R.add(t2[0], x)",
    ),
    "mlp: bias and relu": source(
        "x: n 64; w: 64 256; c: 256; u: 256 64; e2: 64",
        "h = R.nn.relu(R.add(R.matmul(x, w), c))",
        "y = R.add(R.matmul(h, u), e2)",
    ),
}


def arguments_of(module: IRModule, rng: np.random.Generator) -> list[np.ndarray]:
    arguments = []
    for param in module["main"].params:
        dims = [d if isinstance(d, int) else SIZES[str(d)] for d in param.struct_info.dims]
        arguments.append(rng.uniform(0.1, 1.0, dims).astype("float32"))
    return arguments


def measured(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Returns the least CPU time of calls in turn, each repeated for 2 ms."""
    repeats = {}
    for name, call in calls.items():
        call()
        start = time.process_time()
        call()
        repeats[name] = max(1, round(0.002 / max(time.process_time() - start, 1e-6)))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(repeats[name]):
                call()
            times[name].append((time.process_time() - start) / repeats[name])
    return {name: min(values) for name, values in times.items()}


def all_rules() -> list[Any]:
    return [*rules_named(SHIPPED), *EXTRA]


def sizes_text(module: IRModule) -> str:
    names = {str(d) for p in module["main"].params for d in p.struct_info.dims}
    return " ".join(f"{name}={size}" for name, size in SIZES.items() if name in names)


def estimate(module: IRModule, sizes: str) -> Any:
    """Returns the estimated cost of a program."""
    report = SaturationReport()
    passes.Saturate([], sizes=sizes, report=report)(module)
    return report.blocks["main"][0].before


def row(name: str, text: str, rounds: int) -> list[str]:
    module = structir.parse(text)
    sizes = sizes_text(module)
    report = SaturationReport()
    start = time.process_time()
    saturated = passes.Saturate(all_rules(), sizes=sizes, report=report)(module)
    seconds = time.process_time() - start
    versions = {
        "as written": module,
        "pipeline": passes.pipeline(PIPELINE)(module),
        "saturated": saturated,
    }
    arguments = arguments_of(module, np.random.default_rng(0))
    calls = {}
    for version, program in versions.items():
        function = structir.compile(program)["main"]
        calls[version] = lambda function=function: function(*arguments)
    results = [np.asarray(call()) for call in calls.values()]
    for result in results[1:]:
        np.testing.assert_allclose(results[0], result, rtol=2e-3, atol=2e-3)
    times = measured(calls, rounds)
    costs = {version: estimate(versions[version], sizes).seconds for version in calls}
    run = report.blocks["main"][0].saturation
    cells = [name]
    for version in calls:
        cells.append(f"{costs[version] * 1e6:,.0f} / {times[version] * 1e6:,.0f}")
    cells.append(f"{costs['pipeline'] / costs['saturated']:.2f}")
    is_same = structir.structural_equal(versions["pipeline"], saturated)
    gain = times["pipeline"] / times["saturated"]
    cells.append("same program" if is_same else f"{gain:.2f}")
    cells.append(f"{len(run.graph.members)}")
    cells.append(f"{seconds * 1e3:.0f}")
    return cells


def chain_of(count: int) -> IRModule:
    """Returns a program of elementwise ops, products and permutes in turn."""
    lines, last = [], "x"
    forms = (
        "R.add({0}, x)",
        "R.multiply({0}, z)",
        "R.matmul({0}, w)",
        "R.permute_dims({0}, [1, 0])",
        "R.exp({0})",
        "R.add({0}, R.const(0, 'float32'))",
    )
    for k in range(count):
        lines.append(f"v{k} = {forms[k % len(forms)].format(last)}")
        last = f"v{k}"
    return structir.parse(source("x: n n; z: n n; w: n n", *lines, result=last))


def matching(counts: tuple[int, ...] = (100, 1000, 5000)) -> Table:
    """Returns the speed of e-matching with all rules, without extraction."""
    columns = ("bindings", "rules", "terms", "classes", "iterations", "stop", "terms / s", "s")
    table = Table(*columns, title="E-matching")
    for count in counts:
        module = chain_of(count)
        block = module["main"].body.blocks[0]
        graph = BlockGraph(block, set())
        budget = Budget(nodes=20 * count, iterations=4)
        start = time.process_time()
        run = Saturation(graph.graph, all_rules(), budget).run()
        seconds = time.process_time() - start
        terms, classes = len(graph.graph.members), len(graph.graph.classes)
        cells = (count, len(run.rules), terms, classes, run.iterations, run.stop)
        table.add_row(*map(str, cells), f"{terms / seconds:,.0f}", f"{seconds:.2f}")
    return table


def declaring(count: int = 100) -> str:
    """Returns the time to declare rules and record their patterns."""
    rules = (all_rules() * (1 + count // len(EXTRA)))[:count]
    copies = [attrs.evolve(rule, name=f"{rule.name}_{k}") for k, rule in enumerate(rules)]
    start = time.process_time()
    for rule in copies:
        assert rule.pattern_calls
    milliseconds = (time.process_time() - start) * 1e3
    return f"{count} rules are declared and recorded in {milliseconds:.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--matching", action="store_true", help="measure e-matching alone")
    options = parser.parse_args()
    if options.matching:
        Console(width=140).print(declaring(), matching())
        return
    wanted = [part for part in options.only.split(",") if part]
    columns = (
        "program",
        "as written: estimate / time, us",
        "pipeline",
        "saturated",
        "gain: estimate",
        "gain: time",
        "terms",
        "ms",
    )
    table = Table(*columns, title="Equality saturation and a pipeline of passes")
    for name, text in PROGRAMS.items():
        if not wanted or any(part in name for part in wanted):
            table.add_row(*row(name, text, options.rounds))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
