"use strict";
// What is told of the thing that is chosen, and of the whole where nothing is.

class Inspector {
  constructor(place, app) {
    this.place = place;
    this.app = app;
  }

  show(item, dim) {
    const { scene } = this.app;
    const node = item && (item.node || scene.nodes.get(item.id));
    let parts;
    if (node) parts = this.node(node, dim);
    else if (item && item.group) parts = this.kernel(item.group.kernel);
    else if (item && item.kernel) parts = this.kernel(item.kernel);
    else if (item && item.container) parts = this.container(item.container);
    else parts = this.whole();
    this.place.replaceChildren(...parts.filter((part) => part));
    this.place.scrollTop = 0;
  }

  link(id, text, title = null) {
    return element("button", { class: "link", title, onclick: () => this.app.choose(id, true) }, text);
  }

  section(title, ...rows) {
    return rows.length ? element("section", {}, element("h3", {}, title), ...rows) : null;
  }

  // ---- one value

  node(node, dim) {
    const { scene } = this.app, info = scene.infoOf(node);
    const head = element("h2", {}, element("span", { class: "chip", style: `--hue:${hueOf(node.family || node.kind)}` }, node.label),
      node.name ? element("span", { class: "name" }, node.name) : null);
    const kernels = scene.kernelsOf.get(node.id) || [];
    const readers = [...new Set(scene.readers.get(node.id) || [])];
    return [
      head,
      info && info.text ? this.info(node, info, dim) : null,
      dim ? this.why(node, ...dim) : null,
      this.section("reads", ...node.inputs.map((input) => this.input(input))),
      node.detail ? this.section("attributes", element("code", { class: "block" }, coloured(node.detail))) : null,
      node.rule !== undefined ? this.section("the line that declares the op", element("code", { class: "block" }, scene.program.lines[node.rule])) : null,
      node.callee ? this.section("calls", this.link(this.functionId(node.callee), node.callee)) : null,
      this.section("read by", ...readers.slice(0, 12).map((r) => element("div", { class: "row" }, this.link(r.id, r.label), element("span", { class: "muted" }, r.name || "")))),
      this.section(kernels.length > 1 ? "kernels" : "kernel", ...kernels.map((k) => this.kernelRow(k))),
      this.together(node),
    ];
  }

  functionId(name) {
    const found = this.app.scene.functions.find((f) => f.label === name);
    return found ? found.id : null;
  }

  input({ from, slot, text }) {
    const { scene } = this.app, told = scene.nodes.get(from);
    const shown = told ? this.link(from, told.name || told.label) : from !== undefined ? this.link(from, scene.containers.get(from).label) : element("code", {}, text);
    return element("div", { class: "row" }, element("span", { class: "slot" }, slot || ""), shown,
      told ? element("span", { class: "muted" }, shapeText(scene.tensorOf(told))) : null);
  }

  // A StructInfo with a button for each size.
  info(node, info, dim) {
    const made = element("div", { class: "info" });
    info.tensors.forEach((tensor, k) => {
      const row = element("div", { class: "row" });
      const found = tensor.dims ? null : (node.found || [])[k], dims = tensor.dims || found;
      if (tensor.text || !dims) row.append(element("code", {}, tensor.text || `R.Tensor(dtype=${tensor.dtype || "?"}, ndim=${tensor.ndim ?? "?"})`));
      else {
        if (found) row.append(element("span", { class: "muted" }, "the solver finds "));
        row.append(element("span", { class: "muted" }, "("));
        dims.forEach((d, axis) => {
          const on = dim && dim[0] === k && dim[1] === axis;
          row.append(element("button", { class: `dim${on ? " on" : ""}`, "aria-pressed": String(Boolean(on)), title: `why is axis ${axis} of size ${d}?`,
            onclick: () => this.app.explain(node.id, k, axis) }, d), axis + 1 < dims.length ? ", " : "");
        });
        row.append(element("span", { class: "muted" }, ")"), element("code", { class: "dtype" }, tensor.dtype || "?"));
      }
      made.append(row);
    });
    return made;
  }

  // Why a size is what it is: along which axes it came here, and what the solver rests it on.
  why(node, tensor, axis) {
    const { scene } = this.app, info = scene.infoOf(node).tensors[tensor];
    const size = info && info.dims ? info.dims[axis] : ((node.found || [])[tensor] || [])[axis] || "?";
    const number = ((node.why || [])[tensor] || [])[axis];
    const origins = number === undefined ? [] : scene.program.explanations[number];
    const steps = this.trail(node, tensor, axis);
    return element("section", { class: "why", "aria-live": "polite" },
      element("h3", {}, `why axis ${axis} of ${node.name || node.label} is ${size}`),
      ...steps.map((step) => element("div", { class: "row" }, element("span", { class: "slot" }, step.how), this.link(step.node.id, step.node.name || step.node.label),
        element("span", { class: "muted" }, step.told))),
      origins.length ? element("h4", {}, "what the solver rests it on") : null,
      ...origins.map((o) => element("div", { class: "row" }, element("span", { class: "slot" }, o.kind),
        o.line && scene.byLine.has(o.line) ? this.link(scene.byLine.get(o.line), this.originName(o)) : element("span", {}, o.text),
        element("span", { class: "muted" }, o.line ? `line ${o.line}` : ""))),
      steps.length || origins.length ? null : element("p", { class: "muted" }, "it is stated by the program"));
  }

  originName(origin) {
    const node = this.app.scene.nodes.get(this.app.scene.byLine.get(origin.line));
    return node && origin.kind === "op" ? `${node.label}, which gives ${node.name}` : origin.text;
  }

  // Backwards along the wires, axis by axis, until something makes the size.
  trail(node, tensor, axis) {
    const steps = [];
    let here = node, part = tensor, place = axis;
    for (let count = 0; count < 24; count += 1) {
      const size = this.sizeAt(here, part, place), told = `axis ${place}${size ? ` = ${shortDim(size)}` : ""}`;
      const from = this.before(here, part, place), input = from && here.inputs[from.input];
      const before = input && this.app.scene.nodes.get(input.from);
      const how = count && !before ? "from" : count ? "then" : "here";
      if (!from) {
        const made = { param: "a parameter of the function", op: `as ${here.label} says`, call: `as ${here.label} gives it` }[here.kind];
        steps.push({ how, node: here, told: `${told}: ${made || `by ${here.label}`}` });
        break;
      }
      const along = from.same ? "the same as" : "follows from";
      if (from.shown) steps.push({ how, node: here, told: `${told}: ${along} axis ${from.axis} of ${input.slot || "its operand"}${before ? "" : `, ${input.text}`}` });
      if (!before) break;
      [here, part, place] = [before, from.part, from.axis];
    }
    return steps;
  }

  // The operand and its axis along which an axis moves; other names for a value are passed over.
  before(node, part, axis) {
    const at = (input, same, shown, inner = 0) => (node.inputs[input] ? { input, axis, part: inner, same, shown } : null);
    if (node.kind === "value" || node.kind === "match") return at(0, true, false);
    if (node.kind === "field") return at(0, true, false, Number(node.label.slice(1, -1)));
    if (node.kind === "tuple") return at(part, true, false);
    const along = ((node.along || [])[part] || [])[axis] || [];
    const best = along.find(([, , same]) => same) || along[0];
    return best ? { ...at(best[0], best[2], true), axis: best[1] } : null;
  }

  sizeAt(node, part, axis) {
    const info = this.app.scene.infoOf(node), told = info && info.tensors[part];
    return told && told.dims ? told.dims[axis] : "";
  }

  together(node) {
    const { scene } = this.app, f = scene.functionOf(node.id);
    const told = ((scene.program.compiled.functions || {})[f.label] || { decisions: [] }).decisions;
    const own = told.filter(([a, b]) => a === node.line || b === node.line).slice(0, 10);
    return this.section("put together, or not", ...own.map(([a, b, reason]) => {
      const other = a === node.line ? b : a, id = scene.byLine.get(other), name = id === undefined ? `line ${other}` : (scene.nodes.get(id) || {}).label;
      return element("div", { class: "row" }, element("span", { class: "slot" }, a === node.line ? "into" : "from"),
        id === undefined ? name : this.link(id, name), element("span", { class: "muted" }, reason));
    }));
  }

  // ---- kernels

  kernelRow(kernel) {
    const { scene } = this.app;
    return element("div", { class: "row" },
      element("button", { class: "link", onclick: () => this.app.chooseKernel(kernel) }, `${kernel.number}  ${scene.kernelTitle(kernel) || kernel.kind}`),
      element("span", { class: "muted" }, scene.functions.length > 1 ? `${kernel.function.label} · ${kernel.kind}` : kernel.kind),
      kernel.seconds === undefined ? null : element("span", { class: "time", style: `--share:${kernel.heat}` }, timeText(kernel.seconds)));
  }

  kernel(kernel) {
    const { scene } = this.app;
    const figures = kernel.seconds === undefined ? null : element("p", {},
      `${timeText(kernel.seconds)} in ${kernel.runs} ${kernel.runs === 1 ? "run" : "runs"}, ${(kernel.share * 100).toFixed(1)} % of all kernels, `
      + `${kernel.gigaflops.toFixed(1)} GFLOP/s, ${kernel.gigabytes.toFixed(1)} GB/s`);
    return [
      element("h2", {}, element("span", { class: "chip", style: "--hue:215" }, `kernel ${kernel.number}`), element("span", { class: "name" }, `${kernel.function.label} · ${kernel.kind}`)),
      figures,
      this.section("from these ops", ...kernel.nodes.map((node) => element("div", { class: "row" }, this.link(node.id, node.label), element("span", { class: "muted" }, node.name || "")))),
      this.code(kernel),
    ];
  }

  code(kernel) {
    const texts = [["generated source", kernel.source], ["@I.kernel", kernel.shown]].filter(([, text]) => text);
    const block = element("pre", { class: "block", tabindex: 0 });
    const fill = (text) => block.replaceChildren(...text.replace(/\s+$/, "").split("\n").map((line) => element("div", {}, coloured(line), "\n")));
    const tabs = element("div", { class: "tabs", role: "tablist" }, ...texts.map(([name, text], k) => element("button", {
      role: "tab", "aria-selected": String(k === 0), onclick: (event) => {
        for (const tab of tabs.children) tab.setAttribute("aria-selected", String(tab === event.currentTarget));
        fill(text);
      } }, name)));
    fill(texts[0][1]);
    return element("section", {}, tabs, block);
  }

  // ---- functions, and the whole

  container(container) {
    const { scene } = this.app;
    const inside = scene.program.nodes.filter((node) => node.in === container.id);
    const kernels = scene.kernels.filter((kernel) => kernel.function === container);
    const failure = ((scene.program.compiled.functions || {})[container.label] || {}).failure;
    const params = inside.filter((node) => node.kind === "param");
    return [
      element("h2", {}, element("span", { class: "chip", style: "--hue:215" }, container.kind), element("span", { class: "name" }, container.label)),
      container.text ? element("pre", { class: "block" }, ...container.text.split("\n").map((line) => element("div", {}, coloured(line), "\n"))) : null,
      this.section("takes", ...params.slice(0, 60).map((node) => element("div", { class: "row" }, this.link(node.id, node.name), element("span", { class: "muted" }, shapeText(scene.tensorOf(node)))))),
      container.kind === "function" ? this.kernels(kernels) : null,
      failure ? this.section("no kernels", element("p", { class: "muted" }, failure)) : null,
    ];
  }

  kernels(kernels) {
    const sorted = [...kernels].sort((a, b) => (b.seconds || 0) - (a.seconds || 0));
    return this.section(`${kernels.length} kernels${sorted.some((k) => k.seconds) ? ", longest first" : ""}`, ...sorted.slice(0, 200).map((kernel) => this.kernelRow(kernel)));
  }

  whole() {
    const { scene, data } = this.app, { program } = scene;
    const ops = program.nodes.filter((node) => node.kind === "op").length;
    const told = program.compiled.shapes;
    return [
      element("h2", {}, element("span", { class: "name" }, data.title)),
      element("p", { class: "muted" }, `${scene.functions.length} ${scene.functions.length === 1 ? "function" : "functions"}, ${ops} ops, ${scene.kernels.length} kernels`
        + (program.compiled.seconds ? `; a call of ${program.compiled.entry} takes ${timeText(program.compiled.seconds)}` : "")),
      told ? this.section("timed on", ...Object.entries(told).filter(([, shape]) => shape).slice(0, 8).map(([name, shape]) => element("div", { class: "row" }, element("code", {}, name), element("span", { class: "muted" }, `(${shape.join(", ")})`)))) : null,
      ...program.conflicts.map((text) => element("pre", { class: "block wrong" }, text)),
      this.section("functions", ...scene.functions.map((f) => element("div", { class: "row" }, this.link(f.id, f.label), element("span", { class: "muted" }, f.kind)))),
      this.kernels(scene.kernels),
      this.section("keys", ...KEYS.map(([key, what]) => element("div", { class: "row" }, element("kbd", {}, key), element("span", {}, what)))),
    ];
  }
}

const KEYS = [
  ["↓ ↑", "to a reader, to an operand"], ["← →", "to the neighbour at the side"], ["Enter", "open or close"], ["/", "search"],
  ["o c", "open, close all kernels"], ["p", "parameters that are only read by the way"], ["t", "the text without StructInfo"], ["+ −", "nearer, further"], ["f", "the whole"], ["Esc", "choose nothing"],
];

// The passes that ran: a button for each; the chosen one's difference stands in place of the text.
class Timeline {
  constructor(place, app) {
    this.place = place;
    this.app = app;
    const { steps } = app.data;
    place.hidden = !steps.length;
    if (!steps.length) return;
    const longest = Math.max(...steps.map((s) => s.seconds), 1e-9);
    this.buttons = [this.button("as read", "", "before any pass", 0, -1)];
    steps.forEach((step, k) => {
      const options = Object.entries(step.options).map(([name, value]) => `${name}=${value}`).join(" ");
      const [plus, minus] = ["+", "-"].map((sign) => step.difference.split("\n").slice(2).filter((line) => line.startsWith(sign)).length);
      const told = step.changed ? `+${plus} −${minus}` : "";
      this.buttons.push(this.button(step.pass + (options ? ` {${options}}` : ""), told, timeText(step.seconds), step.seconds / longest, k, step));
    });
    place.append(...this.buttons);
  }

  button(name, changed, time, share, k, step = null) {
    const idle = step && !step.changed;
    return element("button", { class: `step${idle ? " idle" : ""}`, style: `--share:${share};--depth:${step ? step.depth : 0}`, "aria-pressed": String(k === -1),
      title: step ? step.notes.join("\n") || null : null, onclick: () => this.app.showStep(k) },
    element("span", { class: "pass" }, name), element("span", { class: "changed" }, changed), element("span", { class: "muted" }, time));
  }

  mark(k) {
    (this.buttons || []).forEach((button, place) => button.setAttribute("aria-pressed", String(place === k + 1)));
    if (this.buttons && this.buttons[k + 1]) this.buttons[k + 1].scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}
