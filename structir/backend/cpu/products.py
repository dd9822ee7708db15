"""Matrix products of any size and stride: tiles in registers, panels of the right operand in cache.

The library is built once in a process and found by kernels under symbols of its own. Where the
processor has no wide fused multiply-add, kernels call BLAS instead.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import cfunc, types
from numba.extending import intrinsic

from structir.backend.cpu.intrinsics import offset_by
from structir.backend.cpu.tiles import TileFunction, TileShape, tile_name, tile_shape
from structir.backend.math.bits import declared
from structir.backend.math.options import Number, vectorisable

DTYPES: dict[str, Any] = {"float32": types.float32, "float64": types.float64}
ROW_BLOCK = 256  # rows of the left operand that pass over one panel: they stay in the second cache
TERM_BLOCK = 1024  # terms of a sum at once: the panel and the rows that meet it stay close
FEWER_ROWS = 4  # up to so many the product is as fast as its right operand streams,
FEW_TERMS = 32  # which it does in order if few of its lines are open at once
FEW_ROWS = 16  # up to so many rows a panel is not worth copying
WIDEST_PANEL = 48 * TERM_BLOCK  # elements of scratch that a product needs

_loaded: list[Any] = []  # engines own the code that symbols point to


def _build_tiles(shape: TileShape) -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = ir.Module(f"tiles_{shape.dtype}")
    module.triple = llvm.get_process_triple()
    for rows in shape.rows:
        TileFunction(module, shape, rows).write()
    parsed = llvm.parse_assembly(str(module))
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        jit=True,
    )
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    _loaded.append(engine)
    for rows in shape.rows:
        name = tile_name(shape, rows)
        llvm.add_symbol(name, engine.get_function_address(name))


def _extern(name: str) -> Any:
    """A function at a symbol, for use in compiled code: called with a tuple of its arguments."""

    @intrinsic
    def call(typing_context: Any, args: Any) -> Any:
        return types.void(args), _call_with_fields(name, len(args.types))

    return call


def _call_with_fields(name: str, count: int) -> Any:
    """What an intrinsic generates that calls a symbol with the fields of a tuple."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        fields = [builder.extract_value(values[0], i) for i in range(count)]
        shape = ir.FunctionType(ir.VoidType(), [v.type for v in fields])
        builder.call(declared(builder.module, shape, name), fields)
        return context.get_dummy_value()

    return generate


@vectorisable
def copy_panel(
    panel: Number,
    source: Number,
    terms: Number,
    columns: Number,
    width: Number,
    row: Number,
    column: Number,
    zero: Number,
) -> Number:
    """Lines of the right operand side by side, filled up with zeros to the width of a tile."""
    if column == 1 and columns == width:
        for t in range(terms):
            for j in range(width):
                panel[t * width + j] = source[t * row + j]
    else:
        for t in range(terms):
            for j in range(width):
                inside = j < columns
                value = source[t * row + (j if inside else 0) * column]
                panel[t * width + j] = value if inside else zero


def _row_passes(shape: TileShape) -> Any:
    """Down the rows of the left operand, tile by tile, over one panel."""
    first, second, third, last = (_extern(tile_name(shape, r)) for r in shape.rows)
    down1, down2, down3, _ = shape.rows
    from_here: Any = offset_by

    def pass_rows(
        a: Number, a_row: Number, a_column: Number, c: Number, c_row: Number, m: Number, rest: Any
    ) -> Number:
        lines, step, terms, columns, adds = rest
        i = 0
        while i < m:
            left, out = from_here(a, i * a_row), from_here(c, i * c_row)
            given = (left, a_row, a_column, lines, step, out, c_row, terms, columns, adds)
            if m - i >= down1:
                first(given)
                i += down1
            elif m - i >= down2:
                second(given)
                i += down2
            elif m - i >= down3:
                third(given)
                i += down3
            else:
                last(given)
                i += 1

    return vectorisable(pass_rows)


def _build_driver(shape: TileShape) -> Any:
    """The loops around the tiles, as a C function."""
    element = DTYPES[shape.dtype]
    pointer: Any = types.CPointer(element)  # type: ignore[no-untyped-call]
    width, zero, pass_rows = shape.columns, element(0), _row_passes(shape)
    from_here: Any = offset_by

    def product(
        a: Number,
        b: Number,
        c: Number,
        m: Number,
        n: Number,
        k: Number,
        a_row: Number,
        a_column: Number,
        b_row: Number,
        b_column: Number,
        c_row: Number,
        panel: Number,
    ) -> None:
        if k == 0:
            for i in range(m):
                for j in range(n):
                    c[i * c_row + j] = zero
        for i0 in range(0, m, ROW_BLOCK):
            rows = min(ROW_BLOCK, m - i0)
            block = FEW_TERMS if rows <= FEWER_ROWS and b_column == 1 else TERM_BLOCK
            for k0 in range(0, k, block):
                terms, adds = min(block, k - k0), 1 if k0 > 0 else 0
                left = from_here(a, i0 * a_row + k0 * a_column)
                for j0 in range(0, n, width):
                    columns = min(width, n - j0)
                    lines, step = from_here(b, k0 * b_row + j0 * b_column), b_row
                    if rows > FEW_ROWS or b_column != 1 or columns < width:
                        copy_panel(panel, lines, terms, columns, width, b_row, b_column, zero)
                        lines, step = panel, width
                    out = from_here(c, i0 * c_row + j0)
                    rest = (lines, step, terms, columns, adds)
                    pass_rows(left, a_row, a_column, out, c_row, rows, rest)

    signature = types.void(*[pointer] * 3, *[types.int64] * 8, pointer)
    make: Any = cfunc
    return make(signature, error_model="numpy", _nrt=False)(product)


@cache
def has_own_products(dtype: str) -> bool:
    """Whether the library has matrix products of this dtype here; building it if so."""
    shape = tile_shape(dtype) if dtype in DTYPES else None
    if shape is None:
        return False
    _build_tiles(shape)
    driver = _build_driver(shape)
    _loaded.append(driver)
    llvm.add_symbol(f"structir_product_{dtype}", driver.address)
    return True


@intrinsic
def multiply_tiled(typing_context: Any, args: Any) -> Any:
    """The library's product: (a, b, c, m, n, k, a_row, a_column, b_row, b_column, c_row, panel)."""
    name = f"structir_product_{args.types[0].dtype}"
    return types.void(args), _call_with_fields(name, len(args.types))
