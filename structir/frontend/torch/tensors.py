"""Tensors of torch as NumPy arrays, and arrays as tensors."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from structir.ir.dtype import numpy_dtype
from structir.lazy import lazy_module

torch = lazy_module("torch")
BITS = {1: "uint8", 2: "int16"}  # dtypes of torch with the bits of those that NumPy does not have


def as_array(value: Any) -> Any:
    """Returns a tensor of torch as an array that shares its memory; other values unchanged.

    A complex tensor becomes an array of floats with a last axis of 2.
    """
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype.is_complex:
        return torch.view_as_real(value.detach().resolve_conj()).numpy()
    name = _foreign_name(value.dtype)
    if name is None:
        return value.numpy(force=True)
    bits = value.detach().resolve_neg().view(getattr(torch, BITS[value.itemsize]))
    return bits.numpy().view(numpy_dtype(name))


@cache
def _foreign_name(dtype: Any) -> str | None:
    """Returns the name of a dtype of torch that NumPy itself does not have, or None."""
    name = str(dtype).removeprefix("torch.")
    return None if hasattr(np, name) else name


def as_tensor(array: Any, meta: Any) -> Any:
    """Returns a result as a tensor with the dtype of its metadata."""
    if array.dtype.isbuiltin == 1:
        tensor = torch.from_numpy(array)
    else:
        bits = BITS[array.dtype.itemsize]
        tensor = torch.from_numpy(array.view(bits)).view(meta.dtype)
    return torch.view_as_complex(tensor) if meta.dtype.is_complex else tensor
