"""Makes `encoder_gradients.npz`: a transformer encoder block in PyTorch, and its gradients."""

from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

BATCH, SEQ, WIDTH, HEADS, INNER = 2, 5, 16, 4, 32
SHAPES = {
    "x": (BATCH, SEQ, WIDTH),
    "query_weight": (WIDTH, WIDTH),
    "query_bias": (WIDTH,),
    "key_weight": (WIDTH, WIDTH),
    "key_bias": (WIDTH,),
    "value_weight": (WIDTH, WIDTH),
    "value_bias": (WIDTH,),
    "mix_weight": (WIDTH, WIDTH),
    "mix_bias": (WIDTH,),
    "attention_gamma": (WIDTH,),
    "attention_beta": (WIDTH,),
    "up_weight": (WIDTH, INNER),
    "up_bias": (INNER,),
    "down_weight": (INNER, WIDTH),
    "down_bias": (WIDTH,),
    "output_gamma": (WIDTH,),
    "output_beta": (WIDTH,),
}


def loss(mask: torch.Tensor, wanted: torch.Tensor, **t: torch.Tensor) -> torch.Tensor:
    """The mean square distance of the block's output from what is wanted."""

    def heads(value: torch.Tensor) -> torch.Tensor:
        return value.reshape(BATCH, SEQ, HEADS, WIDTH // HEADS).transpose(1, 2)

    x = t["x"]
    query = heads(x @ t["query_weight"] + t["query_bias"])
    key = heads(x @ t["key_weight"] + t["key_bias"])
    value = heads(x @ t["value_weight"] + t["value_bias"])
    mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    joined = mixed.transpose(1, 2).reshape(BATCH, SEQ, WIDTH) @ t["mix_weight"] + t["mix_bias"]
    h = functional.layer_norm(joined + x, (WIDTH,), t["attention_gamma"], t["attention_beta"])
    inner = functional.gelu(h @ t["up_weight"] + t["up_bias"])
    output = inner @ t["down_weight"] + t["down_bias"] + h
    output = functional.layer_norm(output, (WIDTH,), t["output_gamma"], t["output_beta"])
    return (output - wanted).square().mean()


def main() -> None:
    torch.manual_seed(0)
    tensors = {
        name: (torch.randn(shape, dtype=torch.float64) * 0.5).requires_grad_()
        for name, shape in SHAPES.items()
    }
    mask = torch.zeros(BATCH, 1, 1, SEQ, dtype=torch.float64)
    mask[1, :, :, 3:] = -1e4  # the second text is shorter
    wanted = torch.randn(BATCH, SEQ, WIDTH, dtype=torch.float64)
    error = loss(mask, wanted, **tensors)
    error.backward()
    arrays = {"mask": mask, "wanted": wanted, "loss": error.detach()}
    arrays |= {name: value.detach() for name, value in tensors.items()}
    arrays |= {f"gradient/{name}": value.grad for name, value in tensors.items()}
    arrays["torch"] = np.array(torch.__version__)
    path = Path(__file__).with_suffix(".npz")
    np.savez_compressed(path, **{name: np.asarray(value) for name, value in arrays.items()})


if __name__ == "__main__":
    main()
