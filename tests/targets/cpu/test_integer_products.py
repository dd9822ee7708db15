"""Products of small integers: each way of a processor against NumPy."""

from __future__ import annotations

import ctypes
from functools import partial
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

import structir
from structir.build import BlockBuilder
from structir.ir import dims
from structir.ir.expr import Constant, Var
from structir.ir.module import IRModule
from structir.ir.struct_info import TensorStructInfo
from structir.script import R
from structir.targets.cpu import integer_products
from structir.targets.cpu.code_generation import load_function
from structir.targets.cpu.features import cpu_features
from structir.targets.cpu.integer_products import integer_product, packed_integers
from structir.targets.cpu.integer_tiles import Grouping, IntegerTile
from structir.targets.cpu.packed_layout import load_tiles
from structir.targets.cpu.tiles import TileShape

WAYS = [
    ("avx512vnni", 16, Grouping(4, 128)),
    ("avx512bw", 16, Grouping(2, 0)),
    ("avx2", 8, Grouping(2, 0)),
    ("any", 4, Grouping(1, 0)),
]


# Products of one row, of several blocks of terms, and of several blocks of rows.
SIZES = [(1, 1, 1), (5, 16, 8), (7, 29, 13), (4, 3, 6), (1, 301, 1600), (98, 47, 37), (2, 5, 0)]


class EmulatedTile(IntegerTile):
    """A tile whose product instruction is computed by others, for CPUs that do not have it."""

    def _sum(self, left: Any, right: Any, total: Any) -> Any:
        builder, count, bits = self.builder, self.shape.lanes * self.unit, 32 // self.unit
        narrow, wide = (ir.VectorType(ir.IntType(n), count) for n in (bits, 32))
        extended = builder.zext if self.group.shift else builder.sext
        products = builder.mul(
            extended(builder.bitcast(left, narrow), wide),
            builder.sext(builder.bitcast(right, narrow), wide),
        )
        for term in range(self.unit):
            at = ir.Constant(
                ir.VectorType(ir.IntType(32), self.shape.lanes), [*range(term, count, self.unit)]
            )
            total = builder.add(total, builder.shuffle_vector(products, products, at))
        return total


def small(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-128, 128, shape).astype(np.int8)


@pytest.mark.parametrize(("feature", "lanes", "group"), WAYS, ids=[w[0] for w in WAYS])
def test_tiles_of_every_processor(
    feature: str, lanes: int, group: Grouping, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_instruction = feature == "any" or feature in cpu_features()
    shapes = tuple([TileShape("int32", lanes, v, (4, 1)) for v in (1, 2)])
    monkeypatch.setattr(integer_products, "grouping", lambda: group)
    monkeypatch.setattr(integer_products, "integer_shapes", lambda: shapes)
    name = f"test_panel_{feature}"
    tile = IntegerTile if has_instruction else EmulatedTile
    load_tiles(name, shapes, name, partial(tile, group=group))
    monkeypatch.setattr(integer_products, "WORDS", integer_products.ROW_BLOCK * 4)
    symbol = f"test_product_{feature}"
    load_function(symbol, symbol, lambda: integer_product(symbol, name, shapes, group))
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 9)(llvm.address_of_symbol(symbol))
    for rows, columns, terms in SIZES:
        left, right = small(rows, terms), small(terms, columns)
        made = np.full((rows, columns), -7, np.int32)
        panels = packed_integers(right)
        places = [a.ctypes.data for a in (left, panels, made)]
        call(*places, rows, columns, terms, terms, 1, columns)
        assert (made == left.astype(int) @ right.astype(int)).all()


def product_of(right: np.ndarray) -> IRModule:
    builder, n = BlockBuilder(), dims.sym("n")
    x = Var("x", TensorStructInfo((n, right.shape[0]), "int8"))
    with builder.function("main", [x]):
        made = builder.emit(R.matmul(x, Constant(right), out_dtype="int32"))
        builder.emit_func_output(builder.emit(R.add(made, R.const(1, "int32"))))
    return builder.get()


@pytest.mark.parametrize("terms", [4, 7, 33])
@pytest.mark.parametrize("columns", [2, 17, 75, 421])
def test_products_with_constants_are_exact(terms: int, columns: int) -> None:
    right = small(terms, columns)
    exe = structir.compile(product_of(right))
    assert "T.tiled_product" in exe.source() and "panels" in exe.source()
    for rows in (0, 1, 9, 70):
        left = small(rows, terms)
        assert (exe["main"](left) == left.astype(int) @ right.astype(int) + 1).all()
