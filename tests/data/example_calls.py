"""The example calls of all ops as functions of their tensors, for tests over every op."""

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from structir.build import BlockBuilder
from structir.errors import DiagnosticError
from structir.ir import IRModule
from structir.ir.expr import Call, Constant, Expr, Tuple, Var
from structir.ir.struct_info import TensorStructInfo
from tests.ops.built_in import BUILT_IN_OPS


@attrs.frozen
class ExampleCall:
    """A module whose function `main` calls an op, and the values of its parameters."""

    name: str
    module: IRModule
    values: tuple[np.ndarray, ...]


def _tensors(arg: Expr, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    if isinstance(arg, Constant):
        yield path, arg.data
    elif isinstance(arg, Tuple):
        for k, field in enumerate(arg.fields):
            yield from _tensors(field, (*path, k))


def _replaced(arg: Expr, path: tuple[int, ...], params: dict[tuple[int, ...], Var]) -> Expr:
    if path in params:
        return params[path]
    if isinstance(arg, Tuple):
        return Tuple(tuple([_replaced(f, (*path, k), params) for k, f in enumerate(arg.fields)]))
    return arg


def example_calls(convert: Any = lambda values: values) -> Iterator[ExampleCall]:
    """Yields the examples; `convert` changes the values of the tensors, and so their dtypes."""
    for op in BUILT_IN_OPS.values():
        for args, keywords in getattr(op.definition, "examples", ()):
            call = op.definition.bind(args, keywords, None)
            tensors = [t for k, arg in enumerate(call.args) for t in _tensors(arg, (k,))]
            values = tuple([np.asarray(convert(value)) for _, value in tensors])
            params = {
                path: Var(f"p{k}", TensorStructInfo(v.shape, v.dtype.name))
                for k, ((path, _), v) in enumerate(zip(tensors, values, strict=True))
            }
            operands = tuple([_replaced(arg, (k,), params) for k, arg in enumerate(call.args)])
            builder = BlockBuilder()
            try:
                with builder.function("main", list(params.values())):
                    value = builder.emit(Call(op, operands, call.attrs, call.sinfo_args))
                    builder.emit_func_output(value)
                yield ExampleCall(op.name, builder.get(), values)
            except DiagnosticError:  # the values of constants determine the result's StructInfo
                continue


def leaves(value: Any) -> list[np.ndarray]:
    """Returns the arrays of a nested tuple."""
    if isinstance(value, tuple):
        return [leaf for field in value for leaf in leaves(field)]
    return [np.asarray(value)]
