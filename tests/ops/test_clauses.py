"""Index specs made of op lines: what is said of symbolic sizes holds at every size."""

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.interpret.scope import Activation
from structir.ir import Call, PrimValue, ShapeExpr, Tuple, Var
from structir.ir.dims import as_dim, as_sym, sym
from structir.ir.op import Op
from structir.ir.struct_info import TensorStructInfo
from structir.projections.run import run
from structir.projections.spec import Scan, scan_of
from tests.ops.calls import called
from tests.ops.test_every_op import OPS, PROGRAMS, sizes_of, value_for


def spec_of(name, *shapes, **keywords):
    """The spec of a call on float32 tensors of these shapes."""
    args = [Var("x", TensorStructInfo(s, "float32")) for s in shapes]
    call = OPS[name](*args, **keywords)
    return OPS[name].definition.index_spec(call)


def known(arg, values, sizes):
    """The value of an argument of a call over the parameters of a function."""
    match arg:
        case Var():
            return values[arg]
        case PrimValue():
            return (
                arg.value
                if isinstance(arg.value, float | bool)
                else Activation({}, sizes).size(arg.value)
            )
        case ShapeExpr():
            return tuple(Activation({}, sizes).size(d) for d in arg.dims)
        case Tuple():
            return tuple(known(f, values, sizes) for f in arg.fields)
    return arg.data


def agreements(script):
    """How often the symbolic spec of a program's only call gives what the concrete one gives."""
    module = structir.parse(script)
    function = module["main"]
    bindings = [b for b in function.bindings() if isinstance(b.value, Call)]
    if len(bindings) != 1 or not isinstance(bindings[0].value.op, Op):
        return 0
    call = bindings[0].value
    definition = call.op.definition
    infos = [p.struct_info for p in function.params]
    spec = definition.index_spec(call)
    if spec is None or not spec.computes:
        return 0
    count = 0
    for sizes in sizes_of(infos):
        args = [value_for(i, sizes, np.random.default_rng(2)) for i in infos]
        values = dict(zip(function.params, args, strict=True))
        given = tuple(known(a, values, sizes) for a in call.args)
        try:
            wanted = definition.reference(call, given)
        except (DiagnosticError, ShapeMismatchError):
            continue
        operands = [
            np.asarray(given[o.path[0]][o.path[1]] if len(o.path) > 1 else given[o.path[0]])
            for o in spec.operands
        ]
        for info, array in zip(spec.operands, operands, strict=True):  # sizes that nothing names
            pairs = zip(info.dims, array.shape, strict=True)
            sizes = {as_sym(d): n for d, n in pairs if as_sym(d) is not None} | sizes
        found = run(spec, operands, sizes)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(
                one.astype("float64"), other.astype("float64"), rtol=1e-3, atol=1e-5
            )
        count += 1
    return count


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() & OPS.keys()))
@pytest.mark.filterwarnings("ignore")
def test_symbolic_specs_hold_at_every_size(name):
    scripts = [c["script"] for c in PROGRAMS[name] if "T.int64" in c["script"]]
    for script in scripts:
        agreements(script)


def test_most_symbolic_programs_are_compared():
    scripts = [c["script"] for n in ("matmul", "add", "concat", "sum") for c in PROGRAMS[n]]
    assert sum(agreements(s) for s in scripts if "T.int64" in s) > 60


def test_matmul():
    b, n, m = sym("b"), sym("n"), sym("m")
    spec = spec_of("matmul", (b, n, 64), (64, m))
    (clause,) = spec.statements
    assert [s.name for s in clause.parallel] == ["b_0", "i", "j"]
    assert [s.name for s in clause.reduce] == ["k"]
    assert clause.total and clause.monoid == "sum" and clause.writes[0].unique
    assert spec.count(clause) == 64
    assert spec.results[0].dims == (b, n, m)
    lhs, rhs = clause.reads
    assert lhs.plain == (*clause.parallel[:2], *clause.reduce)
    assert rhs.plain == (*clause.reduce, clause.parallel[2])


def test_undecided_broadcasting_is_a_flag():
    n, m = sym("n"), sym("m")
    spec = spec_of("add", (n,), (m,))
    (clause,) = spec.statements
    assert all(read.entries[0].loose for read in clause.reads)
    x, y = np.ones(1), np.arange(3.0)
    atoms = [next(iter(d.terms))[0] for d in (n, m)]
    np.testing.assert_array_equal(
        run(spec, [x, y], dict(zip(atoms, (1, 3), strict=True)))[0], y + 1
    )
    np.testing.assert_array_equal(
        run(spec, [y, x], dict(zip(atoms, (3, 1), strict=True)))[0], y + 1
    )


def test_windows_say_where_they_hang_over():
    plain = spec_of("nn.conv2d", (1, 4, 8, 8), (6, 4, 3, 3))
    assert plain.statements[0].total
    padded = spec_of("nn.conv2d", (1, 4, 8, 8), (6, 4, 3, 3), padding=1)
    inside = [e.inside for e in padded.statements[0].reads[0].entries]
    assert inside == [True, True, False, False]


def test_transposed_windows_meet():
    spec = spec_of("nn.conv1d_transpose", (1, 4, 8), (4, 2, 3), strides=2)
    (clause,) = spec.statements
    assert not clause.writes[0].unique and clause.monoid == "sum"
    assert [s.name for s in clause.reduce] == ["c"]


def test_pieces_are_clauses():
    spec = spec_of("nn.pad", (3, 4), pad_width=(1, 2, 0, 3), pad_value=7.0)
    (clause,) = spec.statements
    assert spec.fill == 7.0
    i, j = map(as_dim, clause.parallel)
    assert [e.index for e in clause.writes[0].entries] == [i + 1, j]
    x, y = (Var("x", TensorStructInfo(s, "float32")) for s in ((2, 3), (4, 3)))
    joined = OPS["concat"].definition.index_spec(OPS["concat"]((x, y)))
    assert [c.reads[0].operand for c in joined.statements] == [0, 1]


def test_scans_are_recognised():
    spec = spec_of("cumsum", (3, 4), axis=1)
    assert isinstance(scan_of(spec, spec.statements[0]), Scan)
    flat = spec_of("cumsum", (3, 4))
    assert scan_of(flat, flat.statements[0]).op == "le"


def test_an_operand_read_for_its_shape_is_no_data():
    assert spec_of("zeros_like", (3, 4)).statements[0].reads == ()


def test_reads_by_data():
    call, _ = called("take", np.ones((5, 2), "float32"), np.zeros(3, "int64"), axis=0)
    spec = call.op.definition.index_spec(call)
    (clause,) = spec.statements
    assert {r.name for r in clause.reads} == {"x", "indices"}
    assert clause.read("x").entries[0].data is not None
    assert not clause.total


def test_whole_axes_and_composites_have_no_values():
    assert spec_of("sort", (3, 4)).whole
    softmax = spec_of("nn.softmax", (3, 4))
    assert softmax.statements[0].writes[0].value is None
