"""The batched copy of a sequence of bindings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from structir.analysis.deduction import callee_name, deduce
from structir.analysis.substitution import Substitution
from structir.analysis.variables import free_vars
from structir.batching.candidates import (
    Candidate,
    accepted,
    real_call,
    tensor_operands,
    with_operand,
)
from structir.batching.fallbacks import (
    has_known_sizes,
    loop_over_axis,
    merged,
    require_known_sizes,
)
from structir.build import BlockBuilder
from structir.errors import Diagnostic, DiagnosticError, StructInfoError
from structir.ir.dims import Dim
from structir.ir.expr import (
    Binding,
    Call,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from structir.lazy import lazy_module
from structir.opdef.batched_op import BATCHED, Path, apply, with_axis

iterate = lazy_module("structir.batching.iterate")
Flags = bool | tuple[Any, ...]  # whether tensors have the batch axis, in the structure of a tuple


class BatchedFunctions(Protocol):
    """The functions that a scope may define."""

    looped: list[str]

    def callee(self, name: str, mapped: tuple[Flags, ...], size: Dim) -> GlobalVar:
        """Returns the batched function of a function of the module."""
        ...

    def define(self, name: str, function: Function) -> GlobalVar:
        """Adds a function with an unused name."""
        ...


def any_mapped(flags: Flags) -> bool:
    """Whether a tensor has the batch axis."""
    return any(map(any_mapped, flags)) if isinstance(flags, tuple) else flags


def all_mapped(info: StructInfo | None, flag: bool = True) -> Flags:
    """Returns one flag for each tensor of a StructInfo."""
    if isinstance(info, TupleStructInfo):
        return tuple([all_mapped(field, flag) for field in info.fields])
    return flag and isinstance(info, TensorStructInfo)


class BatchedScope:
    """One scope: the copies of variables, and whether they have the batch axis."""

    def __init__(
        self, builder: BlockBuilder, functions: BatchedFunctions, size: Dim, copier: Substitution
    ) -> None:
        self.builder, self.functions, self.size, self.copier = builder, functions, size, copier
        self.values: dict[Var, tuple[Expr, Flags]] = {}
        self.closures: dict[Var, Function] = {}

    @property
    def emit(self) -> Callable[[Expr], Expr]:
        """Binds an expression to a variable."""
        return self.builder.emit

    def define(self, var: Var, value: Expr, flags: Flags) -> None:
        """Records the copy of a variable."""
        self.values[var] = value, flags
        self.copier.variables[var] = value

    def run(self, seq: SeqExpr) -> tuple[Expr, Flags]:
        """Copies the bindings of a sequence; returns its result and the flags of it."""
        for binding in seq.bindings():
            self.bind(binding)
        return self.operand(seq.body)

    def operand(self, value: Expr) -> tuple[Expr, Flags]:
        """Returns the copy of an atom or a tuple of atoms, with its flags."""
        if isinstance(value, Var):
            return self.values.get(value, (value, False))
        if isinstance(value, Tuple):
            parts = [self.operand(field) for field in value.fields]
            fields = tuple([part for part, _ in parts])
            return Tuple(fields, value.names), tuple([flags for _, flags in parts])
        return self.copier.part(value), False

    def bind(self, binding: Binding) -> None:
        """Copies one binding."""
        value = binding.value
        if isinstance(value, Function):
            self.closures[binding.var] = value
            if not any([any_mapped(self.operand(var)[1]) for var in free_vars(value)]):
                self._copy(binding)
            return
        if isinstance(binding, MatchCast):
            self._match_cast(binding)
        elif not self._depends(value):
            self._copy(binding)
        else:
            copy, flags = RULES.get(type(value), BatchedScope.operand)(self, value)
            self.define(binding.var, copy, flags)

    def _copy(self, binding: Binding) -> None:
        copy = self.copier.binding(binding)
        self.builder.take(copy)
        self.values[binding.var] = copy.var, all_mapped(copy.var.struct_info, False)

    def _depends(self, value: Expr) -> bool:
        """Whether a value depends on the batch axis."""
        if isinstance(value, If):
            return any([any_mapped(self.operand(var)[1]) for var in free_vars(value)])
        if isinstance(value, Call):
            names = [var for var in free_vars(value) if var in self.closures]
            inner = [var for name in names for var in free_vars(self.closures[name])]
            operands = [self.operand(arg)[1] for arg in value.args]
            return any(map(any_mapped, [*operands, *[self.operand(v)[1] for v in inner]]))
        if isinstance(value, TupleGetItem):
            value = value.tuple_value
        return any_mapped(self.operand(value)[1])

    def _match_cast(self, binding: MatchCast) -> None:
        value, flags = self.operand(binding.value)
        if not any_mapped(flags):
            self._copy(binding)
            return
        self.copier.new_dims([binding.struct_info])
        info = self.copier.info(binding.struct_info)
        cast = self.builder.match_cast(value, self._cast_info(info, flags))
        self.define(binding.var, cast, flags)

    def _cast_info(self, info: StructInfo, flags: Flags) -> StructInfo:
        if isinstance(flags, tuple) and isinstance(info, TupleStructInfo):
            pairs = zip(info.fields, flags, strict=True)
            return TupleStructInfo(tuple([self._cast_info(i, f) for i, f in pairs]), info.names)
        return with_axis(info, self.size) if flags is True else info

    # ---- values

    def mapped(self, value: Expr, flag: Flags) -> Expr:
        """Returns a tensor with the batch axis; one without it is broadcast."""
        if flag is True:
            return value
        require_known_sizes(value)
        info: Any = value.struct_info
        return self.emit(apply("broadcast_to", value, ShapeExpr((self.size, *info.dims))))

    def spread(self, value: Expr, flags: Flags) -> Expr:
        """Returns a value all of whose tensors have the batch axis."""
        info = value.struct_info
        if isinstance(info, TupleStructInfo):
            fields = self.fields(value)
            parts = flags if isinstance(flags, tuple) else (flags,) * len(fields)
            pairs = zip(fields, parts, strict=True)
            return Tuple(tuple([self.spread(field, flag) for field, flag in pairs]), info.names)
        return self.mapped(value, flags)

    def fields(self, value: Expr) -> list[Expr]:
        """Returns the fields of a tuple."""
        if isinstance(value, Tuple):
            return list(value.fields)
        return [self.emit(value[k]) for k in range(len(value.struct_info.fields))]

    # ---- rules

    def item(self, value: Any) -> tuple[Expr, Flags]:
        """Returns a field of a tuple."""
        source, flags = self.operand(value.tuple_value)
        flag = flags[value.index] if isinstance(flags, tuple) else flags
        if isinstance(source, Tuple):
            return source.fields[value.index], flag
        return self.emit(source[value.index]), flag

    def call(self, call: Any) -> tuple[Expr, Flags]:
        """Returns a batched call."""
        if isinstance(call.op, Op):
            if "loop" in getattr(call.op.definition, "hooks", ()):
                return self.scan(call)
            return self.op_call(call)
        if isinstance(call.op, Var) and call.op in self.closures:
            return self.inlined(self.closures[call.op], [self.operand(arg) for arg in call.args])
        if isinstance(call.op, GlobalVar):
            parts = [self.operand(arg) for arg in call.args]
            function = self.functions.callee(call.op.name, tuple([f for _, f in parts]), self.size)
            result = self.emit(Call(function, tuple([value for value, _ in parts]), span=call.span))
            return result, all_mapped(result.struct_info)
        if isinstance(call.op, ExternFunc) and call.op.global_symbol == "loop.iterate":
            return iterate.iterate(self, call)  # type: ignore[no-any-return]
        raise self._error(call, "the called function is opaque")

    def _error(self, call: Call, reason: str) -> DiagnosticError:
        hint = "call it outside of the mapped function"
        message = f"cannot be mapped by vmap: {reason}"
        return DiagnosticError(
            Diagnostic(message, call.span, callee_name(call), hint=hint, code="E1111")
        )

    def inlined(
        self, function: Function, operands: Sequence[tuple[Expr, Flags]]
    ) -> tuple[Expr, Flags]:
        """Returns the result of a local function, whose body is copied."""
        for param, (value, flags) in zip(function.params, operands, strict=True):
            self.define(param, value, flags)
        return self.run(function.body)

    def op_call(self, call: Any) -> tuple[Expr, Flags]:
        """Returns a batched call of an op: the first of the rules that applies."""
        definition = call.op.definition
        parts = [self.operand(arg) for arg in call.args]
        paths = _mapped_paths([flags for _, flags in parts])
        args = tuple([value for value, _ in parts])
        result_flags = all_mapped(call.struct_info)
        element = self._element(call, args, paths)
        if isinstance(element.struct_info, ShapeStructInfo):
            return self._shape(element), False
        candidate = accepted(element, paths, self.size)
        if candidate is not None:
            return self._same_op(candidate, args, paths), result_flags
        together = merged(self, element, args, paths)
        if together is not None:
            return together, result_flags
        composite = definition.decompose(element)
        if composite is not None:
            return self._decomposed(composite, element, parts)
        operands = tensor_operands(element, paths)
        spec = definition.index_spec(element) if operands is not None else None
        if spec is not None and spec.computes:
            if spec.base is not None and spec.operands[spec.base].path not in paths:
                base = spec.operands[spec.base].path
                args = self.with_mapped(args, base)
                paths = (*paths, base)
            attributes = {**BATCHED.definition.attributes_for(element), "mapped": paths}  # type: ignore[attr-defined]
            return self.emit(BATCHED(*args, **attributes)), result_flags
        everything = tuple([operand.path for operand in operands or ()])
        if set(everything) > set(paths):  # with the other operands broadcast
            for path in everything:
                args = args if path in paths else self.with_mapped(args, path)
            element = self._element(call, args, everything)
            candidate = accepted(element, everything, self.size)
            if candidate is not None:
                return self._same_op(candidate, args, everything), result_flags
            paths = everything
        return loop_over_axis(self, element, args, paths), result_flags

    def _shape(self, element: Call) -> Expr:
        """Returns the shape that a call has for each index of the axis."""
        info: Any = element.struct_info
        if info.dims is None:
            raise self._error(element, "the sizes of the result depend on the mapped axis")
        return ShapeExpr(info.dims)

    def _same_op(
        self, candidate: Candidate, args: tuple[Expr, ...], paths: tuple[Path, ...]
    ) -> Expr:
        counts = {path: candidate.inserted.get(path, 0) for path in paths}
        return self.emit(real_call(candidate, self._aligned(args, counts)))

    def _element(self, call: Call, args: tuple[Expr, ...], paths: tuple[Path, ...]) -> Call:
        """Returns the call for one index of the axis, over copies of the operands."""
        elements = list(args)
        for path in paths:
            info = _info_at(args, path)
            if isinstance(info, TensorStructInfo) and isinstance(info.dims, tuple):
                value = Var("element", TensorStructInfo(info.dims[1:], info.element))
                elements[path[0]] = with_operand(elements[path[0]], path[1:], value)
        info = self.copier.info(call.struct_info)  # type: ignore[arg-type]
        element = Call(call.op, tuple(elements), call.attrs, call.sinfo_args, info, call.span)
        if has_known_sizes(info):
            return element
        try:  # the copies of results of loops have sizes that the results lack
            return replace(element, struct_info=deduce(element))
        except StructInfoError:  # a run of the program raises it
            return element

    def _aligned(self, args: tuple[Expr, ...], inserted: dict[Path, int]) -> tuple[Expr, ...]:
        aligned = list(args)
        for path, count in inserted.items():
            if count:
                value = self.at(args, path)
                info: Any = value.struct_info
                sizes = (info.dims[0], *[1] * count, *info.dims[1:])
                value = self.emit(apply("reshape", value, ShapeExpr(sizes)))
                aligned[path[0]] = with_operand(self.as_tuple(aligned[path[0]]), path[1:], value)
        return tuple(aligned)

    def at(self, args: Sequence[Expr], path: Path) -> Expr:
        """Returns the operand at a path."""
        value = args[path[0]]
        return self.fields(value)[path[1]] if len(path) > 1 else value

    def as_tuple(self, value: Expr) -> Expr:
        """Returns a tuple variable as a tuple expression; other values are unchanged."""
        if isinstance(value.struct_info, TupleStructInfo) and not isinstance(value, Tuple):
            return Tuple(tuple(self.fields(value)))
        return value

    def with_mapped(self, args: tuple[Expr, ...], path: Path) -> tuple[Expr, ...]:
        """Returns the arguments with the operand at a path broadcast over the axis."""
        changed = list(args)
        value = self.mapped(self.at(args, path), False)
        changed[path[0]] = with_operand(self.as_tuple(changed[path[0]]), path[1:], value)
        return tuple(changed)

    def _decomposed(
        self, composite: Expr, element: Call, parts: Sequence[tuple[Expr, Flags]]
    ) -> tuple[Expr, Flags]:
        """Returns the batched decomposition of a call over element placeholders."""
        inner = BatchedScope(self.builder, self.functions, self.size, Substitution())
        known: dict[int, tuple[Expr, Flags]] = {}
        for placeholder, (value, flags) in zip(element.args, parts, strict=True):
            self._record(placeholder, value, flags, known)
        return inner._tree(composite, known)

    def _record(
        self, placeholder: Expr, value: Expr, flags: Flags, known: dict[int, tuple[Expr, Flags]]
    ) -> None:
        known[id(placeholder)] = value, flags
        if isinstance(placeholder, Tuple) and placeholder.fields:
            parts = flags if isinstance(flags, tuple) else (flags,) * len(placeholder.fields)
            for field, item, flag in zip(
                placeholder.fields, self.fields(value), parts, strict=True
            ):
                self._record(field, item, flag, known)

    def _tree(self, value: Expr, known: dict[int, tuple[Expr, Flags]]) -> tuple[Expr, Flags]:
        """Returns the batched copy of an expression tree; shared nodes are copied once."""
        if id(value) in known:
            return known[id(value)]
        if isinstance(value, Call):
            parts = [self._tree(arg, known) for arg in value.args]
            result = self._node(value, parts)
        elif isinstance(value, Tuple):
            fields = [self._tree(field, known) for field in value.fields]
            result = (
                Tuple(tuple([v for v, _ in fields]), value.names),
                tuple([f for _, f in fields]),
            )
        elif isinstance(value, TupleGetItem):
            source, flags = self._tree(value.tuple_value, known)
            flag = flags[value.index] if isinstance(flags, tuple) else flags
            is_tuple = isinstance(source, Tuple)
            item = source.fields[value.index] if is_tuple else self.emit(source[value.index])  # type: ignore[attr-defined]
            result = item, flag
        else:
            result = value, False
        known[id(value)] = result
        return result

    def _node(self, call: Call, parts: Sequence[tuple[Expr, Flags]]) -> tuple[Expr, Flags]:
        args = tuple([value for value, _ in parts])
        if not any([any_mapped(flags) for _, flags in parts]):
            copy = self.emit(Call(call.op, args, call.attrs, call.sinfo_args, None, call.span))
            return copy, all_mapped(copy.struct_info, False)
        variables = []
        for value, flags in parts:
            var = Var("operand", value.struct_info) if any_mapped(flags) else value
            if var is not value:
                self.values[var] = value, flags  # type: ignore[index]
            variables.append(var)
        node = Call(
            call.op, tuple(variables), call.attrs, call.sinfo_args, call.struct_info, call.span
        )
        return self.op_call(node)

    def scan(self, call: Any) -> tuple[Expr, Flags]:
        """Returns a batched scan: the states and the outputs of all steps have the axis."""
        cell, states, x, *rest = call.args
        state_parts = self.parts(states)
        x_parts = self.parts(x)
        captured = self.parts(rest[0]) if rest else []
        starts = [self.mapped(value, flag) for value, flag in state_parts]
        sources = [self.moved(value) if flag is True else value for value, flag in x_parts]
        flags = (*[True] * len(starts), *[f for _, f in x_parts], *[f for _, f in captured])
        function = self.functions.callee(cell.name, tuple(flags), self.size)
        many = isinstance(x.struct_info, TupleStructInfo)
        operands = [
            function,
            Tuple(tuple(starts)),
            Tuple(tuple(sources)) if many else sources[0],
        ]
        if captured:
            operands.append(Tuple(tuple([value for value, _ in captured])))
        results = self.fields(self.emit(apply("scan", *operands)))
        count = len(starts)
        moved = [*results[:count], *[self.moved(output) for output in results[count:]]]
        return Tuple(tuple(moved)), tuple([True] * len(moved))

    def parts(self, value: Expr) -> list[tuple[Expr, Flags]]:
        """Returns the copies of the fields of a value, with their flags."""
        return self.parts_of(*self.operand(value))

    def parts_of(self, copy: Expr, flags: Flags) -> list[tuple[Expr, Flags]]:
        """Returns the fields of a copy, with their flags."""
        if not isinstance(copy.struct_info, TupleStructInfo):
            return [(copy, flags)]
        fields = self.fields(copy)
        each = flags if isinstance(flags, tuple) else (flags,) * len(fields)
        return list(zip(fields, each, strict=True))

    def moved(self, value: Expr) -> Expr:
        """Returns a tensor with its first two axes exchanged."""
        info: Any = value.struct_info
        rank = info.ndim
        return self.emit(apply("permute_dims", value, [1, 0, *range(2, rank)]))

    def branch(self, value: Any) -> tuple[Expr, Flags]:
        """Returns a conditional; with a batched condition both branches run."""
        cond, flag = self.operand(value.cond)
        if flag is not True:
            first, second = self._side(value.true_branch), self._side(value.false_branch)
            chosen = self.builder.if_else(cond, first, second)
            return chosen, all_mapped(chosen.struct_info)
        branches = (value.true_branch, value.false_branch)
        values = [self.spread(*inner.run(b)) for b in branches for inner in (self.inner(),)]
        result = self.select(cond, *values)
        return result, all_mapped(result.struct_info)

    def inner(self) -> BatchedScope:
        """Returns a scope inside of this one."""
        inner = BatchedScope(self.builder, self.functions, self.size, self.copier)
        inner.values, inner.closures = dict(self.values), dict(self.closures)
        return inner

    def _side(self, branch: SeqExpr) -> Callable[[], Expr]:
        def build() -> Expr:
            inner = self.inner()
            return inner.spread(*inner.run(branch))

        return build

    def select(self, cond: Expr, first: Expr, second: Expr) -> Expr:
        """Returns for each index of the axis one of two values with the axis."""
        if isinstance(first.struct_info, TupleStructInfo):
            pairs = zip(self.fields(first), self.fields(second), strict=True)
            return Tuple(
                tuple([self.select(cond, a, b) for a, b in pairs]), first.struct_info.names
            )
        info: Any = first.struct_info
        sizes = ShapeExpr((self.size, *[1] * (info.ndim - 1)))
        test = self.emit(apply("reshape", cond, sizes)) if info.ndim > 1 else cond
        return self.emit(apply("where", test, first, second))


def _mapped_paths(flags: Sequence[Flags]) -> tuple[Path, ...]:
    paths: list[Path] = []
    for k, flag in enumerate(flags):
        if isinstance(flag, tuple):
            paths += [(k, n) for n, inner in enumerate(flag) if inner is True]
        elif flag:
            paths.append((k,))
    return tuple(paths)


def _info_at(args: Sequence[Expr], path: Path) -> Any:
    info: Any = args[path[0]].struct_info
    return info.fields[path[1]] if len(path) > 1 else info


Rule = Callable[[BatchedScope, Any], tuple[Expr, Flags]]
RULES: dict[type, Rule] = {
    Call: BatchedScope.call,
    If: BatchedScope.branch,
    TupleGetItem: BatchedScope.item,
}
