"""Functions of neural networks: activations, normalisations, attention; and `initializers`."""

from structir.lazy import lazy_members

__getattr__, __dir__ = lazy_members(__name__, ("activation", "attention", "initializers:"))
