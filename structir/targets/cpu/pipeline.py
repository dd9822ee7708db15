"""numba's compiler pipeline for functions over arrays, without the passes for constructs that they
never have."""

from __future__ import annotations

from typing import Any

from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import (
    AnnotateTypes,
    InlineOverloads,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonRewrites,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    LiteralPropagationSubPipelinePass,
    ReconstructSSA,
    RewriteDynamicRaises,
    RewriteSemanticConstants,
    TranslateByteCode,
)

from structir.targets.cpu.library import RoutineLibrary
from structir.targets.cpu.typing_once import MemoizedTypingContext

# Routines allocate arrays, whose references are counted where variables end, and their branches
# on the dtypes of their operands are decided before types are inferred.
ROUTINE_PASSES: tuple[tuple[Any, str], ...] = (
    (TranslateByteCode, "read the bytecode"),
    (FixupArgs, "fix up arguments"),
    (IRProcessing, "build the control flow graph"),
    (RewriteSemanticConstants, "find constants"),
    (DeadBranchPrune, "remove branches on constants"),
    (GenericRewrites, "rewrite raises and indices"),
    (RewriteDynamicRaises, "rewrite raises with computed messages"),
    (ReconstructSSA, "reconstruct SSA"),
    (LiteralPropagationSubPipelinePass, "remove branches on types"),
    (NopythonTypeInference, "infer types"),
    (PreLowerStripPhis, "strip phi nodes"),
    (InlineOverloads, "inline functions of NumPy"),
    (NopythonRewrites, "fuse array expressions"),
    (IRLegalization, "end the lives of variables"),
    (AnnotateTypes, "annotate types"),
    (NativeLowering, "emit LLVM IR"),
    (NoPythonBackend, "generate machine code"),
)


class RoutineCompiler(CompilerBase):  # type: ignore[misc,unused-ignore]
    """numba's compiler with the pipeline for functions over arrays."""

    def __init__(self, typing_context: Any, *others: Any) -> None:
        super().__init__(MemoizedTypingContext(typing_context), *others)  # type: ignore[no-untyped-call,unused-ignore]

    def compile_extra(self, func: Any) -> Any:
        """Compiles a function into a library of its own, unless it has a library."""
        if self.state.library is None:
            library: Any = RoutineLibrary
            self.state.library = library(self.state.targetctx.codegen(), func.__qualname__)
            self.state.library.enable_object_caching()
        return super().compile_extra(func)  # type: ignore[no-untyped-call,unused-ignore]

    def define_pipelines(self) -> list[Any]:
        """Returns the only pipeline."""
        manager: Any = PassManager("routine")  # type: ignore[no-untyped-call,unused-ignore]
        for kind, purpose in ROUTINE_PASSES:
            manager.add_pass(kind, purpose)
        manager.finalize()
        return [manager]
