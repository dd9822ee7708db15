"""Mixtures of experts of `transformers` with small random weights, compared with torch."""

from __future__ import annotations

import io

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import structir  # noqa: E402
from structir.frontend.torch import from_exported_program, from_pt2  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
COMMON = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "num_experts_per_tok": 2,
}
MODELS = {
    "Mixtral": {"num_local_experts": 4},
    "Qwen2Moe": {"num_experts": 6, "moe_intermediate_size": 16},
    "Qwen3Moe": {"num_experts": 6, "moe_intermediate_size": 16, "head_dim": 8},
    "GptOss": {"num_local_experts": 4, "head_dim": 8, "sliding_window": 4},
    "Olmoe": {"num_experts": 5},
}


@pytest.mark.parametrize("name", MODELS)
def test_mixtures_of_experts(name: str) -> None:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**COMMON | MODELS[name])
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    for parameter in model.parameters():  # routes tokens to all experts
        parameter.data = torch.randn_like(parameter) * 0.2
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", min=2, max=32)
    example = {"input_ids": torch.randint(0, 99, (2, 5)), "use_cache": False}
    sizes = {"input_ids": {0: batch, 1: length}, "use_cache": None}
    program = torch.export.export(model, (), example, dynamic_shapes=sizes)
    module = from_exported_program(program)
    compiled = structir.compile(module)["main"]
    for shape in ((2, 5), (1, 1), (3, 2), (1, 7), (4, 1)):
        ids = torch.randint(0, 99, shape)
        with torch.no_grad():
            wanted = model(input_ids=ids, use_cache=False).logits.numpy()
        for result in (structir.interpret(module, "main", ids.numpy()), compiled(ids.numpy())):
            np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-4)
    stored = io.BytesIO()
    torch.export.save(program, stored)
    assert from_pt2(stored)["main"].ret_struct_info is not None
