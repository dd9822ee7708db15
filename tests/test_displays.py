"""Tests of results at a prompt and in a notebook: they display as they print."""

import structir

TEXT = """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 2), "float32")):
    return R.nn.softmax(R.matmul(x, w))
"""


def test_results_display_as_they_print() -> None:
    module = structir.parse(TEXT)
    plan = structir.distributed.plan(module, workers=2, sizes={"n": 4})
    for result in (plan, structir.solver.explain(module), structir.passes.pipeline("cse")):
        assert repr(result) == f"<{type(result).__name__} {result}>"
        assert len(repr(result)) < 200


def test_a_jitted_function_displays_its_name() -> None:
    @structir.jit
    def twice(x: object) -> object:
        return x

    assert repr(twice).endswith("twice: traced 0 times>")
    twice([1.0])
    assert repr(twice).endswith("twice: traced 1 times>")
