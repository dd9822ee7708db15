"""Programs in which a rewrite rule fires: all ranks, dtypes and attributes of a small set.

Sizes are symbolic. Ranks and attributes are those of the examples of the ops in the pattern, and
small permutations, axes and shapes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from random import Random
from typing import Any

import attrs

from structir.analysis.axes import axes_of, tensor
from structir.build import BlockBuilder
from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.axes import RowVar
from structir.ir.dims import Dim, as_dim
from structir.ir.expr import Call, Constant, Expr, Function, Tuple, Var
from structir.ir.module import IRModule
from structir.ir.op import registered_ops
from structir.ir.struct_info import TensorStructInfo
from structir.lazy import lazy_module
from structir.rewriting.driver import rewrite_function
from structir.rewriting.guards import acts_element_wise
from structir.rewriting.pattern_vars import (
    AttributeVar,
    CallPattern,
    OpVar,
    ParallelVar,
    PatternVar,
)
from structir.rewriting.rule import Rule

np = lazy_module("numpy")
inference = lazy_module("structir.solver.program.inference")

MAX_RANK = 4
SMALL_RANKS = (0, 1, 2, 3)  # of a row variable
DTYPES = ("float32", "int32", "bool", "float16", "int64", "uint8", "float64", "bfloat16")
TRIES = 5000  # of programs for one rule
UNARY, BINARY = 12, 8  # elementwise ops for a pattern variable of ops


@attrs.frozen(eq=False)
class RuleInstance:
    """A program before and after one application of a rule, and what the variables stand for."""

    before: Function
    after: Function  # the same one if the rule fails
    values: Mapping[str, Any]  # StructInfos and attributes by pattern variable
    error: Exception | None = None  # that the rule raises

    def __str__(self) -> str:
        return ", ".join([f"{name} = {text_of(value)}" for name, value in self.values.items()])


def text_of(value: Any) -> str:
    """Returns the text of a StructInfo, an attribute or an op."""
    return str(getattr(value, "name", getattr(value, "__name__", value)))


def instances(rule: Rule) -> Iterator[RuleInstance]:
    """Yields programs in which a rule fires."""
    for function, values in _programs(rule):
        try:
            after = applied_once(rule, function)
        except Exception as error:  # a rule may raise any exception
            yield RuleInstance(function, function, values, error)
            continue
        if after is not None:
            yield RuleInstance(function, after, values)


def applied_once(rule: Rule, function: Function) -> Function | None:
    """Returns a function after one application of a rule, or None if the rule does not apply."""
    fired: list[bool] = []

    @functools.wraps(rule.generator)
    def generator(**matched: Any) -> Iterator[Any]:
        steps = rule.generator(**matched)
        yield next(steps)
        replacement = None if fired else next(steps, None)
        if replacement is not None:
            fired.append(True)
            yield replacement

    once = Rule(rule.name, generator, rule.group, rule.tolerance)
    after, applications = rewrite_function(function, [once])
    return after if applications else None


def _programs(rule: Rule) -> Iterator[tuple[Function, dict[str, Any]]]:
    choices = _choices(rule)
    names = list(choices)
    rng = Random(rule.name)
    combinations = list(itertools.islice(itertools.product(*choices.values()), 20_000))
    by_dtype = [list(group) for group in _grouped(combinations, rng)]
    tried = 0
    for combination in itertools.chain.from_iterable(itertools.zip_longest(*by_dtype)):
        if combination is None:
            continue
        tried += 1
        if tried > TRIES:
            return
        yield from _built(rule, dict(zip(names, combination, strict=True)))


def _grouped(combinations: list[Any], rng: Random) -> list[list[Any]]:
    """Returns combinations by dtype in random order, so that each dtype comes early."""
    groups: dict[Any, list[Any]] = {}
    for combination in combinations:
        groups.setdefault(combination[0], []).append(combination)
    for group in groups.values():
        rng.shuffle(group)
    return list(groups.values())


def _choices(rule: Rule) -> dict[str, Sequence[Any]]:
    """Returns the values to try for the dtype and for each pattern variable."""
    uses = _uses(rule)
    choices: dict[str, Sequence[Any]] = {"": DTYPES}
    for name, variable in rule.pattern_vars.items():
        parameters = uses.get(name, [])
        match variable:
            case PatternVar() if variable.constant:
                choices[name] = (2, 0.5, -1, 0)
            case PatternVar():
                choices[name] = _ranks(parameters)
            case ParallelVar():
                choices[name] = (2,)
            case OpVar():
                choices[name] = _elementwise_ops(rule, variable)
            case AttributeVar():
                choices[name] = _attributes(parameters)
    return choices


def _uses(rule: Rule) -> dict[str, list[tuple[Any, Any]]]:
    """Returns the ops and parameters in which pattern variables occur in the pattern."""
    uses: dict[str, list[tuple[Any, Any]]] = {}
    for call in rule.pattern_calls[1]:
        if not isinstance(call, CallPattern) or isinstance(call.callee, OpVar):
            continue
        parameters = {p.name: p for p in call.callee.signature.parameters}
        for name, argument in call.arguments.items():
            for part in argument if isinstance(argument, tuple | list) else (argument,):
                if hasattr(part, "name"):
                    uses.setdefault(part.name, []).append((call.callee, parameters[name]))
    return uses


def _sampled(parameters: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Returns the values of parameters in the examples of ops."""
    values = []
    for definition, parameter in parameters:
        names = [p.name for p in definition.signature.parameters]
        for args, keywords in definition.samples:
            arguments = {**dict(zip(names, args, strict=False)), **keywords}
            if parameter.name in arguments:
                values.append(arguments[parameter.name])
    return values


def _ranks(parameters: Sequence[tuple[Any, Any]]) -> Sequence[int]:
    ranks = {len(v.shape) for v in _sampled(parameters) if hasattr(v, "shape")}
    flexible = [
        d
        for d, _ in parameters
        if callable(d.index_signature) or "*s" in d.index_signature or "~s" in d.index_signature
    ]
    if len(flexible) == len(parameters) and not ranks - {0, 1, 2, 3}:
        ranks |= {0, 1, 2, 3}
    return sorted(ranks | ({MAX_RANK} if len(ranks) > 2 else set())) or (0, 1, 2, 3)


def _elementwise_ops(rule: Rule, variable: OpVar) -> Sequence[Any]:
    calls = [c for c in rule.pattern_calls[1] if getattr(c, "callee", None) is variable]
    arity = len(calls[0].arguments)
    ops = []
    for op in registered_ops():
        definition: Any = op.definition
        signature = getattr(definition, "signature", None)
        if signature is None or not acts_element_wise(_AsMatched(op)):
            continue
        required = [p for p in signature.parameters if p.is_argument]
        if len(required) == arity and definition.pure:
            ops.append(op)
    return ops[: UNARY if arity == 1 else BINARY]


@attrs.frozen(eq=False)
class _AsMatched:
    op: Any


def _attributes(parameters: Sequence[tuple[Any, Any]]) -> Sequence[Any]:
    """Returns values of attributes; functions are applied to the shape of the first operand."""
    samples = [v for v in _sampled(parameters) if not hasattr(v, "shape")]
    expected = {getattr(p.kind, "expected", "") for _, p in parameters}
    values: list[Any] = list(samples[:4])
    if any(["integer or a list" in e for e in expected]):
        values += [None, (1, 0), (0, 1), (0, 2, 1), (1, 2, 0), (2, 1, 0), (0, 1, 2), (0, 2, 3, 1)]
        values += [(3, 1, 0, 2), (1,), (2,), (1, 2)]
    if any(["axis" in e for e in expected]):
        values += [None, 0, -1, 1, (0,), (0, 1)]
    if any(["sizes" in e for e in expected]):
        values = [_same, _flat, _rows, _columns, _leading_one, _repeated]
    if any(["dtype" in e for e in expected]):
        values += ["float32", "int32", "bool", "float16", "float64"]
    if any(["a number" in e for e in expected]):
        values += [1e-5, 0.5]
    if "an integer" in expected:
        values += [1, 2]
    unique = {repr(v): v for v in values}
    return list(unique.values()) or [None, 0, 1]


Shape = tuple[Any, ...]  # dims, and row variables in place of a first axis


def _same(shape: Shape) -> Shape:
    return shape


def _flat(shape: Shape) -> Shape:
    return (prod(shape, start=as_dim(1)),)


def _rows(shape: Shape) -> Shape:
    return (*shape[:1], *_flat(shape[1:]))


def _columns(shape: Shape) -> Shape:
    return (*_flat(shape[:-1]), *shape[-1:])


def _leading_one(shape: Shape) -> Shape:
    return (1, *shape)


def _repeated(shape: Shape) -> Shape:
    return (3, *shape)


# ---- programs


def _built(rule: Rule, choice: dict[str, Any]) -> Iterator[tuple[Function, dict[str, Any]]]:
    dtype = choice.pop("")
    tensors = {n: r for n, r in choice.items() if isinstance(rule.pattern_vars[n], PatternVar)}
    tensors = {n: r for n, r in tensors.items() if not rule.pattern_vars[n].constant}
    for shapes in _shapes(rule, tensors, choice, dtype):
        for nested in _nestings(rule):
            try:
                built = _function(rule, choice, shapes, dtype, nested)
                cases = [built]
                for rank in SMALL_RANKS if _row_vars(shapes) else ():  # raises if there is none
                    at_rank = _at_rank(shapes, rank)
                    cases.append(_function(rule, choice, at_rank, dtype, nested))
                has_row = len(cases) > 1
                if not all([_has_consistent_sizes(each, not has_row) for each in cases]):
                    continue
                if not _has_rank(built):
                    continue
            except (DiagnosticError, TypeError, IndexError, ValueError, ZeroDivisionError):
                continue
            infos = {n: tensor(shape, dtype) for n, shape in shapes.items()}
            yield built, {**choice, **infos}


def _row_vars(shapes: Mapping[str, Shape]) -> list[Any]:
    """Returns the row variables in shapes."""
    return [d for shape in shapes.values() for d in shape if type(d) is RowVar]


def _at_rank(shapes: dict[str, Shape], rank: int) -> dict[str, Shape]:
    """Returns shapes with axes in place of row variables."""
    row = tuple([dims.sym(f"s{axis}") for axis in range(rank)])
    return {
        name: tuple([e for d in shape for e in (row if type(d) is RowVar else (d,))])
        for name, shape in shapes.items()
    }


def _has_rank(function: Function) -> bool:
    """Returns whether the axes of a result are known, row variables among them."""
    info = function.body.body.struct_info
    return not isinstance(info, TensorStructInfo) or axes_of(info) is not None


def _has_consistent_sizes(function: Function, equalities: bool) -> bool:
    """Returns whether what is checked at run time are broadcasts and equalities of variables."""
    calls = [b.value for b in function.bindings() if isinstance(b.value, Call)]
    definitions: list[Any] = [(getattr(c.op, "definition", None), c) for c in calls]
    return all(
        [
            assumption.broadcasts
            or (equalities and _is_solvable(assumption.left, assumption.right))
            for definition, call in definitions
            if hasattr(definition, "assumptions")
            for assumption in definition.assumptions(call)
        ]
    )


def _is_solvable(left: Dim, right: Dim) -> bool:
    """Returns whether one side is a variable that the other does not contain."""
    pairs = [(dims.as_sym(a), dims.syms(b)) for a, b in ((left, right), (right, left))]
    return any([variable is not None and variable not in others for variable, others in pairs])


def _nestings(rule: Rule) -> Sequence[str | None]:
    """Returns the operands that are calls of the pattern themselves; guards may look at them."""
    names = [n for n, v in rule.pattern_vars.items() if type(v) is PatternVar]
    is_binary = len(names) == 2 == len(rule.pattern_vars) and len(rule.pattern_calls[1]) == 1
    return (None, *names) if is_binary else (None,)


def _shapes(
    rule: Rule, tensors: dict[str, int], choice: dict[str, Any], dtype: str
) -> Iterator[dict[str, Shape]]:
    """Yields shapes of the operands: all sizes different, equal, and some of size 1."""
    distinct: dict[str, Shape] = {
        name: tuple([dims.sym(f"{name}{axis}") for axis in range(rank)])
        for name, rank in tensors.items()
    }
    yield from _variants(distinct)
    ranks = set(tensors.values())
    if len(tensors) > 1:
        axes = [dims.sym(f"n{axis}") for axis in range(max(ranks, default=0))]
        common = {name: tuple(axes[len(axes) - rank :]) for name, rank in tensors.items()}
        yield common
        yield from _with_row(common)
        inferred = _inferred(rule, tensors, choice, dtype)
        if inferred is not None:
            yield from _variants(inferred)
            yield from _with_row(inferred)
    else:
        yield from _with_row(distinct)


def _variants(shapes: dict[str, Shape]) -> Iterator[dict[str, Shape]]:
    """Yields shapes, and those in which one size is 1 or all are equal."""
    symbols = sorted(
        {s for shape in shapes.values() for d in shape for s in dims.syms(d)}, key=lambda s: s.order
    )
    equal: dict[Any, Dim] = dict.fromkeys(symbols, dims.sym("n"))
    ones: list[dict[Any, Dim]] = [{symbol: 1} for symbol in symbols[:4]]
    cases = [{}, equal, *ones]
    for case in cases:
        yield {n: tuple([dims.substitute(d, case) for d in shape]) for n, shape in shapes.items()}


def _with_row(shapes: dict[str, Shape]) -> Iterator[dict[str, Any]]:
    """Yields shapes with a row variable in place of a first axis, where it is one of all operands.

    Nothing else depends on the size of this axis.
    """
    first = next((shape[0] for shape in shapes.values() if shape), None)
    size = None if first is None else dims.as_sym(first)
    if size is None:
        return
    row = RowVar("s")
    replaced = {
        name: (row, *shape[1:]) if shape and shape[0] == first else shape
        for name, shape in shapes.items()
    }
    remaining = [d for shape in replaced.values() for d in shape if d is not row]
    if not any([size in dims.syms(d) for d in remaining]):
        yield replaced


def _inferred(
    rule: Rule, tensors: dict[str, int], choice: dict[str, Any], dtype: str
) -> dict[str, Shape] | None:
    """Returns the most general shapes of the operands, by inference."""
    infos = {n: TensorStructInfo(None, dtype, rank) for n, rank in tensors.items()}
    try:
        function = _function(rule, choice, {}, dtype, None, infos)
        module = inference.infer(IRModule({"main": function}), close=True)
    except (DiagnosticError, TypeError, IndexError, ValueError):
        return None
    params = {p.name: p.struct_info.dims for p in module["main"].params}
    return None if not all([isinstance(d, tuple) for d in params.values()]) else params


def _function(
    rule: Rule,
    choice: dict[str, Any],
    shapes: Mapping[str, Shape],
    dtype: str,
    nested: str | None,
    infos: Mapping[str, Any] | None = None,
) -> Function:
    """Returns the function whose body is the pattern of a rule."""
    infos = infos or {name: tensor(shape, dtype) for name, shape in shapes.items()}
    params = {name: Var(name, info) for name, info in infos.items()}
    builder = BlockBuilder()
    first = next(iter(shapes.values()), ())
    first = () if _row_vars({"": first}) else first  # a shape that an attribute states
    extra: list[Var] = []
    values = {name: _value(v, first, dtype) for name, v in choice.items() if name not in params}
    parallel = rule.parallel
    if nested is not None and nested in params:
        extra = [Var(f"{name}_inner", info) for name, info in infos.items()]
    with builder.function("main", [*params.values(), *extra]), builder.dataflow():
        bound: dict[str, Any] = dict(params)
        if extra:
            inner = dict(zip(params, extra, strict=True))
            bound[str(nested)] = builder.emit(_pattern(rule, {**values, **inner}))
        bound |= values
        result: Expr = (
            builder.emit(_pattern(rule, bound))
            if parallel is None
            else _parallel(rule, parallel.name, builder, bound)
        )
        output = builder.emit_output(result)
        builder.emit_func_output(output)
    return builder.finished("main")


def _parallel(rule: Rule, name: str, builder: BlockBuilder, values: dict[str, Any]) -> Expr:
    infos: list[Any] = [v.struct_info for v in values.values() if isinstance(v, Var)]
    inner = infos[0].dims[-1]
    shapes = [(inner if isinstance(inner, int) else 4, width) for width in (2, 3)]
    weights = [builder.emit(Constant(np.full(s, 0.5, infos[0].dtype))) for s in shapes]
    return Tuple(tuple([builder.emit(_pattern(rule, {**values, name: w})) for w in weights]))


def _pattern(rule: Rule, values: dict[str, Any]) -> Any:
    return next(rule.generator(**values))


def _value(value: Any, shape: Shape, dtype: str) -> Any:
    if callable(value) and not hasattr(value, "definition"):
        build: Callable[[Shape], Shape] = value
        return build(shape)
    if isinstance(value, int | float) and not isinstance(value, bool) and dtype in DTYPES:
        return value
    return value
