"""numba's compiler pipeline for kernels, without the passes for constructs they never have."""

from __future__ import annotations

from typing import Any

from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
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

from structir.backend.cpu.library import KernelLibrary, RoutineLibrary
from structir.backend.cpu.typing_once import MemoizedTypingContext


class _Lower(Lower):  # type: ignore[misc,unused-ignore]
    """Lowering of binary operators by the types of their operands alone.

    For constant operands, numba first searches implementations for the literal. These exist for
    powers and strings only, which kernels do not have.
    """

    def lower_binop(self, result_type: Any, expression: Any, operator: Any) -> Any:
        """Emits a binary operator."""
        lower: Any = self
        context, signature = lower.context, lower.fndesc.calltypes[expression]
        operands = [
            context.cast(lower.builder, lower.loadvar(side.name), lower.typeof(side.name), wanted)
            for side, wanted in zip((expression.lhs, expression.rhs), signature.args, strict=True)
        ]
        function = context.typing_context.resolve_value_type(operator)
        value = context.get_function(function, signature)(lower.builder, operands)
        return context.cast(lower.builder, value, signature.return_type, result_type)


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call,unused-ignore]
class KernelLowering(NativeLowering):  # type: ignore[misc,unused-ignore]
    """The pass that emits LLVM IR."""

    _name = "kernel_lowering"
    lowering_class = _Lower


# Kernels have no closures, comprehensions, context managers, lists, inlined overloads or constant
# branches. The passes for these take two thirds of numba's own time.
PASSES: tuple[tuple[Any, str], ...] = (
    (TranslateByteCode, "read the bytecode"),
    (FixupArgs, "fix up arguments"),
    (IRProcessing, "build the control flow graph"),
    (ReconstructSSA, "reconstruct SSA"),
    (NopythonTypeInference, "infer types"),
    (PreLowerStripPhis, "strip phi nodes"),
    (AnnotateTypes, "annotate types"),
    (KernelLowering, "emit LLVM IR"),
    (NoPythonBackend, "generate machine code"),
)


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


class KernelCompiler(CompilerBase):  # type: ignore[misc,unused-ignore]
    """numba's compiler with the pipeline for kernels."""

    passes = PASSES
    library: type[KernelLibrary] = KernelLibrary

    def __init__(self, typing_context: Any, *others: Any) -> None:
        super().__init__(MemoizedTypingContext(typing_context), *others)  # type: ignore[no-untyped-call,unused-ignore]

    def compile_extra(self, func: Any) -> Any:
        """Compiles a function into a library of its own, unless it has a library."""
        if self.state.library is None:
            library: Any = self.library
            self.state.library = library(self.state.targetctx.codegen(), func.__qualname__)
            self.state.library.enable_object_caching()
        return super().compile_extra(func)  # type: ignore[no-untyped-call,unused-ignore]

    def define_pipelines(self) -> list[Any]:
        """Returns the only pipeline."""
        manager: Any = PassManager("kernel")  # type: ignore[no-untyped-call,unused-ignore]
        for kind, purpose in self.passes:
            manager.add_pass(kind, purpose)
        manager.finalize()
        return [manager]


class RoutineCompiler(KernelCompiler):
    """numba's compiler with the pipeline for functions over arrays."""

    passes = ROUTINE_PASSES
    library = RoutineLibrary
