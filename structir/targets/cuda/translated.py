"""Translates the source of GPU kernels to LLVM IR, with the implementations of the names that it
uses: those of the CPU, functions of NVIDIA's math library, and reductions over blocks."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import attrs
from llvmlite import ir
from numba import types
from numba.core import fastmathpass
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu_options import FastMathOptions

from structir.ir.scalar_functions import with_double
from structir.loops.program.buffer import STORED_AS
from structir.targets.cpu.arithmetic import declared
from structir.targets.cpu.inlined import Inlined, inlined, parse_function
from structir.targets.cpu.operations import Operations, Typed, UntranslatedError
from structir.targets.cuda import fragments
from structir.targets.cuda.device_text import SIDE, DeviceText
from structir.targets.cuda.names import kernel_names
from structir.targets.cuda.numba_operations import target
from structir.targets.cuda.numbers import functions_of_blocks, inside, sigmoid
from structir.targets.cuda.threads import CUDA, UNROLLED, WRITTEN, InlinedFunction
from structir.targets.cuda.translation import DeviceOperations, DeviceTranslation

rewritten: Any = fastmathpass.rewrite_module
fast: Any = FastMathOptions
REPORT, ALIGNED = "report", 16  # the error report; alignment in bytes
KNOWN = re.compile(r"llvm\.|__nv_")  # the functions that machine code can call
WIDTHS = {"float": ("f", "f32"), "double": ("", "f64")}
# LLVM's own remainder of floats is one of quotients that fit, the library's is that of all; and
# numba's floors are C's.
REMAINDER = re.compile(r"frem (?:\w+ )*(float|double) (.+), (.+)")
FLOOR = re.compile(r'@"?(floorf?)"?\(')


def translated(text: DeviceText, entry: str, older: bool = False) -> str:
    """Returns the source of a kernel as a module in LLVM IR; for `older` GPUs, without warp-level
    matrix instructions."""
    (function,) = ast.parse(text.text).body
    assert isinstance(function, ast.FunctionDef)
    context = target(contracted=not text.is_exact)
    with global_compiler_lock, context.push_code_library(_Alone()):
        context.typing_context.refresh()
        context.refresh()
        module = ir.Module(entry)
        names = {**names_of_threads(older), "routine": text.function}
        _write(module, function, entry, kinds_of(text), names, context, text)
        if context.fastmath:
            rewritten(module, fast({"contract"}))
    return _for_gpus(str(module), [f.name for f in module.functions if f.is_declaration])


def kinds_of(text: DeviceText) -> list[Any]:
    """Returns the types of a kernel's parameters: pointers, then sizes."""
    stored = [buffer.dtype for buffer in text.pointers] + (["int64"] if text.sites else [])
    pointer: Any = types.CPointer
    pointers = [pointer(getattr(types, STORED_AS.get(dtype, dtype))) for dtype in stored]
    return [*pointers, *[types.int64] * len(text.sizes)]


class _Alone:
    """Replaces numba's library of separately compiled functions: kernels call none."""

    def add_linking_library(self, library: Any) -> None:
        """Ignores a called function."""
        raise UntranslatedError(f"{library} is compiled for the CPU")


def _write(
    module: Any,
    function: ast.FunctionDef,
    entry: str,
    kinds: Sequence[Any],
    names: Mapping[str, Any],
    context: Any,
    text: DeviceText,
) -> None:
    shape = ir.FunctionType(ir.VoidType(), [context.get_value_type(kind) for kind in kinds])
    new_function = ir.Function(module, shape, entry)
    new_function.calling_convention = "ptx_kernel"
    # llvmlite has no attributes with values, but prints the set's members.
    set.add(new_function.attributes, f'"nvvm.maxntid"="{text.most_threads}"')
    if text.resident > 1:
        set.add(new_function.attributes, f'"nvvm.minctasm"="{text.resident}"')
    builder = ir.IRBuilder(new_function.append_basic_block("entry"))
    params = [a.arg for a in function.args.args]
    operations = DeviceOperations(context, builder)
    translation = DeviceTranslation(operations, inlined(function, names))
    for name, value, kind in zip(params, new_function.args, kinds, strict=True):
        value.name = name
        if isinstance(kind, types.CPointer) and name != REPORT:
            value.attributes.align = ALIGNED
            if text.apart:
                value.add_attribute("noalias")
        translation.named(name, Typed(value, kind))
    translation.apart = text.apart
    translation.block(function.body)
    if not builder.block.is_terminated:
        builder.ret_void()


def _for_gpus(text: str, called: Sequence[str]) -> str:
    """Replaces functions of C in a module by those of the GPU library."""
    unknown = [name for name in called if not KNOWN.match(name) and not FLOOR.match(f"@{name}(")]
    if unknown:
        raise UntranslatedError(f"{', '.join(unknown)}: not available on a GPU")
    text = FLOOR.sub(lambda m: f"@llvm.floor.{'f32' if m[1] == 'floorf' else 'f64'}(", text)
    if REMAINDER.search(text) is None:
        return text
    own = [f"declare {kind} @__nv_fmod{end}({kind}, {kind})" for kind, (end, _) in WIDTHS.items()]
    return "\n".join([REMAINDER.sub(_remainder, text), *own])


def _remainder(match: re.Match[str]) -> str:
    kind, left, right = match.groups()
    return f"call {kind} @__nv_fmod{WIDTHS[kind][0]}({kind} {left}, {kind} {right})"


def _of_library(stem: str, arity: int) -> InlinedFunction:
    """Returns a function of NVIDIA's math library, for both float widths."""

    def write(operations: Operations, args: Sequence[Typed]) -> Typed:
        kind, builder = args[0].kind, operations.builder
        if kind not in (types.float32, types.float64) or any(a.kind != kind for a in args):
            raise UntranslatedError(f"{stem} of {[a.kind for a in args]}")
        value = args[0].value.type
        name = f"__nv_{stem}{'f' if kind == types.float32 else ''}"
        function = declared(builder.module, ir.FunctionType(value, [value] * arity), name)
        return Typed(builder.call(function, [a.value for a in args]), kind)

    return InlinedFunction(write)


@cache
def names_of_threads(older: bool = False) -> dict[str, Any]:
    """Returns the implementations of the names in the sources of kernels."""
    names = {**kernel_names(), "inside": inside, "cuda": CUDA}
    names |= {**WRITTEN, **fragments.NAMES, "tile_side": SIDE}
    names["unrolled"] = UNROLLED
    for name, function in with_double().items():
        call = _of_library(name, function.count)
        names |= {f"{name}_{dtype}": call for dtype in ("float32", "float64")}
    for dtype in ("float32", "float64"):
        taken = parse_function(sigmoid)
        assert taken is not None
        around = {**taken.names, "exponential": names[f"exp_{dtype}"]}
        names[f"sigmoid_{dtype}"] = attrs.evolve(taken, names=around)
    functions = {**functions_of_blocks(warps=True), **fragments.functions_of_fragments(older)}
    for name, text in functions.items():
        names[name] = _taken(text, names)
    return names


def _taken(text: str, names: Mapping[str, Any]) -> Inlined:
    """Returns a function that is given as source."""
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    return inlined(function, names)
