"""`grad.adjoint`: the gradient of a call of any op whose line and body give one, as a call of its
own.

    dx = R.grad.adjoint(x, w, dy, of="nn.conv2d", by=[0], reads=["gradient 0"], strides=[2, 2])

is what comes back to `x` from the call `R.nn.conv2d(x, w, strides=[2, 2])` where `dy` comes back to
its result. The arguments are those of that call, then the tensors that `reads` names: its results,
what comes back to them, and parts. A part is a tensor in the shape of a result that the gradient
needs beside it, such as how many elements tie for a maximum; it is a call of this op as well, with
the attribute `part`. Sizes may be symbolic: loops, kernels and regions come from the adjoint of the
call's index spec.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from structir.analysis import base_check
from structir.analysis.lattice import FAIL_L0
from structir.errors import Diagnostic, DiagnosticError, Span, StructInfoError
from structir.ir.expr import Call, Expr, Tuple, TupleGetItem
from structir.ir.op import Op, find_op, register_op
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.lazy import lazy_module
from structir.opdef.memo import memoize
from structir.opdef.parameters import NOT_GIVEN
from structir.projections.renamed import rename_reads
from structir.projections.spec import IndexSpec, Statement

adjoints = lazy_module("structir.projections.adjoint")
gradient = lazy_module("structir.opdef.gradient")
reference = lazy_module("structir.opdef.reference")

Emit = Callable[[Expr], Expr]  # binds an expression and gives its variable
Back = Any  # an Expr, a tuple of Backs for a tuple, or None where nothing comes back
OWN = ("of", "by", "reads", "part")
MOST_ARGUMENTS = 64
NUMBERED = re.compile(r"\w+ (?:\d+\.)?(\d+)")  # a tensor in the shape of a result


@attrs.define(eq=False)
class AdjointDefinition:
    """The definition of `grad.adjoint`: all is asked of the op that it is the gradient of."""

    name: str = "grad.adjoint"
    pure: bool = True
    operator: str | None = None
    hooks: dict[str, Any] = attrs.Factory(dict)
    op: Op = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.op = register_op(self)

    argument_names = tuple([f"argument_{k}" for k in range(MOST_ARGUMENTS)])
    leading = MOST_ARGUMENTS
    of_sizes = (False,) * MOST_ARGUMENTS

    @property
    def doc(self) -> str:
        """What the op does."""
        return "What comes back to an operand of a call, from what comes back to its results."

    def bind(self, args: tuple[Any, ...], keywords: Mapping[str, Any], span: Span | None) -> Call:
        """A call from its arguments and attributes, those of the forward call among them."""
        own = dict(keywords)
        places = {name: k for k, name in enumerate(self.argument_names)}
        operands = {**dict(enumerate(args)), **{places[n]: own.pop(n) for n in {*own} & {*places}}}
        last = max(operands, default=-1)
        given = tuple([self._argument(operands.get(k, ()), span) for k in range(last + 1)])
        static = {n: _freeze(v) for n, v in own.items()}
        call = Call(self.op, given, static, span=span)
        return Call(self.op, given, static, (), memoize(self.deduce, call), span)

    def _argument(self, value: Any, span: Span | None) -> Expr:
        if isinstance(value, Expr):
            return value
        if isinstance(value, tuple | list):
            return (
                NOT_GIVEN if not value else Tuple(tuple([self._argument(v, span) for v in value]))
            )
        message = f"an argument is a value of the program, not {value!r}"
        raise StructInfoError(Diagnostic(message, span, self.name))

    def deduce(self, call: Call) -> StructInfo:
        """The StructInfo of the operand; of a part, that of its result."""
        forward = self.forward(call)
        results = fields_of(forward.struct_info)
        self._check(call, forward, results)
        part = call.attrs.get("part")
        if part is not None:
            return results[self._result_of(call, part, len(results))]
        info: Any = forward.args[call.attrs["by"][0]].struct_info
        for member in call.attrs["by"][1:]:
            fields = info.fields if isinstance(info, TupleStructInfo) else ()
            info = fields[member] if member in range(len(fields)) else None
        if not isinstance(info, TensorStructInfo):
            raise self._wrong(call, f"by names no tensor: {call.attrs['by']}")
        return info

    def _check(self, call: Call, forward: Call, results: tuple[StructInfo, ...]) -> None:
        """What comes back is like what it comes back to."""
        reads, count = call.attrs["reads"], len(forward.args)
        for name, arg in zip(reads, call.args[count:], strict=True):
            wanted = results[self._result_of(call, name, len(results))]
            if arg.struct_info is None or base_check(wanted, arg.struct_info) is FAIL_L0:
                raise self._wrong(call, f"{name} must be {wanted}, not {arg.struct_info}")

    def _result_of(self, call: Call, name: Any, count: int) -> int:
        """The number of the result in whose shape a tensor is: `gradient 1`, `ties 0.1`."""
        found = NUMBERED.fullmatch(name) if isinstance(name, str) else None
        if found is None or int(found[1]) >= count:
            raise self._wrong(call, f"there is no {name!r} of a result")
        return int(found[1])

    def _wrong(self, call: Call, message: str) -> StructInfoError:
        return StructInfoError(Diagnostic(message, call.span, self.name))

    def forward(self, call: Call) -> Call:
        """The call that this is the gradient of."""
        name, by, reads = (call.attrs.get(n) for n in OWN[:3])
        op = find_op(name) if isinstance(name, str) else None
        if op is None or not hasattr(op.definition, "index_spec"):
            raise self._wrong(call, f"of must name an op, not {name!r}")
        count = len(call.args) - len(reads) if isinstance(reads, tuple) else -1
        if not isinstance(by, tuple) or not by or by[0] not in range(count):
            message = "by and reads must say which operand, and what the last arguments are"
            raise self._wrong(call, message)
        static = {n: v for n, v in call.attrs.items() if n not in OWN}
        if op is self.op:
            static = self._inner(call)
        args = call.args[:count]
        given = zip(op.definition.argument_names, args, strict=False)
        named = {n: a for n, a in given if not (isinstance(a, Tuple) and not a.fields)}
        try:
            made = op.definition.bind((), {**named, **static}, call.span)
        except DiagnosticError as error:
            raise self._wrong(call, f"there is no such call of {name}: {error}") from None
        return Call(op, args, made.attrs, (), made.struct_info, call.span)

    def index_spec(self, call: Call) -> IndexSpec | None:
        """The adjoint of the forward call's spec, over the arguments of this call."""
        forward = self.forward(call)
        spec = differentiable_spec(forward)
        if spec is None:
            return None
        paths, by, part = [info.path for info in spec.operands], *self._asked(call)
        slope = adjoints.adjoint(spec, paths.index(by)) if by in paths else None
        specs = {None: slope.spec, **{h.name: h.spec for h in slope.helpers}} if slope else {}
        if part not in specs:
            raise self._wrong(call, f"there is no gradient by operand {by}, part {part}")
        made, first = specs[part], len(forward.args)
        read = call.attrs["reads"]
        return place_operands(made, len(spec.operands), {n: first + k for k, n in enumerate(read)})

    def _asked(self, call: Call) -> tuple[Any, Any]:
        return call.attrs["by"], call.attrs.get("part")

    def decompose(self, call: Call) -> None:
        """It has no parts."""

    def adjoint(self, call: Call, result: Expr, back: Any, emit: Any) -> list[Any]:
        """What comes back to the arguments: the adjoint of an adjoint's index spec is one, too."""
        found: list[Any] = gradient.adjoints(self, call, result, back, emit)
        return found

    def attributes_for(self, call: Call) -> dict[str, Any]:
        """The attributes by which a call of this op tells that it is the gradient of a call; those
        of one that is a gradient itself stand together in `inner`."""
        name = call.op.name  # type: ignore[attr-defined]
        own = {"inner": tuple(call.attrs.items())} if call.op is self.op else call.attrs
        return {**own, "of": name}

    def _inner(self, call: Call) -> dict[str, Any]:
        inner = call.attrs.get("inner")
        pairs = inner if isinstance(inner, tuple) else ((),)
        if not all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in pairs):
            raise self._wrong(call, "inner must hold the attributes of the gradient, in pairs")
        return dict(pairs)

    def assumptions(self, call: Call) -> tuple[Any, ...]:
        """Nothing is assumed that the forward call does not assume."""
        return ()

    def reference(self, call: Call, values: tuple[Any, ...]) -> Any:
        """The result in NumPy."""
        return reference.evaluate(self, call, values)


def differentiable_spec(call: Call) -> IndexSpec | None:
    """The index spec of a call, to be differentiated. That of a gradient reads what comes back to
    results; it does so under other names than the gradient of it will."""
    spec: IndexSpec | None = call.op.definition.index_spec(call)  # type: ignore[attr-defined]
    if spec is None or call.op is not ADJOINT:
        return spec
    return rename_reads(spec, {info.name: f"given {info.name}" for info in spec.operands})


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, list | tuple) else value


def fields_of(info: StructInfo | None) -> tuple[StructInfo, ...]:
    """The infos of the results of a call."""
    assert info is not None
    return info.fields if isinstance(info, TupleStructInfo) else (info,)


def operands_read(spec: IndexSpec, own: int) -> list[str]:
    """The operands beyond the first `own` that a spec reads, by name."""
    read = {read.operand for clause in spec.clauses for read in clause.reads}
    return [info.name for k, info in enumerate(spec.operands) if k >= own and k in read]


def place_operands(spec: IndexSpec, own: int, places: Mapping[str, int]) -> IndexSpec:
    """A spec whose operands beyond the first `own` stand at these places among the arguments;
    those without one are left out."""
    kept = [k for k, info in enumerate(spec.operands) if k < own or info.name in places]
    number = {old: new for new, old in enumerate(kept)}
    operands = [spec.operands[k] for k in kept]
    operands[own:] = [attrs.evolve(o, path=(places[o.name],)) for o in operands[own:]]
    clauses = tuple([_renumber(clause, number) for clause in spec.clauses])
    return attrs.evolve(spec, operands=tuple(operands), clauses=clauses)


def _renumber(clause: Statement, number: Mapping[int, int]) -> Statement:
    reads = [attrs.evolve(r, operand=number[r.operand]) for r in clause.reads]
    return attrs.evolve(clause, reads=tuple(reads))


def component(value: Back, number: int, emit: Emit) -> Any:
    """One result of several, or the only one."""
    if isinstance(value, tuple):
        return value[number]
    if isinstance(value, Tuple):
        return value.fields[number]
    if value is not None and isinstance(value.struct_info, TupleStructInfo):
        info = value.struct_info.fields[number]
        return emit(TupleGetItem(value, number, info))
    return value


def zeros(like: Expr) -> Expr:
    """Nothing, in the shape of a tensor."""
    op = find_op("zeros_like")
    assert op is not None
    made: Expr = op(like)
    return made


ADJOINT = AdjointDefinition().op
