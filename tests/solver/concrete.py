"""The ops of the case format on concrete shapes: the reference for random programs."""

import math
from collections.abc import Callable, Sequence
from typing import Any

Shape = tuple[int, ...]
Attrs = dict[str, Any]


class Refused(Exception):
    """The op rejects its operands."""


def need(condition: bool) -> None:
    if not condition:
        raise Refused


def join(*shapes: Shape) -> Shape:
    rank = max(map(len, shapes))
    found: list[int] = []
    for place in range(-rank, 0):
        wide = {s[place] for s in shapes if len(s) >= -place} - {1}
        need(len(wide) <= 1)
        found.append(wide.pop() if wide else 1)
    return tuple(found)


def index(axis: int, rank: int) -> int:
    need(-rank <= axis < rank)
    return axis % rank


def binary(attrs: Attrs, x: Shape, y: Shape) -> Shape:
    mode = attrs.get("broadcast", "multi")
    need(mode != "none" or x == y)
    both = join(x, y)
    need(mode != "one" or both == x)
    return both


def matmul(attrs: Attrs, x: Shape, y: Shape) -> Shape:
    need(len(x) >= 2 and len(y) >= 2 and x[-1] == y[-2])
    need(attrs.get("batch") != "equal" or x[:-2] == y[:-2])
    return (*join(x[:-2], y[:-2]), x[-2], y[-1])


def linear(attrs: Attrs, x: Shape, w: Shape, b: Shape | None = None) -> Shape:
    need(len(x) >= 1 and len(w) == 2 and x[-1] == w[1] and b in (None, w[:1]))
    return (*x[:-1], w[0])


def window(size: int, kernel: int, attrs: Attrs) -> int:
    stride, pad = attrs.get("stride", 1), attrs.get("pad", 0)
    span = size + 2 * pad - attrs.get("dilation", 1) * (kernel - 1) - 1
    need(span >= 0)
    return span // stride + 1


def conv(attrs: Attrs, x: Shape, w: Shape) -> Shape:
    groups = attrs.get("groups", 1)
    need(len(x) == len(w) == 3 and x[1] == groups * w[1] and w[0] % groups == 0)
    return (x[0], w[0], window(x[2], w[2], attrs))


def transpose(attrs: Attrs, x: Shape) -> Shape:
    axes = attrs.get("axes") or list(range(len(x)))[::-1]
    need(len(axes) == len(x))
    return tuple([x[k] for k in axes])


def reduce(attrs: Attrs, x: Shape) -> Shape:
    axis = index(attrs["axis"], len(x))
    kept = (1,) if attrs.get("keepdims") else ()
    return x[:axis] + kept + x[axis + 1 :]


def along(attrs: Attrs, x: Shape) -> Shape:
    index(attrs["axis"], len(x))
    return x


def concat(attrs: Attrs, *xs: Shape) -> Shape:
    axis = index(attrs["axis"], len(xs[0]))
    need(len({len(x) for x in xs}) == 1)
    need(len({x[:axis] + x[axis + 1 :] for x in xs}) == 1)
    return (*xs[0][:axis], sum(x[axis] for x in xs), *xs[0][axis + 1 :])


def flatten(attrs: Attrs, x: Shape) -> Shape:
    start = attrs.get("start", 0)
    need(len(x) > start)
    return (*x[:start], math.prod(x[start:]))


def reshape(attrs: Attrs, x: Shape) -> Shape:
    shape = list(attrs["shape"])
    if -1 in shape:
        known = -math.prod(shape)
        need(math.prod(x) % known == 0)
        shape[shape.index(-1)] = math.prod(x) // known
    need(math.prod(shape) == math.prod(x))
    return tuple(shape)


def expand_dims(attrs: Attrs, x: Shape) -> Shape:
    axis = index(attrs["axis"], len(x) + 1)
    return (*x[:axis], 1, *x[axis:])


def squeeze(attrs: Attrs, x: Shape) -> Shape:
    axis = index(attrs["axis"], len(x))
    need(x[axis] == 1)
    return x[:axis] + x[axis + 1 :]


def pad(attrs: Attrs, x: Shape) -> Shape:
    need(len(x) == len(attrs["width"]))
    return tuple([size + sum(w) for size, w in zip(x, attrs["width"], strict=True)])


def repeat(attrs: Attrs, x: Shape) -> Shape:
    axis = index(attrs["axis"], len(x))
    return (*x[:axis], x[axis] * attrs["n"], *x[axis + 1 :])


def turn(attrs: Attrs, x: Shape) -> Shape:
    """Returns the shape of the einsum `a *s b -> *s b a`."""
    need(len(x) >= 2)
    return (*x[1:-1], x[-1], x[0])


def broadcast_like(attrs: Attrs, x: Shape, y: Shape) -> Shape:
    need(join(x, y) == y)
    return y


def embedding(attrs: Attrs, ids: Shape, table: Shape) -> Shape:
    need(len(table) == 2)
    return (*ids, table[1])


FORWARD: dict[str, Callable[..., Shape]] = {
    "relu": lambda attrs, x: x,
    "add": binary,
    "where": lambda attrs, *xs: join(*xs),
    "matmul": matmul,
    "linear": linear,
    "conv1d": conv,
    "transpose": transpose,
    "reduce": reduce,
    "softmax": along,
    "concat": concat,
    "flatten": flatten,
    "reshape": reshape,
    "expand_dims": expand_dims,
    "squeeze": squeeze,
    "pad": pad,
    "repeat": repeat,
    "einsum": turn,
    "broadcast_like": broadcast_like,
    "embedding": embedding,
}


def forward(ops: Sequence[dict[str, Any]], shapes: dict[str, Shape]) -> dict[str, Shape]:
    """Returns the shapes of all values of a program. Raises Refused if an op rejects operands."""
    known = dict(shapes)
    for op in ops:
        made = FORWARD[op["op"]](op["attrs"], *[known[name] for name in op["in"]])
        known[op["out"][0]] = made
    return known
