"use strict";
// The scene of a program: visible boxes and wires. Kernels are containers, weights are drawn inside
// their users, and a closed container is one box.

class Scene {
  constructor(program, measure) {
    this.program = program;
    this.measure = measure; // returns the width of a string in a font
    this.nodes = new Map(program.nodes.map((node) => [node.id, node]));
    this.containers = new Map(program.containers.map((c) => [c.id, c]));
    this.users = new Map();
    for (const node of program.nodes) {
      node.inputs = node.inputs || [];
      for (const input of node.inputs) {
        if (input.from === undefined) continue;
        if (!this.users.has(input.from)) this.users.set(input.from, []);
        this.users.get(input.from).push(node);
      }
    }
    this.params = new Map(); // number of parameters by function
    for (const node of program.nodes) {
      if (node.kind === "param") this.params.set(node.parent, (this.params.get(node.parent) || 0) + 1);
    }
    this.byLine = new Map();
    for (const c of program.containers) if (c.line) this.byLine.set(c.line, c.id);
    for (const node of program.nodes) if (node.line && node.kind !== "param") this.byLine.set(node.line, node.id);
    this.functions = program.containers.filter((c) => c.parent === null);
    const main = this.functions.findIndex((c) => c.label === "main");
    if (main > 0) this.functions.unshift(...this.functions.splice(main, 1));
    this.kernels = [];
    this.kernelsOf = new Map(); // by node
    this.groups = new Map(); // by id
    this.groupOf = new Map(); // by node
    for (const f of this.functions) this.addKernels(f);
    this.closed = new Set(this.functions.filter((c) => c.kind === "kernel").map((c) => c.id));
    if (program.nodes.length > 4000) for (const f of this.functions.slice(1)) this.closed.add(f.id);
    if (program.nodes.length > 800) this.closeKernels();
    this.foldWeights = true;
  }

  functionOf(id) {
    let c = this.nodes.has(id) ? this.containers.get(this.nodes.get(id).parent) : this.containers.get(id);
    while (c.parent !== null) c = this.containers.get(c.parent);
    return c;
  }

  // ---- kernels

  addKernels(f) {
    const compiled = (this.program.compiled.functions || {})[f.label];
    if (!compiled) return;
    const ops = this.program.nodes.filter((node) => node.kind === "op" && this.functionOf(node.id) === f);
    const nodeOf = new Map(ops.map((node) => [node.line, node]));
    const kernels = compiled.kernels.map((kernel, k) => {
      const nodes = kernel.lines.map((line) => nodeOf.get(line)).filter((node) => node);
      return { ...kernel, id: `k${f.id}.${k}`, number: k + 1, function: f, nodes };
    });
    this.kernels.push(...kernels);
    for (const kernel of kernels) {
      for (const node of kernel.nodes) {
        if (!this.kernelsOf.has(node.id)) this.kernelsOf.set(node.id, []);
        this.kernelsOf.get(node.id).push(kernel);
      }
    }
    const mainKernels = new Map(); // by node: the kernel with the most ops
    for (const node of ops) {
      const candidates = this.kernelsOf.get(node.id) || [];
      const best = candidates.reduce((a, b) => (a && a.nodes.length > b.nodes.length ? a : b), null);
      if (best) mainKernels.set(node.id, best);
    }
    this.assignViews(f, mainKernels);
    const members = new Map();
    for (const [id, kernel] of mainKernels) {
      const key = `${kernel.id}@${this.nodes.get(id).parent}`;
      if (!members.has(key)) members.set(key, { kernel, ids: [] });
      members.get(key).ids.push(id);
    }
    for (const [key, { kernel, ids }] of members) {
      if (ids.length < 2) continue;
      this.groups.set(key, { id: key, kernel, ids, parent: this.nodes.get(ids[0]).parent });
      for (const id of ids) this.groupOf.set(id, key);
    }
  }

  // Assigns values without a kernel (tuple fields and other views) to the kernel around them.
  assignViews(f, mainKernels) {
    const views = this.program.nodes.filter(
      (node) => !mainKernels.has(node.id) && ["field", "tuple", "op", "value"].includes(node.kind)
        && this.functionOf(node.id) === f,
    );
    const producerKernels = new Map();
    for (const node of views) {
      for (const { from } of node.inputs) {
        const kernel = mainKernels.get(from) || producerKernels.get(from);
        if (kernel && this.nodes.has(from) && this.nodes.get(from).parent === node.parent) producerKernels.set(node.id, kernel);
      }
    }
    for (const node of [...views].reverse()) {
      const kernel = producerKernels.get(node.id);
      if (!kernel) continue;
      const users = this.users.get(node.id) || [];
      const hasInnerUser = users.some((user) => mainKernels.get(user.id) === kernel);
      if (hasInnerUser || node.kind === "field") mainKernels.set(node.id, kernel);
    }
  }

  closeKernels() { for (const id of this.groups.keys()) this.closed.add(id); }

  // ---- weights: drawn inside their users

  // Returns whether a node is a parameter, a constant or computed from these, and hidden in its users.
  isFolded(node) {
    if (!this.foldWeights) return false;
    if (node.folded === undefined) {
      node.folded = false; // ends the recursion on cycles
      node.folded = this.canFold(node);
    }
    return node.folded;
  }

  canFold(node) {
    const users = this.users.get(node.id) || [];
    if (!users.length || !this.isInvariant(node) || (node.kind === "param" && this.params.get(node.parent) <= 4)) return false;
    const isVarying = ({ from }) => from !== undefined && from !== node.id
      && !(this.nodes.has(from) && this.isInvariant(this.nodes.get(from)));
    return users.every((user) => user.parent === node.parent && user.kind !== "result" && user.inputs.some(isVarying));
  }

  // Returns whether a value is likely the same in every run: a parameter or constant of constant shape,
  // or an op on such values.
  isInvariant(node) {
    if (node.invariant === undefined) {
      const isLeaf = node.kind === "param" || node.kind === "constant";
      const onlyInvariant = node.inputs.every(({ from }) => from === undefined || (this.nodes.has(from) && this.isInvariant(this.nodes.get(from))));
      node.invariant = this.hasConstantShape(node) && (isLeaf || (node.kind === "op" && onlyInvariant));
    }
    return node.invariant;
  }

  hasConstantShape(node) {
    const info = this.tensorOf(node);
    return Boolean(info && info.dims && info.dims.every((d) => /^\d+$/.test(d)));
  }

  infoOf(node) { return node.info === undefined ? null : this.program.infos[node.info]; }

  tensorOf(node) {
    const info = this.infoOf(node);
    return info && info.tensors.length === 1 ? info.tensors[0] : null;
  }

  // ---- boxes

  build() {
    this.items = new Map();
        const root = { id: "root", children: [] };
    const itemOf = new Map([[null, root]]); // by container or node: its item, or the closed item around it
    const isClosed = (id) => this.closed.has(id);
    for (const c of [...this.functions, ...this.program.containers.filter((k) => k.parent !== null)]) {
      const outer = itemOf.get(c.parent);
      if (!outer || !outer.children) { itemOf.set(c.id, outer); continue; }
      const item = { id: c.id, container: c, seq: c.id };
      if (isClosed(c.id)) this.closedBox(item); else this.openBox(item, c.kind === "function" ? 34 : 26);
      outer.children.push(item);
      this.items.set(c.id, item);
      itemOf.set(c.id, item);
    }
    for (const node of this.program.nodes) {
      let outer = itemOf.get(node.parent);
      if (!outer || !outer.children || this.isFolded(node)) { itemOf.set(node.id, outer); continue; }
      const key = this.groupOf.get(node.id);
      if (key !== undefined) {
        if (!this.items.has(key)) this.groupBox(key, node, outer);
        outer = this.items.get(key);
        if (!outer.children) { itemOf.set(node.id, outer); continue; }
      }
      const item = { id: node.id, node, seq: node.id };
      this.nodeBox(item);
      outer.children.push(item);
      this.items.set(node.id, item);
      itemOf.set(node.id, item);
    }
    this.visibleItem = (id) => this.items.get(id) || itemOf.get(id);
    const edges = this.edges();
    layoutTree(root, edges);
    this.root = root;
    this.flatten(root, 0, 0);
    return root;
  }

  groupBox(key, node, outer) {
    const item = { id: key, group: this.groups.get(key), seq: node.id };
    if (this.closed.has(key)) this.closedBox(item); else this.openBox(item, 22);
    outer.children.push(item);
    this.items.set(key, item);
  }

  openBox(item, title) {
    item.children = [];
    item.title = title;
    item.least = this.measure(this.titleOf(item), FONT.bold) + 110;
  }

  closedBox(item) {
    item.lines = [];
    const title = this.titleOf(item);
    item.width = Math.min(Math.max(this.measure(title, FONT.bold) + 40, 120), 300);
    item.box = 44;
    item.height = item.box;
  }

  titleOf(item) {
    if (item.group) return this.kernelTitle(item.group.kernel);
    const c = item.container;
    if (c.kind === "if") return `if … → ${c.label}`;
    return c.label;
  }

  kernelTitle(kernel) {
    const names = [...new Set(kernel.nodes.map((node) => node.label.split(".").pop()))];
    return names.slice(0, 4).join(" + ") + (names.length > 4 ? " + …" : "");
  }

  nodeBox(item) {
    const { node } = item;
    item.lines = node.kind === "op" || node.kind === "call" ? this.nodeLines(node) : [];
    const widths = item.lines.map((line) => this.measure(line, FONT.small));
    item.title = node.kind === "param" || node.kind === "result" ? node.name || node.label : node.label;
    const titleWidth = this.measure(item.title, FONT.bold);
    item.edgeLabel = this.users.has(node.id) ? this.edgeLabel(node) : "";
    const label = item.edgeLabel ? this.measure(item.edgeLabel, FONT.tiny) + 10 : 0;
    item.boxWidth = Math.min(Math.max(titleWidth + 26, ...widths.map((w) => w + 24), 64), 240);
    item.box = 26 + 15 * item.lines.length;
    item.width = Math.max(item.boxWidth, label);
    item.height = item.box + (label ? 22 : 0);
  }

  nodeLines(node) {
    const lines = [];
    for (const input of node.inputs) {
      const operand = this.nodes.get(input.from);
      if (operand && this.isFolded(operand)) {
        const name = operand.kind === "op" ? operand.label : operand.name;
        lines.push(`${input.slot ? `${input.slot}  ` : ""}${name}  ${shapeText(this.tensorOf(operand))}`);
      } else if (input.from === undefined && input.text) {
        lines.push(`${input.slot ? `${input.slot}  ` : ""}${input.text}`);
      }
    }
    if (node.detail) lines.push(node.detail);
    return lines.length > 4 ? [...lines.slice(0, 3), `… ${lines.length - 3} more`] : lines;
  }

  edgeLabel(node) {
    const info = this.infoOf(node);
    if (!info) return "";
    const texts = info.tensors.map((tensor) => shapeText(tensor));
    const text = texts.length === 1 ? texts[0] : `(${texts.slice(0, 2).join(", ")}${texts.length > 2 ? ", …" : ""})`;
    return truncate(text, 46);
  }

  edges() {
    const edges = [], keys = new Set();
    const add = (from, to, value) => {
      const a = this.visibleItem(from), b = this.visibleItem(to);
      if (!a || !b || a === b || a.id === "root" || b.id === "root") return;
      const key = `${a.id}>${b.id}>${value}`;
      if (keys.has(key)) return;
      keys.add(key);
      edges.push({ from: a, to: b, value });
    };
    for (const node of this.program.nodes) {
      for (const { from } of node.inputs) {
        if (from === undefined) continue;
        const producer = this.nodes.get(from);
        if (!producer || !this.isFolded(producer)) add(from, node.id, from);
      }
    }
    for (const c of this.program.containers) if (c.after !== undefined) add(c.after, c.id, c.after);
    return edges;
  }

  // Sets the global positions of all boxes, and collects the wires of all containers.
  flatten(root) {
    this.boxes = [];
    this.wires = [];
    const visit = (item, x, y, depth) => {
      item.left = x + (item === root ? 0 : item.x);
      item.top = y + (item === root ? 0 : item.y);
      if (item !== root) this.boxes.push(item);
      item.level = depth;
      for (const route of item.routes || []) this.wires.push(this.toGlobal(route, item));
      for (const child of item.children || []) visit(child, item.left, item.top, depth + 1);
    };
    visit(root, 0, 0, 0);
  }

  toGlobal(route, container) {
    const dx = container.left, dy = container.top;
    const wire = { value: route.value, segments: new Float32Array(route.segments.length * 4), ends: [] };
    let box = [Infinity, Infinity, -Infinity, -Infinity];
    route.segments.forEach(([x1, y1, x2, y2], k) => {
      wire.segments.set([x1 + dx, y1 + dy, x2 + dx, y2 + dy], 4 * k);
      box = [Math.min(box[0], x1 + dx, x2 + dx), Math.min(box[1], y1 + dy, y2 + dy),
        Math.max(box[2], x1 + dx, x2 + dx), Math.max(box[3], y1 + dy, y2 + dy)];
    });
    wire.box = box;
    wire.ends = route.ends.map(([x, y]) => [x + dx, y + dy]);
    return wire;
  }
}

const DTYPES = { float: "f", bfloat: "bf", int: "i", uint: "u" };

function shortDtype(dtype) {
  const match = /^(bfloat|float|uint|int)(\d+)$/.exec(dtype || "");
  return match ? DTYPES[match[1]] + match[2] : dtype || "?";
}

// Shortens long names in a size: p2o_DynamicDimension_0 becomes p2o…n_0.
function shortDim(dim) {
  return dim.replace(/[A-Za-z_]\w{9,}/g, (name) => `${name.slice(0, 3)}…${name.slice(-3)}`);
}

function shapeText(tensor) {
  if (!tensor) return "";
  if (tensor.text !== undefined) return truncate(tensor.text.replace(/^R\./, ""), 36);
  const rank = tensor.ndim === null || tensor.ndim === undefined || tensor.ndim < 0 ? "?" : `${tensor.ndim}d`;
  const dims = tensor.dims ? tensor.dims.map(shortDim).join(" × ") || "scalar" : rank;
  return `${dims}  ${shortDtype(tensor.dtype)}`;
}

function truncate(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

function timeText(seconds) {
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  return seconds >= 1e-3 ? `${(seconds * 1e3).toFixed(2)} ms` : `${(seconds * 1e6).toFixed(1)} µs`;
}
