"""Explanations agree with the lowered program: each kernel, op and boundary has a reason."""

import pytest

import structir
from structir.analysis.variables import walk
from structir.ir.expr import Call, GlobalVar, VarBinding
from structir.ir.op import Op
from structir.loops.fusion.group import FUSED
from structir.tools.generate import random_module

LAYERS = """
from structir.script import I, R, T

@I.ir_module
class Layers:
    @R.function
    def main(x: R.Tensor(("n", 64), "float32"), w: R.Tensor((64, 32), "float32")):
        h = R.nn.relu(R.matmul(x, w))
        t = R.permute_dims(h, [1, 0])
        total = R.sum(h, axis=[0])
        order = R.argsort(total)
        y = R.nn.softmax(R.add(total, 1.0))
        z = R.split(R.exp(y), 2, axis=0)
        q = R.add(z[0], z[1])
        return t, order, q
"""


def test_each_kernel_and_boundary_has_a_reason() -> None:
    explanation = structir.schedule(structir.parse(LAYERS)).explain()
    first, *_ = explanation.kernels
    assert first.kernel == "matmul_relu" and first.values == ("h",)
    assert first.ops == ("R.matmul at <string>:8:23", "R.nn.relu at <string>:8:13")
    assert first.reason == "a matrix product with the ops of its rows, n"
    reasons = {(b.producer, b.reader): b for b in explanation.boundaries}
    after = reasons["matmul_relu", "sum"]
    assert "reduction along outer axes" in after.reason
    assert (after.producer_op, after.reader_op) == (first.ops[1], "R.sum at <string>:10:17")
    assert [op for op, _ in explanation.remaining] == ["R.argsort at <string>:11:17"]
    assert "R.argsort" in reasons["sum", "add"].reason
    assert "R.split" in explanation.inlined[0]
    text = str(explanation)
    assert "fused because" in text and "not fused because" in text
    assert "<pre>" in explanation._repr_html_() and "&lt;string&gt;" in explanation._repr_html_()


def test_a_handwritten_kernel_is_explained() -> None:
    source = """
@I.kernel
def scale(x: R.Tensor((4,), "float32"), out: R.Tensor((4,), "float32")):
    for i in range(4):
        out[i] = 2.0 * x[i]
"""
    (kernel,) = structir.parse(f"from structir.script import I, R, T\n{source}").functions.values()
    (only,) = structir.schedule(kernel).explain().kernels
    assert only.kernel == "scale" and only.reason == "written as one kernel"


@pytest.mark.parametrize("seed", range(8))
def test_explanations_agree_with_the_lowered_program(seed: int) -> None:
    module = random_module(seed)
    s = structir.schedule(module)
    explanation, lowered = s.explain(), s.apply()
    bindings = [b for b in walk(lowered["main"]) if isinstance(b, VarBinding)]
    calls = [b for b in bindings if isinstance(b.value, Call)]
    kernels = {
        b.var: b.value.op.name
        for b in calls
        if isinstance(b.value.op, GlobalVar)
        and b.value.op.name in {k.kernel for k in explanation.kernels}
    }
    assert {*kernels.values()} == {k.kernel for k in explanation.kernels}
    edges = {(b.producer, b.reader) for b in explanation.boundaries}
    for b in calls:
        reads = {kernels[arg] for arg in b.value.args if arg in kernels}
        if b.var in kernels:
            assert {(name, kernels[b.var]) for name in reads} <= edges
    assert all(b.reason and b.reason != FUSED for b in explanation.boundaries)
    explained = str([*[k.ops for k in explanation.kernels], explanation.inlined])
    remaining = {op.partition(" at ")[0] for op, _ in explanation.remaining}
    for name in {str(b.value.op) for b in bindings if isinstance(getattr(b.value, "op", None), Op)}:
        assert name in remaining or name == "R.reshape" or name in explained, name
