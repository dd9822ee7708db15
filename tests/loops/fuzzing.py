"""Random primitives on random kernels, compared with the interpreter: `python -m
tests.loops.fuzzing COUNT [FIRST]`."""

import sys
from collections import Counter
from random import Random
from typing import Any

import numpy as np

import structir
from structir.ir import dims
from structir.ir.kernel import Branch, For, Kernel
from structir.ir.module import IRModule
from structir.ir.struct_info import TensorStructInfo
from structir.loops.primitives import find_primitive, primitive_names
from structir.loops.schedule.loop_tree import LoopTree, loop_tree, prepared
from structir.loops.schedule.refusal import ScheduleError
from structir.passes import Lower, Schedule
from structir.tools.kernels import KernelGenerator
from tests.loops.running import arguments, have_same_bits, parsed, run

STEPS = 12
EXPRESSIONS = [
    *(
        "R.nn.softmax(x, axis=-1)",
        "R.add(R.multiply(x, y), b)",
        "R.nn.layer_norm(x, b, b, axes=[-1])",
    ),
    *("R.sum(R.multiply(x, y), axis=[1])", "R.matmul(x, w)", "R.nn.relu(R.add(R.matmul(x, w), v))"),
    *("R.nn.softmax(R.matmul(x, w), axis=-1)", "R.max(x, axis=[0])", "R.cumsum(x, axis=1)"),
    *("R.subtract(x, R.mean(x, axis=[1], keepdims=True))", "R.sum(R.multiply(x, x), axis=[0, 1])"),
    *("R.permute_dims(R.add(x, y), [1, 0])", "R.matmul(R.permute_dims(x, [1, 0]), y)"),
    *("R.nn.pad(x, [1, 1, 0, 2])", "R.argmax(x, axis=1)", "R.concat((x, y), axis=0)"),
]
SIGNATURE = 'x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", "m"), "float32")'


def lowered_kernel(rng: Random) -> Kernel:
    """Returns a naive kernel of ops, or one that the compiler scheduled."""
    signature = (
        SIGNATURE.replace('"n"', "3").replace('"m"', "5") if rng.random() < 0.3 else SIGNATURE
    )
    m = "5" if signature != SIGNATURE else '"m"'
    params = f'{signature}, w: R.Tensor(({m}, 5), "float32"), b: R.Tensor(({m},), "float32")'
    source = f"""
from structir.script import I, R, T

@I.ir_module
class M:
    @R.function
    def main({params}, v: R.Tensor((5,), "float32")):
        r = {rng.choice(EXPRESSIONS)}
        return r
"""
    module = structir.parse(source)
    passes = [Schedule(), Lower()] if rng.random() < 0.15 else [Lower()]
    lowered = [f for lower in passes for f in lower(module).functions.values()]
    return rng.choice([f for f in lowered if isinstance(f, Kernel)])


class DependentLoops:
    """Generates kernels whose iterations depend on each other; all indices are in range."""

    def __init__(self, rng: Random) -> None:
        self.rng, self.count = rng, 0
        self.scalars = [f"t{k}" for k in range(rng.choice([0, 1, 2]))]
        self.locals = rng.sample(["row", "col"], rng.choice([0, 1, 2]))

    def kernel(self) -> Kernel:
        """Returns a kernel of one to three nests of loops."""
        shapes = {"row": "m", "col": "n"}
        kind = self.rng.choice(["zeros", "zeros", "empty"])
        lines = [f'{a} = T.{kind}(({shapes[a]},), "float32")' for a in self.locals]
        lines += [f"{t} = T.float32({k}.5)" for k, t in enumerate(self.scalars)]
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            stem = self.rng.choice(["i", "i", "j"])
            lines += self.nest(stem, self.rng.choice([1, 2, 2]), {})
        matrix = 'R.Tensor(("n", "m"), "float32")'
        head = f"def kernel({SIGNATURE}, out: {matrix}, two: {matrix}):"
        if not any(line.strip().startswith("two[") for line in lines):
            lines.append("two[0, 0] = x[0, 0] + out[0, 0]")
        body = "\n".join(f"    {line}" for line in lines)
        return parsed(f"@I.kernel\n{head}\n{body}")

    def nest(self, stem: str, depth: int, scope: dict[str, str]) -> list[str]:
        """Returns a loop; `i` loops count over rows, `j` loops over columns."""
        self.count += 1
        name = f"{stem}{self.count}"
        bounds = self.rng.choice(
            ["{0}"] * 4 + ["1, {0} - 1", "1, {0}", "0, {0}, 2", "{0} - 1, -1, -1"]
        )
        scope = {**scope, stem: name, f"bounds_{stem}": bounds}
        body, outer = list[str](), dict(scope)
        if self.rng.random() < 0.25:  # an index that is assigned, from loops or from data
            body.append(self.position(stem, scope))
            scope |= {stem: f"p{self.count}", f"bounds_{stem}": "{0}"}
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            if depth > 1 and self.rng.random() < 0.7:
                body += self.nest("j" if stem == "i" else "i", 1, scope)
            else:
                body.append(self.statement(scope))
        size = "n" if stem == "i" else "m"
        if self.rng.random() < 0.2:
            body = [f"if {self.test(name, size, outer)}:", *[f"    {line}" for line in body]]
        return [f"for {name} in range({bounds.format(size)}):", *[f"    {line}" for line in body]]

    def test(self, name: str, size: str, scope: dict[str, str]) -> str:
        """Returns a condition, often one that bounds a loop variable."""
        outer = self.rng.choice([v for k, v in scope.items() if k in "ij"])
        tests = [f"{name} < {size} - 1", f"{name} >= 1", f"2 <= {name}", f"{name} > {outer}"]
        tests += [f"{outer} != 1", f"{self.element('x', scope)} > 0.0"]
        return " and ".join(self.rng.sample(tests, self.rng.choice([1, 1, 2, 3])))

    def position(self, stem: str, scope: dict[str, str]) -> str:
        """Returns the assignment of an index that is in range."""
        size = "n" if stem == "i" else "m"
        value = self.index(stem, size, scope)
        if self.rng.random() < 0.3:
            value = f"T.int64({self.element('x', scope)} + 9.0) % {size}"
        return f"p{self.count} = {value}"

    def statement(self, scope: dict[str, str]) -> str:
        """Returns an assignment."""
        if self.scalars and self.rng.random() < 0.3:
            target = self.rng.choice(self.scalars)
        else:
            target = self.element(self.rng.choice(["out", "out", "two", *self.locals]), scope)
        terms = [self.term(scope) for _ in range(2)]
        if self.rng.random() < 0.2:
            terms[0] = target
        line = f"{target} = {terms[0]} + {terms[1]}"
        if self.rng.random() < 0.15:
            line = f"{target} = T.add_to({target}, {terms[1]})"
        return line

    def term(self, scope: dict[str, str]) -> str:
        """Returns an operand."""
        if self.scalars and self.rng.random() < 0.3:
            return self.rng.choice(self.scalars)
        return self.element(self.rng.choice(["x", "y", "out", "two", *self.locals]), scope)

    def element(self, array: str, scope: dict[str, str]) -> str:
        """Returns an element of an array."""
        i, j = self.index("i", "n", scope), self.index("j", "m", scope)
        return (
            f"{array}[{j}]"
            if array == "row"
            else f"{array}[{i}]"
            if array == "col"
            else f"{array}[{i}, {j}]"
        )

    def index(self, stem: str, size: str, scope: dict[str, str]) -> str:
        """Returns an index that is in range."""
        name = scope.get(stem)
        if name is None:
            return self.rng.choice(["0", f"{size} - 1"])
        choices = [name] * 5 + [f"{size} - 1 - {name}", f"({name} * 2) % {size}", "0"]
        choices += [f"({name} + 1) % {size}"]
        if scope["bounds_" + stem] == "1, {0} - 1":
            choices += [f"{name} - 1", f"{name} + 1"] * 2
        if scope["bounds_" + stem] == "1, {0}":
            choices += [f"{name} - 1"] * 3
        return self.rng.choice(choices)


def random_kernel(rng: Random) -> Kernel:
    """Returns a kernel of ops, one with dependent iterations, or one of any statements."""
    kind = rng.random()
    if kind < 0.3:
        return lowered_kernel(rng)
    if kind < 0.8:
        return DependentLoops(rng).kernel()
    n, m = dims.sym("n"), dims.sym("m")
    infos = [TensorStructInfo((n, m), "float32"), TensorStructInfo((m,), "int32")]
    return KernelGenerator(rng, "kernel").generate(infos)[0]


def random_step(kernel: Kernel, rng: Random) -> tuple[str, tuple[Any, ...]]:
    """Returns a primitive and arguments, often of loops that suit each other."""
    tree = loop_tree(kernel)
    nested = [n for n, loop in tree.loops.items() if [type(s) for s in loop.body] == [For]]
    candidates = {
        "collapse": nested,
        "reorder": nested,
        "fission": [name for name, loop in tree.loops.items() if len(loop.body) > 1],
        "bound": [n for n, loop in tree.loops.items() if [type(s) for s in loop.body] == [Branch]],
    }
    name = rng.choice(primitive_names())
    loops = candidates.get(name) or list(tree.loops) or ["none"]
    arrays, scalars = list(tree.arrays), list(tree.scalars)
    params = [p.name for p in kernel.params if isinstance(p.struct_info, TensorStructInfo)]
    of_kinds = {
        "hoist": scalars,
        "rfactor": scalars,
        "demote": scalars,
        "shrink": arrays,
        "inline": arrays,
    }
    of_kinds |= {"compute_at": arrays, "stage": arrays + params}
    memory = of_kinds.get(name) or arrays + scalars
    if "memory" in find_primitive(name).parameter_names() and not memory:
        name = "split"
    if not tree.loops:
        name = "unroll"
    if name == "compute_at" and arrays and rng.random() < 0.9:
        array = rng.choice(arrays)
        return name, (array, rng.choice(_reading(tree, array) or loops))
    at = rng.randrange(len(loops))
    if name == "shrink" and arrays and rng.random() < 0.5:
        array = rng.choice(arrays)
        uses = [a for a in tree.accesses(kernel.body) if a.memory is tree.arrays[array].array]
        around = {loop.variable.name for use in uses for loop in use.loops}
        return name, (array, rng.choice(sorted(around) or loops))
    if name == "pack":
        axes = rng.choice([(0,), (1, 0), (1, 0), (0, 1)])
        return name, (rng.choice(arrays + params or ["none"]), loops[at], *axes)
    if name == "reorder":
        inside = [s.variable.name for s in tree.within([tree.loops[loops[at]]]) if type(s) is For]
        return name, tuple(inside[: rng.choice([2, 2, 3])][::-1])
    if name == "fuse":
        return name, _neighbours(tree, loops[at])
    values = {
        "loop": loops[at],
        "memory": rng.choice(memory or ["none"]),
        "factor": rng.choice([1, 2, 3, 4]),
        "tail": rng.choice(["guard", "guard", "peel", "exact"]),
        "at": rng.choice([1, 1, 2]),
        "limit": 16,
        "array": rng.choice(params or ["none"]),
        "ahead": rng.choice([1, 2, 5]),
        "partial": False,
        "size": rng.choice(["n", "m"]),
        "value": rng.choice([1, 3, 4]),
        "space": rng.choice(["", "", "registers"]),
        "ordered": rng.random() < 0.5,
        "outer": rng.choice(loops[: at + 1]),
    }
    parameters = find_primitive(name).parameter_names()
    if name == "shrink":
        return name, (values["memory"],)
    return name, tuple([values[parameter] for parameter in parameters])


def _reading(tree: LoopTree, name: str) -> list[str]:
    """Returns the loops that read a local array and do not write it."""
    uses = [a for a in tree.accesses(tree.kernel.body) if a.memory is tree.arrays[name].array]
    writing = {loop for use in uses if use.is_write for loop in use.loops}
    around = {loop for use in uses for loop in use.loops} - writing
    return [name for name, loop in tree.loops.items() if loop in around]


def _neighbours(tree: LoopTree, name: str) -> tuple[str, str]:
    """Returns a loop and the next one of its block."""
    block = [s for s in tree.block_of(tree.loops[name]) if isinstance(s, For)]
    position = next(k for k, s in enumerate(block) if s.variable.name == name)
    return name, block[min(position + 1, len(block) - 1)].variable.name


class Run:
    """One kernel and the primitives that were applied to it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.kernel = self.naive = prepared(random_kernel(self.rng))
        infos: list[Any] = [param.struct_info for param in self.naive.params]
        symbols = sorted(
            {s for i in infos for d in getattr(i, "dims", ()) for s in dims.syms(d)}, key=str
        )
        self.sizes = [{s: self.rng.choice([1, 2, 3, 5, 7]) for s in symbols} for _ in range(2)]
        self.arrays = [arguments(self.naive, sizes, seed) for sizes in self.sizes]
        self.expected = [
            run(self.naive, a, s) for a, s in zip(self.arrays, self.sizes, strict=True)
        ]
        self.exact = "add_to" not in self.naive.script()
        self.log: list[tuple[str, tuple[Any, ...]]] = []
        self.counts: Counter[str] = Counter()

    def go(self, compiles: bool) -> None:
        """Applies primitives; raises AssertionError where results differ."""
        for _ in range(STEPS):
            name, args = random_step(self.kernel, self.rng)
            primitive = find_primitive(name)
            try:
                self.kernel = primitive(self.kernel, *args)
            except ScheduleError as error:
                assert all(d.hint and d.code for d in error.diagnostics), error
                self.counts[f"refused {error.diagnostics[0].code}"] += 1
                continue
            rounds = primitive.changes_rounding and name != "parallel" and args[-1] is not True
            self.exact = self.exact and not rounds
            self.counts[name] += 1
            self.log.append((name, args))
            self.check(
                [
                    run(self.kernel, a, s, self.rng)
                    for a, s in zip(self.arrays, self.sizes, strict=True)
                ]
            )
        self.check_text()
        if compiles and not any(np.isnan(a).any() for arrays in self.expected for a in arrays):
            self.check_compiled()

    def check(self, results: Any, tolerance: float = 0.0) -> None:
        """Compares results with those of the naive kernel."""
        for arrays, expected in zip(results, self.expected, strict=True):
            for array, other in zip(arrays, expected, strict=True):
                if self.exact and not tolerance:
                    same = have_same_bits(array, other)
                else:
                    same = np.allclose(array, other, 1e-3, 1e-3, equal_nan=True)
                assert same, f"{self.log}\n{self.naive}\n{self.kernel}\n{array}\n{other}"

    def check_text(self) -> None:
        """Compares the kernel with the one that its source parses to."""
        again = parsed(str(self.kernel))
        assert structir.structural_equal(again, self.kernel), f"{self.log}\n{self.kernel}\n{again}"

    def check_compiled(self) -> None:
        """Compares results of the compiled kernel."""
        call = structir.compile(IRModule({self.kernel.name: self.kernel}))[self.kernel.name]
        results = []
        for arrays in self.arrays:
            values = [array.copy() for array in arrays]
            call(
                *[
                    v if v.ndim or i >= len(self.kernel.operands) else v.item()
                    for i, v in enumerate(values)
                ]
            )
            results.append(values[len(self.kernel.operands) :])
        self.check(results, 1e-3)


def main(count: int, first: int) -> None:
    """Runs seeds and prints what was applied, refused and wrong."""
    counts: Counter[str] = Counter()
    wrong = []
    for seed in range(first, first + count):
        try:
            one = Run(seed)
            one.go(compiles=seed % 20 == 0)
            counts += one.counts
        except Exception as error:
            wrong.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
    applied = sum(n for name, n in counts.items() if not name.startswith("refused"))
    refused = sum(n for name, n in counts.items() if name.startswith("refused"))
    print(
        f"{count} kernels, {applied} applied, {refused} refused, {len(wrong)} wrong", dict(counts)
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
