"""Serializes compiled functions to JSON, and loads them without lowering.

Symbols, sizes, buffers and sources are in tables; everything else refers to them by index. The
caller encodes arrays: a constant of the program, its packed weights, or a separate array.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import attrs

from structir.errors import StructIRError
from structir.ir.dims import Dim, Poly, Sym
from structir.ir.expr import Var
from structir.ir.polynomial import Atom, of_terms, opaque_atom
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.loops.program.buffer import Buffer
from structir.loops.program.cost import KernelWork
from structir.loops.program.kernel_text import KernelText
from structir.loops.regions.region import SizeCheck
from structir.runtime.compiled_region import CompiledRegion
from structir.runtime.files.serialise_checks import (
    WITHOUT_DATA,
    NotStoredError,
    check_buffer,
    check_function,
    check_region,
    count,
    dtype,
    flag,
    function_of_sizes,
    has_phase_words,
    integer,
    interval,
    item,
    require,
    string,
    strings,
)
from structir.runtime.kernel_sequence import Boundary, KernelSequence

FORMAT = 5
MAX_RESULTS = 1 << 16
Json = Any
MAX_AXES = 64
FORMS = (False, True)  # the general form, and the form under the usual equations


@attrs.frozen(eq=False)
class StoredFunction:
    """A function that is one region, as callers see it."""

    name: str
    params: tuple[Var, ...]
    result: StructInfo
    shape: Any  # the tuple structure of the results, by number
    region: CompiledRegion
    donated: tuple[tuple[int, int], ...] = ()  # parameters that calls donate, and their results


def serialise(functions: Iterable[StoredFunction], writer: TableWriter) -> Json:
    """Serializes functions; those without a JSON form are omitted."""
    serialized = []
    for function in functions:
        with suppress(NotStoredError):
            serialized.append(writer.function(function))
    tables = {
        "symbols": [symbol.name for symbol in writer.symbols],
        "atoms": [item for _, item in writer.atoms.values()],
        "dims": [item for _, item in writer.dims.values()],
        "buffers": [item for _, item in writer.buffers.values()],
        "texts": list(writer.texts),
    }
    return {"format": FORMAT, "functions": serialized, **tables}


class TableWriter:
    """A writer of tables, whose items are in the order of their first use. `array` encodes an
    array."""

    def __init__(self, array: Callable[[Any], Json]) -> None:
        self.array = array
        self.symbols: dict[Sym, int] = {}
        self.atoms: dict[Any, Json] = {}
        self.dims: dict[Dim, Json] = {}
        self.buffers: dict[Buffer, Json] = {}
        self.texts: dict[str, int] = {}

    def function(self, function: StoredFunction) -> Json:
        return {
            "name": function.name,
            "params": [[p.name, self.info(p.struct_info)] for p in function.params],
            "result": self.info(function.result),
            "shape": function.shape,
            "donated": function.donated,
            **self.region(function.region),
        }

    def info(self, info: StructInfo | None) -> Json:
        match info:
            case TupleStructInfo(fields, names):
                infos = [self.info(f) for f in fields]
                return infos if names is None else {"fields": infos, "names": names}
            case TensorStructInfo(tuple(shape), str(dtype), _, None):
                return {"dims": [self.dim(d) for d in shape], "dtype": dtype}
            case TensorStructInfo(None, dtype, ndim, None):
                return {"dtype": dtype, "ndim": ndim}
        raise NotStoredError(str(info))

    def region(self, region: CompiledRegion) -> Json:
        boundary = region.boundary
        forms = FORMS if boundary.equal else FORMS[:1]
        return {
            "inputs": [self.buffer(b) for b in boundary.inputs],
            "results": [self.buffer(b) for b in boundary.results],
            "checks": [self.check(c) for c in boundary.checks],
            "free": [self.symbol(s) for s in boundary.free_symbols],
            "doubtful": [self.dim(d) for d in boundary.doubtful],
            "equal": [[self.symbol(s), self.dim(d)] for s, d in boundary.equal.items()],
            "recipes": [self.recipe(region.recipe(form)) for form in forms],
        }

    def check(self, check: SizeCheck) -> Json:
        return [self.dim(check.left), self.dim(check.right), check.loose, check.description]

    def recipe(self, recipe: KernelSequence) -> Json:
        return {
            "inputs": [self.buffer(b) for b in recipe.inputs],
            "outputs": [self.buffer(b) for b in recipe.outputs],
            "results": [self.buffer(b) for b in recipe.results],
            "kernels": [self.kernel(k) for k in recipe.kernels],
            "operations": [self.dim(d) for d in recipe.operations],
            "overwritten": [self.buffer(b) for b in recipe.overwritten],
        }

    def kernel(self, kernel: KernelText) -> Json:
        if kernel.function is not None or kernel.sites:
            raise NotStoredError("a kernel that its source does not define completely")
        return {
            "text": self.texts.setdefault(kernel.text, len(self.texts)),
            "pointers": [self.buffer(b) for b in kernel.pointers],
            "sizes": [self.dim(d) for d in kernel.sizes],
            "range": self.dim(kernel.range),
            "scratch": [self.buffer(b) for b in kernel.scratch],
            "origins": kernel.origins,
            "names": list(kernel.names if kernel.code is None else kernel.parameters),
            "singles": kernel.singles,
            "has_phases": kernel.has_phases,
            "work": None if kernel.estimate is None else self.work(kernel.estimate()),
        }

    def work(self, work: KernelWork) -> Json:
        return [self.dim(work.picoseconds), self.dim(work.rows)]

    def buffer(self, buffer: Buffer) -> int:
        if buffer not in self.buffers:
            base = None if buffer.base is None else self.buffer(buffer.base)
            data = None if buffer.data is None else self.array(buffer.data)
            shape = [self.dim(d) for d in buffer.shape]
            fields = [shape, buffer.dtype, buffer.origin, base, data, buffer.name]
            self.buffers[buffer] = len(self.buffers), fields
        return _number(self.buffers[buffer])

    def dim(self, dim: Dim) -> int:
        if dim not in self.dims:
            data: Json = dim
            if isinstance(dim, Poly):
                terms = [[c, [self.atom(a) for a in atoms]] for atoms, c in dim.terms.items()]
                data = [dim.constant, terms]
            self.dims[dim] = len(self.dims), data
        return _number(self.dims[dim])

    def atom(self, atom: Atom) -> int:
        """Returns the index of a symbol, or -1 less that of another atom."""
        if isinstance(atom, Sym):
            return self.symbol(atom)
        if atom not in self.atoms:
            args = [self.dim(a) for a in atom.args]
            self.atoms[atom] = len(self.atoms), [atom.fn, args, atom.interval]
        return -1 - _number(self.atoms[atom])

    def symbol(self, symbol: Sym) -> int:
        return self.symbols.setdefault(symbol, len(self.symbols))


def _number(numbered: tuple[int, Json]) -> int:
    return numbered[0]


def read(document: Json, make_reader: Callable[[], TableReader]) -> list[StoredFunction]:
    """Loads the functions that `serialise` has serialized; raises NotStoredError for other data."""
    try:
        if document["format"] != FORMAT:
            raise NotStoredError("another format")
        reader = make_reader()
        return [reader.function(f) for f in document["functions"]]
    except MALFORMED as error:
        raise NotStoredError(str(error)) from error


def decode(
    data: bytes, make_reader: Callable[..., TableReader], array: Callable[[Json], Any]
) -> list[StoredFunction]:
    """Loads the functions in the JSON of a file; raises NotStoredError for other data."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NotStoredError(str(error)) from error
    return read(document, lambda: make_reader(document, array))


MALFORMED: tuple[type[Exception], ...] = (KeyError, IndexError, TypeError, ValueError)
MALFORMED += (AttributeError, RecursionError, StructIRError)


class TableReader:
    """A reader of tables, whose items are created at first use.

    Everything is checked; kernels are marked as loaded from a file.
    """

    def __init__(self, document: Json, array: Callable[[Json], Any]) -> None:
        self.document, self.array = document, array
        self.symbols = [Sym(name) for name in strings(document["symbols"])]
        self.dims: dict[int, Dim] = {}
        self.buffers: dict[int, Buffer] = {}

    def function(self, data: Json) -> StoredFunction:
        params = tuple([Var(string(name), self.info(info)) for name, info in data["params"]])
        name, shape, result = string(data["name"]), _tuples(data["shape"]), data["result"]
        region = self.region(data)
        pairs = data["donated"]
        donated = tuple([(count(k, len(params) - 1), count(r, MAX_RESULTS)) for k, r in pairs])
        check_function(params, region.boundary, shape)
        return StoredFunction(name, params, self.info(result), shape, region, donated)

    def info(self, data: Json) -> StructInfo:
        if isinstance(data, list):
            return TupleStructInfo(tuple([self.info(f) for f in data]))
        if "fields" in data:
            fields = tuple([self.info(f) for f in data["fields"]])
            return TupleStructInfo(fields, strings(data["names"]))
        if "dims" in data:
            return TensorStructInfo(self.some_dims(data["dims"]), dtype(data["dtype"]))
        name, ndim = data["dtype"], data["ndim"]
        return TensorStructInfo(
            dtype=None if name is None else dtype(name),
            ndim=None if ndim is None else count(ndim, MAX_AXES),
        )

    def region(self, data: Json) -> CompiledRegion:
        recipes = [self.recipe(recipe) for recipe in data["recipes"]]
        boundary = Boundary(
            self.some_buffers(data["inputs"]),
            self.some_buffers(data["results"]),
            tuple([self.check(c) for c in data["checks"]]),
            tuple([item(s, self.symbols) for s in data["free"]]),
            self.some_dims(data["doubtful"]),
            {item(s, self.symbols): self.dim(d) for s, d in data["equal"]},
        )
        check_region(boundary, recipes)
        return self.compiled(boundary, recipes.__getitem__)

    def compiled(
        self, boundary: Boundary, write: Callable[[bool], KernelSequence]
    ) -> CompiledRegion:
        """Returns the region, ready to be called."""
        return CompiledRegion(boundary, write)

    def check(self, data: Json) -> SizeCheck:
        left, right, loose, description = data
        return SizeCheck(self.dim(left), self.dim(right), flag(loose), string(description))

    def recipe(self, data: Json) -> KernelSequence:
        return KernelSequence(
            self.some_buffers(data["inputs"]),
            self.some_buffers(data["outputs"]),
            self.some_buffers(data["results"]),
            tuple([self.kernel(k) for k in data["kernels"]]),
            self.some_dims(data["operations"]),
            self.some_buffers(data["overwritten"]),
        )

    def kernel(self, data: Json) -> KernelText:
        sizes = self.some_dims(data["sizes"])
        return KernelText(
            string(item(data["text"], self.document["texts"])),
            self.some_buffers(data["pointers"]),
            sizes,
            self.dim(data["range"]),
            self.some_buffers(data["scratch"]),
            strings(data["origins"]),
            names=strings(data["names"]),
            singles=count(data["singles"], len(sizes)),
            has_phases=has_phase_words(flag(data["has_phases"]), sizes),
            from_file=True,
            estimate=None if data["work"] is None else self.work(data["work"]),
        )

    def work(self, data: Json) -> Callable[[], KernelWork]:
        picoseconds, rows = data
        work = KernelWork(self.dim(picoseconds), self.dim(rows))
        return lambda: work

    def some_buffers(self, numbers: list[int]) -> tuple[Buffer, ...]:
        return tuple([self.buffer(n) for n in numbers])

    def some_dims(self, numbers: list[int]) -> tuple[Dim, ...]:
        return tuple([self.dim(n) for n in numbers])

    def buffer(self, number: int) -> Buffer:
        buffer = self.buffers.get(number)
        if buffer is None:
            shape, name, origin, base, data, known_as = item(number, self.document["buffers"])
            buffer = self.buffers[number] = Buffer(
                self.some_dims(shape),
                dtype(name),
                origin,
                None if base is None else self.buffer(base),
                None if data is None else self.array(data),
                string(known_as),
            )
            if base is not None or data is not None or origin not in WITHOUT_DATA:
                check_buffer(buffer)
        return buffer

    def dim(self, number: int) -> Dim:
        dim = self.dims.get(number)
        if dim is None:
            dim = self.dims[number] = self._dim(item(number, self.document["dims"]))
        return dim

    def _dim(self, data: Json) -> Dim:
        if type(data) is int:
            return integer(data)
        constant, terms = data
        by_age = {
            tuple(sorted([self.atom(a) for a in atoms], key=lambda a: a.order)): integer(factor)
            for factor, atoms in terms
        }
        require(() not in by_age and 0 not in by_age.values(), "expected a polynomial")
        return of_terms(by_age, integer(constant))

    def atom(self, number: int) -> Atom:
        if integer(number) >= 0:
            return self.symbols[number]
        fn, args, bounds = self.document["atoms"][-1 - number]
        dims = self.some_dims(args)
        return opaque_atom(function_of_sizes(fn, len(dims)), dims, interval(bounds))


def _tuples(data: Json) -> Any:
    """Converts nested lists of numbers to tuples."""
    return (
        tuple([_tuples(item) for item in data]) if type(data) is list else count(data, MAX_RESULTS)
    )
