"""The gradients of an encoder block by all its weights, against those of PyTorch, as stored."""

from pathlib import Path

import numpy as np
import pytest

import structir
from structir import passes
from structir.ir import IRModule

STORED = Path(__file__).parents[1] / "data" / "encoder_gradients.npz"
WEIGHTS = {
    **{f"{part}_weight": (16, 16) for part in ("query", "key", "value", "mix")},
    **{f"{part}_bias": (16,) for part in ("query", "key", "value", "mix", "down")},
    **{f"{part}_{of}": (16,) for part in ("attention", "output") for of in ("gamma", "beta")},
    "up_weight": (16, 32),
    "up_bias": (32,),
    "down_weight": (32, 16),
}
PARAMETERS = ", ".join(f'{name}: R.Tensor({shape}, "float64")' for name, shape in WEIGHTS.items())
PROGRAM = f"""
@R.function
def block(x: R.Tensor(("batch", "seq", 16), "float64"),
          mask: R.Tensor(("batch", 1, 1, "seq"), "float64"), {PARAMETERS}):
    batch = T.int64()
    seq = T.int64()
    with R.dataflow():
        query = R.reshape(R.matmul(x, query_weight) + query_bias, R.shape([batch, seq, 4, 4]))
        key = R.reshape(R.matmul(x, key_weight) + key_bias, R.shape([batch, seq, 4, 4]))
        value = R.reshape(R.matmul(x, value_weight) + value_bias, R.shape([batch, seq, 4, 4]))
        heads = R.permute_dims(query, axes=[0, 2, 1, 3])
        scores = R.matmul(heads, R.permute_dims(key, axes=[0, 2, 3, 1]))
        attention = R.nn.softmax(scores * R.const(0.5, "float64") + mask, axis=-1)
        mixed = R.matmul(attention, R.permute_dims(value, axes=[0, 2, 1, 3]))
        joined = R.reshape(R.permute_dims(mixed, axes=[0, 2, 1, 3]), R.shape([batch, seq, 16]))
        rest = R.matmul(joined, mix_weight) + mix_bias + x
        h = R.nn.layer_norm(rest, attention_gamma, attention_beta, axes=[-1])
        inner = R.nn.gelu(R.matmul(h, up_weight) + up_bias)
        outer = R.matmul(inner, down_weight) + down_bias + h
        out = R.nn.layer_norm(outer, output_gamma, output_beta, axes=[-1])
        R.output(out)
    return out


@R.function
def main(x: R.Tensor(("batch", "seq", 16), "float64"),
         mask: R.Tensor(("batch", 1, 1, "seq"), "float64"),
         wanted: R.Tensor(("batch", "seq", 16), "float64"), {PARAMETERS}):
    with R.dataflow():
        out = block(x, mask, {", ".join(WEIGHTS)})
        error = R.mean(R.square(out - wanted))
        R.output(error)
    return error
"""


@pytest.fixture(scope="module")
def stored() -> dict[str, np.ndarray]:
    with np.load(STORED) as file:
        return dict(file)


@pytest.fixture(scope="module", params=["gradient", "inline,gradient"])
def differentiated(request: pytest.FixtureRequest) -> IRModule:
    names = ", ".join(["x", *WEIGHTS])
    first = passes.pipeline(request.param.removesuffix("gradient").rstrip(",") or "normalise")
    with passes.PassContext([passes.VerifyIR()]):
        return passes.Gradient(parameters=names)(first(structir.parse(PROGRAM)))


@pytest.mark.parametrize("way", ["interpreted", "compiled"])
def test_gradients_are_those_of_pytorch(
    way: str, differentiated: IRModule, stored: dict[str, np.ndarray]
) -> None:
    arguments = [stored[name] for name in ("x", "mask", "wanted", *WEIGHTS)]
    if way == "compiled":
        error, gradients = structir.compile(differentiated)["main_adjoint"](*arguments)
    else:
        error, gradients = structir.interpret(differentiated, "main_adjoint", *arguments)
    np.testing.assert_allclose(error, stored["loss"], rtol=1e-12)
    for name, found in zip(["x", *WEIGHTS], gradients, strict=True):
        expected = stored[f"gradient/{name}"]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=name)
