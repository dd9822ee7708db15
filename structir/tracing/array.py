"""Traced arrays: the values of a function while it is traced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from structir.errors import Diagnostic, DiagnosticError, TruthValueError, caller_span
from structir.ir import dims
from structir.ir.dtype import dtype_hint, numpy_dtype
from structir.ir.expr import Constant, Expr, PrimValue, ShapeExpr, Var
from structir.ir.struct_info import TensorStructInfo
from structir.lazy import lazy_module
from structir.projections.conversion import convert_dtype
from structir.script import R
from structir.tracing import context, dtypes
from structir.tracing.context import FunctionFrame, operator, session
from structir.tracing.methods import ArrayMethods
from structir.tracing.size import TracedSize, size

np = lazy_module("numpy")
EDITS = "use `structir.numpy.where`, `structir.lax.cond`, `while_loop` or `scan`"


class TracedArray(ArrayMethods):
    """An array whose elements are known at run time; its dtype, rank and sizes are known now.

    Operators, methods and NumPy functions build the ops of the program. Sizes in `shape` are ints,
    or symbolic. A `weak` array takes the dtype of the other operand, as a Python number does.
    """

    __slots__ = ("expr", "frame", "scope", "weak")
    __array_priority__ = 1000

    def __init__(self, expr: Expr, weak: bool = False) -> None:
        current = session()
        self.expr, self.weak = expr, weak
        self.frame: FunctionFrame | None = current.frame
        self.scope = current.scope

    # ---- properties

    @property
    def aval(self) -> TensorStructInfo:
        """The StructInfo of the array."""
        return self.expr.struct_info

    @property
    def dtype_name(self) -> str:
        """The name of the dtype."""
        dtype = self.aval.dtype
        assert dtype is not None
        return dtype

    @property
    def dims(self) -> tuple[dims.Dim, ...]:
        """The sizes, as ints and symbolic dims. Raises DiagnosticError if the rank is unknown."""
        sizes = self.aval.dims
        if not isinstance(sizes, tuple):
            message = f"expected an array of known rank, found {self.aval}"
            hint = 'declare the axes of the parameters: `R.Tensor(("n", 4), "float32")`'
            raise DiagnosticError(Diagnostic(message, caller_span(), hint=hint, code="E1104"))
        return sizes

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes, as ints and TracedSizes."""
        return tuple([size(dim) for dim in self.dims])

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.dims)

    @property
    def size(self) -> Any:
        """The number of elements."""
        total: Any = 1
        for dim in self.shape:
            total = dim * total
        return total

    @property
    def dtype(self) -> Any:
        """The dtype, as NumPy's object."""
        return numpy_dtype(self.dtype_name)

    @property
    def T(self) -> TracedArray:
        """The array with its axes reversed."""
        return self if self.ndim < 2 else operator("transpose")(self)

    @property
    def mT(self) -> TracedArray:
        """The array with its last two axes exchanged."""
        return operator("swapaxes")(self, -1, -2)

    @property
    def at(self) -> Any:
        """Functional updates: `x.at[index].set(values)`, `.add`, `.multiply`, `.min`, `.max`."""
        return operator("at")(self)

    # ---- uses that require the elements

    def _concrete(self, use: str, hint: str = EDITS) -> NoReturn:
        message = f"{use}: the elements of {self.aval} are known only at run time"
        raise TruthValueError(Diagnostic(message, caller_span(), hint=hint, code="E1105"))

    def __bool__(self) -> bool:
        self._concrete("a Python condition")

    def __int__(self) -> int:
        self._concrete("`int(...)`", "use `x.astype(int)`; for a loop, `structir.lax.fori_loop`")

    def __index__(self) -> int:
        self._concrete("an integer of Python", "use `structir.lax.fori_loop`, or index with `x[i]`")

    def __float__(self) -> float:
        self._concrete("`float(...)`", "use `x.astype(float)`")

    def __array__(self, *_args: Any, **_keywords: Any) -> Any:
        self._concrete("NumPy", "use the function of `structir.numpy`")

    def item(self) -> NoReturn:
        """Raises: the element is known only at run time."""
        self._concrete("`item()`", "use the array of rank 0 itself")

    tolist = item

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> Any:
        if not self.ndim:
            raise TypeError("len() of an array of rank 0")
        length = self.shape[0]
        return length.__index__() if isinstance(length, TracedSize) else length

    def __iter__(self) -> Iterator[TracedArray]:
        return iter([self[k] for k in range(len(self))])

    def __setitem__(self, index: Any, value: Any) -> None:
        message = "traced arrays are immutable: they have no item assignment"
        hint = "bind a new array: `x = x.at[index].set(value)`, or `.add`, `.multiply`"
        raise DiagnosticError(Diagnostic(message, caller_span(), hint=hint, code="E1108"))

    def __getitem__(self, index: Any) -> TracedArray:
        return operator("getitem")(self, index)

    def __repr__(self) -> str:
        return f"TracedArray({self.aval})"

    def __format__(self, _spec: str) -> str:
        return repr(self)

    # ---- NumPy's protocols

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return context.namespace

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        if method == "reduce" and ufunc.__name__ in REDUCTIONS:
            keywords.pop("dtype", None)
            return operator(REDUCTIONS[ufunc.__name__])(*inputs, **keywords)
        if method != "__call__" or keywords.get("out") is not None:
            return NotImplemented
        return _of_numpy(ufunc)(*inputs, **keywords)

    def __array_function__(self, function: Any, _types: Any, args: Any, keywords: Any) -> Any:
        return _of_numpy(function)(*args, **keywords)


REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
ALIASES = {"concatenate": "concatenate", "amax": "max", "amin": "min", "absolute": "abs"}


def _of_numpy(original: Any) -> Any:
    """Returns the function of arrays for a function of NumPy.

    Raises DiagnosticError where structir.numpy has no function of its name, but perhaps a module:
    `fft`.
    """
    name = original.__name__
    function = getattr(context.namespace, ALIASES.get(name, name), None)
    if not callable(function):
        module = getattr(original, "__module__", None) or "numpy"  # ufuncs of users have none
        message = f"`{module}.{name}` has no counterpart in structir.numpy"
        hint = "list the functions with `dir(structir.numpy)`"
        raise DiagnosticError(Diagnostic(message, caller_span(), hint=hint, code="E1106"))
    return function


Array = TracedArray  # the name in annotations of users


# ---- operands


def operand(value: Any, dtype: str | None = None) -> TracedArray:
    """Returns a traced array for a number, a size, a NumPy array or a nested list.

    Without `dtype`, Python numbers and captured NumPy arrays of int64 and float64 have the default
    dtypes, int32 and float32. Raises DiagnosticError for other values.
    """
    array = as_array(value)
    if dtype is None and array.weak and array.dtype_name in dtypes.WIDE:
        dtype = dtypes.DEFAULTS[dtypes.category(array.dtype_name)]
    return array if dtype is None else cast(array, dtype)


def of_rank(value: Any, name: str, least: int, most: int | None = None) -> TracedArray:
    """Returns an operand of a rank from `least` to `most`, by default of exactly `least`.

    Raises DiagnosticError for another rank; `name` is that of the function and the parameter.
    """
    array, most = operand(value), least if most is None else most
    if least <= array.ndim <= most:
        return array
    ranks = f"{least}" if least == most else f"{least} to {most}"
    message = f"{name}: expected an array of rank {ranks}, found rank {array.ndim}"
    raise DiagnosticError(Diagnostic(message, caller_span(), code="E1107"))


def equally_long(name: str, first: Any, second: Any) -> list[tuple[Any, Any]]:
    """Returns the pairs of two sequences. Raises DiagnosticError if their lengths differ."""
    if len(first) != len(second):
        message = f"{name}: expected sequences of one length, found {len(first)} and {len(second)}"
        raise DiagnosticError(Diagnostic(message, caller_span(), code="E1107"))
    return list(zip(first, second, strict=True))


def joint_operands(values: Sequence[Any]) -> list[TracedArray]:
    """Returns the arguments of a function; captured floats are float64 if the others are."""
    arrays = [as_array(value) for value in values]
    strong = {array.dtype_name for array in arrays if not array.weak}
    is_wide = {name for name in strong if dtypes.category(name) == dtypes.FLOAT} == {"float64"}
    return [
        cast(array, "float64") if is_wide and array.dtype_name == "float64" else operand(array)
        for array in arrays
    ]


def as_array(value: Any) -> TracedArray:
    """Returns a traced array; numbers and wide NumPy arrays that are captured are weak."""
    if isinstance(value, TracedArray):
        return value
    if isinstance(value, TracedSize):
        number = R.full(ShapeExpr(()), PrimValue(value.dim), dtype="int64")
        return TracedArray(session().builder.emit(number), weak=True)
    if isinstance(value, bool | int | float):
        return TracedArray(_number(value), weak=not isinstance(value, bool))
    if isinstance(value, list | tuple):
        return _of_sequence(value)
    if hasattr(value, "__array__"):
        data = np.asarray(value)
        return _of_numpy_array(data)
    message = f"expected an array or a number, found {type(value).__name__}"
    hint = "pass the arrays of a container one by one, or use `structir.tree.map`"
    if isinstance(value, complex):
        hint = "compute real and imaginary parts in two arrays: there are no complex dtypes"
    raise DiagnosticError(Diagnostic(message, caller_span(), hint=hint, code="E1104"))


def _number(value: bool | int | float) -> Constant:
    dtype = dtypes.python_dtype(value)
    if dtype == "int32" and not -(2**31) <= value < 2**31:
        dtype = "int64" if -(2**63) <= value < 2**63 else "uint64"
    return Constant(np.asarray(value, dtype if dtype != "float32" else "float64"))


def _of_numpy_array(data: Any) -> TracedArray:
    name = data.dtype.name
    if data.dtype.kind not in "biufV" or name in ("object", "complex64", "complex128"):
        message = f"expected an array of numbers, found {name}"
        raise DiagnosticError(Diagnostic(message, caller_span(), code="E1104"))
    if name not in dtypes.WIDE and data.dtype.kind == "f" and data.dtype.itemsize > 8:
        data = data.astype("float64")
    return TracedArray(Constant(data), weak=name in dtypes.WIDE)


def _of_sequence(values: Any) -> TracedArray:
    if not _holds_traced(values):
        try:
            data = np.asarray(values)
        except ValueError:  # of unequal lengths
            data = np.empty((), object)
        if data.dtype == object:
            message = "expected nested lists of equal lengths"
            raise DiagnosticError(Diagnostic(message, caller_span(), code="E1104"))
        return _of_numpy_array(data)
    return operator("stack")([as_array(value) for value in values])


def _holds_traced(values: Any) -> bool:
    return any(
        isinstance(v, TracedArray | TracedSize)
        or (isinstance(v, list | tuple) and _holds_traced(v))
        for v in values
    )


def cast(array: TracedArray, dtype: Any) -> TracedArray:
    """Returns an array in a dtype; constants are converted at once."""
    name = numpy_name(dtype)
    if array.dtype_name == name and not array.weak:
        return array
    if isinstance(array.expr, Constant):
        data = array.expr.data
        if array.weak and not data.ndim:
            return TracedArray(Constant(_converted(data, name)))
        return TracedArray(Constant(convert_dtype(data, name)))
    if array.dtype_name == name:
        return TracedArray(expression(array))
    return emit(R.astype(expression(array), name))


def numpy_name(dtype: Any) -> str:
    """Returns the name of a dtype; `float` and `int` are the default dtypes.

    Raises DiagnosticError for an unknown dtype.
    """
    if dtype is float or dtype is int:
        return dtypes.DEFAULTS[dtypes.FLOAT if dtype is float else dtypes.INTEGER]
    try:
        return str((numpy_dtype if isinstance(dtype, str) else np.dtype)(dtype).name)
    except TypeError:
        message, hint = f"unknown dtype {dtype!r}", dtype_hint(dtype)
        diagnostic = Diagnostic(message, caller_span(), hint=hint, code="E0122")
        raise DiagnosticError(diagnostic) from None


def promoted(*values: Any, keeps_wide: bool = False) -> tuple[list[TracedArray], bool]:
    """Returns operands in their common dtype, and whether the result is weak.

    With `keeps_wide`, a weak result is computed in float64, which the other operand of a later
    function may have; else it has the default dtype.
    """
    if len(values) == 2:
        known = _with_number(*values)
        if known is not None:
            return known, False
    arrays = [as_array(value) for value in values]
    result = arrays[0].dtype_name, arrays[0].weak
    for array in arrays[1:]:
        result = dtypes.promote(result, (array.dtype_name, array.weak))
    dtype = result[0]
    if result[1] and dtype in dtypes.WIDE and not (keeps_wide and dtype == "float64"):
        dtype = dtypes.DEFAULTS[dtypes.category(dtype)]
    return [a if a.dtype_name == dtype else cast(a, dtype) for a in arrays], result[1]


def _with_number(first: Any, second: Any) -> list[TracedArray] | None:
    """Returns a strong array and a Python number of the same or a lower category, or None."""
    if type(second) in NUMBERS and isinstance(first, TracedArray):
        constant = _constant_like(second, first)
        return None if constant is None else [first, constant]
    if type(first) in NUMBERS and isinstance(second, TracedArray):
        constant = _constant_like(first, second)
        return None if constant is None else [constant, second]
    return None


def _constant_like(value: float, array: TracedArray) -> TracedArray | None:
    dtype = array.dtype_name
    needed = dtypes.INTEGER if type(value) is int else dtypes.FLOAT
    if array.weak or dtypes.category(dtype) < needed:
        return None
    return TracedArray(_number_of(repr(value), dtype))


@lru_cache(512)
def _number_of(text: str, dtype: str) -> Constant:
    """Returns the Python number of this text as a constant."""
    number = np.asarray(float(text) if not text.lstrip("-").isdigit() else int(text))
    return Constant(_converted(number, dtype))


def _converted(number: Any, dtype: str) -> Any:
    """Returns a Python number in a dtype. Raises DiagnosticError for one out of its range."""
    with np.errstate(over="ignore"):
        converted = number.astype(numpy_dtype(dtype))
    is_integer = dtypes.category(dtype) == dtypes.INTEGER and number.dtype.kind in "iu"
    if is_integer and not (converted == number).all():
        message = f"the integer {number} is out of the range of {dtype}"
        hint = "convert the array to a wider dtype: `x.astype(structir.numpy.int64)`"
        raise DiagnosticError(Diagnostic(message, caller_span(), hint=hint, code="E1104"))
    return converted


NUMBERS = (int, float)


def expression(array: TracedArray) -> Expr:
    """Returns the expression of an array in the function that is being traced.

    A value of an enclosing function becomes a parameter. Raises DiagnosticError for a value that is
    not in scope.
    """
    current, expr = session(), array.expr
    if isinstance(expr, Constant):
        return expr
    frame = current.frame
    if array.frame is frame:
        if not any([scope is array.scope for scope in current.builder.scopes]):
            raise context.leaked(getattr(expr, "name", "value"))
        return expr
    assert frame is not None and isinstance(expr, Var)
    if array.frame is None or not frame.is_inside(array.frame):
        raise context.leaked(expr.name)
    return frame.capture(expr, array.frame)


def emit(value: Expr, weak: bool = False) -> TracedArray:
    """Binds an expression; returns its value as a traced array."""
    return TracedArray(context.sized(session().builder.emit(value)), weak)
