"use strict";
// The details panel of the selection, or of the program if nothing is selected; and the timeline of passes.

class Inspector {
  constructor(root, app) {
    this.root = root;
    this.app = app;
  }

  show(item, dim) {
    const { scene } = this.app;
    const node = item && (item.node || scene.nodes.get(item.id));
    let parts;
    if (node) parts = this.nodePanel(node, dim);
    else if (item && item.group) parts = this.kernelPanel(item.group.kernel);
    else if (item && item.kernel) parts = this.kernelPanel(item.kernel);
    else if (item && item.container) parts = this.containerPanel(item.container);
    else parts = this.programPanel();
    this.root.replaceChildren(...parts.filter((part) => part));
    this.root.scrollTop = 0;
  }

  link(id, text, title = null) {
    return element("button", { class: "link", title, onclick: () => this.app.select(id, true) }, text);
  }

  section(title, ...rows) {
    return rows.length ? element("section", {}, element("h3", {}, title), ...rows) : null;
  }

  // ---- one value

  nodePanel(node, dim) {
    const { scene } = this.app, info = scene.infoOf(node);
    const head = element("h2", {}, element("span", { class: "chip", style: `--hue:${hueOf(node.family || node.kind)}` }, node.label),
      node.name ? element("span", { class: "name" }, node.name) : null);
    const kernels = scene.kernelsOf.get(node.id) || [];
    const users = [...new Set(scene.users.get(node.id) || [])];
    return [
      head,
      info && info.text ? this.infoRows(node, info, dim) : null,
      dim ? this.explanation(node, ...dim) : null,
      this.section("operands", ...node.inputs.map((input) => this.operandRow(input))),
      node.detail ? this.section("attributes", element("code", { class: "block" }, highlightTokens(node.detail))) : null,
      node.signature !== undefined ? this.section("index signature", element("code", { class: "block" }, scene.program.signatures[node.signature])) : null,
      node.callee ? this.section("calls", this.link(this.functionId(node.callee), node.callee)) : null,
      this.section("users", ...users.slice(0, 12).map((r) => element("div", { class: "row" }, this.link(r.id, r.label), element("span", { class: "muted" }, r.name || "")))),
      this.section(kernels.length > 1 ? "kernels" : "kernel", ...kernels.map((k) => this.kernelRow(k))),
      this.fusionDecisions(node),
    ];
  }

  functionId(name) {
    const callee = this.app.scene.functions.find((f) => f.label === name);
    return callee ? callee.id : null;
  }

  operandRow({ from, slot, text }) {
    const { scene } = this.app, producer = scene.nodes.get(from);
    const value = producer ? this.link(from, producer.name || producer.label) : from !== undefined ? this.link(from, scene.containers.get(from).label) : element("code", {}, text);
    return element("div", { class: "row" }, element("span", { class: "slot" }, slot || ""), value,
      producer ? element("span", { class: "muted" }, shapeText(scene.tensorOf(producer))) : null);
  }

  // Returns the tensors of a StructInfo, with a button for each size.
  infoRows(node, info, dim) {
    const rows = element("div", { class: "info" });
    info.tensors.forEach((tensor, k) => {
      const row = element("div", { class: "row" });
      const inferred = tensor.dims ? null : (node.inferred || [])[k], dims = tensor.dims || inferred;
      if (tensor.text || !dims) row.append(element("code", {}, tensor.text || `R.Tensor(dtype=${tensor.dtype || "?"}, ndim=${tensor.ndim ?? "?"})`));
      else {
        if (inferred) row.append(element("span", { class: "muted" }, "inferred "));
        row.append(element("span", { class: "muted" }, "("));
        dims.forEach((d, axis) => {
          const on = dim && dim[0] === k && dim[1] === axis;
          row.append(element("button", { class: `dim${on ? " on" : ""}`, "aria-pressed": String(Boolean(on)), title: `explain the size ${d} of axis ${axis}`,
            onclick: () => this.app.explain(node.id, k, axis) }, d), axis + 1 < dims.length ? ", " : "");
        });
        row.append(element("span", { class: "muted" }, ")"), element("code", { class: "dtype" }, tensor.dtype || "?"));
      }
      rows.append(row);
    });
    return rows;
  }

  // Returns the explanation of a size: its path along the axes of ops, and its origins in the solver.
  explanation(node, tensor, axis) {
    const { scene } = this.app, info = scene.infoOf(node).tensors[tensor];
    const size = info && info.dims ? info.dims[axis] : ((node.inferred || [])[tensor] || [])[axis] || "?";
    const index = ((node.explanations || [])[tensor] || [])[axis];
    const origins = index === undefined ? [] : scene.program.explanations[index];
    const steps = this.traceAxis(node, tensor, axis);
    return element("section", { class: "explanation", "aria-live": "polite" },
      element("h3", {}, `why axis ${axis} of ${node.name || node.label} is ${size}`),
      ...steps.map((step) => element("div", { class: "row" }, element("span", { class: "slot" }, step.relation), this.link(step.node.id, step.node.name || step.node.label),
        element("span", { class: "muted" }, step.text))),
      origins.length ? element("h4", {}, "derived by the solver from") : null,
      ...origins.map((o) => element("div", { class: "row" }, element("span", { class: "slot" }, o.kind),
        o.line && scene.byLine.has(o.line) ? this.link(scene.byLine.get(o.line), this.originName(o)) : element("span", {}, o.text),
        element("span", { class: "muted" }, o.line ? `line ${o.line}` : ""))),
      steps.length || origins.length ? null : element("p", { class: "muted" }, "declared by the program"));
  }

  originName(origin) {
    const node = this.app.scene.nodes.get(this.app.scene.byLine.get(origin.line));
    return node && origin.kind === "op" ? `${node.label}, which defines ${node.name}` : origin.text;
  }

  // Follows an axis backward through operands to the parameter or op that defines its size.
  traceAxis(node, tensor, axis) {
    const steps = [];
    let current = node, part = tensor, position = axis;
    for (let count = 0; count < 24; count += 1) {
      const size = this.sizeAt(current, part, position), label = `axis ${position}${size ? ` = ${shortDim(size)}` : ""}`;
      const source = this.axisSource(current, part, position), input = source && current.inputs[source.input];
      const producer = input && this.app.scene.nodes.get(input.from);
      const relation = count && !producer ? "from" : count ? "then" : "here";
      if (!source) {
        const definition = current.kind === "param" ? "a parameter of the function" : `defined by ${current.label}`;
        steps.push({ relation, node: current, text: `${label}: ${definition}` });
        break;
      }
      const equality = source.same ? "equal to" : "computed from";
      if (source.shown) steps.push({ relation, node: current, text: `${label}: ${equality} axis ${source.axis} of ${input.slot || "its operand"}${producer ? "" : `, ${input.text}`}` });
      if (!producer) break;
      [current, part, position] = [producer, source.part, source.axis];
    }
    return steps;
  }

  // Returns the operand axis that an axis has its size from; aliases of a value are not shown as steps.
  axisSource(node, part, axis) {
    const sourceAt = (input, same, shown, inner = 0) => (node.inputs[input] ? { input, axis, part: inner, same, shown } : null);
    if (node.kind === "value" || node.kind === "match") return sourceAt(0, true, false);
    if (node.kind === "field") return sourceAt(0, true, false, Number(node.label.slice(1, -1)));
    if (node.kind === "tuple") return sourceAt(part, true, false);
    const sources = ((node.axisSources || [])[part] || [])[axis] || [];
    const best = sources.find(([, , same]) => same) || sources[0];
    return best ? { ...sourceAt(best[0], best[2], true), axis: best[1] } : null;
  }

  sizeAt(node, part, axis) {
    const info = this.app.scene.infoOf(node), tensor = info && info.tensors[part];
    return tensor && tensor.dims ? tensor.dims[axis] : "";
  }

  fusionDecisions(node) {
    const { scene } = this.app, f = scene.functionOf(node.id);
    const decisions = ((scene.program.compiled.functions || {})[f.label] || { decisions: [] }).decisions;
    const related = decisions.filter(([a, b]) => a === node.line || b === node.line).slice(0, 10);
    return this.section("fusion decisions", ...related.map(([a, b, reason]) => {
      const other = a === node.line ? b : a, id = scene.byLine.get(other), name = id === undefined ? `line ${other}` : (scene.nodes.get(id) || {}).label;
      return element("div", { class: "row" }, element("span", { class: "slot" }, a === node.line ? "into" : "from"),
        id === undefined ? name : this.link(id, name), element("span", { class: "muted" }, reason));
    }));
  }

  // ---- kernels

  kernelRow(kernel) {
    const { scene } = this.app;
    return element("div", { class: "row" },
      element("button", { class: "link", onclick: () => this.app.selectKernel(kernel) }, `${kernel.number}  ${scene.kernelTitle(kernel) || kernel.kind}`),
      element("span", { class: "muted" }, scene.functions.length > 1 ? `${kernel.function.label} · ${kernel.kind}` : kernel.kind),
      kernel.seconds === undefined ? null : element("span", { class: "time", style: `--share:${kernel.heat}` }, timeText(kernel.seconds)));
  }

  kernelPanel(kernel) {
    const { scene } = this.app;
    const figures = kernel.seconds === undefined ? null : element("p", {},
      `${timeText(kernel.seconds)} in ${kernel.runs} ${kernel.runs === 1 ? "run" : "runs"}, ${(kernel.share * 100).toFixed(1)} % of all kernels, `
      + `${kernel.gigaflops.toFixed(1)} GFLOP/s, ${kernel.gigabytes.toFixed(1)} GB/s`);
    return [
      element("h2", {}, element("span", { class: "chip", style: "--hue:215" }, `kernel ${kernel.number}`), element("span", { class: "name" }, `${kernel.function.label} · ${kernel.kind}`)),
      figures,
      this.section("ops", ...kernel.nodes.map((node) => element("div", { class: "row" }, this.link(node.id, node.label), element("span", { class: "muted" }, node.name || "")))),
      this.sourceTabs(kernel),
    ];
  }

  sourceTabs(kernel) {
    const sources = [["generated source", kernel.source], ["@I.kernel", kernel.script]].filter(([, text]) => text);
    const block = element("pre", { class: "block", tabindex: 0 });
    const fill = (text) => block.replaceChildren(...text.replace(/\s+$/, "").split("\n").map((line) => element("div", {}, highlightTokens(line), "\n")));
    const tabs = element("div", { class: "tabs", role: "tablist" }, ...sources.map(([name, text], k) => element("button", {
      role: "tab", "aria-selected": String(k === 0), onclick: (event) => {
        for (const tab of tabs.children) tab.setAttribute("aria-selected", String(tab === event.currentTarget));
        fill(text);
      } }, name)));
    fill(sources[0][1]);
    return element("section", {}, tabs, block);
  }

  // ---- functions, and the program

  containerPanel(container) {
    const { scene } = this.app;
    const inside = scene.program.nodes.filter((node) => node.parent === container.id);
    const kernels = scene.kernels.filter((kernel) => kernel.function === container);
    const failure = ((scene.program.compiled.functions || {})[container.label] || {}).failure;
    const params = inside.filter((node) => node.kind === "param");
    return [
      element("h2", {}, element("span", { class: "chip", style: "--hue:215" }, container.kind), element("span", { class: "name" }, container.label)),
      container.text ? element("pre", { class: "block" }, ...container.text.split("\n").map((line) => element("div", {}, highlightTokens(line), "\n"))) : null,
      this.section("parameters", ...params.slice(0, 60).map((node) => element("div", { class: "row" }, this.link(node.id, node.name), element("span", { class: "muted" }, shapeText(scene.tensorOf(node)))))),
      container.kind === "function" ? this.kernelList(kernels) : null,
      failure ? this.section("no kernels", element("p", { class: "muted" }, failure)) : null,
    ];
  }

  kernelList(kernels) {
    const sorted = [...kernels].sort((a, b) => (b.seconds || 0) - (a.seconds || 0));
    return this.section(`${kernels.length} kernels${sorted.some((k) => k.seconds) ? ", longest first" : ""}`, ...sorted.slice(0, 200).map((kernel) => this.kernelRow(kernel)));
  }

  programPanel() {
    const { scene, data } = this.app, { program } = scene;
    const ops = program.nodes.filter((node) => node.kind === "op").length;
    const { shapes } = program.compiled;
    return [
      element("h2", {}, element("span", { class: "name" }, data.title)),
      element("p", { class: "muted" }, `${scene.functions.length} ${scene.functions.length === 1 ? "function" : "functions"}, ${ops} ops, ${scene.kernels.length} kernels`
        + (program.compiled.seconds ? `; a call of ${program.compiled.entry} takes ${timeText(program.compiled.seconds)}` : "")),
      shapes ? this.section("profiled with", ...Object.entries(shapes).filter(([, shape]) => shape).slice(0, 8).map(([name, shape]) => element("div", { class: "row" }, element("code", {}, name), element("span", { class: "muted" }, `(${shape.join(", ")})`)))) : null,
      ...program.conflicts.map((text) => element("pre", { class: "block error" }, text)),
      this.section("functions", ...scene.functions.map((f) => element("div", { class: "row" }, this.link(f.id, f.label), element("span", { class: "muted" }, f.kind)))),
      this.kernelList(scene.kernels),
      this.section("keys", ...KEYS.map(([key, action]) => element("div", { class: "row" }, element("kbd", {}, key), element("span", {}, action)))),
    ];
  }
}

const KEYS = [
  ["↓ ↑", "next user, operand"], ["← →", "previous, next neighbour"], ["Enter", "open or close"], ["/", "search"],
  ["o c", "open, close all kernels"], ["p", "show weights as nodes"], ["t", "hide StructInfo in the source"], ["+ −", "zoom in, zoom out"], ["f", "fit"], ["Esc", "clear the selection"],
];

// The timeline: a button for each pass that ran. A selected pass shows its diff in the source pane.
class Timeline {
  constructor(root, app) {
    this.root = root;
    this.app = app;
    const { steps } = app.data;
    root.hidden = !steps.length;
    if (!steps.length) return;
    const longest = Math.max(...steps.map((s) => s.seconds), 1e-9);
    this.buttons = [this.button("input", "", "before all passes", 0, -1)];
    steps.forEach((step, k) => {
      const options = Object.entries(step.options).map(([name, value]) => `${name}=${value}`).join(" ");
      const [plus, minus] = ["+", "-"].map((sign) => step.difference.split("\n").slice(2).filter((line) => line.startsWith(sign)).length);
      const changes = step.changed ? `+${plus} −${minus}` : "";
      this.buttons.push(this.button(step.pass + (options ? ` {${options}}` : ""), changes, timeText(step.seconds), step.seconds / longest, k, step));
    });
    root.append(...this.buttons);
  }

  button(name, changed, time, share, k, step = null) {
    const idle = step && !step.changed;
    return element("button", { class: `step${idle ? " idle" : ""}`, style: `--share:${share};--depth:${step ? step.depth : 0}`, "aria-pressed": String(k === -1),
      title: step ? step.notes.join("\n") || null : null, onclick: () => this.app.showStep(k) },
    element("span", { class: "pass" }, name), element("span", { class: "changed" }, changed), element("span", { class: "muted" }, time));
  }

  mark(k) {
    (this.buttons || []).forEach((button, index) => button.setAttribute("aria-pressed", String(index === k + 1)));
    if (this.buttons && this.buttons[k + 1]) this.buttons[k + 1].scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}
