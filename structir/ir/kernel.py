"""Kernel nodes: loops over array elements in destination-passing style."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import attrs

from structir.errors import Span
from structir.ir.dims import Dim
from structir.ir.expr import Var
from structir.ir.kernel_functions import BINARY, CONVERSIONS, LIBRARY, NARROW
from structir.ir.node import NOT_COMPILED, Node, node, parts
from structir.ir.struct_info import KernelStructInfo, TupleStructInfo
from structir.system.locks import cached_property

COMPUTED_IN = dict.fromkeys(NARROW, "float32")  # other dtypes: unchanged
KERNEL_DTYPES = CONVERSIONS | {*NARROW}
VECTOR = "vectorized"  # the kind of loops in vectors,
SYNCHRONIZED = "synchronized"  # and of loops whose iterations all parts begin together
SHARED, REGISTERS = "shared", "registers"  # memory spaces of local arrays, besides main memory
WARP = 32  # threads of a warp


class Scalar(Node):
    """A scalar expression of a kernel, with a dtype."""

    __slots__ = ()
    dtype: Any
    span: Span | None


@node
class Local(Scalar):
    """A local scalar variable: the target of assignments or of a loop."""

    name: str
    dtype: str
    span: Span | None = None


@node
class LoopVariable(Local):
    """The variable of a loop. It is never assigned to, so proofs may treat it as an index."""


@node
class Literal(Scalar):
    """A literal, in the dtype of the other operand."""

    value: int | float | bool
    dtype: str
    span: Span | None = None


@node
class Size(Scalar):
    """A symbolic dim as a scalar."""

    dim: Dim
    dtype: str = "int64"
    span: Span | None = None


@node
class Argument(Scalar):
    """A scalar parameter; a 16-bit float is computed in float32."""

    var: Var
    dtype: str
    span: Span | None = None


@node
class Extent(Scalar):
    """`x.shape[axis]`, the size of an axis."""

    array: Var
    axis: int
    dtype: str = "int64"
    span: Span | None = None


@node
class Element(Scalar):
    """`x[i, j]`, or with `flat` `x.flat[i]`, an index into all elements in row-major order.

    16-bit floats are computed in float32.
    """

    array: Var
    indices: tuple[Scalar, ...]
    dtype: str
    span: Span | None = None
    flat: bool = False


@node
class Apply(Scalar):
    """A call of a scalar function: an operator, `min`, a conversion ("cast"), a "select", ..."""

    fn: str
    args: tuple[Scalar, ...]
    dtype: str
    span: Span | None = None


class KernelStatement(Node):
    """The base class of the statements of a kernel."""

    __slots__ = ()
    span: Span | None


@node
class Assign(KernelStatement):
    """`target = value`, or `target += value` with the symbol of an operator.

    A `non_temporal` store of an element bypasses the caches where it fills whole cache lines.
    """

    target: Local | Element
    value: Scalar
    symbol: str = ""
    span: Span | None = None
    non_temporal: bool = False


@node
class Scratch(KernelStatement):
    """A local array: `T.zeros(shape, dtype)`, or uninitialized `T.empty`.

    With a `space`, an uninitialized array of constant size elsewhere than in main memory:
    `T.shared` by the threads of a block, or `T.registers`.
    """

    array: Var
    span: Span | None = None
    zeros: bool = True
    space: str = ""


@node
class Part(KernelStatement):
    """`low, high = T.part(extent)`: the kernel computes one subrange of `range(extent)`.

    It runs once for each subrange, possibly in parallel. Subranges must write disjoint elements.
    """

    low: Local
    high: Local
    extent: Dim
    span: Span | None = None


@node
class LibraryCall(KernelStatement):
    """`T.tiled_product(x.flat[i], ...)`: a library call on memory that begins at these elements."""

    fn: str
    args: tuple[Scalar, ...]  # elements, then integers
    span: Span | None = None

    @property
    def written(self) -> Element:
        """The first element that the call writes."""
        element = self.args[LIBRARY[self.fn].written]
        assert isinstance(element, Element)
        return element

    @property
    def accumulates(self) -> bool:
        """Whether the call adds to the elements that it writes."""
        return LIBRARY[self.fn].accumulates


@node
class Prefetch(KernelStatement):
    """`T.prefetch(x[i])`: a hint to load the cache line of an element, which need not exist.

    The indices are evaluated; the element is not read.
    """

    array: Var
    indices: tuple[Scalar, ...]
    flat: bool = False
    span: Span | None = None


@node
class For(KernelStatement):
    """`for variable in range(start, stop, step)`; of the kind VECTOR, `T.vectorized(...)`, and of
    the kind SYNCHRONIZED, `T.synchronized(...)`.

    The iterations of a vector loop may run in any order and in lanes of vectors. An iteration of a
    synchronized loop begins in a part once all parts have completed the iteration before it.
    """

    variable: Local
    start: Scalar
    stop: Scalar
    step: int
    body: tuple[KernelStatement, ...]
    span: Span | None = None
    kind: str = ""


@node
class While(KernelStatement):
    """`while test`: a loop."""

    test: Scalar
    body: tuple[KernelStatement, ...]
    span: Span | None = None


@node
class Branch(KernelStatement):
    """`if test`, with an optional `else`."""

    test: Scalar
    then: tuple[KernelStatement, ...]
    otherwise: tuple[KernelStatement, ...] = ()
    span: Span | None = None


@node
class Break(KernelStatement):
    """`break`: leaves the innermost loop."""

    span: Span | None = None


@node
class Continue(KernelStatement):
    """`continue`: begins the next iteration of the innermost loop."""

    span: Span | None = None


@node
class Sync(KernelStatement):
    """`T.sync_threads()`: a barrier for the threads of a block."""

    span: Span | None = None


@attrs.frozen(slots=False, eq=False, repr=False)
class Kernel(Node):
    """A kernel: parameters and statements.

    The first written parameter and all after it are the results. They are zero at the start,
    unless the kernel has a `Part`. A GPU kernel runs `blocks` blocks of `threads` threads; each
    thread executes the statements.
    """

    params: tuple[Var, ...]
    body: tuple[KernelStatement, ...]
    name: str = "kernel"
    span: Span | None = None
    blocks: Size | None = None
    threads: int = 0

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The statements and expressions of the kernel, parents first."""
        return tuple(_nodes_below(self))

    @cached_property
    def result_count(self) -> int:
        """The number of results: the first written parameter and all after it."""
        written = {target.array for target in written_elements(self)}
        indices = [index for index, param in enumerate(self.params) if param in written]
        return len(self.params) - indices[0] if indices else 0

    @property
    def part(self) -> Part | None:
        """The `Part` statement, the first one after local arrays; None if the kernel has none."""
        first = next((s for s in self.body if not isinstance(s, Scratch)), None)
        return first if isinstance(first, Part) else None

    @property
    def synchronized(self) -> For | None:
        """The loop whose iterations all parts begin together: the last statement; None if the
        kernel has no such loop."""
        last = self.body[-1] if self.body else None
        is_loop = isinstance(last, For) and last.kind == SYNCHRONIZED and self.part is not None
        return last if is_loop else None  # type: ignore[return-value]

    @property
    def operands(self) -> tuple[Var, ...]:
        """The parameters that the kernel only reads."""
        return self.params[: len(self.params) - self.result_count]

    @property
    def results(self) -> tuple[Var, ...]:
        """The parameters that the kernel writes."""
        return self.params[len(self.params) - self.result_count :]

    @cached_property
    def struct_info(self) -> KernelStructInfo:
        """The StructInfo of the kernel: its parameters and the number of results."""
        infos = tuple([p.struct_info for p in self.params])
        return KernelStructInfo(infos, TupleStructInfo(()), True, None, self.result_count)

    def __call__(self, *_args: Any, **_names: Any) -> NoReturn:
        raise TypeError(NOT_COMPILED)

    def script(self) -> str:
        """Returns the source of the kernel; `structir.parse` parses it."""
        return str(self)


_CODE = (KernelStatement, Scalar)
_LEAVES = frozenset({Literal, Local, LoopVariable, Size, Argument, Extent})  # without expressions


class _CodeClasses(dict[type, bool]):
    """Whether a class is one of statements or expressions; a lookup is cheaper than isinstance."""

    def __missing__(self, cls: type) -> bool:
        self[cls] = result = issubclass(cls, _CODE)
        return result


_is_code = _CodeClasses()


def nodes_of(kernel: Kernel | Node) -> Iterator[Node]:
    """Yields the statements and expressions of a node, parents first."""
    return iter(kernel.nodes) if isinstance(kernel, Kernel) else _nodes_below(kernel)


def _nodes_below(root: Node) -> Iterator[Node]:
    if _is_code[type(root)]:
        yield root
    todo = [p for p in parts(root) if _is_code[type(p)]][::-1]
    while todo:
        current = todo.pop()
        yield current
        if type(current) not in _LEAVES:
            todo += [p for p in parts(current) if _is_code[type(p)]][::-1]


def written_elements(kernel: Kernel) -> Iterator[Element]:
    """Yields the elements that a kernel writes, in statement order."""
    todo: list[Any] = list(kernel.body[::-1])
    while todo:
        statement = todo.pop()
        if isinstance(statement, LibraryCall):
            yield statement.written
        elif isinstance(statement, Assign) and isinstance(statement.target, Element):
            yield statement.target
        elif not isinstance(statement, Assign):
            todo += [p for p in parts(statement) if isinstance(p, KernelStatement)][::-1]


def assigned_value(assign: Assign) -> Scalar:
    """Returns the value of an assignment; an augmented one is expanded."""
    if not assign.symbol:
        return assign.value
    row = BINARY[assign.symbol]
    return Apply(row.name, (assign.target, assign.value), assign.target.dtype, assign.span)


def accumulated(statement: KernelStatement) -> str | None:
    """Returns the function by which an assignment combines a number with a value; None for other
    statements."""
    if not isinstance(statement, Assign) or not isinstance(statement.target, Local):
        return None
    value = statement.value
    if not isinstance(value, Apply) or not value.args or value.args[0] is not statement.target:
        return None
    return value.fn


def computed_in(dtype: str) -> str:
    """Returns the dtype in which elements of a dtype are computed."""
    return COMPUTED_IN.get(dtype, dtype)
