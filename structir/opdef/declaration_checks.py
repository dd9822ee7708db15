"""Checks op declarations: name, index signature, parameters and body."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any

import attrs

from structir.errors import Diagnostic, Source, Span, TruthValueError, raising_span
from structir.ir.dims import Sym
from structir.ir.dtype import DTYPES
from structir.ir.op import find_op
from structir.ir.struct_info import KINDS
from structir.lazy import provided_module
from structir.opdef.declaration import DeclaredOp, is_built_in
from structir.opdef.dtypes import family_of
from structir.opdef.index_expr import AxisPack, IndexExpr, IndexExtent, IndexVar, leaves
from structir.opdef.index_specs import returns_scalars
from structir.opdef.notation import (
    AxisIndex,
    IndexSignature,
    NotationError,
    OperandAccess,
    parse_index_signature,
)
from structir.opdef.parameters import REQUIRED, Parameter
from structir.projections.execution_cost import CALL, POINT, as_rates
from structir.projections.monoid import MONOIDS
from structir.projections.out_of_bounds import check_policy
from structir.projections.scalar_expr import LoopIndex, OperandElement, as_scalar_expr

compiler = provided_module("compiler")


def check_name(name: str) -> None:
    """Rejects a name that is not dotted identifiers, or that of a built-in op or StructInfo."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise NotationError(
            Diagnostic("expected identifiers joined by dots, found this name", op=name)
        )
    existing = find_op(name)
    if existing is not None and is_built_in(getattr(existing.definition, "body", None)):
        hint = f'choose another name: `name="my_{name.rpartition(".")[2]}"`'
        message = f"expected a new name, found the name of the built-in op R.{name}"
        raise NotationError(Diagnostic(message, op=name, hint=hint))
    if name in KINDS:
        message = f"expected a new name, found the name of the StructInfo R.{name}"
        raise NotationError(Diagnostic(message, op=name, hint=f'`name="{name.lower()}_op"`'))


def check_signature(signature: Any) -> None:
    """Rejects a body in place of the index signature: `@op` without arguments.

    A function that computes a signature has one parameter, the call, without an annotation of an
    operand.
    """
    if not isinstance(signature, FunctionType):
        return  # checked with the body
    parameters = inspect.signature(signature).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    returned = signature.__annotations__.get("return")
    is_body = getattr(returned, "__name__", returned) in ("ScalarExpr", "Expr", "Array", "Any")
    if is_body or len(required) > 1:
        hint = 'write `@op("x[i] -> y[i]")` above the body'
        message = "expected an index signature, found a body"
        raise NotationError(Diagnostic(message, op=signature.__name__, hint=hint))


def check_opaque(name: str, function: Callable[..., Any], rule: Any) -> None:
    """Rejects a rule that is no function, and parameters whose number is not fixed."""
    if not callable(rule):
        message = f"expected a function of the operands' StructInfo as rule, found {rule}"
        raise NotationError(Diagnostic(message, op=name, hint="write `@opaque_op(lambda x: ...)`"))
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            message = f"expected a parameter for each operand and attribute, found `{parameter}`"
            hint = "name them: `def f(x, y, *, axis=0)`; a list of operands is a tuple"
            raise NotationError(Diagnostic(message, op=name, hint=hint))


def check_kernel(definition: DeclaredOp, target: str, kernel: Any) -> None:
    """Rejects a wrong name of a target, and a kernel that is no plain Python function of all
    results and of known names.
    """
    text = definition.index_signature
    own = compiler.own_targets()  # those of other packages need not be installed
    typos = {"gpu": "cuda", **{name.upper(): name for name in own}}
    closest = typos.get(target) if isinstance(target, str) else "cpu"
    if closest is not None:
        message = f"expected a target such as {_list_text(own)}, found {target!r}"
        hint = f'write `@{definition.name}.kernel("{closest}")`'
        raise NotationError(Diagnostic(message, op=definition.name, hint=hint))
    if not isinstance(kernel, FunctionType):
        message = f"expected a Python function as kernel, found {kernel!r}"
        hint = "decorate a function: `def _(x: Array, y: Array) -> None: ...`"
        raise NotationError(Diagnostic(message, op=definition.name, hint=hint))
    if not isinstance(text, str):  # a function computes the signature of each call
        return
    check = _Check(definition, text.replace("\n", " "))
    signature = check.parse()
    accesses = (*signature.operands, *signature.results)
    indices = dict.fromkeys(name for access in accesses for name in _mentioned(access))
    known = [*check.parameters, *[access.name for access in accesses], *indices]
    names = list(inspect.signature(kernel).parameters)
    for name in names:
        if name not in known:
            expected = _list_text(dict.fromkeys(known))
            message = f"expected parameters of the kernel among {expected}, found {name}"
            parameters = ", ".join(dict.fromkeys(access.name for access in accesses))
            raise check.error(message, "", f"write `def _({parameters})`")
    for access in signature.results:
        if access.name not in names:
            hint = f"add the parameter `{access.name}`, whose elements the kernel assigns"
            message = f"expected a parameter of the kernel for the result {access.name}, found none"
            raise check.error(message, access.text, hint)


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Rejects options that `op` does not have."""
    fields = attrs.fields(DeclaredOp)[3:]  # the first three are no options
    names = [f.name for f in fields if f.init and f.name not in ("hooks", "samples", "memo")]
    for option in options:
        if option not in [f.name for f in fields]:
            closest = _nearest(option, names)
            hint = closest and f"did you mean `{closest[1:-1]}`?"
            message = f"expected an option of `op`, found {option!r}"
            raise NotationError(
                Diagnostic(message, op=name, hint=hint or f"use {', '.join(names)}")
            )


def check_declaration(definition: DeclaredOp) -> None:
    """Raises NotationError for a declaration that no call can satisfy."""
    text = definition.index_signature
    if isinstance(text, str):
        _Check(definition, text.replace("\n", " ")).run()
    elif not callable(text):  # a function computes the signature of each call
        message = f"expected an index signature such as `x[i] -> y[i]`, found {text!r}"
        raise NotationError(Diagnostic(message, op=definition.name))


class _Check:
    """The checks of a declaration whose index signature is a string."""

    def __init__(self, definition: DeclaredOp, text: str) -> None:
        self.definition = definition
        self.text = text
        self.parameters = {p.name: p for p in definition.signature.parameters}
        self.attributes = frozenset(n for n, p in self.parameters.items() if p.kind is not None)

    def run(self) -> None:
        """Runs all checks in order of dependence."""
        signature = self.parse()
        self.check_names(signature)
        self.check_operands(signature)
        self.check_dtypes(signature)
        self.check_reduction()
        indices = _Indices(signature)
        self.check_bound(signature, indices)
        self.check_missing_reduction(signature, indices)
        self.check_cost(indices)
        self.check_policies(signature)
        self.check_body(signature)

    def error(self, message: str, part: str = "", hint: str | None = None) -> NotationError:
        """Returns the error with a caret under a part of the signature."""
        column = max(self.text.rfind(part), 0) if part else 0
        end = column + (len(part) or len(self.text))
        span = Span(Source(f"<op {self.definition.name}>", self.text), 1, column, 1, end)
        return NotationError(Diagnostic(message, span, self.definition.name, hint=hint))

    def option_error(self, option: str, condition: str, name: str) -> NotationError:
        """Returns the error of an index of a condition, with a caret under the condition."""
        text: str = getattr(self.definition, option)
        column = max(text.find(condition), 0)
        span = Span(
            Source(f"<op {self.definition.name}>", text), 1, column, 1, column + len(condition)
        )
        message = f"expected indices of the signature in `{option}`, found {name}"
        return NotationError(Diagnostic(message, span, self.definition.name))

    def parse(self) -> IndexSignature:
        definition = self.definition
        try:
            signature = parse_index_signature(
                self.text, definition.where, definition.on, self.attributes
            )
        except NotationError as error:
            diagnostic = error.diagnostics[0]
            source = Source(f"<op {definition.name}>", error.text or self.text)
            column = min(error.column, len(source.text))
            span = Span(source, 1, column, 1, max(error.end, column + 1))
            located = attrs.evolve(diagnostic, span=span, op=definition.name)
            raise NotationError(located) from None
        if not signature.results:
            raise self.error("expected a result after `->`, found none", "->")
        return signature

    def check_names(self, signature: IndexSignature) -> None:
        """Checks that operands and results have different names, and that `base` is an operand."""
        seen: set[str] = set()
        for access in (*signature.operands, *signature.results):
            if access.name in seen:
                message = f"expected different names, found {access.name} twice"
                raise self.error(message, access.text)
            seen.add(access.name)
        base, fill = self.definition.base, self.definition.fill
        if base is not None and base not in {access.name for access in signature.operands}:
            raise self.error(f"expected the name of an operand in `base`, found {base!r}")
        if isinstance(fill, str) and fill not in self.attributes:
            raise self.error(f"expected a number or an attribute in `fill`, found {fill!r}")

    # ---- operands and parameters

    def check_operands(self, signature: IndexSignature) -> None:
        """Checks that body parameters and operands correspond."""
        names = [p.name for p in self.parameters.values() if p.kind is None]
        covered = set()
        for access in signature.operands:
            name = self.parameter_of(access)
            if name is None:
                expected = f"expected a body parameter {access.name} for the operand {access.text}"
                hint = f"name body parameters after operands: `{access.name}: ScalarExpr`"
                raise self.error(f"{expected}, found {_list_text(names)}", access.text, hint)
            covered.add(name)
        for name in names:
            if name not in covered:
                expected = f"expected an operand of the signature, found the parameter {name}"
                hint = f"add `{name}[...]` to the signature, or annotate it as an attribute: "
                raise self.error(expected, "", f"{hint}`{name}: int = 0`")

    def parameter_of(self, access: OperandAccess) -> str | None:
        """Returns the parameter of an operand, which may be a member of a list."""
        list_name, _, member = access.name.rpartition("_")
        for name in (access.name, list_name if member.isdigit() else access.name):
            parameter = self.parameters.get(name)
            if parameter is not None and parameter.kind is None:
                return name
        return None

    def check_dtypes(self, signature: IndexSignature) -> None:
        """Checks that `@` is followed by a dtype, a dtype variable or an attribute."""
        for access in (*signature.operands, *signature.results):
            for name in access.dtypes:
                if name not in DTYPES and name not in self.attributes and family_of(name) is None:
                    closest = _nearest(name, DTYPES)
                    hint = (
                        f"did you mean {closest}?" if closest else "`F` is any floating-point dtype"
                    )
                    expected = "expected a dtype, a dtype variable (T, F, I, J, B) or an attribute"
                    raise self.error(f"{expected} after `@`, found {name}", name, hint)
        self.check_result_dtypes(signature)

    def check_result_dtypes(self, signature: IndexSignature) -> None:
        """Checks that the dtype variables of results are those of operands."""
        bound = dict.fromkeys(name for a in signature.operands for name in a.dtypes)
        for access in signature.results:
            for name in access.dtypes:
                if name in bound or family_of(name) is None:
                    continue
                is_written = self.text.partition(access.text)[2].lstrip().startswith("@")
                part = name if is_written else access.text
                dtype = next(iter(bound), "float32")
                message = f"expected a dtype or the dtype variable of an operand, found {name}"
                raise self.error(message, part, f"write `{access.text} @ {dtype}`")

    def check_reduction(self) -> None:
        """Checks that `reduce` is a reduction, or an attribute."""
        name = self.definition.reduce
        if name is not None and name not in MONOIDS and name not in self.attributes:
            hint = _nearest(name, MONOIDS, {"avg": "mean", "average": "mean", "product": "prod"})
            expected = f"expected `reduce` to be one of {', '.join(MONOIDS)}"
            raise self.error(f"{expected}, found {name!r}", "", hint and f"write `reduce={hint}`")

    # ---- indices

    def check_bound(self, signature: IndexSignature, indices: _Indices) -> None:
        """Checks that each index variable has an extent, from an operand or `where`."""
        bound = indices.bound | self.attributes
        for access in (*signature.results, *signature.operands):
            for name in _mentioned(access):
                if name not in bound:
                    message = f"expected indices that an operand binds, found {name}"
                    hint = f"use {name} as an axis of an operand, or state its size: "
                    raise self.error(message, access.text, f'{hint}`where="{name} == size"`')
        for condition in signature.on:
            for name in (*_positions(condition.left), *_positions(condition.right)):
                if name not in bound:
                    raise self.option_error("on", condition.text, name)
        for name in (*self.definition.signature.index_params, *self.definition.at):
            if name not in bound:
                raise self.error(f"expected an index of the signature, found the index {name}")
        for name in self.definition.at.values():
            if name not in self.attributes:
                raise self.error(f"expected an attribute in `at`, found {name}")

    def check_missing_reduction(self, signature: IndexSignature, indices: _Indices) -> None:
        """Checks that a reduction is declared where an index variable is in no result."""
        has_whole_axis = any(
            e.whole for access in (*signature.operands, *signature.results) for e in access.entries
        )
        if (
            self.definition.reduce is not None
            or has_whole_axis
            or not returns_scalars(self.definition.body)
        ):
            return
        for access in signature.operands:
            for name in _iterated(access):
                if name not in indices.determined:
                    results = ", ".join(a.text for a in signature.results)
                    message = f"index {name} of {access.text} is missing from the output {results}"
                    hint = 'add `reduce="sum"` (or "max", "min", "prod", "mean", ...), or add '
                    hint += f"{name} to the output"
                    expected = f"{message}: expected a reduction, found none"
                    raise self.error(expected, access.text, hint)

    def check_cost(self, indices: _Indices) -> None:
        """Checks that declared rates are numbers, per index variable of the signature."""
        if self.definition.cost is None:
            return
        known = (CALL, POINT, *sorted(indices.bound))
        for axis in as_rates(self.definition.cost, self.definition.name):
            if axis not in known:
                message = f"cost: expected one of {', '.join(known)}, found {axis!r}"
                diagnostic = self.error(message).diagnostics[0]
                raise NotationError(attrs.evolve(diagnostic, code="E0660"))

    def check_policies(self, signature: IndexSignature) -> None:
        """Checks the policies for reads out of bounds: of operands of the signature."""
        names = [access.name for access in signature.operands]
        for name, policy in self.definition.out_of_bounds.items():
            if name not in names:
                message = f"out_of_bounds: expected an operand {_list_text(names)}, found {name!r}"
                raise NotationError(self.error(message).diagnostics[0].coded("E0662"))
            check_policy(policy)

    # ---- body

    def check_body(self, signature: IndexSignature) -> None:
        """Checks that a scalar body returns one expression per result."""
        values = self.symbolic_arguments()
        if values is None or not returns_scalars(self.definition.body):
            return
        try:
            output = self.definition.body(**values)
            results = output if isinstance(output, tuple) else (output,)
            for value in results:
                if value is not None:
                    as_scalar_expr(value)
        except TruthValueError as error:
            located = attrs.evolve(error.diagnostics[0], op=self.definition.name)
            raise NotationError(located.coded("E0300")) from error
        except Exception as error:  # the body may raise any exception
            raise NotationError(
                Diagnostic(
                    f"expected a scalar expression of {_list_text(values)}, found a body that "
                    f"raises {type(error).__name__}: {error}",
                    raising_span(error),
                    self.definition.name,
                    hint="use operators and functions of `structir.projections.scalar_expr`,"
                    " such as `exp(x)`, not those of NumPy or math",
                )
            ) from error
        if output is None:
            message = "expected a scalar expression as the value of the body, found none"
            raise self.error(message, "", "return it: `return x * x`")
        if len(results) != len(signature.results) and not any(a.many for a in signature.results):
            message = f"expected one value for each of {len(signature.results)} results, found "
            message += str(len(results))
            raise self.error(message, ", ".join(a.text for a in signature.results))

    def symbolic_arguments(self) -> dict[str, Any] | None:
        """Returns symbols for the body's parameters; None where an attribute has no default."""
        values: dict[str, Any] = {
            n: LoopIndex(Sym(n)) for n in self.definition.signature.index_params
        }
        for name, parameter in self.parameters.items():
            value = _symbol(parameter)
            if value is REQUIRED:
                return None
            values[name] = value
        return values


def _symbol(parameter: Parameter) -> Any:
    if parameter.kind is not None:
        return parameter.default
    if parameter.is_list:
        return OperandElement(f"{parameter.name}_0"), OperandElement(f"{parameter.name}_1")
    return OperandElement(parameter.name)


class _Indices:
    """The index variables of a signature that have an extent, and those that a result binds."""

    def __init__(self, signature: IndexSignature) -> None:
        sizes = [e.size for access in signature.operands for e in access.entries]
        sizes += [
            side for condition in signature.where for side in (condition.left, condition.right)
        ]
        names = {
            leaf.name
            for f in sizes
            for leaf in _leaves(f)
            if isinstance(leaf, IndexExtent | AxisPack)
        }
        entries = [e for access in signature.operands for e in access.entries]
        self.bound = frozenset(names | {n for e in entries for n in _packs_and_joins(e)})
        determined = {n for access in signature.results for n in _iterated(access)}
        for condition in signature.on:
            if condition.op == "eq":
                determined |= {n for f in (condition.left, condition.right) for n in _positions(f)}
        self.determined = frozenset(determined)


def _leaves(expr: IndexExpr | None) -> Iterator[IndexExpr]:
    return iter(()) if expr is None else leaves(expr)


def _positions(expr: IndexExpr | None) -> Iterator[str]:
    return (leaf.name for leaf in _leaves(expr) if isinstance(leaf, IndexVar | AxisPack))


def _packs_and_joins(entry: AxisIndex) -> tuple[str, ...]:
    """Returns the axis pack and the joined index variables of an axis."""
    names = [name for name in (entry.pack, entry.starred) if name is not None]
    return (*names, *entry.join)


def _iterated(access: OperandAccess) -> Iterator[str]:
    """Returns the index variables whose values select an element of an access."""
    for entry in access.entries:
        yield from _packs_and_joins(entry)
        yield from _positions(entry.index)


def _mentioned(access: OperandAccess) -> Iterator[str]:
    """Returns the index variables of an access, in indices and sizes."""
    yield from _iterated(access)
    for entry in access.entries:
        for expr in (entry.index, entry.size):
            yield from (leaf.name for leaf in _leaves(expr) if isinstance(leaf, IndexExtent))


def _list_text(names: Iterable[str]) -> str:
    return f"({', '.join(names)})"


def _nearest(
    name: str, names: Iterable[str], synonyms: Mapping[str, str] | None = None
) -> str | None:
    """Returns the closest known name, quoted."""
    if synonyms and name in synonyms:
        return f'"{synonyms[name]}"'
    matches = difflib.get_close_matches(name, list(names), 1)
    return f'"{matches[0]}"' if matches else None
