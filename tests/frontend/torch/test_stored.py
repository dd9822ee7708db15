"""Programs that torch has exported and run: every op, and models at several sizes."""

import io
import json
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

import structir
from structir.errors import StructIRError
from structir.frontend.torch import from_pt2
from structir.ir import structural_equal
from tests.frontend.torch.stored_programs import NAMES, stored

MODELS = [name for name in NAMES if name.startswith("model_")]
COMPILED = [
    f"model_{name}"
    for name in ("chooser", "decoder", "encoder", "resnet", "rotary", "spectral", "tagger", "unet")
]
OPS = [name for name in NAMES if name.startswith("ops_")]


def agree(found, expected, closeness=2e-5):
    found = list(found) if isinstance(found, tuple | list) else [found]
    assert len(found) == len(expected)
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        a = np.asarray(a)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), k
        np.testing.assert_allclose(a, b, rtol=closeness, atol=closeness / 10, err_msg=str(k))


def holds(guard, sizes):
    """Returns whether a guard, which torch checks at each call, is true for sizes of inputs."""
    names = {name: SimpleNamespace(size=lambda s=s: s) for name, s in sizes.items()}
    try:
        return bool(eval(guard, {"L": names}))
    except (KeyError, TypeError, NameError):  # of inputs in containers
        return True


def guards_of(program):
    with zipfile.ZipFile(io.BytesIO(program)) as file:
        name = next(name for name in file.namelist() if name.endswith("models/model.json"))
        return json.loads(file.read(name)).get("guards_code", [])


@pytest.mark.parametrize("name", OPS)
def test_ops_agree_with_torch(name):
    program = stored(name)
    module = from_pt2(io.BytesIO(program.program))
    for operands, expected in program.runs:
        agree(structir.interpret(module, "main", *operands), expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", COMPILED)
def test_models_agree_with_torch(name):
    """One compilation for all sizes."""
    program = stored(name)
    module = from_pt2(io.BytesIO(program.program))
    run = structir.compile(module)["main"]
    for operands, expected in program.runs:
        agree(run(*operands), expected, 1e-4)


@pytest.mark.parametrize("name", sorted(set(MODELS) - set(COMPILED)))
def test_interpreted_models_agree_with_torch(name):
    """A file enforces the guards of its program: sizes that torch's program rejects are errors."""
    program = stored(name)
    module, guards = from_pt2(io.BytesIO(program.program)), guards_of(program.program)
    names = module["main"].attrs["input_names"]
    for operands, expected in program.runs:
        sizes = {str(n): x.shape for n, x in zip(names, operands, strict=False)}
        if all(holds(guard, sizes) for guard in guards):
            agree(structir.interpret(module, "main", *operands), expected, 1e-4)
        else:
            with pytest.raises(StructIRError, match=r"R\.require: expected"):
                structir.interpret(module, "main", *operands)


@pytest.mark.parametrize("name", ["model_decoder", "model_cached", "model_chooser", "ops_indices"])
def test_text_round_trip(name, tmp_path):
    module = from_pt2(io.BytesIO(stored(name).program))
    structir.save(module, tmp_path / "module.sir")
    assert structural_equal(structir.load(tmp_path / "module.sir"), module)
