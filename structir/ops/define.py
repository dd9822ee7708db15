"""`@op`: what an op declares of itself, and what is derived from it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import attrs

from structir.errors import Span
from structir.ir.expr import NO_ATTRS, Call, Constant, DataflowVar, Expr, Var
from structir.ir.op import Op, register_op
from structir.ir.struct_info import StructInfo
from structir.lazy import lazy_module
from structir.ops import infer
from structir.ops.examples import made
from structir.ops.infer import Given, Written
from structir.ops.notation import Line
from structir.ops.signature import (
    REQUIRED,
    Signature,
    bound_values,
    call_parts,
    signature_of,
)
from structir.ops.sizes import Assumption, Resolved

clauses = lazy_module("structir.ops.clauses")
reference = lazy_module("structir.ops.reference")

LineFunction = Callable[[Given], "Written | str"]
PLAIN = frozenset({Var, DataflowVar, Call, Constant})
Hook = TypeVar("Hook", bound=Callable[..., Any])


@attrs.define(eq=False, slots=False)
class OpDefinition:
    """All that is known of an op: what its author wrote, and the derivations.

    `line` is the op line, or a function from the ranks and attributes of a call to it. `body` says
    what happens at one point, or gives a tree of calls where `parts` is set. Hooks replace derived
    things.
    """

    name: str
    line: str | LineFunction
    body: Callable[..., Any]
    reduce: str | None = None
    where: str = ""
    on: str = ""
    at: Mapping[str, str] = attrs.Factory(dict)
    fill: str | float | None = None
    base: str | None = None
    parts: bool = False
    reads_sizes: bool = False  # the line function looks at sizes, not only at ranks
    reads_values: bool = False  # it looks into constants
    operator: str | None = None
    pure: bool = True
    hooks: dict[str, Any] = attrs.Factory(dict)
    samples: list[tuple[tuple[Any, ...], dict[str, Any]]] = attrs.Factory(list)
    op: Op = attrs.field(init=False)
    memo: dict[Any, Any] = attrs.Factory(dict)
    lines: dict[Any, Any] = attrs.Factory(dict)

    def __attrs_post_init__(self) -> None:
        self.op = register_op(self)

    @cached_property
    def signature(self) -> Signature:
        """The parameters, in the order in which they are written."""
        return signature_of(self.name, self.body)

    @property
    def doc(self) -> str:
        """What the op does, in its author's words."""
        return inspect.getdoc(self.body) or ""

    @property
    def examples(self) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Arguments that the op runs with, tensors as NumPy arrays."""
        return [
            (tuple([made(arg) for arg in args]), {n: made(arg) for n, arg in keywords.items()})
            for args, keywords in self.samples
        ]

    @cached_property
    def argument_names(self) -> tuple[str, ...]:
        """The names of a call's arguments, in order."""
        return tuple([p.name for p in self.signature.arguments])

    @cached_property
    def of_sizes(self) -> tuple[bool, ...]:
        """For each argument of a call, whether it is made of sizes, not an operand."""
        return tuple([p.kind is not None for p in self.signature.arguments])

    @cached_property
    def leading(self) -> int:
        """How many parameters stand before the first static attribute."""
        found = [k for k, p in enumerate(self.signature.parameters) if not p.is_argument]
        return found[0] if found else len(self.signature.parameters)

    def __call__(self, *args: Any, **keywords: Any) -> Call:
        """A call of the op."""
        return self.bind(args, keywords, None)

    def bind(self, args: tuple[Any, ...], keywords: Mapping[str, Any], span: Span | None) -> Call:
        """A call from arguments written in the order and under the names of the signature."""
        if not keywords and self.takes_as_it_is(args):
            info = infer.struct_info(self, args, NO_ATTRS, span)
            return Call(self.op, args, NO_ATTRS, (), info, span)
        values = bound_values(self.signature, args, keywords, span)
        parts, attributes = call_parts(self.signature, values, span)
        info = infer.struct_info(self, parts, attributes, span)
        return Call(self.op, parts, attributes or NO_ATTRS, (), info, span)

    def takes_as_it_is(self, args: tuple[Any, ...]) -> bool:
        """Whether the arguments are tensors in their places and all else is left out."""
        fewest, most = self.plain
        return fewest <= len(args) <= most and all([type(a) in PLAIN for a in args])

    @cached_property
    def plain(self) -> tuple[int, int]:
        """How few and how many arguments can be operands alone."""
        parameters = self.signature.parameters
        most = 0
        while most < len(parameters) and parameters[most].kind is None:
            if parameters[most].is_list:
                break
            most += 1
        fewest = max([k + 1 for k, p in enumerate(parameters) if p.default is REQUIRED], default=0)
        return fewest, most

    def deduce(self, call: Call) -> StructInfo:
        """The StructInfo of a call's result; raises StructInfoError where the call is wrong."""
        return infer.struct_info(self, call.args, call.attrs, call.span)

    def resolve(self, call: Call) -> Resolved:
        """The line at a call: entries without rows, extents, assumptions."""
        return infer.resolved_call(self, call.args, call.attrs, call.span)

    def assumptions(self, call: Call) -> tuple[Assumption, ...]:
        """The pairs of sizes that must turn out equal when the call runs."""
        if "struct_info" in self.hooks:
            return ()
        return self.resolve(call).assumptions

    def index_spec(self, call: Call) -> Any:
        """The call as loops; None where the op has none."""
        return clauses.index_spec(self, call)

    def decompose(self, call: Call) -> Expr | None:
        """The call as a tree of calls of simpler ops; None for an op that is no composite."""
        own = self.hooks.get("decompose")
        body = own if own is not None else self.body if self.parts else None
        return None if body is None else infer.decomposed(self, body, call)

    def reference(self, call: Call, values: tuple[Any, ...]) -> Any:
        """The result in NumPy, from the values of the arguments."""
        return reference.evaluate(self, call, values)

    def line_of(self, call: Call) -> Line:
        """The op line at a call, list operands written out."""
        return self.resolve(call).line


@attrs.frozen(eq=False)
class Declaration:
    """An op as its author sees it: called to make calls, and the place to hang hooks."""

    definition: OpDefinition

    def __call__(self, *args: Any, **keywords: Any) -> Call:
        return self.definition.bind(args, keywords, None)

    def _hook(self, what: str, hook: Hook) -> Hook:
        self.definition.hooks[what] = hook
        return hook

    def reference(self, hook: Hook) -> Hook:
        """The result in NumPy: a function of the operands' arrays and the attributes."""
        return self._hook("reference", hook)

    def gradient(self, hook: Hook) -> Hook:
        """The adjoint: a function of the call and the gradients of its results."""
        return self._hook("gradient", hook)

    def struct_info(self, hook: Hook) -> Hook:
        """The StructInfo of a call, in place of what the line says: a function of `Given`."""
        return self._hook("struct_info", hook)

    def region(self, hook: Hook) -> Hook:
        """Which part of each operand a part of the result needs."""
        return self._hook("region", hook)

    def decompose(self, hook: Hook) -> Hook:
        """The tree of calls, in place of the body."""
        return self._hook("decompose", hook)

    def kernel(self, target: str) -> Callable[[Hook], Hook]:
        """A routine of a backend for the whole op."""
        return lambda hook: self._hook(f"kernel.{target}", hook)

    def example(self, *args: Any, **keywords: Any) -> None:
        """Arguments that the op runs with, for tests and documentation."""
        self.definition.samples.append((args, keywords))


def op(
    line: str | LineFunction, *, name: str | None = None, **stated: Any
) -> Callable[[Callable[..., Any]], Declaration]:
    """Declare an op by its line; the function below it is its body and its signature.

        @op("x[*p, [i], *t] @ F -> y[*p, i, *t] @ F", at={"i": "axis"}, parts=True)
        def softmax(x: Expr, axis: Axis = -1) -> Expr: ...

    A name is the body's own unless it is given; see `OpDefinition` for what else may be stated.
    """

    def declare(body: Callable[..., Any]) -> Declaration:
        own = name or body.__name__.rstrip("_")
        return Declaration(OpDefinition(own, line, body, **stated))

    return declare
