"""Functions of the IR as steps of a region walk: which value every op reads and makes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import attrs

from structir.analysis.variables import free_vars, symbols_in
from structir.errors import Diagnostic, StructInfoError
from structir.ir import dims
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
from structir.ir.op import Op
from structir.ir.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.projections.boxes import Region
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
from structir.projections.spec import IndexSpec, sizes_in

WITHOUT_ELEMENTS = (FuncStructInfo, PrimStructInfo, ShapeStructInfo)

Tree = Any  # a key of a tensor, a tuple of trees, or None for what is no tensor
Key = tuple[Expr, tuple[int, ...]]  # an expression, and the way into its tuple


@attrs.frozen(eq=False)
class CallOrigin:
    """The call that a step was read from, and its loops where it has any."""

    call: Call
    spec: IndexSpec | None = None


@attrs.frozen(eq=False)
class BranchOrigin:
    """A branch that a step was read from: what decides which of two tensors is handed on."""

    condition: Expr


@attrs.frozen(eq=False)
class Program:
    """A function at concrete sizes, as steps between tensors.

    A tensor is known by the variable or constant that it is and the way into it: `(x, ())`, and
    `(pair, (1,))` for the second field of a tuple.
    """

    steps: tuple[RegionStep, ...]
    params: tuple[Tree, ...]
    result: Tree
    shapes: Mapping[Hashable, Shape]
    values: Mapping[Var, Tree]  # what each variable of the function is
    parts: Mapping[Call, Tree]  # the calls that stand inside others, after decomposition
    sizes: Mapping[Sym, int]

    def tree(self, expr: Expr) -> Tree:
        """The tensors of an expression that stands in the function, or in parts of its calls."""
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
        """A size of the function as a number."""
        return dim if isinstance(dim, int) else dims.evaluate(dim, dict(self.sizes))

    def required_regions(self, wanted: Mapping[Hashable, Region]) -> Regions:
        """What regions of some tensors need of every tensor before them."""
        return required_regions(self.steps, wanted)

    def affected_regions(self, changed: Mapping[Hashable, Region]) -> Regions:
        """Which elements of every tensor depend on regions of some tensors."""
        return affected_regions(self.steps, changed)


def program_of(
    function: Function, sizes: Mapping[Sym | str, int] | None = None, *, parts: bool = False
) -> Program:
    """A function as steps; `sizes` gives its symbolic variables or their names, those of
    match_casts too. With `parts` composites are walked through their parts even where their line
    tells what they read: as steps that can be run."""
    given = dict(sizes or {})
    symbols = symbols_in(function) if given else ()
    asked = [(s, key) for s in symbols for key in (s.name, s) if key in given]
    reader = ProgramBuilder({symbol: given[key] for symbol, key in asked}, parts)
    params = tuple([reader.fresh(p, p.struct_info, ()) for p in function.params])
    reader.values.update(zip(function.params, params, strict=True))
    result = reader.sequence(function.body)
    return Program(
        tuple(reader.steps),
        params,
        result,
        reader.shapes,
        reader.values,
        reader.parts,
        reader.sizes,
    )


def leaves(tree: Tree) -> Iterator[Hashable]:
    """The tensors of a tree, in order."""
    if isinstance(tree, tuple) and (not tree or not isinstance(tree[0], Expr)):
        for branch in tree:
            yield from leaves(branch)
    elif tree is not None:
        yield tree


def info_of(key: Any) -> TensorStructInfo:
    """What is known of a tensor of a program."""
    owner, way = key
    info = owner.struct_info
    for index in way:
        info = info.fields[index]
    return info  # type: ignore[no-any-return]


@attrs.frozen(eq=False)
class ProgramBuilder:
    """Reads a function binding by binding."""

    sizes: Mapping[Sym, int]
    decomposes: bool = False
    steps: list[RegionStep] = attrs.Factory(list)
    values: dict[Var, Tree] = attrs.Factory(dict)
    parts: dict[Call, Tree] = attrs.Factory(dict)  # of ops that are walked through their parts
    shapes: dict[Hashable, Shape] = attrs.Factory(dict)

    def fresh(self, owner: Expr, info: StructInfo | None, way: tuple[int, ...]) -> Tree:
        """New tensors of a struct info."""
        if isinstance(info, TupleStructInfo):
            return tuple([self.fresh(owner, f, (*way, k)) for k, f in enumerate(info.fields)])
        if info is None or isinstance(info, WITHOUT_ELEMENTS):
            return None
        if not isinstance(info, TensorStructInfo) or not isinstance(info.dims, tuple):
            name = getattr(owner, "name", "a value")
            text = f"regions are blocks of tensors of known shape, and {name} is {info}"
            raise StructInfoError(Diagnostic(text, owner.span))
        key = (owner, way)
        self.shapes[key] = tuple([self.number(d, owner) for d in info.dims])
        return key

    def number(self, dim: Dim, owner: Expr) -> int:
        """A size as a number."""
        if isinstance(dim, int):
            return dim
        missing = sorted(s.name for s in dims.syms(dim) - self.sizes.keys())
        if missing:
            text = f"regions need every size as a number, and {', '.join(missing)} has none"
            hint = f'say it by sizes={{"{missing[0]}": 128}}, or --sizes {missing[0]}=128'
            raise StructInfoError(Diagnostic(text, owner.span, hint=hint))
        return dims.evaluate(dim, dict(self.sizes))

    def sequence(self, seq: SeqExpr) -> Tree:
        """The steps of a sequence; gives its result."""
        for block in seq.blocks:
            for binding in block.bindings:
                self.values[binding.var] = self.bound(binding.var, binding.value)
        return self.tree(seq.body)

    def bound(self, var: Var, value: Expr) -> Tree:
        """What a variable is that is bound to a value."""
        read = BOUND.get(type(value))
        return self.tree(value) if read is None else read(self, var, value)

    def tree(self, expr: Expr) -> Tree:
        """The tensors of a value."""
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
        """The steps of a call, the result being a variable's, or the call's own."""
        definition: Any = call.op.definition if isinstance(call.op, Op) else None
        told = definition is not None and _has_full_signature(definition, call)
        if definition is not None and (self.decomposes or not told):
            parts = definition.decompose(call)
            if parts is not None:
                return self.tree(parts)
            definition = definition if told else None
        spec = None if definition is None else definition.index_spec(call)
        made = self.fresh(owner, owner.struct_info, ())
        args = [self.tree(arg) for arg in call.args]
        if spec is not None and self.decomposes and not _runs_in_parts(definition, spec):
            spec = None
        if spec is None or not sizes_in(spec) <= self.sizes.keys():
            for size in symbols_in(call.args) if self.decomposes else ():
                self.number(dims.as_dim(size), call)
            self.opaque(made, (args, self.tree(call.op)), CallOrigin(call))
            return made
        inputs = tuple([_at(args, info.path) for info in spec.operands])
        dependency = dependence(spec, self.sizes)
        self.steps.append(
            RegionStep(dependency, inputs, tuple(leaves(made)), CallOrigin(call, spec))
        )
        return made

    def opaque(self, made: Tree, read: Any, origin: CallOrigin | None = None) -> None:
        """A step of which only the tensors are known."""
        inputs = tuple(dict.fromkeys(k for tree in _lists(read) for k in leaves(tree)))
        outputs = tuple(leaves(made))
        shapes = [tuple([self.shapes[key] for key in side]) for side in (inputs, outputs)]
        self.steps.append(
            RegionStep(OpaqueDependency(shapes[0], shapes[1]), inputs, outputs, origin)
        )

    def choice(self, var: Var, value: If) -> Tree:
        """Both branches, then a step that may hand on either; all of it depends on the
        condition."""
        made = self.fresh(var, var.struct_info, ())
        branches = [list(leaves(self.sequence(b))) for b in (value.true_branch, value.false_branch)]
        keys = list(leaves(made))
        if any(len(branch) != len(keys) for branch in branches):  # a closure over tensors
            self.opaque(made, ([*branches[0], *branches[1], self.tree(value.cond)],))
            return made
        for key, *pair in zip(keys, *branches, strict=True):
            self.steps.append(
                RegionStep(Passthrough(2), tuple(pair), (key,), BranchOrigin(value.cond))
            )
        self.opaque(made, ([self.tree(value.cond)],))
        return made


def _has_full_signature(definition: Any, call: Call) -> bool:
    """Whether the line of an op tells all that the results of a call depend on."""
    tells_all = getattr(definition, "hooks", {}).get("region")
    return tells_all is None or tells_all(call)


def _runs_in_parts(definition: Any, spec: IndexSpec) -> bool:
    """Whether a block of the result can be made from blocks of the operands alone: a value from a
    hook may depend on where it stands, but for the rows beside axes that are taken whole."""
    return spec.whole or "reference" not in getattr(definition, "hooks", {})


def _lists(read: Any) -> Iterator[Tree]:
    for each in read:
        if isinstance(each, list):
            yield from each
        else:
            yield each


def _at(args: list[Tree], path: tuple[int, ...]) -> Hashable:
    tree = args[path[0]]
    for position in path[1:]:
        tree = tree[position]
    return tree  # type: ignore[no-any-return]


BOUND: dict[type, Callable[[ProgramBuilder, Var, Any], Tree]] = {
    Call: ProgramBuilder.call,
    If: ProgramBuilder.choice,
}
