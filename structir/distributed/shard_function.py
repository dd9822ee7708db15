"""Generates the function that a shard runs: the program's steps, restricted to its blocks."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import attrs

from structir.analysis.deduction import deduce
from structir.analysis.substitution import Substitution
from structir.analysis.variables import free_vars
from structir.distributed.branches import sink_into_branches
from structir.distributed.callee_blocks import (
    block_of_kernel,
    call_on_blocks,
    common_result_blocks,
    one_element,
)
from structir.distributed.constant_lifting import SMALL
from structir.distributed.local_op import LocalDefinition
from structir.distributed.local_rows import local_arguments, local_result
from structir.distributed.loop_specs import copy_spec, loop_signature
from structir.distributed.tensor_fields import has_known_sizes, paths, tensors
from structir.errors import Diagnostic, Span, StructInfoError
from structir.ir import dims
from structir.ir.dims import Dim, Poly, Sym, as_dim
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import (
    BindingBlock,
    Call,
    Constant,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    PrimValue,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.kernel import Kernel
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from structir.lazy import lazy_module
from structir.projections.boxes import Bounds, Region, region
from structir.projections.program import BranchOrigin, CallOrigin, Program, info_of
from structir.projections.region_propagation import RegionStep
from structir.projections.regions import operands_for_bounds
from structir.projections.restriction import Names, Range, common_block, local_spec, nothing
from structir.projections.spec import (
    IndexSpec,
    OperandInfo,
)

np = lazy_module("numpy")

Key = Hashable  # of a tensor of the program
Path = tuple[int, ...]  # of an operand in the arguments of a call
NarrowedRanges = Mapping[RegionStep, Mapping[Sym, Range]]  # narrowed ranges of reduction indices


@attrs.frozen(eq=False)
class ShardFunction:
    """The function of a shard over blocks.

    `inputs` gives the value and the block of each parameter (None: the whole value). Shards that
    compute the same function have equal keys. The first parameter of the function is a shape: the
    symbolic sizes of the program and the block sizes.
    """

    function: Function
    sizes: tuple[int, ...]
    inputs: tuple[tuple[Key, Bounds | None], ...]
    key: Hashable
    kernels: Mapping[str, Kernel] = attrs.Factory(dict)  # that the function calls, over blocks


@attrs.frozen(eq=False)
class PartialResults:
    """The generator of the shard functions of one program, with shared symbols."""

    program: Program
    names: dict[RegionStep, Names] = attrs.Factory(dict)
    slices: dict[int, Names] = attrs.Factory(dict)
    symbols: list[Sym] = attrs.Factory(list)  # block sizes, in order of first use
    offsets: dict[int, Sym] = attrs.Factory(dict)  # other numbers, by position

    def part(
        self,
        regions: Mapping[Key, Region],
        results: Mapping[Key, Bounds],
        narrowed: NarrowedRanges | None = None,
    ) -> ShardFunction:
        """Returns the function that computes blocks of some results.

        `regions` are the regions of every value that these blocks require, including themselves.
        """
        writer = _ShardWriter(self, regions, narrowed or {})
        writer.key.append(tuple(results))  # equal steps may return different results
        for number, step in enumerate(self.program.steps):
            if step.origin is not None and any(regions.get(output) for output in step.outputs):
                writer.step(number, step)
        outputs = [writer.slice(key, bounds) for key, bounds in results.items()]
        body: Expr = outputs[0] if len(outputs) == 1 else Tuple(tuple(outputs))
        sequence = SeqExpr((BindingBlock(sink_into_branches(writer.bindings, body)),), body)
        sizes = Var("sizes", ShapeStructInfo(tuple([as_dim(s) for s in writer.sizes])))
        params = (sizes, *[param for param, _, _ in writer.params])
        inputs = tuple([(key, block) for _, key, block in writer.params])
        function = Function(params, sequence, body.struct_info)
        sizes_of_call = tuple(writer.sizes.values())
        return ShardFunction(function, sizes_of_call, inputs, tuple(writer.key), writer.kernels)


def _bounds(regions: Mapping[Key, Region], key: Key) -> Bounds:
    bounds = regions[key].bounds
    assert bounds is not None
    return bounds


class _ShardWriter:
    """The generator of one shard function."""

    def __init__(
        self, parts: PartialResults, regions: Mapping[Key, Region], narrowed: NarrowedRanges
    ) -> None:
        self.parts, self.program, self.regions = parts, parts.program, regions
        self.narrowed = narrowed
        self.values: dict[Key, Expr] = {}
        self.blocks: dict[Key, Bounds] = {}
        self.params: list[tuple[Var, Key, Bounds | None]] = []
        self.bindings: list[VarBinding] = []
        self.key: list[Hashable] = []
        self.sizes: dict[Sym, int] = dict(parts.program.sizes)
        self.widths: dict[int, Dim] = {}
        self.kernels: dict[str, Kernel] = {}
        self.span: Span | None = None  # of the current step

    def width(self, size: int) -> Dim:
        """Returns a symbol for a block size, so that shards that differ only in it are equal."""
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
        """Returns the shape of a block; axes that are not split keep their dims."""
        sizes, shape = info_of(key).dims, self.program.shapes[key]
        declared = sizes if isinstance(sizes, tuple) else shape
        return tuple(
            [
                dim if (a, b) == (0, size) else self.width(b - a)
                for dim, size, a, b in zip(declared, shape, *bounds, strict=True)
            ]
        )

    def step(self, number: int, step: RegionStep) -> None:
        """Emits a step of the program, restricted to its blocks."""
        origin = step.origin
        self.span = getattr(getattr(origin, "call", None), "span", None)
        if isinstance(origin, BranchOrigin):
            self.branch(number, step, origin)
        elif origin.rows is not None:
            self.rows(number, step, origin)
        elif origin.spec is not None and origin.kernel is not None:
            self.kernel(number, step, origin.call, origin.kernel)
        elif origin.spec is not None and isinstance(origin.call.op, ExternFunc):
            self.external(number, step, origin.call, origin.spec)
        elif origin.spec is not None and not origin.spec.whole:
            self.loops(number, step, origin.call, origin.spec)
        else:
            self.same_op(number, step, origin)

    def loops(self, number: int, step: RegionStep, call: Call, spec: IndexSpec) -> None:
        """Emits a step given by loops: the loops over the blocks."""
        required = [
            need.bounds if (need := self.regions.get(key)) else None for key in step.outputs
        ]
        requested = [b or nothing(len(r.dims)) for b, r in zip(required, spec.results, strict=True)]
        results = common_block(spec, self.program.sizes, requested)
        args, blocks = [], []
        bounded = operands_for_bounds(spec)
        for k, (key, info) in enumerate(zip(step.inputs, spec.operands, strict=True)):
            value, block = self.operand(key, info, call, k in bounded)
            args.append(value)
            blocks.append(block)
        names = self.parts.names.setdefault(step, {})
        ranges = self.narrowed.get(step)
        local = local_spec(
            spec, self.program.sizes, results, blocks, ranges=ranges, names=names, width=self.width
        )
        self.key.append((number, loop_signature(local)))
        local_call = LocalDefinition(call.op.name, local).call(tuple(args), call.span)  # type: ignore[attr-defined]
        self.bind(local_call, step.outputs)
        self.blocks.update(zip(step.outputs, results, strict=True))

    def kernel(self, number: int, step: RegionStep, call: Call, kernel: Kernel) -> None:
        """Emits a call of a kernel: the kernel over the blocks."""
        arrays = [isinstance(arg.struct_info, TensorStructInfo) for arg in call.args]
        positions = [k for k, is_array in enumerate(arrays) if is_array]
        args = [self.expr(arg) for arg in call.args]
        operands: list[tuple[Bounds, tuple[int, ...]]] = []
        for k, key in zip(positions, step.inputs, strict=True):
            shape = self.program.shapes[key]
            if self.regions.get(key):
                args[k] = self.value(key)
                operands.append((self.blocks[key], shape))
            else:
                block = one_element(shape)
                dtype = numpy_dtype(str(info_of(key).dtype))
                args[k] = Constant(np.zeros(block[1], dtype))
                operands.append((block, shape))
        results = [
            (r.bounds if (r := self.regions.get(key)) else None, self.program.shapes[key])
            for key in step.outputs
        ]
        local = block_of_kernel(kernel, call, self.program.sizes, operands, results)
        name = f"{kernel.name}_block{number}"
        self.kernels[name] = local.kernel
        numbers = [PrimValue(self.offset(value)) for value in local.numbers]
        blocks = [block or one_element(shape) for block, shape in results]
        infos = tuple(
            [
                TensorStructInfo(self.shape(key, block), info_of(key).dtype)
                for key, block in zip(step.outputs, blocks, strict=True)
            ]
        )
        callee = GlobalVar(name, local.kernel.struct_info)
        bare = Call(callee, (*args, *numbers), {}, infos, None, call.span)
        self.key.append((number, str(local.kernel), infos, tuple([a.struct_info for a in args])))
        self.bind(replace(bare, struct_info=deduce(bare)), step.outputs)
        self.blocks.update(zip(step.outputs, blocks, strict=True))

    def external(self, number: int, step: RegionStep, call: Call, spec: IndexSpec) -> None:
        """Emits a call of an external function on blocks."""
        shapes = [self.program.shapes[key] for key in step.outputs]
        required = [r.bounds if (r := self.regions.get(key)) else None for key in step.outputs]
        results = common_result_blocks(spec, shapes, required)
        needs: list[Region] = [Region() for _ in step.inputs]
        for k, bounds in enumerate(results):
            regions = step.dependency.required_regions(region(*bounds), k)
            needs = [a | b for a, b in zip(needs, regions, strict=True)]
        available: dict[Key, Expr] = {
            info.path: self.slice(key, need.bounds)
            for info, key, need in zip(spec.operands, step.inputs, needs, strict=True)
            if need.bounds is not None
        }
        args = tuple([self.argument(arg, available, (k,)) for k, arg in enumerate(call.args)])
        pairs = zip(step.outputs, results, strict=True)
        local = call_on_blocks(call, args, [self.shape(key, bounds) for key, bounds in pairs])
        self.key.append((number, tuple(tensors(local.struct_info))))
        self.bind(local, step.outputs)
        self.blocks.update(zip(step.outputs, results, strict=True))

    def offset(self, value: int) -> Dim:
        """Returns a symbol for a number that differs between shards."""
        symbol = Sym(f"offset{len(self.sizes)}")
        known = self.parts.offsets.setdefault(len(self.sizes), symbol)
        self.sizes[known] = value
        return as_dim(known)

    def operand(
        self, key: Key, info: OperandInfo, call: Call, bounded: bool
    ) -> tuple[Expr, Bounds]:
        """Returns an operand of a step and its available block; a scalar has no axes.

        A `bounded` operand is a placeholder of the whole shape, with which indices are compared.
        """
        if key is None:
            return self.expr(_at(call, info.path)), ((), ())
        shape = self.program.shapes[key]
        if bounded:
            return _unread(shape, info_of(key)), ((0,) * len(shape), shape)
        if key not in self.values and not self.regions.get(key):
            empty = nothing(len(shape))
            return Constant(np.zeros(empty[0], numpy_dtype(info.dtype))), empty
        return self.value(key), self.blocks[key]

    def same_op(self, number: int, step: RegionStep, origin: CallOrigin) -> None:
        """Emits a step that reads whole axes or operands: the same call on the required regions."""
        required = [(k, r) for k, key in enumerate(step.outputs) if (r := self.regions.get(key))]
        operand_regions: list[Region] = [Region() for _ in step.inputs]
        for result, need in required:
            regions = step.dependency.required_regions(need, result)
            operand_regions = [a | b for a, b in zip(operand_regions, regions, strict=True)]
        spec = origin.spec  # one tensor may be two operands, with different blocks
        operands = step.inputs if spec is None else [info.path for info in spec.operands]
        available = {
            operand: self.slice(key, need.bounds)
            for operand, key, need in zip(operands, step.inputs, operand_regions, strict=True)
            if key is not None and need.bounds is not None
        }
        call = self.rebuild_call(origin.call, available)
        coarse = len(tensors(call.struct_info)) < len(step.outputs)
        coarse = coarse or not has_known_sizes(call.struct_info)
        if coarse and self.is_whole(step, operand_regions):
            owner: Any = step.outputs[0][0]  # type: ignore[index]
            call = replace(call, struct_info=owner.struct_info)  # may be sharper than deduction
        infos = tensors(call.struct_info)
        self.key.append((number, tuple(infos)))
        self.bind(call, step.outputs)
        for key, info in zip(step.outputs, infos, strict=True):
            if self.regions.get(key):
                self.blocks[key] = self.computed_block(key, info, origin.call)

    def is_whole(self, step: RegionStep, operands: Sequence[Region]) -> bool:
        """Whether the regions of the operands of a step cover them."""
        shapes = [self.program.shapes.get(key, ()) for key in step.inputs]
        pairs = zip(operands, shapes, strict=True)
        return all(r.bounds == ((0,) * len(shape), shape) for r, shape in pairs)

    def rows(self, number: int, step: RegionStep, origin: CallOrigin) -> None:
        """Emits an op on rows: the same call on blocks of rows, at positions in these blocks."""
        (output,) = step.outputs
        dependency: Any = step.dependency
        bounds = _bounds(self.regions, output)
        pairs = zip(step.inputs, dependency.operand_blocks(bounds), strict=True)
        blocks = [self.slice(key, block) for key, block in pairs]
        self.blocks[output] = dependency.computed(bounds)
        args = local_arguments(origin.call, dependency, bounds, blocks, self)
        bare = Call(origin.call.op, args, origin.call.attrs, (), None, origin.call.span)
        call = replace(bare, struct_info=deduce(bare))
        self.key.append((number, tuple([arg.struct_info for arg in args])))
        self.bind(local_result(call, dependency, bounds, self), step.outputs)

    def computed_block(self, key: Key, info: TensorStructInfo, call: Call) -> Bounds:
        """Returns the position of the block that a call computes from the required regions."""
        shape = self.program.shapes[key]
        low, high = _bounds(self.regions, key)
        ranges = []
        for axis, size in enumerate(shape):
            actual = self.number(info.dims[axis]) if isinstance(info.dims, tuple) else None
            fits = actual == high[axis] - low[axis]
            if not fits and actual != size:
                text = f"axis {axis} of a result block: expected size {size}, found {actual}"
                raise StructInfoError(Diagnostic(text, call.span, getattr(call.op, "name", None)))
            ranges.append((low[axis], high[axis]) if fits else (0, size))
        return tuple([a for a, _ in ranges]), tuple([b for _, b in ranges])

    def branch(self, number: int, step: RegionStep, origin: BranchOrigin) -> None:
        """Emits a conditional between two blocks."""
        (key,) = step.outputs
        bounds = _bounds(self.regions, key)
        first, second = (SeqExpr((), self.slice(k, bounds)) for k in step.inputs)
        condition = self.expr(origin.condition)
        self.bind(If(condition, first, second, first.struct_info), (key,))
        self.blocks[key] = bounds
        self.key.append((number, self.shape(key, bounds)))

    def bind(self, value: Expr, outputs: Sequence[Key]) -> None:
        """Binds the result of a step, and its fields where it has several tensors."""
        var = self.emit(value)
        infos = var.struct_info
        if not isinstance(infos, TupleStructInfo):
            self.values[outputs[0]] = var
            return
        for key, path in zip(outputs, paths(infos), strict=True):
            field: Expr = var
            for index in path:
                info = field.struct_info.fields[index]
                field = self.emit(TupleGetItem(field, index, info))
            self.values[key] = field

    def emit(self, value: Expr) -> Var:
        var = Var(f"v{len(self.bindings)}", value.struct_info)
        self.bindings.append(VarBinding(var, value, value.span))
        return var

    def value(self, key: Key) -> Expr:
        """Returns the available block of a tensor of the program."""
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
            info_of_block = TensorStructInfo(self.shape(key, bounds), info.dtype)
            self.values[key] = self.param(info_of_block, key, bounds)
        return self.values[key]

    def param(self, info: StructInfo, key: Key, bounds: Bounds | None) -> Var:
        param = Var(f"p{len(self.params)}", info)
        self.params.append((param, key, bounds))
        self.key.append((key, info))
        return param

    def slice(self, key: Key, bounds: Bounds) -> Expr:
        """Returns a block of a tensor, a slice of the available one; a constant if it is empty."""
        shape = tuple([b - a for a, b in zip(*bounds, strict=True)])
        if 0 in shape:
            self.key.append(("empty", shape))
            return self.emit(_unread(shape, info_of(key)))
        value = self.value(key)
        if self.blocks[key] == bounds:
            return value
        whole = copy_spec(info_of(key).dims, value.struct_info.dtype)
        available = [self.blocks[key]]
        names = self.parts.slices.setdefault(len(bounds[0]), {})
        spec = local_spec(
            whole, self.program.sizes, [bounds], available, names=names, width=self.width
        )
        self.key.append(("slice", key, loop_signature(spec)))
        return self.emit(LocalDefinition("slice", spec).call((value,), None))

    def expr(self, expr: Expr) -> Expr:
        """Returns an argument of the program in the shard function."""
        return self.argument(expr, {})

    def argument(self, expr: Expr, available: Mapping[Key, Expr], path: Path = ()) -> Expr:
        """Returns an argument of a call, with its tensors looked up in `available`."""
        if isinstance(expr, Tuple):
            fields = enumerate(expr.fields)
            return Tuple(tuple([self.argument(f, available, (*path, k)) for k, f in fields]))
        if expr in self.program.closures:
            return self.closure(expr)
        tree = self.program.tree(expr)
        if tree is not None:
            return self.of_tree(tree, available, path)
        if isinstance(expr, Var):
            if expr not in self.values:
                self.values[expr] = self.param(expr.struct_info, expr, None)
            return self.values[expr]
        return expr

    def closure(self, var: Expr) -> Expr:
        """Returns a closure that captures values of the shard."""
        if var not in self.values:
            function = self.program.closures[var]
            captured = {v: self.captured(v) for v in free_vars(function)}
            bound = {size: as_dim(size) for size in self.program.sizes}  # casts do not rename these
            copy = Substitution(captured, bound, fresh=True).function(function)
            self.values[var] = self.emit(copy)
        return self.values[var]

    def captured(self, var: Var) -> Expr:
        """Returns a value that a closure captures; its steps require it completely."""
        value = self.expr(var)
        return self.emit(value) if isinstance(value, Tuple) else value

    def of_tree(self, tree: Any, available: Mapping[Key, Expr], path: Path) -> Expr:
        if isinstance(tree, tuple) and (not tree or not isinstance(tree[0], Expr)):
            fields = enumerate(tree)
            return Tuple(tuple([self.of_tree(t, available, (*path, k)) for k, t in fields]))
        if tree is None:
            text = "cannot shard a call that takes a tuple variable of tensors and other values"
            hint = "pass the fields of the tuple as arguments of their own"
            raise StructInfoError(Diagnostic(text, self.span, hint=hint))
        block = available.get(path, available.get(tree))
        return self.value(tree) if block is None else block

    def rebuild_call(self, call: Call, available: Mapping[Key, Expr]) -> Call:
        """Returns the call with the available blocks as arguments."""
        args = tuple([self.argument(arg, available, (k,)) for k, arg in enumerate(call.args)])
        op = self.closure(call.op) if call.op in self.program.closures else call.op
        bare = Call(op, args, call.attrs, call.sinfo_args, call.struct_info, call.span)
        if not isinstance(call.op, Op):
            return bare
        info = call.op.definition.deduce(bare)
        return Call(call.op, args, call.attrs, call.sinfo_args, info, call.span)

    def number(self, dim: Dim) -> int:
        """Returns the value of a dim of the shard function."""
        return dims.evaluate(dim, self.sizes) if isinstance(dim, Poly) else dim


def _unread(shape: tuple[int, ...], info: TensorStructInfo) -> Constant:
    """Returns a placeholder for a tensor without required elements."""
    return Constant(np.zeros(shape, numpy_dtype(info.dtype or "float32")))


def _at(call: Call, path: tuple[int, ...]) -> Expr:
    operand: Any = call.args[path[0]]
    for index in path[1:]:
        operand = operand.fields[index]
    return operand  # type: ignore[no-any-return]
