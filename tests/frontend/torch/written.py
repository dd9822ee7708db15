"""Handwritten exported programs in torch's serialized form."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np

DTYPES = {"float32": 7, "float64": 8, "int64": 5, "bool": 12, "int32": 4}


def size(stated: int | str) -> dict[str, Any]:
    """Returns a size: a number, or a symbolic expression in sympy's notation."""
    if isinstance(stated, int):
        return {"as_int": stated}
    return {"as_expr": {"expr_str": stated, "hint": None}}


def symbol(name: str) -> str:
    return f"Symbol('{name}', positive=True, integer=True)"


def meta(*sizes: int | str, dtype: str = "float32") -> dict[str, Any]:
    strides = [size(1)] * len(sizes)
    return {
        "dtype": DTYPES.get(dtype, dtype),
        "sizes": [size(s) for s in sizes],
        "strides": strides,
        "storage_offset": size(0),
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "layout": 7,
    }


def given(value: Any) -> dict[str, Any]:
    """Returns an argument; strings are names of tensors."""
    match value:
        case None:
            return {"as_none": True}
        case bool():
            return {"as_bool": value}
        case int():
            return {"as_int": value}
        case float():
            return {"as_float": value}
        case str():
            return {"as_tensor": {"name": value}}
        case [str(), *_]:
            return {"as_tensors": [{"name": v} for v in value]}
        case list():
            return {"as_ints": value}
    return dict(value)


def node(target: str, output: str, trace: str = "", **args: Any) -> dict[str, Any]:
    """Returns a node with one result."""
    return {
        "target": f"torch.ops.{target}",
        "inputs": [{"name": k, "arg": given(v), "kind": 1} for k, v in args.items()],
        "outputs": [{"as_tensor": {"name": output}}] if output else [],
        "metadata": {"stack_trace": trace},
        "name": output,
    }


def program(
    nodes: list[dict[str, Any]],
    values: dict[str, Any],
    inputs: list[str],
    outputs: list[str],
    weights: tuple[str, ...] = (),
    **ranges: tuple[int | None, int | None],
) -> dict[str, Any]:
    """Returns a program of nodes; `weights` are parameters of these names."""
    tensors = [{"as_tensor": {"name": n}} for n in (*weights, *inputs)]
    specs = [{"parameter": {"arg": {"name": n}, "parameter_name": n}} for n in weights]
    specs += [{"user_input": {"arg": {"as_tensor": {"name": n}}}} for n in inputs]
    made = [{"as_tensor": {"name": n}} for n in outputs]
    return {
        "graph_module": {
            "graph": {
                "inputs": tensors,
                "outputs": made,
                "nodes": nodes,
                "tensor_values": values,
                "sym_int_values": {},
                "sym_bool_values": {},
            },
            "signature": {
                "input_specs": specs,
                "output_specs": [{"user_output": {"arg": m}} for m in made],
            },
            "module_call_graph": [],
        },
        "range_constraints": {n: {"min_val": a, "max_val": b} for n, (a, b) in ranges.items()},
        "schema_version": {"major": 8, "minor": 20},
    }


def archive(
    stated: Any, weights: dict[str, np.ndarray] | None = None, compression: int = 0
) -> io.BytesIO:
    """Returns the archive of a program."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as file:
        text = stated if isinstance(stated, str | bytes) else json.dumps(stated)
        file.writestr("m/models/model.json", text)
        config = {}
        for k, (name, array) in enumerate((weights or {}).items()):
            file.writestr(f"m/data/weights/weight_{k}", array.tobytes("A"))
            tensor = meta(*array.shape, dtype=str(array.dtype))
            steps = [s // array.itemsize for s in array.strides]
            tensor["strides"] = [size(s) for s in steps]
            config[name] = payload(f"weight_{k}", tensor)
        text = json.dumps({"config": config})
        file.writestr("m/data/weights/model_weights_config.json", text)
    made.seek(0)
    return made


def payload(path: str, tensor: dict[str, Any], pickled: bool = False) -> dict[str, Any]:
    return {"path_name": path, "is_param": True, "use_pickle": pickled, "tensor_meta": tensor}
