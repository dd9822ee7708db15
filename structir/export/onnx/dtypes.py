"""Dtypes of nodes: those that the schema of an ONNX op rejects are replaced by wider ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import attrs
from onnx import TensorProto

from structir.frontend.onnx.schema_checks import node_schema, type_string
from structir.frontend.onnx.tensors import dtype_name, element_type

OPSET = 21
# wider dtypes, in order of preference; an integer is the wide result modulo a power of two, and a
# bool whether it is not zero
INTEGERS = {
    "bool": ("uint8", "int32", "int64"),
    "int8": ("int64", "int32"),
    "uint8": ("int64", "int32"),
    "int16": ("int64", "int32"),
    "uint16": ("int64", "int32"),
    "int32": ("int64",),
    "uint32": ("int64",),
}
WIDER = {
    **INTEGERS,
    **dict.fromkeys(["bfloat16", "float16"], ("float32",)),
    **{
        dtype: ("float32",)
        for dtype in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
    },
}


class UnsupportedDtype(Exception):
    """Raised where the schema of an op accepts neither a dtype nor a wider one."""

    def __init__(self, op_type: str, dtypes: Sequence[str], allowed: Sequence[str]) -> None:
        super().__init__(f"ONNX {op_type} does not accept {' with '.join(dtypes)}")
        usual = [dtype for dtype in ("float32", "int64", "uint8") if dtype in allowed]
        self.hint = f'cast the operands: `R.astype(x, "{[*usual, *allowed][0]}")`'


@attrs.frozen
class NodeDtypes:
    """The dtypes of the operands and results of a node; None is unknown.

    `casts` has the dtype that each operand is cast to, and `results` for each result the dtype of
    the node and the one to cast it back to.
    """

    casts: tuple[str | None, ...]
    results: tuple[tuple[str | None, str | None], ...]


@cache
def node_dtypes(op_type: str, operands: tuple[str | None, ...], outputs: int) -> NodeDtypes:
    """Returns the dtypes of a node; raises `UnsupportedDtype`."""
    schema = node_schema("", op_type, OPSET)
    if schema is None or not schema.is_homogeneous:
        return NodeDtypes((None,) * len(operands), ((None, None),) * outputs)
    variables = [schema.names[min(k, len(schema.names) - 1)] for k in range(len(operands))]
    bound: dict[str, list[str]] = {}
    for variable, dtype in zip(variables, operands, strict=True):
        if dtype is not None and dtype not in bound.setdefault(variable, []):
            bound[variable].append(dtype)
    used = {v: _accepted(op_type, dtypes, schema.allowed[v]) for v, dtypes in bound.items()}
    casts = [
        None if dtype is None or used[variable] == dtype else used[variable]
        for variable, dtype in zip(variables, operands, strict=True)
    ]
    results = [_result(variable, bound, used) for variable in schema.results]
    results += results[-1:] * (outputs - len(results))
    return NodeDtypes(tuple(casts), tuple(results[:outputs]))


def _result(
    variable: str, bound: Mapping[str, Sequence[str]], used: Mapping[str, str]
) -> tuple[str | None, str | None]:
    if variable in bound:
        narrow = bound[variable][0] if len(bound[variable]) == 1 else used[variable]
        return used[variable], None if narrow == used[variable] else narrow
    return _dtype_of(variable), None


def _accepted(op_type: str, dtypes: Sequence[str], allowed: frozenset[str]) -> str:
    """Returns the first dtype of a schema that represents all values of each dtype."""
    wider = [(dtype, *WIDER.get(dtype, ())) for dtype in dtypes]
    for candidate in wider[0]:
        if all(candidate in each for each in wider) and type_string(candidate) in allowed:
            return candidate
    raise UnsupportedDtype(op_type, dtypes, sorted(filter(None, map(_dtype_of, allowed))))


@cache
def _dtype_of(text: str) -> str | None:
    """Returns the dtype of ONNX's name of a tensor type; None for a type variable."""
    name = text.removeprefix("tensor(").removesuffix(")").upper()
    numbers = dict(TensorProto.DataType.items())
    return dtype_name(numbers[name]) if text.startswith("tensor(") and name in numbers else None


def attribute_dtype(attributes: Mapping[str, Any]) -> str | None:
    """Returns the dtype that an attribute of a node gives to its result."""
    number = attributes.get("to") or attributes.get("dtype")
    return None if number is None else dtype_name(number)


def cast_attributes(dtype: str) -> dict[str, int]:
    """Returns the attributes of a Cast; values outside of a small float dtype do not saturate."""
    saturate = {"saturate": 0} if dtype.startswith("float8") else {}
    return {"to": element_type(dtype), **saturate}
