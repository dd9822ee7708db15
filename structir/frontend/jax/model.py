"""`from_jax`: imports a function of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.errors import Diagnostic, DiagnosticError, MissingExtraError
from structir.frontend.jax import ops
from structir.frontend.jax.complex_values import as_real, without_complex
from structir.frontend.jax.equation import dtype_of
from structir.frontend.jax.importer import JaxImporter
from structir.frontend.jax.sizes import JaxSizes
from structir.interrupts import collection_paused
from structir.ir import dims
from structir.ir.expr import Constant, Expr, Tuple, TupleGetItem, Var
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.lazy import lazy_module

jax = lazy_module("jax")
export = lazy_module("jax.export")


@collection_paused()
def from_jax(function: Callable[..., Any], *specs: Any, name: str = "main") -> IRModule:
    """Imports a function of JAX as a module with one function.

    `specs` describe the arguments: a tensor StructInfo whose symbolic dims stay symbolic
    (`R.Tensor(("n", 8), "float32")`), a `jax.ShapeDtypeStruct`, whose shape may come from
    `jax.export.symbolic_shape`, an array, or a pytree of these. A dict, a dataclass or another node
    whose parts have names becomes a tuple with named fields. Results have the structure of the
    function's results. A complex argument or result is a tensor of floats with a last axis of 2:
    the real and imaginary parts.

    Sizes are at least 1, as JAX assumes. Raises DiagnosticError for a primitive without a mapping
    and for a spec of another kind, and MissingExtraError without JAX.
    """
    ops.load()
    try:
        scope = export.SymbolicScope()
    except ModuleNotFoundError as error:
        message = "importing a function of JAX requires jax: pip install structir[jax]"
        raise MissingExtraError(message) from error
    arguments = jax.tree_util.tree_map(lambda leaf: _abstract(leaf, scope), specs, is_leaf=_is_spec)
    closed, result = jax.make_jaxpr(function, return_shape=True)(*arguments)
    result = jax.tree_util.tree_map(as_real, result)
    arguments = jax.tree_util.tree_map(as_real, arguments)
    closed = without_complex(closed)
    importer = JaxImporter(JaxSizes())
    params = [
        Var(f"x{k}" if k else "x", _info(spec, importer.sizes)) for k, spec in enumerate(arguments)
    ]
    builder = importer.builder
    with builder.function(name, params):
        operands = [leaf for p in params for leaf in _leaves(p, importer)]
        results = iter(importer.inlined(closed.jaxpr, closed.consts, operands))
        builder.emit_func_output(_nested(result, results, importer))
    return builder.get()


def _is_spec(value: Any) -> bool:
    return isinstance(value, StructInfo)


def _abstract(spec: Any, scope: Any) -> Any:
    """Returns a leaf of the specs as a ShapeDtypeStruct."""
    if isinstance(spec, TensorStructInfo) and isinstance(spec.dims, tuple) and spec.dtype:
        texts = [_jax_text(size) for size in spec.dims]
        shape = export.symbolic_shape(", ".join(texts) + "," * bool(texts), scope=scope)
        return jax.ShapeDtypeStruct(shape, spec.dtype)
    if hasattr(spec, "shape") and hasattr(spec, "dtype"):
        return jax.ShapeDtypeStruct(spec.shape, spec.dtype)
    if isinstance(spec, bool | int | float):
        return jax.ShapeDtypeStruct((), jax.numpy.asarray(spec).dtype)
    message = f"from_jax: expected the StructInfo of a tensor, or an array, found {spec!r}"
    hint = 'describe the argument: `R.Tensor(("n", 8), "float32")`'
    raise DiagnosticError(Diagnostic(message, hint=hint, code="E0808"))


def _jax_text(size: Any) -> str:
    """Returns a size in JAX's notation of symbolic dims."""
    symbol = dims.as_sym(size)
    return str(size) if isinstance(size, int) else symbol.name if symbol else dims.text(size)


def _parts(tree: Any) -> tuple[tuple[str, ...] | None, list[Any]] | None:
    """Returns the parts of a node of a pytree, and their names if these are strings; None for a
    leaf. Parts have the order of JAX's leaves."""
    parts, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda v: v is not tree)
    if any([not path for path, _ in parts]):
        return None
    keys = [getattr(path[0], "name", getattr(path[0], "key", None)) for path, _ in parts]
    names = tuple([key for key in keys if isinstance(key, str)])
    return names if len(names) == len(keys) else None, [part for _, part in parts]


def _info(spec: Any, sizes: JaxSizes) -> StructInfo:
    """Returns the StructInfo of an argument or a result."""
    node = _parts(spec)
    if node is None:
        return TensorStructInfo(tuple([sizes.dim(size) for size in spec.shape]), dtype_of(spec))
    names, parts = node
    return TupleStructInfo(tuple([_info(part, sizes) for part in parts]), names)


def _leaves(value: Expr, importer: JaxImporter) -> list[Expr]:
    info = value.struct_info
    if not isinstance(info, TupleStructInfo):
        return [value]
    fields = [importer.builder.emit(TupleGetItem(value, k)) for k in range(len(info.fields))]
    return [leaf for field in fields for leaf in _leaves(field, importer)]


def _nested(spec: Any, values: Any, importer: JaxImporter) -> Expr:
    """Returns the results in the structure of the function's results."""
    node = _parts(spec)
    if node is not None:
        names, parts = node
        return Tuple(tuple([_nested(part, values, importer) for part in parts]), names)
    value: Expr = next(values)
    return importer.builder.emit(value) if isinstance(value, Constant) else value
