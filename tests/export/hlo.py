"""Runs StableHLO modules with XLA on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import numpy as np
from jax._src import compiler
from jax._src.export._export import _module_to_bytecode
from jax._src.lib import _jax
from jax.extend.backend import get_backend
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

ENTRY = "func.func public @main("


def run(text: str, inputs: Sequence[Any], expected: Sequence[Any]) -> list[np.ndarray]:
    """Parses and verifies a module, compiles it for the shapes of the inputs, and runs it.

    The results have the shapes and dtypes of `expected`. XLA refines dynamic sizes to those of a
    function that calls the module's with static ones. `jax.export` does the same, with four more
    modules of MLIR and several times the time.
    """
    with _context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        assert module.operation.verify()
        called = ir.Module.parse(_called(text, module, inputs, expected))
        data = _module_to_bytecode(called)  # in a version that other compilers of StableHLO read
        module = stablehlo.deserialize_portable_artifact(_context(), data)
        refined = _jax.mlir.refine_polymorphic_shapes(
            mlir_module=mlir.module_to_bytecode(module),
            enable_shape_assertions=True,
            validate_static_shapes=True,
            enable_shardy=False,
        )
        module = ir.Module.parse(refined)
        module.operation.attributes["sym_name"] = ir.StringAttr.get("exported")
        executable = _compiled(module)
    device = get_backend("cpu").devices()[0]
    with jax.enable_x64(True):
        buffers = [jax.device_put(np.asarray(x), device) for x in inputs]
        return [np.asarray(value) for value in executable.execute(buffers)]


@cache
def _context() -> Any:
    return mlir.make_ir_context()


def _compiled(module: Any) -> Any:
    client = get_backend("cpu")
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    devices = _jax.DeviceList(tuple(client.devices()[:1]))
    return compiler.backend_compile_and_load(client, module, devices, options, [])


def _called(text: str, module: Any, inputs: Sequence[Any], results: Sequence[Any]) -> str:
    """Returns the module with an entry function of static types that calls its entry function."""
    (main,) = [op for op in module.body.operations if op.attributes["sym_name"].value == "main"]
    own = ir.FunctionType(main.attributes["function_type"].value)
    given, found = ([_type(x) for x in values] for values in (inputs, results))
    lines = _converted("given", "x", given, own.inputs)
    arguments = ", ".join(f"%given{k}" for k in range(len(given)))
    names = f"%found:{len(found)} = " if found else ""
    lines.append(f"{names}func.call @exported({arguments}) : {own}")
    lines += _converted("y", "found#", own.results, found)
    lines.append(f"func.return {', '.join(f'%y{k}' for k in range(len(found)))}")
    lines[-1] += f" : {', '.join(found)}" if found else ""
    params = ", ".join(f"%x{k}: {kind}" for k, kind in enumerate(given))
    body = "\n    ".join([f"{ENTRY}{params}) -> ({', '.join(found)}) {{", *lines])
    assert ENTRY in text
    exported = text.replace(ENTRY, "func.func private @exported(").rstrip().removesuffix("}")
    return f"{exported}  {body}\n  }}\n}}\n"


def _converted(new: str, old: str, types: Sequence[Any], wanted: Sequence[Any]) -> list[str]:
    pairs = enumerate(zip(types, wanted, strict=True))
    return [f"%{new}{k} = stablehlo.convert %{old}{k} : ({a}) -> {b}" for k, (a, b) in pairs]


def _type(value: Any) -> str:
    array = np.asarray(value)
    return str(ir.RankedTensorType.get(array.shape, mlir.dtype_to_ir_type(array.dtype)))
