"""The MiniLM-L6 sentence encoder as a StructIR program with two symbolic dims, `batch` and `seq`.

Programs are parsed, not executed, so Python generates the repeated source: the weights of one layer
are listed once, and the source of `main`, with the weights of six layers, is built from the list.
"""

from collections.abc import Iterable, Mapping

LAYERS = 6
Shape = tuple[int, ...]

# Name and shape of each weight, in the order of the parameters of `main` after the two inputs.
EMBEDDING_WEIGHTS: dict[str, Shape] = {
    "word_table": (30522, 384),
    "type_table": (2, 384),
    "position_table": (512, 384),
    "embedding_gamma": (384,),
    "embedding_beta": (384,),
}
LAYER_WEIGHTS: dict[str, Shape] = {
    "query_weight": (384, 384),
    "query_bias": (384,),
    "key_weight": (384, 384),
    "key_bias": (384,),
    "value_weight": (384, 384),
    "value_bias": (384,),
    "mix_weight": (384, 384),
    "mix_bias": (384,),
    "attention_gamma": (384,),
    "attention_beta": (384,),
    "up_weight": (384, 1536),
    "up_bias": (1536,),
    "down_weight": (1536, 384),
    "down_bias": (384,),
    "output_gamma": (384,),
    "output_beta": (384,),
}


def layer_weight(layer: int, name: str) -> str:
    """Returns the parameter name in `main` of a weight of a layer."""
    return f"layer{layer}_{name}"


def weights_of(layers: int) -> dict[str, Shape]:
    """Returns name and shape of each weight of an encoder."""
    return EMBEDDING_WEIGHTS | {
        layer_weight(layer, name): shape
        for layer in range(layers)
        for name, shape in LAYER_WEIGHTS.items()
    }


WEIGHTS = weights_of(LAYERS)


def parameters(weights: Mapping[str, Shape]) -> str:
    return "\n        ".join(
        f'{name}: R.Tensor({shape}, "float32"),' for name, shape in weights.items()
    )


def arguments(names: Iterable[str]) -> str:
    return ", ".join(names)


ENCODER_LAYER = f"""
    @R.function
    def encoder_layer(
        x: R.Tensor(("batch", "seq", 384), "float32"),
        bias: R.Tensor(("batch", 1, 1, "seq"), "float32"),
        {parameters(LAYER_WEIGHTS)}
    ) -> R.Tensor(("batch", "seq", 384), "float32"):
        batch = T.int64()
        seq = T.int64()
        with R.dataflow():
            query = R.reshape(R.matmul(x, query_weight) + query_bias, R.shape([batch, seq, 12, 32]))
            key = R.reshape(R.matmul(x, key_weight) + key_bias, R.shape([batch, seq, 12, 32]))
            value = R.reshape(R.matmul(x, value_weight) + value_bias, R.shape([batch, seq, 12, 32]))
            heads = R.permute_dims(query, axes=[0, 2, 1, 3])
            scores = R.matmul(heads, R.permute_dims(key, axes=[0, 2, 3, 1]))
            scaled = scores * R.const({32**-0.5!r}, "float32") + bias
            attention = R.nn.softmax(scaled, axis=-1)
            mixed = R.matmul(attention, R.permute_dims(value, axes=[0, 2, 1, 3]))
            joined = R.reshape(R.permute_dims(mixed, axes=[0, 2, 1, 3]), R.shape([batch, seq, 384]))
            attended = x + (R.matmul(joined, mix_weight) + mix_bias)
            h = R.nn.layer_norm(attended, attention_gamma, attention_beta, axes=[-1], epsilon=1e-12)
            wide = R.nn.gelu(R.matmul(h, up_weight) + up_bias)
            narrow = h + (R.matmul(wide, down_weight) + down_bias)
            y = R.nn.layer_norm(narrow, output_gamma, output_beta, axes=[-1], epsilon=1e-12)
            R.output(y)
        return y
"""

EMBED = f"""
    @R.function
    def embed(
        input_ids: R.Tensor(("batch", "seq"), "int64"),
        {parameters(EMBEDDING_WEIGHTS)}
    ) -> R.Tensor(("batch", "seq", 384), "float32"):
        batch = T.int64()
        seq = T.int64()
        with R.dataflow():
            words = R.take(word_table, input_ids, axis=0)
            types = R.take(type_table, R.zeros_like(input_ids), axis=0)
            positions = R.arange(R.prim_value(0), R.prim_value(seq), R.prim_value(1), dtype="int64")
            x = words + types + R.take(position_table, positions, axis=0)
            y = R.nn.layer_norm(x, embedding_gamma, embedding_beta, axes=[-1], epsilon=1e-12)
            R.output(y)
        return y
"""

POOL = """
    @R.function
    def pool(
        hidden: R.Tensor(("batch", "seq", 384), "float32"),
        present: R.Tensor(("batch", "seq"), "float32"),
    ) -> R.Tensor(("batch", 384), "float32"):
        with R.dataflow():
            weight = R.expand_dims(present, axis=[2])
            tokens = R.maximum(R.sum(weight, axis=[1]), R.const(1e-9, "float32"))
            mean = R.sum(hidden * weight, axis=[1]) / tokens
            length = R.sqrt(R.sum(mean * mean, axis=[1], keepdims=True))
            embedding = mean / R.maximum(length, R.const(1e-12, "float32"))
            R.output(embedding)
        return embedding
"""


def layer_call(layer: int) -> str:
    weights = arguments(layer_weight(layer, name) for name in LAYER_WEIGHTS)
    return f"x{layer + 1} = cls.encoder_layer(x{layer}, bias, {weights})"


def main_function(layers: int) -> str:
    layer_calls = "\n            ".join(layer_call(layer) for layer in range(layers))
    return f"""
    @R.function
    def main(
        input_ids: R.Tensor(("batch", "seq"), "int64"),
        attention_mask: R.Tensor(("batch", "seq"), "int64"),
        {parameters(weights_of(layers))}
    ) -> R.Tuple(R.Tensor(("batch", "seq", 384), "float32"), R.Tensor(("batch", 384), "float32")):
        cls = MiniLM
        with R.dataflow():
            present = R.astype(attention_mask, "float32")
            absent = R.const(1.0, "float32") - R.expand_dims(present, axis=[1, 2])
            bias = absent * R.const(-1e9, "float32")
            x0 = cls.embed(input_ids, {arguments(EMBEDDING_WEIGHTS)})
            {layer_calls}
            embedding = cls.pool(x{layers}, present)
            result = (x{layers}, embedding)
            R.output(result)
        return result
"""


def minilm_text(layers: int = LAYERS) -> str:
    """Returns the module; `main` returns hidden states and one unit vector per sentence."""
    return f"@I.ir_module\nclass MiniLM:{EMBED}{ENCODER_LAYER}{POOL}{main_function(layers)}"
