"""Keys of units: equal units, such as those of equal layers, share one evaluation of their cost."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache

from structir.distributed.work_units import Key, WorkUnit, is_tensor
from structir.ir import dims
from structir.ir.dims import Dim, Sym, as_dim
from structir.projections.boxes import Bounds
from structir.projections.program import Program, info_of
from structir.projections.scalar_expr import ScalarOp, walk
from structir.projections.spec import AccessIndex, IndexSpec


def unit_signature(program: Program, unit: WorkUnit, base: Mapping[Key, Bounds]) -> Hashable:
    """Returns a key that two units share if their loops, shapes and required blocks are equal."""
    tensors = [(program.shapes[k], info_of(k).dtype, base.get(k)) for k in unit.outputs]
    tensors += [(program.shapes[k], info_of(k).dtype, base.get(k)) for k in unit.inputs]
    if unit.spec is None:
        differs = len(unit.steps) > 1 or unit.rows is not None  # rows have lengths of their own
        return (differs and unit.index, tuple(tensors))
    positions = {key: number for number, key in enumerate(unit.inputs)}
    operands = tuple([positions.get(k) if is_tensor(k) else None for k in unit.steps[0].inputs])
    return (tuple(tensors), operands, _loops(unit.spec, program.sizes))


def _loops(spec: IndexSpec, sizes: Mapping[Sym, int]) -> Hashable:
    """Returns the loops with numbered index variables and without symbolic sizes."""
    names: dict[Sym, Dim] = {s: n for s, n in sizes.items()}
    numbered: dict[Sym, int] = {}
    for number, index_var in enumerate(spec.extents):
        names[index_var], numbered[index_var] = as_dim(_numbered(number)), number

    def dim(value: Dim) -> Dim:
        return dims.substitute(value, names) if not isinstance(value, int) else value

    def entry(index: AccessIndex) -> Hashable:
        form = None if index.data is not None else dim(index.dim)
        return form, dim(index.size), index.inside, index.whole

    return (
        tuple([dim(extent) for extent in spec.extents.values()]),
        spec.base,
        tuple(
            [
                (
                    tuple([numbered[s] for s in c.parallel]),
                    tuple([numbered[s] for s in c.reduce]),
                    tuple([numbered[s] for s in c.whole]),
                    tuple([(r.operand, tuple(map(entry, r.entries))) for r in c.reads]),
                    tuple(
                        [
                            (
                                w.result,
                                tuple(map(entry, w.entries)),
                                -1
                                if w.value is None
                                else sum(isinstance(n, ScalarOp) for n in walk(w.value)),
                            )
                            for w in c.writes
                        ]
                    ),
                    tuple([(k.op, dim(k.left), dim(k.right)) for k in c.conditions]),
                    c.monoid,
                )
                for c in spec.statements
            ]
        ),
    )


@lru_cache(None)
def _numbered(number: int) -> Sym:
    """Returns the index variable of a number, one for all signatures."""
    return Sym(f"l{number}")
