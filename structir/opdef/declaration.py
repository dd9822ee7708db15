"""Declared ops: index signature, body, parameters and hooks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from structir.ir.expr import Call, Constant, DataflowVar, Var
from structir.ir.op import Op
from structir.opdef.attributes import SIZE
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.examples import build_argument, sample_operands
from structir.opdef.notation import NotationError, parse_index_signature
from structir.opdef.parameters import REQUIRED, OpSignature, signature_of
from structir.system.locks import cached_property

SignatureFunction = Callable[[CallView], "ResolvedSignature | str"]
PACKAGE = __name__.partition(".")[0]
OPERAND_TYPES = frozenset({Var, DataflowVar, Call, Constant})


def is_built_in(body: Any) -> bool:
    """Returns whether the body of an op is defined in this package; True without a body."""
    return str(getattr(body, "__module__", PACKAGE)).partition(".")[0] == PACKAGE


@attrs.define(eq=False, slots=False)
class DeclaredOp:
    """The declaration of an op, and the memos of its calls.

    `index_signature` is a string, or a function that computes one from ranks and attributes.
    `body` returns the scalar expression at an iteration point; with `parts` it returns a
    decomposition. Hooks override derived behaviour.
    """

    name: str
    index_signature: str | SignatureFunction
    body: Callable[..., Any]
    reduce: str | None = None
    where: str = ""
    on: str = ""
    at: Mapping[str, str] = attrs.Factory(dict)
    fill: str | float | None = None
    base: str | None = None
    parts: bool = False
    reads_sizes: bool = False  # the signature function reads dims, not only ranks
    reads_values: bool = False  # the signature function reads the elements of constants
    reads_indices: bool = False  # the signature function bounds sizes by constant indices
    operator: str | None = None
    pure: bool = True
    out_of_bounds: Mapping[str, str] = attrs.Factory(dict)  # by operand: wrap, clamp, ...
    cost: float | Mapping[str, float] | None = None  # operations per point, or rates by index
    hooks: dict[str, Any] = attrs.Factory(dict)
    samples: list[tuple[tuple[Any, ...], dict[str, Any]]] = attrs.Factory(list)
    op: Op = attrs.field(init=False)
    memo: dict[Any, Any] = attrs.Factory(dict)
    resolutions: dict[Any, Any] = attrs.Factory(dict)
    prepared_calls: dict[Any, Any] = attrs.Factory(dict)

    @cached_property
    def signature(self) -> OpSignature:
        """Returns the parameters in order, with the declared dtypes of operands."""
        signature = signature_of(self.name, self.body)
        if callable(self.index_signature):
            return signature
        names = frozenset([p.name for p in signature.attributes])
        try:
            parsed = parse_index_signature(self.index_signature, attributes=names)
        except NotationError:  # reported where the declaration is checked
            return signature
        return attrs.evolve(signature, dtypes={a.name: a.dtypes for a in parsed.operands})

    @property
    def doc(self) -> str:
        """Returns the docstring of the body."""
        return inspect.getdoc(self.body) or ""

    @property
    def examples(self) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Returns example arguments, with tensors as NumPy arrays."""
        return [
            (
                tuple([build_argument(arg) for arg in args]),
                {n: build_argument(arg) for n, arg in keywords.items()},
            )
            for args, keywords in self.sampled
        ]

    @property
    def sampled(self) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Returns the examples with samples in place of tensors.

        Without declared examples, the operands are derived from the index signature.
        """
        if self.samples:
            return self.samples
        required = [p for p in self.signature.parameters if p.default is REQUIRED]
        if callable(self.index_signature) or any(p.kind is not None or p.is_list for p in required):
            return []
        return sample_operands(self.index_signature)

    @cached_property
    def argument_names(self) -> tuple[str, ...]:
        """Returns the names of a call's arguments, in order."""
        return tuple([p.name for p in self.signature.arguments])

    @cached_property
    def of_sizes(self) -> tuple[bool, ...]:
        """Returns, for each argument of a call, whether it is a size or a shape."""
        return tuple([p.kind is not None for p in self.signature.arguments])

    @cached_property
    def length_positions(self) -> tuple[int, ...]:
        """Returns the positions of the arguments of a call that are sizes."""
        return tuple([k for k, p in enumerate(self.signature.arguments) if p.kind is SIZE])

    @cached_property
    def leading(self) -> int:
        """Returns the number of parameters that precede the first static attribute."""
        static = [k for k, p in enumerate(self.signature.parameters) if not p.is_argument]
        return static[0] if static else len(self.signature.parameters)

    @cached_property
    def operand_counts(self) -> tuple[int, int]:
        """Returns the least and the greatest number of arguments that can all be operands."""
        parameters = self.signature.parameters
        most = 0
        while most < len(parameters) and parameters[most].kind is None:
            if parameters[most].is_list:
                break
            most += 1
        fewest = max([k + 1 for k, p in enumerate(parameters) if p.default is REQUIRED], default=0)
        return fewest, most
