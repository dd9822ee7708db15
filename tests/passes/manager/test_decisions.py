"""Outcomes of decisions of rewritten programs, and the search for inputs that have them."""

import numpy as np
import pytest

import structir
from structir.errors import PassError
from structir.ir import IRModule
from structir.passes import Pass, PassContext, VerifyResults
from structir.passes.manager.decision_search import DecisionSearch
from structir.passes.manager.decisions import DecisionRecord, changed_decisions
from structir.passes.manager.input_sample import outcome
from structir.passes.manager.samples import Sampler
from structir.passes.manager.value_numbers import value_numbers
from tests.passes.manager.wrong_edits import is_caught, programs

X = 'x: R.Tensor(("n",), "float32")'
XZ = 'x: R.Tensor(("n",), "float32"), z: R.Tensor(("n",), "float32")'
INTS = 'i: R.Tensor(("n",), "int32")'
FLAGS = (
    'x: R.Tensor((5,), "float32"), a: R.Tensor((), "bool"), b: R.Tensor((), "bool"), '
    'k: R.Tensor((), "int32")'
)
BRANCH = """if a:
        if b:
            y = R.exp(x)
        else:
            y = R.multiply(x, R.astype({}, "float32"))
    else:
        y = R.sin(x)
    return y"""

# what is wrong: parameters, the program, a condition under which the rewrite is wrong
ONLY_IF = {
    "a count": (X, "y = R.exp(x)", 'R.equal({}, R.const(12, "int32"))'.format(
        'R.sum(R.astype(R.greater(x, R.const(0.5)), "int32"))')),
    "a sum in a narrow range": (X, "y = R.exp(x)",
        "R.logical_and(R.greater(R.sum(x), R.const(5.0)), R.less(R.sum(x), R.const(5.1)))"),
    "a sum": (X, "y = R.exp(x)", "R.equal(R.sum(x), R.const(6.0))"),
    "a position": (X, "y = R.exp(x)", 'R.equal(R.argmax(x), R.const(2, "int64"))'),
    "a descending input": ('x: R.Tensor((6,), "float32")', "y = R.exp(x)",
        "R.less(R.max(R.subtract(R.roll(x, shift=[-1], axis=[0]), R.where(R.equal("
        'R.arange(0, 6, 1, "int64"), R.const(5, "int64")), R.const(1e30), x))), R.const(0.0))'),
    "a quotient": (INTS, "y = R.add(i, i)",
        'R.equal(R.floor_divide(i, R.const(10, "int32")), R.const(4, "int32"))'),
    "rounded numbers": (XZ, "y = R.add(R.multiply(x, z), R.const(1.0))",
        "R.equal(R.round(R.multiply(x, R.const(3.0))), R.add(R.round(z), R.const(40.0)))"),
}  # fmt: skip


def module(params: str, body: str) -> IRModule:
    dims = "    n = T.int64()\n" if '"n"' in params else ""
    return structir.parse(f"@R.function\ndef main({params}):\n{dims}    {body}\n")


def verify(before: IRModule, after: IRModule) -> None:
    with PassContext([VerifyResults()]):
        Pass("rewrite", lambda _: after)(before)


@pytest.mark.parametrize("name", ONLY_IF)
def test_a_rewrite_that_is_wrong_for_one_outcome_is_caught(name: str) -> None:
    params, value, condition = ONLY_IF[name]
    right = module(params, f"{value}\n    return y")
    wrong = module(params, f"{value}\n    return R.where({condition}, R.negative(y), y)")
    with pytest.raises(PassError, match="changes the result"):
        verify(right, wrong)


def test_scalars_that_select_a_branch_are_combined_with_numbers() -> None:
    wrong = BRANCH.format('R.minimum(k, R.const(50, "int32"))')
    with pytest.raises(PassError, match="changes the result"):
        verify(module(FLAGS, BRANCH.format("k")), module(FLAGS, wrong))


def test_equal_values_have_equal_numbers() -> None:
    first = module(X, "a = R.exp(x)\n    b = R.add(a, x)\n    return b")
    second = module(X, "c = R.exp(x)\n    d = R.add(c, c)\n    e = R.add(c, x)\n    return e")
    a, b = [
        dict((call.op.name, n) for call, n in value_numbers(m, "main")) for m in (first, second)
    ]
    assert a == b
    assert not changed_decisions(first, second, "main").calls


def test_decisions_of_both_programs_are_recorded() -> None:
    before = module(X, "return R.nn.relu(x)")
    after = module(X, "return R.where(R.less(x, R.const(0.0)), R.const(0.0), x)")
    record = changed_decisions(before, after, "main")
    assert [call.op.name for call, _, _ in record.calls.values()] == ["nn.relu", "less", "where"]
    x = np.array([-1.0, 2.0], np.float32)
    outcome(before, "main", [x], record)
    outcome(after, "main", [x], record)
    assert {sign for _, sign in record.missing()} == {0}
    outcome(after, "main", [x - x], record)
    outcome(before, "main", [x - x], record)
    assert record.missing() == []


def test_the_search_finds_inputs_of_a_missing_outcome() -> None:
    before = module(X, "return R.exp(x)")
    after = module(X, "return R.where(R.equal(R.sum(x), R.const(77.0)), x, R.exp(x))")
    record: DecisionRecord = changed_decisions(before, after, "main")
    sampler = Sampler(before, "main", before["main"], {}, 0, False)
    known = list(sampler.samples(1, False))
    sums = set()
    for sample in DecisionSearch(sampler, record, ()).samples(known):
        outcome(after, "main", sample.arguments, record)
        sums.add(float(np.sum(sample.arguments[0])))
    assert 77.0 in sums and record.missing() == []


def test_an_infinity_of_the_other_sign_is_another_result() -> None:
    with pytest.raises(PassError, match="changes the result"):
        verify(module(X, "return R.exp(x)"), module(X, "y = R.exp(x)\n    "
            "return R.where(R.isinf(y), R.negative(y), y)"))  # fmt: skip


def test_checks_of_sizes_that_agree_are_not_dropped() -> None:
    params = "x: R.Tensor(ndim=2), z: R.Tensor(ndim=1)"
    body = (
        'n = T.int64()\n    a = R.match_cast(x, R.Tensor((n, {0}), "float32"))\n'
        '    b = R.match_cast(z, R.Tensor(({0},), "float32"))\n    return R.add(a, b)'
    )
    weak = f"k = T.int64()\n    {body.format('k')}"
    with pytest.raises(PassError, match="removes a check"):
        verify(module(params, body.format(8)), module(params, weak))


def test_fields_of_tuples_are_searched() -> None:
    tensors = 'R.Tuple(w=R.Tensor((3,), "float32"), s=R.Tensor((), "float32"))'
    params = f'p: {tensors}, k: R.Tensor((), "int32")'
    value = "R.multiply(p.w, p.s)"
    wrong = f"R.where(R.equal(p.s, R.const(77.0)), p.w, {value})"
    equal = f"R.where(R.equal(p.s, R.const(77.0)), {value}, {value})"
    right = module(params, f"return R.add({value}, R.astype(k, 'float32'))")
    verify(right, module(params, f"return R.add({equal}, R.astype(k, 'float32'))"))
    with pytest.raises(PassError, match="changes the result"):
        verify(right, module(params, f"return R.add({wrong}, R.astype(k, 'float32'))"))


def test_a_dropped_saturation_of_narrow_floats_is_caught() -> None:
    params = 'x: R.Tensor(("n",), "float32")'
    half = 'h = R.astype(x, "float16")\n    '
    right = 'return R.where(R.isinf(h), R.const(65504.0, "float16"), h)'
    with pytest.raises(PassError, match="changes the result"):
        verify(module(params, half + right), module(params, f"{half}return h"))


SAMPLED = [(name, kind) for name, each in programs().items() for kind in each.wrong][5::411]
EDITS = [  # one of each kind that the search once missed, and a sample
    ("bilinear_form", "three equal sizes"),
    ("even_pooling", "blocks transposed"),
    ("band", "only 32 rows"),
    ("cosine", "factor: 3"),
    ("loss_scale", "count in uint8"),
    ("bf16_store", "product in bfloat16"),
    ("det3", "symmetric matrices"),
    ("ragged_mean", "empty rows have mean 0"),
    ("month_days", "cond: no 100 rule"),
    ("hms", "cast: day in float64"),
    ("token_positions", "check: dropped"),
    ("even_windows", "check: dropped"),
    ("bin_counts", "cast: counts in int8"),
    ("week_number", "cast: count in int16"),
    ("open_rank", "axis: first"),
    ("top_mask", "rule: constants_to_half"),
    ("layer_scale_f16", "cast: 2"),
    ("rmsnorm_f16", "cast: 3"),
    ("ce_loss", "nonfinite: 6"),
    ("branch_sizes", "side: 5"),
    ("spectral_window", "side: 2"),
    ("row_generic_clip", "cast: 6"),
    *SAMPLED,
]


EQUAL = [  # one of each kind that was once rejected
    ("layer_norm_by_hand", "layer_norm"),
    ("three_factors", "associativity"),
    ("ce_loss", "8"),
]


@pytest.mark.parametrize(("name", "kind"), EQUAL, ids=[n for n, _ in EQUAL])
def test_an_edit_that_changes_no_result_is_accepted(name: str, kind: str) -> None:
    program = programs()[name]
    assert not is_caught(program.module(), program.module(program.equal[kind]))


@pytest.mark.parametrize(("name", "kind"), EDITS, ids=[f"{n}: {k}" for n, k in EDITS])
def test_a_wrong_edit_is_caught(name: str, kind: str) -> None:
    program = programs()[name]
    assert is_caught(program.module(), program.module(program.wrong[kind]))
