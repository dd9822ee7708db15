"""What the tests of the examples share: the real model and PyTorch's answers to it."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from minilm_files import ModelUnavailableError, Weights, load_weights, model_folder

REFERENCE = Path(__file__).parents[1] / "data" / "minilm_reference.npz"


class Case(NamedTuple):
    """One batch, and what PyTorch makes of it; hidden states at some positions only."""

    input_ids: NDArray[np.int64]
    attention_mask: NDArray[np.int64]
    positions: NDArray[np.int64]
    hidden: NDArray[np.float32]
    embedding: NDArray[np.float32]


def read_cases() -> Iterator[Case]:
    with np.load(REFERENCE) as stored:
        for case in range(4):
            yield Case(**{name: stored[f"{case}/{name}"] for name in Case._fields})


@pytest.fixture(scope="session")
def cases() -> list[Case]:
    return list(read_cases())


@pytest.fixture(scope="session")
def folder() -> Path:
    try:
        return model_folder()
    except ModelUnavailableError as error:
        pytest.skip(f"the real model is not at hand: {error}")


@pytest.fixture(scope="session")
def weights(folder: Path) -> Weights:
    return load_weights(folder)
