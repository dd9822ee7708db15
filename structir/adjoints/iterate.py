"""The tangent of `loop.iterate`: loops with a trip count or a condition."""

from __future__ import annotations

from typing import Any

import attrs

from structir.adjoints.differentiable_leaves import is_float_tensor
from structir.adjoints.tangents import Tangent, TangentScope
from structir.analysis.substitution import Substitution
from structir.ir.expr import Call, Expr, StringImm, Tuple, Var
from structir.ir.struct_info import TupleStructInfo


def iterate(scope: TangentScope, call: Any, body: Any) -> tuple[Expr, Tangent]:
    """Returns a loop over carried values and their tangents; `body` is the original function."""
    return _TangentLoop(scope, call, body).results()


@attrs.frozen(eq=False)
class _TangentLoop:
    """A loop over values and tangents.

    The tangents of floating-point carried values follow the carried values; those of stacked
    outputs follow the outputs.
    """

    scope: TangentScope
    call: Any
    body: Any

    @property
    def starts(self) -> list[Expr]:
        """The carried values before the loop."""
        return list(self.call.args[3].fields)

    @property
    def floats(self) -> list[int]:
        """The positions of floating-point carried values."""
        return [k for k, v in enumerate(self.starts) if is_float_tensor(v.struct_info)]

    @property
    def names(self) -> list[str]:
        """The dtypes of the stacked outputs."""
        return str(self.call.args[5].value).split()

    @property
    def outputs(self) -> list[int]:
        """The positions of floating-point outputs."""
        return [k for k, name in enumerate(self.names) if "float" in name]

    def results(self) -> tuple[Expr, Tangent]:
        """Emits the loop; returns its results and their tangents."""
        call, scope = self.call, self.scope
        body_var, trips, condition, carried, empty, _ = call.args
        infos, count = call.sinfo_args[0].fields, len(self.starts)
        parts = scope.parts(scope.tangent(carried), count)
        begin = [scope.filled(self.starts[k], parts[k]) for k in self.floats]
        stacks = list(infos[count:])
        expected = (*infos[:count], *[infos[k] for k in self.floats])
        result_info = TupleStructInfo((*expected, *stacks, *[stacks[k] for k in self.outputs]))
        shapes = Tuple((*empty.fields, *[empty.fields[k] for k in self.outputs]))
        names = StringImm(" ".join([*self.names, *[self.names[k] for k in self.outputs]]))
        function = self._function(f"{body_var.name}_tangent")
        operands = (function, trips, condition, Tuple((*self.starts, *begin)), shapes, names)
        loop = Call(call.op, operands, call.attrs, (result_info,), None, call.span)
        results = scope.fields(scope.emit(loop))
        first = count + len(self.floats)
        values = [*results[:count], *results[first : first + len(stacks)]]
        tangents: list[Tangent] = [None] * len(values)
        for k, tangent in zip(self.floats, results[count:first], strict=True):
            tangents[k] = tangent
        for k, tangent in zip(self.outputs, results[first + len(stacks) :], strict=True):
            tangents[count + k] = tangent
        return scope.emit(Tuple(tuple(values))), tuple(tangents)

    def _function(self, name: str) -> Var:
        """Binds the body over values and tangents as a local function."""
        params = [Var(p.name, p.struct_info) for p in self.body.params]
        carried = params[2:]
        directions = [
            Var(f"{carried[k].name}_tangent", carried[k].struct_info) for k in self.floats
        ]

        def step() -> Expr:
            scope = self.scope
            variables = scope.copier.variables
            inner = TangentScope(
                scope.builder, scope.functions, Substitution(variables, fresh=True)
            )
            inner.tangents, inner.closures = dict(scope.tangents), dict(scope.closures)
            inner.copier.variables.update(zip(self.body.params, params, strict=True))
            for k, direction in zip(self.floats, directions, strict=True):
                inner.tangents[carried[k]] = direction
            result, tangent = inner.run(self.body.body)
            values, first = inner.fields(result), 1 + len(carried)
            changes = inner.parts(tangent, len(values))
            positions = [1 + k for k in self.floats], [first + k for k in self.outputs]
            states, outputs = ([inner.filled(values[k], changes[k]) for k in p] for p in positions)
            return Tuple((*values[:first], *states, *values[first:], *outputs))

        return self.scope.builder.local_function([*params, *directions], step, name)
