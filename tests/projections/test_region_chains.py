"""Regions of random chains of ops compared with dependence measured on plain NumPy, where padding
consists of zeros.
"""

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from structir.projections.boxes import NOTHING, Region, region
from structir.projections.program import program_of
from tests.projections.case_programs import function_of
from tests.projections.test_regions import block, boxes, elements

Array = np.ndarray
Shape = tuple[int, ...]


def convolution(x: Array, w: Array, stride: int, pad: int, dilation: int, groups: int) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad)))
    reach = (w.shape[2] - 1) * dilation + 1
    out = []
    for start in range(0, x.shape[2] - reach + 1, stride):
        taps = x[:, :, start : start + reach : dilation]
        parts = zip(np.split(taps, groups, axis=1), np.split(w, groups, axis=0), strict=True)
        out.append(np.concatenate([np.einsum("nck,ock->no", t, v) for t, v in parts], axis=1))
    return np.stack(out, axis=-1)


def pooled(x: Array, kernel: int, stride: int, pad: int) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=-1)
    view = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    return view[:, :, ::stride, ::stride].max(axis=(-1, -2))


def sliced(x: Array, axis: int, begin: int, end: int, step: int) -> Array:
    places = range(begin, end, step)
    return np.take(x, list(places), axis)


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def normalised(x: Array, g: Array, b: Array) -> Array:
    return (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True) + 1) * g + b


NUMPY: dict[str, Callable[..., Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "add": lambda x, y: x + y,
    "matmul": lambda x, y: x @ y,
    "linear": lambda x, w, b: x @ w.T + b,
    "transpose": lambda x, axes: np.transpose(x, axes),
    "reverse": lambda x, axis: np.flip(x, axis),
    "slice": sliced,
    "pad": lambda x, width: np.pad(x, width),
    "concat": lambda *xs, axis: np.concatenate(xs, axis),
    "stack": lambda *xs, axis: np.stack(xs, axis),
    "tile": lambda x, reps: np.tile(x, reps),
    "roll": lambda x, shift, axis: np.roll(x, shift, axis),
    "repeat": lambda x, n, axis: np.repeat(x, n, axis),
    "reshape": lambda x, shape: x.reshape(shape),
    "flatten": lambda x: x.reshape(-1),
    "cumsum": lambda x, axis: np.cumsum(x, axis),
    "softmax": softmax,
    "layer_norm": normalised,
    "reduce": lambda x, axis, keepdims: x.sum(axis=tuple(axis), keepdims=keepdims),
    "broadcast_to": lambda x, shape: np.broadcast_to(x, shape),
    "expand_dims": lambda x, axis: np.expand_dims(x, axis),
    "diagonal": lambda x: np.moveaxis(np.diagonal(x), -1, 0),
    "conv1d": convolution,
    "max_pool2d": pooled,
}


class Chain:
    """A case as it grows: its last value, its parameters and ops."""

    def __init__(self, shape: Shape) -> None:
        self.params = [{"name": "x", "shape": list(shape)}]
        self.ops: list[dict] = []
        self.shape, self.last = shape, "x"

    def param(self, *shape: int) -> str:
        name = f"p{len(self.params)}"
        self.params.append({"name": name, "shape": list(shape)})
        return name

    def apply(self, op: str, *others: str, **attrs: object) -> None:
        out = f"t{len(self.ops)}"
        self.ops.append({"op": op, "in": [self.last, *others], "out": out, "attrs": attrs})
        self.last = out
        self.shape = self.run({}).shape

    def run(self, given: dict[str, Array]) -> Array:
        values = {p["name"]: np.full(p["shape"], 0.5) for p in self.params} | given
        with np.errstate(all="ignore"):
            for op in self.ops:
                xs = [values[name] for name in op["in"]]
                values[op["out"]] = NUMPY[op["op"]](*xs, **op["attrs"])
        return values[self.last]

    def case(self) -> dict:
        return {"params": self.params, "ops": self.ops, "result": self.last}


def grow(chain: Chain, draw: st.DrawFn) -> None:
    """Appends one random op that fits."""
    shape, rank = chain.shape, len(chain.shape)
    choices = ["relu", "add", "stack", "expand_dims"]
    if rank:
        choices += ["reverse", "slice", "pad", "concat", "tile", "roll", "repeat", "cumsum"]
        choices += ["reduce", "softmax", "layer_norm", "linear", "reshape", "flatten", "transpose"]
        choices += ["broadcast_to"] if 1 in shape else []
    if rank >= 2:
        choices += ["matmul", "matmul"] + (["diagonal"] if shape[0] == shape[1] else [])
    choices += ["conv1d"] * 6 if rank == 3 else ["max_pool2d"] * 6 if rank == 4 else []
    op = draw(st.sampled_from(choices))
    axis = draw(st.integers(0, rank - 1)) if rank else 0
    GROWN.get(op, plain)(chain, draw, op, axis)


def plain(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    chain.apply(op)


def along(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    chain.apply(op, axis=axis)


def added(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    start = draw(st.integers(0, len(chain.shape)))
    tail = [draw(st.sampled_from([1, n])) for n in chain.shape[start:]]
    first = chain.ops and draw(st.booleans()) and chain.run({}).shape == chain.params[0]["shape"]
    chain.apply(op, "x" if first else chain.param(*tail))


def cut(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    size, step = chain.shape[axis], draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
    begin = draw(st.integers(0, size - 1))
    end = draw(st.integers(begin + 1, size)) if step > 0 else draw(st.integers(-1, begin - 1))
    chain.apply(op, axis=axis, begin=begin, end=end, step=step)


def padded(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    width = [[draw(st.integers(0, 2)), draw(st.integers(0, 2))] for _ in chain.shape]
    chain.apply(op, width=width)


def beside(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    chain.apply(op, chain.param(*chain.shape), axis=axis)


def tiled(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    chain.apply(op, reps=[draw(st.integers(1, 2)) for _ in chain.shape])


def rolled(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    chain.apply(op, shift=draw(st.integers(-3, 3)), axis=axis)


def repeated(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    chain.apply(op, axis=axis, n=draw(st.integers(1, 3)))


def reduced(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    chain.apply(op, axis=[axis], keepdims=draw(st.booleans()))


def normed(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    size = chain.shape[-1]
    chain.apply(op, chain.param(size), chain.param(size))


def linear(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    n = draw(st.integers(1, 3))
    chain.apply(op, chain.param(n, chain.shape[-1]), chain.param(n))


def multiplied(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    chain.apply(op, chain.param(chain.shape[-1], draw(st.integers(1, 3))))


def reshaped(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    total = int(np.prod(chain.shape))
    first = draw(st.sampled_from([k for k in range(1, total + 1) if total % k == 0]))
    rest = total // first
    second = draw(st.sampled_from([k for k in range(1, rest + 1) if rest % k == 0]))
    chain.apply(op, shape=[first, second, rest // second])


def permuted(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    chain.apply(op, axes=list(draw(st.permutations(range(len(chain.shape))))))


def broadcast(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    chain.apply(op, shape=[draw(st.integers(1, 3)) if n == 1 else n for n in chain.shape])


def convolved(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    channels, size = chain.shape[1:]
    groups = draw(st.sampled_from([g for g in (1, 1, 2, 3) if channels % g == 0]))
    stride, pad, dilation = (draw(st.integers(*ends)) for ends in ((1, 3), (0, 2), (1, 2)))
    longest = (size + 2 * pad - 1) // dilation + 1
    kernel = draw(st.integers(1, min(3, longest)))
    w = chain.param(groups * draw(st.integers(1, 2)), channels // groups, kernel)
    chain.apply(op, w, stride=stride, pad=pad, dilation=dilation, groups=groups)


def pools(chain: Chain, draw: st.DrawFn, op: str, axis: int) -> None:
    pad = draw(st.integers(0, 1))
    kernel = draw(
        st.integers(pad + 1, max(pad + 1, min(3, *[n + 2 * pad for n in chain.shape[2:]])))
    )
    if kernel <= min(chain.shape[2:]) + 2 * pad:
        chain.apply(op, kernel=kernel, stride=draw(st.integers(1, 3)), pad=pad)


GROWN = {
    "add": added, "slice": cut, "pad": padded, "concat": beside, "stack": beside, "tile": tiled,
    "roll": rolled, "repeat": repeated, "reduce": reduced, "layer_norm": normed, "linear": linear,
    "matmul": multiplied, "reshape": reshaped, "transpose": permuted, "broadcast_to": broadcast,
    "conv1d": convolved, "max_pool2d": pools, "reverse": along, "cumsum": along, "softmax": along,
    "expand_dims": along,
}  # fmt: skip


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    chain = Chain(tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))))
    for _ in range(draw(st.integers(1, 4))):
        if np.prod(chain.shape) > 80 or len(chain.shape) > 4:
            break
        grow(chain, draw)
    return chain


def measured(chain: Chain, name: str) -> Array:
    """Returns which results change if a parameter element becomes NaN: result axes first."""
    shape = next(tuple(p["shape"]) for p in chain.params if p["name"] == name)
    hits = np.zeros((*chain.shape, *shape), bool)
    for place in np.ndindex(*shape):
        poisoned = np.full(shape, 0.5)
        poisoned[place] = np.nan
        hits[(..., *place)] = np.isnan(chain.run({name: poisoned}))
    return hits


def hull(hit: Array) -> Region:
    places = np.argwhere(hit)
    return region(places.min(0), places.max(0) + 1) if len(places) else NOTHING


def check(found: Region, want: Array) -> None:
    own = elements(found, want.shape)
    assert not (want & ~own).any()
    if found.exact:
        assert (own == want).all()


@settings(max_examples=150)
@given(st.data())
def test_required_and_affected_elements(data: st.DataObject) -> None:
    chain = data.draw(chains())
    function, values = function_of(chain.case())
    program = program_of(function)
    result = program.values[values[chain.last]]
    corners = data.draw(boxes(chain.shape))
    regions = program.required_regions({result: region(*corners)})
    rank = len(chain.shape)
    for param in chain.params:
        key = program.values[values[param["name"]]]
        hits = measured(chain, param["name"])
        check(regions.get(key, NOTHING), hits[block(corners)].any(axis=tuple(range(rank))))
        given_box = data.draw(boxes(tuple(param["shape"])))
        changed = program.affected_regions({key: region(*given_box)}).get(result, NOTHING)
        hit = hits[(..., *block(given_box))].any(axis=tuple(range(rank, hits.ndim)))
        check(changed, hit)
