"""The functions of `tests/data/traced_functions.py`, written with JAX's own import lines."""

import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structir

jax = pytest.importorskip("jax")
from_jax = pytest.importorskip("structir.frontend.jax").from_jax

DATA = Path(__file__).parents[2] / "data"
EXPECTED = np.load(DATA / "traced_functions.npz")
IMPORTS = {
    "import structir as jax\n": "import jax\n",
    "import structir.numpy as jnp": "import jax.numpy as jnp",
    "from structir import lax, nn, random": "from jax import lax, nn, random",
}


def functions_of_jax() -> dict[str, Any]:
    source = (DATA / "traced_functions.py").read_text(encoding="utf-8")
    for own, other in IMPORTS.items():
        assert own in source
        source = source.replace(own, other)
    module = types.ModuleType("functions_of_jax")
    exec(compile(source, "functions_of_jax.py", "exec"), vars(module))
    return vars(module)["CASES"]


CASES = functions_of_jax()


def arrays(value: Any) -> Any:
    """An argument as the program takes it."""
    if isinstance(value, dict):
        return {name: arrays(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple([arrays(item) for item in value])
    if isinstance(value, int | float):
        return np.asarray(value, "int32" if isinstance(value, int) else "float32")
    return np.asarray(value)


def leaves(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return [np.asarray(value)]


@pytest.mark.parametrize("name", CASES)
def test_imported_functions_equal_jax(name: str) -> None:
    function, arguments = CASES[name]
    module = from_jax(function, *arguments)
    results = leaves(structir.interpret(module, "main", *map(arrays, arguments)))
    expected = [EXPECTED[key] for key in EXPECTED.files if key.rpartition("/")[0] == name]
    assert len(results) == len(expected) > 0
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=2e-4, atol=2e-4)
