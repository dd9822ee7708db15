"""Op `grad.adjoint`: the derived adjoint of a call of an op with an index spec.

    dx = R.grad.adjoint(x, w, dy, of="nn.conv2d", by=[0], reads=["gradient 0"], strides=[2, 2])

is the cotangent of `x` for the forward call `R.nn.conv2d(x, w, strides=[2, 2])`, where `dy` is the
cotangent of its result. The arguments are those of the forward call, followed by the tensors named
in `reads`: results, cotangents of results, and parts. A part is an auxiliary tensor in the shape of
a result, such as the number of elements that tie for a maximum. A call of this op with the
attribute `part` computes it. Sizes may be symbolic. Kernels and regions are derived from the
adjoint of the forward call's index spec.
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
from structir.opdef.parameters import OMITTED
from structir.projections.operand_renaming import rename_reads
from structir.projections.spec import IndexSpec, Statement

adjoints = lazy_module("structir.projections.adjoint")
gradient = lazy_module("structir.opdef.gradient")
reference = lazy_module("structir.opdef.reference")

Emit = Callable[[Expr], Expr]  # binds an expression to a variable and returns it
Cotangent = Any  # an Expr, a tuple of cotangents for a tuple, or None where zero
ADJOINT_ATTRIBUTES = ("of", "by", "reads", "part")
MAX_ARGUMENTS = 64
NUMBERED = re.compile(r"\w+ (?:\d+\.)?(\d+)")  # the name of a tensor in the shape of a result


@attrs.define(eq=False)
class AdjointDefinition:
    """The definition of `grad.adjoint`, which delegates to the definition of the forward op."""

    name: str = "grad.adjoint"
    pure: bool = True
    operator: str | None = None
    hooks: dict[str, Any] = attrs.Factory(dict)
    op: Op = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.op = register_op(self)

    argument_names = tuple([f"argument_{k}" for k in range(MAX_ARGUMENTS)])
    leading = MAX_ARGUMENTS
    of_sizes = (False,) * MAX_ARGUMENTS

    @property
    def doc(self) -> str:
        """Returns the documentation of the op."""
        return "Computes the cotangent of an operand of a call from the cotangents of its results."

    def bind(self, args: tuple[Any, ...], keywords: Mapping[str, Any], span: Span | None) -> Call:
        """Builds a call; `keywords` include the attributes of the forward call."""
        attributes = dict(keywords)
        index = {name: k for k, name in enumerate(self.argument_names)}
        named = {index[n]: attributes.pop(n) for n in {*attributes} & {*index}}
        operands = {**dict(enumerate(args)), **named}
        last = max(operands, default=-1)
        arguments = tuple([self._argument(operands.get(k, ()), span) for k in range(last + 1)])
        static = {n: _freeze(v) for n, v in attributes.items()}
        call = Call(self.op, arguments, static, span=span)
        return Call(self.op, arguments, static, (), memoize(self.deduce, call), span)

    def _argument(self, value: Any, span: Span | None) -> Expr:
        if isinstance(value, Expr):
            return value
        if isinstance(value, tuple | list):
            return OMITTED if not value else Tuple(tuple([self._argument(v, span) for v in value]))
        message = f"expected an expression as argument, found {value!r}"
        raise StructInfoError(Diagnostic(message, span, self.name))

    def deduce(self, call: Call) -> StructInfo:
        """Returns the StructInfo of the operand at `by`; for a part, that of its result."""
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
            raise self._error(
                call, f"by: expected the index of a tensor argument, found {call.attrs['by']}"
            )
        return info

    def _check(self, call: Call, forward: Call, results: tuple[StructInfo, ...]) -> None:
        """Checks that each tensor of `reads` has the StructInfo of its result."""
        reads, count = call.attrs["reads"], len(forward.args)
        for name, arg in zip(reads, call.args[count:], strict=True):
            expected = results[self._result_of(call, name, len(results))]
            if arg.struct_info is None or base_check(expected, arg.struct_info) is FAIL_L0:
                raise self._error(call, f"{name}: expected {expected}, found {arg.struct_info}")

    def _result_of(self, call: Call, name: Any, count: int) -> int:
        """Returns the result index in the name of a tensor: `gradient 1`, `ties 0.1`."""
        match = NUMBERED.fullmatch(name) if isinstance(name, str) else None
        if match is None or int(match[1]) >= count:
            raise self._error(call, f"reads: expected a name such as 'gradient 0', found {name!r}")
        return int(match[1])

    def _error(self, call: Call, message: str) -> StructInfoError:
        return StructInfoError(Diagnostic(message, call.span, self.name))

    def forward(self, call: Call) -> Call:
        """Returns the forward call."""
        name, by, reads = (call.attrs.get(n) for n in ADJOINT_ATTRIBUTES[:3])
        op = find_op(name) if isinstance(name, str) else None
        if op is None or not hasattr(op.definition, "index_spec"):
            raise self._error(call, f"of: expected the name of an op, found {name!r}")
        count = len(call.args) - len(reads) if isinstance(reads, tuple) else -1
        if not isinstance(by, tuple) or not by or by[0] not in range(count):
            message = f"expected `by` as an operand index and `reads` as names, found {by}, {reads}"
            raise self._error(call, message)
        static = {n: v for n, v in call.attrs.items() if n not in ADJOINT_ATTRIBUTES}
        if op is self.op:
            static = self._inner(call)
        args = call.args[:count]
        pairs = zip(op.definition.argument_names, args, strict=False)
        named = {n: a for n, a in pairs if not (isinstance(a, Tuple) and not a.fields)}
        try:
            forward = op.definition.bind((), {**named, **static}, call.span)
        except DiagnosticError as error:
            raise self._error(call, f"invalid forward call of {name}: {error}") from None
        return Call(op, args, forward.attrs, (), forward.struct_info, call.span)

    def index_spec(self, call: Call) -> IndexSpec | None:
        """Returns the adjoint of the forward call's index spec, over the arguments of this call."""
        forward = self.forward(call)
        spec = differentiable_spec(forward)
        if spec is None:
            return None
        paths, by, part = [info.path for info in spec.operands], *self._target(call)
        derived = adjoints.adjoint(spec, paths.index(by)) if by in paths else None
        specs = (
            {None: derived.spec, **{h.name: h.spec for h in derived.auxiliary_tensors}}
            if derived
            else {}
        )
        if part not in specs:
            raise self._error(call, f"no adjoint for operand {by}, part {part}")
        first = len(forward.args)
        positions = {n: first + k for k, n in enumerate(call.attrs["reads"])}
        return place_operands(specs[part], len(spec.operands), positions)

    def _target(self, call: Call) -> tuple[Any, Any]:
        return call.attrs["by"], call.attrs.get("part")

    def decompose(self, call: Call) -> None:
        """Returns None: the op has no decomposition."""

    def adjoint(self, call: Call, result: Expr, cotangent: Any, emit: Any) -> list[Any]:
        """Returns the cotangents of the arguments, derived from the adjoint's own index spec."""
        cotangents: list[Any] = gradient.adjoints(self, call, result, cotangent, emit)
        return cotangents

    def attributes_for(self, call: Call) -> dict[str, Any]:
        """Returns the attributes that encode a forward call.

        The attributes of a forward `grad.adjoint` call are the pairs in `inner`.
        """
        name = call.op.name  # type: ignore[attr-defined]
        encoded = {"inner": tuple(call.attrs.items())} if call.op is self.op else call.attrs
        return {**encoded, "of": name}

    def _inner(self, call: Call) -> dict[str, Any]:
        inner = call.attrs.get("inner")
        pairs = inner if isinstance(inner, tuple) else ((),)
        if not all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in pairs):
            raise self._error(call, f"inner: expected pairs of name and value, found {inner!r}")
        return dict(pairs)

    def assumptions(self, call: Call) -> tuple[Any, ...]:
        """Returns nothing: the forward call has the same assumptions."""
        return ()

    def reference(self, call: Call, values: tuple[Any, ...]) -> Any:
        """Computes the result with NumPy."""
        return reference.evaluate(self, call, values)


def differentiable_spec(call: Call) -> IndexSpec | None:
    """Returns the index spec of a call, for differentiation.

    Operands of a `grad.adjoint` call are renamed, so that they differ from those of its adjoint.
    """
    spec: IndexSpec | None = call.op.definition.index_spec(call)  # type: ignore[attr-defined]
    if spec is None or call.op is not ADJOINT:
        return spec
    return rename_reads(spec, {info.name: f"given {info.name}" for info in spec.operands})


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, list | tuple) else value


def fields_of(info: StructInfo | None) -> tuple[StructInfo, ...]:
    """Returns the StructInfo of each result of a call."""
    assert info is not None
    return info.fields if isinstance(info, TupleStructInfo) else (info,)


def operands_read(spec: IndexSpec, first: int) -> list[str]:
    """Returns the names of the operands from index `first` on that a spec reads."""
    indices = {read.operand for statement in spec.statements for read in statement.reads}
    return [info.name for k, info in enumerate(spec.operands) if k >= first and k in indices]


def place_operands(spec: IndexSpec, first: int, positions: Mapping[str, int]) -> IndexSpec:
    """Sets the argument positions of the operands from index `first` on; drops other operands."""
    retained = [k for k, info in enumerate(spec.operands) if k < first or info.name in positions]
    new_indices = {old: new for new, old in enumerate(retained)}
    operands = [spec.operands[k] for k in retained]
    operands[first:] = [attrs.evolve(o, path=(positions[o.name],)) for o in operands[first:]]
    statements = tuple([_renumber(statement, new_indices) for statement in spec.statements])
    return attrs.evolve(spec, operands=tuple(operands), statements=statements)


def _renumber(statement: Statement, new_indices: Mapping[int, int]) -> Statement:
    reads = [attrs.evolve(r, operand=new_indices[r.operand]) for r in statement.reads]
    return attrs.evolve(statement, reads=tuple(reads))


def component(value: Cotangent, index: int, emit: Emit) -> Any:
    """Returns component `index` of a tuple value, or the value itself if it is no tuple."""
    if isinstance(value, tuple):
        return value[index]
    if isinstance(value, Tuple):
        return value.fields[index]
    if value is not None and isinstance(value.struct_info, TupleStructInfo):
        info = value.struct_info.fields[index]
        return emit(TupleGetItem(value, index, info))
    return value


def zeros(like: Expr) -> Expr:
    """Returns a call that creates zeros in the shape and dtype of a tensor."""
    return _filled("zeros_like", like)


def ones(like: Expr) -> Expr:
    """Returns a call that creates ones in the shape and dtype of a tensor."""
    return _filled("ones_like", like)


def _filled(name: str, like: Expr) -> Expr:
    op = find_op(name)
    assert op is not None
    call: Expr = op(like)
    return call


ADJOINT = AdjointDefinition().op
