"""Exported shardings: the equivalent computation under JAX on a mesh of virtual devices."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import structir
from structir.distributed import (
    combined_placements,
    dtensor_placements,
    partition_specs,
    search,
)
from tests.distributed.mesh_programs import MLP, floats

SCRIPT = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

specs = {name: PartitionSpec(*[tuple(e) if isinstance(e, list) else e for e in spec])
         for name, spec in json.loads(sys.argv[1]).items()}
mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("w0", "w1"))
on = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
arrays = np.load(sys.argv[2])
x, v, w = (jax.device_put(arrays[name], on[name]) for name in "xvw")

def main(x, v, w):
    h = jax.lax.with_sharding_constraint(jax.nn.relu(x @ v), on["h"])
    return h @ w

y = jax.jit(main, out_shardings=on["y"])(x, v, w)
shapes = [x, v, w, y]
print(json.dumps({"y": np.asarray(y).tolist(),
                  "blocks": [list(a.addressable_shards[0].data.shape) for a in shapes]}))
"""


def test_jax_computes_the_result_with_the_exported_shardings(tmp_path: object) -> None:
    pytest.importorskip("jax")
    report = search(
        structir.parse(MLP),
        workers=8,
        sizes={"n": 8},
        weights=["v", "w"],
        mesh=(2, 4),
        stages=1,
        cuts={"h": (0, 1), "y": (0, "k")},
    )
    specs = partition_specs(report.plan)
    assert specs["h"] == ("w0", "w1")
    assert specs["x"] == ("w0", None)
    assert specs["v"] == (None, "w1")
    assert specs["w"] == ("w1", None)
    args = {"x": floats(8, 32), "v": floats(32, 64, seed=1), "w": floats(64, 16, seed=2)}
    np.savez(tmp_path / "arguments.npz", **args)  # type: ignore[operator]
    flags = "--xla_force_host_platform_device_count=8"
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(specs), str(tmp_path / "arguments.npz")],  # type: ignore[operator]
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    answer = json.loads(run.stdout)
    np.testing.assert_allclose(answer["y"], report(*args.values()), rtol=1e-5, atol=1e-5)
    # of the first device: the blocks of the first worker of the plan
    assert answer["blocks"][:3] == [[4, 32], [32, 16], [16, 16]]


def test_placements_of_torch_name_the_state_along_each_mesh_axis() -> None:
    report = search(
        structir.parse(MLP),
        workers=8,
        sizes={"n": 8},
        weights=["v", "w"],
        mesh=(2, 4),
        stages=1,
        cuts={"h": (0, 1), "y": (0, "k")},
    )
    placements = dtensor_placements(report.plan)
    assert placements["x"] == ("Shard(0)", "Replicate()")
    assert placements["v"] == ("Replicate()", "Shard(1)")
    assert placements["h"] == ("Shard(0)", "Shard(1)")
    assert placements["y"] == ("Shard(0)", "Partial('sum')")
    assert combined_placements(report.plan)["y"][0] == "Shard(0)"


def test_values_of_a_function_that_is_called_twice_are_numbered() -> None:
    text = """
@I.ir_module
class Module:
    @R.function
    def layer(x: R.Tensor((8, 4), "float32")):
        h = R.exp(x)
        k = R.negative(h)
        return k

    @R.function
    def main(x: R.Tensor((8, 4), "float32")):
        cls = Module
        a = cls.layer(x)
        b = cls.layer(a)
        return b
"""
    specs = partition_specs(search(structir.parse(text), workers=2, stages=1).plan)
    assert {"h", "h_1"} <= specs.keys()
