"""Random programs of elementwise ops, reductions, products and moves, for schedules."""

from random import Random
from typing import Any

import numpy as np

import structir
from structir.ir import dims
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Function
from structir.ir.module import IRModule

OPS = [
    *("R.exp({0})", "R.add({0}, {1})", "R.multiply({0}, {1})", "R.nn.softmax({0})"),
    *(
        "R.permute_dims(R.matmul({0}, R.permute_dims({1}, [1, 0])), [1, 0])",
        "R.cumsum({0}, axis=1)",
    ),
    *("R.add({0}, R.sum({1}, axis=[0], keepdims=True))", "R.sort({0})", "R.flip({0}, 1)"),
    *("R.subtract({0}, R.max({0}, axis=[1], keepdims=True))", "R.roll({0}, 1, 0)"),
]


def random_program(rng: Random) -> str:
    """Returns the source of a module over square matrices of a symbolic size."""
    lines, names = [], ["x", "y"]
    for number in range(rng.choice([3, 5, 7])):
        operands = [rng.choice(names[-4:]) for _ in range(2)]
        lines.append(f"v{number} = {rng.choice(OPS).format(*operands)}")
        names.append(f"v{number}")
    results = ", ".join(dict.fromkeys([names[-1], rng.choice(names[2:]), names[-2]]))
    body = "\n".join(f"        {line}" for line in lines)
    matrix = 'R.Tensor(("n", "n"), "float32")'
    return f"""
from structir.script import I, R, T

@I.ir_module
class Random:
    @R.function
    def main(x: {matrix}, y: {matrix}):
{body}
        return ({results},)
"""


def arguments(function: Any, size: int, seed: int) -> list[np.ndarray]:
    """Returns random arguments with all sizes equal."""
    rng, arrays = np.random.default_rng(seed), []
    assert isinstance(function, Function)
    for param in function.params:
        info: Any = param.struct_info
        shape = [dims.evaluate(d, {s: size for s in dims.syms(d)}) for d in info.dims]
        arrays.append(rng.normal(size=shape).astype(numpy_dtype(info.dtype)) / 2)
    return arrays


def interpreted(module: IRModule, values: list[np.ndarray]) -> list[np.ndarray]:
    """Returns the results of the interpreter."""
    with np.errstate(all="ignore"):
        return [np.asarray(r) for r in structir.interpret(module, "main", *values)]
