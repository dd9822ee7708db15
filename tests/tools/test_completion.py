"""Compares names that completions read from source files with the imported ones."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir.ir.binding_dims import standing_alone
from structir.ir.dims import Sym
from structir.ir.expr import Function
from structir.passes import all_passes
from structir.tools import cli, completion
from structir.tools.checks import CHECKS
from structir.tools.generate import random_module
from structir.tools.sizes import sizes_of


def test_the_passes_are_those_of_the_package() -> None:
    known = {name for each in all_passes() for name in (each.name, *each.aliases)}
    assert set(completion.pass_names()) == known


def test_the_checks_are_those_of_the_fuzzer() -> None:
    assert completion.check_names() == list(CHECKS)


@pytest.mark.parametrize("name", cli.command_names())
def test_an_outline_is_the_help_of_its_command(name: str) -> None:
    outline, command = cli.outline(name), cli.load_command(name)
    assert (outline.name, outline.help) == (command.name, command.help)
    assert outline.rich_help_panel == command.rich_help_panel


def context(**params: Any) -> Any:
    return SimpleNamespace(params=params, args=[])


def dims_of(function: Function) -> set[str]:
    infos = [param.struct_info for param in function.params]
    return {sym.name for sym in standing_alone(infos) if type(sym) is Sym}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("suffix", [".py", ".sir"])
def test_functions_and_sizes_are_those_of_the_program(
    seed: int, suffix: str, tmp_path: Path
) -> None:
    module = random_module(seed, 5)
    file = tmp_path / f"model{suffix}"
    if suffix == ".sir":
        structir.save(module, file)
    else:
        file.write_text(module.script())
    functions = {n: f for n, f in module.functions.items() if isinstance(f, Function)}
    assert completion.functions_beginning(context(file=file), "") == list(functions)
    for name, function in functions.items():
        names = completion.sizes_beginning(context(file=file, function=name), "")
        assert {text.removesuffix("=") for text in names} == dims_of(function)


def test_sizes_complete_after_a_comma(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(
        '@R.function\ndef f(x: R.Tensor(("n", "m", "n + 1"), "float32")):\n    return x'
    )
    assert completion.sizes_beginning(context(file=file), "n=4,") == ["n=4,m="]
    assert completion.sizes_beginning(context(file=None), "n") == []


@pytest.mark.parametrize("content", [b"\xff\xfe", b"def (", b"x = 1", b"", b"\x00", b"(" * 1000])
def test_files_that_are_no_programs_complete_nothing(content: bytes, tmp_path: Path) -> None:
    for name in ("model.py", "model.sir", "model.onnx"):
        (tmp_path / name).write_bytes(content)
        assert completion.functions_beginning(context(file=tmp_path / name), "") == []
        assert completion.sizes_beginning(context(file=tmp_path / name), "") == []


names = st.text("abcxyz_", min_size=1, max_size=4)


@given(st.dictionaries(names, st.integers(0, 10**20), max_size=4))
@settings(max_examples=50)
def test_sizes_are_read_as_they_are_written(sizes: dict[str, int]) -> None:
    text = ",".join([f"{name}={size}" for name, size in sizes.items()])
    assert sizes_of(text) == sizes


@given(st.text("n=,1-²٣ x", max_size=8))
@settings(max_examples=100)
def test_invalid_sizes_are_one_error(text: str) -> None:
    try:
        assert all(name.isidentifier() and size >= 0 for name, size in sizes_of(text).items())
    except typer.BadParameter as error:
        assert str(error).startswith("--sizes: ")
