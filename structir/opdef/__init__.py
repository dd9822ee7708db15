"""Definitions of ops: index signatures, their resolution at a call, and derived rules."""

from structir.lazy import lazy_names

_ATTRIBUTES = (
    "Axes Axis Counts DType Ints Layout Number Numbers Operands Scalar Size SizeOrSizes Sizes"
)

__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(_ATTRIBUTES.split(), "structir.opdef.attributes")
    | dict.fromkeys(("f16", "f32", "i32", "i64"), "structir.opdef.examples")
    | {
        "Declaration": "structir.opdef.define",
        "op": "structir.opdef.define",
        "opaque_op": "structir.opdef.opaque",
    },
)
