"""Programs with mutated syntax are parsed, or rejected by one diagnostic with a location."""

import ast
import copy
import warnings
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

import structir
from structir.analysis import check_well_formed
from structir.errors import DiagnosticError
from tests.printer.test_mutations import TREES as CORPUS

SOURCE = """
@I.ir_module
class Module:
    I.module_attrs({"note": 1})

    @R.function(private=True)
    def helper(x: R.Tensor(("n", 4), "float32"), s: R.Shape()) -> R.Tensor(("n", 4), "float32"):
        R.func_attr({"kind": "inner", "level": [1, 2]})
        with R.dataflow():
            a = R.nn.softmax(x, axis=-1)
            b: R.Tensor(("n", 4), "float32") = R.add(a, R.const([1, 2, 3, 4], "float32"))
            R.output(b)
        return b

    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("*s", 3), "float32"), c: R.Tensor((), "bool")
    ):
        n, k = T.int64(), T.int64()
        u = cls.helper(x, R.shape([n]))
        v = R.match_cast(y, R.Tensor((k, 3), "float32"))
        if c:
            w = R.exp(u)
        else:
            w = u * R.const(2.0, "float32")

        @R.function
        def inner(z: R.Tensor(("n", 4), "float32")):
            return R.negative(z)

        parts = R.split(inner(w), 2, axis=1)
        t = (parts[0], R.concat((parts[1], parts[0]), axis=1))
        return t, R.call_pure_packed("f", v, sinfo_args=R.Tensor((k, 3), "float32"))
---
@R.function(pure=False)
def main(x: R.Tensor((3, "m"), "float32")):
    m = T.int64()
    R.require("m >= 2")
    _ = R.call_packed("log", x, sinfo_args=R.Tuple())
    y = R.sig("a b -> b a")(x)
    z = R.einsum((x, x), subscripts="ij,ij->i")
    return R.reshape(x, (m * 3,)), y, z, R.prim_value(m + 1), R.zeros((m, 2), "int64")
---
@I.ir_module
class Kernels:
    @I.kernel
    def add(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
        for i in range(n):
            if i > 2:
                y[i] = x[i] + T.float32(1)
            else:
                y[i] = x[i]

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        return R.call_kernel(cls.add, (x,), out_sinfo=R.Tensor((n,), "float32"))
"""
PROGRAMS = SOURCE.split("---\n")
OWN = [ast.parse(text) for text in PROGRAMS]
EXPRESSIONS = """
*x; **x; lambda: x; lambda x, *y, **z: x; (y := x); (y := 1); await x; [*x, *x]; (*x,); {**x}
{x: x}; {}; {*x}; {1, 2}; [i for i in x]; {i for i in x}; {i: i for i in x}; (i for i in x)
x if x else x; x and x; not x; ~x; x < x < x; x in x; x is None; f"{x}"; f"{x!r:>{x}}"; b"x"
"x" "y"; ...; None; True; 1j; 1e400; -1e400; 10**400; 9**9**9; 1 << 10**9; x[1:2]; x[1, 2]
x[::-1]; x[...]; x[None]; x[x]; x[-10**30]; x[True]; x[0.5]; x["a"]; x.T; x.shape[0]; x.__class__
x(); x(x, *x, **x); R; R.exp; R.nothing(x); R.exp; T; T.int64; T.int64(); I; cls; cls.main
cls.nothing(x); main; R.Tensor; R.Tensor(); R.Tuple; R.Tuple(); R.Shape(); R.Object; R.Object()
R.Prim; R.Prim("int64"); R.Callable; R.Func; R.const(x); R.const([[1], [2, 3]]); R.const([])
R.const("a"); R.const(1e400, "float16"); R.const(10**30); R.const({}); R.const(None)
R.const(True, "float32"); R.const(-1, "uint8"); R.const(1, "x"); R.const(1, None)
R.const(1.5, "int8"); R.shape(x); R.shape([-1]); R.shape([x]); R.shape(["n", "*s"]); R.shape_of(x)
R.prim_value(x); R.prim_value("n"); R.str("x"); R.tuple(x, x); R.tuple(); (); (x,); []; ((),)
R.output(x); R.dataflow(); R.function; R.func_attr({}); R.require("n >"); R.row("s")
R.match_cast(x, x); R.match_cast(x, R.Object); R.match_cast(R.Tensor, x); R.call_packed(x)
R.call_pure_packed("f", sinfo_args=x); R.sig("a -> a")(x); R.sig("*s -> *s")(1)
R.sig("a a b -> b")(x); R.sig("->")(x); R.sig("")(x); R.sig(x)(x); R.sig("a -> a")()
R.call_kernel(cls.main, (x,), R.Object); R.call_kernel(x, x); R.scan(x, x, x); R.reshape(x, "n")
R.reshape(x, (-1, -1)); R.expand_dims(x, [5]); R.expand_dims(x, []); R.permute_dims(x, [0, 0])
R.split(x, [3, 1, -2]); R.split(x, 0); R.concat(x); R.concat([]); R.take(x, 7, axis=9)
R.einsum((x,), "i->j"); R.einsum((x,), "ii->i"); R.einsum((), "->"); R.full((2,), x, "f"); "n"
"*s"; "2 * n"; "n +"; "n; m"; "n\\n"; ""; "é"; "n²"; "\\x00"; "__import__('os')"; "float32"
"\u2167"
"\uff4e"; "n" * 3; "lambda: 0"; -x; +x; x @ x; x // 0; 1 // 0; 1 % 0; 0 ** -1; 2 ** -1; 1.5 // 0
x ** x; x + "a"; "a" + x; x + None; x - (); 2**63; -(2**63) - 1
""".replace("\n", ";").split(";")
STATEMENT_TEXTS = """
y = z = x|x, y = x|x, = x|(a, *b) = x|[a, b] = x|x.y = x|x[0] = x|x += 1|x: int|x: R.Tensor
y: R.Object = x|x: "R.Tensor" = x|del x|pass|...|x|"doc"|assert x|raise x|global x|nonlocal x
import os|from os import path as p|from . import x|return|return x, *x|for i in x: pass
for i in range(3): y = x|while x: pass|while True: break|try: pass\nexcept x as e: pass
try: pass\nfinally: pass|with x: pass|with R.dataflow(): pass|with R.dataflow() as d: y = x
with R.dataflow(), R.dataflow(): pass|if x: pass|if x: y = x|if x: y = x\nelse: z = x
if x: return x\nelse: return x|def f(): return x|def f(x=x, *a, y: R.Object, **k): return x
async def f(): pass|@R.function\ndef f(x): return x|@R.function\ndef f(): return x
@R.function(pure=x)\ndef f(x: R.Object, /): return f(x)
@R.function\n@R.function\ndef f(x: R.Object, *y: R.Object): return x
@R.function\ndef f(x: R.Object = 3, *, k: R.Object): return x|class A: pass
@I.ir_module\nclass A(x, metaclass=x): pass
@I.kernel\ndef k(x: R.Tensor((2,), "float32")): x[0] = x[1]|R.func_attr({**{}})
R.func_attr({x: 1})|R.func_attr({"a": x})|R.func_attr({"a": {"b": [1, (2,)]}})|R.func_attr(**x)
R.func_attr(3)|R.output(x)|R.output()|R.output(*x)|R.require("n")|R.require(x)
R.require("n >= 1 and m")|I.module_attrs({"a": x})|I.module_attrs(x)|n = T.int64()|n = T.int64(3)
n, m = T.int64(), T.int64()|n = T.int46()|y = yield x|y = await x|match x:\n  case _: pass
type X = int|x; y = x; z|λ = x|\uff58 = x|_ = x|__ = x|cls = x|R = x|T = x|None_ = x|y = (yield)
print(x)|eval("x")|lambda: (yield)
"""
STATEMENTS = STATEMENT_TEXTS.replace("\n", "|").replace("\\n", "\n").split("|")


def _parsed(texts: list[str], mode: str) -> Iterator[Any]:
    for text in texts:
        try:
            yield ast.parse(text.strip(), mode=mode)
        except SyntaxError:
            continue


EXPRESSION_NODES = [tree.body for tree in _parsed([f"({t.strip()})" for t in EXPRESSIONS], "eval")]
STARRED = [ast.Starred(ast.Name("x", ast.Load()), ast.Load())]
STATEMENT_NODES = [node for tree in _parsed(STATEMENTS, "exec") for node in tree.body]
NAMES = (
    "x",
    "y",
    "n",
    "s",
    "cls",
    "R",
    "main",
    "é",
    "\uff4e",
    "_",
    "__class__",
    "axis",
    "dtype",
    "T",
)
STRINGS = ("", "n", "*s", "float32", "int46", "\x00", "\ud800", "é²", "n" * 5000, "R", "a b -> b a")
NUMBERS = (0, -1, 2, 10**6, 2**31, 2**63, 10**30, 1.5, 1e308, float("inf"), True, None, ..., 2j)


def sites(tree: ast.AST, kind: type) -> list[tuple[Any, str, int | None]]:
    """Returns each place of a tree that holds a node of a kind."""
    places: list[tuple[Any, str, int | None]] = []
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, kind):
                places.append((node, name, None))
            elif isinstance(value, list):
                places += [(node, name, k) for k, v in enumerate(value) if isinstance(v, kind)]
    return places


def put(site: tuple[Any, str, int | None], node: Any) -> None:
    owner, name, index = site
    if index is None:
        setattr(owner, name, node)
    else:
        getattr(owner, name)[index] = node


def expression(rng: Random, other: ast.AST) -> Any:
    if rng.random() < 0.3:
        owner, name, index = rng.choice(sites(other, ast.expr))
        value = getattr(owner, name)
        return copy.deepcopy(value if index is None else value[index])
    return copy.deepcopy(rng.choice(EXPRESSION_NODES + STARRED))


def replace_expression(rng: Random, tree: ast.AST, other: ast.AST) -> None:
    put(rng.choice(sites(tree, ast.expr)), expression(rng, other))


def insert_statement(rng: Random, tree: ast.AST, other: ast.AST) -> None:
    bodies = [n.body for n in ast.walk(tree) if isinstance(getattr(n, "body", None), list)]
    body = rng.choice(bodies)
    body.insert(rng.randint(0, len(body)), copy.deepcopy(rng.choice(STATEMENT_NODES)))


def delete_statement(rng: Random, tree: ast.AST, other: ast.AST) -> None:
    owner, name, index = rng.choice(sites(tree, ast.stmt))
    del getattr(owner, name)[index]


def change_call(rng: Random, tree: ast.AST, other: ast.AST) -> None:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if not calls:
        return
    call = rng.choice(calls)
    name = rng.choice([None, *NAMES, *[k.arg for k in call.keywords]])
    edits: list[Callable[[], Any]] = [
        lambda: call.args.append(ast.Starred(expression(rng, other), ast.Load())),
        lambda: call.args.insert(rng.randint(0, len(call.args)), expression(rng, other)),
        lambda: call.keywords.append(ast.keyword(name, expression(rng, other))),
        lambda: call.args.clear(),
        lambda: call.keywords.clear(),
        lambda: call.args.extend([expression(rng, other)] * 3),
    ]
    rng.choice(edits)()


def change_leaf(rng: Random, tree: ast.AST, other: ast.AST) -> None:
    leaves = [n for n in ast.walk(tree) if isinstance(n, ast.Constant | ast.Name | ast.Attribute)]
    leaf: Any = rng.choice(leaves)
    if isinstance(leaf, ast.Constant):
        leaf.value = rng.choice(STRINGS if rng.random() < 0.4 else NUMBERS)
    elif isinstance(leaf, ast.Name):
        leaf.id = rng.choice(NAMES)
    else:
        leaf.attr = rng.choice([*NAMES, "exp", "Tensor", "add", "const", "nn"])


def change_definition(rng: Random, tree: ast.AST, other: ast.AST) -> None:
    definitions: Any = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    node = rng.choice(definitions)
    chance = rng.randrange(5)
    if chance == 0:
        node.decorator_list.insert(0, expression(rng, other))
    elif chance == 1:
        node.decorator_list.clear()
    elif chance == 2:
        node.name = rng.choice(NAMES)
    elif isinstance(node, ast.ClassDef):
        node.bases.append(expression(rng, other))
    elif chance == 3:
        node.returns = expression(rng, other)
    else:
        change_parameters(rng, node.args, other)


def change_parameters(rng: Random, args: ast.arguments, other: ast.AST) -> None:
    new = ast.arg(rng.choice(NAMES), rng.choice([None, expression(rng, other)]))
    chance = rng.randrange(5)
    if chance == 0:
        args.vararg = new
    elif chance == 1:
        args.kwarg = new
    elif chance == 2:
        args.kwonlyargs, args.kw_defaults = [new], [None]
    elif chance == 3 and args.args:
        args.defaults = [expression(rng, other)]
    else:
        args.args.insert(rng.randint(0, len(args.args)), new)


MUTATIONS = [
    *[replace_expression] * 4, *[change_call] * 3, *[change_leaf] * 3,
    insert_statement, insert_statement, delete_statement, change_definition,
]  # fmt: skip


def mutated(rng: Random) -> str:
    """Returns the text of a program after one to three mutations that Python can unparse."""
    programs = OWN if rng.random() < 0.7 else CORPUS
    while True:
        tree, other = copy.deepcopy(rng.choice(programs)), rng.choice(OWN + CORPUS[:50])
        try:
            for _ in range(rng.choice([1, 1, 2, 3])):
                rng.choice(MUTATIONS)(rng, tree, other)
            return ast.unparse(ast.fix_missing_locations(tree))
        except Exception:  # no Python text: nothing to parse
            continue


def check(text: str) -> None:
    """Parses a text to a module that prints and parses back, or to located diagnostics."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = structir.parse(text)
            check_well_formed(module)
        except DiagnosticError as error:
            missing = [d for d in error.diagnostics if d.span is None]
            assert all("syntax error" in d.message for d in missing), str(error)
            return
        again = structir.parse(module.script())
    assert structir.structural_equal(again, module)


@pytest.mark.parametrize("chunk", range(8))
def test_mutated_syntax_is_parsed_or_rejected_with_a_location(chunk: int) -> None:
    for seed in range(chunk * 50, chunk * 50 + 50):
        text = mutated(Random(seed))
        try:
            check(text)
        except Exception as error:
            error.add_note(f"seed {seed}\n{text}")
            raise


@pytest.mark.parametrize("text", PROGRAMS)
def test_the_original_programs_are_valid(text: str) -> None:
    check_well_formed(structir.parse(text))
    check(text)
