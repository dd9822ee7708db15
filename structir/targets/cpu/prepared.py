"""Functions that are inlined into kernels: compiled to optimized bitcode once, and cached on
disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import attrs
from numba import types

from structir.ir.dtype import INTS
from structir.ir.kernel import KERNEL_DTYPES
from structir.ir.kernel_functions import EIGHTHS
from structir.ir.scalar_functions import ScalarFunction, declared
from structir.system import cache as disk
from structir.targets.cpu.blas import multiply_matrices
from structir.targets.cpu.code_generation import (
    code_generator,
    module_of_assembly,
    module_of_bitcode,
)
from structir.targets.cpu.identity import machine_identity
from structir.targets.cpu.intrinsics import half_bits, half_value
from structir.targets.cpu.library import WHOLE, simplify
from structir.targets.cpu.math.options import Number
from structir.targets.cpu.scalars import helpers
from structir.targets.cpu.translated import translate_c_function
from structir.targets.cpu.window_sums import form_of, module_text

FLOATS = ("float32", "float64")
pointer: Any = types.CPointer
multiply: Any = multiply_matrices


@attrs.frozen(eq=False)
class PreparedFunction:
    """A Python function to be inlined, and its numba signature."""

    function: Callable[..., Number]
    signature: Any


def _of_one(function: Any) -> Any:
    def call(x: Number) -> Number:
        return function(x)

    return call


def _of_two(function: Any) -> Any:
    def call(x: Number, y: Number) -> Number:
        return function(x, y)

    return call


def _product(
    left: Number,
    right: Number,
    out: Number,
    rows: Number,
    columns: Number,
    terms: Number,
    left_row: Number,
    left_term: Number,
    right_term: Number,
    right_column: Number,
    out_row: Number,
) -> None:
    multiply(
        left,
        right,
        out,
        rows,
        columns,
        terms,
        left_row,
        left_term,
        right_term,
        right_column,
        out_row,
    )


def _transpose(
    out: Number, source: Number, rows: Number, columns: Number, out_row: Number, source_row: Number
) -> None:
    for i in range(rows):
        for j in range(columns):
            out[i * out_row + j] = source[j * source_row + i]


def _functions() -> dict[str, PreparedFunction]:
    """Returns the functions by the names that the emitter calls."""
    return _of_declared(tuple(declared().values()))


@cache
def _of_declared(declarations: tuple[ScalarFunction, ...]) -> dict[str, PreparedFunction]:
    functions = dict[str, PreparedFunction]()
    for row in declarations:
        for dtype in FLOATS:
            if row.form(dtype) is not None:
                kind, wrap = getattr(types, dtype), _of_two if row.count == 2 else _of_one
                name = row.symbol_of(dtype)
                signature = kind(*[kind] * row.count)
                functions[name] = PreparedFunction(wrap(helpers()[name]), signature)
    for dtype in sorted(INTS & KERNEL_DTYPES):
        kind = getattr(types, dtype)
        power = PreparedFunction(_of_two(helpers()["whole_power"]), kind(kind, kind))
        functions[f"pow_{dtype}"] = power
        for name in (f"floordiv_{dtype}", f"quotient_{dtype}", f"mod_{dtype}"):
            functions[name] = PreparedFunction(_of_two(helpers()[name]), kind(kind, kind))
    for dtype in FLOATS:
        kind = getattr(types, dtype)
        for name in (f"floor_quotient_{dtype}", f"remainder_{dtype}"):
            functions[name] = PreparedFunction(_of_two(helpers()[name]), kind(kind, kind))
        place = pointer(getattr(types, dtype))
        product = types.void(*[place] * 3, *[types.int64] * 8)
        functions[f"product_{dtype}"] = PreparedFunction(_product, product)
        transpose = types.void(*[place] * 2, *[types.int64] * 4)
        functions[f"transpose_{dtype}"] = PreparedFunction(_transpose, transpose)
    for eighth in EIGHTHS:
        for name, signature in (
            (f"{eighth}_value", types.float32(types.uint8)),
            (f"{eighth}_code", types.uint8(types.float32)),
        ):
            functions[name] = PreparedFunction(_of_one(helpers()[name]), signature)
    value, bits = types.float32(types.uint16), types.uint16(types.float32)
    return functions | {
        "to_odd": PreparedFunction(_of_one(helpers()["odd_single"]), types.float64(types.float64)),
        "half_value": PreparedFunction(_of_one(half_value), value),
        "half_bits": PreparedFunction(_of_one(half_bits), bits),
    }


@cache
def prepared(name: str) -> bytes:
    """Returns the bitcode of a function that is always inlined, from the disk cache or newly
    built."""
    store, key = disk.store(), disk.digest(machine_identity(), "prepared", name)
    entry = None if store is None else store.read(key)
    if entry is not None and entry.facts.get("kind") == "bitcode" and _is_bitcode(entry.data, name):
        return entry.data
    bitcode = _built(name)
    if store is not None:
        store.write(key, disk.CacheEntry({"kind": "bitcode", "text": name}, bitcode))
    return bitcode


def _is_bitcode(data: bytes, name: str) -> bool:
    """Whether data is bitcode of a module that defines a function."""
    try:
        module = module_of_bitcode(data)
        return not module.get_function(name).is_declaration
    except (RuntimeError, NameError):
        return False


def _built(name: str) -> bytes:
    form = form_of(name)
    if form is not None:  # which is optimised with its constants
        return module_of_assembly(module_text(form)).as_bitcode()  # type: ignore[no-any-return]
    row = _functions()[name]
    library = translate_c_function(row.function, name, row.signature)
    module = module_of_bitcode(library.linked_bitcode())
    machine, _ = code_generator(module.triple, WHOLE)
    simplify(module, machine)
    for function in module.functions:
        if not function.is_declaration:
            function.linkage = "external" if function.name == name else "internal"
    module.get_function(name).add_function_attribute("alwaysinline")
    bitcode: bytes = module.as_bitcode()
    return bitcode
