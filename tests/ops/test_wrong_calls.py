"""Variations of the examples of every op: diagnostics, or results of the inferred structure.

Arrays have any memory layout and any size, including 0.
"""

import warnings

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Var
from structir.ir.struct_info import TensorStructInfo
from structir.opdef.parameters import REQUIRED
from structir.script import R
from tests.cases import every_case
from tests.ops.built_in import BUILT_IN_OPS
from tests.ops.calls import called, evaluated
from tests.ops.test_every_op import assert_fits
from tests.runtime.agreement import assert_agree

OPS = {name: op.definition for name, op in BUILT_IN_OPS.items()}
every_op = pytest.mark.parametrize("name", sorted(OPS))
every_op_in_one = every_case("name", sorted(OPS))
DTYPES = ("bool", "int8", "int64", "uint8", "float16", "bfloat16", "float64")
STRANGE = (-7, 0, 3, 2.5, True, "nonsense", "float32", (), (0, 0), (9,), ("a",), (1.5, 2), None)


def assert_rejected_or_correct(name, args, keywords):
    """Checks that a call is rejected by a diagnostic, or its result matches the StructInfo."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call, values = called(name, *args, **keywords)
        except DiagnosticError as error:
            assert error.diagnostics[0].op == name
            return
        try:
            result = OPS[name].reference(call, values)
        except (DiagnosticError, ShapeMismatchError):
            return
        assert_fits(call.struct_info, result)


def tensors(args):
    """Returns the positions of tensors among arguments, including members of lists."""
    for k, arg in enumerate(args):
        if isinstance(arg, np.ndarray):
            yield (k,)
        elif isinstance(arg, list):
            yield from ((k, m) for m, item in enumerate(arg) if isinstance(item, np.ndarray))


def at(args, place):
    result = args
    for step in place:
        result = result[step]
    return result


def exchanged(args, place, value):
    """Replaces the argument at a position."""
    head, rest = place[0], place[1:]
    value = exchanged(args[head], rest, value) if rest else value
    result = [value if k == head else arg for k, arg in enumerate(args)]
    return result if isinstance(args, list) else tuple(result)


def neighbours(array):
    """Yields the array in other dtypes, ranks and sizes."""
    with np.errstate(all="ignore"):  # what NumPy makes of NaN as an integer serves as well
        others = [array.astype(numpy_dtype(dtype)) for dtype in DTYPES]
    yield from others
    yield array[None]
    yield array[..., None]
    yield array.reshape(-1)
    for axis in range(array.ndim):
        yield array.take(0, axis)
        yield array.repeat(2, axis)
        yield np.concatenate([array, array.take([0], axis)], axis)
        yield array.take([], axis)


@every_op
def test_operands_of_other_dtypes_ranks_and_sizes(name):
    for args, keywords in OPS[name].examples:
        for place in tensors(args):
            for other in neighbours(at(args, place)):
                assert_rejected_or_correct(name, exchanged(args, place, other), keywords)


@every_op_in_one
def test_invalid_attributes(name):
    signature = OPS[name].signature
    places = {p.name: k for k, p in enumerate(signature.parameters)}
    for args, keywords in OPS[name].examples:
        for parameter in signature.parameters:
            if parameter.kind is None:
                continue
            for value in STRANGE:
                if places[parameter.name] < len(args):
                    strange = exchanged(args, (places[parameter.name],), value)
                    assert_rejected_or_correct(name, strange, keywords)
                else:
                    assert_rejected_or_correct(name, args, {**keywords, parameter.name: value})
            with pytest.raises(DiagnosticError):
                named = {n: v for n, v in zip(places, args, strict=False)} | keywords
                called(name, **{**named, parameter.name: object()})


@every_op_in_one
def test_surplus_missing_and_unknown_arguments(name):
    signature = OPS[name].signature
    for args, keywords in OPS[name].examples:
        with pytest.raises(DiagnosticError, match="unexpected keyword argument"):
            called(name, *args, **keywords, nonsense=1)
        with pytest.raises(DiagnosticError, match=r"expected \d+ argument"):
            called(name, *args, *[1] * len(signature.parameters), 1)
        for parameter in signature.parameters[: len(args)]:
            with pytest.raises(DiagnosticError, match="expected one value of"):
                called(name, *args, **{**keywords, parameter.name: 1})
    required = [p for p in signature.parameters if p.default is REQUIRED]
    if required:
        with pytest.raises(DiagnosticError, match=r"missing (operand|argument)"):
            called(name)


def laid_out(array, way):
    """Returns the array in another layout: transposed, reversed twice, or strided."""
    if array.ndim == 0:
        return array
    if way == "columns":
        return np.asfortranarray(array)
    every = (slice(None, None, -1),) * array.ndim
    if way == "reversed":
        return np.ascontiguousarray(array[every])[every]
    wide = np.zeros([2 * n for n in array.shape], array.dtype)
    wide[(slice(1, None, 2),) * array.ndim] = array
    return wide[(slice(1, None, 2),) * array.ndim]


@pytest.mark.filterwarnings("ignore")
@every_op_in_one
def test_the_layout_of_arrays_does_not_matter(name):
    for args, keywords in OPS[name].examples:
        call, values = called(name, *args, **keywords)
        wanted = OPS[name].reference(call, values)
        for way in ("columns", "reversed", "strided"):
            other = args
            for place in tensors(args):
                other = exchanged(other, place, laid_out(at(args, place), way))
            _, moved = called(name, *other, **keywords)
            assert_agree(wanted, OPS[name].reference(call, moved))


@every_op_in_one
def test_sizes_of_0(name):
    """Sets each size of an example to 0 in all operands."""
    for args, keywords in OPS[name].examples:
        for size in {n for place in tensors(args) for n in at(args, place).shape}:
            empty = args
            for place in tensors(args):
                array = at(args, place)
                shape = [0 if n == size else n for n in array.shape]
                empty = exchanged(empty, place, np.zeros(shape, array.dtype))
            assert_rejected_or_correct(name, empty, keywords)


@pytest.mark.parametrize(
    ("name", "parameter", "args"),
    [("add", "y", (-100,)), ("nn.pad", "pad_value", ((1, 1), "constant", -100))],
)
def test_a_number_out_of_the_range_of_its_dtype(name, parameter, args):
    message = f"{parameter}: expected a value in the range of uint8, found -100"
    with pytest.raises(DiagnosticError, match=message):
        called(name, np.zeros(3, "uint8"), *args)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [((0, 300), [0, 9, 255]), ((-300, -200), [0] * 3), ((2, 300), [2, 9, 255])],
)
def test_bounds_outside_of_a_dtype_are_its_limits(bounds, expected):
    np.testing.assert_array_equal(
        evaluated("clip", np.array([0, 9, 255], "uint8"), *bounds), np.array(expected, "uint8")
    )


def test_squeeze_rejects_axes_of_other_sizes():
    with pytest.raises(DiagnosticError, match="expected size 1, found size 2 of axis 1 of x"):
        called("squeeze", np.zeros((1, 2), "float32"), axis=(0, 1))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    "call", ["nn.max_pool1d(x, pool_size=[2], strides=", "nn.conv1d(x, w, strides="]
)
def test_a_window_wider_than_its_axis_is_rejected(call, stride):
    text = """
@R.function
def main(x: R.Tensor((1, 2, {size}), "float32"), w: R.Tensor((3, 2, 2), "float32")):
    y = R.{call}[{stride}])
    return y
"""
    with pytest.raises(
        DiagnosticError, match="expected a size of at least 1 for axis 2 of the result"
    ):
        structir.parse(text.format(size=1, call=call, stride=stride))
    module = structir.parse(text.format(size='"n"', call=call, stride=stride))
    narrow, w = np.ones((1, 2, 1), "float32"), np.ones((3, 2, 2), "float32")
    message = r": expected \S.* >= 1, found n = 1 \(axis 2 of x\)"
    with pytest.raises(ShapeMismatchError, match=message):
        structir.interpret(module, "main", narrow, w)
    with pytest.raises(ShapeMismatchError, match=message):
        structir.compile(module)["main"](narrow, w)


@pytest.mark.parametrize("call", ["R.tile(x, -1)", "R.tile(x, (2, -1))", "R.repeat(x, -1, axis=0)"])
def test_a_negative_number_of_copies_is_rejected(call):
    text = f'@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n    return {call}\n'
    with pytest.raises(DiagnosticError, match="repeats: expected no negative number"):
        structir.parse(text)


def test_equal_numbers_of_two_types_are_two_calls() -> None:
    """A float constant requires a floating-point dtype, and 1 is equal to 1.0."""
    x = Var("x", TensorStructInfo((3,), "int64"))
    with pytest.raises(DiagnosticError, match="floating-point"):
        R.constant_like(x, value=1.0)
    assert R.constant_like(x, value=1).struct_info == TensorStructInfo((), "int64")
