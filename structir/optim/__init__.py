"""Optimizers and schedules for trees of parameters, as functions of traced arrays."""

from structir.lazy import lazy_members

__getattr__, __dir__ = lazy_members(__name__, ("optimizers", "schedules"))
