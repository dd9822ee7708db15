"""Functions that are inlined into kernels: compiled to optimized bitcode once, and cached on
disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import attrs
import llvmlite.binding as llvm

from structir.ir.code_hash import is_of_package
from structir.ir.dtype import INTS
from structir.ir.kernel import KERNEL_DTYPES
from structir.ir.kernel_functions import EIGHTHS
from structir.ir.scalar_functions import ScalarFunction, declared
from structir.lazy import lazy_module
from structir.system import cache as disk
from structir.targets.cpu.blas import multiply_matrices
from structir.targets.cpu.code_generation import (
    module_for_host,
    module_of_assembly,
    module_of_bitcode,
    simplify,
)
from structir.targets.cpu.identity import machine_identity
from structir.targets.cpu.intrinsics import half_bits, half_value
from structir.targets.cpu.kinds import INDEX, NOTHING, Kind
from structir.targets.cpu.math.options import Number
from structir.targets.cpu.objects import symbol_builders
from structir.targets.cpu.operations import UntranslatedError
from structir.targets.cpu.scalars import helpers
from structir.targets.cpu.translated import translate
from structir.targets.cpu.window_sums import form_of, module_text

helperlib = lazy_module("numba._helperlib")
routine_code = lazy_module("structir.targets.cpu.routine_code")

FLOATS = ("float32", "float64")
LGAMMA = "numba_lgamma"


def _register_lgamma() -> None:
    """Registers numba's function of C that computes lgamma."""
    llvm.add_symbol(LGAMMA, helperlib.c_helpers["lgamma"])


symbol_builders[LGAMMA] = _register_lgamma


@attrs.frozen(eq=False)
class PreparedFunction:
    """A Python function to be inlined, and the kinds of its result and its parameters."""

    function: Callable[..., Number]
    result: Kind
    kinds: tuple[Kind, ...]


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
    multiply_matrices(
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
                wrap, name = _of_two if row.count == 2 else _of_one, row.symbol_of(dtype)
                kinds = (dtype,) * row.count
                functions[name] = PreparedFunction(wrap(helpers()[name]), dtype, kinds)
    for dtype in sorted(INTS & KERNEL_DTYPES):
        names = {f"pow_{dtype}": "whole_power"}
        names |= {f"{name}_{dtype}": f"{name}_{dtype}" for name in ("floordiv", "quotient", "mod")}
        for name, helper in names.items():
            functions[name] = PreparedFunction(_of_two(helpers()[helper]), dtype, (dtype, dtype))
    for dtype in FLOATS:
        for name in (f"floor_quotient_{dtype}", f"remainder_{dtype}"):
            functions[name] = PreparedFunction(_of_two(helpers()[name]), dtype, (dtype, dtype))
        place = f"{dtype}*"
        product = (*(place,) * 3, *(INDEX,) * 8)
        functions[f"product_{dtype}"] = PreparedFunction(_product, NOTHING, product)
        transpose = (place, place, *(INDEX,) * 4)
        functions[f"transpose_{dtype}"] = PreparedFunction(_transpose, NOTHING, transpose)
    for eighth in EIGHTHS:
        for name, result, kind in (
            (f"{eighth}_value", "float32", "uint8"),
            (f"{eighth}_code", "uint8", "float32"),
        ):
            functions[name] = PreparedFunction(_of_one(helpers()[name]), result, (kind,))
    return functions | {
        "to_odd": PreparedFunction(_of_one(helpers()["odd_single"]), "float64", ("float64",)),
        "half_value": PreparedFunction(_of_one(half_value), "float32", ("uint16",)),
        "half_bits": PreparedFunction(_of_one(half_bits), "uint16", ("float32",)),
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
    try:
        module = module_for_host(translate(row.function, name, row.result, row.kinds))
    except UntranslatedError:
        scalar = helpers().get(name)
        if not isinstance(scalar, FunctionType) or is_of_package(scalar):
            raise
        bitcode = routine_code.scalar_bitcode(scalar, name, row.result, row.kinds)
        module = module_of_bitcode(bitcode)
    simplify(module)
    for function in module.functions:
        if not function.is_declaration:
            function.linkage = "external" if function.name == name else "internal"
    module.get_function(name).add_function_attribute("alwaysinline")
    return module.as_bitcode()  # type: ignore[no-any-return]
