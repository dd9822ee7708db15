"use strict";
// What holds the parts together: the chosen thing, the chosen program, keys, search, themes.

class App {
  constructor(data) {
    this.data = data;
    const find = (id) => document.getElementById(id);
    this.find = find;
    document.body.classList.toggle("small", Boolean(data.small));
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const follow = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
    follow();
    dark.addEventListener("change", () => { follow(); this.recolour(); });
    this.drawing = new Drawing(find("graph"), {
      select: (id, value) => this.choose(id, false, value), hover: (item) => this.hover(item), toggle: (item) => this.toggle(item),
    });
    this.text = new TextPane(find("text"), { choose: (line, dim) => this.chooseLine(line, dim), hover: (line) => this.hoverLine(line) });
    this.inspector = new Inspector(find("inspector"), this);
    this.timeline = new Timeline(find("timeline"), this);
    this.scenes = new Map();
    this.step = -1;
    this.listen();
    if (data.opened < 0) { this.showProgram(0); return; }
    this.showStep(data.opened);
    if (this.textIsDiff) this.showText();
  }

  showProgram(k) {
    if (!this.scenes.has(k)) {
      const scene = new Scene(this.data.programs[k], this.drawing.measurer());
      scene.small = this.data.small;
      const known = scene.kernels.filter((kernel) => kernel.seconds !== undefined);
      const total = known.reduce((sum, kernel) => sum + kernel.seconds, 0) || 1;
      for (const kernel of known) kernel.share = kernel.seconds / total;
      const most = known.reduce((share, kernel) => Math.max(share, kernel.share), 0) || 1;
      for (const kernel of known) kernel.heat = kernel.share / most;
      scene.build();
      this.scenes.set(k, scene);
    }
    this.scene = this.scenes.get(k);
    this.drawing.show(this.scene);
    this.drawing.fit();
    this.showText();
    this.choose(null);
  }

  showText() {
    const { scene } = this;
    this.textIsDiff = false;
    this.find("textname").textContent = "text";
    this.text.show(scene.program.text.split("\n"), {
      sizes: true,
      paint: (line) => (line === this.line ? "chosen" : line === this.overLine ? "over" : this.linesOfGroup && this.linesOfGroup.has(line) ? "member" : ""),
      bar: (line) => this.barOf(line),
    });
  }

  // Lines of one kernel have one colour at their numbers.
  barOf(line) {
    const key = this.scene.groupOf.get(this.scene.byLine.get(line));
    if (key === undefined) return null;
    const places = [...this.scene.groups.keys()];
    return `hsl(${(places.indexOf(key) * 67) % 360} 55% ${this.drawing.dark ? 45 : 70}%)`;
  }

  showStep(k) {
    this.step = k;
    this.timeline.mark(k);
    const step = this.data.steps[k];
    let program = 0;
    for (const earlier of this.data.steps.slice(0, k + 1)) if (earlier.program !== null && earlier.program !== undefined) program = earlier.program;
    this.showProgram(program);
    if (step) this.find("textname").textContent = step.changed ? `what ${step.pass} changed` : `${step.pass} changed nothing`;
    if (!step || !step.changed) return;
    this.textIsDiff = true;
    const lines = step.difference.split("\n").slice(2);
    const paint = (_, line) => (line.startsWith("+") ? "add" : line.startsWith("-") ? "cut" : line.startsWith("@@") ? "hunk" : "");
    this.text.show(step.notes.map((note) => `# ${note}`).concat(lines), { paint, numbers: false });
  }

  // ---- what is chosen

  choose(id, reveal = false, value = false) {
    const { scene, drawing } = this;
    if (id !== null && id !== undefined && reveal) this.open(id);
    const item = id === null || id === undefined ? null : scene.seen(id) || null;
    const node = scene.nodes.get(id);
    this.chosen = id;
    drawing.selected = item ? item.id : null;
    drawing.lit = node ? id : null;
    const container = scene.containers.get(id);
    const line = node ? node.line : container ? container.line : null;
    this.line = line;
    const group = item && item.group;
    this.linesOfGroup = new Set(group && !node ? group.kernel.lines : []);
    const dim = value && node && scene.infoOf(node) && (scene.infoOf(node).tensors[0] || {}).dims ? [0, 0] : null;
    this.inspector.show(node ? { node } : container ? { container } : item, dim);
    if (!this.textIsDiff) {
      const shown = line || (group ? group.kernel.lines[0] : null);
      if (shown) this.text.reveal(shown); else this.text.fill(true);
    }
    if (reveal) drawing.reveal(item);
    drawing.ask();
    this.say(node, item);
  }

  say(node, item) {
    const info = node && this.scene.infoOf(node);
    this.find("said").textContent = node ? `${node.label} ${node.name || ""}: ${info ? info.text : ""}` : item ? this.scene.titleOf(item) : "";
  }

  explain(id, tensor, axis) {
    this.inspector.show({ node: this.scene.nodes.get(id) }, [tensor, axis]);
    const { kind } = this.scene.nodes.get(id);
    if (kind) this.find("inspector").querySelector(".dim.on").focus({ preventScroll: true });
  }

  chooseKernel(kernel) {
    const key = [...this.scene.groups.values()].find((group) => group.kernel === kernel);
    if (key) { this.choose(key.id, true); return; }
    if (kernel.nodes.length) this.choose(kernel.nodes[0].id, true);
    this.inspector.show({ kernel });
  }

  chooseLine(line, dim) {
    if (this.textIsDiff) return;
    const id = this.scene.byLine.get(line);
    if (id === undefined) return;
    this.choose(id, true);
    if (dim && this.scene.nodes.has(id)) this.explain(id, ...dim);
  }

  hover(item) {
    const node = item && item.node;
    this.overLine = node ? node.line : null;
    const info = node && this.scene.infoOf(node);
    this.find("hint").textContent = node ? `${node.name || node.label}${info ? `: ${info.text}` : ""}` : "";
    if (!this.textIsDiff) this.text.fill(true);
  }

  hoverLine(line) {
    if (this.textIsDiff || this.overLine === line) return;
    this.overLine = line;
    const id = this.scene.byLine.get(line), item = id === undefined ? null : this.scene.seen(id);
    this.drawing.hovered = item && item.node ? item.id : null;
    this.drawing.ask();
  }

  // ---- opening and closing

  open(id) { // all that stands around a thing, so that it can be seen
    const { scene } = this;
    let changed = false;
    const show = (key) => { changed = scene.closed.delete(key) || changed; };
    const node = scene.nodes.get(id);
    if (node && scene.groupOf.has(id)) show(scene.groupOf.get(id));
    if (node && scene.isFolded(node)) { scene.foldParams = false; changed = true; }
    const group = scene.groups.get(id);
    let place = node ? node.in : group ? group.in : (scene.containers.get(id) || { in: null }).in;
    for (; place !== null; place = scene.containers.get(place).in) show(place);
    if (changed) this.rebuild();
  }

  toggle(item) {
    const { scene } = this;
    if (scene.closed.has(item.id)) scene.closed.delete(item.id); else scene.closed.add(item.id);
    this.rebuild(item.id);
    this.choose(item.id);
  }

  rebuild(anchor = null) {
    const { scene, drawing } = this, before = anchor === null ? null : scene.items.get(anchor);
    const at = before ? [before.left, before.top] : null;
    scene.build();
    const after = anchor === null ? null : scene.items.get(anchor);
    if (at && after) { drawing.camera.x += after.left - at[0]; drawing.camera.y += after.top - at[1]; }
    drawing.show(scene);
  }

  setKernels(open) {
    if (open) for (const id of this.scene.groups.keys()) this.scene.closed.delete(id); else this.scene.closeGroups();
    this.rebuild();
    this.drawing.fit();
    this.choose(null);
  }

  setBrief() {
    this.text.brief = !this.text.brief;
    this.find("brief").setAttribute("aria-pressed", String(Boolean(this.text.brief)));
    this.text.fill(true);
  }

  setParams() {
    this.scene.foldParams = !this.scene.foldParams;
    this.rebuild();
    this.drawing.fit();
  }

  // ---- moving along the wires

  step_(direction) {
    const { scene } = this, item = scene.items.get(this.drawing.selected);
    if (!item) { const first = scene.boxes.find((box) => box.node); if (first) this.choose(first.id, true); return; }
    const down = direction === "ArrowDown", up = direction === "ArrowUp";
    if (down || up) {
      const ids = item.node ? [item.id] : item.group ? item.group.ids : [];
      const next = ids.flatMap((id) => (down ? (scene.readers.get(id) || []).map((n) => n.id)
        : scene.nodes.get(id).inputs.map((input) => input.from).filter((from) => from !== undefined)))
        .map((id) => scene.seen(id)).filter((box) => box && box !== item && !(scene.nodes.get(box.id) && scene.isFolded(scene.nodes.get(box.id))));
      if (next.length) this.choose(next[0].id, true);
      return;
    }
    const left = direction === "ArrowLeft";
    const beside = scene.boxes.filter((box) => box !== item && !box.children && Math.abs(box.top - item.top) < 60
      && (left ? box.left < item.left : box.left > item.left));
    beside.sort((a, b) => Math.abs(a.left - item.left) - Math.abs(b.left - item.left));
    if (beside.length) this.choose(beside[0].id, true);
  }

  listen() {
    const { find, drawing } = this;
    const keys = {
      "+": () => drawing.zoom(1.25), "=": () => drawing.zoom(1.25), "-": () => drawing.zoom(0.8), f: () => drawing.fit(true),
      o: () => this.setKernels(true), c: () => this.setKernels(false), p: () => this.setParams(), t: () => this.setBrief(), Escape: () => this.choose(null),
      "/": () => find("search").focus(), Enter: () => this.enter(), " ": () => this.enter(),
    };
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest("input"), pressed = event.target.closest("button, summary");
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (typing && event.key !== "Escape") return;
      if (pressed && (event.key === "Enter" || event.key === " ")) return;
      if (event.target.closest("#inspector, #text") && event.key.startsWith("Arrow")) return;
      if (event.key.startsWith("Arrow")) this.step_(event.key);
      else if (keys[event.key]) keys[event.key]();
      else return;
      event.preventDefault();
    });
    const buttons = { fit: () => drawing.fit(true), nearer: () => drawing.zoom(1.25), further: () => drawing.zoom(0.8),
      opened: () => this.setKernels(true), shut: () => this.setKernels(false), params: () => this.setParams(), brief: () => this.setBrief(), theme: () => this.turnTheme() };
    for (const [id, act] of Object.entries(buttons)) find(id).addEventListener("click", act);
    find("search").addEventListener("input", (event) => this.search(event.target.value));
    find("search").addEventListener("keydown", (event) => {
      if (event.key === "Enter") { this.nextFound(event.shiftKey ? -1 : 1); event.stopPropagation(); }
      if (event.key === "Escape") { event.target.value = ""; this.search(""); find("graph").focus(); event.stopPropagation(); }
    });
    this.listenToSplit(find("split"));
  }

  enter() {
    const item = this.scene.items.get(this.drawing.selected);
    if (!item) return;
    if (!item.node) { this.toggle(item); return; }
    const callee = item.node.callee && this.inspector.functionId(item.node.callee);
    if (callee !== null && callee !== undefined && callee !== "") this.choose(callee, true);
  }

  listenToSplit(split) {
    const set = (share) => document.body.style.setProperty("--side", `${Math.min(Math.max(share, 18), 75)}%`);
    const now = () => Number.parseFloat(getComputedStyle(document.body).getPropertyValue("--side"));
    split.addEventListener("pointerdown", (event) => split.setPointerCapture(event.pointerId));
    split.addEventListener("pointermove", (event) => {
      if (split.hasPointerCapture(event.pointerId)) set(100 - (event.clientX / window.innerWidth) * 100);
    });
    split.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      set(now() + (event.key === "ArrowLeft" ? 3 : -3));
      event.stopPropagation();
    });
  }

  // ---- search and theme

  search(words) {
    const { scene } = this, parts = words.toLowerCase().split(/\s+/).filter((part) => part);
    this.results = !parts.length ? [] : scene.program.nodes.filter((node) => {
      const info = scene.infoOf(node);
      const told = `${node.label} ${node.name || ""} ${node.detail || ""} ${info ? info.text : ""}`.toLowerCase();
      return parts.every((part) => told.includes(part));
    });
    this.place = -1;
    this.drawing.marked = new Set(this.results.map((node) => (scene.seen(node.id) || {}).id));
    this.find("found").textContent = parts.length ? `${this.results.length} found` : "";
    this.drawing.ask();
  }

  nextFound(by) {
    if (!this.results || !this.results.length) return;
    this.place = (this.place + by + this.results.length) % this.results.length;
    this.find("found").textContent = `${this.place + 1} of ${this.results.length}`;
    this.choose(this.results[this.place].id, true);
  }

  turnTheme() {
    const root = document.documentElement;
    root.dataset.theme = this.drawing.dark ? "light" : "dark";
    this.recolour();
  }

  recolour() {
    this.drawing.readColours();
    this.drawing.ask();
    this.text.fill(true);
  }
}

window.explorer = new App(JSON.parse(document.getElementById("data").textContent));
requestAnimationFrame(() => requestAnimationFrame(() => { window.explorerReady = performance.now(); }));
