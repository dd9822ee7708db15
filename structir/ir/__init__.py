"""Public names of the IR, each loaded on first use."""

from structir.lazy import lazy_names

_EXPR = (
    "Attrs Binding BindingBlock Call Constant DataTypeImm DataflowBlock DataflowVar Expr "
    "ExternFunc Function GlobalVar If MatchCast PrimValue SeqExpr ShapeExpr StringImm Tuple "
    "TupleGetItem Var VarBinding"
)
_INFO = (
    "DERIVE_FUNCS FuncStructInfo KernelStructInfo ObjectStructInfo PrimStructInfo "
    "ShapeStructInfo StructInfo TensorStructInfo TupleStructInfo derive_func struct_info"
)

__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(_EXPR.split(), "structir.ir.expr")
    | dict.fromkeys(_INFO.split(), "structir.ir.struct_info")
    | dict.fromkeys(("Op", "find_op", "registered_ops"), "structir.ir.op")
    | dict.fromkeys(("Node", "rebuild", "replace"), "structir.ir.node")
    | dict.fromkeys(("structural_equal", "structural_hash"), "structir.ir.structural")
    | dict.fromkeys(("bindings_of", "with_bindings"), "structir.ir.bodies")
    | {
        "BlockBuilder": "structir.build",
        "IRModule": "structir.ir.module",
        "Kernel": "structir.ir.kernel",
        "SymVar": "structir.ir.symbolic",
        "VDevice": "structir.ir.vdevice",
        "dims": "structir.ir.dims:",
    },
)
