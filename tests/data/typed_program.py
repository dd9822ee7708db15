"""A user's program, as type checkers see it: what StructIR gives has types, and mistakes show."""

import numpy as np
from numpy.typing import NDArray

import structir
from structir import passes
from structir.analysis import binding_struct_infos
from structir.errors import DiagnosticError
from structir.ir import BlockBuilder, Function, IRModule, StructInfo, TensorStructInfo, Var
from structir.passes import Instrument, Pass, PassContext
from structir.passes.base import PassRun
from structir.script import R

TEXT = """
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    return R.exp(x)
"""


class Names(Instrument):
    """Remembers which passes ran."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def end(self, step: PassRun) -> None:
        self.seen.append(step.applied.name)


@passes.module_pass
def same(module: IRModule) -> IRModule:
    """Change nothing."""
    return module


def infos(function: Function) -> dict[str, StructInfo]:
    """What is known of every binding."""
    return dict(binding_struct_infos(function))


def built() -> IRModule:
    """A program made by hand."""
    builder = BlockBuilder()
    x = Var("x", TensorStructInfo((3,), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(R.exp(x)))
    return builder.get()


def main() -> NDArray[np.float32]:
    """Read, transform, compile and run."""
    module = structir.infer(structir.parse(TEXT))
    tidy: Pass = passes.Sequential([passes.DeadCodeElimination(entries="main"), same])
    names = Names()
    with PassContext([names]):
        module = tidy(module)
    print(names.seen, infos(module["main"]), structir.structural_equal(module, built()))
    executable: structir.Executable = structir.compile(module, num_threads=1)
    try:
        structir.parse(TEXT.replace("exp", "xep"))
    except DiagnosticError as error:
        print(error.diagnostics[0].message)
    result: NDArray[np.float32] = executable["main"](np.zeros((2, 4), "float32"))
    return result


if __name__ == "__main__":
    print(main())
