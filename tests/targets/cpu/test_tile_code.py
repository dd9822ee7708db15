"""Machine code of the tiles of products, for several processors: the accumulators stay in vector
registers."""

import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import attrs
import llvmlite.binding as llvm
import pytest
from llvmlite import ir

import structir.targets.cpu.kernels  # noqa: F401  (sets the options of the code generator)
from structir.targets.cpu import integer_tiles, tiles, window_sums
from structir.targets.cpu.code_generation import module_with_target
from structir.targets.cpu.integer_tiles import IntegerTile, grouping, integer_shapes
from structir.targets.cpu.line_tiles import LineTile
from structir.targets.cpu.named_cpu import features_of
from structir.targets.cpu.packed_layout import tiles_text
from structir.targets.cpu.pixel_tiles import pixel_tiles_text
from structir.targets.cpu.tiles import (
    OrderedTile,
    TileFunction,
    TileShape,
    cut_shapes,
    few_rows_shapes,
    tile_shapes,
)
from structir.targets.cpu.window_sums import WindowForm, WindowSum, block_rows

AVX2 = frozenset({"avx2", "fma"})
AVX512 = AVX2 | {"avx512f", "avx512bw"}
PROCESSORS = {
    "znver4": AVX512 | {"avx512vnni"},
    "znver5": AVX512 | {"avx512vnni"},
    "icelake-server": AVX512 | {"avx512vnni"},
    "sapphirerapids": AVX512 | {"avx512vnni"},
    "skylake-avx512": AVX512,
    "haswell": AVX2,
    "znver3": AVX2,
    "x86-64-v2": frozenset[str](),
}
ARM = {"neoverse-v2": "aarch64-unknown-linux-gnu", "apple-m1": "arm64-apple-darwin"}
ASKED = sorted({"avx2", "fma", "avx512f", "avx512bw", "avx512vnni"})
PRODUCT = re.compile(r"vfmadd|vmulp|vpdpbusd|v?pmaddwd|v?pmulld|mla\b")
JUMP = r"(j\w+|b(\.\w+)?|[ct]bn?z\s.*,)\s+"
STORE_TO_STACK = re.compile(r", *-?\d*\(%r[sb]p\)$|^st\w+\s.*\[(sp|x29)\b")

pytestmark = pytest.mark.skipif(
    not llvm.get_default_triple().startswith("x86_64"), reason="code for x86-64"
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROCESSORS)
def test_accumulators_of_tiles_stay_in_registers(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks_tiles(name, llvm.get_process_triple(), PROCESSORS[name], monkeypatch)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ARM)
def test_accumulators_stay_in_registers_of_arm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    checks_tiles(name, ARM[name], frozenset(), monkeypatch)


@pytest.mark.parametrize("name", PROCESSORS)
def test_features_by_name(name: str) -> None:
    assert features_of(llvm.get_process_triple(), name, "", ASKED) == PROCESSORS[name]


def checks_tiles(
    name: str, triple: str, features: frozenset[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiles each tile for a CPU: no inner loop stores to the stack."""
    for module in (tiles, integer_tiles):
        monkeypatch.setattr(module, "cpu_features", lambda: features)
    for form, text in texts():
        text = text.replace(llvm.get_process_triple(), triple)
        module, machine = module_with_target(text, name, "")
        code = inner_loops(machine.emit_assembly(module))
        loops = [loop for loop in code if any(map(PRODUCT.match, loop))]
        assert loops, form
        for loop in loops:
            assert not any(map(STORE_TO_STACK.search, loop)), (form, *loop)


@pytest.mark.parametrize("is_wide_image", [0, 1])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("name", [name for name, own in PROCESSORS.items() if "avx2" in own])
def test_sums_over_windows_stay_in_registers(
    name: str, step: int, is_wide_image: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_wide = "avx512f" in PROCESSORS[name]
    monkeypatch.setattr(window_sums, "has_wide_vectors", lambda: is_wide)
    module = ir.Module("window_sums")
    module.triple = llvm.get_process_triple()
    lanes = 16 if is_wide else 8
    rows = block_rows(step, lanes)
    form = WindowForm(3, 3, step, step, 1, 1, lanes, rows, is_wide=is_wide_image)
    WindowSum(module, form).write().linkage = "external"
    compiled, machine = module_with_target(str(module), name, "")
    assembly = machine.emit_assembly(compiled)
    blocks = basic_blocks(assembly) if is_wide_image else inner_loops(assembly)
    main = max(blocks, key=lambda block: sum(line.startswith("vfmadd") for line in block))
    assert sum(line.startswith("vfmadd") for line in main) >= 8 * form.rows
    assert ("zmm" if is_wide else "ymm") in "".join(main)
    # Two vectors for each line and step need more than 16 registers.
    assert (not is_wide and step > 1) or not any(map(STORE_TO_STACK.search, main)), main


def texts() -> Iterator[tuple[str, str]]:
    """The tiles that there are for the processor, of the heights that fill its registers."""
    integers = partial(IntegerTile, group=grouping())
    yield "integers", tiles_text("panel", highest(integer_shapes()), integers, in_panels=True)
    windows = partial(TileFunction, windows=True)
    cut_windows = partial(windows, cut=True)
    for dtype in ("float32", "float64"):
        if shapes := tile_shapes(dtype):
            yield f"windows {dtype}", tiles_text("panel", highest(shapes), windows)
            yield f"cut {dtype}", tiles_text("panel", highest(cut_shapes(dtype)), cut_windows)
    if shapes := tile_shapes("float32"):
        yield "panels", tiles_text("panel", highest(shapes), TileFunction, in_panels=True)
        few = highest(few_rows_shapes("float32"))
        yield "panels for few rows", tiles_text("panel", few, TileFunction, in_panels=True)
        yield "ordered", tiles_text("panel", highest(shapes), OrderedTile, prefetching=True)
        yield "lines", tiles_text("lines", highest(shapes[-1:]), LineTile, prefetching=True)
        yield "pixels", pixel_tiles_text(shapes, "pixels", 72)


def highest(shapes: tuple[TileShape, ...]) -> tuple[TileShape, ...]:
    return tuple([attrs.evolve(shape, rows=shape.rows[:1]) for shape in shapes])


def inner_loops(assembly: str) -> Iterator[list[str]]:
    """Loops of one basic block: from a label to the jump to it, with no label between."""
    for label, block in labelled_blocks(assembly):
        for k, line in enumerate(block):
            if label and re.fullmatch(rf"{JUMP}{re.escape(label)}", line):
                yield block[: k + 1]


def basic_blocks(assembly: str) -> Iterator[list[str]]:
    """Runs of instructions without labels and jumps."""
    for _, block in labelled_blocks(assembly):
        jumps = [k for k, line in enumerate(block) if re.match(JUMP, line)]
        for start, end in pairwise([-1, *jumps, len(block)]):
            yield block[start + 1 : end]


def labelled_blocks(assembly: str) -> Iterator[tuple[str, list[str]]]:
    """The instructions after each label, up to the next one."""
    label, block = "", list[str]()
    for line in [re.split(r"# |//|;", line)[0].strip() for line in assembly.splitlines()]:
        if line.endswith(":"):
            yield label, block
            label, block = line[:-1], []
        elif line and not line.startswith("."):
            block.append(line)
    yield label, block
