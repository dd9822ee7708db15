"""The examples of the shape solver for ONNX in Rosette, by file and position in it.

The files are those of the repository `shape-inference-rosette`: *readme*, *test*, *checker test*,
*symbolic test*, *affine test*, *affine demo* and *affine experiments*. Its broadcasts align first
dims, and a dim 0 is an absent one: shapes with broadcasts are written here in reverse, and absent
dims are left out.
"""

from collections.abc import Sequence

import pytest

import structir
from structir.errors import StructIRError
from structir.solver import Solver

pytestmark = pytest.mark.filterwarnings("ignore::structir.errors.DiagnosticWarning")
UNKNOWN = 'R.Tensor(dtype="float32")'
MATRIX = 'R.Tensor(dtype="float32", ndim=2)'
ONE_WAY = 'R.sig("~s; *s -> *s")'
SIZES = 'sizes: R.Shape(("n", "m", "k"))'


def tensor(*sizes: int | str) -> str:
    entries = "".join([f"{size!r}, " for size in sizes])
    return f'R.Tensor(({entries}), "float32")'


def program(params: Sequence[str], body: str, result: str | None = None) -> str:
    arrow = f" -> {result}" if result else ""
    lines = "".join([f"    {line.strip()}\n" for line in body.strip().splitlines()])
    return f"@R.function\ndef main({', '.join(params)}){arrow}:\n{lines}"


def shapes(text: str, close: bool = False) -> list[str]:
    """Returns the inferred shapes: of the parameters that are tensors, and of the bindings."""
    function = structir.infer(structir.parse(text), close=close)["main"]
    variables = [*function.params, *[binding.var for binding in function.bindings()]]
    infos = [str(variable.struct_info) for variable in variables]
    inner = [i.removeprefix("R.Tensor(").removesuffix(")") for i in infos if "Shape" not in i]
    return [i.replace('dtype="float32"', "").removesuffix(", ") for i in inner]


def holds(text: str) -> bool:
    try:
        structir.infer(structir.parse(text))
    except StructIRError:
        return False
    return True


def broadcasts(a: tuple[int, ...], b: tuple[int, ...], r: tuple[int, ...]) -> bool:
    """Whether two shapes broadcast to a third one; dims are given innermost first."""
    a, b, r = a[::-1], b[::-1], r[::-1]
    return holds(
        program([f"x: {tensor(*a)}", f"y: {tensor(*b)}"], "return R.add(x, y)", tensor(*r))
    )


def broadcasts_to(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether `b` broadcasts to `a` in one direction; dims are given innermost first."""
    shape = ", ".join(map(str, a[::-1]))
    return holds(
        program([f"y: {tensor(*b[::-1])}"], f"return R.broadcast_to(y, R.shape([{shape}]))")
    )


def dims(*sizes: int) -> list[tuple[int, ...]]:
    return [(size,) if size else () for size in sizes]


GEMM = """
p = R.matmul(a, b)
q = R.broadcast_to(c, R.shape([2, 4]))
return R.add(p, q)
"""


def gemm(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...]) -> bool:
    params = [f"{name}: {tensor(*sizes)}" for name, sizes in zip("abc", (a, b, c), strict=True)]
    return holds(program(params, GEMM, tensor(2, 4)))


def test_checker_test_concrete() -> None:
    assert not broadcasts((2, 3), (1, 3), (1, 3))
    assert broadcasts((2, 3), (1, 3), (2, 3))


def test_test_false_cases_of_multi_directional_rules() -> None:
    triples = [(1, 1, 3), (1, 2, 3), (0, 0, 2), (1, 2, 1)]
    triples += [(2, 3, 3), (2, 2, 1), (0, 2, 3), (1, 0, 0)]
    assert not any(broadcasts(*dims(*triple)) for triple in triples)


def test_test_true_cases_of_multi_directional_rules() -> None:
    triples = [(1, 1, 1), (1, 2, 2), (2, 2, 2), (2, 1, 2), (0, 3, 3), (3, 0, 3), (0, 0, 0)]
    assert all(broadcasts(*dims(*triple)) for triple in triples)


def test_test_multi_directional_broadcasting() -> None:
    assert broadcasts((2, 2), (2, 1), (2, 2))
    assert broadcasts((2,), (2, 3), (2, 3))
    assert broadcasts((), (2, 3), (2, 3))
    assert not broadcasts((2, 2), (2, 2), (2, 1))
    assert not broadcasts((2,), (2, 1), (2, 2))
    assert not broadcasts((2, 2), (2, 1), ())
    assert not broadcasts((2, 2), (2, 1), (2, 2, 1))


def test_test_one_directional_rules() -> None:
    true = [(0, 0), (1, 1), (1, 0), (2, 1), (2, 0), (2, 2)]
    assert all(broadcasts_to(*dims(*pair)) for pair in true)
    assert not any(broadcasts_to(*dims(*pair)) for pair in [(0, 1), (1, 2), (0, 2), (2, 3)])


def test_test_one_directional_broadcasting() -> None:
    assert broadcasts_to((2, 2), (2, 1)) and broadcasts_to((2, 3), (2,))
    assert broadcasts_to((2, 3), ())
    assert not broadcasts_to((2, 1), (2, 2)) and not broadcasts_to((2,), (2, 1))


def test_test_gemm() -> None:
    assert gemm((2, 3), (3, 4), (2, 4)) and gemm((2, 3), (3, 4), ())
    assert not gemm((2, 5), (3, 4), (2, 4)) and not gemm((2, 3), (3, 4), (2, 3))


def test_symbolic_test_multi_directional_broadcasting() -> None:
    assert broadcasts((1, 3), (2, 3), (2, 3))
    first = program([f"x: {tensor(3, 1)}", f"y: {UNKNOWN}"], "return R.add(x, y)", tensor(3, 2))
    assert shapes(first)[1] == '("*r0", 2)'  # 1 or 3 before it, or nothing
    assert shapes(first, close=True)[1] == "(3, 2)"
    both = program([f"x: {tensor(3, 1)}", f"y: {UNKNOWN}"], "z = R.add(x, y)\nreturn z")
    assert shapes(both) == ["(3, 1)", "", ""]  # S2: any shape
    assert shapes(both, close=True) == ["(3, 1)", "()", "(3, 1)"]
    square = program([f"x: {tensor(2, 2)}", f"y: {UNKNOWN}"], "return R.add(x, y)", tensor(2, 2))
    assert shapes(square, close=True)[1] == "(2, 2)"


def test_symbolic_test_add() -> None:
    body = "a = R.add(x, y)\nb = R.add(a, z)\nreturn b"
    params = [f"x: {tensor(3, 1)}", f"y: {tensor(1, 4)}", f"z: {tensor(5, 1, 1)}"]
    assert shapes(program(params, body))[3:] == ["(3, 4)", "(5, 3, 4)"]


def test_symbolic_test_gemm() -> None:
    body = f"""
    m1 = R.add(R.matmul(a, b), c)
    t: {tensor(3, 7)} = R.matmul(m1, d)
    m2 = R.add(t, e)
    return m2
    """
    params = [f"a: {tensor(3, 4)}", f"b: {tensor(4, 5)}", f"c: {tensor(3, 5)}"]
    params += [f"d: {MATRIX}", f"e: {tensor(3, 7)}"]
    inferred = shapes(program(params, body))
    assert inferred[3] == "(5, 7)"
    assert (inferred[6], inferred[-1]) == ("(3, 5)", "(3, 7)")


MUL_AND_ADD = f"""
p: {tensor(3, 5)} = R.matmul(a, i1)
t1 = R.add(p, c)
k = T.int64()
t2 = R.match_cast(R.add(t1, i2), R.Tensor((3, k), "float32"))
q: {tensor(3, 7)} = R.matmul(t2, i3)
t3 = R.add(q, f)
return t3
"""


def test_readme_and_symbolic_test_mul_and_add() -> None:
    params = [f"a: {tensor(3, 4)}", f"i1: {MATRIX}", f"c: {tensor(3, 5)}", f"i2: {UNKNOWN}"]
    params += [f"i3: {MATRIX}", f"f: {tensor(3, 7)}"]
    text = program(params, MUL_AND_ADD)
    i1, i2, i3 = (shapes(text, close=True)[k] for k in (1, 3, 4))
    assert (i1, i3) == ("(4, 5)", "(5, 7)")
    assert i2 == "(3, 5)"  # Rosette chooses (); it is underconstrained


def test_affine_test_one_dir_bcast() -> None:
    body = "a = R.broadcast_to(y, R.shape([n, m]))\nreturn a"
    assert shapes(program([SIZES, f"y: {UNKNOWN}"], body))[1] == "(n, m)"
    between = f"a = {ONE_WAY}(x, y)\nb = R.broadcast_to(a, R.shape([n, m]))\nreturn b"
    params = [SIZES, f"x: {tensor('n', 1)}", f"y: {UNKNOWN}"]  # A1: from a1 to a3
    assert shapes(program(params, between))[1] == "(n, d0)"
    assert shapes(program(params, between), close=True)[1] == "(n, 1)"
    both = f"a = {ONE_WAY}(x, z)\nb = {ONE_WAY}(y, z)\nreturn (a, b)"
    params = [f"x: {tensor('n', 'm + n')}", f"y: {tensor('m', 1, 1)}", f"z: {UNKNOWN}"]
    assert shapes(program(params, both), close=True)[2] == "(m, n, m + n)"  # A2


def test_affine_test_multi_dir_bcast() -> None:
    params = [f"x: {tensor('n', 'm + n')}", f"y: {tensor('m', 1, 1)}"]
    assert shapes(program(params, "return R.add(x, y)"))[-1] == "(m, n, m + n)"
    result = tensor(4, "3 * n", "2 * m")
    params = [SIZES, f"x: {UNKNOWN}", f"y: {tensor(1, '2 * m')}"]
    inferred = shapes(program(params, "return R.add(x, y)", result))
    assert inferred[0].startswith("(4, ") and inferred[2] == "(4, d1, 2 * m)"


def test_affine_test_add() -> None:
    body = "a = R.add(x, y)\nb = R.add(a, z)\nreturn b"
    params = [f"x: {tensor('n', 1)}", f"y: {UNKNOWN}", f"z: {tensor(5, 1, 1)}"]
    assert shapes(program(params, body), close=True)[1:] == [
        "()",
        "(5, 1, 1)",
        "(n, 1)",
        "(5, n, 1)",
    ]


def test_affine_demo() -> None:
    body = f"""
    p: {tensor("n + m", "n + k")} = R.matmul(a, b)
    t1 = R.add(p, c)
    t2: {tensor("n + m", "n + k")} = R.add(t1, d)
    q: {tensor("n + m", "m")} = R.matmul(t2, e)
    t3 = R.add(q, f)
    return t3
    """
    known = {
        "a": tensor("n + m", "1 + k"),
        "b": tensor("1 + k", "n + k"),
        "c": tensor("n + m", "n + k"),
        "d": tensor("n + m", 1),
        "e": tensor("n + k", "m"),
        "f": tensor(1, "m"),
    }
    for unknown in ((), ("d",), ("b", "d", "e"), ("b", "c", "e"), tuple("abcde")):
        infos = {
            n: info if n not in unknown else UNKNOWN if n in "cd" else MATRIX
            for n, info in known.items()
        }
        inferred = shapes(program([SIZES, *[f"{n}: {info}" for n, info in infos.items()]], body))
        assert inferred[-3:] == ["(n + m, n + k)"] + ["(n + m, m)"] * 2
        assert "c" in unknown or inferred[6:8] == ["(n + m, n + k)"] * 2
        assert "e" not in unknown or inferred[4].endswith(", m)")
    wrong = {**known, "e": tensor("n + k + 1", "m")}
    assert not holds(program([SIZES, *[f"{n}: {info}" for n, info in wrong.items()]], body))


def test_affine_experiments() -> None:
    """J and K lie between f and g, which differ by 3; L is a quotient and a remainder."""
    bounds = ("3 * n - 4 * m + 1 < j", "j < k", "k < 3 * n - 4 * m + 4")
    solver = Solver()
    for bound in bounds:
        solver.require(bound)
    assert solver.shape("r", ("j", "k")) == ("3 * n - 4 * m + 2", "3 * n - 4 * m + 3")
    solver.require("l == 3 * n + n // 12 + n % 4 + 2")
    assert solver.shape("s", ("l",)) == ("3 * n + n // 12 + n % 4 + 2",)
