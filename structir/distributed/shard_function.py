"""The function that one shard runs: the steps of a program, each cut to the blocks it needs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import attrs

from structir.distributed.branches import sink_into_branches
from structir.distributed.constant_lifting import SMALL
from structir.distributed.local_op import LocalDefinition
from structir.errors import Diagnostic, StructInfoError
from structir.ir import dims
from structir.ir.dims import Dim, Poly, Sym, as_dim
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import (
    BindingBlock,
    Call,
    Constant,
    Expr,
    Function,
    If,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.op import Op
from structir.ir.struct_info import ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from structir.lazy import lazy_module
from structir.projections.boxes import Bounds, Region
from structir.projections.local import Names, Range, local_spec, made_together, nothing
from structir.projections.program import BranchOrigin, CallOrigin, Program, info_of
from structir.projections.region_propagation import RegionStep
from structir.projections.scalar_expr import OperandElement
from structir.projections.spec import (
    AccessIndex,
    IndexSpec,
    OperandInfo,
    Read,
    ResultInfo,
    Statement,
    Write,
)

np = lazy_module("numpy")

Key = Hashable  # of a tensor of the program
Path = tuple[int, ...]  # where an operand stands among the arguments of a call
Cut = Mapping[RegionStep, Mapping[Sym, Range]]  # letters that are reduced, narrowed


@attrs.frozen(eq=False)
class ShardFunction:
    """What one shard runs: a function over blocks, which block of which value each parameter is
    (None: all of it), and a key that parts which do the same have in common.

    The function's first parameter is a shape: the sizes of the program, and those of what is cut.
    """

    function: Function
    sizes: tuple[int, ...]
    inputs: tuple[tuple[Key, Bounds | None], ...]
    key: Hashable


@attrs.frozen(eq=False)
class PartialResults:
    """Makes the parts of one program; what they have in common is worked out once."""

    program: Program
    names: dict[RegionStep, Names] = attrs.Factory(dict)
    slices: dict[int, Names] = attrs.Factory(dict)
    symbols: list[Sym] = attrs.Factory(list)  # sizes of what is cut, in the order of their use

    def part(
        self, regions: Mapping[Key, Region], results: Mapping[Key, Bounds], cut: Cut | None = None
    ) -> ShardFunction:
        """The function that makes blocks of some results.

        `regions` is what these blocks need of every value, themselves included.
        """
        writer = _ShardWriter(self, regions, cut or {})
        writer.key.append(tuple(results))  # parts with the same steps may give different results
        for number, step in enumerate(self.program.steps):
            if step.origin is not None and any(regions.get(output) for output in step.outputs):
                writer.step(number, step)
        made = [writer.sliced(key, bounds) for key, bounds in results.items()]
        body: Expr = made[0] if len(made) == 1 else Tuple(tuple(made))
        sequence = SeqExpr((BindingBlock(sink_into_branches(writer.bindings, body)),), body)
        sizes = Var("sizes", ShapeStructInfo(tuple([as_dim(s) for s in writer.sizes])))
        params = (sizes, *[param for param, _, _ in writer.params])
        inputs = tuple([(key, block) for _, key, block in writer.params])
        function = Function(params, sequence, body.struct_info)
        return ShardFunction(function, tuple(writer.sizes.values()), inputs, tuple(writer.key))


def _bounds(regions: Mapping[Key, Region], key: Key) -> Bounds:
    found = regions[key].bounds
    assert found is not None
    return found


class _ShardWriter:
    """Writes one part, step by step."""

    def __init__(self, parts: PartialResults, regions: Mapping[Key, Region], cut: Cut) -> None:
        self.parts, self.program, self.regions, self.cut = parts, parts.program, regions, cut
        self.values: dict[Key, Expr] = {}
        self.blocks: dict[Key, Bounds] = {}
        self.params: list[tuple[Var, Key, Bounds | None]] = []
        self.bindings: list[VarBinding] = []
        self.key: list[Hashable] = []
        self.sizes: dict[Sym, int] = dict(parts.program.sizes)
        self.widths: dict[int, Dim] = {}

    def width(self, size: int) -> Dim:
        """The size of what is cut, as a symbol: parts that differ in it alone are one."""
        if size < 2:
            return size
        if size not in self.widths:
            number = len(self.widths)
            if number == len(self.parts.symbols):
                self.parts.symbols.append(Sym(f"cut{number}"))
            self.sizes[self.parts.symbols[number]] = size
            self.widths[size] = as_dim(self.parts.symbols[number])
        return self.widths[size]

    def shape(self, key: Key, bounds: Bounds) -> tuple[Dim, ...]:
        """The sizes of a block of a tensor; those of axes that are not cut are as they were."""
        sizes, shape = info_of(key).dims, self.program.shapes[key]
        written = sizes if isinstance(sizes, tuple) else shape
        return tuple(
            [
                dim if (a, b) == (0, size) else self.width(b - a)
                for dim, size, a, b in zip(written, shape, *bounds, strict=True)
            ]
        )

    def step(self, number: int, step: RegionStep) -> None:
        """What a step of the program makes, cut to its blocks."""
        origin = step.origin
        if isinstance(origin, BranchOrigin):
            self.choice(number, step, origin)
        elif origin.spec is not None and not origin.spec.whole:
            self.loops(number, step, origin.call, origin.spec)
        else:
            self.same_op(number, step, origin)

    def loops(self, number: int, step: RegionStep, call: Call, spec: IndexSpec) -> None:
        """A step that its loops tell: the loops of the blocks."""
        wanted = [
            region.bounds if (region := self.regions.get(key)) else None for key in step.outputs
        ]
        known = [b or nothing(len(r.dims)) for b, r in zip(wanted, spec.results, strict=True)]
        results = made_together(spec, self.program.sizes, known)
        args, blocks = [], []
        for key, info in zip(step.inputs, spec.operands, strict=True):
            value, block = self.operand(key, info, call)
            args.append(value)
            blocks.append(block)
        names = self.parts.names.setdefault(step, {})
        cut = self.cut.get(step)
        local = local_spec(
            spec, self.program.sizes, results, blocks, cut=cut, names=names, width=self.width
        )
        self.key.append((number, signature(local)))
        made = LocalDefinition(call.op.name, local).call(tuple(args), call.span)  # type: ignore[attr-defined]
        self.bind(made, step.outputs)
        self.blocks.update(zip(step.outputs, results, strict=True))

    def operand(self, key: Key, info: OperandInfo, call: Call) -> tuple[Expr, Bounds]:
        """An operand of a step, and the block that is at hand; a number has no axes."""
        if key is None:
            return self.expr(_at(call, info.path)), ((), ())
        if key not in self.values and not self.regions.get(key):
            none = nothing(len(self.program.shapes[key]))
            return Constant(np.zeros(none[0], numpy_dtype(info.dtype))), none
        return self.value(key), self.blocks[key]

    def same_op(self, number: int, step: RegionStep, origin: CallOrigin) -> None:
        """A step that takes axes or operands whole: the same call, of what is needed."""
        wanted = [(k, r) for k, key in enumerate(step.outputs) if (r := self.regions.get(key))]
        needs: list[Region] = [Region() for _ in step.inputs]
        for which, region in wanted:
            more = step.dependency.required_regions(region, which)
            needs = [a | b for a, b in zip(needs, more, strict=True)]
        spec = origin.spec  # one tensor may be two operands, of which other blocks are needed
        places = step.inputs if spec is None else [info.path for info in spec.operands]
        at_hand = {
            place: self.sliced(key, need.bounds)
            for place, key, need in zip(places, step.inputs, needs, strict=True)
            if key is not None and need.bounds is not None
        }
        call = self.rebuilt(origin.call, at_hand)
        infos = tensors(call.struct_info)
        self.key.append((number, tuple(infos)))
        self.bind(call, step.outputs)
        for key, info in zip(step.outputs, infos, strict=True):
            if self.regions.get(key):
                self.blocks[key] = self.made_block(key, info, origin.call)

    def made_block(self, key: Key, info: TensorStructInfo, call: Call) -> Bounds:
        """Where a block stands that a call has made of what was needed for the wanted one."""
        shape = self.program.shapes[key]
        low, high = _bounds(self.regions, key)
        found = []
        for axis, size in enumerate(shape):
            have = self.number(info.dims[axis]) if isinstance(info.dims, tuple) else None
            fits = have == high[axis] - low[axis]
            if not fits and have != size:
                text = f"a block of the result has {have} elements along axis {axis}, not {size}"
                raise StructInfoError(Diagnostic(text, call.span, getattr(call.op, "name", None)))
            found.append((low[axis], high[axis]) if fits else (0, size))
        return tuple([a for a, _ in found]), tuple([b for _, b in found])

    def choice(self, number: int, step: RegionStep, origin: BranchOrigin) -> None:
        """A branch: one of two blocks."""
        (key,) = step.outputs
        bounds = _bounds(self.regions, key)
        first, second = (SeqExpr((), self.sliced(k, bounds)) for k in step.inputs)
        condition = self.expr(origin.condition)
        self.bind(If(condition, first, second, first.struct_info), (key,))
        self.blocks[key] = bounds
        self.key.append((number, self.shape(key, bounds)))

    # Values

    def bind(self, value: Expr, outputs: Sequence[Key]) -> None:
        """Bind what a step makes, and its fields where it makes several tensors."""
        var = self.bound(value)
        infos = var.struct_info
        if not isinstance(infos, TupleStructInfo):
            self.values[outputs[0]] = var
            return
        ways = list(_ways(infos))
        for key, way in zip(outputs, ways, strict=True):
            found: Expr = var
            for index in way:
                info = found.struct_info.fields[index]
                found = self.bound(TupleGetItem(found, index, info))
            self.values[key] = found

    def bound(self, value: Expr) -> Var:
        var = Var(f"v{len(self.bindings)}", value.struct_info)
        self.bindings.append(VarBinding(var, value, value.span))
        return var

    def value(self, key: Key) -> Expr:
        """A tensor of the program, or the block of it that is at hand."""
        if key not in self.values:
            info, owner = info_of(key), key[0]  # type: ignore[index]
            if not self.regions.get(key):
                whole = self.program.shapes[key]
                self.blocks[key] = ((0,) * len(whole), whole)
                self.values[key] = _unread(whole, info)
                return self.values[key]
            bounds = _bounds(self.regions, key)
            if isinstance(owner, Constant) and owner.data.size <= SMALL:
                self.blocks[key] = ((0,) * owner.data.ndim, owner.data.shape)
                self.values[key] = owner
                return owner
            self.blocks[key] = bounds
            known = TensorStructInfo(self.shape(key, bounds), info.dtype)
            self.values[key] = self.param(known, key, bounds)
        return self.values[key]

    def param(self, info: StructInfo, key: Key, bounds: Bounds | None) -> Var:
        made = Var(f"p{len(self.params)}", info)
        self.params.append((made, key, bounds))
        self.key.append((key, info))
        return made

    def sliced(self, key: Key, bounds: Bounds) -> Expr:
        """A block of a tensor, cut out of what is at hand; an empty one is made on the spot."""
        shape = tuple([b - a for a, b in zip(*bounds, strict=True)])
        if 0 in shape:
            self.key.append(("empty", shape))
            return self.bound(_unread(shape, info_of(key)))
        value = self.value(key)
        if self.blocks[key] == bounds:
            return value
        whole = _copied(info_of(key).dims, value.struct_info.dtype)
        at_hand = [self.blocks[key]]
        names = self.parts.slices.setdefault(len(bounds[0]), {})
        spec = local_spec(
            whole, self.program.sizes, [bounds], at_hand, names=names, width=self.width
        )
        self.key.append(("slice", key, signature(spec)))
        return self.bound(LocalDefinition("slice", spec).call((value,), None))

    def expr(self, expr: Expr) -> Expr:
        """An argument of the program as the part has it."""
        return self.argument(expr, {})

    def argument(self, expr: Expr, at_hand: Mapping[Key, Expr], path: Path = ()) -> Expr:
        """An argument of a call, its tensors those at hand, known by their key or their path."""
        if isinstance(expr, Tuple):
            fields = enumerate(expr.fields)
            return Tuple(tuple([self.argument(f, at_hand, (*path, k)) for k, f in fields]))
        tree = self.program.tree(expr)
        if tree is not None:
            return self.of_tree(tree, at_hand, path)
        if isinstance(expr, Var):
            if expr not in self.values:
                self.values[expr] = self.param(expr.struct_info, expr, None)
            return self.values[expr]
        return expr

    def of_tree(self, tree: Any, at_hand: Mapping[Key, Expr], path: Path) -> Expr:
        if isinstance(tree, tuple) and (not tree or not isinstance(tree[0], Expr)):
            fields = enumerate(tree)
            return Tuple(tuple([self.of_tree(t, at_hand, (*path, k)) for k, t in fields]))
        found = at_hand.get(path, at_hand.get(tree))
        return self.value(tree) if found is None else found

    def rebuilt(self, call: Call, at_hand: Mapping[Key, Expr]) -> Call:
        """A call of what is at hand."""
        args = tuple([self.argument(arg, at_hand, (k,)) for k, arg in enumerate(call.args)])
        bare = Call(call.op, args, call.attrs, call.sinfo_args, call.struct_info, call.span)
        if not isinstance(call.op, Op):
            return bare
        info = call.op.definition.deduce(bare)
        return Call(call.op, args, call.attrs, call.sinfo_args, info, call.span)

    def number(self, dim: Dim) -> int:
        """A size of the part as a number."""
        return dims.evaluate(dim, self.sizes) if isinstance(dim, Poly) else dim


def _unread(shape: tuple[int, ...], info: TensorStructInfo) -> Constant:
    """A tensor of which no element is needed."""
    return Constant(np.zeros(shape, numpy_dtype(info.dtype or "float32")))


def _at(call: Call, path: tuple[int, ...]) -> Expr:
    found: Any = call.args[path[0]]
    for position in path[1:]:
        found = found.fields[position]
    return found  # type: ignore[no-any-return]


def tensors(info: StructInfo | None) -> list[TensorStructInfo]:
    """The tensors of a StructInfo, in order."""
    if isinstance(info, TupleStructInfo):
        return [tensor for field in info.fields for tensor in tensors(field)]
    return [info] if isinstance(info, TensorStructInfo) else []


def _ways(info: StructInfo, way: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """The way to every tensor of a StructInfo."""
    if isinstance(info, TupleStructInfo):
        return [w for k, field in enumerate(info.fields) for w in _ways(field, (*way, k))]
    return [way] if isinstance(info, TensorStructInfo) else []


def _copied(shape: tuple[Dim, ...], dtype: str) -> IndexSpec:
    """A tensor as it is."""
    letters = tuple([Sym(f"i{k}") for k in range(len(shape))])
    entries = tuple([AccessIndex(dims.as_dim(s), n) for s, n in zip(letters, shape, strict=True)])
    clause = Statement(
        letters, (), (), (Read("x", 0, entries),), (Write(0, entries, OperandElement("x")),)
    )
    operand, result = OperandInfo("x", (0,), shape, dtype), ResultInfo("y", shape, dtype)
    return IndexSpec((operand,), (result,), dict(zip(letters, shape, strict=True)), (clause,))


def signature(spec: IndexSpec) -> Hashable:
    """What two parts of one spec have in common if they do the same."""
    clauses = tuple(
        [
            (
                tuple([(s, spec.extents[s]) for s in (*c.parallel, *c.reduce)]),
                c.reads,
                c.writes,
                c.conditions,
            )
            for c in spec.clauses
        ]
    )
    sizes = tuple([o.dims for o in spec.operands]) + tuple([r.dims for r in spec.results])
    return sizes, clauses, spec.base
