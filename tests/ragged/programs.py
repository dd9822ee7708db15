"""Random programs on ragged tensors, with the results of NumPy row by row."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from structir import RaggedArray, compile, interpret, parse
from structir.passes import Gradient

UNARY: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh,
    "negative": np.negative,
    "abs": np.abs,
    "nn.relu": lambda x: np.maximum(x, 0),
}
BINARY = {
    "add": np.add,
    "multiply": np.multiply,
    "subtract": np.subtract,
    "maximum": np.maximum,
}
EMPTY = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}


def softmax(row: Any, axis: int) -> Any:
    """Computes the softmax of one row, which may be empty."""
    if not len(row):
        return row
    powers = np.exp(row - row.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


class Program:
    """One program: its source, its arguments, and the rows or the array of each result."""

    def __init__(self, seed: int) -> None:
        self.rng, self.numbers = Random(seed), np.random.default_rng(seed)
        rng = self.rng
        self.leading = [rng.choice([0, 1, 2, 3, 4]) for _ in range(rng.choice([1, 1, 1, 2]))]
        pool = rng.choice([[0], [0, 1, 2, 3], [1, 5], [2], [0, 0, 7], [17, 0, 33], [16, 140, 2100]])
        self.lengths = [rng.choice(pool) for _ in range(int(np.prod(self.leading)))]
        inner = rng.choice([(), (3,), (2, 3), (1,)])
        names = [f'"n{k}"' if rng.random() < 0.7 else str(n) for k, n in enumerate(self.leading)]
        named = rng.random() < 0.5
        sizes = [f'"k{k}"' if named else str(n) for k, n in enumerate(inner)]
        shape = ", ".join([*names, '"*"', *sizes])
        self.params = [f'{x}: R.Tensor(({shape}), "float64")' for x in "xz"]
        self.values: list[tuple[str, list[Any], tuple[int, ...]]] = []
        self.dense: list[tuple[str, Any]] = []
        self.lines: list[str] = []
        self.args: list[Any] = []
        for name in "xz":
            rows = [self.numbers.standard_normal((n, *inner)) for n in self.lengths]
            self.values.append((name, rows, inner))
            self.args.append(self.ragged(rows, inner))
        for _ in range(rng.randint(2, 7)):
            rng.choice(STEPS)(self, *rng.choice(self.values))

    def ragged(self, rows: list[Any], inner: tuple[int, ...]) -> Any:
        """Returns rows as a ragged array, or as a list of arrays."""
        if len(self.leading) == 1 and any(self.lengths) and self.rng.random() < 0.5:
            return rows
        values = np.concatenate([np.zeros((0, *inner)), *rows])
        return RaggedArray(values, np.cumsum([0, *self.lengths]), self.leading)

    @property
    def axis(self) -> int:
        """The ragged axis."""
        return len(self.leading)

    @property
    def source(self) -> str:
        """The program."""
        lines = [*self.lines, f"return ({', '.join([name for name, *_ in self.results])},)"]
        body = "\n    ".join(lines)
        return f"@R.function\ndef main({', '.join(self.params)}):\n    {body}\n"

    @property
    def loss_source(self) -> str:
        """A program that returns the sum of the squares of the results that are floats."""
        lines, terms = list(self.lines), []
        for name, expected, *_ in self.results:
            if getattr(expected, "dtype", np.dtype("float64")).kind == "f":
                lines += [f"s_{name} = R.multiply({name}, {name})", f"t_{name} = R.sum(s_{name})"]
                terms.append(f"t_{name}")
        loss = terms[0] if terms else 'R.const(0.0, "float64")'
        for term in terms[1:]:
            loss = f"R.add({loss}, {term})"
        body = "\n    ".join([*lines, f"loss = {loss}", "return loss"])
        return f"@R.function\ndef main({', '.join(self.params)}):\n    {body}\n"

    def moved(self, step: float, direction: list[Any]) -> list[Any]:
        """Returns the arguments, moved some way along a direction."""
        arguments = []
        for argument, change in zip(self.args, direction, strict=True):
            if isinstance(argument, list):
                argument = RaggedArray.from_rows(argument)
            if isinstance(argument, RaggedArray):
                arguments.append(argument.with_values(argument.values + step * change))
            else:
                arguments.append(argument + step * change)
        return arguments

    def direction(self) -> list[Any]:
        """Returns a random direction in the space of the arguments."""
        unmoved = self.moved(0, [0] * len(self.args))
        arrays = [getattr(argument, "values", argument) for argument in unmoved]
        return [self.numbers.standard_normal(array.shape) for array in arrays]

    @property
    def results(self) -> list[Any]:
        """The results, with their names."""
        return [*self.values[2:], *self.dense][-4:] or self.values[:1]

    def bind(self, text: str, rows: list[Any], inner: tuple[int, ...]) -> None:
        """Binds a ragged value."""
        self.values.append((self.line(text), rows, inner))

    def line(self, text: str) -> str:
        """Adds a line; returns the name of its value."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def param(self, shape: tuple[int, ...]) -> tuple[str, Any]:
        """Adds a dense parameter."""
        name, array = f"p{len(self.args)}", self.numbers.standard_normal(shape)
        sizes = "".join([f"{n}, " for n in shape])
        self.params.append(f'{name}: R.Tensor(({sizes}), "float64")')
        self.args.append(array)
        return name, array

    def other(self, rows: list[Any], inner: tuple[int, ...], equal: bool) -> Any:
        """Returns a ragged value of the same inner axes, also of the same lengths."""
        lengths = [len(row) for row in rows]
        return self.rng.choice(
            [
                value
                for value in self.values
                if value[2] == inner and (not equal or [len(r) for r in value[1]] == lengths)
            ]
        )

    def check(self, actual: Any) -> None:
        """Compares results with those of NumPy."""
        for value, (name, expected, *inner) in zip(actual, self.results, strict=True):
            if inner:
                flat = np.concatenate([np.zeros((0, *inner[0])), *expected])
                assert isinstance(value, RaggedArray)
                assert np.diff(value.offsets).tolist() == [len(row) for row in expected]
                value, expected = value.values, flat
            assert value.shape == expected.shape, name
            np.testing.assert_allclose(value, expected, 1e-9, 1e-9, err_msg=name)


def check_gradient(seed: int, compiled: bool = False) -> bool:
    """Compares a gradient along a direction with differences; returns whether there is one."""
    program = Program(seed)
    module = parse(program.loss_source)
    direction = program.direction()
    with np.errstate(all="ignore"):
        sides = [interpret(module, "main", *program.moved(s, direction)) for s in (1e-6, -1e-6)]
        difference = (sides[0] - sides[1]) / 2e-6
        if not np.isfinite(difference) or abs(sides[0]) > 1e4:
            return False
        adjoint = Gradient()(module)
        function = compile(adjoint)["main_adjoint"] if compiled else None
        arguments = program.moved(0, direction)
        _, gradients = (
            function(*arguments) if function else interpret(adjoint, "main_adjoint", *arguments)
        )
    parts = [getattr(gradient, "values", gradient) for gradient in gradients]
    derivative = sum([(g * d).sum() for g, d in zip(parts, direction, strict=True)])
    np.testing.assert_allclose(derivative, difference, 1e-5, 1e-5)
    return True


def _unary(p: Program, name: str, rows: Any, inner: Any) -> None:
    op = p.rng.choice(list(UNARY))
    p.bind(f"R.{op}({name})", [UNARY[op](row) for row in rows], inner)


def _binary(p: Program, name: str, rows: Any, inner: Any) -> None:
    op, (other, others, _) = p.rng.choice(list(BINARY)), p.other(rows, inner, True)
    pairs = zip(rows, others, strict=True)
    p.bind(f"R.{op}({name}, {other})", [BINARY[op](a, b) for a, b in pairs], inner)


def _bias(p: Program, name: str, rows: Any, inner: Any) -> None:
    if not inner:
        return
    other, array = p.param(inner[-1:])
    p.bind(f"R.add({other}, {name})", [row + array for row in rows], inner)


def _slice_per_row(p: Program, name: str, rows: Any, inner: Any) -> None:
    other, array = p.param((*p.leading, 1, *inner))
    flat = array.reshape(len(rows), 1, *inner)
    p.bind(f"R.add({name}, {other})", [r + flat[k] for k, r in enumerate(rows)], inner)


def _matmul(p: Program, name: str, rows: Any, inner: Any) -> None:
    if len(inner) == 1:
        other, array = p.param((inner[0], p.rng.choice([1, 2, 4])))
        p.bind(f"R.matmul({name}, {other})", [row @ array for row in rows], array.shape[1:])


def _softmax(p: Program, name: str, rows: Any, inner: Any) -> None:
    axis = p.rng.choice([p.axis, -1 - len(inner)])
    p.bind(f"R.nn.softmax({name}, axis={axis})", [softmax(row, 0) for row in rows], inner)


def _softmax_inside(p: Program, name: str, rows: Any, inner: Any) -> None:
    if inner:
        p.bind(f"R.nn.softmax({name}, axis=-1)", [softmax(row, -1) for row in rows], inner)


def _reduced(p: Program, name: str, rows: Any, inner: Any) -> None:
    op = p.rng.choice(list(EMPTY) if 0 in map(len, rows) else [*EMPTY, "mean"])
    options = {} if op == "mean" else {"initial": EMPTY[op]}
    keep = p.rng.random() < 0.3
    expected = np.array([getattr(np, op)(row, axis=0, **options) for row in rows])
    expected = expected.reshape(*p.leading, *[1] * keep, *inner)
    p.dense.append((p.line(f"R.{op}({name}, axis={p.axis}, keepdims={keep})"), expected))


def _reduced_inside(p: Program, name: str, rows: Any, inner: Any) -> None:
    if inner:
        op = p.rng.choice(["sum", "mean", "max"])
        reduced = [getattr(np, op)(row, axis=-1) for row in rows]
        p.bind(f"R.{op}({name}, axis=-1)", reduced, inner[:-1])


def _reduced_all(p: Program, name: str, rows: Any, inner: Any) -> None:
    flat = np.concatenate([np.zeros(0), *[row.reshape(-1) for row in rows]])
    p.dense.append((p.line(f"R.max({name})"), np.array(flat.max(initial=-np.inf))))


def _argmax(p: Program, name: str, rows: Any, inner: Any) -> None:
    if all(map(len, rows)):
        expected = np.array([row.argmax(0) for row in rows], "int64")
        line = p.line(f"R.argmax({name}, axis={p.axis})")
        p.dense.append((line, expected.reshape(*p.leading, *inner)))


def _concat(p: Program, name: str, rows: Any, inner: Any) -> None:
    other, others, _ = p.other(rows, inner, False)
    pairs = zip(rows, others, strict=True)
    line = f"R.concat(({name}, {other}), axis={p.axis})"
    p.bind(line, [np.concatenate(pair) for pair in pairs], inner)


def _appended(p: Program, name: str, rows: Any, inner: Any) -> None:
    if len(p.leading) == 1:
        other, others, _ = p.other(rows, inner, False)
        expected = np.array([row.sum(0) for row in [*rows, *others]]).reshape(2 * len(rows), *inner)
        p.dense.append((p.line(f"R.sum(R.concat(({name}, {other}), axis=0), axis=1)"), expected))


def _row_by_row(p: Program, name: str, rows: Any, inner: Any) -> None:
    """An op without a flat form along the ragged axis, called or mapped over the rows."""
    if len(p.leading) == 1:
        op, result = p.rng.choice(
            [("cumsum", lambda row: row.cumsum(0)), ("flip", lambda row: row[::-1])]
        )
        mapped = p.rng.random() < 0.5
        call = f"R.map(lambda row: R.{op}(row, axis=0), {name})" if mapped else ""
        p.bind(call or f"R.{op}({name}, axis=1)", list(map(result, rows)), inner)


STEPS: list[Callable[..., None]] = [
    _unary,
    _binary,
    _bias,
    _slice_per_row,
    _matmul,
    _softmax,
    _softmax_inside,
    _reduced,
    _reduced_inside,
    _reduced_all,
    _argmax,
    _concat,
    _appended,
    _row_by_row,
]
