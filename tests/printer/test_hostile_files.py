"""Files that `structir.save` wrote, damaged: they are read, or refused by one message."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError
from structir.ir import BlockBuilder, Constant, IRModule, Var, find_op


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    builder = BlockBuilder()
    weights = Constant(np.arange(300, dtype="float32"))
    x = Var("x", weights.struct_info)
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(find_op("add")(x, weights)))
    path = tmp_path_factory.mktemp("saved") / "module.sir"
    structir.save(builder.get(), path)
    return path.read_bytes()


def damaged(rng: Random, data: bytes) -> bytes:
    """Cut off, lengthened, or with some bytes exchanged."""
    chance = rng.random()
    if chance < 0.4:
        return data[: rng.randrange(len(data))]
    if chance < 0.5:
        return data + bytes(rng.randrange(1, 9))
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        changed[rng.randrange(min(len(data), 700))] = rng.randrange(256)
    return bytes(changed)


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file(whole: bytes, tmp_path: Path, seed: int) -> None:
    path = tmp_path / "module.sir"
    path.write_bytes(damaged(Random(seed), whole))
    try:
        found = structir.load(path)
    except DiagnosticError as error:
        assert str(error)
    else:
        assert isinstance(found, IRModule)
