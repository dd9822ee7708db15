"""The encoder in NumPy, op by op: the reference of the compiled program."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from minilm_program import EMBEDDING_WEIGHTS, LAYER_WEIGHTS, LAYERS, layer_weight

Floats = NDArray[np.floating[Any]]
Tokens = NDArray[np.int64]
HEADS = 12


def layer_norm(x: Floats, gamma: Floats, beta: Floats) -> Floats:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance: Floats = np.mean(centred * centred, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + np.float32(1e-12)) * gamma + beta


def softmax(x: Floats) -> Floats:
    raised = np.exp(x - x.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def gelu(x: Floats) -> Floats:
    return x * np.float32(0.5) * (np.float32(1) + erf(x * np.float32(0.5**0.5)))


def split_heads(x: Floats) -> Floats:
    batch, seq, width = x.shape
    return x.reshape(batch, seq, HEADS, width // HEADS).transpose(0, 2, 1, 3)


def attention(x: Floats, bias: Floats, w: Mapping[str, Floats]) -> Floats:
    query = split_heads(x @ w["query_weight"] + w["query_bias"])
    key = split_heads(x @ w["key_weight"] + w["key_bias"])
    value = split_heads(x @ w["value_weight"] + w["value_bias"])
    scale = np.float32((x.shape[-1] // HEADS) ** -0.5)
    shares = softmax(query @ key.transpose(0, 1, 3, 2) * scale + bias)
    joined = (shares @ value).transpose(0, 2, 1, 3).reshape(x.shape)
    return joined @ w["mix_weight"] + w["mix_bias"]


def encoder_layer(x: Floats, bias: Floats, w: Mapping[str, Floats]) -> Floats:
    h = layer_norm(x + attention(x, bias, w), w["attention_gamma"], w["attention_beta"])
    wide = gelu(h @ w["up_weight"] + w["up_bias"])
    narrow = wide @ w["down_weight"] + w["down_bias"]
    return layer_norm(h + narrow, w["output_gamma"], w["output_beta"])


def embed(input_ids: Tokens, w: Mapping[str, Floats]) -> Floats:
    positions = np.arange(input_ids.shape[1])
    x = w["word_table"][input_ids] + w["type_table"][0] + w["position_table"][positions]
    return layer_norm(x, w["embedding_gamma"], w["embedding_beta"])


def pool(hidden: Floats, present: Floats) -> Floats:
    weight = present[:, :, None]
    mean = (hidden * weight).sum(axis=1) / np.maximum(weight.sum(axis=1), np.float32(1e-9))
    length = np.sqrt((mean * mean).sum(axis=1, keepdims=True))
    return mean / np.maximum(length, np.float32(1e-12))


def encode(
    input_ids: Tokens, attention_mask: Tokens, weights: Mapping[str, Floats]
) -> tuple[Floats, Floats]:
    """Returns hidden states and sentence embeddings, like `main` of the program."""
    present = attention_mask.astype(np.float32)
    bias = (np.float32(1) - present[:, None, None, :]) * np.float32(-1e9)
    hidden = embed(input_ids, {name: weights[name] for name in EMBEDDING_WEIGHTS})
    for layer in range(LAYERS):
        of_layer = {name: weights[layer_weight(layer, name)] for name in LAYER_WEIGHTS}
        hidden = encoder_layer(hidden, bias, of_layer)
    return hidden, pool(hidden, present)
