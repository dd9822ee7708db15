"""StructIR's side of the compiler benchmark: times what is asked, one JSON line for each figure.

Started by `compiler.py` as the peers' scripts are, and with their clock and their programs.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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
SECTIONS = ["parse", "parse_bare", "print", "build", "equal", "passes"]
PASSES = {  # by the names of Relax
    "Normalize": "normalise",
    "CanonicalizeBindings": "canonicalise_bindings",
    "EliminateCommonSubexpr": "common_subexpression_elimination",
    "DeadCodeElimination": "dead_code_elimination",
    "FoldConstant": "fold_constant",
    "Simplify": "simplify",
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


def build(program: progen.Prog) -> IRModule:
    """The program through the builder, deducing the struct info of every binding."""
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
            result = builder.emit_output(values[program.out])
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


Figures = Iterator[tuple[str, tuple[float, list[float]]]]


def parse_figures(subject: Subject, budget: float) -> Figures:
    yield "parse", common.timeit(lambda: structir.parse(subject.text), budget)


def parse_bare_figures(subject: Subject, budget: float) -> Figures:
    yield "parse_bare", common.timeit(lambda: structir.parse(subject.bare), budget)


def print_figures(subject: Subject, budget: float) -> Figures:
    module = build(subject.program)
    yield "print", common.timeit(module.script, budget)


def build_figures(subject: Subject, budget: float) -> Figures:
    yield "build", common.timeit(lambda: build(subject.program), budget)


def equal_figures(subject: Subject, budget: float) -> Figures:
    module = build(subject.program)
    again = structir.parse(module.script())
    if not structir.structural_equal(module, again):
        raise ValueError("text and program differ")
    yield (
        "struct_equal",
        common.timeit(lambda: structir.structural_equal(module, again), budget),
    )
    # A module may remember its hash, so each run is given a new one.
    yield (
        "struct_hash",
        common.timeit(structir.structural_hash, budget, setup=lambda: build(subject.program)),
    )


def pass_figures(subject: Subject, budget: float) -> Figures:
    module = build(subject.program)
    for name, own in PASSES.items():
        applied = find_pass(own)
        yield f"pass:{name}", common.timeit(lambda applied=applied: applied(module), budget)


FIGURES: dict[str, Callable[[Subject, float], Figures]] = {
    "parse": parse_figures,
    "parse_bare": parse_bare_figures,
    "print": print_figures,
    "build": build_figures,
    "equal": equal_figures,
    "passes": pass_figures,
}


def main() -> None:
    asked = common.args(SECTIONS)
    for kind in asked.kind:
        for size in asked.n:
            subject = Subject.of(kind, size)
            for section in asked.section:
                for name, figure in FIGURES[section](subject, asked.budget):
                    common.emit("structir", name, kind, size, figure)


if __name__ == "__main__":
    main()
