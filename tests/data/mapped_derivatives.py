"""Makes `mapped_derivatives.npz`: derivatives of mapped functions of JAX.

They are those of half or more of the functions of `jax.numpy`, `jax.nn` and `jax.numpy.linalg` that
StructIR has too, and that JAX can call with one of a few lists of arguments, in float64. The second
derivative of a mapped function contains a gradient of a mapped function and a mapped gradient.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy
import numpy as np

import structir
import structir.nn
import structir.numpy

STORED = Path(__file__).with_suffix(".npz")
MODULES = {
    "numpy": (structir.numpy, jax.numpy),
    "nn": (structir.nn, jax.nn),
    "linalg": (structir.numpy.linalg, jax.numpy.linalg),
}
RANDOM = np.random.default_rng(0)
X, Y = (RANDOM.uniform(0.15, 0.85, (5, 3, 4)) for _ in range(2))
SQUARE = RANDOM.uniform(-1, 1, (5, 3, 3)) + 3 * np.eye(3)
TANGENT = RANDOM.uniform(-1, 1, (5, 3, 4))
ARGUMENTS = ((X,), (X, Y), (SQUARE,), (X, np.full_like(X, 0.5), Y))
# JAX calls it with matrices, of which one is no attention.
WITHOUT = {"nn.dot_product_attention"}


def names() -> list[str]:
    """Returns the functions that both libraries have, each by one of its names."""
    functions = {
        id(getattr(own, name)): f"{module}.{name}"
        for module, (own, other) in MODULES.items()
        for name in sorted(dir(own))
        if not name.startswith("_")
        and callable(getattr(own, name))
        and callable(getattr(other, name, None))
        and not isinstance(getattr(other, name), type)
    }
    return [name for name in functions.values() if name not in WITHOUT]


def second_derivative(library: Any, function: Callable[..., Any], numpy: Any) -> Callable[..., Any]:
    """Returns the derivative along TANGENT of the mapped gradient, and the mapped gradient."""

    def scalar(*args: Any) -> Any:
        return numpy.sum(numpy.sin(function(*args)))

    def call(x: Any, *constants: Any) -> Any:
        # A captured NumPy array is weak: `sin` of it would be float32.
        others = [numpy.asarray(value, dtype="float64") for value in constants]
        direction = TANGENT[:, : x.shape[1], : x.shape[2]]
        mapped = library.vmap(library.grad(scalar))
        total = library.grad(lambda value: numpy.sum(library.vmap(scalar)(value, *others)))
        value, tangent = library.jvp(lambda v: mapped(v, *others), (x,), (direction,))
        return total(x), value, tangent

    return call


def expected(name: str) -> tuple[int, list[np.ndarray]] | None:
    """Returns the position of the first arguments that JAX can differentiate for, and its
    derivatives; None if there are no such arguments: it is no function of real arrays."""
    module, function = name.split(".")
    called = getattr(MODULES[module][1], function)
    for index, arguments in enumerate(ARGUMENTS):
        try:
            result = called(*[a[0] for a in arguments])
            if getattr(result, "dtype", None) != np.float64:
                continue
            derivative = jax.jit(second_derivative(jax, called, jax.numpy))
            return index, [np.asarray(part) for part in derivative(*arguments)]
        except Exception:
            continue
    return None


def main() -> None:
    """Adds the derivatives of functions that the file does not know; to a new file, those of every
    second function."""
    known, arrays = names(), {}
    described: dict[str, Any] = {"names": [], "arguments": {}}
    if STORED.exists():
        arrays = dict(np.load(STORED))
        described = json.loads(str(arrays.pop("described")))
    new = [name for name in known if name not in described["names"]]
    with jax.enable_x64(True):
        for name in new if arrays else new[::2]:
            if (case := expected(name)) is not None:
                described["arguments"][name] = case[0]
                arrays |= {f"{name}/{k}": part for k, part in enumerate(case[1])}
    described |= {"jax": jax.__version__, "names": known}
    np.savez_compressed(STORED, described=json.dumps(described), **arrays)


if __name__ == "__main__":
    main()
