"""Measures the explorer's page in a headless Chromium: until it can be used, and each frame.

    python -m benchmarks.explorer

Two programs of 2,000 ops and more are looked at whole, near, and with every kernel open: 160 frames
of zooming and panning each. The interval is what the browser keeps between frames, 16.7 ms if all
goes well; painting is what the page takes of it. The first figures are medians, then the 95th
percentile and the longest.
"""

import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import structir
from structir.ir import IRModule
from structir.passes.manager.pipeline import pipeline
from structir.tools.explorer.page import page
from tests.tools.browser import CHROMIUM, DRIVER, MISSING, Browser

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
import minilm_program

LAYERS, OPS = 48, 2000
FRAMES = """
const { graph, scene } = explorer, [whole, open] = arguments;
const start = performance.now();
if (open) explorer.setKernelsOpen(true);
const layout = performance.now() - start;
return new Promise((done) => {
  const gaps = [];
  let count = 0, last = performance.now();
  graph.fit(whole);
  graph.frames = [];
  const spread = (values) => {
    const sorted = [...values].sort((a, b) => a - b);
    return [0.5, 0.95, 1].map((q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]);
  };
  const step = () => {
    const now = performance.now();
    gaps.push(now - last);
    last = now;
    count += 1;
    if (count > 160) { done({ layout, boxes: scene.boxes.length, gaps: spread(gaps.slice(2)), paints: spread(graph.frames) }); return; }
    if (count < 80) graph.zoom(count < 40 ? 1.06 : 1 / 1.06, 300, 300);
    else graph.pan(0, (count < 120 ? 1 : -1) * scene.root.height * graph.camera.scale / 40);
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
});
"""  # noqa: E501


def encoder() -> IRModule:
    """The sentence encoder with many layers, in one function."""
    minilm_program.LAYERS = LAYERS
    shapes = minilm_program.LAYER_WEIGHTS.items()
    layers = {
        minilm_program.layer_weight(layer, name): shape
        for layer in range(LAYERS)
        for name, shape in shapes
    }
    minilm_program.WEIGHTS = minilm_program.EMBEDDING_WEIGHTS | layers
    return pipeline("inline,dce{entries=main}")(structir.parse(minilm_program.minilm_text()))


def tangle() -> IRModule:
    """Ops that read any of those shortly before them, and now and then one from long ago."""
    draw, names = random.Random(1), ["x", "y"]
    lines = ["@R.function", 'def main(x: R.Tensor(("n", 64), "float32"), y: R.Tensor(("n", 64))):']
    lines[1] = lines[1].replace('y: R.Tensor(("n", 64))', 'y: R.Tensor(("n", 64), "float32")')
    forms = ("R.exp({0})", "R.add({0}, {1})", "R.multiply({0}, {1})", "R.nn.softmax({0})")
    for number in range(OPS):
        known = names[-12:] if draw.random() < 0.93 else names
        lines.append(f"    v{number} = {draw.choice(forms).format(*draw.choices(known, k=2))}")
        names.append(f"v{number}")
    return structir.parse("\n".join([*lines, f"    return {names[-1]}\n"]))


def measured(name: str, module: IRModule) -> Iterator[dict[str, Any]]:
    """A row for each way of looking at a program."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(page(module, name), encoding="utf-8")
        browser = Browser(Path(folder) / "profile")
        try:
            browser.open(file)
            waiting = "return new Promise((r) => setTimeout(() => r(window.explorerReady), 2000))"
            ready = browser.run(waiting)
            for look, whole, opened in (
                ("near", False, False),
                ("whole", True, False),
                ("whole, all open", True, True),
                ("near, all open", False, True),
            ):
                found = browser.run(FRAMES, whole, opened)
                yield {"program": name, "look": look, "ready": ready, **found}
        finally:
            browser.close()


def table_of(rows: list[dict[str, Any]]) -> Table:
    """The figures, in milliseconds."""
    table = Table(box=None, header_style="bold", title="milliseconds: median / 95 % / longest")
    for name in ("program", "look", "boxes", "ready after", "layout", "interval", "painting"):
        table.add_column(name, justify="left" if name in ("program", "look") else "right")
    for row in rows:
        spreads = [" / ".join(f"{v:.1f}" for v in row[name]) for name in ("gaps", "paints")]
        layout = f"{row['layout']:.0f}" if row["layout"] > 1 else ""
        ready = f"{row['ready']:.0f}"
        table.add_row(row["program"], row["look"], str(row["boxes"]), ready, layout, *spreads)
    return table


def main() -> None:
    """Measure both programs, and show the table."""
    if not (CHROMIUM and DRIVER):
        sys.exit(MISSING)
    programs = {f"encoder of {LAYERS} layers": encoder(), "tangle": tangle()}
    rows = [row for name, module in programs.items() for row in measured(name, module)]
    Console(width=140).print(table_of(rows))


if __name__ == "__main__":
    main()
