"""Joins the kernels of two calls to one kernel, which computes both in order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from structir.analysis.substitution import Substitution
from structir.ir import dims
from structir.ir.binding_dims import bound_dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Expr, PrimValue, Var
from structir.ir.kernel import (
    Kernel,
    KernelStatement,
    Local,
    Scalar,
    Scratch,
    Size,
    nodes_of,
)
from structir.ir.module import numbered_name
from structir.ir.node import rebuild, replace
from structir.ir.struct_info import PrimStructInfo, TensorStructInfo
from structir.loops.schedule.distinct import names_of_signature
from structir.loops.schedule.initialisation import is_filled
from structir.loops.schedule.loop_tree import loop_tree, prepared
from structir.loops.schedule.refusal import refusal


@attrs.frozen(eq=False)
class KernelUse:
    """A call of a kernel: its arguments, the values of its results, and its sizes in the caller."""

    kernel: Kernel
    args: tuple[Expr, ...]
    results: tuple[Var, ...]
    sizes: Mapping[Sym, Dim]


@attrs.frozen(eq=False)
class JoinedUse:
    """The kernel that two others became, its arguments, and the values of its results."""

    kernel: Kernel
    args: tuple[Expr, ...]
    results: tuple[Var, ...]


def joined(first: KernelUse, second: KernelUse, kept: Collection[Var], name: str) -> JoinedUse:
    """Returns the kernel that computes the results of two kernels in order.

    Results of the first one that are not in `kept` become local arrays. Raises ScheduleError for
    kernels in parts, and for sizes that are not provably equal.
    """
    for use in (first, second):
        divided = use.kernel.part
        if divided is not None or use.kernel.blocks is not None:
            raise refusal(
                "E1116",
                f"expected kernels without parts, found `{use.kernel.name}`",
                *([divided] if divided is not None else [use.kernel]),
                help="fuse the kernels before `parallel`",
            )
    return _Joining(first, second, kept).joined(name)


class _Joining:
    def __init__(self, first: KernelUse, second: KernelUse, kept: Collection[Var]) -> None:
        self.uses, self.kept = (first, second), kept
        self.operands: dict[Var, Expr] = {}  # parameters of the new kernel, and their arguments
        self.results: dict[Var, Var] = {}  # further parameters, and the values that they become
        self.private: list[Var] = []
        self.local: list[KernelStatement] = []  # allocations of both kernels
        self.bodies: list[list[KernelStatement]] = []

    def joined(self, name: str) -> JoinedUse:
        arrays: dict[Expr, Var] = {}  # of the results of the first kernel
        for number, use in enumerate(self.uses):
            copies = self._arrays(use, arrays, is_first=number == 0)
            body = _body(use, copies)
            self.local += [statement for statement in body if isinstance(statement, Scratch)]
            self.bodies.append([each for each in body if not isinstance(each, Scratch)])
        scratch = [Scratch(array, zeros=False) for array in self.private]
        kernel, args = self._kernel(name, scratch)
        zeroed = self._zeroed(kernel)
        if zeroed:
            scratch = [replace(each, zeros=each.array in zeroed) for each in scratch]
            kernel, args = self._kernel(name, scratch)
        return JoinedUse(kernel, args, tuple(self.results.values()))

    def _arrays(self, use: KernelUse, arrays: dict[Expr, Var], is_first: bool) -> dict[Any, Any]:
        """Returns the arrays and numbers of the new kernel for the parameters of a kernel."""
        infos = Substitution(dims=use.sizes)
        copies: dict[Any, Any] = {}
        for param, arg in zip(use.kernel.operands, use.args, strict=True):
            info = infos.info(param.struct_info)
            known = arrays.get(arg) if not is_first else None
            if known is not None and not _is_same(known.struct_info, info):
                raise refusal(
                    "E1116",
                    f"expected equal sizes of `{arg}`, found {known.struct_info} and {info}",
                    ("first kernel", self.uses[0].kernel),
                    ("second kernel", use.kernel),
                    help="declare the same sizes in both kernels",
                )
            copies[param] = known if known is not None else self._operand(param.name, info, arg)
        for param, value in zip(use.kernel.results, use.results, strict=True):
            array = Var(param.name, infos.info(param.struct_info))
            copies[param] = arrays[value] = array
            if is_first and value not in self.kept:
                self.private.append(array)
            else:
                self.results[array] = value
        return copies

    def _operand(self, name: str, info: Any, arg: Expr) -> Var:
        for param, known in self.operands.items():
            same = known is arg
            if isinstance(arg, PrimValue) and isinstance(known, PrimValue):
                same = bool(arg.value == known.value)
            if same and param.struct_info == info:
                return param
        param = Var(name, info)
        self.operands[param] = arg
        return param

    def _kernel(self, name: str, scratch: Sequence[Scratch]) -> tuple[Kernel, tuple[Expr, ...]]:
        """Returns the kernel and its arguments, with a parameter for each size that no array
        determines."""
        body = (*scratch, *self.local, *self.bodies[0], *self.bodies[1])
        params = (*self.operands, *self.results)
        bound = bound_dims([p.struct_info for p in params])
        mentioned = dict.fromkeys(_symbols(params, body))
        numbers = {
            Var(f"{s.name}_", PrimStructInfo("int64", dims.as_dim(s))): PrimValue(dims.as_dim(s))
            for s in mentioned
            if s not in bound
        }
        kernel = Kernel(
            (*self.operands, *numbers, *self.results), body, name, self.uses[0].kernel.span
        )
        if kernel.result_count != len(self.results):
            raise refusal(
                "E1116",
                "expected each kernel to write its first result",
                ("first kernel", self.uses[0].kernel),
                ("second kernel", self.uses[1].kernel),
                help="remove the results that a kernel does not write",
            )
        return prepared(_with_names(kernel)), (*self.operands.values(), *numbers.values())

    def _zeroed(self, kernel: Kernel) -> set[Var]:
        """Returns the local arrays that must start as zeros: those with elements that the first
        kernel does not write."""
        tree, count = loop_tree(kernel), len(self.private)
        local = [statement.array for statement in kernel.body[:count]]  # type: ignore[attr-defined]
        start = count + len(self.local)
        block = kernel.body[start : start + len(self.bodies[0])]
        pairs = zip(self.private, local, strict=True)
        return {array for array, mine in pairs if not is_filled(tree, mine, block)}


def _body(use: KernelUse, copies: dict[Any, Any]) -> tuple[KernelStatement, ...]:
    """Returns a copy of the body over other arrays and sizes, with local names of its own."""
    infos = Substitution(dims=use.sizes)

    def copy(part: Any) -> Any:
        if isinstance(part, Var) and part not in copies:
            copies[part] = replace(part, struct_info=infos.info(part.struct_info))
        if isinstance(part, Local) and part not in copies:
            copies[part] = replace(part)
        if isinstance(part, Local | Var):
            return copies[part]
        if isinstance(part, Size):
            return replace(part, dim=dims.substitute(part.dim, use.sizes))
        if isinstance(part, Scalar):
            return rebuild(part, copy)
        return replace(rebuild(part, copy)) if isinstance(part, KernelStatement) else part

    return tuple([copy(statement) for statement in use.kernel.body])


def _symbols(params: Sequence[Var], body: Sequence[KernelStatement]) -> list[Sym]:
    nodes = [node for statement in body for node in nodes_of(statement)]
    arrays = [*params, *[node.array for node in nodes if isinstance(node, Scratch)]]
    sizes = [d for a in arrays for d in getattr(a.struct_info, "dims", None) or ()]
    sizes += [node.dim for node in nodes if isinstance(node, Size)]
    return [s for size in sizes for s in sorted(dims.syms(size), key=lambda sym: sym.order)]


def _with_names(kernel: Kernel) -> Kernel:
    """Returns the kernel with distinct names of parameters, none of them that of a size."""
    sizes = Kernel(kernel.params, ())
    used = names_of_signature(sizes) - {param.name for param in kernel.params}
    copies: dict[Any, Any] = {}
    for param in kernel.params:
        name = numbered_name(param.name, used)
        used.add(name)
        copies[param] = replace(param, name=name)
    use = KernelUse(kernel, (), (), {})
    params = tuple([copies[param] for param in kernel.params])
    return attrs.evolve(kernel, params=params, body=_body(use, copies))


def _is_same(first: Any, second: Any) -> bool:
    if not isinstance(first, TensorStructInfo) or first.dtype != second.dtype:
        return False
    pairs = zip(first.dims or (), second.dims or (), strict=True)
    return all(dims.equal(one, other) for one, other in pairs)
