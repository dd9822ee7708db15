"""Stable orders and order statistics of one row, by integer keys of its elements."""

from __future__ import annotations

from typing import Any

from structir.lazy import lazy_module

np = lazy_module("numpy")
Array = Any
Key = Any  # a uint64; an integer of another type would make a float of an operation's result
SHORT = 64  # a row up to this length is sorted by comparing all pairs
SHORT_SELECTION = 32  # a row up to this length is sorted where few of its elements are needed
FEW = 16  # up to this many first elements are inserted into their order one by one
DIGIT_BITS = 8  # of a counting sort: its 256 counters fit the first cache beside the elements


def sort_keys(row: Array, descending: bool) -> tuple[Array, int]:
    """Returns the positions of elements in the order of their dtype, and the bits of the greatest.

    Equal elements have equal keys: zeros of both signs are equal, and so are all NaNs, which are
    the last ones. In descending order they are the first. The keys are counted from the least one.
    """
    keys, least, union, bits = np.empty(row.shape[0], np.uint64), ~np.uint64(0), np.uint64(0), 0
    sign = np.uint64(1) << np.uint64(63)
    for k in range(row.shape[0]):
        x = row[k]
        if isinstance(x, np.float32):
            word = np.uint64(np.float32(x + np.float32(0)).view(np.uint32)) << np.uint64(32)
            key = (word | sign) if word < sign else ~word
            key = (key if x == x else ~np.uint64(0)) >> np.uint64(32)
        elif isinstance(x, np.float64):
            word = np.float64(x + np.float64(0)).view(np.uint64)
            key = (word | sign) if word < sign else ~word
            key = key if x == x else ~np.uint64(0)
        elif isinstance(x, np.uint64):
            key = np.uint64(x)
        else:
            key = np.uint64(np.int64(x)) ^ sign
        key = ~key if descending else key
        keys[k] = key
        least = min(least, key)
    for k in range(row.shape[0]):
        keys[k] -= least
        union |= keys[k]
    while union > np.uint64(0):
        union >>= np.uint64(1)
        bits += 1
    return keys, bits


def order_of_keys(keys: Array, bits: int) -> Array:
    """Computes the stable argsort of keys: a radix sort from the least significant digit on.

    Each element moves as one word of 32 bits of its key and its index.
    """
    count = keys.shape[0]
    if count <= SHORT:
        return order_by_counting(keys)
    if count > 2**32:
        raise ValueError("x: expected at most 2**32 elements along the axis, found more")
    half, low = np.uint64(32), np.uint64(2**32 - 1)
    pairs, buffer = np.empty(count, np.uint64), np.empty(count, np.uint64)
    counters = np.empty(2**DIGIT_BITS, np.uint64)
    for k in range(count):
        pairs[k] = ((keys[k] & low) << half) | np.uint64(k)
    for word in range(0, bits, 32):
        if word > 0:
            for k in range(count):
                index = pairs[k] & low
                pairs[k] = ((keys[index] >> half) << half) | index
        for digit in range(32, 32 + min(bits - word, 32), DIGIT_BITS):
            sort_by_digit(pairs, buffer, np.uint64(digit), counters)
            pairs, buffer = buffer, pairs
    order = np.empty(count, np.int64)
    for k in range(count):
        order[k] = np.int64(pairs[k] & low)
    return order


def sort_by_digit(words: Array, result: Array, shift: Key, counters: Array) -> None:
    """Sorts words by one digit; words of equal digits keep their order."""
    mask, one, total = np.uint64(2**DIGIT_BITS - 1), np.uint64(1), np.uint64(0)
    for k in range(counters.shape[0]):
        counters[k] = np.uint64(0)
    for word in words:
        counters[(word >> shift) & mask] += one
    for k in range(counters.shape[0]):
        size = counters[k]
        counters[k] = total
        total += size
    for word in words:
        digit = (word >> shift) & mask
        result[counters[digit]] = word
        counters[digit] += one


def order_by_counting(keys: Array) -> Array:
    """Computes the stable argsort of a few keys: compares all pairs without branches."""
    count = keys.shape[0]
    order = np.empty(count, np.int64)
    for k in range(count):
        key, rank = keys[k], 0
        for j in range(count):
            rank += np.int64(keys[j] < key) + np.int64((keys[j] == key) & (j < k))
        order[rank] = k
    return order


def key_of_rank(keys: Array, bits: int, rank: int) -> tuple[Key, int]:
    """Returns the key of a rank in sorted order, and the rank among the keys equal to it.

    Each round counts the keys by their next digit, and keeps those of the digit of the rank.
    """
    kept, count, shift = keys, keys.shape[0], bits
    matching, other = np.empty(count, np.uint64), np.empty(count, np.uint64)
    counters = np.empty(2**DIGIT_BITS, np.int64)
    mask = np.uint64(2**DIGIT_BITS - 1)
    while shift > 0:
        shift = max(shift - DIGIT_BITS, 0)
        place = np.uint64(shift)
        for k in range(counters.shape[0]):
            counters[k] = 0
        for k in range(count):
            counters[(kept[k] >> place) & mask] += 1
        digit = 0
        while rank >= counters[digit]:
            rank -= counters[digit]
            digit += 1
        size = 0
        for k in range(count):
            key = kept[k]
            matching[size] = key
            size += np.int64(((key >> place) & mask) == np.uint64(digit))
        kept, matching, other, count = matching, other, matching, size
    return kept[0], rank


def index_of_rank(row: Array, rank: int) -> int:
    """Returns the index of the element of a rank in ascending order; NaN is last."""
    keys, bits = sort_keys(row, False)
    if keys.shape[0] <= SHORT_SELECTION:
        index: int = order_by_counting(keys)[rank]
        return index
    key, remaining = key_of_rank(keys, bits, rank)
    index = 0
    while keys[index] != key or remaining > 0:
        remaining -= np.int64(keys[index] == key)
        index += 1
    return index


def first_of_order(row: Array, count: int, descending: bool) -> Array:
    """Computes the indices of the first `count` elements of the stable argsort of a row."""
    keys, bits = sort_keys(row, descending)
    if count == row.shape[0] or row.shape[0] <= SHORT_SELECTION:
        return order_of_keys(keys, bits)[:count]
    if count <= FEW:
        return first_by_insertion(keys, count)
    last, remaining = key_of_rank(keys, bits, count - 1)
    indices, selected, size = np.empty(count, np.int64), np.empty(count, np.uint64), 0
    for k in range(row.shape[0]):
        key = keys[k]
        if key < last or (key == last and remaining >= 0):
            remaining -= np.int64(key == last)
            indices[size] = k
            selected[size] = key
            size += 1
    order = order_of_keys(selected, bits)
    for k in range(count):
        order[k] = indices[order[k]]
    return order


def first_by_insertion(keys: Array, count: int) -> Array:
    """Computes the indices of the first `count` keys, of more keys than that."""
    order = np.empty(count, np.int64)
    for k in range(keys.shape[0]):
        key, place = keys[k], min(k, count)
        if place < count or (count > 0 and key < keys[order[count - 1]]):
            while place > 0 and key < keys[order[place - 1]]:
                if place < count:
                    order[place] = order[place - 1]
                place -= 1
            order[place] = k
    return order
