"""Groups as kernels of the program in the very form that the CPU runs: the text of the schedule,
said in the language of kernels."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

import attrs

from structir.backend.loops.as_kernel import ShownKernel
from structir.backend.loops.as_scalar import NotShown
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.by_recipe import kernel_by_recipe
from structir.backend.loops.group import Group
from structir.backend.loops.kernel_words import Words
from structir.backend.loops.packing import origin_of
from structir.backend.loops.schedule import SCHEDULES
from structir.backend.loops.writer import KernelText
from structir.errors import StructIRError
from structir.ir import dims
from structir.ir.binding_dims import bound_dims
from structir.ir.dims import Dim, Sym
from structir.ir.kernel import KERNEL_DTYPES, Kernel
from structir.ir.struct_info import TensorStructInfo
from structir.printer.parser.parser import parse

NAMES = re.compile(r"[A-Za-z_]\w*")
_READ: dict[str, Kernel] = {}  # kernels by their texts: layers of a model have the same ones
MOST_READ = 512


def scheduled_kernel(groups: Sequence[Group], name: str) -> ShownKernel:
    """The kernel of a group as it is scheduled; NotShown where kernels cannot say it."""
    made, group = None, groups[0]
    if group.kind != "routine" and len(groups) == 1:
        made = SCHEDULES[group.kind](group)
    if isinstance(made, KernelText) and made.assembled is not None:
        return kernel_by_recipe(group, name)
    if not isinstance(made, KernelText) or made.function is not None or made.sites:
        stages = [stage for group in groups for stage in group.stages]
        raise NotShown("no loops", {stage.out: "no loops" for stage in stages})
    try:
        return _Told(made, group).shown(name)
    except (NotShown, StructIRError) as error:
        reasons = {stage.out: str(error) for stage in group.stages}
        raise NotShown(str(error), reasons) from error


class _Told:
    """The text of a schedule on its way to the text of a kernel."""

    def __init__(self, text: KernelText, group: Group) -> None:
        self.text = text
        written = dict.fromkeys(s.out.root for s in group.stages if s.out in group.kept)
        outside = [b for b in text.pointers if b not in text.scratch]
        constants = {id(r.buffer.root.data): r.buffer.root for s in group.stages for r in s.loads}
        self.packed: dict[Buffer, Buffer] = {}  # constants by their panels
        for buffer in outside:
            origin = None if buffer.data is None else origin_of(buffer.data)
            if origin is not None:
                self.packed[buffer] = constants[id(origin.data())]
        reads = [self.packed.get(b, b) for b in outside if b not in written]
        self.reads = tuple(dict.fromkeys(reads))
        self.fills = tuple(written)
        self.names = {b: f"x{k}" for k, b in enumerate(self.reads)}
        self.names |= {b: f"out{k}" for k, b in enumerate(self.fills)}
        self.names |= {b: f"row{k}" for k, b in enumerate(text.scratch)}
        self.symbols: dict[Sym, str] = {}
        self.taken = {*NAMES.findall(text.text), *self.names.values()}

    def shown(self, name: str) -> ShownKernel:
        """The kernel, read from its text."""
        numbers = self._numbers()
        told = [f'{self.symbol(s)}_: R.Prim("int64", value="{self.symbol(s)}")' for s in numbers]
        params = [*map(self._param, self.reads), *told, *map(self._param, self.fills)]
        body = self._body()
        source = "\n".join(
            ["@I.kernel", f"def kernel({', '.join(params)}):", *[f"    {line}" for line in body]]
        )
        if source not in _READ:
            if len(_READ) >= MOST_READ:
                _READ.clear()
            _READ[source] = _read(source)
        kernel = attrs.evolve(_READ[source], name=name)
        return ShownKernel(kernel, self.reads, numbers, self.fills)

    def _numbers(self) -> tuple[Sym, ...]:
        """The symbols that no size of a parameter tells."""
        sizes = [*self.text.sizes, self.text.range]
        sizes += [d for b in (*self.reads, *self.fills, *self.text.scratch) for d in b.shape]
        mentioned = dict.fromkeys(
            s for d in sizes for s in sorted(dims.syms(d), key=lambda s: s.order)
        )
        infos = [TensorStructInfo(b.shape, b.dtype) for b in (*self.reads, *self.fills)]
        return tuple([s for s in mentioned if s not in bound_dims(infos)])

    def symbol(self, symbol: Sym) -> str:
        """The name of a symbol, which nothing else in the text has."""
        if symbol not in self.symbols:
            name = re.sub(r"\W", "_", symbol.name)
            while name in self.taken or not name.isidentifier():
                name = f"n_{name}"
            self.taken |= {name, f"{name}_"}
            self.symbols[symbol] = name
        return self.symbols[symbol]

    def _shape(self, shape: Iterable[Dim], quote: str) -> str:
        texts = [dims.text(d, self.symbol) for d in shape]
        quoted = [
            t if isinstance(d, int) else f"{quote}{t}{quote}"
            for t, d in zip(texts, shape, strict=True)
        ]
        return f"({''.join(f'{t}, ' for t in quoted)})" if quoted else "()"

    def _param(self, buffer: Buffer) -> str:
        if buffer.dtype not in KERNEL_DTYPES:
            raise NotShown(buffer.dtype)
        shape = self._shape(buffer.shape, '"')
        return f'{self.names[buffer]}: R.Tensor({shape}, "{buffer.dtype}")'

    def _body(self) -> list[str]:
        lines = [
            f'{self.names[b]} = T.empty({self._shape(b.shape, "")}, "{b.dtype}")'
            for b in self.text.scratch
            if b.dtype in KERNEL_DTYPES
        ]
        lines.append(f"lo, hi = T.part({dims.text(self.text.range, self.symbol)})")
        function: ast.FunctionDef = ast.parse(self.text.text).body[0]  # type: ignore[assignment]
        pointers = {f"p{k}": b for k, b in enumerate(self.text.pointers)}
        words = Words(
            {name: self.names[self.packed.get(b, b)] for name, b in pointers.items()},
            {name: b.dtype for name, b in pointers.items()},
            {name: origin_of(b.data).form for name, b in pointers.items() if b in self.packed},  # type: ignore[union-attr]
        )
        told = words.block(function.body[self._head(function.body) :])
        said = {node.id for s in told for node in ast.walk(s) if isinstance(node, ast.Name)}
        for k, dim in enumerate(self.text.sizes):
            if f"n{k}" in said:
                lines.append(f"n{k} = {dims.python_text(dim, self.symbol)}")
        lines = [line for line in lines if "T.empty" not in line or line.split(" ")[0] in said]
        return [*lines, *"\n".join([ast.unparse(s) for s in told]).splitlines()]

    def _head(self, statements: Sequence[ast.stmt]) -> int:
        """How many lines take addresses and sizes from the table."""
        count = len(self.text.pointers) + len(self.text.sizes)
        return count + isinstance(statements[0], ast.Expr)


def _read(source: str) -> Kernel:
    found = parse(source).functions["kernel"]
    if not isinstance(found, Kernel):
        raise NotShown("no kernel")
    return found
