"""Adjoints and pullbacks of the functions of a module, made as they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import numpy as np

from structir.adjoints.differentiable_leaves import Path, at_path, only_real, real_leaves
from structir.adjoints.reverse import Leaf, ReverseMode
from structir.analysis.internal_functions import PRIVATE
from structir.analysis.substitution import Substitution
from structir.build import BlockBuilder
from structir.errors import Diagnostic, DiagnosticError, StructInfoError, StructIRError
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Constant, Expr, Function, GlobalVar, Tuple, Var
from structir.ir.module import IRModule
from structir.ir.struct_info import FuncStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from structir.opdef.adjoint_op import Emit

Key = tuple[str, tuple[int, ...], tuple[Path, ...]]


@attrs.frozen(eq=False)
class Pullback:
    """A function to be made: the parameters of another one, copied, and what comes back to its
    result; it gives what comes back to some tensors of the parameters."""

    place: GlobalVar
    of: Function
    copier: Substitution
    params: tuple[Var, ...]
    backs: tuple[Var, ...]
    paths: tuple[Path, ...]
    leaves: tuple[tuple[int, Path], ...]
    gives: StructInfo


class Adjoints:
    """The functions that differentiating one function needs."""

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.made: dict[str, Function] = {}
        self.taken = set(module.functions)
        self.asked: dict[Key, Pullback] = {}
        self.waiting: list[Pullback] = []

    # ---- the function that is asked for

    def add(
        self, name: str, of: str, parameters: Sequence[str], target: int, with_value: bool
    ) -> None:
        """Make the function that gives the gradient of a result by parameters, and all that it
        calls."""
        function = self.module[of]
        wanted = [_chosen(function, each) for each in parameters] or _all_real(function, of)
        copier = Substitution(fresh=True)
        copier.new_dims([param.struct_info for param in function.params])
        params = [copier.bound(param) for param in function.params]
        self.taken.add(name)
        builder = BlockBuilder()
        with builder.function(name, params, pure=function.is_pure, attrs=_public(function)):
            scope = ReverseMode(builder, self, [params[k] for k in wanted], again=False)
            result = scope.run(function.body, copier)
            path = _target(result, target)
            scope.sums.add(result, at_path(path, _one(result, path, function, target)))
            scope.back()
            gradients = Tuple(tuple([_whole(scope, params[k]) for k in wanted]))
            infos = TupleStructInfo(tuple([params[k].struct_info for k in wanted]))
            given = copier.info(function.ret_struct_info)
            builder.emit_func_output(
                Tuple((result, gradients)) if with_value else gradients,
                TupleStructInfo((given, infos)) if with_value else infos,
            )
        self.made[name] = builder.finished(name)
        while self.waiting:
            self._make(self.waiting.pop())

    # ---- those that it calls

    def pullback(
        self, name: str, wanted: Sequence[int], given: Sequence[Path]
    ) -> tuple[GlobalVar, list[tuple[int, Path]]] | None:
        """The function that gives what comes back to parameters of a function, from what comes back
        to its result."""
        function = self.module.functions.get(name)
        if not isinstance(function, Function):
            return None
        key = name, tuple(wanted), tuple(given)
        if key not in self.asked:
            self.asked[key] = made = self._planned(function, *key)
            self.waiting.append(made)
        found = self.asked[key]
        return found.place, list(found.leaves)

    def function(self, name: str) -> Function | None:
        """A function of the program; None for what is no function with a body."""
        found = self.module.functions.get(name)
        return found if isinstance(found, Function) else None

    def define(
        self, name: str, infos: Sequence[StructInfo], body: Callable[[Sequence[Var], Emit], Expr]
    ) -> GlobalVar:
        """A new function of parameters of these infos, over dims of its own."""
        copier = Substitution(fresh=True)
        copier.new_dims(infos)
        params = [Var(f"p{k}", copier.info(info)) for k, info in enumerate(infos)]
        builder, own = BlockBuilder(), self._fresh(name)
        with builder.function(own, params, attrs={PRIVATE: True}):
            builder.emit_func_output(body(params, builder.emit))
        made = self.made[own] = builder.finished(own)
        return GlobalVar(own, made.struct_info)

    def _planned(
        self, function: Function, name: str, wanted: tuple[int, ...], given: tuple[Path, ...]
    ) -> Pullback:
        copier = Substitution(fresh=True)
        copier.new_dims([param.struct_info for param in function.params])
        params = tuple([copier.bound(param) for param in function.params])
        known = real_leaves(copier.info(function.ret_struct_info))
        backs = tuple([Var("back", known[path]) for path in given])
        leaves = tuple([(k, path) for k in wanted for path in real_leaves(params[k].struct_info)])
        gives = TupleStructInfo(
            tuple([real_leaves(params[k].struct_info)[path] for k, path in leaves])
        )
        infos = tuple([param.struct_info for param in (*params, *backs)])
        place = GlobalVar(self._fresh(f"{name}_pullback"), FuncStructInfo(infos, gives))
        return Pullback(place, function, copier, params, backs, given, leaves, gives)

    def _make(self, plan: Pullback) -> None:
        builder, name = BlockBuilder(), plan.place.name
        attributes = {**plan.of.attrs, PRIVATE: True}
        with builder.function(name, [*plan.params, *plan.backs], attrs=attributes):
            wanted: list[Leaf] = [(plan.params[k], path) for k, path in plan.leaves]
            scope = ReverseMode(builder, self, [var for var, _ in wanted], again=True)
            result = scope.run(plan.of.body, plan.copier)
            for path, back in zip(plan.paths, plan.backs, strict=True):
                scope.sums.add(result, at_path(path, back))
            scope.back()
            builder.emit_func_output(Tuple(tuple(scope.leaves(wanted))), plan.gives)
        self.made[name] = builder.finished(name)

    def _fresh(self, name: str) -> str:
        own, count = name, 1
        while own in self.taken:
            own, count = f"{name}_{count}", count + 1
        self.taken.add(own)
        return own


def _public(function: Function) -> dict[str, object]:
    return {name: value for name, value in function.attrs.items() if name != PRIVATE}


def _all_real(function: Function, name: str) -> list[int]:
    found = [k for k, param in enumerate(function.params) if only_real(param.struct_info)]
    if not found:
        message = f"{name} has no parameter of real numbers, so there is no gradient"
        raise DiagnosticError(Diagnostic(message, function.span))
    return found


def _chosen(function: Function, name: str) -> int:
    names = [param.name for param in function.params]
    if name not in names:
        raise StructIRError(f"there is no parameter {name}; there are: {', '.join(names)}")
    param = function.params[names.index(name)]
    if not only_real(param.struct_info):
        message = f"there is no gradient by {name}: only real numbers can move a little"
        raise StructInfoError(
            Diagnostic(message, param.span).note(f"{name}: {param.struct_info}", param.span)
        )
    return names.index(name)


def _target(result: Expr, target: int) -> Path:
    return (target,) if isinstance(result.struct_info, TupleStructInfo) else ()


def _one(result: Expr, path: Path, function: Function, target: int) -> Constant:
    """What comes back to the number that is differentiated: one, in its dtype."""
    info: StructInfo | None = result.struct_info
    for index in path:
        fields = info.fields if isinstance(info, TupleStructInfo) else ()
        if index not in range(len(fields)):
            raise StructIRError(f"the result has {len(fields)} fields, so there is no {target}")
        info = fields[index]
    if () not in real_leaves(info) or info != TensorStructInfo((), _dtype(info)):
        where = f"field {target} of the result" if path else "the result"
        message = f"the gradient is that of one real number, and {where} is none"
        diagnostic = Diagnostic(message, result.span or function.body.body.span)
        hint = "sum its elements, or take their mean, in a function that calls this one"
        raise StructInfoError(diagnostic.note(f"it is {info}").hinted(hint))
    return Constant(np.ones((), numpy_dtype(_dtype(info))))


def _dtype(info: StructInfo | None) -> str:
    return getattr(info, "dtype", None) or "float32"


def _whole(scope: ReverseMode, var: Var) -> Expr:
    """The gradient by a parameter, in its structure."""
    paths = list(real_leaves(var.struct_info))
    found = dict(zip(paths, scope.leaves([(var, path) for path in paths]), strict=True))

    def built(info: StructInfo, path: Path) -> Expr:
        if isinstance(info, TupleStructInfo):
            fields = [built(field, (*path, k)) for k, field in enumerate(info.fields)]
            return Tuple(tuple(fields))
        return found[path]

    return built(var.struct_info, ())
