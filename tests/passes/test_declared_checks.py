"""No pass drops a declared check: inputs that a program rejects are rejected after every pass, and
accepted inputs give the same results.

The programs have checks whose values have no uses: match_casts, conditions, annotations of results
and parameters of (private and local) functions, in plain blocks, dataflow blocks and branches.
"""

import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import structir
from structir.analysis.well_formed import check_well_formed
from structir.errors import StructIRError
from structir.interpret import interpret
from structir.ir import IRModule
from structir.passes import all_passes
from structir.passes.manager.comparison import same

PROGRAMS = 12
INPUTS = 12
DTYPES = ("float32", "int64")
PASSES = [each for each in all_passes() if each.comparable]
PIPELINES = 2  # random sequences of passes for each program

# A check: statements over x ("n", "m"), y ("m",), z of unknown rank and s, a size
SIZES = ("2", "3", "n", "m", "n + 1", "2 * n", "m - 1", "n * m", "k{0}", "k{0}", "2 * k{0}")
CONDITIONS = ("n >= 2", "n % 2 == 0", "n <= m", "n * m != 9", "s > n", "s >= 0", "s != m - 1")
CHECKS = (
    "c{0} = R.match_cast({v}, R.Tensor(({d}, {e}), {t}))",
    "c{0} = R.match_cast({v}, R.Tensor(({d},), {t}))",
    "c{0} = R.match_cast({v}, R.Tensor(ndim={r}))",
    "c{0} = R.match_cast(R.exp(x), R.Tensor(({d}, {e}), 'float32'))",
    "c{0} = R.match_cast((x, {v}), R.Tuple(R.Tensor, R.Tensor(({d}, {e}))))",
    "c{0} = R.match_cast(R.shape_of(x), R.Shape([{d}, {e}]))",
    "R.require('{q}')",
    "R.require('{q}')",
    "c{0} = cls.helper(x, z)",
    "c{0} = cls.identity(z)",
    "c{0} = cls.related(x, y)",
    "c{0} = local(z)",
)
LOCAL = """
    @R.function
    def local(v: R.Tensor) -> R.Tensor:
        w = R.match_cast(v, R.Tensor(({d}, {e})))
        return v
"""
MODULE = """
@I.ir_module
class Module:
    @R.function(private=True)
    def helper(
        a: R.Tensor(("p", "q"), "float32"), b: R.Tensor(({a},), "float32")
    ) -> R.Tensor(({b}, "q"), "float32"):
        {h}
        return a
    @R.function(private=True)
    def identity(v: R.Tensor) -> R.Tensor(({f}, {g})):
        return v
    @R.function(private=True)
    def related(a: R.Tensor(("p", 3)), b: R.Tensor(("p",))) -> R.Tensor(("p", 3)):
        return a
    @R.function
    def main(
        x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("m",), "float32"), z: R.Tensor,
        size: R.Prim(value="s"), f: R.Tensor((), "bool"),
    ) -> {result}:
        cls = Module
        k0, k1, k2 = T.int64(), T.int64(), T.int64()
        {body}
"""


def program(rng: Random) -> str:
    """Returns the source of a random program."""

    def size(index: int) -> str:
        return rng.choice(SIZES).format(index)

    def statement(index: int) -> str:
        form = rng.choice(CHECKS)
        return form.format(
            index,
            v=rng.choice("xyz"),
            d=size(index),
            e=size(index),
            t=rng.choice(("'float32'", "'int64'", "'float32'")),
            r=rng.randrange(1, 4),
            q=rng.choice(CONDITIONS),
        )

    lines: list[str] = []
    for index in range(rng.randrange(1, 4)):
        line = statement(index)
        kind = rng.randrange(4) if "require" not in line else 0
        if kind == 1:
            output = f"R.output(c{index})" if "local" in line or rng.random() < 0.5 else ""
            lines += ["with R.dataflow():", f"    {line}", f"    u{index} = R.exp(x)"]
            lines += [f"    {output or f'R.output(u{index})'}"]
        elif kind == 2:
            lines += ["if f:", f"    {line}", f"    b{index} = x", "else:", f"    b{index} = x"]
        else:
            lines.append(line)
    if any("local(" in line for line in lines):
        text = LOCAL.format(d=rng.choice(("2", "n", "m")), e=rng.choice(("2", "n", "m")))
        lines = [line[4:] for line in text.strip("\n").splitlines()] + lines
    value = rng.choice(("x", "R.exp(x)", "z", "(x, z)"))
    lines.append(f"return {value}")
    pair = f"({rng.choice(SIZES[:7])}, {rng.choice(SIZES[:7])})"
    annotation = f"R.Tensor({pair})" if rng.random() < 0.4 else "R.Tensor"
    if value == "(x, z)":
        annotation = f"R.Tuple(R.Tensor, {annotation})"
    return MODULE.format(
        body="\n        ".join(lines),
        result=annotation,
        a=rng.choice(('"p"', '"q"', "3", '"r"')),
        b=rng.choice(('"p"', '"p"', "2")),
        f=rng.choice("23"),
        g=rng.choice("23"),
        h=rng.choice(("R.require('p < q')", "h = R.match_cast(b, R.Tensor((2,)))", "pass")),
    )


def arguments(rng: Random) -> list[Any]:
    """Returns arguments most of which meet the declared relations; some break one of them."""
    n, m = rng.choice((2, 2, 1, 3, 4)), rng.choice((3, 3, 2, 4, 1))
    shapes = [[n, m], [m], rng.choice(([n, m], [n], [m], [2, 3], [3], [n, n], [2 * n, m]))]
    broken = rng.randrange(12)
    if broken < 3:
        shape = shapes[broken]
        shape[rng.randrange(len(shape))] += 1
    elif broken == 3:
        rng.choice(shapes).append(1)
    dtypes = ["float32"] * 3
    if broken == 4:
        dtypes[rng.randrange(3)] = "int64"
    tensors = [np.ones(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    return [*tensors, rng.choice((m - 1, n, n + 1, 5, -1)), np.array(rng.random() < 0.5)]


def valid_program(rng: Random) -> IRModule:
    """Returns a random program; skips those that can be rejected without a run."""
    while True:
        try:
            module = structir.parse(program(rng))
            check_well_formed(module)
            return module
        except StructIRError:
            continue


def outcome(run: Callable[..., Any], inputs: list[Any]) -> Any:
    try:
        return run(*inputs)
    except StructIRError as error:
        return error


def rewritten(module: IRModule, rng: Random) -> list[tuple[str, IRModule]]:
    """Returns the program after each pass, and after random pipelines."""
    modules = [(each.name, each(module)) for each in PASSES]
    for _ in range(PIPELINES):
        pipeline, after = rng.sample(PASSES, 5), module
        for each in pipeline:
            after = each(after)
        modules.append((", ".join(each.name for each in pipeline), after))
    return [(name, after) for name, after in modules if after is not module]


def require_checks(module: IRModule, rng: Random) -> tuple[int, int]:
    """Compares the outcomes after all passes; returns the numbers of runs and rejected runs."""
    inputs = [arguments(rng) for _ in range(INPUTS)]
    expected = [outcome(lambda *a: interpret(module, "main", *a), each) for each in inputs]
    runners = [
        (name, lambda *a, m=after: interpret(m, "main", *a))
        for name, after in rewritten(module, rng)
    ]
    for name, run in runners:
        for values, before in zip(inputs, expected, strict=True):
            after = outcome(run, values)
            rejected = isinstance(before, StructIRError)
            shapes = [np.shape(each) for each in values]
            assert isinstance(after, StructIRError) == rejected, (
                name,
                shapes,
                before,
                after,
                module,
            )
            assert rejected or same(before, after, 1e-5), (name, shapes, before, after, module)
    return len(inputs), sum(isinstance(each, StructIRError) for each in expected)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_no_pass_drops_a_declared_check(seed: int) -> None:
    rng = Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        require_checks(valid_program(rng), rng)


UNUSED = """
@I.ir_module
class Module:
    @R.function(private=True)
    def related(a: R.Tensor(("p", 3)), b: R.Tensor(("p",))) -> R.Tensor(("p", 3)):
        return a
    @R.function
    def main(x: R.Tensor(("n", "m")), y: R.Tensor(("m",)), f: R.Tensor((), "bool")):
        cls = Module
        {body}
        return x
"""
BODIES = {
    "call": "c = cls.related(x, y)",
    "branch": "if f:\n            b = R.match_cast(x, R.Tensor((3, 3)))\n"
    "        else:\n            b = x",
}


@pytest.mark.parametrize("name", ["dead_code_elimination", "remove_unused_parameters"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_unused_calls_and_branches_are_still_checked(body: str, name: str) -> None:
    module = structir.parse(UNUSED.format(body=body))
    (each,) = [each for each in PASSES if each.name == name]
    with pytest.raises(StructIRError):
        interpret(each(module), "main", np.ones((2, 3)), np.ones(3), np.array(True))


def test_a_check_of_a_mutually_recursive_function_is_kept() -> None:
    module = structir.parse("""
@I.ir_module
class Module:
    @R.function(private=True)
    def even(x: R.Tensor, k: R.Tensor((), "bool")) -> R.Tensor:
        if k:
            y = R.match_cast(x, R.Tensor((2, 2)))
        else:
            y = cls.odd(x, k)
        return y

    @R.function(private=True)
    def odd(x: R.Tensor, k: R.Tensor((), "bool")) -> R.Tensor:
        if k:
            y = x
        else:
            y = cls.even(x, k)
        return y

    @R.function
    def main(x: R.Tensor, k: R.Tensor((), "bool")):
        unused = cls.even(x, k)
        other = cls.odd(x, k)
        return x
""")
    after = structir.passes.DeadCodeElimination()(module)
    assert after.script().count("cls.even(x, k)") == module.script().count("cls.even(x, k)")
    assert after.script().count("cls.odd(x, k)") == module.script().count("cls.odd(x, k)")


@pytest.mark.parametrize("sizes", [(4, 3, 1), (4, 3, 3), (4, 3, 2)])
def test_decompose_keeps_the_sizes_that_an_op_assumes_to_be_equal(
    sizes: tuple[int, int, int],
) -> None:
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("m",), "float32")):
    return R.nn.rms_norm(x, w, axes=[1])
""")
    rows, columns, weights = sizes
    arguments = np.ones((rows, columns), "float32"), np.ones(weights, "float32")
    decomposed = structir.passes.Decompose()(module)
    if columns == weights:
        structir.interpret(decomposed, "main", *arguments)
        return
    for program in (module, decomposed):
        with pytest.raises(StructIRError, match="k"):
            structir.interpret(program, "main", *arguments)


@pytest.mark.parametrize("declared", ['("k",), "float32"', '"float32", ndim=1'])
def test_a_lifted_function_checks_dims_of_the_enclosing_one(declared: str) -> None:
    module = structir.parse(f"""
@R.function
def main(x: R.Tensor(("n",), "float32"), y: R.Tensor({declared})):
    @R.function
    def closure(p: R.Tensor(("n",), "float32")):
        return R.exp(p)
    z = closure(y)
    return z
""")
    lifted = structir.passes.LambdaLift()(module)
    assert "@R.function(private=True)" in lifted.script()
    three, two = np.ones(3, "float32"), np.ones(2, "float32")
    for program in (module, lifted):
        structir.interpret(program, "main", three, three)
        with pytest.raises(StructIRError, match="axis 0: expected n = "):
            structir.interpret(program, "main", two, three)


MAPPED = {  # parameters, the value of the body, the call
    "cast": ("a: R.Tensor(ndim=1)", "R.match_cast(u, {info})", "R.map(f, z)"),
    "parameter": ("a: {info}", "a", "R.map(f, z)"),
    "fold": (
        "b: R.Tensor((), 'float32'), a: R.Tensor(ndim=1)",
        "R.match_cast(u, {info})",
        "R.reduce(f, R.const(0.0, 'float32'), z)",
    ),
}


@pytest.mark.parametrize("combinator", MAPPED)
@pytest.mark.parametrize(("sizes", "dtype"), [("'n'", "'float32'"), ("'*s'", '"\'T"')])
def test_local_functions_of_combinators_check_variables_of_the_enclosing_function(
    combinator: str, sizes: str, dtype: str
) -> None:
    info = f"R.Tensor(({sizes},), {dtype})"
    params, value, call = [each.format(info=info) for each in MAPPED[combinator]]
    module = structir.parse(f"""
@R.function
def main(x: {info}, u: R.Object, z: R.Tensor((4, 'm'), {dtype})):
    @R.function
    def f({params}):
        c = {value}
        return R.astype(R.sum(c), "float32")
    return {call}
""")
    changed = {each.name: each(module) for each in PASSES}
    assert "R.map" not in changed["expand_combinators"].script()
    accepted = [np.ones(3, "float32"), np.ones(3, "float32"), np.ones((4, 3), "float32")]
    rejected = list(accepted)
    rejected[2 if combinator == "parameter" else 1] = np.ones(
        (4, 2)[combinator != "parameter" :], "float32"
    )
    expected = interpret(module, "main", *accepted)
    for program in dict.fromkeys([module, *changed.values()]):
        assert same(expected, interpret(program, "main", *accepted), 1e-5)
        with pytest.raises(StructIRError, match="expected"):
            interpret(program, "main", *rejected)
