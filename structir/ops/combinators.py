"""Combinators: functions of the program mapped over axes, and folds over the first axis.

    y = R.map(cls.f, x)                            # f for each slice of the first axis
    y = R.vmap(cls.f, in_axes=(0, None))(x, w)     # each parameter has its own axis
    y = R.reduce(cls.f, init, x)                   # f(...f(f(init, x[0]), x[1])..., x[n - 1])

`structir.batching.combinators` replaces them by batched ops, reductions and loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from structir.analysis.calls import derive_call_ret_struct_info
from structir.analysis.lattice import FAIL_L0, base_check
from structir.analysis.loop_view import LoopView, Sliced, sizes_of, slice_info, stacked_info
from structir.errors import Diagnostic, ShapeMismatchError, Span, StructInfoError
from structir.ir import dims
from structir.ir.axes import AnySize, Axis, Ragged, size_in
from structir.ir.dims import Dim, Poly
from structir.ir.expr import NO_ATTRS, Call, Expr
from structir.ir.node import replace
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.lazy import lazy_module
from structir.opdef.opaque import OpaqueDefinition, as_operand
from structir.ops.loop import require_kept_shapes

np = lazy_module("numpy")
MAX_OPERANDS = 64
EXAMPLES = {
    "map": "`R.map(cls.f, x)`",
    "vmap": "`R.vmap(cls.f, in_axes=(0, None))(x, w)`",
    "reduce": "`R.reduce(cls.f, init, x)`",
}


@attrs.define(eq=False)
class CombinatorDefinition(OpaqueDefinition):
    """The definition of a combinator: a function of the program, then any number of operands."""

    defaults: Mapping[str, Any] = NO_ATTRS
    view: Callable[[Call], LoopView] = attrs.field(default=None)

    def __attrs_post_init__(self) -> None:
        OpaqueDefinition.__attrs_post_init__(self)
        self.hooks["loop"] = self.view
        self.hooks["combinator"] = True

    @property
    def argument_names(self) -> tuple[str, ...]:
        """Returns the names of the operands, in order."""
        return ("f", *[f"x{k}" for k in range(MAX_OPERANDS)])

    @property
    def leading(self) -> int:
        """Returns the number of positional operands: all."""
        return MAX_OPERANDS + 1

    @property
    def of_sizes(self) -> tuple[bool, ...]:
        """Returns False for each operand: none is a size."""
        return (False,) * (MAX_OPERANDS + 1)

    def bind(self, args: tuple[Any, ...], keywords: Mapping[str, Any], span: Span | None) -> Call:
        """Builds a call of a function, operands and attributes."""
        for name in keywords:
            if name not in self.defaults:
                options = ", ".join([f"`{n}`" for n in self.defaults]) or "none"
                raise self.error(
                    f"unexpected keyword argument `{name}`; available: {options}", span
                )
        operands = tuple(map(as_operand, args))
        if not 1 < len(operands) <= MAX_OPERANDS:
            raise self.error("expected a function and operands", span)
        for operand in operands:
            if not isinstance(operand, Expr):
                raise self.error(f"expected an operand of the program, found {operand!r}", span)
        values = {name: static(value) for name, value in keywords.items()}
        given = {n: v for n, v in values.items() if v != self.defaults[n]}
        call = Call(self.op, operands, given or NO_ATTRS, span=span)
        return replace(call, struct_info=self.deduce(call))

    def error(self, message: str, span: Span | None = None) -> StructInfoError:
        """Returns an error with an example of the combinator."""
        hint = EXAMPLES[self.name]
        return StructInfoError(Diagnostic(message, span, self.name, hint=hint, code="E0225"))

    def deduce(self, call: Call) -> StructInfo:
        """Infers the result from that of the function for slices of the operands."""
        try:
            return self.rule(call)
        except StructInfoError as error:
            diagnostic = attrs.evolve(error.diagnostics[0].at(call.span), op=self.name)
            for arg in call.args:
                diagnostic = diagnostic.note(
                    f"{getattr(arg, 'name', 'operand')}: {arg.struct_info}", arg.span
                )
            raise StructInfoError(diagnostic) from None

    def reference(self, call: Call, values: tuple[Any, ...]) -> Any:
        """Computes the result from the values of the operands."""
        return self.function(call, *values)


def static(value: Any) -> Any:
    """Returns an attribute with tuples in place of lists."""
    return tuple(map(static, value)) if isinstance(value, tuple | list) else value


def attribute(call: Call, name: str) -> Any:
    """Returns an attribute of a call, or its default."""
    definition: Any = call.op.definition  # type: ignore[attr-defined]
    return call.attrs.get(name, definition.defaults[name])


def _error(message: str, hint: str, code: str = "E0225") -> StructInfoError:
    return StructInfoError(Diagnostic(message, hint=hint, code=code))


# ---- the axes of each combinator


def _map_view(call: Call) -> LoopView:
    """Returns the view of `map`: all operands lose the same axes, which lead the results."""
    axes = attribute(call, "axes")
    axes = axes if isinstance(axes, tuple) else (axes,)
    if not axes or not all([type(axis) is int for axis in axes]) or len({*axes}) < len(axes):
        raise _error(f"axes: expected different integers, found {axes}", "`axes=(0, 1)`")
    operands = tuple([Sliced((k,), axes) for k in range(1, len(call.args))])
    return LoopView(call.args[0], operands, 0, tuple(range(len(axes))))


def _vmap_view(call: Call) -> LoopView:
    """Returns the view of `vmap`, with the axis of each operand."""
    in_axes, out_axes = attribute(call, "in_axes"), attribute(call, "out_axes")
    count = len(call.args) - 1
    each = in_axes if isinstance(in_axes, tuple) else (in_axes,) * count
    if len(each) != count or not all([a is None or type(a) is int for a in each]):
        message = f"in_axes: expected an axis or None for each of {count} operands, found {in_axes}"
        raise _error(message, f"`in_axes={(0,) * count}`")
    if all([axis is None for axis in each]):
        message = "in_axes: expected the axis of at least one operand, found only None"
        raise _error(message, f"`in_axes={(0,) * count}`")
    if type(out_axes) is not int:
        raise _error(f"out_axes: expected an integer, found {out_axes!r}", "`out_axes=0`")
    operands = [Sliced((k + 1,), () if a is None else (a,)) for k, a in enumerate(each)]
    return LoopView(call.args[0], tuple(operands), 0, (out_axes,))


def _reduce_view(call: Call) -> LoopView:
    """Returns the view of `reduce`: the accumulated value is a state."""
    if len(call.args) != 3:
        message = f"expected a function, an initial value and an operand, found {len(call.args)}"
        raise _error(f"{message} arguments", EXAMPLES["reduce"])
    return LoopView(call.args[0], (Sliced((1,)), Sliced((2,), (0,))), 1)


# ---- StructInfo


def _result_info(call: Call) -> StructInfo:
    """Infers the result: that of the function for slices, stacked at the mapped axes."""
    view, sizes = _checked(call)
    info = _body_result(call, view)
    if info == OBJECT:
        return OBJECT
    if not _is_stackable(info):
        hint = "return tensors, or tuples of tensors"
        raise _error(f"f: expected tensors as result, found {info}", hint, "E0228")
    return stacked_info(info, view.stacked, sizes)


def _fold_info(call: Call) -> StructInfo:
    """Infers the result of a fold: the accumulated value keeps its StructInfo."""
    view, _ = _checked(call)
    init, after = call.args[1].struct_info or OBJECT, _body_result(call, view)
    if after == OBJECT:
        return init
    if base_check(init, after) is FAIL_L0 and base_check(after, init) is FAIL_L0:
        message = f"f: expected the accumulated value {init} as result, found {after}"
        hint = "return a value of the shape and dtype of `init`, or change `init`"
        raise _error(message, hint, "E0227")
    return init


def _body_result(call: Call, view: LoopView) -> StructInfo:
    info = view.body.struct_info
    if not isinstance(info, FuncStructInfo):
        if info == OBJECT:
            return OBJECT
        raise _error(f"f: expected a function of the program, found {info}", "pass `cls.f`")
    slices = [slice_info(s.of(call) or OBJECT, s.axes) for s in view.operands]
    lengths: dict[Ragged, Dim] = {}  # of a row, for parameters with dense axes
    if info.params is not None and len(info.params) == len(slices):
        slices = [
            replaced_axes(one, lambda axis: _length_of(axis, lengths)) if _is_dense(param) else one
            for one, param in zip(slices, info.params, strict=True)
        ]
    result = derive_call_ret_struct_info(info, slices)
    return replaced_axes(result, lambda axis: _of_length(axis, lengths)) if lengths else result


def _is_dense(param: StructInfo) -> bool:
    return isinstance(param, TensorStructInfo) and not any(
        [isinstance(axis, Ragged) for axis in param.axes or ()]
    )


def _length_of(axis: Axis, lengths: dict[Ragged, Dim]) -> Axis:
    """Returns the length of a row in place of a ragged axis."""
    if not isinstance(axis, Ragged):
        return axis
    return lengths.setdefault(axis, dims.sym("length"))


def _of_length(axis: Axis, lengths: Mapping[Ragged, Dim]) -> Axis:
    """Returns a ragged axis in place of the length of a row; a size that depends on lengths is
    unknown."""
    for ragged, length in lengths.items():
        if axis == length:
            return ragged
    size: Any = size_in(axis)
    is_known = not isinstance(size, Poly) or dims.syms(size).isdisjoint(
        [dims.as_sym(length) for length in lengths.values()]
    )
    return axis if is_known else AnySize()


def replaced_axes(info: StructInfo, replacement: Callable[[Axis], Axis]) -> StructInfo:
    """Returns a StructInfo with other axes in its tensors of known rank."""
    if isinstance(info, TupleStructInfo):
        fields = tuple([replaced_axes(field, replacement) for field in info.fields])
        return TupleStructInfo(fields, info.names)
    if not isinstance(info, TensorStructInfo):
        return info
    axes = info.axes or info.dims
    if not isinstance(axes, tuple):
        return info
    new = tuple(map(replacement, axes))
    return info if new == axes else TensorStructInfo(new, info.element, vdevice=info.vdevice)


def _is_stackable(info: StructInfo) -> bool:
    if isinstance(info, TupleStructInfo):
        return all(map(_is_stackable, info.fields))
    return isinstance(info, TensorStructInfo)


def _checked(call: Call) -> tuple[LoopView, list[Any]]:
    """Returns the view and the sizes of the mapped axes. Raises StructInfoError if they differ."""
    view: LoopView = call.op.definition.view(call)  # type: ignore[attr-defined]
    sizes: list[Any] = [None] * max([len(s.axes) for s in view.operands])
    for sliced in view.operands:
        info = sliced.of(call)
        for part in _tensors(info or OBJECT) if sliced.axes else ():
            _check_axes(part, sliced.axes)
            for k, size in enumerate(sizes_of(part, sliced.axes)):
                if size is None or sizes[k] is None:
                    sizes[k] = sizes[k] if size is None else size
                elif dims.equal(size, sizes[k]) is False:
                    message = f"expected mapped axes of one size, found {dims.text(sizes[k])}"
                    hint = "map over another axis, or pass an operand whole: `in_axes=(0, None)`"
                    raise _error(f"{message} and {dims.text(size)}", hint, "E0226")
    return view, sizes


def _tensors(info: StructInfo) -> list[StructInfo]:
    if isinstance(info, TupleStructInfo):
        return [part for field in info.fields for part in _tensors(field)]
    return [info]


def _check_axes(info: StructInfo, axes: Sequence[int]) -> None:
    if not isinstance(info, TensorStructInfo):
        if info == OBJECT:
            return
        raise _error(f"expected a tensor to map over, found {info}", "pass it with `in_axes=None`")
    rank = info.ndim if info.ndim is not None and info.axes is None else None
    for axis in axes:
        if rank is not None and rank >= 0 and not -rank <= axis < rank:
            hint = "map over an axis of the operand, or pass it whole: `in_axes=(0, None)`"
            raise _error(f"axis {axis} is out of range for {info}", hint, "E0226")
    if rank is not None and len({axis % rank for axis in axes}) < len(axes):
        raise _error(f"axes {tuple(axes)} of {info} repeat an axis", "`axes=(0, 1)`", "E0226")


# ---- references


def _mapped_reference(call: Call, f: Any, *operands: Any) -> Any:
    """Evaluates the function for each slice, and stacks the results."""
    view: LoopView = call.op.definition.view(call)  # type: ignore[attr-defined]
    return _mapped(f, list(operands), [s.axes for s in view.operands], view.stacked)


def _mapped(f: Any, operands: list[Any], axes: Sequence[tuple[int, ...]], out: Any) -> Any:
    first = [_moved_front(x, each) if each else x for x, each in zip(operands, axes, strict=True)]
    count = max(map(len, axes))
    sizes = {x.shape[:count] for x, each in zip(first, axes, strict=True) if each for x in _flat(x)}
    if len(sizes) != 1:
        raise ShapeMismatchError(f"expected mapped axes of one size, found {sorted(sizes)}")
    shape = sizes.pop()
    points = [*np.ndindex(*shape)] or [None]
    results = [
        f(*[_sliced(x, p, count) if each else x for x, each in zip(first, axes, strict=True)])
        for p in points
    ]
    return _stacked(results if 0 not in shape else results[:1], shape, out)


def _flat(value: Any) -> list[Any]:
    return [x for field in value for x in _flat(field)] if isinstance(value, tuple) else [value]


def _moved_front(value: Any, axes: tuple[int, ...]) -> Any:
    if isinstance(value, tuple):
        return tuple([_moved_front(field, axes) for field in value])
    return np.moveaxis(value, axes, range(len(axes)))


def _sliced(value: Any, point: Any, count: int) -> Any:
    """Returns the slice at a point; without points, zeros of its shape."""
    if isinstance(value, tuple):
        return tuple([_sliced(field, point, count) for field in value])
    if point is None:
        return np.zeros(value.shape[count:], value.dtype)
    return np.array(value[point], order="C")


def _stacked(results: list[Any], shape: tuple[int, ...], out: tuple[int, ...]) -> Any:
    first = results[0]
    if isinstance(first, tuple):
        fields = range(len(first))
        return tuple([_stacked([r[k] for r in results], shape, out) for k in fields])
    arrays = [np.asarray(r) for r in results]
    if len({a.shape for a in arrays}) > 1:
        shapes = sorted({a.shape for a in arrays})
        raise ShapeMismatchError(f"f: expected results of one shape, found {shapes}")
    if 0 in shape:
        stacked = np.zeros((*shape, *arrays[0].shape), arrays[0].dtype)
    else:
        stacked = np.stack(arrays).reshape(*shape, *arrays[0].shape)
    return np.array(np.moveaxis(stacked, range(len(shape)), out), order="C")


def _fold_reference(call: Call, f: Any, init: Any, x: Any) -> Any:
    """Applies the function to the accumulated value and to each slice, from first to last."""
    sizes = {each.shape[0] for each in _flat(x)}
    if len(sizes) != 1:
        raise ShapeMismatchError(f"expected axes 0 of one size, found {sorted(sizes)}")
    count, total = sizes.pop(), init
    for index in range(count):
        total = f(total, _sliced(x, (index,), 1))
    if not count:
        f(init, _sliced(x, None, 1))  # checks the shapes
    require_kept_shapes("reduce", init, total)
    return total


def _combinator(name: str, view: Any, rule: Any, reference: Any, **defaults: Any) -> Any:
    return CombinatorDefinition(name, reference, rule, defaults=defaults, view=view).op


MAP = _combinator("map", _map_view, _result_info, _mapped_reference, axes=0)
VMAP = _combinator("vmap", _vmap_view, _result_info, _mapped_reference, in_axes=0, out_axes=0)
MAP.definition.hooks["maps"] = VMAP.definition.hooks["maps"] = True
VMAP.definition.hooks["curried"] = 1  # the function is an operand of the first call
REDUCE = _combinator("reduce", _reduce_view, _fold_info, _fold_reference)
