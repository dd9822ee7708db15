"""Loops, comprehensions and conditions over values of Python are resolved at parse time."""

import contextlib
import itertools
from collections import OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import structir
from structir.errors import DiagnosticError
from structir.script import R
from tests.cases import every_case

W = np.arange(16, dtype="float32").reshape(4, 4)
VALUES = {
    "W": W,
    "OPTIONS": {"keepdims": True},
    "FLAG": True,
    "OFF": False,
    "COUNT": 3,
    "NAMES": ("w", "v"),
    "PAIRS": [("exp", 1.0), ("log", 2.0)],
    "PARAMS": OrderedDict([("w", 0.5), ("layers.0", 1.0), ("layers.1", 2.0)]),
    "LAYERS": [{"scale": 1.0, "bias": None}, {"scale": 2.0, "bias": 3.0}],
    "CONFIG": SimpleNamespace(bias=None, heads=2, act="exp", hidden=8, dtype=np.float32),
    "OPS": {"exp": R.exp, "log": R.log},
}
HEADER = """@R.function
def main(x: R.Tensor(("n", 4), "float32"), t: R.Tuple(R.Tensor((4,), "float32"), R.Tensor)):
    n = T.int64()
"""


def parsed(body: str, **more):
    text = HEADER + "".join(f"    {line}\n" for line in body.splitlines())
    return structir.parse(text, constants=VALUES | more)


def error_of(body: str, **more):
    with pytest.raises(DiagnosticError) as caught:
        parsed(body, **more)
    return caught.value.diagnostics[0]


# statements over values of Python, and the statements that they stand for
PROGRAMS = {
    "range": (
        "for i in range(3):\n    x = x + float(i)\nreturn x",
        "x = x + 0.0\nx = x + 1.0\nx = x + 2.0\nreturn x",
    ),
    "captured range": (
        "for i in range(1, COUNT):\n    x = R.sum(x, axis=0, keepdims=i == 2)\nreturn x",
        "x = R.sum(x, axis=0, keepdims=False)\nx = R.sum(x, axis=0, keepdims=True)\nreturn x",
    ),
    "no iterations": ("for i in range(0):\n    x = R.bad(x)\nreturn x", "return x"),
    "enumerate of dicts": (
        "for k, p in enumerate(LAYERS):\n    x = x * p['scale']\n    if k == 1:\n"
        "        x = x + p['bias']\nreturn x",
        "x = x * 1.0\nx = x * 2.0\nx = x + 3.0\nreturn x",
    ),
    "zip": (
        "for p, s in zip(LAYERS, (5.0, 6.0)):\n    x = x * p['scale'] + s\nreturn x",
        "x = x * 1.0 + 5.0\nx = x * 2.0 + 6.0\nreturn x",
    ),
    "nested names": (
        "for k, (name, s) in enumerate(PAIRS):\n    x = OPS[name](x) + s * (k + 1)\nreturn x",
        "x = R.exp(x) + 1.0\nx = R.log(x) + 4.0\nreturn x",
    ),
    "a dict": (
        "for name, s in PARAMS.items():\n    if name != 'w':\n        x = x * s\nreturn x",
        "x = x * 1.0\nx = x * 2.0\nreturn x",
    ),
    "keys and values": (
        "for k, v in zip(PARAMS.keys(), PARAMS.values()):\n    x = x * v\nreturn x",
        "x = x * 0.5\nx = x * 1.0\nx = x * 2.0\nreturn x",
    ),
    "reversed slices": (
        "for p in reversed(PAIRS[:2]):\n    x = x * p[1]\nreturn x",
        "x = x * 2.0\nx = x * 1.0\nreturn x",
    ),
    "f-strings": (
        "for i in range(2):\n    x = x * PARAMS[f'layers.{i}']\nreturn x",
        "x = x * 1.0\nx = x * 2.0\nreturn x",
    ),
    "rows of an array": (
        "for i in range(2):\n    x = R.add(x, W[i])\nreturn x",
        "x = R.add(x, R.const([0.0, 1.0, 2.0, 3.0], 'float32'))\n"
        "x = R.add(x, R.const([4.0, 5.0, 6.0, 7.0], 'float32'))\nreturn x",
    ),
    "a tuple of the program": (
        "for y in t:\n    x = R.add(x, R.exp(y))\nreturn x",
        "y = t[0]\nx = R.add(x, R.exp(y))\ny = t[1]\nx = R.add(x, R.exp(y))\nreturn x",
    ),
    "parts of a call": (
        "for y in R.split(x, 2, axis=1):\n    z = R.exp(y)\nreturn z",
        "s = R.split(x, 2, axis=1)\ny = s[0]\nz = R.exp(y)\ny = s[1]\nz = R.exp(y)\nreturn z",
    ),
    "a comprehension": (
        "return R.concat([x * s for _, s in PAIRS if s > 0], axis=0)",
        "return R.concat([x * 1.0, x * 2.0], axis=0)",
    ),
    "a generator of sizes": (
        "return R.zeros(tuple(k * 2 for k in range(1, 3)), 'int8')",
        "return R.zeros((2, 4), 'int8')",
    ),
    "a taken branch": (
        "if FLAG:\n    x = R.exp(x)\nelse:\n    x = R.bad(q)\nreturn x",
        "x = R.exp(x)\nreturn x",
    ),
    "no else": ("if OFF:\n    x = R.bad(x)\nreturn R.exp(x)", "return R.exp(x)"),
    "elif": (
        "if CONFIG.act == 'log':\n    x = R.log(x)\nelif CONFIG.act == 'exp':\n    x = R.exp(x)\n"
        "else:\n    x = q\nreturn x",
        "x = R.exp(x)\nreturn x",
    ),
    "None": ("if CONFIG.bias is None:\n    return R.exp(x)\nreturn R.add(x, q)", "return R.exp(x)"),
    "not None": (
        "if x is not None and not OFF:\n    return R.exp(x)\nelse:\n    return q",
        "return R.exp(x)",
    ),
    "membership": (
        "if 'w' in PARAMS and 'v' not in PARAMS and 'v' in NAMES:\n    x = R.exp(x)\nreturn x",
        "x = R.exp(x)\nreturn x",
    ),
    "a chain": ("if 0 < COUNT <= 3:\n    x = R.exp(x)\nreturn x", "x = R.exp(x)\nreturn x"),
    "dtypes": (
        "if CONFIG.dtype == 'float32':\n    x = R.exp(x)\nreturn x",
        "x = R.exp(x)\nreturn x",
    ),
    "conditional expressions": (
        "y = x * (CONFIG.hidden ** 0.5 if OFF else 2.0)\nreturn R.exp(y) if FLAG else q",
        "y = x * 2.0\nreturn R.exp(y)",
    ),
    "aliases": (
        "h, d = CONFIG.heads, 4 // CONFIG.heads\np = LAYERS[0]\n"
        "return R.reshape(x * p['scale'], (n, h, d))",
        "return R.reshape(x * 1.0, (n, 2, 2))",
    ),
    "get and len": (
        "return x * PARAMS.get('v', 7.0) * float(len(LAYERS)) * max(1.0, float(len(t)))",
        "return x * 7.0 * 2.0 * 2.0",
    ),
    "stars": (
        "return R.concat([*t, *t], axis=0)",
        "return R.concat([t[0], t[1], t[0], t[1]], axis=0)",
    ),
    "stars in calls": (
        "return R.sum(*(x, (0, 1)), **OPTIONS)",
        "return R.sum(x, (0, 1), keepdims=True)",
    ),
    "strings": (
        "inner = ('w', 'layers.1')\nmode = 'w'\nfor name in inner:\n    x = x * PARAMS[name]\n"
        "return x * PARAMS[mode]",
        "x = x * 0.5\nx = x * 2.0\nreturn x * 0.5",
    ),
    "unpacked comprehensions": (
        "a, b = [R.exp(y) for y in t]\nreturn R.add(x, a), b",
        "y = t[0]\na = R.exp(y)\ny = t[1]\nb = R.exp(y)\nreturn R.add(x, a), b",
    ),
    "in a branch": (
        "if n > 2:\n    for i in range(2):\n        y = R.log(x)\n        x = R.exp(y)\nelse:\n"
        "    if FLAG:\n        x = R.log(x)\n    else:\n        y = q\nreturn x",
        "if n > 2:\n    y = R.log(x)\n    x = R.exp(y)\n    y = R.log(x)\n    x = R.exp(y)\nelse:\n"
        "    x = R.log(x)\nreturn x",
    ),
    "in a dataflow block": (
        "with R.dataflow():\n    y = x\n    for i in range(2):\n        y = R.exp(y)\n"
        "    R.output(y)\nreturn y",
        "with R.dataflow():\n    a = x\n    b = R.exp(a)\n    y = R.exp(b)\n"
        "    R.output(y)\nreturn y",
    ),
}


@pytest.mark.parametrize(("unrolled", "literal"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_over_values_is_the_one_written_out(unrolled, literal):
    module = parsed(unrolled)
    assert structir.structural_equal(module, parsed(literal))
    assert structir.structural_equal(structir.parse(module.script()), module)


def test_variables_of_a_comprehension_end_with_it_and_those_of_a_loop_remain():
    assert "`k` is not defined" in error_of("y = [x * s for k, s in PAIRS]\nreturn k").message
    module = parsed("for s in (1.0, 2.0):\n    y = x\nreturn x * s")
    assert structir.structural_equal(module, parsed("y = x\ny = x\nreturn x * 2.0"))
    module = parsed("s = 9.0\ny = [x * s for _, s in PAIRS]\nreturn x * s")
    assert 'R.multiply(x, R.const(9.0, "float32"))' in module.script()


def test_a_condition_of_literals_or_sizes_is_a_value_of_the_program():
    for test in ("True", "n > 4", "n == 4"):
        body = f"if {test}:\n    y = R.exp(x)\nelse:\n    y = R.log(x)\nreturn y"
        module = parsed(body)
        assert "if R.prim_value(" in module.script()
        assert structir.structural_equal(structir.parse(module.script()), module)


@pytest.mark.parametrize(
    "iterable", ["x", "range(n)", "R.exp(x)", "W", "COUNT", "CONFIG", "zip(x, t)"]
)
def test_a_loop_over_a_tensor_is_one_error(iterable):
    diagnostic = error_of(f"for i in {iterable}:\n    x = R.exp(x)\nreturn x")
    assert "`for` is not supported in @R.function" in diagnostic.message
    assert "R.scan" in diagnostic.hint


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(10**18):\n    x = R.exp(x)\nreturn x",
        "for i in range(2000):\n    for j in range(2000):\n        x = R.exp(x)\nreturn x",
        "y = [i for i in range(10**18)]\nreturn x",
        "for i in reversed(range(10**18)):\n    pass\nreturn x",
        "y = [0.0 for i in range(4000) for j in range(4000)]\nreturn x",
        "for i in zip(range(10**18), range(10**18)):\n    pass\nreturn x",
    ],
)
def test_a_loop_of_too_many_iterations_is_one_error(body):
    assert error_of(body).code == "E0109"


def test_errors_of_an_iteration_are_reported_once():
    with pytest.raises(DiagnosticError) as caught:
        parsed("for i in range(3):\n    x = R.add(x, q)\nreturn x")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == "`q` is not defined"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return x * PARAMS['u']", "`PARAMS` (OrderedDict) has no item 'u'"),
        ("return x * CONFIG.hiden", "has no stored field `hiden`"),
        ("return x * PAIRS[5]", "`PAIRS` (list) has no item 5"),
        ("for a, b, c in PAIRS:\n    pass\nreturn x", "cannot unpack 2 values into 3 names"),
        ("a, b, c = PAIRS\nreturn x", "cannot unpack 2 values into 3 names"),
        ("for k, v in enumerate(LAYERS):\n    x = x * v\nreturn x", "cannot capture"),
        ("for a, b in zip(PAIRS, range(3), strict=True):\n    pass\nreturn x", "of one length"),
        ("return x * (2.0 if x else 1.0)", "a conditional expression is not supported"),
        ("return x and x", "`and` is not supported"),
    ],
)
def test_a_value_that_does_not_exist_is_one_error(body, message):
    diagnostic = error_of(body)
    assert message in diagnostic.message and diagnostic.hint


def traps():
    """Objects whose operators run code."""

    def rejects(*_args):
        raise AssertionError("executed")

    words = ("eq", "bool", "len", "iter", "contains", "getitem", "getattr", "add", "lt")
    words += ("index", "format", "float", "call")
    methods = {f"__{word}__": rejects for word in words}
    methods |= {"__hash__": object.__hash__, "__class__": property(rejects)}
    meta = type("Meta", (type,), {"__getattribute__": rejects})
    mapping = {name: rejects for name in ("__getitem__", "__iter__", "items", "get", "__len__")}
    key = type("Key", (str,), {"__hash__": str.__hash__, "__eq__": rejects})
    value = type("Trap", (), methods)()
    return {
        "object": value,
        "metaclass": meta("OfMeta", (), {})(),
        "dict": type("Dict", (dict,), mapping)(v=1),
        "list": type("List", (list,), mapping)([value]),
        "key": {key("w"): 1, "u": value},
    }


EXPRESSIONS = (
    *("V == 1", "1 < V", "V is None", "not V", "V and 1", "V in (1,)", "1 in V", "'w' in V"),
    *(
        "len(V)",
        "float(V)",
        "f'{V}'",
        "V + 1",
        "V['w']",
        "V[0]",
        "V.w",
        "V.get('w')",
        "[V]",
        "V[V]",
    ),
    *(
        "[k for k in V]",
        "[k for k in V.items()]",
        "max(V, 1)",
        "2 if V else 3",
        "-V",
        "(V, 1) == V",
    ),
)


@every_case(("expression", "trap"), itertools.product(EXPRESSIONS, traps()))
def test_no_code_of_a_value_runs(expression, trap):
    value = traps()[trap]
    for body in (
        f"return R.multiply(x, {expression})",
        f"if {expression}:\n    x = R.exp(x)\nreturn x",
        f"for i in {expression}:\n    pass\nreturn x",
        f"y = {expression}\nreturn x",
    ):
        with contextlib.suppress(DiagnosticError):
            parsed(body, V=value)


@given(st.lists(st.integers(-3, 3), max_size=4), st.integers(-3, 4), st.booleans())
def test_static_expressions_have_the_values_of_python(numbers, k, flag):
    texts = (
        *("len(N)", "k + len(N) * 2", "k in N", "k < 2 <= len(N)", "flag and k", "flag or k"),
        *("not N", "N[:2] == [1, 2]", "max(k, 1)", "k if flag else -k", "k is None", "abs(k)"),
        *("[a * 2 for a in N if a > 0] == N", "f'{k}-{flag}' == '1-True'", "N[0] if N else k"),
    )
    values = {"N": numbers, "k": k, "flag": flag}
    for text in texts:
        expected = eval(text, {}, values)
        module = parsed(f"if ({text}) == E:\n    return R.exp(x)\nreturn x", E=expected, **values)
        assert "R.exp(x)" in module.script(), (text, expected)
