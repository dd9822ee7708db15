"""Index signatures that calls of external functions declare: `index="x[i, k], w[k, j] -> y[i, j]"`.

The operands of the signature are the tensors among the arguments, in order; the results are those
of the call. The declaration states that the function computes a block of its results from the
blocks of its operands that the signature gives.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import attrs

from structir.errors import Diagnostic, Note, StructInfoError
from structir.ir import dims
from structir.ir.expr import Call, Expr, ExternFunc, Tuple, Var
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.opdef import deduction
from structir.opdef.declaration import DeclaredOp
from structir.opdef.index_specs import index_spec
from structir.opdef.notation import IndexSignature, NotationError, parse_index_signature
from structir.opdef.shape_eval import ResolvedShapes
from structir.projections.execution_cost import as_rates
from structir.projections.spec import IndexSpec

Array = Any
CODE = "E0661"
INDEX, COST = "index", "cost"  # attributes of calls of external functions
CALL_DPS = "structir.call_dps"  # its second argument has the operands
EXAMPLE = '`index="x[i, k], w[k, j] -> y[i, j]"`'


@attrs.define(eq=False, slots=False)
class ExternDefinition(DeclaredOp):
    """The definition of an external function for one call: its index signature, without a body."""

    result: StructInfo | None = None

    def resolve(self, call: Call) -> ResolvedShapes:
        """Resolves the index signature for the operands."""
        return deduction.resolved_call(self, call.args, call.attrs, call.span)

    def deduce(self, call: Call) -> StructInfo:
        """Returns the declared StructInfo of the results."""
        assert self.result is not None
        return self.result


def extern_spec(call: Call) -> IndexSpec | None:
    """Returns the index spec that a call declares; None without a declaration."""
    text = call.attrs.get(INDEX) if isinstance(call.op, ExternFunc) else None
    if text is None:
        return None
    operands = list(_operands(call))
    definition = _definition(call, text)
    plain = Call(call.op, tuple([arg for _, arg in operands]), {}, (), call.struct_info, call.span)
    spec = index_spec(definition, plain)  # type: ignore[arg-type]
    if spec is None:
        return None
    infos = [attrs.evolve(o, path=operands[o.path[0]][0]) for o in spec.operands]
    return attrs.evolve(spec, operands=tuple(infos))


def check_declaration(call: Call) -> None:
    """Raises StructInfoError for a declaration that does not fit the operands or the results."""
    if COST in call.attrs:
        as_rates(call.attrs[COST], COST, call.span)
    text = call.attrs.get(INDEX)
    if text is None:
        return
    definition = _definition(call, text)
    signature = _parsed(call, text)
    args = [arg for _, arg in _operands(call)]
    if len(signature.operands) != len(args):
        mismatch = f"expected {len(signature.operands)} tensors as operands, found {len(args)}"
        raise _error(call, f"index: {mismatch}", f"name each operand: {EXAMPLE}")
    results = _tensors(call.struct_info)
    if len(signature.results) != len(results):
        mismatch = f"expected {len(signature.results)} results, found {len(results)}"
        raise _error(call, f"index: {mismatch}", "declare the results: `sinfo_args=...`")
    for access, info in zip(signature.results, results, strict=True):
        if not isinstance(info, TensorStructInfo) or not isinstance(info.dims, tuple):
            message = f"index: expected {access.text} as a tensor of known sizes, found {info}"
            raise _error(call, message, 'declare it: `sinfo_args=R.Tensor((n,), "float32")`')
    plain = Call(call.op, tuple(args), {}, (), call.struct_info, call.span)
    _check_results(call, signature, definition.resolve(plain), results)


def _check_results(
    call: Call, signature: IndexSignature, resolved: ResolvedShapes, results: Sequence[Any]
) -> None:
    """Compares the sizes of the results with the index signature."""
    for k, (access, info) in enumerate(zip(signature.results, results, strict=True)):
        sizes = resolved.sizes(k)
        if sizes is None:
            continue
        if len(sizes) != len(info.dims):
            message = f"index: expected {access.text} of rank {len(sizes)}, found {info}"
            raise _error(call, message, f"give it {len(info.dims)} indices, or change `sinfo_args`")
        for axis, (size, declared) in enumerate(zip(sizes, info.dims, strict=True)):
            if dims.equal(size, declared) is False:
                expected = f"expected {dims.text(size)} by the signature"
                message = f"index: axis {axis} of {access.text}: {expected}, found "
                message += dims.text(declared)
                raise _error(call, message, f"declare the result with {dims.text(size)} there")


def _definition(call: Call, text: str) -> ExternDefinition:
    signature = _parsed(call, text)
    names = tuple([access.name for access in signature.operands])
    name = call.op.global_symbol  # type: ignore[attr-defined]
    definition = ExternDefinition(name, text, _body(names))
    definition.result = call.struct_info
    return definition


@lru_cache(256)
def _body(names: tuple[str, ...]) -> Any:
    """Returns a body on arrays with these parameters, which is never called."""

    def body(**arrays: Array) -> Array:
        raise NotImplementedError

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind, annotation=Array) for name in names]
    body.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    body.__annotations__ = {"return": Array}
    return body


def _parsed(call: Call, text: str) -> IndexSignature:
    try:
        return parse_index_signature(text.replace("\n", " "))
    except NotationError as error:
        message = f"index: {error.diagnostics[0].message}"
        wrong = error.text or text
        column = min(max(error.column, 0), len(wrong))
        shown = Note(f"in {text!r}, at {wrong[column:] or 'its end'!r}")
        diagnostic = _error(call, message, EXAMPLE).diagnostics[0]
        raise StructInfoError(attrs.evolve(diagnostic, notes=(shown,))) from None


def _operands(call: Call) -> Iterator[tuple[tuple[int, ...], Expr]]:
    """Yields the path and the expression of each tensor among the arguments."""
    args: Sequence[tuple[int, Expr]] = list(enumerate(call.args))
    if getattr(call.op, "global_symbol", None) == CALL_DPS:
        args = args[1:2]
    for k, arg in args:
        if isinstance(arg, Tuple):
            for j, field in enumerate(arg.fields):
                if isinstance(field.struct_info, TensorStructInfo):
                    yield (k, j), field
        elif isinstance(arg.struct_info, TensorStructInfo):
            yield (k,), arg


def _tensors(info: StructInfo | None) -> Sequence[StructInfo | None]:
    return info.fields if isinstance(info, TupleStructInfo) else [info]


def _error(call: Call, message: str, hint: str) -> StructInfoError:
    name = getattr(call.op, "global_symbol", None)
    diagnostic = Diagnostic(message, call.span, name, hint=hint, code=CODE)
    for _, arg in _operands(call):
        if isinstance(arg, Var):
            diagnostic = diagnostic.note(f"{arg.name}: {arg.struct_info}", arg.span)
    return StructInfoError(diagnostic)
