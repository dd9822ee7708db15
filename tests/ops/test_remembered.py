"""What is derived of a call holds for every call of its structure, and for no other."""

from structir.ir import Call, TensorStructInfo, Var
from structir.ir.dims import sym
from structir.opdef.memo import memoize, structure_of
from structir.script import R

n = sym("n")


def tensor(*dims: object, dtype: str = "float32") -> Var:
    return Var("x", TensorStructInfo(dims, dtype))


def test_facts_are_derived_once_per_structure() -> None:
    asked: list[Call] = []

    def derive(call: Call) -> str:
        asked.append(call)
        return str(call.struct_info)

    first, second = R.sum(tensor(n, 4), axis=0), R.sum(tensor(n, 4), axis=0)
    assert memoize(derive, first) is memoize(derive, second)
    assert asked == [first]


def test_structures_differ_in_ops_attributes_and_operands() -> None:
    calls = [
        R.sum(tensor(n, 4), axis=0),
        R.sum(tensor(n, 4), axis=1),
        R.sum(tensor(n, 4), axis=0, keepdims=True),
        R.sum(tensor(n, 5), axis=0),
        R.sum(tensor(sym("n"), 4), axis=0),
        R.sum(tensor(n, 4, dtype="float64"), axis=0),
        R.mean(tensor(n, 4), axis=0),
        R.reshape(tensor(n, 4), (4, n)),
        R.reshape(tensor(n, 4), (n, 2, 2)),
        R.add(tensor(n, 4), R.const(1, "float32")),
        R.add(tensor(n, 4), R.const(2, "float32")),
    ]
    structures = [structure_of(call) for call in calls]
    assert None not in structures
    assert len(set(structures)) == len(calls)


def test_calls_with_unknown_dims_have_no_structure() -> None:
    assert structure_of(R.exp(Var("x", TensorStructInfo(None, "float32", ndim=2)))) is None
