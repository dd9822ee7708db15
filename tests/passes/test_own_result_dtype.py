"""An `out_dtype` equal to the dtype of the operands has no effect on passes."""

import pytest

import structir
from structir import passes

SOURCE = """
@R.function
def main(
    x: R.Tensor((1, 3, 8, 8), "float32"),
    k: R.Tensor((4, 3, 3, 3), "float32"),
    w: R.Tensor((6, 5), "float32"),
    v: R.Tensor((6, 5), "float32"),
):
    with R.dataflow():
        z = R.nn.conv2d(x, kOWN)
        a = R.matmul(z, wOWN)
        b = R.matmul(z, vOWN)
        R.output(a, b)
    return a, b
"""


def calls(module: structir.ir.IRModule) -> list[str]:
    text = module.script().replace(', out_dtype="float32"', "")
    return [
        line.partition(" = ")[2].partition("(")[0] for line in text.splitlines() if " = " in line
    ]


@pytest.mark.parametrize("name", ["ConvertLayout", "ToMixedPrecision", "CombineParallelMatmul"])
def test_passes_apply(name: str) -> None:
    plain, own = [
        structir.parse(SOURCE.replace("OWN", text)) for text in ("", ", out_dtype='float32'")
    ]
    each = getattr(passes, name)()
    assert calls(each(own)) == calls(each(plain)) != calls(plain)


def test_another_result_dtype_is_no_match() -> None:
    narrow = "k, out_dtype='float16'), 'float32')"
    wide = structir.parse(
        SOURCE.replace("R.nn.conv2d(x, kOWN)", f"R.astype(R.nn.conv2d(x, {narrow}").replace(
            "OWN", ", out_dtype='float64'"
        )
    )
    for each in (passes.ConvertLayout(), passes.ToMixedPrecision()):
        assert calls(each(wide)) == calls(wide)
