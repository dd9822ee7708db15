"""Hostile source is parsed or rejected with one message, without a hang or a traceback."""

import re
import warnings
from random import Random

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError
from structir.tools.fuzzing import random_program
from tests.cases import every_case

LONG = "9" * 4000
SUM = f"({' + '.join([f'n{i}' for i in range(12)])} + 1)"


def text_of(*lines: str) -> str:
    head = '@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n'
    return head + "".join(f"    {line}\n" for line in (*lines, "return x"))


def cast(size: str) -> str:
    return text_of(f"y = R.match_cast(x, R.Tensor(({size},), 'float32'))")


REFUSED = {
    "powers": (
        text_of("y = R.zeros((9**9**9,), 'float32')"),
        "expected an exponent of at most 64, found",
    ),
    "powers of sizes": (
        text_of("n = T.int64()", "y = R.zeros((n**64,), 'f4')"),
        "powers of sizes are not supported: n ** 64",
    ),
    "products of sums": (
        text_of(
            *[f"n{i} = T.int64()" for i in range(12)], f"y = R.zeros(({' * '.join([SUM] * 12)},))"
        ),
        "size too long: expected at most 2000 terms",
    ),
    "shifts": (
        text_of("y = R.zeros((1 << 10**9,), 'float32')"),
        "unsupported operator on sizes: 1 << 10 ** 9",
    ),
    "decimal": (cast(LONG), "expected a number of at most 256 bits"),
    "hexadecimal": (
        text_of("y = R.const(0x" + "f" * 5000 + ")"),
        "expected a number of at most 256 bits",
    ),
    "factors": (
        cast(" * ".join(["99999999999999999999"] * 90)),
        "expected a number of at most 256 bits",
    ),
    "digits": (cast("9" * 5000), "integer"),
    "parentheses": (text_of("y = " + "(" * 5000 + "x" + ")" * 5000), "nested"),
    "signs": (text_of("y = " + "-" * 5000 + "x"), "nested too deeply"),
    "calls": (text_of("y = " + "R.exp(" * 90 + "x" + ")" * 90), "nested too deeply"),
    "attributes": (text_of("y = R" + ".a" * 5000 + "(x)"), "nested too deeply"),
    "fields": (text_of("y = x" + "[0]" * 3000), "nested too deeply"),
    "attributes of a value": (text_of("y = R.exp(x)" + ".a" * 2000), "nested too deeply"),
    "attributes of a call": (text_of("y = R.exp(x)" + ".a" * 2000 + "(x)"), "nested too deeply"),
    "attributes of a form": (text_of("y: R" + ".a" * 2000 + " = x"), "nested too deeply"),
    "choices": (
        '@R.function\ndef main(c: R.Tensor((), "bool")):\n    if c:\n        y = c\n'
        + "    elif c:\n        y = c\n" * 2000
        + "    else:\n        y = c\n    return y\n",
        "nested too deeply",
    ),
    "few terms too many": (
        text_of("y = " + " + ".join(["x"] * 2600)),
        "nested too deeply: expected at most 2500 terms",
    ),
    "terms": (text_of("y = " + " + ".join(["x"] * 20000)), "nested too deeply"),
    "sizes": (cast(" + ".join(["n"] * 20000)), "nested too deeply"),
    "doubling": (
        text_of("t0 = (x, x)", *[f"t{i + 1} = (t{i}, t{i})" for i in range(40)]),
        "tuple too large: expected at most 262144 fields",
    ),
    "axes": (
        text_of("y = R.zeros((" + "1, " * 65 + "), 'float32')"),
        "zeros: expected at most 64 axes, found 65",
    ),
    "rank": (
        "@R.function\ndef main(x: R.Tensor(ndim=10**9)):\n    return x\n",
        "expected at most 64 axes, found 1000000000",
    ),
    "shape": (
        "@R.function\ndef main(x: R.Shape(ndim=10**9)):\n    return x\n",
        "expected at most 4096 sizes, found 1000000000",
    ),
    "axis": (text_of("y = R.sum(R.match_cast(x, R.Tensor('float32')), axis=10**9)"), "an axis"),
    "results": (text_of("y = R.split(x, 10**9)"), "expected at most 4096 sections"),
    "long shape": (text_of("y = R.reshape(x, (" + "1, " * 5000 + "))"), "at most 4096 sizes"),
    "long list": (
        text_of("y = R.const([" + "1.5, " * 300_000 + "])"),
        "expected a list of at most 65536 items, found 300000",
    ),
    "long list of pairs": (
        text_of(*["y = R.exp(x)"] * 600, "z = R.const([" + "[1, -2.5],\n " * 40_000 + "])"),
        "expected a list of at most 65536 items",
    ),
    "zeros": (text_of("y = x\x00"), "syntax error: source code string cannot contain"),
    "halves of characters": (
        text_of("y = R.call_pure_packed('\ud800', x)"),
        "syntax error: 'utf-8' codec can't encode",
    ),
    "branches": (
        '@R.function\ndef main(c: R.Tensor((), "bool")):\n'
        + "".join("    " * (i + 1) + "if c:\n" for i in range(95))
        + "    " * 96
        + "y = c\n",
        "",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_source_is_rejected_with_a_message(name: str) -> None:
    text, words = REFUSED[name]
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(text)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 10_000
    if "nested" in words:
        assert caught.value.diagnostics[0].span is not None


def test_a_message_shows_the_part_of_a_long_line_that_is_wrong() -> None:
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(text_of("y = " + "x + " * 999 + "absent" + " + x" * 999))
    *_, line, carets, _ = str(caught.value).splitlines()
    assert line.startswith("3 | ...x + x") and line.endswith("...") and len(line) < 420
    assert line[carets.index("^") :].startswith("absent") and carets.count("^") == 6


def test_an_unpaired_surrogate_is_printed_as_an_escape() -> None:
    head, *body = text_of("y = R.exp(x)").splitlines()[1:]
    attribute = "    R.func_attr({'said': '\\ud800 \U0001f600 \u2028 \x7f'})"
    text = "\n".join(["@R.function", head, attribute, *body, ""])
    module = structir.parse(text)
    module.script().encode()
    assert module["main"].attrs["said"] == "\ud800 \U0001f600 \u2028 \x7f"
    assert structir.structural_equal(structir.parse(module.script()), module)
    assert structir.compile(module)["main"](np.zeros(2, "float32")).shape == (2,)


def test_lines_are_counted_as_python_counts_them() -> None:
    text = "\ufeff" + text_of("a = R.exp(x)  # \f \x85 \u2028 \x1c", "y = absent")
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(text.replace("\n", "\r\n"))
    assert "4 |     y = absent" in str(caught.value)


def test_sizes_do_not_grow_without_end() -> None:
    lines = [f"y{k + 1} = R.flatten(R.outer(y{k}, y{k}))" for k in range(8)]
    head = '@R.function\ndef main(y0: R.Tensor(("a + b + c + 1",), "float32"),'
    head += ' z: R.Tensor(("a", "b", "c"), "float32")):\n'
    text = head + "".join(f"    {line}\n" for line in [*lines, "return y8"])
    with pytest.raises(
        DiagnosticError, match="flatten: size too long: expected at most 2000 terms"
    ):
        structir.parse(text)


def test_struct_infos_and_pipelines_are_bounded_too() -> None:
    infos = ["R.Tuple(" * 5000 + ")" * 5000, "R.Tuple(" * 70 + ")" * 70, "\x00", "f()"]
    infos += [
        f"R.Tensor(({size},))"
        for size in (LONG * 2, "0x" + "f" * 5000, "9**9**9", "n+" * 9999 + "n")
    ]
    for text in infos:
        with pytest.raises(DiagnosticError):
            structir.parse_struct_info(text)
    inside = ["a" * 200_000, "a='" + "\\'" * 50_000, "a=[" + "['" * 50_000, "rounds=" + "(" * 5000]
    for text in inside:
        with pytest.raises(DiagnosticError):
            structir.passes.pipeline("simplify{" + text)


READ = {
    "many parameters": "@R.function\ndef main("
    + ", ".join(f"x{i}: R.Tensor((3,), 'float32')" for i in range(2000))
    + "):\n    return x0\n",
    "many axes": "@R.function\ndef main(x: R.Tensor((" + "3, " * 64 + "))):\n    return x\n",
    "a long list": text_of(f"y = R.const([{', '.join(['1.5'] * 65536)}])"),
    "vast": text_of("y = R.zeros((100000, 100000, 100000), 'float32')"),
}


@pytest.mark.parametrize("name", READ)
def test_it_is_read(name: str) -> None:
    assert "main" in structir.parse(READ[name]).functions


# ---- texts with something broken at random

PIECES = (
    "\x00", "\ud800", "1e999", "0x" + "f" * 5000, LONG, "-" * 300, "(" * 300, "lambda: 0",
    "[x for x in y]", "*", "**", "...", "f'{x}'", "b'1'", "None", "1j", "x := 1", "await x",
    "yield", "del x", "\t", "\\", "'''", "#", "@", "import os", "R.const(1e400, 'float16')",
    "R.shape([-1])",
    "T.int64(10**30)", "__class__", "R.Tensor((10**20,))", "R.const([[1], [2, 3]])", "1 << 9", "~x",
)  # fmt: skip


def broken(rng: Random, text: str) -> str:
    """Returns a text with a few words replaced, dropped or truncated."""
    words = re.split(r"(\W)", text)
    for _ in range(rng.choice([1, 1, 2, 4])):
        place, chance = rng.randrange(len(words)), rng.random()
        if chance < 0.4:
            words[place] = rng.choice(words)
        elif chance < 0.75:
            words[place] = rng.choice(PIECES)
        elif chance < 0.9:
            del words[place : place + rng.randrange(20)]
        else:
            del words[place:]
        words = words or [""]
    return "".join(words)


@every_case("seed", range(150))
def test_broken_at_random(seed: int) -> None:
    rng = Random(seed)
    text = random_program(seed % 20, 4).script()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            try:
                structir.parse(broken(rng, text))
            except DiagnosticError as error:
                assert str(error)
