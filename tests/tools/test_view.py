"""Tests of `structir view`: the data of programs, passes and kernels, and escaping."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

import structir
from structir.ir import IRModule
from structir.tools import cli
from structir.tools.explorer import page as pages
from structir.tools.explorer.graph import program_data
from structir.tools.explorer.kernels import kernel_data
from structir.tools.explorer.node_content import operand_text

LAYER = """
@I.ir_module
class Layer:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 6), "float32")):
        with R.dataflow():
            h = R.nn.gelu(R.matmul(x, w))
            y = R.nn.softmax(h)
            z = R.log(R.sum(R.exp(x), axis=[1]))
            again = R.exp(x)
            dead = R.log(again)
            R.output(y, z)
        return y, z

    @R.function
    def chosen(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")):
        @R.function
        def add(y: R.Tensor(("m",), "float32")):
            return R.add(y, y)

        if c:
            r = R.exp(x)
        else:
            r = add(x)
        return r
"""
HOSTILE = "</script><script>window.stolen = 1</script><img src=x onerror=window.stolen=1>&\u2028'\""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "layer.py"
    path.write_text(LAYER)
    return path


def view(*words: object) -> Result:
    return CliRunner().invoke(cli.build(), ["view", *map(str, words)], env={"COLUMNS": "300"})


def data_in(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    data: dict[str, Any] = json.loads(match[1])
    return data


def program(text: str = LAYER) -> dict[str, Any]:
    return program_data(structir.parse(text)).data


def named(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(node for node in data["nodes"] if node.get("name") == name)


# ---- the data


def test_every_binding_is_a_node_at_its_line() -> None:
    data = program()
    lines = data["text"].splitlines()
    ops = [node for node in data["nodes"] if node["kind"] == "op"]
    assert len(ops) == 10  # of main, both branches and the nested function
    for node in ops:
        assert lines[node["line"] - 1].strip().startswith(f"{node['name']}: R.Tensor(")
        assert f"R.{node['label']}(" in lines[node["line"] - 1]


def test_inputs_refer_to_the_producers_of_values() -> None:
    data = program()
    matmul, gelu, soft = (named(data, name) for name in ("lv", "h", "y"))
    assert [entry["from"] for entry in gelu["inputs"]] == [matmul["id"]]
    assert [entry["from"] for entry in soft["inputs"]] == [gelu["id"]]
    x, w = (node for node in data["nodes"] if node["kind"] == "param" and node["parent"] == 0)
    reads = [(e["slot"], e["from"]) for e in matmul["inputs"]]
    assert reads == [("x1", x["id"]), ("x2", w["id"])] or [r[1] for r in reads] == [
        x["id"],
        w["id"],
    ]


def test_branches_and_nested_functions_are_containers() -> None:
    data = program()
    kinds = {c["id"]: c for c in data["containers"]}
    (add,) = (c for c in data["containers"] if c["kind"] == "closure")
    branches = [c for c in data["containers"] if c["kind"] == "branch"]
    assert [c["label"] for c in branches] == ["then", "else"]
    assert kinds[branches[0]["parent"]]["kind"] == "if"
    join = next(node for node in data["nodes"] if node["kind"] == "join")
    assert len(join["inputs"]) == 2 and join["name"] == "r"
    call = next(node for node in data["nodes"] if node["kind"] == "call")
    assert call["label"] == "add"
    assert add["id"] in [entry["from"] for entry in call["inputs"]]


def test_axis_sources_relate_result_axes_to_operand_axes() -> None:
    data = program()
    matmul, soft = named(data, "lv"), named(data, "y")
    assert matmul["axisSources"] == [[[[0, 0, True]], [[1, 1, True]]]]
    assert soft["axisSources"][0][0] == [[0, 0, True]]
    assert data["signatures"][matmul["signature"]].endswith("-> out[~b, i, j]")


def test_inferred_shapes_and_their_explanations_are_included() -> None:
    text = """
@R.function
def main(a: R.Tensor((3, 4), "float32"), u: R.Tensor(ndim=2, dtype="float32")):
    t = R.matmul(a, u)
    s = R.add(t, R.zeros((3, 5), "float32"))
    return s
"""
    data = program(text)
    u = named(data, "u")
    assert u["inferred"][0][0] == "4"
    origins = data["explanations"][u["explanations"][0][0]]
    assert origins[0]["text"] == "`t` is defined here"
    line = data["text"].splitlines()[origins[0]["line"] - 1].strip()
    assert line == 't: R.Tensor(dtype="float32", ndim=2) = R.matmul(a, u)'
    assert "inferred" not in named(data, "a")


VALUES = """
@I.ir_module
class Values:
    @I.kernel
    def twice(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
        for i in range(n):
            out[i] = x[i] + x[i]

    @R.function
    def other(x: R.Tensor(("n",), "float32")):
        return R.exp(x)

    @R.function
    def main(x: R.Tensor(("n",), "float32"), s: R.Shape(ndim=2), f: R.Callable((R.Object,), R.Object)):
        n = T.int64()
        k = T.int64()
        cls = Values
        a = R.call_kernel(cls.twice, (x,), out_sinfo=R.Tensor((n,), "float32"))
        b = cls.other(a)
        c = R.call_pure_packed("my.function", b, sinfo_args=R.Tensor((n,), "float32"))
        d = R.match_cast(c, R.Tensor((k,), "float32"))
        t = (d, R.const([1.5, 2.0], "float32"))
        e = t[1]
        g = f(e)
        h = R.clip(d, 0.0, 1.0)
        i = R.reshape(x, (n, 1))
        o = R.arange(n)
        return t, g, h, i, o
"""  # noqa: E501


def test_every_kind_of_value_has_node_content() -> None:
    data = program(VALUES)
    contents = {n["name"]: (n["kind"], n["label"]) for n in data["nodes"] if n["kind"] != "result"}
    assert contents["a"] == ("call", "twice")
    assert contents["b"] == ("call", "other") and named(data, "b")["callee"] == "other"
    assert contents["c"] == ("call", "my.function")
    assert contents["d"] == ("match", "match_cast")
    assert contents["t"] == ("tuple", "tuple") and contents["e"] == ("field", "[1]")
    assert contents["g"] == ("call", "f")
    assert [e.get("text") for e in named(data, "t")["inputs"]] == [None, "[1.5, 2]"]
    texts = {e["slot"]: e.get("text") for name in ("i", "o") for e in named(data, name)["inputs"]}
    assert texts["shape"] == "[n, 1]" and "n" in texts.values()
    (kernel,) = (c for c in data["containers"] if c["kind"] == "kernel")
    assert "out[i] = x[i] + x[i]" in kernel["text"]
    infos = [data["infos"][named(data, name)["info"]]["tensors"][0] for name in ("s", "x")]
    assert infos == [{"text": "R.Shape(ndim=2)"}, {"dtype": "float32", "ndim": 1, "dims": ["n"]}]


def test_large_constants_are_shown_by_dtype_and_shape() -> None:
    large = structir.ir.Constant(np.zeros((30, 40), "float32"))
    assert operand_text(large) == "float32 30 \N{MULTIPLICATION SIGN} 40"
    assert operand_text(structir.ir.Constant(np.float32(3.0).reshape(1, 1))) == "3"
    assert operand_text(structir.ir.StringImm("x" * 100)).endswith("\N{HORIZONTAL ELLIPSIS}")


# ---- kernels


def test_kernels_list_the_lines_of_their_ops() -> None:
    program = program_data(structir.parse(LAYER))
    main = kernel_data(program.module)["functions"]["main"]
    lines = {
        program.data["text"].splitlines()[line - 1].split(":")[0].strip()
        for line in fused_lines(main)
    }
    assert lines == {"lv", "h", "y"}
    kernel = next(k for k in main["kernels"] if len(k["lines"]) == 3)
    assert "@I.kernel" in kernel["script"] and "# kernel" in kernel["source"]
    assert "joined" in [reason for _, _, reason in main["decisions"]]


def fused_lines(function: dict[str, Any]) -> list[int]:
    lines: list[int] = max((k["lines"] for k in function["kernels"]), key=len)
    return lines


def test_kernel_data_needs_no_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a kernel was compiled")

    monkeypatch.setattr("structir.runtime.plans.plan.kernel_of", refuse)
    assert kernel_data(program_data(structir.parse(LAYER)).module)["functions"]["main"]["kernels"]


def test_profiles_include_the_time_of_every_kernel(file: Path, tmp_path: Path) -> None:
    result = view(file, "--profile", "--sizes", "n=4", "-o", tmp_path / "p.html")
    assert result.exit_code == 0, result.output
    (program,) = data_in((tmp_path / "p.html").read_text())["programs"]
    compiled = program["compiled"]
    assert compiled["entry"] == "main" and compiled["shapes"]["x"] == [4, 8]
    kernels = compiled["functions"]["main"]["kernels"]
    assert kernels and all(k["seconds"] > 0 and k["runs"] == 1 for k in kernels)
    assert all("seconds" not in k for k in compiled["functions"]["chosen"]["kernels"])


# ---- the command and its page


def test_view_writes_a_page_to_the_current_directory(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    assert view(file).exit_code == 0
    page = (file.parent / "layer.html").read_text()
    assert data_in(page)["title"] == "layer.py"
    assert not re.search(r"(?:src|href)\s*=|@import|url\(|https?://", page), (
        "loads from the network"
    )


def test_view_includes_each_pass(file: Path, tmp_path: Path) -> None:
    result = view(file, "-p", "cse,dce", "-o", tmp_path / "p.html")
    assert result.exit_code == 0
    data = data_in((tmp_path / "p.html").read_text())
    names = [step["pass"] for step in data["steps"]]
    assert names == ["pipeline", "common_subexpression_elimination", "dead_code_elimination"]
    last = data["steps"][-1]
    assert "-            dead" in last["difference"]
    after = data["programs"][last["program"]]
    assert all(node.get("name") != "dead" for node in after["nodes"])
    assert len(data["programs"]) == len({p["text"] for p in data["programs"]})


def test_large_traces_contain_the_first_and_last_program_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = structir.passes.Trace()
    with structir.passes.PassContext([trace]):
        structir.passes.find_pass("dce")(structir.passes.find_pass("cse")(structir.parse(LAYER)))
    assert len(data_in(trace.page())["programs"]) == 3
    monkeypatch.setattr(pages, "MAX_DRAWN_LINES", 10)
    assert len(data_in(trace.page())["programs"]) == 2
    single = data_in(pages.page(structir.parse(LAYER), "single"))["programs"]
    assert len(single) == 1 and single[0]["nodes"] == []


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["-p", "nonsense"], "nonsense"),
        (["--profile", "--sizes", "q=4"], "no symbolic dim q"),
        (["--sizes", "n=4"], "--sizes needs --profile"),
        (["-f", "third"], "main, chosen"),
        (["-o", "missing/page.html"], "cannot write"),
    ],
)
def test_invalid_command_lines_exit_with_2(file: Path, words: list[str], part: str) -> None:
    result = view(file, *words)
    assert result.exit_code == 2
    assert part in result.stderr


def test_invalid_programs_write_no_page(file: Path, tmp_path: Path) -> None:
    file.write_text(LAYER.replace("(8, 6)", "(9, 6)"))
    assert view(file, "-o", tmp_path / "p.html").exit_code == 1
    assert not (tmp_path / "p.html").exists()


def test_program_text_is_escaped() -> None:
    text = f"""
@R.function(pure=False)
def main(x: R.Tensor(("n",), "float32")):
    R.func_attr({{"told": {HOSTILE!r}}})
    return R.call_packed({HOSTILE!r}, x)
"""
    module = structir.parse(text)
    page = pages.page(module, HOSTILE)
    assert page.count("<script") == 2 and page.count("</script>") == 2
    assert "<img" not in page
    assert data_in(page)["title"] == HOSTILE
    assert "stolen" in data_in(page)["programs"][0]["text"]
    assert "<script" not in structir.parse(text)["main"]._repr_html_().replace("&lt;", "")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None and "default-src 'none'" in policy[1]
    assert "unsafe-inline" not in policy[1].partition("script-src")[2]


# ---- notebooks


def test_notebooks_show_modules_as_pages_and_other_nodes_as_highlighted_source() -> None:
    module = structir.parse(LAYER)
    for node in (module, module["main"]):
        html = node._repr_html_()
        assert html.startswith('<iframe sandbox="allow-scripts"') and "srcdoc" in html
        assert '<span class="op">@R.function</span>' in html
    binding = module["main"].bindings()[0]
    for part in (binding, binding.var, module["main"].struct_info, module["main"].ret_struct_info):
        html = part._repr_html_()
        text = re.sub(r"<style>.*?</style>|<[^>]*>", "", html, flags=re.DOTALL)
        assert text.replace("&quot;", '"').replace("&gt;", ">") == str(part).rstrip()


def test_large_programs_are_shown_as_truncated_source() -> None:
    lines = [f"    v{k} = R.exp({f'v{k - 1}' if k else 'x'})" for k in range(500)]
    head = '@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n'
    html = structir.parse(head + "\n".join(lines) + "\n    return v499\n")._repr_html_()
    assert "iframe" not in html
    assert "more lines" in html


def test_an_empty_module_has_a_page() -> None:
    (program,) = data_in(pages.page(IRModule(), "empty"))["programs"]
    assert program["nodes"] == []
