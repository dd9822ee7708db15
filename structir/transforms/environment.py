"""Names that scripts of JAX use around their functions: devices, types of arguments, options."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import numpy as np

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.struct_info import TensorStructInfo
from structir.tracing.array import numpy_name
from structir.tracing.size import as_dims
from structir.tracing.trees import flatten
from structir.tracing.trees import map as map_leaves
from structir.transforms.custom import custom_vjp
from structir.transforms.gradients import vjp
from structir.transforms.scopes import named_scope
from structir.transforms.trace import flat_module, leaf_info


def _dtype(dtype: Any) -> Any:
    return np.dtype(numpy_name(dtype))


@attrs.frozen
class ShapeDtypeStruct:
    """The shape and the dtype of an array, without elements."""

    shape: tuple[Any, ...] = attrs.field(converter=tuple)
    dtype: Any = attrs.field(converter=_dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape))


def eval_shape(function: Callable[..., Any], *args: Any) -> Any:
    """Returns the shapes and dtypes of the results of a function, which is traced only."""
    leaves, _ = flatten(args)
    infos = [leaf_info(leaf) for leaf in leaves]
    structures = [flatten(arg)[1] for arg in args]
    module, structure = flat_module(function, infos, "main", structures)
    fields: Any = module["main"].ret_struct_info
    return structure.unflatten([ShapeDtypeStruct(f.dims, f.dtype) for f in fields.fields])


def block_until_ready(x: Any) -> Any:
    """Returns a tree of arrays: compiled functions return finished results."""
    return x


def device_put(x: Any, device: Any = None) -> Any:
    """Returns a tree of arrays; arrays are in the memory of the host."""
    return map_leaves(np.asarray, x)


def device_get(x: Any) -> Any:
    """Returns a tree of arrays as NumPy arrays."""
    return map_leaves(np.asarray, x)


def devices(backend: str | None = None) -> list[str]:
    """Returns the devices that compiled functions use by default."""
    return ["cpu"]


def device_count() -> int:
    """Returns the number of devices that compiled functions use by default."""
    return 1


def default_backend() -> str:
    """Returns the target of compiled functions by default."""
    return "cpu"


local_devices = devices
local_device_count = device_count


@contextmanager
def default_matmul_precision(precision: str) -> Iterator[None]:
    """A hint of JAX without effect: products are computed in their dtype."""
    yield


def named_call(function: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """Returns a function whose variables have its name; see `named_scope`."""

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        with named_scope(name or str(getattr(function, "__name__", "function"))):
            return function(*args, **keywords)

    return call


def custom_gradient(function: Callable[..., Any]) -> custom_vjp:
    """Makes a function that returns its result and its pullback one with that pullback."""
    value: custom_vjp = custom_vjp(functools.wraps(function)(lambda *args: function(*args)[0]))

    def backward(pullback: Callable[[Any], Any], cotangent: Any) -> tuple[Any, ...]:
        result = pullback(cotangent)
        return result if isinstance(result, tuple) else (result,)

    value.defvjp(function, backward)
    return value


def linear_transpose(function: Callable[..., Any], *primals: Any) -> Callable[[Any], Any]:
    """Returns the transpose of a linear function, for arguments like `primals`."""

    def transposed(cotangent: Any) -> Any:
        zeros = map_leaves(lambda leaf: np.zeros(leaf.shape, leaf.dtype), list(primals))
        return vjp(function, *zeros)[1](cotangent)

    return transposed


class config:
    """The options of JAX: those that change results are errors, the others have no effect."""

    @staticmethod
    def update(name: str, value: Any) -> None:
        """Sets an option. Raises DiagnosticError for one that changes results."""
        if name == "jax_enable_x64" and value:
            message = "config: 64-bit default dtypes are not available"
            hint = 'remove the line and pass float64 arrays: their dtype is kept, `dtype="float64"`'
            raise DiagnosticError(Diagnostic(message, hint=hint, code="E1114"))


def typeof(x: Any) -> TensorStructInfo:
    """Returns the StructInfo of an array or a number."""
    info: TensorStructInfo | None = getattr(x, "aval", None)
    return TensorStructInfo(as_dims(np.shape(x)), leaf_info(x).dtype) if info is None else info  # type: ignore[attr-defined]
