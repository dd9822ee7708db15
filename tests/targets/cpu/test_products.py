"""Matrix products by tiles and by BLAS, at all strides, against NumPy."""

import ctypes
import ctypes.util
import platform
import sys

import llvmlite.binding as llvm
import numpy as np
import pytest

import structir
from structir.build import BlockBuilder
from structir.ir import dims
from structir.ir.expr import Constant, Var
from structir.ir.struct_info import TensorStructInfo
from structir.loops.emit.library import PACKED_PRODUCTS
from structir.loops.products.packing import PACKINGS
from structir.script import R
from structir.targets.cpu import products
from structir.targets.cpu.blas import multiply_matrices
from structir.targets.cpu.intrinsics import POINTERS
from structir.targets.cpu.kinds import INDEX, NOTHING
from structir.targets.cpu.objects import require_symbol
from structir.targets.cpu.packed_layout import (
    equal_panels,
    panel_widths,
    panels_of_rows,
)
from structir.targets.cpu.tiles import (
    BUSY,
    TileShape,
    few_rows_shapes,
    paired_shapes,
    panel_shapes,
    tile_shapes,
)
from tests.runtime.python_functions import compiled

SIZES = [(1, 1, 1), (3, 5, 7), (8, 48, 16), (17, 50, 33), (300, 100, 40), (5, 3, 0), (6, 70, 1100)]
SIZES += [(20, 999, 30), (9, 300, 1100)]  # of many panels, copied together


def product_by(dtype, way):
    pointer = POINTERS[dtype]
    if way == "tiles":
        require_symbol(f"structir_product_{dtype}")
        address = llvm.address_of_symbol(f"structir_product_{dtype}")
        return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 12)(address)

    def product(a, b, c, m, n, k, ar, ac, br, bc, cr, panel):
        multiply_matrices(pointer(a), pointer(b), pointer(c), m, n, k, ar, ac, br, bc, cr)

    return compiled(product, NOTHING, *[INDEX] * 12)


def stored(random, rows, columns, dtype, turned):
    shape = (columns, rows) if turned else (rows, columns)
    made = random.standard_normal(shape).astype(dtype)
    return made.T if turned else made


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("way", ["tiles", "blas"])
def test_products(dtype, way):
    if way == "tiles" and not products.has_own_products(dtype):
        pytest.skip("no wide fused multiply-add here")
    product, random = product_by(dtype, way), np.random.default_rng(0)
    panel = np.empty(products.WIDEST_PANEL, dtype)
    size = np.dtype(dtype).itemsize
    for m, n, k in SIZES:
        for turned in ((False, False), (True, False), (False, True), (True, True)):
            a = stored(random, m, k, dtype, turned[0])
            b = stored(random, k, n, dtype, turned[1])
            wide = np.full((m, n + 3), 7, dtype)  # what lies beside the result stays
            strides = [s // size for s in (*a.strides, *b.strides, wide.strides[0])]
            product(
                a.ctypes.data, b.ctypes.data, wide.ctypes.data, m, n, k, *strides, panel.ctypes.data
            )
            near = 1e-4 if dtype == "float32" else 1e-10
            np.testing.assert_allclose(wide[:, :n], a @ b, rtol=near, atol=near * (k + 1) ** 0.5)
            assert (wide[:, n:] == 7).all()


DENORMAL = 2  # the flag of an operation with a subnormal operand


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.machine() != "x86_64",
    reason="flags and their layout are those of Linux on x86",
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_product_reads_uninitialized_memory(dtype):
    """A multiply-add with a subnormal operand takes a hundred cycles, also in lanes that are not
    stored."""
    if not products.has_own_products(dtype):
        pytest.skip("no wide fused multiply-add here")
    product, random = product_by(dtype, "tiles"), np.random.default_rng(0)
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    tiny, size = np.finfo(dtype).smallest_subnormal, np.dtype(dtype).itemsize
    for m, n, k in [*SIZES, (8, 8, 8), (60, 5, 70), (60, 33, 70), (60, 40, 300), (2, 21, 8)]:
        for turned in ((False, False), (True, False), (False, True), (True, True)):
            a = stored(random, m, k, dtype, turned[0])
            b = stored(random, k, n, dtype, turned[1])
            panel, out = np.full(products.WIDEST_PANEL, tiny), np.empty((m, n), dtype)
            strides = [s // size for s in (*a.strides, *b.strides, out.strides[0])]
            places = [x.ctypes.data for x in (a, b, out)]
            environment = np.zeros(8, np.uint32)  # the last word is the register MXCSR
            library.fegetenv(environment.ctypes)
            environment[-1] &= ~np.uint32(DENORMAL)
            library.fesetenv(environment.ctypes)
            product(*places, m, n, k, *strides, panel.ctypes.data)
            library.fegetenv(environment.ctypes)
            assert not environment[-1] & DENORMAL, (m, n, k, turned)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("packing", sorted(PACKED_PRODUCTS))
def test_products_with_packed_operands(packing, dtype):
    """Sums of whole numbers have no rounding, so that any order of terms gives the same bits."""
    if not products.has_own_products(dtype):
        pytest.skip("no wide fused multiply-add here")
    symbol = f"structir_{PACKED_PRODUCTS[packing]}_{dtype}"
    require_symbol(symbol)
    product = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 9)(llvm.address_of_symbol(symbol))
    random = np.random.default_rng(0)
    for m in range(1, 18):
        for n, k in ((1, 3), (20, 5), (64, 1), (100, 33), (130, 40), (331, 1030)):
            a, b = [random.integers(-8, 8, shape).astype(dtype) for shape in ((m, k), (k, n))]
            panels, wide = PACKINGS[packing](b), np.full((m, n + 3), 7, dtype)
            places = [x.ctypes.data for x in (a, panels, wide)]
            product(*places, m, n, k, k, 1, n + 3)
            np.testing.assert_array_equal(wide[:, :n], a @ b)
            assert (wide[:, n:] == 7).all()


def test_scratch_holds_the_widest_panel():
    widest = max(
        TileShape("float32", 16, 3, (8,)).columns, TileShape("float32", 8, 2, (6,)).columns
    )
    assert widest * products.TERM_BLOCK <= products.WIDEST_PANEL
    left = products.LEFT_ROWS * products.LEFT_TERMS
    assert widest * products.LEFT_TERMS <= products.WIDEST_PANEL - left


@pytest.mark.parametrize("most", [2, 3])
def test_equal_panels_are_full_and_of_the_greatest_width(most):
    shapes = tuple([TileShape("float32", 8, count, (1,)) for count in range(1, most + 1)])
    for columns in range(1, 300):
        widths, width = panel_widths(columns, shapes), shapes[-1].columns
        full = [w for k, w in enumerate(widths) if w == width <= columns - k * width]
        assert equal_panels(columns, 8, most) == max(len(full), 1), columns


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_of_rows_and_panels(dtype):
    """Several blocks of terms, of rows, and of panels; the last ones are smaller."""
    if not products.has_own_products(dtype):
        pytest.skip("no wide fused multiply-add here")
    product, random = product_by(dtype, "tiles"), np.random.default_rng(0)
    panel = np.empty(products.WIDEST_PANEL, dtype)
    for m, n, k in ((270, 131, 300), (200, 100, 1100), (130, 210, 20), (70, 700, 260)):
        for turned in ((False, False), (True, False), (False, True)):
            a = stored(random, m, k, dtype, turned[0])
            b = stored(random, k, n, dtype, turned[1])
            out = np.empty((m, n), dtype)
            strides = [s // out.itemsize for s in (*a.strides, *b.strides, out.strides[0])]
            arrays = [x.ctypes.data for x in (a, b, out)]
            product(*arrays, m, n, k, *strides, panel.ctypes.data)
            near = 1e-4 if dtype == "float32" else 1e-10
            np.testing.assert_allclose(out, a @ b, rtol=near, atol=near * k**0.5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_rows_meet_panels_side_by_side(dtype):
    """The same sums, in the same order, as in rows among others."""
    random = np.random.default_rng(0)
    ends = [(columns, 9) for columns in (97, 100, 104, 193, 200, 208)]  # a narrower panel last
    for columns, terms in ((421, 33), (192, 1100), (50, 5), (200, 0), *ends):
        w = random.standard_normal((terms, columns)).astype(dtype)
        x = Var("x", TensorStructInfo((dims.sym("n"), terms), dtype))
        builder = BlockBuilder()
        with builder.function("main", [x]):
            builder.emit_func_output(builder.emit(R.matmul(x, Constant(w))))
        main = structir.compile(builder.get())["main"]
        rows = random.standard_normal((9, terms)).astype(dtype)
        together = main(rows)
        np.testing.assert_allclose(together, rows @ w, rtol=1e-3, atol=1e-4)
        for count in range(1, 9):
            assert (main(rows[:count]) == together[:count]).all()
            assert (main(rows[-count:]) == together[-count:]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shapes", [panel_shapes, paired_shapes, few_rows_shapes])
def test_rows_of_one_tile_read_panels_once_and_hide_latency(shapes, dtype):
    """There is a tile of each height of the widest panels, with enough totals for multiply-adds in
    flight."""
    if not products.has_own_products(dtype):
        pytest.skip("no wide fused multiply-add here")
    widest = shapes(dtype)[-1]
    assert {*widest.rows} == {*range(1, widest.rows[0] + 1)}
    panels = panels_of_rows(widest)
    assert all(panels.get(r, 1) * r * widest.vectors >= BUSY for r in range(1, widest.rows[0] + 1))


LINES = pytest.mark.skipif(
    not products.has_own_products("float32"), reason="no wide fused multiply-add here"
)


@LINES
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_rows_read_contiguous_lines_in_place(dtype):
    """Packing a panel that is read a few times costs more than it saves. The lines may be parts of
    longer ones, on both sides of which nothing is read as a factor or written."""
    product, random = product_by(dtype, "tiles"), np.random.default_rng(0)
    most, size = len(tile_shapes(dtype)), np.dtype(dtype).itemsize
    for rows in (*range(1, 18), 32, 33, 63, 64, 65):
        for columns, terms in (
            (2 * tile_shapes(dtype)[-1].columns, 300),
            (1, 5),
            (53, 19),
            (97, 8),
        ):
            wide = np.full((terms, columns + 5), np.nan, dtype)
            a, b = random.standard_normal((rows, terms)).astype(dtype), wide[:, 2:-3]
            b[:] = random.standard_normal(b.shape)
            out, panel = np.full((rows, columns + 1), 7, dtype), np.full(1 << 17, 7, dtype)
            arrays = [x.ctypes.data for x in (a, b, out)]
            strides = (terms, 1, b.strides[0] // size, 1, columns + 1)
            product(*arrays, rows, columns, terms, *strides, panel.ctypes.data)
            np.testing.assert_allclose(out[:, :-1], a @ b, rtol=1e-4, atol=1e-3)
            assert (out[:, -1] == 7).all()
            if columns % tile_shapes(dtype)[-1].columns == 0:
                in_lines = rows <= products.most_in_lines(terms, most)
                is_plain = in_lines or not products.packs_panels(rows, terms, most)
                assert (panel == 7).all() == is_plain, (rows, terms)


@LINES
@pytest.mark.parametrize("columns", [1, 40, 384, 391, 2100, "n"])
def test_kernels_of_few_rows_by_any_number_of_threads(columns):
    """Blocks of columns are joined for few rows; threads share the blocks."""
    head = f'w: R.Tensor((300, "{columns}"), "float32"), b: R.Tensor(("{columns}",), "float32")'
    module = structir.parse(
        f'@R.function\ndef main(x: R.Tensor(("m", 300), "float32"), {head}):\n'
        "    return R.nn.relu(R.matmul(x, w) + b)\n"
    )
    mains = [structir.compile(module, num_threads=count)["main"] for count in (1, 2, 3)]
    random = np.random.default_rng(0)
    width = 517 if columns == "n" else columns
    w, b = random.standard_normal((300, width), np.float32), np.ones(width, np.float32)
    for rows in (0, *range(1, 18), 33, 64, 65, 300):
        x = random.standard_normal((rows, 300), np.float32)
        wanted = np.maximum(x @ w + b, 0)
        for main in mains:
            np.testing.assert_allclose(main(x, w, b), wanted, rtol=1e-3, atol=1e-3)
