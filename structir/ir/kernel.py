"""Kernels: loops over the elements of arrays, in destination-passing style, beside the functions of
a module."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import attrs

from structir.errors import Span
from structir.ir.dims import Dim
from structir.ir.expr import Var
from structir.ir.kernel_functions import LIBRARY
from structir.ir.node import Node, node, parts
from structir.ir.struct_info import KernelStructInfo, TupleStructInfo

COMPUTED_IN = {"float16": "float32", "bfloat16": "float32"}  # the others in their own dtype
KERNEL_DTYPES = frozenset(
    {"float64", "float32", "float16", "bfloat16", "bool"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
WARP = 32  # threads that hand each other values


class Scalar(Node):
    """An expression of a kernel: a number of one dtype."""

    __slots__ = ()
    dtype: Any
    span: Span | None


@node
class Local(Scalar):
    """A name that a kernel gives to numbers: the target of assignments, or of a loop."""

    name: str
    dtype: str
    span: Span | None = None


@node
class Literal(Scalar):
    """A number as it is written, in the dtype of what it meets."""

    value: int | float | bool
    dtype: str
    span: Span | None = None


@node
class Size(Scalar):
    """A symbolic dim as a number."""

    dim: Dim
    dtype: str = "int64"
    span: Span | None = None


@node
class Argument(Scalar):
    """A parameter that is a number."""

    var: Var
    dtype: str
    span: Span | None = None


@node
class Extent(Scalar):
    """`x.shape[axis]`."""

    array: Var
    axis: int
    dtype: str = "int64"
    span: Span | None = None


@node
class Element(Scalar):
    """`x[i, j]`, or with `flat` `x.flat[i]`: one of all elements, the last axis running fastest.
    Elements of 16 bits are computed with as float32."""

    array: Var
    indices: tuple[Scalar, ...]
    dtype: str
    span: Span | None = None
    flat: bool = False


@node
class Apply(Scalar):
    """A scalar function: operators, comparisons, `min`, conversions ("cast"), choices
    ("select")."""

    fn: str
    args: tuple[Scalar, ...]
    dtype: str
    span: Span | None = None


class KernelStatement(Node):
    """One step of a kernel."""

    __slots__ = ()
    span: Span | None


@node
class Assign(KernelStatement):
    """`target = value`; with the symbol of an operator, `target += value`."""

    target: Local | Element
    value: Scalar
    symbol: str = ""
    span: Span | None = None


@node
class Scratch(KernelStatement):
    """`array = T.zeros(shape, dtype)`: an array of the kernel's own, all zeros from here on; with
    `T.empty`, it holds what happens to be there, and with `T.shared`, the threads of a block share
    it."""

    array: Var
    span: Span | None = None
    zeros: bool = True
    shared: bool = False


@node
class Part(KernelStatement):
    """`low, high = T.part(extent)`: what follows does its work for a part of 0 to the extent, and
    runs for several parts, at once perhaps, until all is done. They must not meet."""

    low: Local
    high: Local
    extent: Dim
    span: Span | None = None


@node
class LibraryCall(KernelStatement):
    """`T.tiled_product(x.flat[i], ...)`: a function of the library, on memory from elements on."""

    fn: str
    args: tuple[Scalar, ...]  # elements, then integers
    span: Span | None = None

    @property
    def written(self) -> Element:
        """From where on it writes."""
        found = self.args[LIBRARY[self.fn].written]
        assert isinstance(found, Element)
        return found


@node
class For(KernelStatement):
    """`for variable in range(start, stop, step)`."""

    variable: Local
    start: Scalar
    stop: Scalar
    step: int
    body: tuple[KernelStatement, ...]
    span: Span | None = None


@node
class While(KernelStatement):
    """`while test`."""

    test: Scalar
    body: tuple[KernelStatement, ...]
    span: Span | None = None


@node
class Branch(KernelStatement):
    """`if test`, and perhaps `else`."""

    test: Scalar
    then: tuple[KernelStatement, ...]
    otherwise: tuple[KernelStatement, ...] = ()
    span: Span | None = None


@node
class Break(KernelStatement):
    """`break`."""

    span: Span | None = None


@node
class Continue(KernelStatement):
    """`continue`."""

    span: Span | None = None


@node
class Sync(KernelStatement):
    """`T.sync_threads()`: a thread waits here for all others of its block."""

    span: Span | None = None


@attrs.frozen(slots=False, eq=False, repr=False)
class Kernel(Node):
    """Parameters and statements. The parameters from the first one that is written to are its
    results: they come last, and hold zeros when it starts, unless it runs in parts.

    With `blocks` and `threads`, every one of so many threads in each of so many blocks takes the
    statements."""

    params: tuple[Var, ...]
    body: tuple[KernelStatement, ...]
    name: str = "kernel"
    span: Span | None = None
    blocks: Size | None = None
    threads: int = 0

    @cached_property
    def result_count(self) -> int:
        """How many parameters, from the first one that is written to, are results."""
        written = {target.array for target in written_elements(self)}
        places = [place for place, param in enumerate(self.params) if param in written]
        return len(self.params) - places[0] if places else 0

    @property
    def part(self) -> Part | None:
        """The statement by which it runs in parts, if it does: its first one, arrays aside."""
        first = next((s for s in self.body if not isinstance(s, Scratch)), None)
        return first if isinstance(first, Part) else None

    @property
    def operands(self) -> tuple[Var, ...]:
        """The parameters that are only read."""
        return self.params[: len(self.params) - self.result_count]

    @property
    def results(self) -> tuple[Var, ...]:
        """The parameters that are filled."""
        return self.params[len(self.params) - self.result_count :]

    @cached_property
    def struct_info(self) -> KernelStructInfo:
        """What a call must know: all parameters, and how many of them are results."""
        infos = tuple([p.struct_info for p in self.params])
        return KernelStructInfo(infos, TupleStructInfo(()), True, None, self.result_count)

    def script(self) -> str:
        """The text of the kernel, which `structir.parse` reads back."""
        return str(self)


def nodes_of(kernel: Kernel | Node) -> Iterator[Node]:
    """Every statement and expression below a node, parents first."""
    todo: list[Node] = [kernel]
    while todo:
        found = todo.pop()
        if isinstance(found, KernelStatement | Scalar):
            yield found
        todo += [p for p in parts(found) if isinstance(p, KernelStatement | Scalar)][::-1]


def written_elements(kernel: Kernel) -> Iterator[Element]:
    """The elements that statements of a kernel assign to, in order."""
    todo: list[Any] = list(kernel.body[::-1])
    while todo:
        found = todo.pop()
        if isinstance(found, LibraryCall):
            yield found.written
        elif isinstance(found, Assign) and isinstance(found.target, Element):
            yield found.target
        elif not isinstance(found, Assign):
            todo += [p for p in parts(found) if isinstance(p, KernelStatement)][::-1]


def computed_in(dtype: str) -> str:
    """The dtype in which elements of a dtype are computed with."""
    return COMPUTED_IN.get(dtype, dtype)
