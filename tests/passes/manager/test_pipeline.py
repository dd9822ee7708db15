"""Pipelines as strings, and the instruments of their runs."""

import json
from pathlib import Path
from typing import Any

import pytest

import structir
from structir import passes
from structir.errors import DiagnosticError, ParseError, PassError, StructIRError
from structir.ir import IRModule, VarBinding, replace, structural_equal
from structir.passes import Pass, PassContext, Sequential, pipeline

PROGRAM = """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    a = R.exp(x)
    b = R.exp(x)
    c = R.subtract(a, b)
    d = R.log(b)
    return c
"""


SCALAR = structir.parse("@R.function\ndef main(x: R.Tensor((), 'float32')):\n    return R.exp(x)\n")


@pytest.fixture
def module() -> IRModule:
    return structir.parse(PROGRAM)


def swapped(module: IRModule) -> IRModule:
    """An incorrect pass: swaps the operands of the last subtraction and replaces the first by x."""
    function = module["main"]
    *others, last, dead = function.bindings()
    args = function.params[0], last.value.args[0]
    wrong = VarBinding(last.var, replace(last.value, args=args))
    block = replace(function.body.blocks[0], bindings=(*others, wrong, dead))
    body = replace(function.body, blocks=(block,))
    return module.with_functions({"main": replace(function, body=body)})


def forgetting(module: IRModule) -> IRModule:
    """An incorrect pass: removes the first binding, which has uses."""
    function = module["main"]
    block = replace(function.body.blocks[0], bindings=tuple(function.bindings()[1:]))
    body = replace(function.body, blocks=(block,))
    return module.with_functions({"main": replace(function, body=body)})


def test_a_pipeline_is_its_passes_in_order(module: IRModule) -> None:
    by_hand = passes.DeadCodeElimination()(passes.CommonSubexpressionElimination()(module))
    for text in ("cse,dce", " cse , dce", "common_subexpression_elimination,dce{}"):
        assert structural_equal(pipeline(text)(module), by_hand)


def test_options_are_parsed_as_literals() -> None:
    parsed = pipeline("topological_sort{order=depth_first}")
    assert parsed.options == {"order": "depth_first"}
    with pytest.raises(StructIRError, match="unknown option 'max_depth'; available: order"):
        parsed.with_options(max_depth=1)


def unchanged(module: IRModule, *, top: int = 3) -> IRModule:
    return module


@pytest.mark.parametrize("evaluated", [True, False])
def test_an_option_has_the_type_of_its_annotation(evaluated: bool) -> None:
    unchanged.__annotations__["top"] = int if evaluated else "int"
    assert passes.module_pass(unchanged).with_options(top=2).options == {"top": 2}
    for value in ("x", True, 1.5):
        with pytest.raises(StructIRError, match="top: expected an integer"):
            passes.module_pass(unchanged).with_options(top=value)


def test_a_number_below_the_least_value_of_an_option_is_an_error() -> None:
    for each in passes.all_passes():
        for option in each.parameters():
            if type(option.default) in (int, float):
                for value in (-1, float("nan")) if type(option.default) is float else (-1,):
                    with pytest.raises(StructIRError, match=f"{option.name}: expected .* at least"):
                        each.with_options(**{option.name: value})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gradient{target=1}", "a field of a tuple: expected a tuple"),
        ("saturate{sizes='k=3'}", "no dim k; available: n"),
        ("saturate{report=x}", "expected a SaturationReport"),
        ("to_mixed_precision{dtype=int8}", "expected a floating-point dtype"),
    ],
)
def test_an_option_of_the_wrong_kind_is_an_error(module: IRModule, text: str, message: str) -> None:
    with pytest.raises(StructIRError, match=message):
        pipeline(text)(SCALAR if "gradient" in text else module)


@pytest.mark.parametrize("name", ["simplify", "cse", "DeadCodeElimination"])
def test_a_pass_with_the_name_of_a_built_in_pass_is_rejected(name: str) -> None:
    with pytest.raises(StructIRError, match=f"{name} is the name of the built-in pass"):
        passes.add_pass(Pass("own", lambda module: module, aliases=(name,)))
    with pytest.raises(StructIRError, match="expected a pass, found <function"):
        passes.add_pass(lambda module: module)


@pytest.mark.parametrize("quote", "'\"")
def test_quoted_options_hold_any_text(quote: str) -> None:
    options = f"{{a}}, {quote} b=3"
    written = options.replace(quote, "\\" + quote)
    parsed = pipeline(f"gradient{{parameters={quote}{written}{quote} target=1}}")
    assert parsed.options == {"parameters": options, "target": 1}
    assert pipeline(str(parsed)).options == parsed.options
    assert [each.name for each in pipeline(f"dce,{parsed}").made_of][1] == "gradient"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cse,",
        "cse,,dce",
        "cse{",
        "cse dce",
        "dce{x=1}",
        "unknown",
        "toposort{order}",
        "dce{entries='a}",
    ],
)
def test_an_invalid_pipeline_is_an_error_with_a_caret(text: str) -> None:
    with pytest.raises(ParseError) as error:
        pipeline(text)
    assert error.value.diagnostics[0].span is not None


def test_the_first_pass_that_changes_a_result_is_reported(module: IRModule) -> None:
    steps = [passes.find_pass("cse"), Pass("swapped", swapped), passes.find_pass("dce")]
    with PassContext([passes.VerifyResults()]), pytest.raises(PassError) as error:
        Sequential(steps)(module)
    (diagnostic,) = error.value.diagnostics
    assert "swapped changes the result of main" in diagnostic.message
    assert [note.text.split()[0] for note in diagnostic.notes] == ["x", "before:", "after:"]


def test_results_of_correct_passes_are_compared(module: IRModule) -> None:
    comparing = passes.VerifyResults(inputs=3, edges=False)
    with PassContext([comparing, passes.VerifyIR()]):
        pipeline("cse,dce,toposort")(module)
    assert comparing.compared == 6  # the last pass changes nothing


def test_a_pass_that_breaks_well_formedness_is_reported(module: IRModule) -> None:
    with PassContext([passes.VerifyIR()]), pytest.raises(PassError) as error:
        Pass("forgetting", forgetting)(module)
    assert (
        "forgetting: the resulting program is not well formed" in error.value.diagnostics[0].message
    )
    assert len(error.value.diagnostics) > 1


def test_a_trace_is_data_and_a_page(module: IRModule, tmp_path: Path) -> None:
    trace, timing = passes.Trace(), passes.Timing()
    with PassContext([trace, timing]):
        pipeline("cse,dce")(module)
    trace.write(tmp_path / "run.json")
    records = json.loads((tmp_path / "run.json").read_text())
    assert [(r["pass"], r["depth"], r["changed"]) for r in records] == [
        ("pipeline", 0, False),
        ("common_subexpression_elimination", 1, True),
        ("dead_code_elimination", 1, True),
    ]
    assert "-        d:" in records[2]["difference"]
    trace.write(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert "dead_code_elimination" in page and '"difference":"--- before' in page
    assert timing.total >= sum(step.seconds for step in timing.steps if step.depth == 1)


def test_required_passes_run_once_until_invalidated(
    module: IRModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def noting(name: str, changes: bool) -> Any:
        def transform(given: IRModule) -> IRModule:
            ran.append(name)
            return IRModule(given.functions) if changes else given

        return transform

    known = {"ground": Pass("ground", noting("ground", True))}
    monkeypatch.setattr("structir.passes._ADDED", known)
    keeping = Pass("keeping", noting("keeping", True), requires=("ground",), preserves=("ground",))
    undoing = Pass("undoing", noting("undoing", True), requires=("ground",))
    with PassContext():
        for each in (keeping, keeping, undoing, keeping):
            module = each(module)
    assert ran == ["ground", "keeping", "keeping", "undoing", "ground", "keeping"]


def test_an_analysis_is_memoized_until_the_program_changes(module: IRModule) -> None:
    asked = 0

    def count(given: IRModule) -> int:
        nonlocal asked
        asked += 1
        return len(given["main"].bindings())

    with PassContext() as context:
        assert context.analysis(count, module) == context.analysis(count, module) == 4
        changed = passes.DeadCodeElimination()(module)
        assert context.analysis(count, changed) == 3
    assert asked == 2


def test_every_pass_has_a_summary_line() -> None:
    for each in passes.all_passes():
        line = each.__doc__.partition("\n\n")[0]
        assert line.endswith("."), each.name
        assert passes.find_pass(each.name) is each
        assert all(passes.find_pass(alias) is each for alias in each.aliases)


def test_an_unknown_pass_is_a_user_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'NoSuch'"):
        passes.NoSuch  # noqa: B018
    with pytest.raises(DiagnosticError):
        pipeline("no_such")
