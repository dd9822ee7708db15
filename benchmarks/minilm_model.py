"""The MiniLM-L6 encoder with random weights, as an ONNX model and in torch."""

import math
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from minilm_program import LAYER_WEIGHTS, LAYERS, WEIGHTS, layer_weight

Array = np.ndarray[Any, np.dtype[Any]]
HEADS, WIDTH = 12, 32


def weights() -> dict[str, Array]:
    """One array for each name, small enough for the layers to stay tame."""
    generator, found = np.random.default_rng(0), dict[str, Array]()
    for name, shape in WEIGHTS.items():
        found[name] = generator.standard_normal(shape, np.float32) * np.float32(0.02)
        if name.endswith("gamma"):
            found[name] += np.float32(1)
    return found


class _Graph:
    """Nodes one after the other, each of one result."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [result], **attributes))
        return result

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def linear(self, x: str, name: str) -> str:
        return self.add("Add", self.add("MatMul", x, f"{name}_weight"), f"{name}_bias")

    def norm(self, x: str, name: str) -> str:
        return self.add("LayerNormalization", x, f"{name}_gamma", f"{name}_beta", epsilon=1e-12)


def onnx_model(held: dict[str, Array]) -> ModelProto:
    """The encoder: token numbers and their mask to hidden states and sentence embeddings."""
    graph = _Graph()
    present = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    wide = graph.add("Unsqueeze", present, graph.constant([1, 2]))
    absent = graph.add("Sub", graph.constant(np.float32(1)), wide)
    bias = graph.add("Mul", absent, graph.constant(np.float32(-1e9)))
    words = graph.add("Gather", "word_table", "input_ids")
    kind = graph.add("Gather", "type_table", graph.constant(0))
    sequence = graph.add("Shape", "input_ids", start=1, end=2)
    zero, one = graph.constant([0]), graph.constant([1])
    places = graph.add("Slice", "position_table", zero, sequence, zero, one)
    x = graph.add("Add", graph.add("Add", words, kind), places)
    x = graph.norm(x, "embedding")
    for layer in range(LAYERS):
        x = _layer(graph, x, bias, lambda name, layer=layer: layer_weight(layer, name))
    weight = graph.add("Unsqueeze", present, graph.constant([2]))
    total = graph.add("ReduceSum", graph.add("Mul", x, weight), one, keepdims=0)
    tokens = graph.add("ReduceSum", weight, one, keepdims=0)
    mean = graph.add("Div", total, graph.add("Max", tokens, graph.constant(np.float32(1e-9))))
    square = graph.add("ReduceSum", graph.add("Mul", mean, mean), one, keepdims=1)
    length = graph.add("Max", graph.add("Sqrt", square), graph.constant(np.float32(1e-12)))
    embedding = graph.add("Div", mean, length)
    tensors = [numpy_helper.from_array(v, n) for n, v in held.items()] + graph.constants
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "seq"])
        for n in ("input_ids", "attention_mask")
    ]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in (x, embedding)]
    made = helper.make_graph(graph.nodes, "minilm", inputs, results, tensors)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def _layer(graph: _Graph, x: str, bias: str, own: Any) -> str:
    split = graph.constant([0, 0, HEADS, WIDTH])
    heads = {}
    for name, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
        apart = graph.add("Reshape", graph.linear(x, own(name)), split)
        heads[name] = graph.add("Transpose", apart, perm=order)
    scores = graph.add("MatMul", heads["query"], heads["key"])
    scores = graph.add("Mul", scores, graph.constant(np.float32(WIDTH**-0.5)))
    shares = graph.add("Softmax", graph.add("Add", scores, bias), axis=-1)
    mixed = graph.add("Transpose", graph.add("MatMul", shares, heads["value"]), perm=[0, 2, 1, 3])
    joined = graph.add("Reshape", mixed, graph.constant([0, 0, HEADS * WIDTH]))
    x = graph.norm(graph.add("Add", x, graph.linear(joined, own("mix"))), own("attention"))
    wide = graph.add("Gelu", graph.linear(x, own("up")))
    return graph.norm(graph.add("Add", x, graph.linear(wide, own("down"))), own("output"))


def by_torch(t: Any, ids: Any, mask: Any, *held: Any) -> tuple[Any, Any]:
    """The same with torch's own fused functions."""
    w, f = dict(zip(WEIGHTS, held, strict=True)), t.nn.functional
    present = mask.to(t.float32)
    bias = (1.0 - present)[:, None, None, :] * -1e9
    x = w["word_table"][ids] + w["type_table"][0] + w["position_table"][: ids.shape[1]]
    x = f.layer_norm(x, (384,), w["embedding_gamma"], w["embedding_beta"], 1e-12)
    batch, seq, width = x.shape
    for layer in range(LAYERS):
        own = {n: w[layer_weight(layer, n)] for n in LAYER_WEIGHTS}
        q, k, v = [
            (x @ own[f"{n}_weight"] + own[f"{n}_bias"])
            .view(batch, seq, HEADS, WIDTH)
            .transpose(1, 2)
            for n in ("query", "key", "value")
        ]
        mixed = f.scaled_dot_product_attention(q, k, v, bias, scale=1 / math.sqrt(WIDTH))
        joined = mixed.transpose(1, 2).reshape(batch, seq, width)
        x = x + (joined @ own["mix_weight"] + own["mix_bias"])
        x = f.layer_norm(x, (384,), own["attention_gamma"], own["attention_beta"], 1e-12)
        wide = f.gelu(x @ own["up_weight"] + own["up_bias"])
        x = x + (wide @ own["down_weight"] + own["down_bias"])
        x = f.layer_norm(x, (384,), own["output_gamma"], own["output_beta"], 1e-12)
    mean = (x * present[..., None]).sum(1) / present.sum(1, keepdim=True).clamp(min=1e-9)
    return x, mean / (mean * mean).sum(1, keepdim=True).sqrt().clamp(min=1e-12)
