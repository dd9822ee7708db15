"""What PyTorch does beside the programs that are measured on GPUs: the encoder, and graphs of its
own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))

from minilm_program import EMBEDDING_WEIGHTS, LAYER_WEIGHTS, LAYERS

HEADS, WIDTH = 12, 32


def encoder(torch: Any, ids: Any, mask: Any, *weights: Any) -> Any:
    """The encoder of `examples/minilm_program.py`, its weights in the same order."""
    given = iter(weights)
    words, types, positions, *norm = take(given, len(EMBEDDING_WEIGHTS))
    x = words[ids] + types[torch.zeros_like(ids)] + positions[: ids.shape[1]]
    x = normalised(torch, x, *norm)
    present = mask.to(x.dtype)
    bias = ((1 - present) * torch.finfo(x.dtype).min)[:, None, None, :]
    for _ in range(LAYERS):
        x = layer(torch, x, bias, *take(given, len(LAYER_WEIGHTS)))
    mean = (x * present[:, :, None]).sum(1) / present.sum(1, keepdim=True)
    return x, mean / mean.norm(dim=1, keepdim=True)


def take(given: Iterator[Any], count: int) -> list[Any]:
    """The next of some values."""
    return [next(given) for _ in range(count)]


def normalised(torch: Any, x: Any, gamma: Any, beta: Any) -> Any:
    """Layer normalisation over the last axis."""
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), gamma, beta, 1e-12)


def layer(torch: Any, x: Any, bias: Any, *weights: Any) -> Any:
    """One layer of the encoder."""
    wq, bq, wk, bk, wv, bv, wm, bm, g1, b1, wu, bu, wd, bd, g2, b2 = weights
    batch, length, _ = x.shape
    heads = [
        (x @ w + b).reshape(batch, length, HEADS, WIDTH).transpose(1, 2)
        for w, b in ((wq, bq), (wk, bk), (wv, bv))
    ]
    mixed = torch.nn.functional.scaled_dot_product_attention(*heads, attn_mask=bias)
    mixed = mixed.transpose(1, 2).reshape(batch, length, HEADS * WIDTH)
    h = normalised(torch, x + (mixed @ wm + bm), g1, b1)
    wide = torch.nn.functional.gelu(h @ wu + bu)
    return normalised(torch, h + (wide @ wd + bd), g2, b2)


def replayed(torch: Any, function: Callable[..., Any], *given: Any) -> Callable[[], Any]:
    """A function captured as a graph, on a stream of its own as capturing asks for."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            function(*given)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function(*given)
    return partial(_replay, graph)


def _replay(graph: Any) -> None:
    graph.replay()
