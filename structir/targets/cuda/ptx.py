"""From LLVM IR to PTX, by LLVM's NVPTX backend."""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm

from structir.errors import StructIRError
from structir.targets.cuda.library import functions_called

TRIPLE = "nvptx64-nvidia-cuda"
LEVEL = 2
# Architectures that every supported LLVM knows. PTX for one also runs on later ones.
KNOWN = ((7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (12, 0))


@cache
def _writer(architecture: str) -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    features = "+ptx65" if architecture == "sm_75" else ""  # the first version with ldmatrix
    return llvm.Target.from_triple(TRIPLE).create_target_machine(architecture, features, opt=3)


def ptx_of_module(text: str, capability: tuple[int, int]) -> str:
    """Compiles a module to PTX for a compute capability."""
    older = [known for known in KNOWN if known <= capability]
    if not older:
        oldest, found = ("sm_{}{}".format(*pair) for pair in (KNOWN[0], capability))
        raise StructIRError(f"CUDA: expected an architecture from {oldest} on, found {found}")
    capability = older[-1]
    writer = _writer(f"sm_{capability[0]}{capability[1]}")
    module: Any = llvm.parse_assembly(text)
    called = functions_called(text, capability)
    if called:
        module.link_in(llvm.parse_assembly(called))
    module.triple, module.data_layout = TRIPLE, str(writer.target_data)
    options = llvm.create_pipeline_tuning_options(LEVEL)
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(writer, options)
    builder.getModulePassManager().run(module, builder)
    return str(writer.emit_assembly(module))
