"""Tests of the explorer's page in a browser: layout, keys, pointer, and the content policy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import structir
from structir.ir import IRModule
from structir.passes import PassContext, Trace, find_pass
from structir.tools.explorer.kernels import ProfileOptions
from structir.tools.explorer.page import page
from structir.tools.fuzzing import random_program
from tests.tools.browser import CHROMIUM, DRIVER, MISSING, Browser
from tests.tools.test_view import HOSTILE, LAYER

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=MISSING)
DOWN, ENTER, ESCAPE = "\ue015", "\ue007", "\ue00c"

# Returns the boxes that exceed their container or overlap another box of it.
OVERLAPS = """
const errors = [], scene = explorer.scene;
const disjoint = (a, b) => a.left + a.width <= b.left + 0.5 || b.left + b.width <= a.left + 0.5
  || a.top + a.height <= b.top + 0.5 || b.top + b.height <= a.top + 0.5;
const check = (outer) => {
  for (const [k, item] of (outer.children || []).entries()) {
    if (outer !== scene.root && (item.left < outer.left - 0.5 || item.top < outer.top
      || item.left + item.width > outer.left + outer.width + 0.5
      || item.top + item.height > outer.top + outer.height + 0.5)) {
      errors.push(`${item.id} exceeds its container`);
    }
    for (const other of outer.children.slice(0, k)) {
      if (!disjoint(item, other)) errors.push(`${item.id} overlaps ${other.id}`);
    }
    check(item);
  }
};
check(scene.root);
return errors;
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    instance = Browser(tmp_path_factory.mktemp("browser"))
    yield instance
    instance.close()


def open_page(browser: Browser, folder: Path, html: str) -> None:
    file = folder / "page.html"
    file.write_text(html)
    browser.open(file)
    wait(browser, "return window.explorerReady !== undefined")


def wait(browser: Browser, script: str) -> None:
    """Waits until a script of the page returns true."""
    waiting = f"const holds = () => {{ {script} }};" + (
        "return new Promise((resolve) => { const poll = () => holds() ? resolve(true)"
        " : requestAnimationFrame(poll); poll(); })"
    )
    assert browser.run(waiting)


@pytest.fixture
def layer(browser: Browser, tmp_path: Path) -> Browser:
    trace = Trace()
    module = structir.parse(LAYER)
    with PassContext([trace]):
        find_pass("dce")(find_pass("cse")(module))
    open_page(browser, tmp_path, page(module, "layer", trace.steps))
    return browser


def selected(browser: Browser) -> Any:
    return browser.run(
        "const id = explorer.selectedId, node = explorer.scene.nodes.get(id);"
        "return node ? node.name : id"
    )


def test_graph_is_drawn_without_overlaps(layer: Browser) -> None:
    assert layer.run("return explorer.scene.boxes.length") > 15
    assert layer.run(OVERLAPS) == []
    painted = "const c = document.getElementById('graph'); const d = c.getContext('2d')"
    colours = layer.run(
        f"{painted}.getImageData(0, 0, c.width, c.height).data;"
        "return new Set(new Uint32Array(d.buffer)).size"
    )
    assert colours > 20
    assert layer.errors() == []


def test_selecting_a_box_selects_its_line_and_vice_versa(layer: Browser) -> None:
    x, y = layer.run(
        "const item = explorer.scene.boxes.find((b) => b.node && b.node.name === 'h');"
        "explorer.graph.reveal(item); const c = explorer.graph.camera;"
        "const at = document.getElementById('graph').getBoundingClientRect();"
        "return [at.left + (item.left + item.width / 2 - c.x) * c.scale,"
        " at.top + (item.top + 10 - c.y) * c.scale]"
    )
    layer.click(x, y)
    assert selected(layer) == "h"
    assert layer.run("return document.querySelector('.line.selected').textContent").count("h: R.T")
    x, y = layer.run(
        "const rows = [...document.querySelectorAll('.line')];"
        "const row = rows.find((l) => l.textContent.includes('lv: R'));"
        "const at = row.querySelector('.t-op').getBoundingClientRect();"
        "return [at.left + 2, at.top + 5]"
    )
    layer.click(x, y)
    assert selected(layer) == "lv"
    assert "gelu" in layer.run("return document.getElementById('inspector').textContent")


def test_a_size_in_the_source_is_explained(layer: Browser) -> None:
    x, y = layer.run(
        "const rows = [...document.querySelectorAll('.line')];"
        "const row = rows.find((l) => l.textContent.includes('lv: R'));"
        "const at = row.querySelector('.dim').getBoundingClientRect();"
        "return [at.left + 2, at.top + 5]"
    )
    layer.click(x, y)
    explanation = layer.run("return document.querySelector('.explanation').textContent")
    assert "axis 0 of lv is n" in explanation
    assert "equal to axis 0" in explanation and "a parameter of the function" in explanation


def test_arrow_keys_follow_wires(layer: Browser) -> None:
    layer.run("explorer.select(explorer.scene.byLine.get(explorer.scene.nodes.get(2).line))")
    layer.run("document.getElementById('graph').focus(); explorer.select(1)")
    layer.keys(DOWN)
    first = selected(layer)
    layer.keys(DOWN)
    assert first == "lv" and selected(layer) == "h"
    announcement = layer.run("return document.getElementById('announcement').textContent")
    assert announcement.startswith("nn.gelu h: R.Tensor(")
    layer.keys(ESCAPE)
    assert selected(layer) is None


def test_kernels_close_and_open(layer: Browser) -> None:
    before = layer.run("return explorer.scene.boxes.length")
    layer.run("document.getElementById('graph').focus()")
    layer.keys("c")
    closed = layer.run("return explorer.scene.boxes.length")
    assert closed < before and layer.run(OVERLAPS) == []
    key = layer.run("return [...explorer.scene.groups.keys()][0]")
    layer.run("explorer.select(arguments[0])", key)
    assert "@I.kernel" in layer.run("return document.getElementById('inspector').textContent")
    layer.keys(ENTER)
    assert layer.run("return explorer.scene.boxes.length") > closed


def test_struct_info_can_be_hidden_in_the_source(layer: Browser) -> None:
    line = (
        "return [...document.querySelectorAll('.line')].map((l) => l.textContent)"
        ".find((l) => /lv(:| =)/.test(l))"
    )
    layer.run("document.getElementById('graph').focus()")
    assert "lv: R.Tensor((n, 6)" in layer.run(line)
    layer.keys("t")
    assert "lv = R.matmul(x, w)" in layer.run(line)


def test_search_finds_names_ops_and_shapes(layer: Browser) -> None:
    layer.run("document.getElementById('graph').focus()")
    layer.keys("/softmax")
    assert layer.run("return document.getElementById('match-count').textContent") == "1 match"
    layer.keys(ENTER)
    assert selected(layer) == "y"


def test_selecting_a_pass_shows_its_diff_and_its_program(layer: Browser) -> None:
    names = layer.run(
        "return [...document.querySelectorAll('.step .pass')].map((s) => s.textContent)"
    )
    assert names == ["input", "common_subexpression_elimination", "dead_code_elimination"]
    layer.run("document.querySelectorAll('.step')[2].click()")
    wait(layer, "return document.querySelector('.line.cut') !== null")
    assert "dead" in layer.run("return document.querySelector('.line.cut').textContent")
    assert layer.run("return explorer.scene.program.nodes.some((n) => n.name === 'dead')") is False


def test_the_theme_button_switches_colours(layer: Browser) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = layer.run(ground)
    layer.run("document.getElementById('theme').click()")
    assert layer.run(ground) != light


def test_all_controls_have_accessible_names(layer: Browser) -> None:
    nameless = (
        "return [...document.querySelectorAll('button, canvas, input, [tabindex]')].filter((e) =>"
        " !e.textContent.trim() && !e.getAttribute('aria-label') && !e.labels?.length).length"
    )
    assert layer.run(nameless) == 0


def test_profiled_kernels_show_their_times(browser: Browser, tmp_path: Path) -> None:
    open_page(
        browser,
        tmp_path,
        page(structir.parse(LAYER), "t", profile=ProfileOptions({"n": 3}, "main", 2)),
    )
    text = browser.run("return document.getElementById('inspector').textContent")
    assert "a call of main takes" in text and "µs" in text
    assert browser.run("return explorer.scene.kernels.some((k) => k.share > 0)")


def test_a_profiled_page_opens_at_the_last_program(browser: Browser, tmp_path: Path) -> None:
    module = structir.parse(LAYER)
    trace = Trace()
    with PassContext([trace]):
        changed = find_pass("dead_code_elimination")(module)
    assert changed is not module
    profile = ProfileOptions({"n": 3}, "main", 2)
    open_page(browser, tmp_path, page(module, "t", steps=trace.steps, profile=profile))
    assert browser.run("return explorer.scene.kernels.some((k) => k.share > 0)")
    assert browser.run("return document.getElementById('source-title').textContent") == "source"


def test_programs_without_a_graph_show_their_source(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_page(browser, tmp_path, page(IRModule(), "empty"))
    assert browser.run("return explorer.scene.boxes.length") == 0
    monkeypatch.setattr("structir.tools.explorer.page.MAX_DRAWN_LINES", 10)
    open_page(browser, tmp_path, page(structir.parse(LAYER), "large"))
    wait(browser, "return document.querySelectorAll('.line').length > 10")
    details = browser.run("return document.getElementById('inspector').textContent")
    assert "too many to draw" in details
    browser.run("explorer.graph.fit(true); explorer.setKernelsOpen(true); explorer.search('x')")
    assert browser.errors() == []


def test_hostile_names_cannot_run_code(browser: Browser, tmp_path: Path) -> None:
    text = f"""
@R.function(pure=False)
def main(x: R.Tensor(("n",), "float32")):
    R.func_attr({{"told": {HOSTILE!r}}})
    return R.call_packed({HOSTILE!r}, x)
"""
    module = structir.parse(text)
    for html in (
        page(module, HOSTILE),
        f"<body>{module._repr_html_()}{module['main']._repr_html_()}",
    ):
        (tmp_path / "page.html").write_text(html)
        browser.open(tmp_path / "page.html")
        assert browser.run("return window.stolen === undefined")
        assert browser.run("return document.querySelectorAll('img').length") == 0
    open_page(browser, tmp_path, page(module, HOSTILE))
    assert browser.run("return document.querySelector('h1').textContent") == HOSTILE
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'window.stolen = 1';"
        "document.body.append(s); document.body.insertAdjacentHTML('beforeend',"
        " '<img src=x onerror=\"window.stolen = 1\">')"
    )
    assert browser.run("return window.stolen === undefined"), "the policy permits other code"
    browser.errors()  # reports of the policy


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_are_laid_out_without_overlaps(
    browser: Browser, tmp_path: Path, seed: int
) -> None:
    open_page(browser, tmp_path, page(random_program(seed, 8), f"program {seed}"))
    for action in ("", "explorer.setKernelsOpen(false);", "explorer.toggleWeights();"):
        assert browser.run(action + OVERLAPS) == []
    browser.run(
        "for (const node of explorer.scene.program.nodes) {"
        " explorer.select(node.id, true); const info = explorer.scene.infoOf(node);"
        " (info ? info.tensors : []).forEach((tensor, k) => (tensor.dims || []).forEach("
        "(_, axis) => explorer.explain(node.id, k, axis))); }"
    )
    assert browser.errors() == []


@pytest.mark.exhaustive
def test_two_thousand_ops_are_laid_out(browser: Browser, tmp_path: Path) -> None:
    lines = ["@R.function", 'def main(v0: R.Tensor(("n", 8), "float32")):']
    for k in range(2000):
        other = f"v{max(0, k - 7 * (k % 5))}"
        call = f"R.add(v{k}, {other})" if k % 3 == 0 else f"R.exp(v{k})"
        lines.append(f"    v{k + 1} = {call}")
    module = structir.parse("\n".join([*lines, "    return v2000\n"]))
    open_page(browser, tmp_path, page(module, "many"))
    browser.run("explorer.setKernelsOpen(true)")
    assert browser.run("return explorer.scene.boxes.filter((b) => b.node).length") == 2002
    assert browser.run(OVERLAPS) == []
    assert browser.errors() == []


def test_unused_values_do_not_widen_the_layout(browser: Browser, tmp_path: Path) -> None:
    lines = ["dead = R.zeros((8,), 'float32')", "h0 = R.exp(x)"]
    for k in range(4):
        lines += [f"q{k} = R.matmul(h{k}, w)", f"k{k} = R.matmul(h{k}, w)"]
        lines += [f"s{k} = R.matmul(q{k}, R.permute_dims(k{k}, (1, 0)))"]
        lines += [f"h{k + 1} = R.add(R.matmul(R.nn.softmax(s{k}), h{k}), h{k})"]
    head = (
        '@R.function\ndef main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32")):'
    )
    text = "\n    ".join([head, *lines, "return h4\n"])
    open_page(browser, tmp_path, page(structir.parse(text), "dead"))
    for opened in (True, False):
        browser.run("explorer.setKernelsOpen(arguments[0])", opened)
        assert browser.run("return explorer.scene.root.width") < 700
    assert browser.run(OVERLAPS) == []
