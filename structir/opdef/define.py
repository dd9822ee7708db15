"""The decorator `@op`, and the behaviour derived from declarations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import attrs

from structir.errors import LIMITS, Diagnostic, Span
from structir.ir.code_hash import is_of_package
from structir.ir.expr import NO_ATTRS, Call, Expr
from structir.ir.op import register_op
from structir.ir.struct_info import INFO, StructInfo
from structir.ir.user_rules import checked_rule
from structir.lazy import lazy_module
from structir.opdef import deduction, ragged_names
from structir.opdef.declaration import (
    OPERAND_TYPES,
    DeclaredOp,
    SignatureFunction,
    is_built_in,
)
from structir.opdef.examples import build_argument
from structir.opdef.notation import IndexSignature, NotationError
from structir.opdef.parameters import (
    bound_values,
    call_parts,
)
from structir.opdef.shape_eval import Assumption, ResolvedShapes
from structir.projections.row_blocks import RowBlocks
from structir.rewriting.pattern_vars import RECORDER

index_specs = lazy_module("structir.opdef.index_specs")
declaration_checks = lazy_module("structir.opdef.declaration_checks")
gradient = lazy_module("structir.opdef.gradient")
reference = lazy_module("structir.opdef.reference")

Hook = TypeVar("Hook", bound=Callable[..., Any])


@attrs.define(eq=False, slots=False)
class SignatureOpDefinition(DeclaredOp):
    """An op definition with behaviour derived from index signature, body and hooks."""

    def __attrs_post_init__(self) -> None:
        self.op = register_op(self)

    def __call__(self, *args: Any, **keywords: Any) -> Call:
        """Builds a call of the op."""
        return self.bind(args, keywords, None)

    def bind(self, args: tuple[Any, ...], keywords: Mapping[str, Any], span: Span | None) -> Call:
        """Builds a call from positional and keyword arguments."""
        if RECORDER.open:  # the call is part of a pattern of a rewrite rule
            return RECORDER.record(self, args, keywords)  # type: ignore[no-any-return]
        fewest, most = self.operand_counts
        if (
            not keywords
            and fewest <= len(args) <= most
            and OPERAND_TYPES.issuperset(map(type, args))
        ):
            info = deduction.struct_info(self, args, NO_ATTRS, span)
            return Call(self.op, args, NO_ATTRS, (), info, span)
        values = bound_values(self.signature, args, keywords, span)
        parts, attributes = call_parts(self.signature, values, span)
        info = deduction.struct_info(self, parts, attributes, span)
        return Call(self.op, parts, attributes or NO_ATTRS, (), info, span)

    def with_known_rows(self, call: Call, info: StructInfo, declared: StructInfo) -> StructInfo:
        """Returns an inferred result without names of ragged axes that have other rows; names that
        are `declared` stay."""
        return ragged_names.with_known_rows(call, info, declared)

    def deduce(self, call: Call) -> StructInfo:
        """Returns the StructInfo of a call's result; raises StructInfoError for an invalid call."""
        return deduction.struct_info(self, call.args, call.attrs, call.span)

    def resolve(self, call: Call) -> ResolvedShapes:
        """Resolves the index signature of a call: extents and assumptions, packs expanded."""
        return deduction.resolved_call(self, call.args, call.attrs, call.span)

    def assumptions(self, call: Call) -> tuple[Assumption, ...]:
        """Returns the pairs of sizes that are checked for equality at run time."""
        if "struct_info" in self.hooks:
            return ()
        return self.resolve(call).assumptions

    def index_spec(self, call: Call) -> Any:
        """Returns the index spec of a call, or None."""
        return index_specs.index_spec(self, call)

    def decompose(self, call: Call) -> Expr | None:
        """Returns the decomposition of a composite call, or None."""
        hook = self.hooks.get("decompose")
        body = hook if hook is not None else self.body if self.parts else None
        return None if body is None else deduction.decompose(self, body, call)

    def reference(self, call: Call, values: tuple[Any, ...]) -> Any:
        """Computes the result in NumPy from the values of the arguments."""
        return reference.evaluate(self, call, values)

    def adjoint(
        self, call: Call, result: Expr, cotangent: Any, emit: Callable[[Expr], Expr]
    ) -> list[Any]:
        """Returns the cotangent of each argument for a cotangent of the result.

        A zero cotangent is None; the cotangent of a tuple is a tuple. `emit` binds an expression
        to a variable and returns the variable, as `BlockBuilder.emit` does. Sizes may be symbolic.
        """
        cotangents: list[Any] = gradient.adjoints(self, call, result, cotangent, emit)
        return cotangents

    def declared_cost(self, call: Call) -> Any:
        """Returns the declared cost of a call, a number or rates by index variable, or None."""
        hook = self.hooks.get("cost")
        if hook is None:
            return self.cost
        return hook(deduction.call_arguments(self, call.args, call.attrs))

    def index_signature_of(self, call: Call) -> IndexSignature:
        """Returns the index signature of a call with list operands expanded."""
        return self.resolve(call).index_signature


RESULTS: dict[str, tuple[str, Callable[[Any], bool]]] = {  # of hooks that other packages attach
    "struct_info": INFO,
    "decompose": ("an Expr or None", lambda value: value is None or isinstance(value, Expr)),
    "gradient": ("a list of cotangents", lambda value: isinstance(value, list | tuple)),
    "region": ("a bool", lambda value: isinstance(value, bool)),
    "cost": (
        "a number or a dict of numbers",
        lambda value: isinstance(value, int | float | Mapping) or value is None,
    ),
}


@attrs.frozen(eq=False, repr=False)
class Declaration:
    """A declared op: call it to build calls, and attach hooks with its decorators."""

    definition: SignatureOpDefinition

    def __call__(self, *args: Any, **keywords: Any) -> Call:
        return self.definition.bind(args, keywords, None)

    def __repr__(self) -> str:
        return f"<op R.{self.definition.name}>"

    def _hook(self, name: str, hook: Hook) -> Hook:
        expected = RESULTS.get(name)
        self.definition.hooks[name] = (
            checked_rule(hook, f"{name} hook", self.definition.name, *expected)
            if expected
            else hook
        )
        return hook

    def reference(self, hook: Hook) -> Hook:
        """Attaches the NumPy implementation: a function of operand arrays and attributes."""
        return self._hook("reference", hook)

    def as_written(self, hook: Hook) -> Hook:
        """Attaches a function of call and values that resolves literal sizes in the arguments."""
        return self._hook("as_written", hook)

    def with_result(self, hook: Hook) -> Hook:
        """Attaches a function of a call, the inferred StructInfo of its result, and whether row
        variables were replaced by axes. It returns the call with what only the result determines as
        an attribute, or None."""
        return self._hook("with_result", hook)

    def gradient(self, hook: Hook) -> Hook:
        """Attaches the adjoint: a function of call, result, cotangent and `emit`.

        It returns a cotangent for each operand, in order.
        """
        return self._hook("gradient", hook)

    def no_gradient(self, why: str) -> None:
        """Declares that all cotangents are zero, because the op is piecewise constant."""
        self.definition.hooks["no_gradient"] = why

    def vdevice(self, attribute: str) -> None:
        """Declares that the result is on the vdevice that an attribute names."""
        self.definition.hooks["vdevice"] = attribute

    def checkpoint(self, side: Literal["start", "end"]) -> None:
        """Declares a region marker whose computation is repeated in the backward pass."""
        self.definition.hooks["checkpoint"] = side

    def non_differentiable(self, why: str) -> None:
        """Declares that the op has no gradient; a program that needs it is rejected."""
        self.definition.hooks["non_differentiable"] = why

    def struct_info(self, hook: Hook) -> Hook:
        """Attaches the StructInfo rule, a function of a `CallView`, in place of the signature."""
        return self._hook("struct_info", hook)

    def region(self, hook: Hook) -> Hook:
        """Attaches a predicate of a call: whether its index signature states every operand element
        that a region of the result needs."""
        return self._hook("region", hook)

    def cost(self, hook: Hook) -> Hook:
        """Attaches the cost, a function of a `CallView` that returns a number or rates.

        A number is the operations per point. Rates are a mapping from `"call"`, `"point"` and
        index variables to operations per call, per point and per index.
        """
        return self._hook("cost", hook)

    def decompose(self, hook: Hook) -> Hook:
        """Attaches the decomposition, in place of the body."""
        return self._hook("decompose", hook)

    def counted(self, hook: Hook) -> Hook:
        """Attaches `hook(*operands, emit, count, **attributes)` for results of data-dependent size.

        `count` evaluates a vector of one integer before the call and returns it as a size. The
        hook returns None where it does not apply.
        """
        return self._hook("counted", hook)

    def row(self, hook: Hook) -> Hook:
        """Attaches the computation of one row, for an op on the rows of a ragged tensor: a function
        of the values of rows of one length, and of the axis along them."""
        return self._hook("row", hook)

    def copies_rows(self) -> None:
        """States that an op copies rows: triples of operands are values, and the start and the
        limit of each row in them; the last operand is the start of each row of the result."""
        self.definition.hooks["copies_rows"] = True

    def rejects_values(
        self, message: str = LIMITS, *, code: str = "", hint: str | None = None, shown: str = ""
    ) -> None:
        """States that some operands of valid StructInfo are rejected when a call is executed. Such
        a call is kept where its result has no use.

        `message` is that of compiled calls. Errors have the error code and the help line `hint`,
        and name the op `shown` in place of an op that only a lowering emits.
        """
        name = shown or self.definition.name
        rejection = Diagnostic(message, op=name, hint=hint, code=code)
        self.definition.hooks["rejects_values"] = rejection

    def row_blocks(self, blocks: RowBlocks) -> None:
        """Declares how blocks of an op on rows correspond, where the start of each row is known."""
        self.definition.hooks["row_blocks"] = blocks

    def kernel(self, target: str) -> Callable[[Hook], Hook]:
        """Attaches a backend routine for the whole op; raises DiagnosticError."""

        def attach(hook: Hook) -> Hook:
            routine: Any = getattr(hook, "py_func", hook)  # of a function compiled by numba
            if not is_of_package(routine):
                declaration_checks.check_kernel(self.definition, target, routine)
            self._hook(f"kernel.{target}", routine)
            return hook

        return attach

    def example(self, *args: Any, **keywords: Any) -> None:
        """Adds example arguments, for tests and documentation; raises DiagnosticError."""
        if not is_built_in(self.definition.body):  # those of built-in ops are checked by tests
            built = {name: build_argument(arg) for name, arg in keywords.items()}
            self.definition.bind(tuple([build_argument(arg) for arg in args]), built, None)
        self.definition.samples.append((args, keywords))


def op(
    index_signature: str | SignatureFunction, *, name: str | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Declaration]:
    """Declares an op by its index signature; the decorated function is its body.

        @op("x[*p, [i], *t] @ F -> y[*p, i, *t] @ F", at={"i": "axis"}, parts=True)
        def softmax(x: Expr, axis: Axis = -1) -> Expr: ...

    The name defaults to that of the body. `DeclaredOp` lists the other options.
    """

    if not is_built_in(index_signature):
        declaration_checks.check_signature(index_signature)

    def declare(body: Callable[..., Any]) -> Declaration:
        op_name = name or body.__name__.rstrip("_")
        if "return" not in body.__annotations__:
            hint = "write `-> ScalarExpr` for a scalar expression, `-> Expr` for a tree of calls"
            message = "missing return annotation: expected ScalarExpr, Expr or Array, found none"
            raise NotationError(Diagnostic(message, op=op_name, hint=f"{hint}, or `-> Array`"))
        if is_built_in(body):  # checked by tests, to keep the import fast
            return Declaration(SignatureOpDefinition(op_name, index_signature, body, **options))
        declaration_checks.check_name(op_name)
        declaration_checks.check_options(op_name, options)
        definition = DeclaredOp(op_name, index_signature, body, **options)
        declaration_checks.check_declaration(definition)
        return Declaration(SignatureOpDefinition(op_name, index_signature, body, **options))

    return declare


def shown_name(definition: Any) -> str:
    """Returns the name of an op in messages: of one that only a lowering emits, the lowered op."""
    rejection = definition.hooks.get("rejects_values")
    return definition.name if rejection is None else rejection.op  # type: ignore[no-any-return]
