"""Keys, pairs of uint32, and random bits, hashed by Threefry-2x32.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Keys are split and
counters are numbered as by `jax.random` with partitionable keys.
"""

from __future__ import annotations

from typing import Any

from structir.errors import Diagnostic, DiagnosticError, caller_span
from structir.ir.expr import Constant
from structir.lazy import lazy_module
from structir.numpy.creation import arange
from structir.numpy.elementwise import bitwise_or, bitwise_xor
from structir.numpy.shaping import reshape, stack
from structir.tracing.array import TracedArray, as_array, cast, numpy_name, operand
from structir.tracing.context import traced
from structir.tracing.size import as_dims, size

np = lazy_module("numpy")
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
MASK = 0xFFFFFFFF


def word(value: int) -> TracedArray:
    """Returns a constant of 32 bits."""
    return TracedArray(Constant(np.asarray(value & MASK, "uint32")))


@traced
def key(seed: Any) -> TracedArray:
    """Returns the key of a seed: a vector of two uint32."""
    if isinstance(seed, int):
        return operand(np.asarray([(seed >> 32) & MASK, seed & MASK], "uint32"))
    low = cast(as_array(seed), "uint32")
    return stack([word(0), low])


@traced
def PRNGKey(seed: Any) -> TracedArray:  # the name that users of JAX know
    """Returns the key of a seed: a vector of two uint32."""
    return key(seed)


@traced
def key_data(keys: Any) -> TracedArray:
    """Returns the data of keys: the keys."""
    return operand(keys)


@traced
def wrap_key_data(data: Any) -> TracedArray:
    """Returns keys from their data."""
    return operand(data)


def threefry(
    first: TracedArray, second: TracedArray, x: TracedArray, y: TracedArray
) -> tuple[TracedArray, TracedArray]:
    """Returns the 20 rounds of Threefry-2x32 of a key and two counters."""
    words = [first, second, bitwise_xor(bitwise_xor(first, second), word(PARITY))]
    x, y = x + words[0], y + words[1]
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x = x + y
            y = bitwise_xor(bitwise_or(y << word(rotation), y >> word(32 - rotation)), x)
        x = x + words[(group + 1) % 3]
        y = y + (words[(group + 2) % 3] + word(group + 1))
    return x, y


def _key(key: Any) -> TracedArray:
    """Returns one key as an array; raises DiagnosticError for any other value."""
    array = operand(key)
    if array.dtype != "uint32" or array.dims != (2,):
        message = f"expected a key, a vector of 2 uint32, found {array.aval}"
        hint = "make one: `key = structir.random.key(0)`; for an array of keys, use `structir.vmap`"
        raise DiagnosticError(Diagnostic(message, caller_span(), hint=hint, code="E1109"))
    return array


def _hashed(keys: Any, shape: tuple[Any, ...]) -> tuple[TracedArray, TracedArray]:
    """Returns two words of each element of a shape."""
    data = _key(keys)
    count: Any = 1
    for s in shape:
        count = size(s) * count
    numbers = reshape(arange(count, dtype="int64"), shape)
    high, low = cast(numbers >> 32, "uint32"), cast(numbers, "uint32")
    return threefry(data[0], data[1], high, low)


@traced
def split(key: Any, num: Any = 2) -> TracedArray:
    """Returns new keys: an array of shape (num, 2), or (*num, 2)."""
    first, second = _hashed(key, as_dims(num))
    return stack([first, second], -1)


@traced
def fold_in(key: Any, data: Any) -> TracedArray:
    """Returns the key of a key and a number."""
    values = _key(key)
    number = word(data) if isinstance(data, int) else cast(as_array(data), "uint32")
    first, second = threefry(values[0], values[1], word(0), number)
    return stack([first, second])


@traced
def bits(key: Any, shape: Any = (), dtype: Any = "uint32") -> TracedArray:
    """Returns random bits as an unsigned integer type."""
    name = numpy_name(dtype)
    if name == "uint64":
        return wide_bits(key, shape)
    first, second = _hashed(key, as_dims(shape))
    return cast(bitwise_xor(first, second), name)


@traced
def wide_bits(key: Any, shape: Any = ()) -> TracedArray:
    """Returns random bits as uint64."""
    first, second = _hashed(key, as_dims(shape))
    return bitwise_or(cast(first, "uint64") << 32, cast(second, "uint64"))
