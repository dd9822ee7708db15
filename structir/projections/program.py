"""Lowers functions to a sequence of steps with region dependencies between tensors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.analysis.declaration import analysis
from structir.analysis.variables import free_symbols_in, free_vars, symbols_in
from structir.errors import Diagnostic, StructInfoError
from structir.ir import dims
from structir.ir.axes import Ragged, size_in
from structir.ir.dims import Dim, Sym
from structir.ir.expr import (
    Call,
    Constant,
    DataflowVar,
    Expr,
    Function,
    If,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.struct_info import (
    FuncStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.projections.boxes import Region
from structir.projections.callees import CalleeSpec, notes_of_op, spec_of_callee
from structir.projections.constant_indices import with_constant_indices
from structir.projections.explanations import WholeAxis
from structir.projections.kernels.kernel_spec import has_library_calls
from structir.projections.known_indices import with_known_indices
from structir.projections.region_propagation import (
    OpaqueDependency,
    Passthrough,
    Regions,
    RegionStep,
    Shape,
    affected_regions,
    required_regions,
)
from structir.projections.regions import dependence
from structir.projections.row_blocks import RowBlocks, row_dependency
from structir.projections.spec import IndexSpec, sizes_in

Tree = Any  # a key of a tensor, a tuple of trees, or None for other values
Key = tuple[Expr, tuple[int, ...]]  # an expression, and the path into its tuple


@attrs.frozen(eq=False)
class CallOrigin:
    """The call of a step, and its loops if known."""

    call: Call
    spec: IndexSpec | None = None
    kernel: Kernel | None = None
    rows: RowBlocks | None = None  # for ops on the rows of ragged tensors with known starts


@attrs.frozen(eq=False)
class BranchOrigin:
    """The conditional of a step: its condition selects one of two tensors."""

    condition: Expr


@attrs.frozen(eq=False)
class Program:
    """A function at concrete sizes, as steps between tensors.

    The key of a tensor is its variable or constant and a path into it: `(x, ())`, and
    `(pair, (1,))` for the second field of a tuple.
    """

    steps: tuple[RegionStep, ...]
    params: tuple[Tree, ...]
    result: Tree
    shapes: Mapping[Hashable, Shape]
    values: Mapping[Var, Tree]  # the tensors of each variable
    parts: Mapping[Call, Tree]  # calls nested in others, after decomposition
    sizes: Mapping[Sym, int]
    notes: tuple[WholeAxis, ...] = ()  # the operands that are required completely, and why
    closures: Mapping[Expr, Function] = attrs.Factory(dict)

    def tree(self, expr: Expr) -> Tree:
        """Returns the tensors of an expression of the function or of a decomposed call."""
        match expr:
            case Var():
                return self.values.get(expr)
            case Constant():
                return (expr, ())
            case Tuple(fields):
                return tuple([self.tree(field) for field in fields])
            case TupleGetItem(value, index):
                inner = self.tree(value)
                return inner[index] if inner else None
            case Call():
                return self.parts.get(expr)
        return None

    def number(self, dim: Dim) -> int:
        """Returns the value of a dim at the sizes of the program."""
        return dim if isinstance(dim, int) else dims.evaluate(dim, dict(self.sizes))

    def required_regions(self, wanted: Mapping[Hashable, Region]) -> Regions:
        """Returns the region of every tensor that the `wanted` regions depend on."""
        return required_regions(self.steps, wanted)

    def affected_regions(self, changed: Mapping[Hashable, Region]) -> Regions:
        """Returns the region of every tensor that depends on the `changed` regions."""
        return affected_regions(self.steps, changed)


@analysis
def program_of(
    function: Function,
    sizes: Mapping[Sym | str, int] | None = None,
    *,
    module: IRModule | None = None,
    parts: bool = False,
    arrays: Mapping[Key, Any] | None = None,
) -> Program:
    """Returns a function as steps.

    `sizes` gives the symbolic dims, by variable or name, including those of match_casts. `module`
    has the kernels that the function calls; without it they require their operands completely. With
    `parts`, composite ops are decomposed even where their index signature is complete, so that the
    steps can be executed. `arrays` has the known elements of tensors: ops on the rows of ragged
    tensors whose starts are known require the values of these rows only. Raises StructInfoError for
    missing sizes and unknown shapes.
    """
    sizes_by_key = dict(sizes or {})
    symbols = symbols_in(function) if sizes_by_key else ()
    pairs = [(s, key) for s in symbols for key in (s.name, s) if key in sizes_by_key]
    by_symbol = {symbol: sizes_by_key[key] for symbol, key in pairs}
    declared = frozenset(function.params)
    builder = ProgramBuilder(by_symbol, parts, module, arrays or {}, params=declared)
    params = tuple([builder.fresh(p, p.struct_info, ()) for p in function.params])
    builder.values.update(zip(function.params, params, strict=True))
    result = builder.sequence(function.body)
    return Program(
        tuple(builder.steps),
        params,
        result,
        builder.shapes,
        builder.values,
        builder.parts,
        builder.sizes,
        tuple(dict.fromkeys(builder.notes)),
        builder.closures,
    )


def leaves(tree: Tree) -> Iterator[Hashable]:
    """Yields the tensors of a tree, in order."""
    if isinstance(tree, tuple) and (not tree or not isinstance(tree[0], Expr)):
        for branch in tree:
            yield from leaves(branch)
    elif tree is not None:
        yield tree


def info_of(key: Any) -> TensorStructInfo:
    """Returns the StructInfo of a tensor of a program."""
    owner, path = key
    info = owner.struct_info
    for index in path:
        info = info.fields[index]
    return info  # type: ignore[no-any-return]


@attrs.frozen(eq=False)
class ProgramBuilder:
    """A builder of the program of a function, binding by binding."""

    sizes: Mapping[Sym, int]
    decomposes: bool = False
    module: IRModule | None = None
    arrays: Mapping[Any, Any] = attrs.Factory(dict)  # known elements
    notes: list[WholeAxis] = attrs.Factory(list)
    steps: list[RegionStep] = attrs.Factory(list)
    values: dict[Var, Tree] = attrs.Factory(dict)
    parts: dict[Call, Tree] = attrs.Factory(dict)  # of decomposed calls
    shapes: dict[Hashable, Shape] = attrs.Factory(dict)
    closures: dict[Expr, Function] = attrs.Factory(dict)
    params: frozenset[Var] = frozenset()

    def fresh(self, owner: Expr, info: StructInfo | None, path: tuple[int, ...]) -> Tree:
        """Declares the tensors of a value with this StructInfo."""
        if isinstance(info, TupleStructInfo):
            return tuple([self.fresh(owner, f, (*path, k)) for k, f in enumerate(info.fields)])
        if not isinstance(info, TensorStructInfo):
            return None
        if not isinstance(info.dims, tuple):
            message = f"cannot compute regions of `{getattr(owner, 'name', 'a value')}`"
            label = f"expected a tensor of known shape, found {info}"
            hint = _known_shape_hint(owner, info, owner in self.params)
            diagnostic = Diagnostic(message, owner.span, label=label, hint=hint, code="E0902")
            raise StructInfoError(diagnostic)
        key = (owner, path)
        self.shapes[key] = tuple([self.number(d, owner) for d in info.dims])
        return key

    def number(self, dim: Dim, owner: Expr) -> int:
        """Returns the value of a dim; raises StructInfoError where a size is missing."""
        if isinstance(dim, int):
            return dim
        missing = sorted(s.name for s in dims.syms(dim) - self.sizes.keys())
        if missing:
            message = f"cannot plan with symbolic dim `{missing[0]}`"
            hint = f'`sizes={{"{missing[0]}": 128}}` or `--sizes {missing[0]}=128`'
            raise StructInfoError(Diagnostic(message, owner.span, hint=hint, code="E0901"))
        return dims.evaluate(dim, dict(self.sizes))

    def sequence(self, seq: SeqExpr) -> Tree:
        """Adds the steps of a sequence and returns its result."""
        for block in seq.blocks:
            for binding in block.bindings:
                self.values[binding.var] = self.bound(binding.var, binding.value)
        return self.tree(seq.body)

    def bound(self, var: Var, value: Expr) -> Tree:
        """Adds the steps of a binding and returns the tensors of its variable."""
        add_steps = BOUND.get(type(value))
        return self.tree(value) if add_steps is None else add_steps(self, var, value)

    def tree(self, expr: Expr) -> Tree:
        """Returns the tensors of a value."""
        match expr:
            case Var() | DataflowVar():
                return self.values.get(expr)
            case Constant():
                return self.fresh(expr, expr.struct_info, ())
            case Tuple(fields):
                return tuple([self.tree(field) for field in fields])
            case TupleGetItem(value, index):
                inner = self.tree(value)
                return inner[index] if inner else None
            case Call():
                if expr not in self.parts:
                    self.parts[expr] = self.call(expr, expr)
                return self.parts[expr]
            case Function():
                return tuple([self.values.get(v) for v in free_vars(expr)])
        return None

    def call(self, owner: Expr, call: Call) -> Tree:
        """Adds the steps of a call; `owner` is the variable of its result, or the call."""
        definition: Any = call.op.definition if isinstance(call.op, Op) else None
        complete = definition is not None and _has_full_signature(definition, call)
        if definition is not None and (self.decomposes or not complete):
            parts = definition.decompose(call)
            if parts is not None:
                return self.tree(parts)
            definition = definition if complete else None
        result = self.fresh(owner, owner.struct_info, ())
        args = [self.tree(arg) for arg in call.args]
        if self.rows(result, args, call, definition):
            return result
        callee = self.callee(call, definition)
        spec = callee.spec
        if spec is not None and self.decomposes and not _runs_in_parts(definition, callee):
            spec = None
        if any([arg in self.closures for arg in call.args if isinstance(arg, Var)]):
            spec = None  # the index signature has no captured values
        self.notes.extend(callee.notes)
        for size in _sizes_in(call.args) if self.decomposes else ():
            self.number(dims.as_dim(size), call)  # a shard passes the same numbers to its call
        if spec is None or not sizes_in(spec) <= self.sizes.keys():
            self.opaque(result, (args, self.tree(call.op)), CallOrigin(call, None, callee.kernel))
            return result
        inputs = tuple([_at(args, info.path) for info in spec.operands])
        arrays = {k: self.arrays[key] for k, key in enumerate(inputs) if key in self.arrays}
        dependency = with_known_indices(spec, dependence(spec, self.sizes), arrays)
        origin = CallOrigin(call, spec, callee.kernel)
        self.steps.append(RegionStep(dependency, inputs, tuple(leaves(result)), origin))
        return result

    def rows(self, result: Tree, args: list[Tree], call: Call, definition: Any) -> bool:
        """Adds the step of an op on rows whose starts are known; returns whether it is one."""
        blocks = getattr(definition, "hooks", {}).get("row_blocks")
        if blocks is None:
            return False
        inputs = [tree for tree in args if tree is not None]
        arrays, shapes = map(self.arrays.get, inputs), [self.shapes[key] for key in inputs]
        dependency = row_dependency(blocks, list(arrays), shapes, self.shapes[result])
        if dependency is not None:
            origin = CallOrigin(call, rows=blocks)
            self.steps.append(RegionStep(dependency, tuple(inputs), (result,), origin))
        return dependency is not None

    def callee(self, call: Call, definition: Any) -> CalleeSpec:
        """Returns the spec of a call, of an op or of any other callee."""
        if definition is None and not isinstance(call.op, Op):
            return spec_of_callee(call, self.module)
        spec = None if definition is None else definition.index_spec(call)
        if spec is None or (spec.whole and self.decomposes):  # a shard calls the op itself
            return CalleeSpec(spec, tuple(notes_of_op(call, spec)))
        spec = with_constant_indices(spec, call, self.sizes)
        return CalleeSpec(spec, tuple(notes_of_op(call, spec)))

    def opaque(self, result: Tree, operands: Any, origin: CallOrigin | None = None) -> None:
        """Adds a step in which every result depends on every operand."""
        inputs = tuple(dict.fromkeys(k for tree in _lists(operands) for k in leaves(tree)))
        outputs = tuple(leaves(result))
        shapes = [tuple([self.shapes[key] for key in side]) for side in (inputs, outputs)]
        self.steps.append(
            RegionStep(OpaqueDependency(shapes[0], shapes[1]), inputs, outputs, origin)
        )

    def branch(self, var: Var, value: If) -> Tree:
        """Adds both branches, then a step that selects one; the result depends on the condition."""
        result = self.fresh(var, var.struct_info, ())
        branches = [list(leaves(self.sequence(b))) for b in (value.true_branch, value.false_branch)]
        keys = list(leaves(result))
        if any(len(branch) != len(keys) for branch in branches):  # a closure over tensors
            self.opaque(result, ([*branches[0], *branches[1], self.tree(value.cond)],))
            return result
        for key, *pair in zip(keys, *branches, strict=True):
            self.steps.append(
                RegionStep(Passthrough(2), tuple(pair), (key,), BranchOrigin(value.cond))
            )
        self.opaque(result, ([self.tree(value.cond)],))
        return result


def _sizes_in(args: Iterable[Expr]) -> list[Sym]:
    """Returns the symbolic variables in arguments, without those that functions bind."""
    callables = [a.struct_info for a in args if isinstance(a.struct_info, FuncStructInfo)]
    others = tuple([a for a in args if not isinstance(a.struct_info, FuncStructInfo)])
    free = [s for info in callables for s in free_symbols_in(info) if type(s) is Sym]
    return list(dict.fromkeys([*symbols_in(others), *free]))


def _known_shape_hint(owner: Expr, info: StructInfo, is_parameter: bool) -> str:
    """Returns the edit that gives a value a known shape: known sizes stay, others get names."""
    rank = getattr(info, "ndim", None)
    stated = getattr(info, "axes", None) or (None,) * (2 if rank is None else rank)
    sizes = [size_in(axis) for axis in stated]
    if Ragged in map(type, sizes):
        return "replace ragged rows by their values first: `passes.LowerRagged()(module)`"
    texts = [str(size) if isinstance(size, Dim) else f"d{k}" for k, size in enumerate(sizes)]
    quoted = [text if text.isdecimal() else f'"{text}"' for text in texts]
    name = getattr(owner, "name", "x")
    edit = "state its sizes" if is_parameter else "pass it as a parameter"
    return f"{edit}: `{name}: {_tensor_text(quoted, info)}`"


def _tensor_text(sizes: Sequence[str], info: StructInfo) -> str:
    """Returns the annotation of a tensor with these sizes."""
    dtype = getattr(info, "dtype", None)
    shape = ", ".join(sizes) + "," * (len(sizes) == 1)
    return f"R.Tensor(({shape})" + (f', "{dtype}")' if dtype else ")")


def _has_full_signature(definition: Any, call: Call) -> bool:
    """Whether the index signature of an op covers all dependencies of the results of a call."""
    is_complete = getattr(definition, "hooks", {}).get("region")
    return is_complete is None or is_complete(call)


def _runs_in_parts(definition: Any, callee: CalleeSpec) -> bool:
    """Whether a result block can be computed from operand blocks alone.

    A value from a hook may depend on its absolute index, except for ops on whole axes. An external
    function computes blocks if it has no out-of-bounds reads.
    """
    spec = callee.spec
    assert spec is not None
    if callee.kernel is not None:
        return callee.kernel.blocks is None and not has_library_calls(callee.kernel)
    if definition is None:
        return len(spec.statements) == 1 and spec.statements[0].total
    return spec.whole or "reference" not in getattr(definition, "hooks", {})


def _lists(trees: Any) -> Iterator[Tree]:
    for tree in trees:
        if isinstance(tree, list):
            yield from tree
        else:
            yield tree


def _at(args: list[Tree], path: tuple[int, ...]) -> Hashable:
    tree = args[path[0]]
    for position in path[1:]:
        tree = tree[position]
    return tree  # type: ignore[no-any-return]


def _add_closure(builder: ProgramBuilder, var: Var, function: Function) -> Tree:
    builder.closures[var] = function
    return builder.tree(function)


BOUND: dict[type, Callable[[ProgramBuilder, Var, Any], Tree]] = {
    Call: ProgramBuilder.call,
    Function: _add_closure,
    If: ProgramBuilder.branch,
}
