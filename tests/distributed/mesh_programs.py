"""Small programs of whole models for the tests of meshes, with their arguments."""

import numpy as np

import structir
from examples import minilm_program
from structir.ir import IRModule

MLP = """
@R.function
def main(
    x: R.Tensor(("n", 32), "float32"),
    v: R.Tensor((32, 64), "float32"),
    w: R.Tensor((64, 16), "float32"),
):
    h = R.nn.relu(R.matmul(x, v))
    y = R.matmul(h, w)
    return y
"""

ATTENTION = """
@R.function
def main(
    q: R.Tensor((8, "n", 16), "float32"),
    k: R.Tensor((8, 16, "n"), "float32"),
    v: R.Tensor((8, "n", 16), "float32"),
):
    s = R.matmul(q, k)
    e = R.exp(s)
    t = R.sum(e, axis=[2], keepdims=True)
    p = R.divide(e, t)
    o = R.matmul(p, v)
    return o
"""

CONVOLUTIONS = """
@R.function
def main(
    x: R.Tensor((2, 4, "h", 12), "float32"),
    k: R.Tensor((8, 4, 3, 3), "float32"),
    m: R.Tensor((4, 8, 3, 3), "float32"),
):
    y = R.nn.relu(R.nn.conv2d(x, k, padding=1))
    z = R.nn.conv2d(y, m, padding=1)
    return z
"""

DECODER = """
@R.function
def main(
    x: R.Tensor((2, "n", 16), "float32"),
    mask: R.Tensor(("n", "n"), "float32"),
    gain: R.Tensor((16,), "float32"),
    wq: R.Tensor((16, 16), "float32"),
    wk: R.Tensor((16, 16), "float32"),
    wv: R.Tensor((16, 16), "float32"),
    wo: R.Tensor((16, 16), "float32"),
    up: R.Tensor((16, 32), "float32"),
    down: R.Tensor((32, 16), "float32"),
):
    n = T.int64()
    a = R.nn.rms_norm(x, gain, axes=[-1])
    q = R.permute_dims(R.reshape(R.matmul(a, wq), R.shape([2, n, 4, 4])), axes=[0, 2, 1, 3])
    k = R.permute_dims(R.reshape(R.matmul(a, wk), R.shape([2, n, 4, 4])), axes=[0, 2, 3, 1])
    v = R.permute_dims(R.reshape(R.matmul(a, wv), R.shape([2, n, 4, 4])), axes=[0, 2, 1, 3])
    scores = R.add(R.multiply(R.matmul(q, k), R.const(0.5, "float32")), mask)
    heads = R.matmul(R.nn.softmax(scores, axis=-1), v)
    joined = R.reshape(R.permute_dims(heads, axes=[0, 2, 1, 3]), R.shape([2, n, 16]))
    mixed = R.matmul(joined, wo)
    attended = R.add(x, mixed)
    b = R.nn.rms_norm(attended, gain, axes=[-1])
    raised = R.matmul(b, up)
    wide = R.nn.silu(raised)
    narrow = R.matmul(wide, down)
    y = R.add(attended, narrow)
    return y
"""


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype="float32") * 0.3


def decoder_arguments(rows: int) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Returns the two inputs and the weights of the decoder block."""
    mask = np.triu(np.full((rows, rows), -1e9, "float32"), 1)
    shapes = {"gain": (16,), **dict.fromkeys(["wq", "wk", "wv", "wo"], (16, 16))}
    shapes |= {"up": (16, 32), "down": (32, 16)}
    weights = {name: floats(*s, seed=k) for k, (name, s) in enumerate(shapes.items(), 2)}
    return [floats(2, rows, 16), mask], weights


def small_encoder(layers: int = 1) -> tuple[IRModule, list[np.ndarray], dict[str, np.ndarray]]:
    """Returns the MiniLM encoder at a reduced size, its inputs and random weights."""
    source = minilm_program.__loader__.get_source(minilm_program.__name__)
    for size, small in {
        "1536": "32",
        "384": "16",
        "30522": "50",
        "512": "24",
        "12, 32]": "4, 4]",
    }.items():
        source = source.replace(size, small)
    names: dict = {"__name__": "small_encoder"}
    exec(source.replace("LAYERS = 6", f"LAYERS = {layers}").replace("32**-0.5", "0.5"), names)
    weights = {
        name: floats(*shape, seed=k) for k, (name, shape) in enumerate(names["WEIGHTS"].items())
    }
    ids = np.random.default_rng(1).integers(0, 50, (3, 9))
    mask = np.ones((3, 9), "int64")
    mask[1, 5:] = 0
    return structir.parse(names["minilm_text"]()), [ids, mask], weights
