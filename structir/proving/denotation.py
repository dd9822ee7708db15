"""The meaning of a function: its results as terms over its parameters, and its checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from structir.analysis.purity import is_pure_call
from structir.analysis.substitution import Substitution
from structir.analysis.variables import free_vars, walk
from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import (
    Binding,
    Call,
    Constant,
    DataTypeImm,
    Expr,
    Function,
    GlobalVar,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.op import Op
from structir.ir.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.proving.parameters import dims_in_info, parameter
from structir.proving.specs import SpecTerms
from structir.proving.terms import ApplyTerm, ScalarTerm, SizeTerm, Unknown, dim_key
from structir.proving.values import (
    Index,
    PlainValue,
    TensorValue,
    TupleValue,
    Undecided,
    UnknownValue,
    as_argument,
    flattened,
    key_of,
    number,
    of_array,
)

DEPTH = 40  # of calls of functions
Functions = Mapping[str, Any]  # functions and kernels by name


@attrs.define(eq=False)
class Denotation:
    """The meaning of one program: `checks` and `effects` are keys of what it does beyond results.

    `assumptions` are keys of conditions on sizes that ops check at run time.
    """

    functions: Functions = attrs.Factory(dict)
    exact: bool = False
    unknown_dims: dict[Any, Sym] = attrs.Factory(dict)  # shared by the programs that are compared
    checks: set[Any] = attrs.Factory(set)
    assumptions: set[Any] = attrs.Factory(set)
    effects: list[Any] = attrs.Factory(list)
    active: list[str] = attrs.Factory(list)  # functions whose calls are being replaced
    level: int = 0  # of functions whose results for unknown arguments are computed

    def function(
        self, function: Function, args: Sequence[Any], sizes: Mapping[Sym, Dim], depth: int = 0
    ) -> Any:
        """Returns the value of a call of a function; `sizes` are the dims of its parameters."""
        if depth > DEPTH:
            raise Undecided("a recursive function")
        scope = Scope(self, dict(sizes), depth)
        for param, arg in zip(function.params, args, strict=True):
            scope.bind_dims(param.struct_info, arg)
            scope.values[param] = arg
        declared = {
            s for d in dims_in_info([p.struct_info for p in function.params]) for s in dims.syms(d)
        }
        if depth and declared - scope.sizes.keys():
            raise Undecided("a call whose arguments do not determine its sizes")
        return scope.sequence(function.body)


@attrs.define(eq=False)
class Scope:
    """The values of the variables of one function, and its dims in those of the program."""

    program: Denotation
    sizes: dict[Sym, Dim]
    depth: int = 0
    values: dict[Var, Any] = attrs.Factory(dict)

    def dim(self, dim: Dim) -> Dim:
        """Returns a dim of the function as a dim of the program."""
        return dims.substitute(dim, self.sizes)

    # ---- bindings

    def sequence(self, body: SeqExpr) -> Any:
        """Returns the value of a sequence of bindings."""
        for binding in body.bindings():
            self._bind(binding)
        return self.value(body.body)

    def _bind(self, binding: Binding) -> None:
        value = self.value(binding.value)
        if isinstance(binding, MatchCast):
            value = self._match_cast(binding.struct_info, value)
        self.values[binding.var] = value

    def value(self, expr: Expr) -> Any:
        """Returns the value of an expression."""
        match expr:
            case Var():
                return self.values[expr]
            case Constant(data):
                return of_array(data)
            case PrimValue(value):
                return self._scalar(value, expr.struct_info)
            case ShapeExpr():
                return PlainValue(tuple([self.dim(d) for d in expr.dims]))
            case StringImm(value) | DataTypeImm(value):
                return PlainValue(value)
            case Tuple(fields):
                return TupleValue(tuple([self.value(f) for f in fields]))
            case TupleGetItem(tuple_value, index):
                return self._field(self.value(tuple_value), index, expr.struct_info)
            case SeqExpr():
                return self.sequence(expr)
            case If():
                return self._branches(expr)
            case Function():
                return self._closure(expr)
            case GlobalVar(name):
                return UnknownValue(("function", name, self._text(name, frozenset())))
            case Call():
                return self._call(expr)
        raise Undecided(f"unsupported expression {type(expr).__name__}")

    def _scalar(self, value: Any, info: Any) -> Any:
        if isinstance(value, bool | float):
            return TensorValue((), info.dtype, lambda _: number(value, info.dtype))
        dim = self.dim(value)
        if info.dtype == "bool":
            return PlainValue(("condition", dim))
        return TensorValue((), info.dtype, lambda _: SizeTerm(dim, info.dtype))

    def _field(self, value: Any, index: int, info: Any) -> Any:
        if isinstance(value, TupleValue):
            return value.fields[index]
        return self._unknown("field", (index,), [value], info)

    # ---- calls

    def _call(self, call: Call) -> Any:
        if isinstance(call.op, Op):
            return self._op(call)
        if isinstance(call.op, GlobalVar) and call.op.name in self.program.functions:
            return self._call_global(call.op.name, call)
        if isinstance(call.op, Var) and isinstance(self.values.get(call.op), ClosureValue):
            return self._call_local(self.values[call.op], call)
        if not isinstance(call.op, Var):
            raise Undecided(f"a call of {call.op}")
        args = [self.value(a) for a in (call.op, *call.args)]
        self.program.effects.append(len(self.program.effects))
        return self._unknown("call", (len(self.program.effects),), args, call.struct_info)

    def _call_global(self, name: str, call: Call) -> Any:
        """Returns the result of a function; those of kernels and recursive calls are unknown."""
        function = self.program.functions[name]
        args = [self.value(a) for a in call.args]
        active = self.program.active
        if isinstance(function, Function) and name not in active:
            active.append(name)
            value = self.program.function(function, args, {}, self.depth + 1)
            active.pop()
            return value
        if not is_pure_call(call):
            raise Undecided(f"a call of {name}, which has effects")
        return self._unknown("call", (self._text(name, frozenset()),), args, call.struct_info)

    def _call_local(self, local: ClosureValue, call: Call) -> Any:
        if self.depth > DEPTH:
            raise Undecided("a recursive function")
        inner = Scope(
            self.program, dict(local.scope.sizes), self.depth + 1, dict(local.scope.values)
        )
        for param, arg in zip(local.function.params, call.args, strict=True):
            value = self.value(arg)
            inner.bind_dims(param.struct_info, value)
            inner.values[param] = value
        return inner.sequence(local.function.body)

    def _op(self, call: Call) -> Any:
        definition: Any = call.op.definition  # type: ignore[attr-defined]
        args = [self.value(a) for a in call.args]
        name: str = definition.name
        effect: tuple[int, ...] = ()
        if not definition.pure:
            self.program.effects.append((name, key_of(dict(call.attrs)), *map(as_argument, args)))
            effect = (len(self.program.effects),)
        self._assume(definition, call)
        spec = _spec_of(definition, call) if definition.pure else None
        if spec is not None and spec.computes and not spec.whole:
            operands = [self._operand(args, o.path) for o in spec.operands]
            if None not in operands:
                results = SpecTerms(spec, operands, self.dim, self.program.exact).results()  # type: ignore[arg-type]
                return self._guarded(results, name, call, args)
        parts = _decomposed(definition, call) if definition.pure else None
        if parts is not None:
            return self.value(parts)
        return self._unknown(name, (*effect, *self._attributes(call)), args, call.struct_info)

    def _attributes(self, call: Call) -> Any:
        attributes = {n: self._attribute(v) for n, v in call.attrs.items()}
        infos = [key_of(info) for info in call.sinfo_args]
        if call.sinfo_args and dims_in_info(call.sinfo_args):
            infos.append(
                ("sizes", tuple([dim_key(self.dim(d)) for d in dims_in_info(call.sinfo_args)]))
            )
        return key_of(attributes), tuple(infos)

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, dims.Poly):
            return self.dim(value)
        return tuple(map(self._attribute, value)) if isinstance(value, tuple) else value

    def _guarded(self, results: Sequence[TensorValue], name: str, call: Call, args: Any) -> Any:
        """Returns results whose elements are unknown where they have no terms."""
        info = call.struct_info
        many = isinstance(info, TupleStructInfo)
        unknown = self._lazily(name, call, args)

        def fallback(k: int, exact: TensorValue) -> TensorValue:
            def element(index: Index) -> ScalarTerm:
                try:
                    return exact.at(index)
                except Undecided:
                    other = unknown()
                    other = other.fields[k] if many else other
                    if not isinstance(other, TensorValue):
                        raise
                    return other.at(index)

            return TensorValue(exact.dims, exact.dtype, element)

        tensors = tuple([fallback(k, r) for k, r in enumerate(results)])
        return TupleValue(tensors) if many else tensors[0]

    def _lazily(self, name: str, call: Call, args: Any) -> Any:
        cached: list[Any] = []

        def unknown() -> Any:
            if not cached:
                cached.append(self._unknown(name, self._attributes(call), args, call.struct_info))
            return cached[0]

        return unknown

    def _operand(self, args: Sequence[Any], path: tuple[int, ...]) -> TensorValue | None:
        value = args[path[0]]
        for field in path[1:]:
            value = value.fields[field] if isinstance(value, TupleValue) else None
        return value if isinstance(value, TensorValue) else None

    def _assume(self, definition: Any, call: Call) -> None:
        find = getattr(definition, "assumptions", None)
        try:
            assumptions = find(call) if find is not None else ()
        except DiagnosticError:
            assumptions = ()
        for each in assumptions:
            sides = [self.dim(each.left), self.dim(each.right)]
            if dims.equal(*sides) is not True and not (each.broadcasts and sides[0] == 1):
                keys = [dim_key(side) for side in sides]
                self.program.assumptions.add(tuple(keys if each.broadcasts else sorted(keys)))

    def _unknown(self, name: str, attributes: Any, args: Sequence[Any], info: Any) -> Any:
        """Returns the result of an unknown function of arguments."""
        arguments = flattened(tuple([as_argument(a) for a in args]))

        def of(info: Any, path: tuple[int, ...]) -> Any:
            if isinstance(info, TupleStructInfo):
                return TupleValue(tuple([of(f, (*path, k)) for k, f in enumerate(info.fields)]))
            key = (name, attributes, arguments, path)
            if isinstance(info, TensorStructInfo) and isinstance(info.dims, tuple) and info.dtype:
                sizes = tuple([self._known(d, key) for d in info.dims])
                dtype = info.dtype
                return TensorValue(
                    sizes,
                    dtype,
                    lambda index: Unknown(name, (attributes, path), arguments, 0, index, dtype),
                )
            if isinstance(info, ShapeStructInfo) and isinstance(info.dims, tuple):
                return PlainValue(tuple([self._known(d, key) for d in info.dims]))
            return UnknownValue(key)

        return of(info, ())

    def _known(self, dim: Dim, key: Any) -> Dim:
        return self.dim(dim)

    # ---- control flow

    def _branches(self, expr: If) -> Any:
        condition, program = self.value(expr.cond), self.program
        effects, checks = program.effects, program.checks
        values, own = [], []
        for branch in (expr.true_branch, expr.false_branch):
            program.effects, program.checks = [*effects], set()  # results of effects are numbered
            scope = Scope(program, dict(self.sizes), self.depth, dict(self.values))
            values.append(scope.sequence(branch))
            own.append((tuple(program.effects[len(effects) :]), frozenset(program.checks)))
        program.effects, program.checks = effects, checks
        where = as_argument(condition)
        if own[0][0] or own[1][0]:
            effects.append(("if", where, own[0][0], own[1][0]))
        if own[0][1] or own[1][1]:
            checks.add(("if", where, own[0][1], own[1][1]))
        return self._chosen(condition, values[0], values[1], expr.struct_info)

    def _chosen(self, condition: Any, a: Any, b: Any, info: Any) -> Any:
        """Returns the value of a branch; an unknown function of both where shapes differ."""
        if isinstance(a, TupleValue) and isinstance(b, TupleValue):
            infos = info.fields if isinstance(info, TupleStructInfo) else [None] * len(a.fields)
            pairs = zip(a.fields, b.fields, infos, strict=True)
            return TupleValue(tuple([self._chosen(condition, x, y, i) for x, y, i in pairs]))
        both = isinstance(a, TensorValue) and isinstance(b, TensorValue)
        has_terms = isinstance(condition, TensorValue) and not condition.dims
        if not both or not has_terms or a.dims != b.dims or a.dtype != b.dtype:
            return self._unknown("if", (), [condition, a, b], info)
        where = condition.at(())
        return TensorValue(
            a.dims, a.dtype, lambda i: ApplyTerm("select", (where, a.at(i), b.at(i)), a.dtype)
        )

    def _closure(self, function: Function) -> Any:
        captured = [self.values[v] for v in free_vars(function) if v in self.values]
        called = sorted({n.name for n in walk(function) if isinstance(n, GlobalVar)})
        texts = tuple([self._text(n, frozenset()) for n in called])
        key = "closure", str(function), texts, tuple(map(as_argument, captured))
        return ClosureValue(self._results(function) or key, function, self)

    def _results(self, function: Function) -> Any:
        """Returns a key of the results of a function for unknown arguments, or None.

        The level distinguishes its parameters from those of the functions around it.
        """
        program, level = self.program, self.program.level
        outer = program.effects, program.checks, program.assumptions
        program.effects, program.checks, program.assumptions = [*outer[0]], set(), set()
        program.level += 1
        scope = Scope(program, dict(self.sizes), self.depth, dict(self.values))
        infos = [Substitution(dims=self.sizes).info(p.struct_info) for p in function.params]
        try:
            if {s for d in dims_in_info(infos) for s in dims.syms(d)} - self.known_sizes():
                return None  # each call binds a size
            for k, (param, info) in enumerate(zip(function.params, infos, strict=True)):
                scope.values[param] = parameter(info, (level, k))
            result = as_argument(scope.sequence(function.body))
            checked = frozenset(program.checks), frozenset(program.assumptions)
            done = tuple(program.effects[len(outer[0]) :]), *checked
            return "results", level, key_of(tuple(infos)), result, done
        except (Undecided, DiagnosticError, KeyError):
            return None
        finally:
            program.effects, program.checks, program.assumptions = outer
            program.level = level

    def known_sizes(self) -> set[Sym]:
        """Returns the variables in the sizes of this function."""
        return {s for d in self.sizes.values() for s in dims.syms(d)}

    def _text(self, name: str, seen: frozenset[str]) -> Any:
        """Returns the text of a function with those of the functions that it calls."""
        function = self.program.functions.get(name)
        if function is None or name in seen:
            return name
        if not isinstance(function, Function):
            return str(function)
        called = sorted({n.name for n in walk(function) if isinstance(n, GlobalVar)})
        return (str(function), *[self._text(n, seen | {name}) for n in called])

    # ---- dims

    def bind_dims(self, info: StructInfo, value: Any) -> None:
        """Binds the dims of a parameter to the sizes of its argument."""
        if isinstance(info, TupleStructInfo) and isinstance(value, TupleValue):
            for field, part in zip(info.fields, value.fields, strict=True):
                self.bind_dims(field, part)
            return
        sizes = value.dims if isinstance(value, TensorValue) else None
        if isinstance(value, PlainValue) and isinstance(value.value, tuple):
            sizes = value.value
        declared = getattr(info, "dims", None)
        if isinstance(info, PrimStructInfo) and isinstance(value, TensorValue):
            term = value.at(())
            declared = (info.value,) if info.value is not None else None
            sizes = (term.dim,) if isinstance(term, SizeTerm) else None
        if not isinstance(declared, tuple) or sizes is None or len(sizes) != len(declared):
            return
        for dim, size in zip(declared, sizes, strict=True):
            variable = dims.as_sym(dim) if isinstance(dim, dims.Poly) else None
            if (
                variable is not None
                and variable not in self.sizes
                and isinstance(size, int | dims.Poly)
            ):
                self.sizes[variable] = size

    def _match_cast(self, info: StructInfo, value: Any) -> Any:
        """Returns a value with its declared structure; records what is checked."""
        self.bind_dims(info, value)
        if isinstance(info, TupleStructInfo) and isinstance(value, TupleValue):
            pairs = zip(info.fields, value.fields, strict=True)
            return TupleValue(tuple([self._match_cast(i, v) for i, v in pairs]))
        declared = getattr(info, "dims", None)
        if isinstance(declared, tuple) and isinstance(value, TensorValue | PlainValue):
            sizes = value.dims if isinstance(value, TensorValue) else value.value
            own = tuple([self.dim(d) for d in declared])
            if isinstance(sizes, tuple) and len(sizes) == len(own):
                for size, dim in zip(sizes, own, strict=True):
                    if dims.equal(size, dim) is not True:
                        self.program.checks.add(tuple(sorted([dim_key(size), dim_key(dim)])))
                if isinstance(value, TensorValue) and getattr(info, "dtype", None) in (
                    None,
                    value.dtype,
                ):
                    return TensorValue(own, value.dtype, value.at)
                if isinstance(value, PlainValue):
                    return value
        return self._cast_unknown(info, value)

    def _cast_unknown(self, info: StructInfo, value: Any) -> Any:
        """Returns a value of unknown structure with the declared one; its new dims are unknown."""
        key = as_argument(value)
        for k, dim in enumerate(dims_in_info((info,))):
            variable = dims.as_sym(dim)
            if variable is not None and variable not in self.sizes:
                name = ("dim", getattr(key, "key", key), k)
                symbol = self.program.unknown_dims.setdefault(name, Sym(variable.name))
                self.sizes[variable] = dims.as_dim(symbol)
        sizes = tuple([dim_key(self.dim(d)) for d in dims_in_info((info,))])
        self.program.checks.add(("cast", getattr(key, "key", key), sizes))
        return self._unknown("match_cast", (), [value], info)


@attrs.frozen(eq=False)
class ClosureValue(UnknownValue):
    """A function inside of a function, with the scope that it captures."""

    function: Function
    scope: Scope


def _spec_of(definition: Any, call: Call) -> Any:
    find = getattr(definition, "index_spec", None)
    try:
        return find(call) if find is not None else None
    except DiagnosticError:
        return None


def _decomposed(definition: Any, call: Call) -> Expr | None:
    find = getattr(definition, "decompose", None)
    try:
        parts: Expr | None = find(call) if find is not None else None
    except DiagnosticError:
        return None
    return parts
