"""A node of an exported program as its mapping sees it: arguments by name, and what torch knows of
its results."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any, NoReturn, Protocol

import attrs

from structir.errors import Diagnostic, DiagnosticError, Span
from structir.frontend.builder import NodeBuilder
from structir.frontend.torch.graph import FxGraph, Meta, NodeSpec, Ref, names_of
from structir.frontend.torch.scalars import as_tensor, cast, tensor_info
from structir.frontend.torch.sizes import Ratio, TorchSymbols
from structir.ir import dims
from structir.ir.dims import Dim, Poly
from structir.ir.dtype import is_float
from structir.ir.expr import Constant, Expr, Var

REQUIRED: Any = object()


@attrs.frozen(eq=False)
class FxScope:
    """What names mean inside of one graph."""

    graph: FxGraph
    values: MutableMapping[str, Any]
    where: str
    results: frozenset[str] = frozenset()  # values that are seen after the block


class TorchImportContext(Protocol):
    """What a mapping may ask of the import that it is part of."""

    builder: NodeBuilder
    symbols: TorchSymbols

    def inner(self, graph: FxGraph, operands: Sequence[Any], where: str) -> list[Any]:
        """The results of a graph within another one, built into the open scope."""
        ...

    def is_size(self, stated: Any) -> bool:
        """Whether a symbolic number is a variable that is never below 0."""
        ...

    def read(self, scope: FxScope, name: str) -> Any:
        """What a name stands for now."""
        ...

    def worked_out(self, value: Expr) -> Expr:
        """A value that only constants make, as a constant; any other as it is."""
        ...


class FxNode:
    """One node of a graph."""

    def __init__(
        self, spec: NodeSpec, host: TorchImportContext, scope: FxScope, place: Span
    ) -> None:
        self.spec, self.host, self.scope, self.place = spec, host, scope, place

    # ---- arguments

    def arg(self, name: str, default: Any = REQUIRED) -> Any:
        """An argument: tensors are expressions, symbolic numbers sizes or `Ratio`s."""
        if name not in self.spec.args:
            if default is REQUIRED:
                self.fail(f"argument {name!r} is missing")
            return default
        return self._value(self.spec.args[name])

    def _value(self, stated: Any) -> Any:
        if isinstance(stated, Ref):
            return self.host.read(self.scope, stated.name)
        if isinstance(stated, tuple):
            return tuple([self._value(item) for item in stated])
        return stated

    def __getitem__(self, name: str) -> Expr:
        """A tensor."""
        found = self.get(name)
        if found is None:
            self.fail(f"argument {name!r} is missing")
        return found

    def get(self, name: str) -> Expr | None:
        """A tensor, or None where it is not given."""
        found = self.arg(name, None)
        if found is not None and not isinstance(found, Expr):
            self.fail(f"argument {name!r} must be a tensor")
        return found

    def operand(self, name: str, dtype: str) -> Expr:
        """A tensor or a number as a tensor in a dtype."""
        return as_tensor(self.arg(name), dtype)

    def positional(self) -> list[Any]:
        """The values of all arguments in order."""
        return [self._value(v) for v in self.spec.args.values()]

    def size(self, name: str, default: Any = REQUIRED) -> Dim:
        """An argument that is a whole number, which may be symbolic."""
        return self.whole(self.arg(name, default))

    def whole(self, value: Any) -> Dim:
        """A whole number, which may be symbolic."""
        if isinstance(value, Ratio):
            value = value.whole()
        if isinstance(value, int | Poly):
            return int(value) if isinstance(value, bool) else value
        if not isinstance(value, float) or not value.is_integer():
            self.fail(f"a whole number is expected here, not {value!r}")
        return int(value)

    def sizes(self, name: str, default: Any = REQUIRED) -> tuple[Dim, ...]:
        """An argument that is a list of whole numbers, which may be symbolic."""
        found = self.arg(name, default)
        listed = found if isinstance(found, tuple | list) else (found,)
        return tuple([self.whole(v) for v in listed])

    def ints(self, name: str, default: Any = REQUIRED) -> tuple[int, ...]:
        """An argument that is a list of plain numbers."""
        found = self.sizes(name, default)
        if any(isinstance(d, Poly) for d in found):
            self.fail(f"argument {name!r} must be plain numbers")
        return found  # type: ignore[return-value]

    def plain(self, name: str, default: Any = REQUIRED) -> int:
        """An argument that is a plain number."""
        return self.ints(name, default)[0]

    def flag(self, name: str, default: bool = False) -> bool:
        """An argument that is True or False."""
        return bool(self.arg(name, default))

    # ---- what is known of operands

    def dims(self, name: str = "self") -> tuple[Dim, ...]:
        """The sizes of an operand."""
        return self.dims_of(self[name])

    def dims_of(self, x: Expr) -> tuple[Dim, ...]:
        """The sizes of a tensor."""
        found = tensor_info(x).dims
        if not isinstance(found, tuple):
            self.fail("the rank of an operand is not known")
        return found

    def static_dims(self, name: str = "self") -> tuple[int, ...]:
        """The sizes of an operand, which must all be numbers."""
        found = self.dims(name)
        if any(isinstance(d, Poly) for d in found):
            self.fail(f"the sizes of {name!r} must be numbers")
        return found  # type: ignore[return-value]

    def rank(self, name: str = "self") -> int:
        """How many axes an operand has."""
        return len(self.dims(name))

    def dtype(self, name: str = "self") -> str:
        """The dtype of an operand."""
        return self.dtype_of(self[name])

    def dtype_of(self, x: Expr) -> str:
        """The dtype of a tensor."""
        found = tensor_info(x).dtype
        if found is None:
            self.fail("the dtype of an operand is not known")
        return found

    def axis(self, name: str = "dim", default: Any = REQUIRED, of: str = "self") -> int:
        """An argument that names an axis of an operand, counted from the front."""
        return self.counted(self.plain(name, default), self.rank(of))

    def counted(self, axis: int, rank: int) -> int:
        """An axis counted from the front; a tensor without axes counts as having one."""
        most = max(rank, 1)
        if not -most <= axis < most:
            self.fail(f"there is no axis {axis} among {rank}")
        return int(axis) % most

    def axes(self, name: str = "dim", of: str = "self") -> list[int] | None:
        """An argument that names axes, counted from the front; None where it names none."""
        found = self.arg(name, None)
        if found is None or found == ():
            return None
        return sorted({self.counted(a, self.rank(of)) for a in self.ints(name)})

    # ---- what torch knows of the results

    def meta(self, place: int = 0) -> Meta:
        """What torch knows of a result."""
        names = names_of(self.spec.outputs)
        found = self.scope.graph.tensors.get(names[place]) if place < len(names) else None
        if found is None:
            self.fail(f"nothing is told of result {place}")
        return found

    def out_dtype(self, place: int = 0) -> str:
        """The dtype of a result."""
        dtype = self.meta(place).dtype
        if dtype is None:
            self.fail("complex numbers are not supported")
        return dtype

    def out_dims(self, place: int = 0) -> tuple[Dim, ...]:
        """The sizes of a result."""
        return tuple([self.host.symbols.dim(s) for s in self.meta(place).sizes])

    # ---- results

    def emit(self, value: Expr, name: str | None = None) -> Var:
        """Bind a value that is used more than once."""
        if isinstance(value, Var):
            return value
        return self.host.builder.emit(value, name or self.part_name())

    def part_name(self) -> str:
        """A name for something inside of the node."""
        return f"{self.spec.name}_part"

    def folded(self, value: Expr) -> Expr:
        """A value worked out now, where nothing in it is symbolic; else bound."""
        found = self.host.worked_out(value)
        return found if isinstance(found, Constant) else self.emit(found)

    def float_operand(self, name: str = "self") -> Expr:
        """A tensor in the dtype of the result, or in float32 where that is no float."""
        dtype = self.out_dtype()
        return cast(self[name], dtype if is_float(dtype) else "float32")

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Say what is wrong with this node."""
        raise DiagnosticError(Diagnostic(message, self.place, self.spec.target, hint=hint))

    def refuse(self, name: str, kept: Any) -> None:
        """Fail unless an argument is absent or as stated."""
        found = self.arg(name, kept)
        if found is not None and found != kept:
            self.fail(f"{name}={found!r} is not supported")


def same(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether sizes are provably equal."""
    return len(a) == len(b) and all(dims.equal(x, y) for x, y in zip(a, b, strict=True))
