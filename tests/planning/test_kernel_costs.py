"""Estimated costs of blocks: kernels after fusion, bytes and operations."""

import pytest

import structir
from structir.ir import IRModule
from structir.ir.dims import syms
from structir.planning.kernel_costs import BlockCost, block_costs, call_seconds

HEAD = (
    '@R.function\ndef main(x: R.Tensor((64, 64), "float32"), y: R.Tensor((64, 64), "float32")):\n'
)


def program(*lines: str) -> IRModule:
    body = "".join(f"        {line}\n" for line in lines)
    block = f"    with R.dataflow():\n{body}        R.output(r)\n    return r\n"
    return structir.parse(HEAD + block)


def cost(*lines: str) -> BlockCost:
    bindings = program(*lines)["main"].bindings()
    return block_costs(bindings, [bindings[-1].var], [{}])[0]


MATRIX = 64 * 64 * 4


@pytest.mark.parametrize(
    ("lines", "kernels", "matrices"),
    [
        (["r = R.exp(x)"], 1, 2),
        (["r = R.add(R.exp(x), R.tanh(R.multiply(x, y)))"], 1, 3),
        (["r = R.nn.relu(R.add(R.matmul(x, y), x))"], 1, 3),
        (["r = R.matmul(x, R.permute_dims(y, [1, 0]))"], 1, 3),
        (["r = R.matmul(R.matmul(x, y), y)"], 2, 6),
        (["r = R.add(R.matmul(x, y), R.matmul(y, x))"], 2, 7),
        (["r = R.reshape(R.exp(x), (4096,))"], 1, 2),
        (["r = R.sort(x)"], 1, 2),
        (["a = R.exp(x)", "b = R.sort(a)", "r = R.add(a, b)"], 3, 7),
    ],
)
def test_kernels_and_bytes(lines: list[str], kernels: int, matrices: int) -> None:
    estimated = cost(*lines)
    assert (estimated.kernels, estimated.bytes) == (kernels, matrices * MATRIX)


def test_a_value_read_after_the_block_is_written() -> None:
    bindings = program("a = R.exp(x)", "r = R.tanh(a)")["main"].bindings()
    one = block_costs(bindings, [bindings[-1].var], [{}])[0]
    both = block_costs(bindings, [b.var for b in bindings], [{}])[0]
    assert both.bytes - one.bytes == MATRIX


def test_values_of_constants_cost_nothing() -> None:
    estimated = cost("a = R.exp(R.const(2, 'float32'))", "r = R.multiply(x, a)")
    assert estimated.kernels == 1 and estimated.operations == 64 * 64


def test_costs_grow_with_sizes() -> None:
    text = """@R.function
def main(x: R.Tensor(("n", "n"), "float32"), y: R.Tensor(("n", "n"), "float32")):
    r = R.matmul(x, y)
    return r
"""
    bindings = structir.parse(text)["main"].bindings()
    symbols = syms(bindings[0].var.struct_info.dims[0])
    sizes = [dict.fromkeys(symbols, k) for k in (8, 64)]
    small, large = block_costs(bindings, [bindings[-1].var], sizes)
    assert large.operations == 512 * small.operations and large.seconds > small.seconds
    assert call_seconds(bindings[-1].value, sizes[1]) > call_seconds(bindings[-1].value, sizes[0])
