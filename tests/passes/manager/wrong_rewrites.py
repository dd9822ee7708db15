"""Measures how many wrong rewrites `structir opt --verify` catches with its defaults.

A wrong rewrite is a program of `wrong_programs.py` with one mutated call: `mutants()` combines all
kinds of mutations with all calls. A mutant is applied as a pass that returns the mutated program,
and `VerifyResults()` with its defaults should raise an error. A mutation can be correct by chance,
such as a wrong sign of a value that is never negative. So a mutant that is not caught counts as
missed only if `witness` finds an input whose results differ. `witness` has generators of sizes and
values of its own. An infinity for a NaN, or the reverse, is not a difference: correct rewrites that
reorder sums exchange them.

`all_mutants` returns wrong rewrites as pairs of modules, for other checkers of rewrites.

Run `python -m tests.passes.manager.wrong_rewrites` for all mutants, or with a number of mutants to
select. It prints the share that is caught per kind and per number of dims, and every miss.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import attrs
import numpy as np

import structir
from structir.errors import PassError, StructIRError
from structir.interpret.arguments import random_values
from structir.ir import IRModule
from structir.ir.binding_dims import standing_alone
from structir.ir.dims import Sym
from structir.ir.dtype import is_float, is_int, numpy_dtype
from structir.passes import PassContext, VerifyResults, all_passes
from structir.passes.base import Pass
from tests.passes.manager.held_out_programs import HELD_OUT
from tests.passes.manager.wrong_programs import PROGRAMS

WITNESSES = 120  # random inputs of a mutant that is not caught
DISTANCE = 1e-3  # relative difference of the results of a wrong program


@attrs.frozen
class Mutant:
    """A wrong program: the mutated program, the mutation, and the variable of the mutated call."""

    program: str
    kind: str
    detail: str
    source: str

    def __str__(self) -> str:
        return f"{self.program}: {self.kind}: {self.detail}"


@attrs.frozen
class Mutation:
    """A mutated program that may be ill-formed: to parse it takes milliseconds."""

    program: str
    kind: str
    detail: str
    statements: list[str]

    def mutant(self) -> Mutant | None:
        """Returns the mutant; None if the mutation does not fit the call."""
        try:
            source = parse(SOURCES[self.program][0], self.statements).script()
        except StructIRError:
            return None
        return Mutant(self.program, self.kind, self.detail, source)


@attrs.frozen
class Site:
    """A statement of a program with what mutations need: the call, and its StructInfos."""

    name: str
    call: ast.Call
    infos: dict[str, Any]  # StructInfo by variable
    calls: dict[str, ast.Call]  # calls by variable

    @property
    def op(self) -> str:
        """The name of the op."""
        return ast.unparse(self.call.func).removeprefix("R.")

    @property
    def dtype(self) -> str:
        return str(self.infos[self.name].dtype)

    @property
    def dims(self) -> tuple[Any, ...]:
        return tuple(self.infos[self.name].dims)

    def arg(self, index: int) -> str:
        return ast.unparse(self.call.args[index])

    def text(self) -> str:
        return ast.unparse(self.call)

    def const(self, value: float) -> str:
        number = int(value) if is_int(self.dtype) else float(value)
        return f'R.const({number}, "{self.dtype}")'


Change = Iterator[tuple[str, str]]  # a detail, and the wrong expression
Kinds = dict[str, Callable[[Site], Change]]
Programs = dict[str, tuple[str, str]]
KINDS: Kinds = {}
_CHANGES: dict[tuple[str, int], list[Mutation]] = {}  # by program and the id of the kinds
SOURCES: Programs = {**PROGRAMS, **HELD_OUT}


def kind(mutation: Callable[[Site], Change]) -> Callable[[Site], Change]:
    """Registers a kind of mutation, which yields wrong expressions for a call."""
    KINDS[mutation.__name__] = mutation
    return mutation


@kind
def wrong_axis(site: Site) -> Change:
    rank = len(site.dims)
    for keyword in site.call.keywords:
        if keyword.arg not in ("axis", "axes") or rank < 2:
            continue
        axes = ast.literal_eval(keyword.value)
        for step in (1, -1):
            moved = [(a + step) % rank for a in axes] if isinstance(axes, list) else None
            new = moved if moved is not None else (axes + step) % rank
            yield f"{site.op} along {new}", _with_keyword(site, keyword.arg, new)
    if site.op == "permute_dims":
        axes = ast.literal_eval(site.call.args[1])
        target = ", ".join(map(str, site.dims))
        yield "reshape for permute_dims", f"R.reshape({site.arg(0)}, ({target},))"
        if axes[0] == 0 and len(axes) > 3:
            yield "first axes swapped", f"R.permute_dims({site.text()}, [1, 0, 2, 3])"


def _with_keyword(site: Site, name: str, value: Any) -> str:
    keywords = [
        ast.keyword(k.arg, ast.parse(repr(value)).body[0].value if k.arg == name else k.value)  # type: ignore[attr-defined]
        for k in site.call.keywords
    ]
    return ast.unparse(ast.Call(site.call.func, site.call.args, keywords))


@kind
def dropped_condition(site: Site) -> Change:
    """Rewrites that hold only under a side condition."""
    for name in ("flip", "cumsum", "roll", "sort", "clip", "sign"):
        if site.op == name:
            yield f"{name} removed", site.arg(0)
    if site.op == "where":
        yield "where of a true condition", f"R.add({site.arg(1)}, R.zeros_like({site.name}_))"
    if site.op in ("maximum", "minimum"):
        yield f"{site.op} of a larger operand", site.arg(1)
    if site.op == "mean":
        yield "sum for mean", site.text().replace("R.mean", "R.sum")
    if site.op == "max":
        yield "sum for max", site.text().replace("R.max", "R.sum")
    if site.op == "floor_mod":
        yield "a remainder of a smaller number", site.arg(0)


@kind
def off_by_one(site: Site) -> Change:
    if site.op == "strided_slice":
        bounds = {k.arg: ast.literal_eval(k.value) for k in site.call.keywords}
        for step in (1, -1):
            if bounds["begin"][0] + step >= 0:
                begin, end = bounds["begin"][0] + step, bounds["end"][0] + step
                yield (
                    f"slice from {begin}",
                    f"R.strided_slice({site.arg(0)}, axes={bounds['axes']}, "
                    f"begin=[{begin}], end=[{end}])",
                )
    if site.op == "take":
        indices = site.infos[site.arg(1)].dtype
        one, zero = f'R.const(1, "{indices}")', f'R.const(0, "{indices}")'
        other = f"R.maximum(R.subtract({site.arg(1)}, {one}), {zero})"
        yield "previous index", site.text().replace(f", {site.arg(1)},", f", {other},")
    if site.op == "nn.pad":
        pads = list(ast.literal_eval(site.call.args[1]))
        first = next(k for k, pad in enumerate(pads) if pad)
        pads[first], pads[first + 1] = pads[first] + 1, pads[first + 1] - 1
        yield "padding moved by one", f"R.nn.pad({site.arg(0)}, {tuple(pads)})"
    if site.op == "roll":
        yield "shift of two", _with_keyword(site, "shift", [2])
    if site.op in ("cumsum", "exp", "add", "nn.silu", "multiply") and site.dims:
        axis = len(site.dims) - 1
        yield "rolled by one", f"R.roll({site.text()}, shift=[1], axis=[{axis}])"


@kind
def factor(site: Site) -> Change:
    if is_float(site.dtype):
        yield "1.01", f"R.multiply({site.text()}, {site.const(1.01)})"
    elif is_int(site.dtype):
        yield "plus 1", f"R.add({site.text()}, {site.const(1)})"


@kind
def swapped_operands(site: Site) -> Change:
    args = [ast.unparse(arg) for arg in site.call.args]
    if site.op in ("subtract", "divide", "power", "matmul", "floor_divide", "floor_mod"):
        yield site.op, f"R.{site.op}({args[1]}, {args[0]})"
    if site.op == "where":
        yield "branches", f"R.where({args[0]}, {args[2]}, {args[1]})"
        if args[0].startswith("R.greater"):
            yield "condition", site.text().replace("R.greater", "R.less")
    if site.op == "concat":
        first, second = [ast.unparse(each) for each in site.call.args[0].elts]  # type: ignore[attr-defined]
        yield "concat", f"R.concat(({second}, {first}), axis=0)"


@kind
def dropped_cast(site: Site) -> Change:
    if site.op != "astype":
        return
    inner = site.calls.get(site.arg(0))
    if inner is not None:
        operands = [ast.unparse(arg) for arg in inner.args if ast.unparse(arg) in site.infos]
        if operands:
            narrow = f'R.astype({operands[0]}, "{site.dtype}")'
            if ast.unparse(inner.func) == "R.astype":
                yield "inner cast", narrow
            wide = [f'R.astype({each}, "{site.dtype}")' for each in operands]
            if len(inner.args) == len(wide) == 2:
                yield "cast before the op", f"{ast.unparse(inner.func)}({', '.join(wide)})"
    source = str(site.infos[site.arg(0)].dtype)
    if is_float(source) and is_int(site.dtype):
        rounded = f"R.round({site.arg(0)})"
        yield "rounding for truncation", f'R.astype(R.floor({rounded}), "{site.dtype}")'


@kind
def added_cast(site: Site) -> Change:
    for narrow in ("float16", "bfloat16") if site.dtype in ("float32", "float64") else ():
        yield narrow, f'R.astype(R.astype({site.text()}, "{narrow}"), "{site.dtype}")'
    if site.dtype in ("int32", "int64"):
        yield "int16", f'R.astype(R.astype({site.text()}, "int16"), "{site.dtype}")'
    if site.dtype == "float64":
        yield "float32", f'R.astype(R.astype({site.text()}, "float32"), "float64")'


@kind
def wrong_reshape(site: Site) -> Change:
    dims = [str(dim) for dim in site.dims]
    if site.op == "reshape" and len(dims) > 1:
        swapped = [dims[1], dims[0], *dims[2:]]
        axes = [1, 0, *range(2, len(dims))]
        inner = f"R.reshape({site.arg(0)}, ({', '.join(swapped)},))"
        yield "first sizes swapped", f"R.permute_dims({inner}, {axes})"
        last = list(range(len(dims)))
        last[-1], last[-2] = last[-2], last[-1]
        turned = [dims[k] for k in last]
        inner = f"R.reshape({site.arg(0)}, ({', '.join(turned)},))"
        yield "last sizes swapped", f"R.permute_dims({inner}, {last})"
    if site.op in ("expand_dims", "matmul") and len(dims) > 1:
        turned = [*dims[:-2], dims[-1], dims[-2]]
        axes = [*range(len(dims) - 2), len(dims) - 1, len(dims) - 2]
        inner = f"R.permute_dims({site.text()}, {axes})"
        yield "transposed", f"R.reshape({inner}, ({', '.join(dims)},))"


def _where(site: Site, condition: str, value: str) -> str:
    return f"R.where({condition}, {value}, {site.name}_)"


def _when_sizes(site: Site, detail: str, condition: Callable[[str], str]) -> Change:
    names = dict.fromkeys(name for dim in site.dims for name in _dim_names(dim))
    for name in names if is_float(site.dtype) or is_int(site.dtype) else ():
        tensor = f"R.shape_to_tensor(R.shape([{name}]))"
        yield f"{detail.format(name)}", _where(site, condition(tensor), _other(site))


def when(site: Site, detail: str, condition: str) -> Change:
    """Yields other values where a condition on one size holds; `{}` is the size."""
    yield from _when_sizes(site, detail, condition.format)


def _dim_names(dim: Any) -> list[str]:
    return sorted(
        {node.id for node in ast.walk(ast.parse(str(dim))) if isinstance(node, ast.Name)} - {"T"}
    )


def _other(site: Site) -> str:
    if is_float(site.dtype):
        return f"R.add(R.multiply({site.name}_, {site.const(1.5)}), {site.const(0.5)})"
    return f"R.add({site.name}_, {site.const(1)})"


@kind
def only_at_size_1(site: Site) -> Change:
    yield from _when_sizes(site, "{} == 1", lambda size: f'R.equal({size}, R.const([1], "int64"))')


@kind
def only_above_size_1(site: Site) -> Change:
    yield from _when_sizes(site, "{} > 1", lambda size: f'R.greater({size}, R.const([1], "int64"))')


@kind
def only_at_large_sizes(site: Site) -> Change:
    yield from _when_sizes(
        site, "{} > 16", lambda size: f'R.greater({size}, R.const([16], "int64"))'
    )


@kind
def only_at_even_sizes(site: Site) -> Change:
    def even(size: str) -> str:
        return f'R.equal(R.floor_mod({size}, R.const([2], "int64")), R.const([0], "int64"))'

    yield from _when_sizes(site, "{} is even", even)


@kind
def only_at_the_last_element(site: Site) -> Change:
    for axis, dim in enumerate(site.dims if is_float(site.dtype) else ()):
        shape = ", ".join(str(dim) if k == axis else "1" for k in range(len(site.dims)))
        ramp = f'R.reshape(R.arange(0, {dim}, 1, "int64"), ({shape},))'
        last = f'R.subtract(R.shape_to_tensor(R.shape([{dim}])), R.const([1], "int64"))'
        yield f"axis {axis}", _where(site, f"R.equal({ramp}, {last})", _other(site))


@kind
def only_for_negative_values(site: Site) -> Change:
    if not is_float(site.dtype) and not is_int(site.dtype):
        return
    for name in ("abs", "nn.relu", "nn.leakyrelu"):
        if site.op == name:
            yield f"{name} removed", site.arg(0)
    if site.op == "floor":
        yield "trunc for floor", f"R.trunc({site.arg(0)})"
    if site.op in ("floor_mod", "floor_divide"):
        exact = f"R.floor_mod(R.abs({site.arg(0)}), {site.arg(1)})"
        yield f"{site.op} of abs", exact.replace("floor_mod", site.op)
    negative = f"R.less({site.name}_, {site.const(0)})"
    yield "value", _where(site, negative, _other(site))


@kind
def only_for_special_values(site: Site) -> Change:
    value = f"{site.name}_"
    if is_float(site.dtype):
        size = f"R.abs({value})"
        small = f"R.less({size}, {site.const(1e-3)})"
        yield "flushed near 0", _where(site, small, site.const(0))
        big = f"R.greater({size}, {site.const(100)})"
        yield "above 100", _where(site, big, f"R.multiply({value}, {site.const(1.01)})")
        whole = f"R.equal({value}, R.round({value}))"
        yield "integral", _where(site, whole, f"R.multiply({value}, {site.const(1.5)})")
    elif site.dtype in ("int8", "int16", "int32", "int64"):
        lowest, highest = np.iinfo(site.dtype).min, np.iinfo(site.dtype).max
        for name, bound in (("minimum", lowest), ("maximum", highest)):
            equal = f"R.equal({value}, {site.const(bound)})"
            yield f"{name} of the dtype", _where(site, equal, site.const(0))


@kind
def overflow(site: Site) -> Change:
    arg = site.arg(0) if site.call.args and not isinstance(site.call.args[0], ast.Tuple) else ""
    axis = {k.arg: ast.unparse(k.value) for k in site.call.keywords}.get("axis")
    if site.op == "nn.softmax":
        total = f"R.sum(R.exp({arg}), axis=[{axis}], keepdims=True)"
        yield "softmax without the maximum", f"R.divide(R.exp({arg}), {total})"
    if site.op == "nn.log_softmax":
        total = f"R.sum(R.exp({arg}), axis=[{axis}], keepdims=True)"
        yield "log_softmax without the maximum", f"R.subtract({arg}, R.log({total}))"
    if site.op in ("sigmoid", "nn.silu"):
        ratio = f"R.divide(R.exp({arg}), R.add(R.exp({arg}), R.const(1.0)))"
        yield site.op, ratio if site.op == "sigmoid" else f"R.multiply({arg}, {ratio})"
    if site.op == "tanh":
        parts = [f"R.exp({arg})", f"R.exp(R.negative({arg}))"]
        yield "tanh", f"R.divide(R.subtract({', '.join(parts)}), R.add({', '.join(parts)}))"
    if site.op in ("add", "subtract", "multiply") and is_int(site.dtype):
        wide = [f'R.astype({ast.unparse(each)}, "float64")' for each in site.call.args]
        yield "through float64", f'R.astype(R.{site.op}({", ".join(wide)}), "{site.dtype}")'
        low, high = np.iinfo(site.dtype).min, np.iinfo(site.dtype).max
        clipped = f"R.clip(R.{site.op}({', '.join(wide)}), {float(low)}, {float(high)})"
        yield "saturated", f'R.astype({clipped}, "{site.dtype}")'
    if site.op in ("abs", "negative", "sum") and is_int(site.dtype):
        wide_arg = f'R.astype({arg}, "float64")'
        turned = site.text().replace(arg, wide_arg, 1)
        yield (
            f"{site.op} through float32",
            f'R.astype({turned.replace("64", "32")}, "{site.dtype}")',
        )
    if site.op in ("mean", "sum") and is_float(site.dtype):
        squared = site.text().replace(
            f"({arg}", f"(R.multiply(R.multiply({arg}, R.const(1e30)), R.const(1e-30))", 1
        )
        yield f"{site.op} of scaled values", f"{squared}"


@kind
def non_finite(site: Site) -> Change:
    value = f"{site.name}_"
    if site.op in ("isnan", "isfinite"):
        yield (
            f"{site.op} is constant",
            (
                f"R.not_equal({site.arg(0)}, R.add({site.arg(0)}, R.const(1e30)))"
                if site.op == "isfinite"
                else f"R.less({site.arg(0)}, R.const(-3e38))"
            ),
        )
    if site.op in ("maximum", "minimum"):
        order = "R.greater" if site.op == "maximum" else "R.less"
        a, b = site.arg(0), site.arg(1)
        if is_float(site.dtype):
            yield f"{site.op} by where", f"R.where({order}({a}, {b}), {a}, {b})"
    if site.op in ("where",) and is_float(site.dtype):
        c, a, b = (site.arg(k) for k in range(3))
        keep = f'R.astype({c}, "float32")'
        drop = f'R.astype(R.logical_not({c}), "float32")'
        yield "where by products", f"R.add(R.multiply({a}, {keep}), R.multiply({b}, {drop}))"
    if is_float(site.dtype):
        yield "NaN replaced", _where(site, f"R.isnan({value})", site.const(0))
        yield "infinity replaced", _where(site, f"R.isinf({value})", site.const(0))


# Programs


def parse(params: str, statements: list[str]) -> IRModule:
    last = statements[-1].partition(" = ")[0]
    dims = _dims_of(params, statements)
    lines = [f"{name} = T.int64()" for name in dims] + statements + [f"return {last}"]
    body = "\n    ".join(lines)
    return structir.parse(f"@R.function\ndef main({params}):\n    {body}\n")


def _dims_of(params: str, statements: list[str]) -> list[str]:
    """Returns the names of the dims that annotations declare or casts introduce."""
    tree = ast.parse(f"def main({params}): pass").body[0]
    words = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    declared = [word for word in words if isinstance(word, str) and len(word) == 1]
    return list(dict.fromkeys([*declared, *(["n"] if "match_cast" in "".join(statements) else [])]))


def statements_of(name: str) -> list[str]:
    return [each.strip() for each in SOURCES[name][1].split("; ")]


def original(name: str) -> IRModule:
    return parse(SOURCES[name][0], statements_of(name))


def dim_count(name: str) -> int:
    function = original(name)["main"]
    dims = standing_alone([param.struct_info for param in function.params])
    return len([dim for dim in dims if type(dim) is Sym])


def mutants(names: Iterable[str] = PROGRAMS, kinds: Kinds = KINDS) -> Iterator[Mutant]:
    """Yields every well-formed mutant of the programs."""
    for mutation in mutations(names, kinds):
        mutant = mutation.mutant()
        if mutant is not None:
            yield mutant


def mutations(names: Iterable[str], kinds: Kinds) -> Iterator[Mutation]:
    """Yields every mutation of the programs."""
    for name in names:
        key = name, id(kinds)
        if key not in _CHANGES:
            _CHANGES[key] = list(_mutations_of(name, kinds))
        yield from _CHANGES[key]


def _mutations_of(name: str, kinds: Kinds) -> Iterator[Mutation]:
    statements = statements_of(name)
    function = original(name)["main"]
    known = [*function.params, *[b.var for b in function.bindings()]]
    infos = {var.name: var.struct_info for var in known}
    trees: Any = [ast.parse(each).body[0].value for each in statements]  # type: ignore[attr-defined]
    calls = {each.partition(" = ")[0]: tree for each, tree in zip(statements, trees, strict=True)}
    for index, text in enumerate(statements):
        for kind_name, detail, changed in _changes(statements, index, text, infos, calls, kinds):
            yield Mutation(name, kind_name, f"{detail} ({text.partition(' = ')[0]})", changed)


def _changes(
    statements: list[str], index: int, text: str, infos: Any, calls: Any, kinds: Kinds
) -> Iterator[tuple[str, str, list[str]]]:
    others = statements[:index], statements[index + 1 :]
    if text.startswith("R.require"):
        yield "dropped_check", text, [*others[0], *others[1]]
        return
    name = text.partition(" = ")[0]
    if "R.match_cast" in text:
        operand = text.partition("(")[2].partition(",")[0]
        weak = f'{name} = R.match_cast({operand}, R.Tensor((n, m), "float32"))'
        for each in (weak, f"{name} = R.abs({operand})"):
            head = ["m = T.int64()"] if each is weak else []
            yield "dropped_check", each, [*others[0], *head, each, *others[1]]
        return
    site = Site(name, calls[name], infos, calls)
    for kind_name, mutation in kinds.items():
        for detail, wrong in mutation(site):
            before = [f"{name}_ = {site.text()}"] if f"{name}_" in wrong else []
            yield kind_name, detail, [*others[0], *before, f"{name} = {wrong}", *others[1]]


def selected(
    count: int, seed: int = 0, names: Iterable[str] = PROGRAMS, kinds: Kinds = KINDS
) -> list[Mutant]:
    """Returns mutants in a random order that alternates between kinds and programs."""
    rng, groups = Random(seed), defaultdict(list)
    for mutation in mutations(names, kinds):
        groups[mutation.kind].append(mutation)
    for group in groups.values():
        rng.shuffle(group)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(groups.values()):
        for group in groups.values():
            mutant = None
            while group and mutant is None and len(chosen) < count:
                mutant = group.pop().mutant()
            if mutant is not None:
                chosen.append(mutant)
    return chosen


def all_mutants(seed: int = 0, count: int | None = None) -> list[tuple[str, IRModule, IRModule]]:
    """Returns the name, the original and the wrong module of mutants that are wrong for certain.

    `count` mutants are selected as by `selected`; those that are correct by chance are left out.
    The name is `program: kind: detail`.
    """
    chosen = list(mutants()) if count is None else selected(count, seed)
    return [
        (str(each), original(each.program), structir.parse(each.source))
        for each in chosen
        if is_wrong(each)
    ]


# Verdicts


def is_caught(mutant: Mutant) -> bool:
    """Returns whether `VerifyResults()` rejects a mutant."""
    wrong = structir.parse(mutant.source)
    try:
        with PassContext([VerifyResults()]):
            Pass("mutant", lambda module: wrong)(original(mutant.program))
    except PassError:
        return True
    return False


def is_wrong(mutant: Mutant) -> bool:
    """Returns whether a mutant has a witness, or is caught: by a difference below `DISTANCE`."""
    return witness(mutant, 8) is not None or is_caught(mutant) or witness(mutant) is not None


def witness(mutant: Mutant, tries: int = WITNESSES) -> list[Any] | None:
    """Returns an input for which a mutant gives another result or misses an error, if any."""
    before, after = original(mutant.program), structir.parse(mutant.source)
    params = before["main"].params
    names = [s.name for s in standing_alone([p.struct_info for p in params]) if type(s) is Sym]
    for seed in range(tries):
        rng = Random(seed)
        sizes = {name: rng.choice((1, 2, 3, 4, 8, 16, 19, 24)) for name in names}
        numbers = np.random.default_rng(seed)
        try:
            arguments = random_values(
                params, seed, sizes, draw=lambda shape, dtype, _, n=numbers: _draw(n, shape, dtype)
            )
        except StructIRError:
            continue
        if _differ(_run(before, arguments), _run(after, arguments)):
            return arguments
    return None


def _draw(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    if is_float(dtype):
        array = rng.standard_normal(shape) * rng.choice((0.001, 1, 3, 200))
        array = np.where(rng.random(shape) < 0.2, np.rint(array), array)
        if rng.random() < 0.3:
            special = rng.choice((np.nan, np.inf, -np.inf, 0.0), shape)
            array = np.where(rng.random(shape) < 0.1, special, array)
    elif dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    else:
        bounds = np.iinfo(dtype)
        array = rng.integers(0, 2, shape) if dtype == "int64" else rng.integers(-9, 9, shape)
        if dtype != "int64" and rng.random() < 0.5:
            array = rng.integers(bounds.min, bounds.max, shape, endpoint=True)
            array = np.where(rng.random(shape) < 0.3, rng.choice((bounds.min, bounds.max)), array)
    return array.astype(numpy_dtype(dtype))


def _run(module: IRModule, arguments: list[Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return structir.interpret(module, "main", *arguments)
    except (StructIRError, IndexError):
        return None


def _differ(expected: Any, actual: Any) -> bool:
    if expected is None or actual is None:
        return (expected is None) and (actual is not None)
    a, b = np.asarray(expected, np.float64), np.asarray(actual, np.float64)
    with np.errstate(all="ignore"):
        if a.shape != b.shape:
            return True
        overflow = ~np.isfinite(a) & ~np.isfinite(b)
        size = np.abs(a[np.isfinite(a)]).max(initial=0.0)
        return not np.all(np.isclose(a, b, DISTANCE, 1e-7 * size) | overflow)


def false_alarms(names: Iterable[str] = PROGRAMS) -> Iterator[str]:
    """Yields the shipped passes that `VerifyResults()` rejects, with the program and the error."""
    for name in names:
        for each in all_passes():
            if each.comparable:
                try:
                    with PassContext([VerifyResults()]):
                        each(original(name))
                except PassError as error:
                    yield f"{name}: {each.name}: {error}"


def main(count: int | None, names: Iterable[str] = PROGRAMS, kinds: Kinds = KINDS) -> None:
    """Prints the share of wrong rewrites that are caught, and those that are missed."""
    for alarm in false_alarms(names) if count is None else ():
        print(f"ALARM  {alarm}", flush=True)
    chosen = list(mutants(names, kinds)) if count is None else selected(count, 0, names, kinds)
    caught: Counter[tuple[str, Any]] = Counter()
    total: Counter[tuple[str, Any]] = Counter()
    for mutant in chosen:
        hit = is_caught(mutant)
        if not hit and witness(mutant) is None:
            print(f"equal   {mutant}", flush=True)
            continue
        if not hit:
            print(f"MISSED  {mutant}", flush=True)
        for key in (
            ("all", ""),
            ("kind", mutant.kind),
            ("dims", dim_count(mutant.program)),
        ):
            total[key] += 1
            caught[key] += hit
    for key, number in total.items():
        print(f"{key[0]} {key[1]}: {caught[key]} of {number} ({caught[key] / number:.1%})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else None)
