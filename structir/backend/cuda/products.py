"""The schedule of a matrix product: tiles of both operands in shared memory. A card has a library
make it instead, where that can."""

from __future__ import annotations

from math import prod

import attrs

from structir.backend.cuda.device_text import (
    DeviceText,
    Product,
    Steps,
    device_text,
    over_blocks,
)
from structir.backend.cuda.points import point_kernel
from structir.backend.loops.access import Address, address_of, joined_axes
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.contraction import Contraction, contraction_of, split_product
from structir.backend.loops.expression import Apply, Load, computed_in
from structir.backend.loops.group import Group
from structir.backend.loops.scalar_text import (
    accumulation_text,
    application_text,
    load_text,
    number_text,
    store_text,
)
from structir.backend.loops.stage import Stage
from structir.backend.loops.writer import Writer, indented
from structir.ir.dims import Dim, Sym

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


def product_of(stage: Stage) -> Contraction | None:
    """The matrix product that a stage is: of floats that lie in any way, or of small integers."""
    factors = _factors(stage) if stage.simple else None
    if factors is None:
        return contraction_of(stage)
    for left, right in (factors, factors[::-1]):
        a, b = [address_of(x.buffer, x.entries, stage.axes) for x in (left, right)]
        out = address_of(stage.out, stage.write, stage.axes)
        if a.data or b.data or out.data or out.pinned(stage.axes):
            return None
        found = split_product(stage, left, right, a, b, out, any_stride=True)
        if found is not None:
            return found
    return None


def _factors(stage: Stage) -> tuple[Load, Load] | None:
    body = stage.body
    if stage.monoid != "sum" or not stage.reduce or stage.out.dtype not in FLOATS:
        return None
    if not isinstance(body, Apply) or body.fn != "mul":
        return None
    left, right = body.args
    if not (isinstance(left, Load) and isinstance(right, Load)):
        return None
    same = left.buffer.dtype == right.buffer.dtype == stage.out.dtype
    return (left, right) if same else None


def product_kernel(group: Group) -> DeviceText:
    """The text of a matrix product."""
    found = product_of(group.stages[0])
    if found is None or found.windows:
        return point_kernel(group)
    return ProductSchedule(group.stages[0], found).device_text()


class ProductSchedule:
    """A product on its way to text. A block makes one tile of the result after another."""

    def __init__(self, stage: Stage, found: Contraction) -> None:
        self.stage, self.found = stage, found
        self.writer = Writer(stage.axes)
        self.dtype = computed_in(stage.out.dtype)
        places = [found.left_address, found.right_address, found.out_address]
        self.outer = joined_axes(found.batch, stage.extents, places)

    def _extent(self, axes: tuple[Sym, ...]) -> Dim:
        return prod(self.stage.extents[axis] for axis in axes)

    def device_text(self) -> DeviceText:
        """The kernel's text, and what it says for a library."""
        product, writer = self._product(), self.writer
        names = ["g"] if len(self.outer) == 1 else [f"g{i}" for i in range(len(self.outer))]
        writer.name_axes(self.outer, names)
        m, n, count = (writer.size(s) for s in (product.m, product.n, prod(product.outer)))
        lines = [
            *self._shared("left"),
            *self._shared("right"),
            "tile = 16 if cuda.blockDim.x >= 256 else 2",
            "down = cuda.threadIdx.x // tile",
            "across = cuda.threadIdx.x % tile",
            f"columns = ({n} + tile - 1) // tile",
            f"rows = ({m} + tile - 1) // tile",
            *over_blocks("block", f"{count} * columns * rows", self._block(product)),
        ]
        whole = prod(product.outer) * product.m * product.n
        text = device_text(writer, lines, whole, self.stage.origins)
        body = self.stage.body
        plain = isinstance(body, Apply) and all(isinstance(arg, Load) for arg in body.args)
        return attrs.evolve(text, product=product if plain else None)

    def _shared(self, name: str) -> list[str]:
        return [f"{name} = cuda.shared.array(256, {self.dtype})"]

    def _block(self, product: Product) -> list[str]:
        """One tile of the result."""
        m, n, k = (self.writer.size(size) for size in (product.m, product.n, product.k))
        sizes = [self.writer.size(size) for size in product.outer]
        stored = store_text(self.stage.out.dtype, "total")
        return [
            "column = block % columns * tile + across",
            "row = block // columns % rows * tile + down",
            "g = block // (columns * rows)",
            *self.writer.decoded(self.outer, sizes, "g"),
            f"total = {number_text(0, self.dtype)}",
            f"for start in range(0, {k}, tile):",
            *indented(self._terms(product)),
            f"if row < {m} and column < {n}:",
            f"    {self._place(product.out, 'row', 'column')} = {stored}",
        ]

    def _terms(self, product: Product) -> list[str]:
        """A tile of both operands, and what it adds to the result."""
        m, n, k = (self.writer.size(size) for size in (product.m, product.n, product.k))
        zero = number_text(0, self.dtype)
        left = self._place(product.left, "row", "(start + across)")
        right = self._place(product.right, "(start + down)", "column")
        return [
            f"a, b = {zero}, {zero}",
            f"if row < {m} and start + across < {k}:",
            f"    a = {self._read(self.found.left, left)}",
            f"if column < {n} and start + down < {k}:",
            f"    b = {self._read(self.found.right, right)}",
            "left[cuda.threadIdx.x] = a",
            "right[cuda.threadIdx.x] = b",
            "cuda.syncthreads()",
            "for u in range(tile):",
            "    term = left[down * tile + u] * right[u * tile + across]",
            f"    total = {accumulation_text('sum', self.dtype, 'total', 'term')}",
            "cuda.syncthreads()",
        ]

    def _product(self) -> Product:
        found = self.found
        m, k = found.m[-1] if found.m else None, found.k[-1]
        return Product(
            self.stage.out.dtype,
            self._extent(found.m),
            self._extent(found.n),
            self._extent(found.k),
            tuple([self._extent(group) for group in self.outer]),
            self._steps(found.left.buffer, found.left_address, m, k),
            self._steps(found.right.buffer, found.right_address, k, found.n[-1]),
            self._steps(self.stage.out, found.out_address, m, found.n[-1]),
        )

    def _steps(self, buffer: Buffer, address: Address, first: Sym | None, second: Sym) -> Steps:
        name = self.writer.pointer(buffer)
        return Steps(
            list(self.writer.pointers.values()).index(name),
            address.rest,
            tuple([address.coefficient(group[-1]) for group in self.outer]),
            0 if first is None else address.coefficient(first),
            address.coefficient(second),
        )

    def _place(self, steps: Steps, first: str, second: str) -> str:
        size = self.writer.size
        terms = [
            f"{self.writer.names[group[-1]]} * {size(step)}"
            for group, step in zip(self.outer, steps.outer, strict=True)
            if step != 0
        ]
        terms += [f"{first} * {size(steps.first)}", f"{second} * {size(steps.second)}"]
        terms += [size(steps.start)] if steps.start != 0 else []
        return f"{list(self.writer.pointers.values())[steps.pointer]}[{' + '.join(terms)}]"

    def _read(self, load: Load, place: str) -> str:
        dtype = computed_in(load.buffer.dtype)
        return application_text("cast", self.dtype, dtype, [load_text(load.buffer.dtype, place)])
