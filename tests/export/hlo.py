"""Runs StableHLO modules with JAX on the CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import export
from jax._src.export import _export
from jax.extend.mlir import ir
from jax.interpreters import mlir

Dims = tuple[int | str, ...]


def run(text: str, inputs: Sequence[Any], dims: Sequence[Dims], expected: Sequence[Any]) -> Any:
    """Parses and verifies a module, compiles it for inputs with these dims, and runs it.

    The results have the shapes and dtypes of `expected`. Names among the dims are symbolic: the
    module is one with dynamic sizes, which JAX refines to those of the inputs.
    """
    with jax.enable_x64(True), mlir.make_ir_context():
        module = ir.Module.parse(text)
        assert module.operation.verify()
        data = _export._module_to_bytecode(module)
    with jax.enable_x64(True):
        scope = export.SymbolicScope()
        specs = [_spec(d, x.dtype, scope) for d, x in zip(dims, inputs, strict=True)]
        like = export.export(jax.jit(lambda *args: args), platforms=["cpu"])(*specs)
        results = tuple([jax.core.ShapedArray(e.shape, e.dtype) for e in expected])
        exported = dataclasses.replace(
            like,
            mlir_module_serialized=data,
            out_avals=results,
            out_tree=jax.tree_util.tree_structure(results),
            out_shardings_hlo=(None,) * len(results),
            _out_named_shardings=(None,) * len(results),
            module_kept_var_idx=tuple(range(len(specs))),
        )
        return [np.asarray(value) for value in jax.jit(exported.call)(*inputs)]


def _spec(dims: Dims, dtype: Any, scope: export.SymbolicScope) -> jax.ShapeDtypeStruct:
    if any(isinstance(d, str) for d in dims):
        text = ", ".join(map(str, dims))
        return jax.ShapeDtypeStruct(export.symbolic_shape(text, scope=scope), dtype)
    return jax.ShapeDtypeStruct(dims, dtype)
