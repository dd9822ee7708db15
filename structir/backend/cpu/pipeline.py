"""What numba does to a kernel's text: its passes, less those for what kernels never say."""

from __future__ import annotations

from typing import Any

from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import (
    AnnotateTypes,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import FixupArgs, IRProcessing, ReconstructSSA, TranslateByteCode

from structir.backend.cpu.library import KernelLibrary
from structir.backend.cpu.typing_once import TypingOnce


class _Lower(Lower):  # type: ignore[misc,unused-ignore]
    """How LLVM's form is written: what two operands give by the types known of them.

    numba first asks, for each operand that is a constant, whether there is a form for just that
    value; there are some for powers and for text, which kernels do not have.
    """

    def lower_binop(self, result_type: Any, expression: Any, operator: Any) -> Any:
        """The value of an operator."""
        own: Any = self
        context, signature = own.context, own.fndesc.calltypes[expression]
        operands = [
            context.cast(own.builder, own.loadvar(side.name), own.typeof(side.name), wanted)
            for side, wanted in zip((expression.lhs, expression.rhs), signature.args, strict=True)
        ]
        function = context.typing_context.resolve_value_type(operator)
        made = context.get_function(function, signature)(own.builder, operands)
        return context.cast(own.builder, made, signature.return_type, result_type)


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call,unused-ignore]
class KernelLowering(NativeLowering):  # type: ignore[misc,unused-ignore]
    """The pass that writes LLVM's form."""

    _name = "kernel_lowering"
    lowering_class = _Lower


# Kernels have no closures, comprehensions, context managers, lists, or overloads to be inlined, and
# no branches on constants: what prepares for these is two thirds of numba's own work on them.
PASSES: tuple[tuple[Any, str], ...] = (
    (TranslateByteCode, "read the bytecode"),
    (FixupArgs, "name the arguments"),
    (IRProcessing, "process the statements"),
    (ReconstructSSA, "one assignment for each name"),
    (NopythonTypeInference, "infer types"),
    (PreLowerStripPhis, "take out phi nodes"),
    (AnnotateTypes, "note types"),
    (KernelLowering, "write LLVM's form"),
    (NoPythonBackend, "make machine code"),
)


class KernelCompiler(CompilerBase):  # type: ignore[misc,unused-ignore]
    """numba's compiler with the passes that kernels need."""

    def __init__(self, typing_context: Any, *others: Any) -> None:
        super().__init__(TypingOnce(typing_context), *others)  # type: ignore[no-untyped-call,unused-ignore]

    def compile_extra(self, func: Any) -> Any:
        """Compile a function, into a library of our own if it has none yet."""
        if self.state.library is None:
            library: Any = KernelLibrary
            self.state.library = library(self.state.targetctx.codegen(), func.__qualname__)
            self.state.library.enable_object_caching()
        return super().compile_extra(func)  # type: ignore[no-untyped-call,unused-ignore]

    def define_pipelines(self) -> list[Any]:
        """One pipeline."""
        manager: Any = PassManager("kernel")  # type: ignore[no-untyped-call,unused-ignore]
        for kind, purpose in PASSES:
            manager.add_pass(kind, purpose)
        manager.finalize()
        return [manager]
