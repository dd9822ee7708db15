"""Rewrites a function with the StructInfo that a solver inferred."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from structir.analysis.axes import axes_of, tensor
from structir.analysis.deduction import deduce, result_info
from structir.analysis.substitution import Substitution
from structir.errors import Diagnostic, DiagnosticError, StructInfoError
from structir.ir.axes import AnySize, Axes, Labelled, is_anonymous, rows_in, size_in
from structir.ir.binding_dims import bound_dims, row_size_of, standing_alone
from structir.ir.dim_text import one_message
from structir.ir.dims import Dim, Poly, Sym, as_dim, substitute
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    Expr,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import (
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.solver.domains.terms import (
    RowVar,
    replace_row,
    row_vars,
    sizes,
    symbol_of,
    variables,
    weight,
)
from structir.solver.program.any_sizes import forget_any_sizes, name_any_sizes, with_any_sizes
from structir.solver.program.axis_conversion import resolve_info
from structir.solver.program.constraint_generation import ConstraintGenerator
from structir.solver.program.result_refinement import with_result
from structir.solver.program.signature_policy import apply_policy, narrows
from structir.solver.program.undefined_dims import drop_undefined_dims
from structir.solver.program.value_trees import (
    has_all_sizes,
    meet_infos,
    pairs,
    refine_info,
    tensors,
)


class Rewriter:
    """Rewrites a function with the results of its solver."""

    def __init__(
        self, generator: ConstraintGenerator, functions: Mapping[str, StructInfo], refine: str
    ) -> None:
        self.generator = generator
        self.functions = functions
        self.refine = refine
        self.variables: dict[Var, Var] = {}
        self.names: dict[Sym, Dim] = {}  # names for internal variables of the solver
        self.rows: dict[RowVar, RowVar] = {}
        self.defined: set[Sym] = set()
        self.cast_dims: frozenset[Any] = frozenset()  # dims that match_casts of the body bind
        self.row_names: dict[str, RowVar] = {}  # of the row variables that the function declares
        self.declared_rows: dict[RowVar, Axes] = {}
        self.branches = 0  # depth of conditionals
        self.unnamed: dict[Sym, Var | None] = {}  # variables that nothing expressed when first met
        self.current: Var | None = None  # the variable of the binding that is rewritten
        self.has_deduced_more = False  # than the solver, about values that are rewritten already

    def function(self, function: Function) -> Function:
        """Returns the function with every StructInfo completed."""
        self.cast_dims = bound_dims(
            [b.struct_info for b in function.bindings() if isinstance(b, MatchCast)]
        )
        for param in function.params:
            self.defined.update(s for info in tensors(param.struct_info) for s in _plain_dims(info))
        self.row_names = {row.name: row for row in _declared_rows(function)}
        for row in self._rows_of_params(function):
            shape = self.generator.solver.resolve((row,))
            if len(shape) == 1 and type(shape[0]) is RowVar:
                self.rows.setdefault(shape[0], row)  # it stays the name in the signature
        for param in function.params:
            self._name_open_dims(param)
        self.declared_rows = dict(self._expanded_rows(function))
        params = tuple([self._rewrite_param(param) for param in function.params])
        checks = self._entry_checks_of(function, params)
        body = self._rewrite_sequence(function.body)
        if checks:
            body = _prepend_checks(tuple(checks), body)
        result = self._rewrite_result(function.ret_struct_info, body.body)
        rewritten = replace(function, params=params, body=body, ret_struct_info=result)
        rewritten = drop_undefined_dims(
            rewritten,
            function,
            self.generator.solver.resolve,
            partial(self._express_axis, new=False),
        )
        result = result_info(rewritten.ret_struct_info, rewritten.params)
        return replace(rewritten, ret_struct_info=result)

    def _rewrite_result(self, info: StructInfo, value: Expr) -> StructInfo:
        """Returns the result type for callers; under the policy, declared sizes stay symbolic."""
        inferred = self._fill(info, self.generator.results)
        if self.refine == "signature":
            return meet_infos(inferred, value.struct_info)
        return apply_policy(info, self._over_declared_rows(inferred))

    def _over_declared_rows(self, info: StructInfo) -> StructInfo:
        """Replaces the axes of a declared row variable by the variable, which callers know."""
        if isinstance(info, TupleStructInfo):
            return replace(info, fields=tuple(map(self._over_declared_rows, info.fields)))
        if not isinstance(info, TensorStructInfo) or info.axes is None:
            return info
        axes = info.axes
        for row, expansion in self.declared_rows.items():
            axes = replace_row(axes, expansion, row)
        return tensor(axes, info.element, info.vdevice)

    # Parameters

    def _rows_of_params(self, function: Function) -> dict[RowVar, None]:
        """Returns the row variables that the annotations of the parameters declare."""
        infos = [info for param in function.params for info in tensors(param.struct_info)]
        return dict.fromkeys([row for info in infos for row in rows_in(info.axes or ())])

    def _expanded_rows(self, function: Function) -> Iterator[tuple[RowVar, Axes]]:
        """Yields the row variables of the parameters that have more precise axes, with these."""
        for row in self._rows_of_params(function):
            shape = self.generator.solver.resolve((row,))
            if len(shape) > 1 and row_vars(shape):
                yield row, tuple([self._express_axis(axis, False) for axis in shape])

    def _name_open_dims(self, param: Var) -> None:
        """Names the open sizes of a parameter."""
        for value, info in pairs(self.generator.trees[param], param.struct_info):
            shape = self.generator.solver.shape(value)
            if info.dims is not None:
                continue
            for row in row_vars(shape):
                if len(shape) > 1 or self.generator.occurrences[row] > 1:
                    self.rows.setdefault(row, self._name_row(row))
            for dim in sizes(shape):
                symbol = symbol_of(dim)
                if symbol is not None and symbol not in self.defined:
                    self.defined.add(symbol)
                    if symbol in self.cast_dims:  # a match_cast of the body binds it unchanged
                        continue
                    named = symbol.name and row_size_of(symbol) is None
                    name = symbol.name if named else f"d{len(self.names)}"
                    self.names.setdefault(symbol, as_dim(Sym(name)))

    def _name_row(self, row: RowVar) -> RowVar:
        """Returns a row variable, with another name if it has none or a declared one has it."""
        declared = self.row_names.get(row.name)
        if row.name and declared in (None, row):
            return row
        number = len(self.rows)
        while f"r{number}" in self.row_names:
            number += 1
        return RowVar(f"r{number}")

    def _rewrite_param(self, param: Var) -> Var:
        info = self._signature(param.struct_info, param)
        rewritten = (
            param if info == param.struct_info else type(param)(param.name, info, param.span)
        )
        self.variables[param] = rewritten
        return rewritten

    def _signature(self, info: StructInfo, param: Var) -> StructInfo:
        inferred = self._fill(info, self.generator.trees[param], new=True)
        return inferred if self.refine == "signature" else apply_policy(info, inferred)

    def _entry_checks_of(self, function: Function, new: tuple[Var, ...]) -> list[Binding]:
        """Returns entry checks of the facts about sizes that the signature does not state."""
        checks: list[Binding] = []
        if self.refine == "signature":  # the signature states the facts
            return checks
        existing = set(_entry_checks(function))
        existing |= {(value, forget_any_sizes(info)) for value, info in existing}
        for param, rewritten in zip(function.params, new, strict=True):
            inferred = self._fill(param.struct_info, self.generator.trees[param])
            if not narrows(rewritten.struct_info, inferred) or (param, inferred) in existing:
                continue
            if self.refine == "nothing":
                self._reject_narrowing(param, inferred)
            checked = name_any_sizes(inferred)
            checks.append(MatchCast(Var(f"{param.name}_checked", checked), rewritten, checked))
        return checks

    @one_message()
    def _reject_narrowing(self, param: Var, inferred: StructInfo) -> None:
        message = f"the body narrows `{param.name}`: expected {param.struct_info}, found {inferred}"
        hint = (
            f"change the annotation to `{param.name}: {inferred}`, "
            'or allow a check: refine="checks"'
        )
        raise StructInfoError(Diagnostic(message, param.span, hint=hint, code="E0407"))

    # Bodies

    def _rewrite_sequence(self, body: SeqExpr) -> SeqExpr:
        blocks = tuple([self._rewrite_block(block) for block in body.blocks])
        result = self._rewrite_expr(body.body)
        return replace(body, blocks=blocks, body=result, struct_info=result.struct_info)

    def _rewrite_block(self, block: BindingBlock) -> BindingBlock:
        return replace(block, bindings=tuple([self._rewrite_binding(b) for b in block.bindings]))

    def _rewrite_binding(self, binding: Binding) -> Binding:
        var = self.current = binding.var
        if isinstance(binding, MatchCast):
            self.defined.update(
                s for info in tensors(binding.struct_info) for s in _plain_dims(info)
            )
            if isinstance(binding.struct_info, ShapeStructInfo):
                dims = binding.struct_info.dims or ()
                self.defined.update(s for dim in dims if (s := symbol_of(dim)) is not None)
        value = self._rewrite_expr(binding.value)
        info = self._info_of(var)
        if not isinstance(binding, MatchCast) and _is_deduced(value):
            known, info = info, meet_infos(info, value.struct_info)
            if info is not known and info != known:  # sizes that the solver has no variable for
                self._name_deduced_sizes(var, known, info)
        value = with_result(value, info)
        if isinstance(value, Call) and isinstance(value.op, Op):
            names_rows = getattr(value.op.definition, "with_known_rows", None)
            info = info if names_rows is None else names_rows(value, info, var.struct_info)
        if info == var.struct_info:
            self.variables[var] = var
            return binding if value is binding.value else replace(binding, value=value)
        self.variables[var] = rewritten = type(var)(var.name, info, var.span)
        return replace(binding, var=rewritten, value=value)

    def _name_deduced_sizes(self, var: Var, info: StructInfo, deduced: StructInfo) -> None:
        """Names internal variables of the solver by the sizes that are deduced for a value."""
        tree = self.generator.trees.get(var)
        for (value, part), (_, known) in zip(pairs(tree, info), pairs(tree, deduced), strict=True):
            rows = self.generator.solver.shape(value), axes_of(part) or (), axes_of(known) or ()
            if self.branches or len({len(row) for row in rows}) > 1:
                self.has_deduced_more |= part != known
                continue
            for size, axis, new in zip(*rows, strict=True):
                symbol = symbol_of(size) if type(size) is Poly else None
                if symbol is None or symbol in self.defined or not isinstance(new, int | Poly):
                    self.has_deduced_more |= axis != new
                elif axis != new:
                    self.has_deduced_more |= self.unnamed.get(symbol, var) is not var
                    self.names[symbol] = new
                    self.defined.add(symbol)

    def _info_of(self, var: Var) -> StructInfo:
        """Returns the inferred StructInfo of a variable.

        It stays unchanged if a size would be negative: the code is dead.
        """
        info, inferred = var.struct_info, self.generator.infos.get(var)
        try:
            if inferred is not None:
                info = self._express_info(info, resolve_info(self.generator.solver, inferred))
            if inferred is None or not has_all_sizes(
                info
            ):  # a size of a branch may have an outer name
                info = self._fill(info, self.generator.trees.get(var))
        except DiagnosticError:
            return var.struct_info
        return info

    def _rewrite_expr(self, expr: Expr) -> Expr:
        """Rewrites an expression over the new variables, and infers its StructInfo again."""
        match expr:
            case If():
                self.branches += 1
                branches = [
                    self._rewrite_sequence(b) for b in (expr.true_branch, expr.false_branch)
                ]
                self.branches -= 1
                cond = self._rewrite_expr(expr.cond)
                rewritten_if = If(cond, branches[0], branches[1], None, expr.span)
                return replace(rewritten_if, struct_info=deduce(rewritten_if))
            case Function():
                return self._rewrite_closure(expr)
            case Var():
                return self.variables.get(expr, expr)
            case GlobalVar(name) if name in self.functions:
                return GlobalVar(name, self.functions[name], expr.span)
            case Tuple(fields):
                rewritten = tuple([self._rewrite_expr(field) for field in fields])
                if all(a is b for a, b in zip(rewritten, fields, strict=True)):
                    return expr
                return replace(expr, fields=rewritten)
            case TupleGetItem(inner, index):
                value = self._rewrite_expr(inner)
                info = value.struct_info
                part = info.fields[index] if isinstance(info, TupleStructInfo) else None
                return expr if value is inner else TupleGetItem(value, index, part, expr.span)
            case Call():
                return self._rewrite_call(expr)
        return expr

    def _rewrite_closure(self, function: Function) -> Expr:
        """Rewrites the free variables of a nested function."""
        renamed: dict[Var, Expr] = {
            previous: new for previous, new in self.variables.items() if new is not previous
        }
        rewritten: Expr = Substitution(renamed).part(function) if renamed else function
        return rewritten

    def _rewrite_call(self, call: Call) -> Call:
        rewritten = replace(call, args=tuple([self._rewrite_expr(arg) for arg in call.args]))
        if not isinstance(call.op, Op):
            rewritten = replace(rewritten, op=self._rewrite_expr(call.op))
        same = all(a is b for a, b in zip(rewritten.args, call.args, strict=True))
        if same and rewritten.op is call.op:
            return call
        if isinstance(call.op, Op):
            try:
                return replace(rewritten, struct_info=call.op.definition.deduce(rewritten))
            except DiagnosticError as error:
                if not self.branches:  # it always runs
                    raise StructInfoError(error.diagnostics) from None
        return rewritten

    # StructInfo

    def _fill(self, info: StructInfo, tree: object, *, new: bool = False) -> StructInfo:
        inferred = refine_info(self.generator.solver, info, tree)  # type: ignore[arg-type]
        return self._express_info(info, inferred, new=new)

    def _express_info(
        self, info: StructInfo, inferred: StructInfo, *, new: bool = False
    ) -> StructInfo:
        """Expresses inferred StructInfo in the program's variables.

        Returns `info` if that is impossible.
        """
        if inferred is info:
            return info
        if isinstance(inferred, TupleStructInfo) and isinstance(info, TupleStructInfo):
            parts = zip(info.fields, inferred.fields, strict=True)
            fields = tuple([self._express_info(a, b, new=new) for a, b in parts])
            return replace(info, fields=fields)
        if not isinstance(info, TensorStructInfo) or not isinstance(inferred, TensorStructInfo):
            return info
        axes = axes_of(inferred)
        if axes is None:
            return info
        declared = None if isinstance(info.dims, Var) else info.axes or info.dims
        if declared is not None and _same_rows(declared, axes):
            pairs = zip(declared, axes, strict=True)
            return tensor(
                tuple([self._refine_axis(*pair, new) for pair in pairs]), info.element, info.vdevice
            )
        expressed = tuple([self._express_axis(axis, new) for axis in axes])
        if None not in expressed:
            return tensor(expressed, info.element, info.vdevice)
        if info.dims is not None or (info.axes is not None and not rows_in(info.axes)):
            return info
        return with_any_sizes(info, axes, expressed)

    def _refine_axis(self, declared: Any, inferred: Any, new: bool) -> Any:
        """Returns a declared axis with its inferred size and label."""
        size, declared_size = size_in(inferred), size_in(declared)
        if type(declared_size) is int:  # an equation with it may be open, and remains a check
            size = declared_size
        elif new and type(declared_size) is Poly and symbol_of(declared_size) is None:
            # so may one with an expression of open dims, which nothing else would check
            size = self._resolve_dims(declared_size)
        if type(size) is not int:
            anonymous = type(declared_size) is AnySize
            # inside a body, another name or a longer expression of the same dims adds nothing
            more_precise = new or (symbol_of(size) is None and not _is_longer(size, declared_size))
            more_precise |= size != declared_size and self._may_be_undefined(declared_size)
            is_open = anonymous or (
                self.refine == "signature" and type(size) is Poly and more_precise
            )
            expressed = self._express_axis(size, new and anonymous) if is_open else None
            size = self._rename(declared_size) if expressed is None else expressed
        label = getattr(inferred, "label", getattr(declared, "label", None))
        return size if label is None else Labelled(size, label)

    def _rename(self, size: Any) -> Any:
        """Returns a declared size with the names and the numbers that its dims have now."""
        if type(size) is not Poly:
            return size
        resolved = {s: self.generator.solver.resolve((as_dim(s),))[0] for s in variables(size)}
        numbers: dict[Sym, Any] = {s: dim for s, dim in resolved.items() if type(dim) is int}
        return substitute(size, self.names | numbers if numbers else self.names)

    def _may_be_undefined(self, size: Any) -> bool:
        """Returns whether a size mentions a dim that the completed parameters need not state.

        Such a dim is a number, or it has no name.
        """
        symbols = tuple(variables(size)) if type(size) is Poly else ()
        resolved = self.generator.solver.resolve(tuple(map(as_dim, symbols)))
        return any(is_anonymous(s.name) for s in symbols) or any(type(r) is int for r in resolved)

    def _resolve_dims(self, size: Poly) -> Dim:
        """Returns a size with its dims resolved, also where the value of a product of open dims is
        known."""
        solver = self.generator.solver
        dims: dict[Sym, Any] = {s: solver.resolve((as_dim(s),))[0] for s in variables(size)}
        return substitute(size, dims)

    def _express_axis(self, axis: Any, new: bool) -> Any:
        """Expresses an axis in the program's variables; None if that is impossible."""
        if type(axis) is Labelled:
            size = self._express_axis(axis.size, new)
            return None if size is None else Labelled(size, axis.label)
        if type(axis) is RowVar:
            return self.rows.get(axis)
        if type(axis) is not Poly:
            return axis
        if all(symbol in self.defined for symbol in variables(axis)):
            return substitute(axis, self.names)
        for symbol in variables(axis):
            self.unnamed.setdefault(symbol, self.current)
        return as_dim(Sym(f"d{len(self.names)}")) if new else None


def _is_longer(size: Any, declared: Any) -> bool:
    """Returns whether a size has the dims of the declared one, in no shorter expression."""
    if type(size) is not Poly or type(declared) is not Poly:
        return False
    has_all = {*variables(declared)} <= {*variables(size)}
    return has_all and weight(size) >= weight(declared)


def _is_deduced(value: Expr) -> bool:
    """Returns whether a rewritten value has the StructInfo that its operands give."""
    if isinstance(value, Call):
        return isinstance(value.op, Op)
    return isinstance(value, Var | TupleGetItem | If)


def _same_rows(declared: Axes, inferred: Axes) -> bool:
    """Returns whether axes correspond to axes and row variables to row variables."""
    return [type(axis) is RowVar for axis in declared] == [
        type(axis) is RowVar for axis in inferred
    ]


def _declared_rows(function: Function) -> Iterator[RowVar]:
    """Yields the row variables in the annotations of the parameters and match_casts."""
    infos = [param.struct_info for param in function.params]
    infos += [b.struct_info for b in function.bindings() if isinstance(b, MatchCast)]
    for info in infos:
        for part in tensors(info):
            yield from rows_in(part.axes or ())


def _plain_dims(info: TensorStructInfo) -> Iterator[Sym]:
    """Yields the variables that a StructInfo binds: sizes that are a single variable."""
    for bound in standing_alone([info]):
        if type(bound) is Sym:
            yield bound


def _entry_checks(function: Function) -> Iterator[tuple[Expr, StructInfo]]:
    """Yields the checks of parameters at the start of a function."""
    for binding in function.bindings():
        if not isinstance(binding, MatchCast):
            return
        yield binding.value, binding.struct_info


def count_entry_checks(function: Function) -> int:
    """Returns the number of checks of parameters that run before anything else."""
    return sum(1 for _ in _entry_checks(function))


def _prepend_checks(checks: tuple[Binding, ...], body: SeqExpr) -> SeqExpr:
    """Prepends checks to a sequence, in its first block if that is no dataflow block."""
    first, rest = body.blocks[:1], body.blocks[1:]
    if first and type(first[0]) is BindingBlock:
        block = replace(first[0], bindings=(*checks, *first[0].bindings))
        return replace(body, blocks=(block, *rest))
    return replace(body, blocks=(BindingBlock(checks), *body.blocks))
