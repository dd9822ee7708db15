"""Index specs of registered ops at given shapes."""

from structir.ir.expr import Call, Var
from structir.ir.op import find_op
from structir.ir.struct_info import TensorStructInfo
from structir.projections.spec import IndexSpec


def tensor(*shape: object, dtype: str = "float32") -> Var:
    return Var("x", TensorStructInfo(tuple(shape), dtype))


def operand(given: object) -> object:
    """Returns a tensor for a shape, a tuple for a list of shapes, and other values unchanged."""
    if isinstance(given, tuple):
        return tensor(*given)
    if isinstance(given, list) and isinstance(given[0], tuple):
        return tuple(tensor(*shape) for shape in given)
    return given


def spec_of(name: str, *args: object, **keywords: object) -> IndexSpec:
    """Returns the spec of a call of an op at shapes."""
    call: Call = find_op(name)(*map(operand, args), **keywords)
    return call.op.definition.index_spec(call)
