"""Tests that `structir.infer` is idempotent, also on programs with unknown ranks."""

import re
import warnings
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir.analysis import check_well_formed, well_formed
from structir.errors import DiagnosticError, DiagnosticWarning
from structir.ir import IRModule, structural_equal
from structir.tools.generate import random_module
from tests.printer.corpus import modules
from tests.solver.solvable_programs import random_program

OPTIONS = [
    {"refine": refine, "close": close}
    for refine in (None, "signature", "checks", "nothing")
    for close in (False, True)
]
X = 'x: R.Tensor(("*s",), "float32")'
Y = 'y: R.Tensor(("*t",), "float32")'
W = 'w: R.Tensor((3, 4), "float32")'
FIXES_A_RANK = [
    (X, "R.permute_dims(x, (1, 0))"),
    (X, "R.permute_dims(x, (2, 0, 1))"),
    (X, "R.permute_dims(R.permute_dims(x, (1, 0)), (1, 0))"),
    (X, "R.squeeze(x, axis=[0, 2])"),
    (X, "R.split(x, 3, axis=-1)"),
    (X, "R.reshape(x, (-1, 4))"),
    (X, "R.expand_dims(x, 1)"),
    (X, "R.sum(x, axis=[2])"),
    (X, "R.nn.softmax(x, axis=2)"),
    (X, "R.broadcast_to(x, (2, 3, 4))"),
    (X, "R.nn.batch_flatten(x)"),
    (X, "R.nn.max_pool2d(x)"),
    (X, "R.nn.pixel_shuffle(x, 2)"),
    (X, "R.nn.pad(x, pad_width=[0, 0, 1, 1])"),
    (X, "R.eye_like(x)"),
    (X, "R.outer(x, x)"),
    (X, "R.matmul(x, R.permute_dims(x, (1, 0)))"),
    (f"{X}, {Y}", "R.matmul(x, y)"),
    (f"{X}, {Y}", "R.concat((x, y), axis=1)"),
    (f"{X}, {Y}", "R.stack((x, y), axis=1)"),
    (f"{X}, {Y}", "R.nn.conv1d(x, y)"),
    (f"{X}, {W}", "R.matmul(x, w)"),
    (f"{X}, {W}", "R.concat((x, w), axis=0)"),
    (f"{X}, {W}", "R.stack((x, w), axis=0)"),
    (f"{X}, {W}", "R.add(x, w)"),
    (f'{X}, i: R.Tensor((2,), "int64")', "R.take(x, i, axis=1)"),
    (f'{X}, w: R.Tensor((8, 3, 3, 3), "float32")', "R.nn.conv2d(x, w)"),
    ('x: R.Tensor(("n", "*s"), "float32")', "R.permute_dims(x, (1, 0, 2))"),
    ('x: R.Tensor(("*s", "n"), "float32")', "R.permute_dims(x, (1, 0))"),
    (
        'x: R.Tensor(("*s",), "float32"), y: R.Tensor(("*s",), "float32")',
        "(R.permute_dims(x, (1, 0)), y)",
    ),
    ('x: R.Tuple(R.Tensor(("*s",), "float32"), R.Tensor)', "R.permute_dims(x[0], (1, 0))"),
    ('x: R.Tensor(("n:a", "*s"), "float32")', "R.permute_dims(x, (1, 0))"),
    ('x: R.Tensor(("_", "_"), "float32")', "R.permute_dims(x, (1, 0))"),
    ('x: R.Tensor(dtype="float32")', "R.nn.pad(x, pad_width=[0, 0, 1, 1])"),
    ('x: R.Tensor(dtype="float32"), y: R.Tensor(dtype="float32")', "R.nn.conv1d(x, y)"),
    ('x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", 4), "float32")', "R.add(x, y)"),
]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        yield


def require_complete(module: IRModule, **options: object) -> None:
    try:
        once = structir.infer(module, **options)  # type: ignore[arg-type]
    except DiagnosticError:
        return  # what is impossible, or refused by `strict`, has no answer to complete
    check_well_formed(once)
    try:
        twice = structir.infer(once, **options)  # type: ignore[arg-type]
    except DiagnosticError as error:
        assert error.code == "E0410"  # it runs with sizes of 0 only, which the result states
        return
    assert structural_equal(twice, once), f"{options}\n{once.script()}\n{twice.script()}"


@pytest.mark.parametrize(("params", "result"), FIXES_A_RANK)
def test_ops_that_fix_the_rank_of_a_row_variable(params: str, result: str) -> None:
    text = f"@R.function\ndef main({params}):\n    return {result}\n"
    for options in OPTIONS:
        require_complete(structir.parse(text), **options)


def test_an_entry_check_is_added_once() -> None:
    text = f"@R.function\ndef main({X}):\n    return R.permute_dims(x, (1, 0))\n"
    module = structir.infer(structir.parse(text), refine="checks")
    assert module.script().count("match_cast") == 1


STATED = re.compile(r'R\.Tensor\(\(([^()]*)\), dtype="(\w+)"\)')


def with_less_known(module: IRModule, rng: Random) -> IRModule | None:
    """Returns the program with some parameter shapes of `main` replaced by row variables, unknown
    ranks and unknown sizes, and without its result annotation."""

    def less(match: re.Match[str]) -> str:
        sizes = [size for size in match[1].split(",") if size.strip()]
        row = rng.choice(['"*s"', '"*t"'])
        shapes = [
            f"({row},)",
            f"({row}, {sizes[-1] if sizes else 1})",
            "(" + '"_", ' * len(sizes) + ")",
        ]
        shape = rng.choice([f"({match[1]})", *shapes, "None"])
        stated = "" if shape == "None" else f"{shape}, "
        return f'R.Tensor({stated}dtype="{match[2]}")'

    lines = module.script().split("\n")
    for k, line in enumerate(lines):
        if line.strip().startswith("def main"):
            lines[k] = STATED.sub(less, line.partition(" -> ")[0]) + ":"
    try:
        made = structir.parse("\n".join(lines))
    except DiagnosticError:
        return None
    return made if well_formed(made) else None


def test_example_programs_with_hidden_shapes() -> None:
    rng = Random(0)
    programs = list(modules().values())
    checked = 0
    for program in rng.sample(programs, 80):
        module = with_less_known(program, rng)
        if module is not None:
            require_complete(module, **rng.choice(OPTIONS))
            checked += 1
    assert checked > 40


@settings(max_examples=20)
@given(st.integers(0, 1 << 30))
def test_random_programs(seed: int) -> None:
    rng = Random(seed)
    require_complete(random_module(seed, 4), **rng.choice(OPTIONS))


def test_labels_of_results_of_deduced_ops_are_inferred_at_once() -> None:
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("2:time", "n:word"), "float32"), start: R.Tensor((), "int64")):
    y: R.Tensor((2, "n"), "float32") = R.exp(x)
    @R.function
    def step(state: R.Tensor((), "int64"), row: R.Tensor(("n",), "float32")):
        return (state, R.zeros(R.shape([3]), "float32"))
    result = R.scan(step, (start,), y)
    return result[1]
""")
    completed = structir.infer(module)
    assert '("2:time", 3)' in completed.script()
    assert structural_equal(structir.infer(completed), completed)


@pytest.mark.parametrize(
    "info", ["ndim=1, dtype='float32'", "('d',), 'float32'", "None, 'float32'"]
)
def test_a_part_of_a_concatenation_is_a_size_beside_a_ragged_axis(info: str) -> None:
    module = structir.parse(f"""
@R.function
def main(
    x: R.Tensor(("n", "*"), "float32"), y: R.Tensor({info}), z: R.Tensor(("n",), "float32")
):
    return R.add(y, x), R.einsum((y, z), "a *s; b *s -> a+b *s")
""")
    inferred = structir.infer(module)
    assert str(inferred["main"].params[1].struct_info) == 'R.Tensor((1,), dtype="float32")'
    assert structural_equal(structir.infer(inferred), inferred)


SHAPE = re.compile(r"R\.Tensor\(\(([^()]*)\)")
BINDING = re.compile(r"    (v\d+_0) = (.*)")


def with_labels(text: str, rng: Random) -> str:
    """Returns a program with labels of some axes of the parameters of `main`."""

    def labelled(match: re.Match[str]) -> str:
        sizes = [size.strip(' "') for size in match[1].split(",")]
        axes = [s + rng.choice([":a", ":a", ":b", *[""] * 6]) if s.isalnum() else s for s in sizes]
        return "R.Tensor((" + "".join([f'"{axis}", ' for axis in axes if axis]) + ")"

    lines = text.split("\n")
    heads = [k for k, line in enumerate(lines) if line.startswith("def main")]
    return "\n".join([SHAPE.sub(labelled, a) if k in heads else a for k, a in enumerate(lines)])


def with_branches(text: str, rng: Random) -> str:
    """Returns a program that computes some values in branches, which require sizes."""
    sizes = re.findall(r"^    (n\d+) = T.int64", text, re.M)
    lines = text.split("\n")
    bindings = [k for k, line in enumerate(lines) if BINDING.fullmatch(line)]
    for k in rng.sample(bindings, min(2, len(bindings))):
        name, value = BINDING.fullmatch(lines[k]).groups()  # type: ignore[union-attr]
        branches = []
        for word in ('if R.const(True, "bool")', "else"):
            branch = [f"    {word}:", f"        {name} = {value}"]
            if sizes and rng.random() < 0.6:
                fact = f"{rng.choice(sizes)} == {rng.choice([*sizes, '1', '2'])}"
                branch.insert(1, f"        R.require('{fact}{rng.choice(['', ' - 1'])}')")
            branches += branch
        lines[k] = "\n".join(branches)
    return "\n".join(lines)


def test_labels_and_branches_of_random_programs() -> None:
    checked = 0
    for seed in (49, 76, 99, 155, 207, 281, 296, *range(6)):  # one round is too few for 7
        rng = Random(seed)
        text = with_branches(with_labels(random_program(rng)[0], rng), rng)
        try:
            module = structir.parse(text)
        except DiagnosticError:
            continue  # an argument of a call needs a match_cast
        if well_formed(module):
            require_complete(module)
            checked += 1
    assert checked > 8


LABEL_OF_A_RESULT = """
@I.ir_module
class Module:
    @R.function
    def f(
        x: R.Tensor(("m:rows",), "float32"),
        y: R.Tensor(("n",), "float32"),
        z: R.Tensor(("m",), "float32"),
        u: R.Tensor(dtype="float32", ndim=2),
    ) -> R.Tuple(
        R.Tensor(("m:rows",), "float32"), R.Tensor(dtype="float32", ndim=2), R.Tensor(("n",))
    ):
        return x, u, y

    @R.function
    def main(
        x: R.Tensor(("n", "n"), "float32"),
        y: R.Tensor(("n",), "float32"),
        z: R.Tensor(("m",), "float32"),
    ):
        v = Module.f(z, z, y, x)
        return y
"""
LABEL_BEHIND_A_RESHAPE = """
@R.function
def main(x: R.Tensor(("m:a", "k"), "float32"), y: R.Tensor(("p", "q"), "float32")):
    z = R.reshape(x, (p, q)) + y
    R.require("m == 7")
    R.require("p == 7")
    return z
"""
CONDITION_OF_SUBSCRIPTS = """
@R.function
def main(x: R.Tensor(("*r", 1, 2, 4), "int32"), y: R.Tensor(("n", "*r", 2, "m"), "int32")):
    n = T.int64()
    v = R.permute_dims(x)
    if R.const(True, "bool"):
        R.require("n == 1")
        z = y
    else:
        R.require("n == 3")
        z = R.einsum((v, y), "a *s; b *s -> a+b *s")
    return z
"""


DEAD_BRANCH = """
@R.function
def main(x: R.Tensor(("n:a", "*", 2), "'T"), y: R.Tensor(("n:a", "*:l", "m"), None)):
    n = T.int64()
    if R.const(False, "bool"):
        z = R.concat((x, y), axis=1)
    else:
        z = x
    return z
"""


@pytest.mark.parametrize(
    "text", [LABEL_OF_A_RESULT, LABEL_BEHIND_A_RESHAPE, CONDITION_OF_SUBSCRIPTS, DEAD_BRANCH]
)
def test_labels_and_sizes_that_are_inferred_late(text: str) -> None:
    require_complete(structir.parse(text))
