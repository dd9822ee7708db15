"""StructIR's side of the compiler benchmark: times what is asked, one JSON line for each figure.

Started by `compiler.py` as the peers' scripts are, and with their programs. Programs of several
sizes are timed in turn, and the least time is the processor's own: a long run is interrupted on a
busy machine as a short one is not, and the growth of the time would tell of that alone.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import closures
import common
import progen
import structir
from structir.ir import BlockBuilder, IRModule, TensorStructInfo, Var
from structir.ir.dims import sym
from structir.passes import find_pass
from structir.script import R

NEURAL = {"relu", "silu", "gelu", "softmax"}
OPS: dict[str, Callable[..., Any]] = {
    name: getattr(R.nn if name in NEURAL else R, name) for name in progen.OPS
}
SECTIONS = ["parse", "parse_bare", "print", "build", "equal", "passes", "closures"]
PASSES = {  # by the names of Relax
    "Normalize": "normalise",
    "CanonicalizeBindings": "canonicalise_bindings",
    "EliminateCommonSubexpr": "common_subexpression_elimination",
    "DeadCodeElimination": "dead_code_elimination",
    "FoldConstant": "fold_constant",
    "Simplify": "simplify",
    "CombineParallelMatmul": "combine_parallel_matmul",
    "TopologicalSort": "topological_sort",
    "LambdaLift": "lambda_lift",
}


def attributes_of(binding: progen.B, dim: Callable[[Any], Any]) -> dict[str, Any]:
    if "shape" not in binding.attrs:
        return binding.attrs
    return {"shape": tuple(dim(size) for size in binding.attrs["shape"])}


def call_of(binding: progen.B, values: dict[str, Var], dim: Callable[[Any], Any]) -> Any:
    arguments = [
        R.const(name, "float32") if isinstance(name, float) else values[name]
        for name in binding.args
    ]
    attributes = attributes_of(binding, dim)
    if binding.op == "concat":
        return R.concat(tuple(arguments), **attributes)
    return OPS[binding.op](*arguments, **attributes)


def build(program: progen.Prog, summed: bool = False) -> IRModule:
    """The program through the builder, deducing the struct info of every binding; its result, or
    the sum of that, which has a gradient."""
    symbols = {name: sym(name) for name in program.syms}

    def dim(size: int | str) -> Any:
        return size if isinstance(size, int) else eval(size, {}, symbols)

    values = {
        name: Var(name, TensorStructInfo(tuple(map(dim, shape)), dtype))
        for name, shape, dtype in program.params
    }
    builder = BlockBuilder()
    with builder.function("main", list(values.values())):
        with builder.dataflow():
            for binding in program.body:
                values[binding.name] = builder.emit(call_of(binding, values, dim))
            last: Any = values[program.out]
            result = builder.emit_output(R.sum(last) if summed else last)
        builder.emit_func_output(result)
    return builder.get()


class Subject(NamedTuple):
    """What all sections measure: one program, as an op list and as text with and without types."""

    program: progen.Prog
    text: str
    bare: str

    @classmethod
    def of(cls, kind: str, size: int) -> "Subject":
        program = progen.gen(kind, size)
        text = progen.to_tvmscript(program, header=False)
        return cls(program, text, progen.to_tvmscript(program, annotate=False, header=False))


Setup = Callable[[], Any]
Measured = tuple[Callable[..., Any], Setup | None]  # what is timed, and what makes its argument
Figures = Iterator[tuple[str, Measured]]


def parse_figures(subject: Subject) -> Figures:
    yield "parse", (lambda: structir.parse(subject.text), None)


def parse_bare_figures(subject: Subject) -> Figures:
    yield "parse_bare", (lambda: structir.parse(subject.bare), None)


def print_figures(subject: Subject) -> Figures:
    yield "print", (build(subject.program).script, None)


def build_figures(subject: Subject) -> Figures:
    yield "build", (lambda: build(subject.program), None)


def equal_figures(subject: Subject) -> Figures:
    module = build(subject.program)
    again = structir.parse(module.script())
    if not structir.structural_equal(module, again):
        raise ValueError("text and program differ")
    yield "struct_equal", (lambda: structir.structural_equal(module, again), None)
    # A module may remember its hash, so each run is given a new one.
    yield "struct_hash", (structir.structural_hash, lambda: build(subject.program))


def pass_figures(subject: Subject) -> Figures:
    module = build(subject.program)
    for name, own in PASSES.items():
        yield f"pass:{name}", (partial(find_pass(own), module), None)
    summed = build(subject.program, summed=True)
    yield "pass:Gradient", (partial(find_pass("gradient"), summed), None)


def closure_figures(subject: Subject) -> Figures:
    """LambdaLift of programs with closures, of the size of the subject."""
    for kind in closures.KINDS:
        module = structir.parse(closures.gen(kind, subject.program.n))
        yield f"closures:{kind}", (partial(find_pass("lambda_lift"), module), None)


FIGURES: dict[str, Callable[[Subject], Figures]] = {
    "parse": parse_figures,
    "parse_bare": parse_bare_figures,
    "print": print_figures,
    "build": build_figures,
    "equal": equal_figures,
    "passes": pass_figures,
    "closures": closure_figures,
}


class Timed(NamedTuple):
    """How long one run took: by the clock, and of the processor's time."""

    clock: float
    processor: float


def timed(run: Callable[..., Any], setup: Setup | None) -> Timed:
    given = () if setup is None else (setup(),)
    gc.collect()
    clock, processor = time.perf_counter(), time.process_time()
    run(*given)
    return Timed(time.perf_counter() - clock, time.process_time() - processor)


def in_turn(measured: list[Measured], budget: float) -> list[list[Timed]]:
    """The times of several things, one after the other again and again: after a first run that is
    not counted, at least three each, and more while there is time."""
    times: list[list[Timed]] = [[] for _ in measured]
    end = time.perf_counter() + budget * len(measured)
    while len(times[0]) < 4 or (len(times[0]) < 12 and time.perf_counter() < end):
        for own, one in zip(times, measured, strict=True):
            own.append(timed(*one))
    return [own[1:] for own in times]


def main() -> None:
    asked = common.args(SECTIONS)
    gc.freeze()  # what is imported stays: each of the collections would traverse it
    for kind in asked.kind:
        subjects = [Subject.of(kind, size) for size in asked.n]
        for section in asked.section:
            figures = zip(*[FIGURES[section](subject) for subject in subjects], strict=True)
            for of_sizes in figures:
                (name, _), *_ = of_sizes
                times = in_turn([measured for _, measured in of_sizes], asked.budget)
                for size, own in zip(asked.n, times, strict=True):
                    clock = [each.clock for each in own]
                    least = min(each.processor for each in own)
                    common.emit("structir", name, kind, size, statistics.median(clock), min=least)


if __name__ == "__main__":
    main()
