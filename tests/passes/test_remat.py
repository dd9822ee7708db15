"""Rematerialization: the saved memory, measured on the plan and on the compiled program."""

import re

import numpy as np
import pytest

import structir
from structir import passes
from structir.errors import StructIRError
from structir.ir import IRModule
from structir.passes import PassContext, Statistics, VerifyIR, VerifyResults, pipeline


def gradient_of_layers(count: int) -> IRModule:
    """Returns the forward and backward pass of a network of `count` layers."""
    lines = [f"    h{k + 1} = R.tanh(R.matmul(h{k}, w))" for k in range(count)]
    params = 'h0: R.Tensor(("n", 16), "float32"), w: R.Tensor((16, 16), "float32")'
    text = f"@R.function\ndef main({params}):\n"
    module = structir.parse(text + "\n".join(lines) + f"\n    return R.sum(h{count})\n")
    return pipeline("grad,dce{entries=main_adjoint}")(module)


def peak(module: IRModule) -> int:
    """Returns the bytes per row of a memory plan."""
    text = passes.PlanMemory()(module).script()
    sizes = re.findall(r"alloc_storage\(R.prim_value\((\d+) \* n\)\)", text)
    return sum(map(int, sizes))


def again(module: IRModule, **options: object) -> tuple[IRModule, list[str]]:
    counting = Statistics()
    with PassContext([counting, VerifyIR(), VerifyResults(inputs=1)]):
        rewritten = passes.Remat(sizes="n=64", **options)(module)
    return rewritten, counting.rows[-1][0].notes if counting.rows else []


def test_memory_grows_much_slower_than_the_network() -> None:
    peaks = {}
    for count in (8, 32):
        module = gradient_of_layers(count)
        rewritten, _ = again(module)
        peaks[count] = peak(module), peak(rewritten)
    assert peaks[32][0] > 3.5 * peaks[8][0]
    assert peaks[32][1] < 2.5 * peaks[8][1]
    assert peaks[32][1] < peaks[32][0] / 3


def test_a_budget_is_met_with_the_least_recomputation() -> None:
    module = gradient_of_layers(16)
    least, (most_work,) = again(module)
    half, (note,) = again(module, budget=64 * peak(module) // 2)
    live, before, part = map(int, re.findall(r"peak (\d+) bytes, was (\d+); (\d+)%", note)[0])
    assert peak(least) < peak(half) <= peak(module) * 0.6
    assert live <= 64 * peak(module) // 2 < before
    assert part < int(re.findall(r"(\d+)%", most_work)[0])


def test_a_program_within_the_budget_is_unchanged() -> None:
    module = gradient_of_layers(4)
    assert again(module, budget=1 << 30)[0] is module
    assert again(module, work=0.0)[0]["main_adjoint"].script().count("R.matmul") == 4


def test_compiled_programs_use_less_memory() -> None:
    module = gradient_of_layers(24)
    rewritten = passes.Remat(sizes="n=512")(module)
    x, w = np.random.default_rng(0).normal(size=(2, 512, 16)).astype("float32")
    arenas, results = [], []
    for each in (module, rewritten):
        executable = structir.compile(each, num_threads=1)  # scratch memory is per thread
        results.append(executable["main_adjoint"](x, w[:16] / 4))
        (region,) = executable._regions["main_adjoint"]
        arenas.append(region._bound.latest()[0].arena_bytes)
    np.testing.assert_allclose(results[0][1][1], results[1][1][1], rtol=1e-4, atol=1e-5)
    assert arenas[1] < arenas[0] / 2


def test_impure_values_are_retained() -> None:
    module = structir.parse("""
@R.function(pure=False)
def main(x: R.Tensor(("n", 16), "float32")):
    a = R.call_packed("made", x, sinfo_args=R.Tensor((4096,), "float32"))
    b = R.exp(a)
    c = R.sum(b)
    d = R.add(R.exp(R.exp(x)), c)
    return (d, R.add(a, R.add(b, b)))
""")
    rewritten = passes.Remat(work=9.0)(module)
    assert rewritten.script().count("call_packed") == 1


MARKED = """
@R.function
def main(h0: R.Tensor(("n", 16), "float32"), w: R.Tensor((16, 16), "float32")):
    h1 = R.tanh(R.matmul(h0, w))
    a = R.grad.start_checkpoint(h1)
    h2 = R.sin(R.matmul(a, w))
    h3 = R.cos(R.matmul(h2, w))
    b = R.grad.end_checkpoint(h3)
    h4 = R.exp(R.matmul(b, w))
    return R.sum(h4)
"""


def test_exactly_the_marked_regions_are_recomputed() -> None:
    module = pipeline("grad,dce{entries=main_adjoint}")(structir.parse(MARKED))
    rewritten, _ = again(module)
    before, after = module.script(), rewritten.script()
    more = {op: after.count(f"R.{op}(") - before.count(f"R.{op}(") for op in ("tanh", "sin", "exp")}
    assert more == {"tanh": 0, "sin": 1, "exp": 0}
    assert after.index("R.grad.end_checkpoint(") < after.rindex("R.sin(")
    assert again(rewritten)[0] is rewritten
    plain = structir.parse(MARKED)
    assert again(plain)[0] is plain  # nothing between the marks is read late


def test_invalid_options_are_errors() -> None:
    module = gradient_of_layers(2)
    with pytest.raises(StructIRError, match="no function `other`"):
        passes.Remat(function="other")(module)
    with pytest.raises(StructIRError, match="no dim q; available: n"):
        passes.Remat(sizes="q=4")(module)
