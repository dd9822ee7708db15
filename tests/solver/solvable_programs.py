"""Generates random programs with a known run: arguments are chosen first, then StructInfo that
holds for them is hidden in part.

Sizes become dims, runs of axes become row variables, rows of ragged tensors lose their names, and
dtypes become variables or unknown. Inference must accept the known run.
"""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import numpy as np

from structir import RaggedArray

Shape = tuple[int, ...]
FLOATS = ("float32", "float64")
DTYPES = (*FLOATS, "int32", "int64")
RAGGED = -1  # the ragged axis in a shape
HELPERS = """
@R.function(private=True)
def scaled(x: R.Tensor(("*s",), "'A"), by: R.Prim("'A")):
    return R.add(x, x * by)

@R.function(private=True)
def linear(x, w):
    return R.matmul(x, w)

@R.function(private=True)
def swapped(pair):
    a, b = pair
    return (R.negative(b), R.multiply(a, a))

@R.function(private=True)
def doubled(a):
    return R.add(a, a)

@R.function(private=True)
def apply(fn, a):
    return R.add(fn(a), a)

@R.function(private=True)
def pick(a: R.Tensor(("*s",), "'A"), b: R.Tensor(("*s",), "'A")):
    if R.greater(R.max(a), R.min(b)):
        c = R.add(a, a)
    else:
        c = R.negative(b)
    return c

@R.function(private=True)
def step(s, a):
    n = R.add(s, a)
    return (n, n)

@R.function(private=True)
def rescaled(
    x: R.Tensor(("*p", "d"), "'A"), by: R.Tensor(("d",), "'B"), y: R.Tensor(("*p", "*q"), "'A")
):
    return (R.astype(by, "'A") * x, y)
"""


@attrs.frozen
class Known:
    """A value of the program as it is in the known run."""

    name: str
    dtype: str
    shape: Shape | None = None  # None for a scalar
    lengths: Shape = ()  # of the rows of a ragged tensor

    @property
    def is_dense(self) -> bool:
        return self.shape is not None and RAGGED not in self.shape


class Hiding:
    """The names of dims, row variables and dtype variables; one name for equal sizes only."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.sizes: dict[int, str] = {}
        self.rows: dict[Shape, str] = {}
        self.dtypes: dict[str, str] = {}
        self.lengths: dict[Shape, str] = {}
        self.bound: set[int] = set()  # sizes whose names are sizes of a parameter
        self.of_params = False

    def info(self, value: Known, ranked: bool = False) -> str:
        """Returns a StructInfo of a value, as text; empty for a parameter without annotation."""
        if value.shape is None:
            return f'R.Prim("{self.dtype(value.dtype, must=True)}")'
        draw = self.rng.random()
        if value.is_dense and draw < 0.2 and not ranked:
            return "" if draw < 0.1 else "R.Tensor"
        dtype = self.dtype(value.dtype)
        quoted = f'"{dtype}"' if dtype else "None"
        if value.is_dense and draw < 0.3:
            return f"R.Tensor(ndim={len(value.shape)}, dtype={quoted})"
        axes = "".join([f"{axis}, " for axis in self.axes(value, ranked)])
        return f"R.Tensor(({axes.rstrip(' ')}), {quoted})"

    def dtype(self, dtype: str, must: bool = False) -> str:
        """Returns a dtype, a variable of this dtype, or nothing."""
        draw = self.rng.random()
        if draw < 0.35 and not must:
            return ""
        if draw < 0.75:
            return self.dtypes.setdefault(dtype, f"'{'TUVWZ'[len(self.dtypes)]}")
        return dtype

    def axes(self, value: Known, ranked: bool) -> list[str]:
        """Returns the axes of a tensor; a row variable replaces a run of them."""
        assert value.shape is not None
        shape, k, texts, rng = value.shape, 0, list[str](), self.rng
        new_rows = 0
        while k <= len(shape):
            if value.is_dense and not ranked and rng.random() < 0.25:
                run = shape[k : k + rng.randint(0, len(shape) - k)]
                if run in self.rows or not new_rows:
                    new_rows += run not in self.rows
                    name = self.rows.setdefault(run, f"*r{len(self.rows)}")
                    if name not in "".join(texts):
                        texts.append(f'"{name}"')
                        k += len(run)
            if k < len(shape):
                texts.append(self.size(shape[k], value))
            k += 1
        return texts

    def size(self, size: int, value: Known) -> str:
        """Returns a size, the name of a dim of this size, or `_`."""
        rng = self.rng
        draw = rng.random()
        if size == RAGGED:
            if draw < 0.5:
                return '"*"'
            name = self.lengths.setdefault(value.lengths, f"l{len(self.lengths)}")
            return f'"*:{name}"'
        if draw < 0.15:
            return str(size)
        if draw < 0.25:
            return '"_"'
        known = sorted(other for other in self.bound if other < size)
        if known and draw < 0.32:
            other = rng.choice(known)
            return f'"{self.sizes[other]} + {size - other}"'
        if self.of_params:
            self.bound.add(size)
        return f'"{self.sizes.setdefault(size, f"n{len(self.sizes)}")}"'

    def param(self, value: Known, ranked: bool) -> str:
        """Returns the annotation of a parameter, whose sizes later ones may mention."""
        self.of_params = True
        info = self.info(value, ranked)
        self.of_params = False
        return info


class Program:
    """A program under construction: its parameters, values and bindings."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.params: list[Known] = []
        self.infos: list[str] = []
        self.ranked: list[Known] = []
        self.values: list[Known] = []
        self.lines: list[str] = []
        self.hiding = Hiding(rng)

    def param(
        self, shape: Shape | None, dtype: str, lengths: Shape = (), ranked: bool = False
    ) -> Known:
        """Adds a parameter, whose rank is known if required, or returns a value of this shape and
        dtype."""
        same = [v for v in self.values if (v.shape, v.dtype, v.lengths) == (shape, dtype, lengths)]
        same = [v for v in same if not ranked or v in self.ranked]
        if same and self.rng.random() < 0.5:
            return self.rng.choice(same)
        value = Known(f"x{len(self.params)}", dtype, shape, lengths)
        self.params.append(value)
        self.infos.append(self.hiding.param(value, ranked))
        self.ranked += [value] * ranked
        self.values.append(value)
        return value

    def bind(self, text: str, *infos: tuple[str, Shape | None, Shape]) -> None:
        """Adds a binding of one or several values, given by dtype, shape and lengths of rows."""
        names = [f"v{len(self.lines)}_{k}" for k in range(len(infos))]
        self.lines.append(f"    {', '.join(names)} = {text}")
        for name, (dtype, shape, lengths) in zip(names, infos, strict=True):
            self.values.append(Known(name, dtype, shape, lengths))

    def cast(self) -> None:
        """Adds a match_cast of a value to a StructInfo that holds for it."""
        value = self.rng.choice([v for v in self.values if v.shape is not None])
        info = self.hiding.info(value)
        if info:
            text = f"R.match_cast({value.name}, {info})"
            self.bind(text, (value.dtype, value.shape, value.lengths))

    def text(self) -> str:
        """Returns the program."""
        pairs = zip(self.params, self.infos, strict=True)
        params = ", ".join([f"{p.name}: {info}" if info else p.name for p, info in pairs])
        outputs = ", ".join([v.name for v in self.values])
        body = "\n".join(self.lines)
        helpers = [text for text in HELPERS.split("\n\n") if _is_used(text, body)]
        head = "\n".join([*helpers, f"@R.function\ndef main({params}):"])
        dims = [f"    {name} = T.int64()" for name in self.hiding.sizes.values()]
        return "\n".join([head, *dims, *self.lines, f"    return ({outputs},)\n"])


def _is_used(helper: str, body: str) -> bool:
    return f"cls.{helper.partition('def ')[2].partition('(')[0]}" in body


def broadcast(*shapes: Shape) -> Shape:
    return tuple(np.broadcast_shapes(*shapes))


def reduced(shape: Shape, axis: int, keepdims: bool) -> Shape:
    axis %= len(shape)
    return (*shape[:axis], *((1,) if keepdims else ()), *shape[axis + 1 :])


def dense_op(p: Program, x: Known) -> None:
    """Adds an op on a dense tensor; nothing where the op does not apply."""
    assert x.shape is not None
    rng, shape, d, n = p.rng, x.shape, x.dtype, x.name
    rank = len(shape)
    axis = rng.randrange(-rank, rank) if rank else 0

    def out(text: str, result: Shape, dtype: str = d) -> None:
        p.bind(text, (dtype, result, ()))

    def other(wanted: Shape, dtype: str = d) -> str:
        return p.param(wanted, dtype).name

    match rng.randrange(26):
        case 0:
            name = rng.choice(("negative", "abs", "nn.relu", "zeros_like"))
            out(f"R.{name}({n})", shape)
        case 1 if d in FLOATS:
            out(f"R.{rng.choice(('exp', 'tanh', 'sigmoid'))}({n})", shape)
        case 2 | 3:
            part = tuple(s if rng.random() < 0.7 else 1 for s in shape[rng.randint(0, rank) :])
            wide = rng.choice((part, part, shape, (2, *shape)))
            name = rng.choice(("add", "multiply", "maximum", "subtract"))
            operands = rng.choice(((n, other(wide)), (other(wide), n)))
            out(f"R.{name}({', '.join(operands)})", broadcast(shape, wide))
        case 4:
            out(f"R.greater({n}, {other(shape)})", shape, "bool")
        case 5:
            y = other(shape)
            out(f"R.where({n} > {y}, {n}, {y})", shape)
        case 6 if rank >= 2:
            columns = rng.choice((2, 3, 4))
            text = rng.choice(("R.matmul({}, {})", "cls.linear({}, {})"))
            w = other((shape[-1], columns))
            out(text.format(n, w), (*shape[:-1], columns))
        case 7 if rank:
            inner = (shape[-1], *rng.choice(((), (2,), (3, 2))))
            out(
                f'R.einsum(({n}, {other(inner)}), "*b i; i *o -> *b *o")', (*shape[:-1], *inner[1:])
            )
        case 8 if rank:
            second = (*rng.choice(((), (2,), (3, 2))), shape[-1])
            spec = '"*b i; *o i -> *b *o"'
            out(f"R.einsum(({n}, {other(second)}), {spec})", (*shape[:-1], *second[:-1]))
        case 9 if rank:
            out(f'R.einsum(({n},), "a *s -> *s a")', (*shape[1:], shape[0]))
        case 10 if rank and shape[-1] > 1:
            width = rng.randint(1, shape[-1])
            text = f'R.einsum(({n}, {other((width,))}), "*b i; k -> *b i-k+1")'
            out(text, (*shape[:-1], shape[-1] - width + 1))
        case 11 if rank:
            own = rng.choice((1, 2, 3))
            text = f'R.einsum(({n}, {other((own, *shape[1:]))}), "a *s; b *s -> a+b *s")'
            out(text, (shape[0] + own, *shape[1:]))
        case 12 | 13 if rank:
            keep = rng.random() < 0.4
            name = rng.choice(("sum", "max", "min"))
            out(f"R.{name}({n}, axis={axis}, keepdims={keep})", reduced(shape, axis, keep))
        case 14 if rank:
            own = list(shape)
            own[axis] = rng.choice((1, 2, 3))
            total = list(shape)
            total[axis] += own[axis]
            out(f"R.concat(({n}, {other(tuple(own))}), axis={axis})", tuple(total))
        case 15:
            place = rng.randint(0, rank)
            out(f"R.expand_dims({n}, {place})", (*shape[:place], 1, *shape[place:]))
        case 16:
            order = rng.sample(range(rank), rank)
            if rng.random() < 0.5 or not order:
                out(f"R.permute_dims({n})", shape[::-1])
            else:
                out(f"R.permute_dims({n}, {order})", tuple(shape[k] for k in order))
        case 17:
            out(f"R.reshape({n}, (-1,))", (int(np.prod(shape)),))
        case 18:
            dtype = rng.choice(DTYPES)
            out(f'R.astype({n}, "{dtype}")', shape, dtype)
        case 19:
            s = p.param(None, d).name
            text = rng.choice((f"{n} * {s}", f"cls.scaled({n}, {s})", f"R.minimum({s}, {n})"))
            out(text, shape)
        case 20:
            s = p.param(None, rng.choice(DTYPES))
            out(f"R.full((2, 3), {s.name})", (2, 3), s.dtype)
        case 21 if rank:
            y = other(shape)
            text = rng.choice(
                (
                    f"R.map(lambda a: R.multiply(a, a), {n})",
                    f"R.vmap(lambda a, b: R.add(a, b))({n}, {y})",
                    f"R.scan(cls.step, (R.sum({n}, axis=0),), {n})[1]",
                )
            )
            out(text, shape)
        case 22:
            y = other(shape)
            text = rng.choice(
                ("cls.pick({0}, {1})", "cls.apply(cls.doubled, {0})", "cls.doubled({1})")
            )
            out(text.format(n, y), shape)
        case 23:
            y = p.param(rng.choice((shape, (2,), (3, 2))), rng.choice(DTYPES))
            p.bind(f"cls.swapped(({n}, {y.name}))", (y.dtype, y.shape, ()), (d, shape, ()))
        case 24 if rank:
            scale = p.param((shape[-1],), rng.choice(DTYPES), ranked=True).name
            y = p.param((*shape[:-1], *rng.choice(((), (2,), (2, 3)))), d)
            text = f"cls.rescaled({n}, {scale}, {y.name})"
            p.bind(text, (d, shape, ()), (d, y.shape, ()))
        case 25 if d in FLOATS and rank:
            out(f"R.nn.softmax({n}, axis={axis})", shape)


def ragged_op(p: Program, x: Known) -> None:
    """Adds an op on a ragged tensor of rows of numbers or vectors."""
    assert x.shape is not None
    rng, shape, d, n, lengths = p.rng, x.shape, x.dtype, x.name, x.lengths

    def out(text: str, result: Shape = shape, dtype: str = d, rows: Shape = lengths) -> None:
        p.bind(text, (dtype, result, rows if RAGGED in result else ()))

    match rng.randrange(15):
        case 0:
            out(f"R.{rng.choice(('negative', 'abs', 'nn.relu'))}({n})")
        case 1 if d in FLOATS:
            out(f"R.{rng.choice(('exp', 'tanh'))}({n})")
        case 2 | 3:
            y = p.param(shape, d, lengths).name
            out(f"R.{rng.choice(('add', 'multiply', 'maximum'))}({n}, {y})")
        case 4:
            y = p.param(rng.choice(((), (1,), shape[2:])), d, ranked=True).name
            out(f"R.add({rng.choice((f'{n}, {y}', f'{y}, {n}'))})")
        case 5:
            own = tuple(rng.randint(0, 2) for _ in lengths)
            y = p.param(shape, d, own).name
            total = tuple(a + b for a, b in zip(lengths, own, strict=True))
            out(f"R.concat(({n}, {y}), axis=1)", rows=total)
        case 6 if d in FLOATS:
            out(f"R.nn.softmax({n}, axis=1)")
        case 7:
            y = p.param(shape, d, lengths).name
            out(f"R.where(R.greater({n}, {y}), {n}, {y})")
        case 8:
            dtype = rng.choice(DTYPES)
            out(f'R.astype({n}, "{dtype}")', dtype=dtype)
        case 9 if len(shape) == 3:
            columns = rng.choice((2, 3))
            w = p.param((shape[2], columns), d, ranked=True).name
            out(f"R.matmul({n}, {w})", (*shape[:2], columns))
        case 10 | 11:
            keep = rng.random() < 0.3
            out(f"R.sum({n}, axis=1, keepdims={keep})", reduced(shape, 1, keep))
        case 12:
            out(f"R.ragged.row_lengths({n})", (len(lengths),), "int64")
        case 13:
            s = p.param(None, d).name
            out(f"R.multiply({n}, {s})")
        case 14 if max(lengths) > 0:
            out(f"R.ragged.to_padded({n})", (len(lengths), max(lengths), *shape[2:]))


def random_program(rng: Random) -> tuple[str, list[Known]]:
    """Returns a program, and its parameters as they are in the known run."""
    program = Program(rng)
    if rng.random() < 0.45:
        lengths = tuple(rng.randint(0, 3) for _ in range(rng.choice((2, 3))))
        inner = rng.choice(((), (), (2,), (4,)))
        program.param((len(lengths), RAGGED, *inner), rng.choice(DTYPES), lengths)
    else:
        shape = tuple(rng.choice((1, 2, 3, 4)) for _ in range(rng.randint(0, 3)))
        program.param(shape, rng.choice(DTYPES))
    for _ in range(rng.randint(1, 6)):
        x = rng.choice(program.values)
        if rng.random() < 0.1:
            program.cast()
        elif x.is_dense and x.dtype != "bool":
            dense_op(program, x)
        elif x.shape is not None and not x.is_dense:
            ragged_op(program, x)
    return program.text(), program.params


def argument(value: Known, rng: Random) -> Any:
    """Returns an argument of the shape and dtype of a parameter."""
    if value.shape is None:
        return np.dtype(value.dtype).type(rng.randint(0, 3))
    if not value.is_dense:
        flat = array((sum(value.lengths), *value.shape[2:]), value.dtype)
        return RaggedArray(flat, np.cumsum([0, *value.lengths]))
    return array(value.shape, value.dtype)


def array(shape: Shape, dtype: str) -> np.ndarray:
    return (np.arange(int(np.prod(shape))) % 5).reshape(shape).astype(dtype)


def other_run(params: list[Known], rng: Random) -> list[Known]:
    """Returns parameters with other sizes, dtypes or ranks, mostly the same change for all."""
    match rng.randrange(5):
        case 0:
            old, new = rng.choice((1, 2, 3, 4)), rng.choice((2, 3, 5))
            return [_resized(p, {old: new}) for p in params]
        case 1:
            order = rng.sample((2, 3, 4), 3)
            return [_resized(p, dict(zip((2, 3, 4), order, strict=True))) for p in params]
        case 2:
            old_dtype, dtype = rng.choice(params).dtype, rng.choice(DTYPES)
            same = [attrs.evolve(p, dtype=dtype) if p.dtype == old_dtype else p for p in params]
            return same
        case 3:
            return [
                attrs.evolve(p, shape=(2, *p.shape)) if p.shape is not None and p.is_dense else p
                for p in params
            ]
    k = rng.randrange(len(params))
    changed = rng.choice(
        (attrs.evolve(params[k], dtype=rng.choice(DTYPES)), _resized(params[k], {2: 3}))
    )
    return [changed if k == index else p for index, p in enumerate(params)]


def _resized(value: Known, sizes: dict[int, int]) -> Known:
    if value.shape is None:
        return value
    if value.is_dense:
        return attrs.evolve(value, shape=tuple(sizes.get(size, size) for size in value.shape))
    count = sizes.get(len(value.lengths), len(value.lengths))
    lengths = tuple(value.lengths[k % len(value.lengths)] for k in range(count))
    inner = tuple(sizes.get(size, size) for size in value.shape[2:])
    return attrs.evolve(value, shape=(count, RAGGED, *inner), lengths=lengths)
