"""Generates gradient functions and pullbacks of the functions of a module on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import numpy as np

from structir.adjoints.declared import cotangents
from structir.adjoints.differentiable_leaves import (
    Path,
    differentiable_leaves,
    extract_leaf,
    is_differentiable,
    nest_at_path,
)
from structir.adjoints.reverse import Leaf, ReverseMode
from structir.analysis.derivative_rules import derived_attributes, rule_names
from structir.analysis.internal_functions import PRIVATE
from structir.analysis.substitution import Substitution
from structir.build import BlockBuilder
from structir.errors import Diagnostic, DiagnosticError, StructInfoError, StructIRError
from structir.ir.dtype import Element, numpy_dtype
from structir.ir.expr import Constant, Expr, Function, GlobalVar, Tuple, Var
from structir.ir.module import IRModule, numbered_name
from structir.ir.struct_info import FuncStructInfo, StructInfo, TupleStructInfo
from structir.opdef.adjoint_op import Emit, ones, zeros

Key = tuple[str, tuple[int, ...], tuple[Path, ...]]


@attrs.frozen(eq=False)
class Pullback:
    """The plan of a pullback function.

    The parameters are those of the original function, followed by cotangents of its result. The
    result is the cotangents of tensors in the original parameters.
    """

    global_var: GlobalVar
    original: Function
    copier: Substitution
    params: tuple[Var, ...]
    cotangents: tuple[Var, ...]
    paths: tuple[Path, ...]
    leaves: tuple[tuple[int, Path], ...]
    result_info: StructInfo


class Adjoints:
    """The gradient functions and pullbacks generated for one function."""

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.generated: dict[str, Function] = {}
        self.used_names = set(module.functions)
        self.pullbacks: dict[Key, Pullback] = {}
        self.pending: list[Pullback] = []

    def add(
        self, name: str, of: str, parameters: Sequence[str], target: int, with_value: bool
    ) -> None:
        """Generates the gradient `name` of the function `of` with respect to `parameters`.

        Also generates the functions that the gradient calls. `target` is the differentiated field
        of a tuple result. With `with_value` the gradient returns the result too. Raises
        DiagnosticError where the function is not differentiable.
        """
        function = self.module[of]
        indices = [_param_index(function, parameter) for parameter in parameters]
        indices = indices or _differentiable_params(function, of)
        copier = Substitution(fresh=True)
        copier.new_dims([param.struct_info for param in function.params])
        params = [copier.bound(param) for param in function.params]
        self.used_names.add(name)
        builder = BlockBuilder()
        with builder.function(name, params, pure=function.is_pure, attrs=_public(function)):
            scope = ReverseMode(builder, self, [params[k] for k in indices], recomputes=False)
            result = scope.run(function.body, copier)
            path = (target,) if isinstance(result.struct_info, TupleStructInfo) else ()
            dtype = _scalar_dtype(result, path, function, target)
            seed = _seed(dtype, result, path, builder.emit)
            scope.cotangents.add(result, nest_at_path(path, seed))
            scope.propagate()
            gradients = Tuple(tuple([_gradient(scope, params[k]) for k in indices]))
            infos = TupleStructInfo(tuple([params[k].struct_info for k in indices]))
            result_info = copier.info(function.ret_struct_info)
            builder.emit_func_output(
                Tuple((result, gradients)) if with_value else gradients,
                TupleStructInfo((result_info, infos)) if with_value else infos,
            )
        self.generated[name] = builder.finished(name)
        self.generate_pending()

    def generate_pending(self) -> None:
        """Generates the pullbacks that were planned."""
        while self.pending:
            self._generate(self.pending.pop())

    def pullback(
        self, name: str, params: Sequence[int], result_paths: Sequence[Path]
    ) -> tuple[GlobalVar, list[tuple[int, Path]]] | None:
        """Returns the pullback of a function and the parameter tensors whose cotangents it returns.

        `params` are parameter indices; `result_paths` are the paths of the result that have
        cotangents. None where `name` is not a function with a body.
        """
        function = self.module.functions.get(name)
        if not isinstance(function, Function):
            return None
        key = name, tuple(params), tuple(result_paths)
        if key not in self.pullbacks:
            self.pullbacks[key] = plan = self._plan(function, *key)
            self.pending.append(plan)
        pullback = self.pullbacks[key]
        return pullback.global_var, list(pullback.leaves)

    def function(self, name: str) -> Function | None:
        """Returns a function of the module; None where `name` is not a function with a body."""
        function = self.module.functions.get(name)
        return function if isinstance(function, Function) else None

    def define(
        self, name: str, infos: Sequence[StructInfo], body: Callable[[Sequence[Var], Emit], Expr]
    ) -> GlobalVar:
        """Defines a function with parameters of these StructInfos, over fresh dims."""
        copier = Substitution(fresh=True)
        copier.new_dims(infos)
        params = [Var(f"p{k}", copier.info(info)) for k, info in enumerate(infos)]
        builder, unique = BlockBuilder(), self._unique_name(name)
        with builder.function(unique, params, attrs={PRIVATE: True}):
            builder.emit_func_output(body(params, builder.emit))
        function = self.generated[unique] = builder.finished(unique)
        return GlobalVar(unique, function.struct_info)

    def _plan(
        self, function: Function, name: str, indices: tuple[int, ...], paths: tuple[Path, ...]
    ) -> Pullback:
        copier = Substitution(fresh=True)
        copier.new_dims([param.struct_info for param in function.params])
        params = tuple([copier.bound(param) for param in function.params])
        results = differentiable_leaves(copier.info(function.ret_struct_info))
        cotangents = tuple([Var("back", results[path]) for path in paths])
        of_params = {k: differentiable_leaves(params[k].struct_info) for k in indices}
        leaves = tuple([(k, path) for k in indices for path in of_params[k]])
        result_info = TupleStructInfo(tuple([of_params[k][path] for k, path in leaves]))
        infos = tuple([param.struct_info for param in (*params, *cotangents)])
        global_var = GlobalVar(
            self._unique_name(f"{name}_pullback"), FuncStructInfo(infos, result_info)
        )
        return Pullback(
            global_var, function, copier, params, cotangents, paths, leaves, result_info
        )

    def _generate(self, plan: Pullback) -> None:
        builder, name = BlockBuilder(), plan.global_var.name
        attributes = {**derived_attributes(plan.original.attrs), PRIVATE: True}
        with builder.function(name, [*plan.params, *plan.cotangents], attrs=attributes):
            declared = bool(rule_names(plan.original))
            result = (
                self._declared(plan, builder.emit) if declared else self._derived(plan, builder)
            )
            builder.emit_func_output(result, plan.result_info)
        self.generated[name] = builder.finished(name)

    def _derived(self, plan: Pullback, builder: BlockBuilder) -> Expr:
        """Returns the result of a pullback, derived from the body of the function."""
        leaves: list[Leaf] = [(plan.params[k], path) for k, path in plan.leaves]
        scope = ReverseMode(builder, self, [var for var, _ in leaves], recomputes=True)
        result = scope.run(plan.original.body, plan.copier)
        for path, cotangent in zip(plan.paths, plan.cotangents, strict=True):
            scope.cotangents.add(result, nest_at_path(path, cotangent))
        scope.propagate()
        return Tuple(tuple(scope.gradients(leaves)))

    def _declared(self, plan: Pullback, emit: Emit) -> Expr:
        """Returns the result of a pullback by the rule that the function declares."""
        infos = differentiable_leaves(plan.copier.info(plan.original.ret_struct_info))
        given = dict(zip(plan.paths, plan.cotangents, strict=True))
        by_param = cotangents(self, plan.original, plan.params, given, infos, emit)
        results = [by_param.get(k) for k, _ in plan.leaves]
        absent = [emit(zeros(plan.params[k])) for k, _ in plan.leaves if k not in by_param]
        return Tuple(tuple([absent.pop(0) if r is None else r for r in results]))

    def _unique_name(self, name: str) -> str:
        unique = numbered_name(name, self.used_names)
        self.used_names.add(unique)
        return unique


def _public(function: Function) -> dict[str, object]:
    attributes = derived_attributes(function.attrs)
    return {name: value for name, value in attributes.items() if name != PRIVATE}


def _differentiable_params(function: Function, name: str) -> list[int]:
    indices = [k for k, p in enumerate(function.params) if is_differentiable(p.struct_info)]
    if not indices:
        message = f"{name}: cannot differentiate: no parameter is a floating-point tensor"
        raise DiagnosticError(Diagnostic(message, function.span, code="E0651"))
    return indices


def _param_index(function: Function, name: str) -> int:
    names = [param.name for param in function.params]
    if name not in names:
        raise StructIRError(
            f"no parameter `{name}` in the function; available: {', '.join(names)}", code="E0650"
        )
    param = function.params[names.index(name)]
    if not is_differentiable(param.struct_info):
        message = f"cannot differentiate with respect to `{name}`"
        label = f"expected a floating-point tensor, found {param.struct_info}"
        raise StructInfoError(Diagnostic(message, param.span, code="E0651", label=label))
    return names.index(name)


def _seed(dtype: Element | None, result: Expr, path: Path, emit: Emit) -> Expr:
    """Returns the cotangent of the differentiated scalar: one, in its dtype."""
    if isinstance(dtype, str):
        return Constant(np.ones((), numpy_dtype(dtype)))
    return emit(ones(extract_leaf(result, path, emit)))


def _scalar_dtype(result: Expr, path: Path, function: Function, target: int) -> Element | None:
    """Returns the dtype of the differentiated scalar, or its variable; None if it is unknown.

    Raises StructInfoError if the result is not a floating-point scalar.
    """
    info: StructInfo | None = result.struct_info
    if target and not path:
        message = f"target {target} is a field of a tuple: expected a tuple as the result"
        raise StructIRError(f"{message}, found {info}", code="E0652")
    for index in path:
        fields = info.fields if isinstance(info, TupleStructInfo) else ()
        if index not in range(len(fields)):
            raise StructIRError(
                f"target {target} is out of range for a result with {len(fields)} fields",
                code="E0652",
            )
        info = fields[index]
    if () not in differentiable_leaves(info) or getattr(info, "dims", None) != ():
        where = f"field {target} of the result" if path else "the result"
        message = f"the gradient needs a scalar: expected a floating-point scalar as {where}"
        span = result.span or function.body.body.span
        hint = "reduce the result to a scalar before it is returned"
        raise StructInfoError(
            Diagnostic(message, span, hint=hint, code="E0652", label=f"found {info}")
        )
    return getattr(info, "element", None)


def _gradient(scope: ReverseMode, var: Var) -> Expr:
    """Returns the gradient with respect to a parameter, with the structure of the parameter."""
    paths = list(differentiable_leaves(var.struct_info))
    by_path = dict(zip(paths, scope.gradients([(var, path) for path in paths]), strict=True))

    def build(info: StructInfo, path: Path) -> Expr:
        if isinstance(info, TupleStructInfo):
            fields = [build(field, (*path, k)) for k, field in enumerate(info.fields)]
            return Tuple(tuple(fields), info.names)
        return by_path[path]

    return build(var.struct_info, ())
