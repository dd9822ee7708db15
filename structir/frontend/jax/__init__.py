"""Importer of JAX functions: `from_jax(f, *specs)`."""

from structir.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "from_jax": "structir.frontend.jax.model",
        "jax_primitive": "structir.frontend.jax.registry",
        "Equation": "structir.frontend.jax.equation",
        "complex_rule": "structir.frontend.jax.complex_rules",
        "Pair": "structir.frontend.jax.complex_rules",
    },
)
