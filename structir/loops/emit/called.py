"""Kernels at their calls: over buffers and sizes of the caller."""

from __future__ import annotations

from structir.loops.emit.code import code_of
from structir.loops.products.packing import packed_buffer
from structir.loops.program.buffer import Buffer
from structir.loops.program.cost import estimate_of
from structir.loops.program.kernel_text import KernelText
from structir.loops.program.stage import KernelCall


def called_kernel(call: KernelCall, origin: str) -> KernelText:
    """Returns the kernel of a call, to be compiled."""
    code = code_of(call.kernel, call.constants, is_generated=call.is_generated)
    pointers, scratch = list[Buffer](), list[Buffer]()
    for array in code.arrays:
        if array in code.panels:
            source, form, packing = code.panels[array]
            original = call.values[source]
            assert isinstance(original, Buffer)
            pointers.append(packed_buffer(original.root, form, packing).root)
            continue
        buffer = call.memory(array, code.shapes[array])
        pointers.append(buffer)
        if buffer.origin == "scratch":
            scratch.append(buffer)
    part, sizes = call.kernel.part, tuple(map(call.size, code.sizes))
    length = 1 if part is None or code.is_whole else call.size(part.extent)
    return KernelText(
        code.key,
        tuple(pointers),
        sizes,
        length,
        tuple(scratch),
        (origin,),
        sites=code.sites,
        has_phases=code.has_phases,
        code=code,
        estimate=estimate_of(call.kernel, call.dims, sizes, length),
    )
