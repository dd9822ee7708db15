"""Executes exported DTensor placements in torch: processes with gloo, against the plan's result.

    python benchmarks/dtensor.py [--workers 4]

For each program, the parameters are distributed by the exported placements. Each op runs on
DTensors, and its result must have, or is redistributed to, the placements that the plan exports.
The result and the shapes of the local blocks are compared.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import structir
from structir.distributed import combined_placements, dtensor_placements, search

MLP = """
@R.function
def main(
    x: R.Tensor(("n", 32), "float32"),
    v: R.Tensor((32, 64), "float32"),
    w: R.Tensor((64, 16), "float32"),
):
    a = R.matmul(x, v)
    h = R.nn.relu(a)
    y = R.matmul(h, w)
    return y
"""
ATTENTION = """
@R.function
def main(
    x: R.Tensor((4, "n", 16), "float32"),
    wq: R.Tensor((16, 16), "float32"),
    wk: R.Tensor((16, 16), "float32"),
    wv: R.Tensor((16, 16), "float32"),
    wo: R.Tensor((16, 16), "float32"),
):
    n = T.int64()
    q1 = R.matmul(x, wq)
    k1 = R.matmul(x, wk)
    v1 = R.matmul(x, wv)
    q2 = R.reshape(q1, R.shape([4, n, 4, 4]))
    k2 = R.reshape(k1, R.shape([4, n, 4, 4]))
    v2 = R.reshape(v1, R.shape([4, n, 4, 4]))
    q = R.permute_dims(q2, axes=[0, 2, 1, 3])
    k = R.permute_dims(k2, axes=[0, 2, 3, 1])
    v = R.permute_dims(v2, axes=[0, 2, 1, 3])
    scores = R.matmul(q, k)
    weights = R.nn.softmax(scores, axis=-1)
    heads = R.matmul(weights, v)
    joined = R.permute_dims(heads, axes=[0, 2, 1, 3])
    flat = R.reshape(joined, R.shape([4, n, 16]))
    y = R.matmul(flat, wo)
    return y
"""
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "columns, then rows of the weights": (MLP, {"cuts": {"a": 1, "h": 1, "y": "k"}}),
    "rows of the input": (MLP, {"cuts": {"a": 0, "h": 0, "y": 0}}),
    "two mesh axes": (MLP, {"mesh": "two", "cuts": {"a": (0, 1), "h": (0, 1), "y": (0, "k")}}),
    "chosen by the search": (MLP, {"mesh": None}),
    "attention by heads": (
        ATTENTION,
        {"cuts": {"q1": 2, "k1": 2, "v1": 2, "scores": 1, "heads": 1, "y": "k"}},
    ),
    "attention by batch": (ATTENTION, {"cuts": {"q1": 0, "scores": 0, "heads": 0, "y": 0}}),
}


def report_of(text: str, options: dict[str, Any], workers: int) -> Any:
    """Returns the plan of a case."""
    own = dict(options)
    mesh = {None: None, "two": (workers // 2, 2), "one": (workers,)}[own.pop("mesh", "one")]
    return search(structir.parse(text), workers=workers, sizes={"n": 8}, mesh=mesh, stages=1, **own)


def arguments_of(function: Any) -> dict[str, np.ndarray]:
    """Returns random arguments."""
    random = np.random.default_rng(0)
    shapes = {
        p.name: [d if isinstance(d, int) else 8 for d in p.struct_info.dims]
        for p in function.params
    }
    return {n: random.standard_normal(s).astype("float32") * 0.3 for n, s in shapes.items()}


def placements_in_torch(texts: tuple[str, ...]) -> list[Any]:
    """Returns the placements of texts such as `Shard(0)`."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    kinds = {"Shard": Shard, "Replicate": Replicate, "Partial": Partial}
    placements = []
    for text in texts:
        kind, _, argument = text.rstrip(")").partition("(")
        argument = argument.strip("'")
        values = [int(argument)] if argument.isdecimal() else [argument] if argument else []
        placements.append(kinds[kind](*values))
    return placements


def apply(call: Any, values: dict[str, Any]) -> Any:
    """Returns the result of an op on DTensors."""
    import torch

    args = [values[a.name] for a in call.args if hasattr(a, "name")]
    match call.op.name:
        case "matmul":
            return torch.matmul(*args)
        case "nn.relu":
            return torch.relu(*args)
        case "nn.softmax":
            return torch.softmax(*args, dim=call.attrs.get("axis", -1))
        case "permute_dims":
            return args[0].permute(call.attrs["axes"])
        case "reshape":
            sizes = [d if isinstance(d, int) else 8 for d in call.args[1].dims]
            return args[0].reshape(sizes)
    raise ValueError(call.op.name)


def work(rank: int, workers: int, name: str, folder: str) -> None:
    """Runs one case as one process."""
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor import distribute_tensor, init_device_mesh

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=workers
    )
    text, options = CASES[name]
    report = report_of(text, options, workers)
    plan, function = report.plan, structir.parse(text)["main"]
    exported, combined = dtensor_placements(plan), combined_placements(plan)
    mesh = init_device_mesh("cpu", plan.mesh.shape, mesh_dim_names=plan.mesh.names)
    arguments, redistributed = arguments_of(function), []
    values: dict[str, Any] = {}
    for key, array in arguments.items():
        placed = placements_in_torch(exported[key])
        values[key] = distribute_tensor(torch.from_numpy(array), mesh, placed)
    for binding in function.bindings():
        value, var = binding.value, binding.var.name
        computed = apply(value, values)
        if var not in exported:  # the result of a decomposed op has no placements of its own
            values[var] = computed
            continue
        wanted = placements_in_torch(exported[var])
        if list(computed.placements) != wanted:
            redistributed.append(f"{var}: {computed.placements} to {wanted}")
            computed = computed.redistribute(mesh, wanted)
        if var in combined:
            computed = computed.redistribute(mesh, placements_in_torch(combined[var]))
        values[var] = computed
    result = values[function.body.body.name].full_tensor().numpy()
    expected = report(*arguments.values())
    if rank == 0:
        error = float(np.abs(result - expected).max())
        shapes = {n: tuple(v.to_local().shape) for n, v in values.items()}
        print(f"{name}: mesh {plan.mesh.shape}, largest difference {error:.1e}")
        print(f"    redistributed: {', '.join(redistributed) or 'none'}")
        print(f"    local blocks: {shapes}", flush=True)
        assert error < 1e-5
    dist.destroy_process_group()


def main() -> None:
    """Runs all cases."""
    import torch.multiprocessing as processes

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=4)
    workers = parser.parse_args().workers
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            processes.spawn(work, (workers, name, str(Path(folder))), nprocs=workers)


if __name__ == "__main__":
    main()
