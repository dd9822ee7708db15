"""Proves that a function of ragged tensors computes each row of its results from the same row."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.analysis.substitution import Substitution
from structir.analysis.variables import symbols_in
from structir.build import BlockBuilder
from structir.errors import Diagnostic, DiagnosticError, StructInfoError, StructIRError
from structir.ir.bodies import bindings_of
from structir.ir.dims import Sym, as_dim, as_sym, sym, syms
from structir.ir.expr import Call, Function, MatchCast, Tuple, TupleGetItem, Var
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo
from structir.ops.ragged import check_ragged, has_ragged_axis
from structir.projections.boxes import Region, region
from structir.projections.program import CallOrigin, Program, info_of, leaves, program_of
from structir.ragged.module import is_ragged

LENGTH = 3  # of every row in the dense program whose regions are compared


@attrs.frozen(eq=False)
class DenseRows:
    """A function with a dense axis in place of each ragged one, whose regions show what a row
    requires."""

    function: Function
    rows: Sym  # the size of the first axis of the ragged parameters
    length: Sym

    @property
    def sliced(self) -> tuple[bool, ...]:
        """Whether each parameter has the axis of rows, and is cut along it."""
        return tuple([self.rows in symbols_in(p.struct_info) for p in self.function.params])

    def check(self, sizes: Mapping[Any, int], blocks: Sequence[tuple[int, int]]) -> None:
        """Raises DiagnosticError unless each block of rows of the results requires the same block
        of the cut parameters, and equal regions of everything else."""
        by_symbol: dict[Sym | str, int] = {self.length: LENGTH}
        by_symbol.update(sizes)
        program = program_of(self.function, by_symbol, parts=True)
        cut: set[Any] = {
            (p, ()) for p, along in zip(self.function.params, self.sliced, strict=True) if along
        }
        self._check_positions(program, cut)
        others: list[Mapping[Hashable, Region]] = []
        for start, stop in blocks:
            wanted = {key: _rows(program, key, start, stop) for key in leaves(program.result)}
            regions = program.required_regions(wanted)
            for key in cut & regions.keys():
                if not regions[key].within(_rows(program, key, start, stop)):
                    raise self._error("the result requires other rows of", key)
            sources = {*_sources(program)} - cut
            others.append({key: regions[key] for key in sources if regions.get(key)})
            for key in others[0].keys() | others[-1].keys():
                first, last = (part.get(key, Region()) for part in (others[0], others[-1]))
                if not (first.within(last) and last.within(first)):
                    raise self._error("the rows require different elements of", key)

    def _check_positions(self, program: Program, cut: set[Any]) -> None:
        """Raises DiagnosticError for values that depend on the number of a row, and for values of
        all rows."""
        whole = {key: _rows(program, key, 0, program.sizes[self.rows]) for key in cut}
        affected = program.affected_regions(whole)
        for step in program.steps:
            origin = step.origin
            spec = origin.spec if isinstance(origin, CallOrigin) else None
            depends = any([affected.get(key) for key in step.outputs])
            for key in step.outputs:
                owner: Any = key
                named = isinstance(owner[0], Var)  # not a part of a decomposition
                if depends and named and _first(info_of(key)) != self.rows:
                    raise self._error("all rows are reduced in", key)
            if depends and isinstance(origin, CallOrigin) and (spec is None or _uses_index(spec)):
                raise self._error("an op depends on the index of its elements:", step.outputs[0])

    def _error(self, reason: str, key: Any) -> DiagnosticError:
        owner = key[0]
        return _unsupported(f"{reason} `{getattr(owner, 'name', 'a constant')}`", owner.span)


def _uses_index(spec: Any) -> bool:
    """Whether values or conditions of a spec depend on index variables or sizes."""
    return any(
        [
            bool(s.conditions)
            or any([w.value is None or w.uses_index_vars for w in s.writes])
            or any([e.loose or not e.inside for r in s.reads for e in r.entries])
            for s in spec.statements
        ]
    )


def _sources(program: Program) -> Iterator[Hashable]:
    """Yields the parameters and constants of a program."""
    computed = {key for step in program.steps for key in step.outputs}
    yield from [key for key in program.shapes if key not in computed]


def _rows(program: Program, key: Any, start: int, stop: int) -> Region:
    shape = program.shapes[key]
    return region((start, *[0] * (len(shape) - 1)), (stop, *shape[1:]))


def _unsupported(reason: str, span: Any) -> DiagnosticError:
    message = f"cannot shard by rows: {reason}"
    hint = "pad the ragged parameters, `x.to_padded()`, and shard the dense program"
    return DiagnosticError(Diagnostic(message, span, hint=hint, code="E1122"))


def dense_rows(module: IRModule, function: Function) -> DenseRows:
    """Returns the dense form of a function of ragged tensors.

    Raises DiagnosticError for functions that are no sequence of ops over one axis of rows.
    """
    ragged = [p for p in function.params if has_ragged_axis(p.struct_info)]
    for param in function.params:
        if is_ragged(param.struct_info) and param not in ragged:
            raise _unsupported(
                f"expected a ragged tensor, found the tuple `{param.name}`", param.span
            )
    infos: list[Any] = [p.struct_info for p in ragged]
    firsts = {as_sym(info.axes[0]) for info in infos}
    rows = firsts.pop()
    if firsts or rows is None:
        raise _unsupported("expected one symbolic number of rows of", ragged[0].span)
    length: Any = as_sym(sym("length of rows"))  # no name of a program
    builder, substitution = BlockBuilder(module), Substitution()
    params = [Var(p.name, _dense_info(p.struct_info, length), p.span) for p in function.params]
    substitution.variables.update(zip(function.params, params, strict=True))
    with builder.function("main", params):
        for binding in bindings_of(function):
            value = binding.value
            _check_value(binding, value, rows)
            if isinstance(value, Var):
                substitution.variables[binding.var] = substitution.part(value)
                continue
            own = substitution.part(value)
            if isinstance(own, Call):
                own = replace(own, struct_info=None)
            try:
                new = builder.emit(own, binding.var.name, span=binding.span)
            except (StructInfoError, StructIRError, TypeError) as error:
                name = binding.var.name
                raise _unsupported(f"no dense form of `{name}`", value.span) from error
            substitution.variables[binding.var] = new
        builder.emit_func_output(substitution.part(function.body.body))
    dense: Any = builder.functions["main"]
    form = DenseRows(dense, rows, length)
    _check_sizes(form, function)
    return form


def _first(info: Any) -> Sym | None:
    """The symbol that is the size of the first axis, if any."""
    dims = info.dims if isinstance(info, TensorStructInfo) else None
    return as_sym(dims[0]) if dims else None


def _dense_info(info: Any, length: Sym) -> Any:
    if not has_ragged_axis(info):
        return info
    position = check_ragged(info)
    axes = (*info.axes[:position], as_dim(length), *info.axes[position + 1 :])
    return TensorStructInfo(axes, info.element)


def _check_value(binding: Any, value: Any, rows: Sym) -> None:
    """Raises DiagnosticError for bindings other than calls of pure ops that do not use the number
    of rows."""
    simple = isinstance(value, Var | Tuple | TupleGetItem)
    call = isinstance(value, Call) and isinstance(value.op, Op)
    if isinstance(binding, MatchCast) or not (simple or call):
        raise _unsupported(f"expected a call of an op in `{binding.var.name}`", value.span)
    if not isinstance(value, Call):
        return
    fields = [f for a in value.args for f in (a.fields if isinstance(a, Tuple) else (a,))]
    arguments = [field for field in fields if not isinstance(field, Var)]
    if any([rows in symbols_in(part) for part in (*arguments, *value.attrs.values())]):
        raise _unsupported("an op uses the number of rows", value.span)


def _check_sizes(form: DenseRows, function: Function) -> None:
    """Raises DiagnosticError unless the number of rows is the first axis of each value that has
    it, and of all results."""
    dense = form.function
    for var in (*dense.params, *[b.var for b in bindings_of(dense)]):
        for info in _fields(var.struct_info):
            used = form.rows in symbols_in(info)
            inner = (getattr(info, "dims", None) or ())[1:] if used else ()
            if used and (_first(info) != form.rows or any([form.rows in syms(a) for a in inner])):
                reason = f"expected rows only in the first axis of `{var.name}`"
                raise _unsupported(reason, var.span)
    for info in _fields(dense.body.body.struct_info):
        if _first(info) != form.rows:
            raise _unsupported("expected rows in the first axis of each result", function.span)


def _fields(info: Any) -> tuple[Any, ...]:
    return info.fields if isinstance(info, TupleStructInfo) else (info,)
