"""Names of other compilers' Python interfaces, and what to write instead, for error messages."""

from __future__ import annotations

from inspect import getattr_static
from typing import NoReturn

FOR_EACH = "loop over `function.bindings()`, and build with `structir.ir.replace(node, ...)`"
PATTERN = "write pattern and replacement as calls: `@structir.rewrite`"
FUSES = "`structir.compile(module)` fuses; `passes.Lower()` writes the fused kernels"
REPLACED = "`module.with_functions({**module.functions, name: function})`"
PLANS = "not needed: `structir.compile(module)` runs plans of kernels without a virtual machine"
FORWARD = "`structir.infer(module)`, or `expr.struct_info`"

COUNTERPARTS = {
    # modules and packages
    "relax": "`from structir.script import I, R, T`, `structir.ir`, `structir.passes`",
    "tir": "`from structir.script import I, R, T`",
    "transform": "`structir.passes`",
    "expr_functor": FOR_EACH,
    "dpl": PATTERN,
    "VirtualMachine": '`structir.compile(module)["main"](x)`',
    "build_module": "`structir.compile(module)`",
    "assert_structural_equal": "`assert structir.structural_equal(a, b)`",
    "from_source": "`structir.parse(text)`",
    "save_json": "`structir.save(module, path)`",
    "load_json": "`structir.load(path)`",
    "register_func": '`structir.interpret.register_extern("name", function)`',
    "register_global_func": '`structir.interpret.register_extern("name", function)`',
    "make_jaxpr": "`structir.trace(f, x_info)`",
    "tree_map": "`structir.tree.map(f, tree)`",
    "pmap": "`structir.distributed.shard(module, ...)`",
    "pure_callback": '`R.call_pure_packed("name", x, sinfo_args=R.Tensor((4,), "float32"))`',
    # analyses
    "post_order_visit": FOR_EACH,
    "udchain": "`structir.analysis.uses_of(function)`",
    "get_var2val": "`{b.var: b.value for b in function.bindings()}`",
    "name_to_binding": "`{b.var.name: b for b in function.bindings()}`",
    "remove_all_unused": "`passes.DeadCodeElimination()(function)`",
    "contains_impure_call": "`structir.analysis.is_pure(function)`",
    "all_global_vars": "`structir.ir.registered_ops` for ops, `list(module)` for functions",
    "struct_info_lca": "`structir.analysis.unify_to_lca(a, b)`",
    "type_lca": "`structir.analysis.unify_to_lca(a, b)`",
    "struct_info_base_check": "`structir.analysis.base_check(base, derived)`",
    "type_base_check": "`structir.analysis.base_check(base, derived)`",
    "estimate_memory_usage": "`passes.Statistics()` in a `passes.PassContext`",
    "infer_struct_info": FORWARD,
    # patterns and visitors
    **dict.fromkeys(
        (
            *("wildcard", "is_op", "is_const", "is_tuple", "is_var", "is_expr", "is_shape"),
            *("is_call_tir", "has_dtype", "has_shape", "make_fused_bias_activation_pattern"),
            *("rewrite_call", "rewrite_bindings", "PatternContext", "match_expr"),
        ),
        PATTERN,
    ),
    **dict.fromkeys(
        ("PyExprVisitor", "PyExprMutator", "ExprVisitor", "ExprMutator", "visitor", "mutator"),
        FOR_EACH,
    ),
    # nodes
    "ty": "`expr.struct_info`",
    "checked_type": "`expr.struct_info`",
    "struct_info_": "`expr.struct_info`",
    "shape": "`expr.struct_info.shape`",
    "dtype": "`expr.struct_info.dtype`",
    "ndim": "`expr.struct_info.ndim`",
    "name_hint": "`var.name`",
    "vid": "`var.name`",
    "show": "`print(module)`",
    "astext": "`module.script()`",
    "update": REPLACED,
    "update_func": REPLACED,
    "add_func": "`builder.functions[name] = function`",
    "get_global_var": "`structir.ir.GlobalVar(name)`, or `builder.global_var(name)`",
    "get_global_vars": "`list(module)`",
    "functions_items": "`module.functions.items()`",
    "with_attr": "`structir.ir.replace(function, attrs={**function.attrs, key: value})`",
    "with_attrs": "`structir.ir.replace(function, attrs={**function.attrs, **new})`",
    "bind_params": "`passes.BindParams(values)(module)`",
    "bind_symbolic_vars": "`passes.BindSymbolicVars(sizes)(module)`",
    "ret_ty": "`function.ret_struct_info`",
    "walk": FOR_EACH,
    "operands": "`call.args`",
    "attributes": "`call.attrs`",
    "rank": "`info.ndim`",
    "verify": "`structir.analysis.check_well_formed(module)`",
    # builder
    "emit_te": "a kernel, `@I.kernel`, and `builder.emit(R.call_kernel(builder.kernel(k), ...))`",
    "call_te": "a kernel, `@I.kernel`, and `R.call_kernel(builder.kernel(k), ...)`",
    "normalize": "`builder.normalise(expr)`",
    "emit_normalized": "`builder.take(binding)`",
    "emit_with_ty": "`builder.emit(value, annotation=info)`",
    "lookup_binding": "`{b.var: b.value for b in function.bindings()}`",
    # passes
    **dict.fromkeys(("LegalizeOps", "FuseOps", "FuseTIR", "AnnotateTIROpPattern"), FUSES),
    "FuseOpsByPattern": PATTERN,
    "RunCodegen": "`structir.compile(module, target=...)`",
    "MergeCompositeFunctions": "`structir.compile(module, target=...)`",
    "FoldBatchnormToConv2D": "`passes.FoldBatchNorm()`",
    "AdjustMatmulOrder": "`passes.ReorderMatmul()`",
    "AllocateWorkspace": "`passes.PlanMemory()`",
    "StaticPlanBlockMemory": "`passes.PlanMemory()`",
    "LowerAllocTensor": "`passes.PlanMemory()`",
    "CSE": "`passes.CommonSubexpressionElimination()`",
    "DCE": "`passes.DeadCodeElimination()`",
    **dict.fromkeys(
        ("CallTIRRewrite", "RewriteCUDAGraph", "VMShapeLower", "VMBuiltinLower", "ToNonDataflow"),
        PLANS,
    ),
    **dict.fromkeys(("KillAfterLastUse", "RemovePurityChecking", "AttachGlobalSymbol"), PLANS),
    **dict.fromkeys(("AttachAttrLayoutFreeBuffers", "SplitLayoutRewritePreproc"), PLANS),
}

STAGE = '`kernel.stage("c", "k")`'
SPLITS = '`kernel.split("i", 8).split("j", 16).reorder("i_0", "j_0", "i", "j")`'
SCHEDULES = {  # primitives of TVM, Halide, MLIR and Exo
    **dict.fromkeys(("tile", "block_loops", "blockize", "sample_perfect_tile"), SPLITS),
    **dict.fromkeys(("strip_mine", "divide_loop", "loop_partition"), '`kernel.split("i", 8)`'),
    **dict.fromkeys(("interchange", "reorder_loops", "permute"), '`kernel.reorder("j", "i")`'),
    **dict.fromkeys(("cache_read", "cache_write", "stage_mem", "set_scope"), STAGE),
    **dict.fromkeys(
        ("transform_layout", "reindex", "storage_align"), '`kernel.pack("a", "i", 1, 0)`'
    ),
    **dict.fromkeys(("compute_inline", "reverse_compute_inline"), '`kernel.inline("t")`'),
    **dict.fromkeys(("reverse_compute_at", "fuse_into"), '`kernel.fuse("i", "i_1")`'),
    **dict.fromkeys(("decompose_reduction", "distribute"), '`kernel.fission("i", 1)`'),
    **dict.fromkeys(("bind", "parallelize", "parallelise"), '`kernel.parallel("i")`'),
    **dict.fromkeys(("flatten", "coalesce", "mult_loops"), '`kernel.collapse("i")`'),
    **dict.fromkeys(("get_loops", "get_child_blocks"), "`kernel.loops()`"),
    **dict.fromkeys(("get_block", "get_sblock"), '`schedule.kernel("y")`'),
    "vectorize": '`kernel.vectorise("j")`',
    "tensorize": '`kernel.tensorise("i")`',
    "specialize": '`kernel.specialise("n", 1)`',
    "unroll_loop": '`kernel.unroll("i")`',
    "lift_alloc": '`kernel.hoist("t", "i")`',
}


def with_help(message: str, name: str) -> str:
    """Returns a message with what to write instead of a name, if it is known."""
    return f"{message}; help: {COUNTERPARTS[name]}" if name in COUNTERPARTS else message


class Counterpart:
    """An attribute that objects of other compilers have: reading it raises AttributeError.

    `__getattr__` could raise it, too, but in a class that has one CPython reads every attribute
    several times slower.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: object, cls: type) -> NoReturn:
        raise unknown_attribute(cls, self.name)


def unknown_attribute(cls: type, name: str) -> AttributeError:
    """Returns the error of an attribute that instances of a class lack, with its counterpart."""
    return AttributeError(with_help(f"{cls.__name__!r} object has no attribute {name!r}", name))


class WithCounterparts:
    """A base of classes whose unknown attributes are explained, if other compilers have them."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return [n for n in object.__dir__(self) if type(getattr_static(self, n)) is not Counterpart]


def _explain_attributes() -> None:
    for name in COUNTERPARTS:
        counterpart = Counterpart()
        counterpart.__set_name__(WithCounterparts, name)
        setattr(WithCounterparts, name, counterpart)


_explain_attributes()
