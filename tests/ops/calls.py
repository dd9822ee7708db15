"""Calls of ops on NumPy values, for tests: made with the values' StructInfo, run by the
reference."""

import numpy as np

from structir import ops
from structir.ir import (
    BlockBuilder,
    Constant,
    PrimValue,
    ShapeExpr,
    TensorStructInfo,
    Tuple,
    TupleStructInfo,
    Var,
    find_op,
)
from structir.ir.dims import sym

ops.load()


def info_of(value, symbols=None):
    """The StructInfo of an array, or of a tuple of them; sizes over 1 as symbols, equal ones by the
    same."""
    if isinstance(value, tuple):
        return TupleStructInfo(tuple(info_of(v, symbols) for v in value))
    sizes = tuple(value.shape)
    if symbols is not None:
        sizes = tuple(symbols.setdefault(n, sym(f"n{n}")) if n > 1 else n for n in sizes)
    return TensorStructInfo(sizes, value.dtype.name)


def expression(value, known, symbols=None):
    """An array as a variable, a list of them as a tuple; all else as it is."""
    if hasattr(value, "array"):  # a sample of `structir.ops.examples`
        value = value.array()
    if isinstance(value, np.ndarray | np.generic):
        value = np.asarray(value)
        var = Var("x", info_of(value, symbols))
        known[var] = value
        return var
    if isinstance(value, list) and value and all(hasattr(v, "dtype") for v in value):
        return Tuple(tuple(expression(v, known, symbols) for v in value))
    return value


def value_of(arg, known):
    """What an argument of a call is worth."""
    match arg:
        case Var():
            return known[arg]
        case Constant():
            return arg.data
        case PrimValue():
            return arg.value
        case ShapeExpr():
            return arg.dims
        case Tuple():
            return tuple(value_of(field, known) for field in arg.fields)
    raise TypeError(type(arg).__name__)


def called(name, *args, **keywords):
    """A call of an op, and the values of its arguments."""
    known = {}
    op = find_op(name)
    call = op(
        *[expression(a, known) for a in args],
        **{n: expression(v, known) for n, v in keywords.items()},
    )
    return call, tuple(value_of(a, known) for a in call.args)


def evaluated(name, *args, **keywords):
    """The result of an op; what was deduced of it must be so."""
    call, values = called(name, *args, **keywords)
    result = call.op.definition.reference(call, values)
    assert info_of(result) == call.struct_info, f"{info_of(result)} is not {call.struct_info}"
    return result


def symbolic_call(name, args, keywords, symbols):
    """A call of an op at symbolic sizes, or at those of the values if `symbols` is None; and the
    values of its variables."""
    known = {}
    call = find_op(name)(
        *[expression(a, known, symbols) for a in args],
        **{n: expression(v, known, symbols) for n, v in keywords.items()},
    )
    return call, known


def program(name, *args, **keywords):
    """A module whose `main` makes one call, and the values of its parameters."""
    call, known = symbolic_call(name, args, keywords, None)
    builder = BlockBuilder()
    with builder.function("main", list(known)):
        with builder.dataflow():
            result = builder.emit_output(call)
        builder.emit_func_output(result)
    return builder.get(), tuple(known.values())
