"use strict";
// The application: the selection, the current program, keys, search and themes.

class App {
  constructor(data) {
    this.data = data;
    const find = (id) => document.getElementById(id);
    this.find = find;
    document.body.classList.toggle("small", Boolean(data.small));
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const followSystem = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
    followSystem();
    dark.addEventListener("change", () => { followSystem(); this.recolour(); });
    this.graph = new GraphView(find("graph"), {
      select: (id, value) => this.select(id, false, value), hover: (item) => this.hover(item), toggle: (item) => this.toggle(item),
    });
    this.source = new SourcePane(find("source"), { select: (line, dim) => this.selectLine(line, dim), hover: (line) => this.hoverLine(line) });
    this.inspector = new Inspector(find("inspector"), this);
    this.timeline = new Timeline(find("timeline"), this);
    this.scenes = new Map();
    this.step = -1;
    this.addListeners();
    if (data.initialStep < 0) { this.showProgram(0); return; }
    this.showStep(data.initialStep);
    if (this.showsDiff) this.showSource();
  }

  showProgram(k) {
    if (!this.scenes.has(k)) {
      const scene = new Scene(this.data.programs[k], this.graph.measurer());
      scene.small = this.data.small;
      const timed = scene.kernels.filter((kernel) => kernel.seconds !== undefined);
      const total = timed.reduce((sum, kernel) => sum + kernel.seconds, 0) || 1;
      for (const kernel of timed) kernel.share = kernel.seconds / total;
      const largest = timed.reduce((share, kernel) => Math.max(share, kernel.share), 0) || 1;
      for (const kernel of timed) kernel.heat = kernel.share / largest;
      scene.build();
      this.scenes.set(k, scene);
    }
    this.scene = this.scenes.get(k);
    this.graph.show(this.scene);
    this.graph.fit();
    this.showSource();
    this.select(null);
  }

  showSource() {
    const { scene } = this;
    this.showsDiff = false;
    this.find("source-title").textContent = "source";
    this.source.show(scene.program.text.split("\n"), {
      sizes: true,
      paint: (line) => (line === this.selectedLine ? "selected" : line === this.hoveredLine ? "hovered" : this.kernelLines && this.kernelLines.has(line) ? "member" : ""),
      bar: (line) => this.barOf(line),
    });
  }

  // Returns the colour beside a line number: one colour per kernel.
  barOf(line) {
    const key = this.scene.groupOf.get(this.scene.byLine.get(line));
    if (key === undefined) return null;
    const keys = [...this.scene.groups.keys()];
    return `hsl(${(keys.indexOf(key) * 67) % 360} 55% ${this.graph.dark ? 45 : 70}%)`;
  }

  showStep(k) {
    this.step = k;
    this.timeline.mark(k);
    const step = this.data.steps[k];
    let program = 0;
    for (const earlier of this.data.steps.slice(0, k + 1)) if (earlier.program !== null && earlier.program !== undefined) program = earlier.program;
    this.showProgram(program);
    if (step) this.find("source-title").textContent = step.changed ? `changes by ${step.pass}` : `no changes by ${step.pass}`;
    if (!step || !step.changed) return;
    this.showsDiff = true;
    const lines = step.difference.split("\n").slice(2);
    const paint = (_, line) => (line.startsWith("+") ? "add" : line.startsWith("-") ? "cut" : line.startsWith("@@") ? "hunk" : "");
    this.source.show(step.notes.map((note) => `# ${note}`).concat(lines), { paint, numbers: false });
  }

  // ---- selection

  select(id, reveal = false, value = false) {
    const { scene, graph } = this;
    if (id !== null && id !== undefined && reveal) this.open(id);
    const item = id === null || id === undefined ? null : scene.visibleItem(id) || null;
    const node = scene.nodes.get(id);
    this.selectedId = id;
    graph.selected = item ? item.id : null;
    graph.highlighted = node ? id : null;
    const container = scene.containers.get(id);
    const line = node ? node.line : container ? container.line : null;
    this.selectedLine = line;
    const group = item && item.group;
    this.kernelLines = new Set(group && !node ? group.kernel.lines : []);
    const dim = value && node && scene.infoOf(node) && (scene.infoOf(node).tensors[0] || {}).dims ? [0, 0] : null;
    this.inspector.show(node ? { node } : container ? { container } : item, dim);
    if (!this.showsDiff) {
      const revealed = line || (group ? group.kernel.lines[0] : null);
      if (revealed) this.source.reveal(revealed); else this.source.fill(true);
    }
    if (reveal) graph.reveal(item);
    graph.requestPaint();
    this.announce(node, item);
  }

  announce(node, item) {
    const info = node && this.scene.infoOf(node);
    this.find("announcement").textContent = node ? `${node.label} ${node.name || ""}: ${info ? info.text : ""}` : item ? this.scene.titleOf(item) : "";
  }

  explain(id, tensor, axis) {
    this.inspector.show({ node: this.scene.nodes.get(id) }, [tensor, axis]);
    const { kind } = this.scene.nodes.get(id);
    if (kind) this.find("inspector").querySelector(".dim.on").focus({ preventScroll: true });
  }

  selectKernel(kernel) {
    const key = [...this.scene.groups.values()].find((group) => group.kernel === kernel);
    if (key) { this.select(key.id, true); return; }
    if (kernel.nodes.length) this.select(kernel.nodes[0].id, true);
    this.inspector.show({ kernel });
  }

  selectLine(line, dim) {
    if (this.showsDiff) return;
    const id = this.scene.byLine.get(line);
    if (id === undefined) return;
    this.select(id, true);
    if (dim && this.scene.nodes.has(id)) this.explain(id, ...dim);
  }

  hover(item) {
    const node = item && item.node;
    this.hoveredLine = node ? node.line : null;
    const info = node && this.scene.infoOf(node);
    this.find("hint").textContent = node ? `${node.name || node.label}${info ? `: ${info.text}` : ""}` : "";
    if (!this.showsDiff) this.source.fill(true);
  }

  hoverLine(line) {
    if (this.showsDiff || this.hoveredLine === line) return;
    this.hoveredLine = line;
    const id = this.scene.byLine.get(line), item = id === undefined ? null : this.scene.visibleItem(id);
    this.graph.hovered = item && item.node ? item.id : null;
    this.graph.requestPaint();
  }

  // ---- opening and closing

  open(id) { // opens all containers around a node, kernel or container
    const { scene } = this;
    let changed = false;
    const openContainer = (key) => { changed = scene.closed.delete(key) || changed; };
    const node = scene.nodes.get(id);
    if (node && scene.groupOf.has(id)) openContainer(scene.groupOf.get(id));
    if (node && scene.isFolded(node)) { scene.foldWeights = false; changed = true; }
    const group = scene.groups.get(id);
    let parent = (node || group || scene.containers.get(id) || { parent: null }).parent;
    for (; parent !== null; parent = scene.containers.get(parent).parent) openContainer(parent);
    if (changed) this.rebuild();
  }

  toggle(item) {
    const { scene } = this;
    if (scene.closed.has(item.id)) scene.closed.delete(item.id); else scene.closed.add(item.id);
    this.rebuild(item.id);
    this.select(item.id);
  }

  rebuild(anchor = null) {
    const { scene, graph } = this, before = anchor === null ? null : scene.items.get(anchor);
    const position = before ? [before.left, before.top] : null;
    scene.build();
    const after = anchor === null ? null : scene.items.get(anchor);
    if (position && after) { graph.camera.x += after.left - position[0]; graph.camera.y += after.top - position[1]; }
    graph.show(scene);
  }

  setKernelsOpen(open) {
    if (open) for (const id of this.scene.groups.keys()) this.scene.closed.delete(id); else this.scene.closeKernels();
    this.rebuild();
    this.graph.fit();
    this.select(null);
  }

  toggleStructInfo() {
    this.source.hideStructInfo = !this.source.hideStructInfo;
    this.find("struct-info").setAttribute("aria-onButton", String(Boolean(this.source.hideStructInfo)));
    this.source.fill(true);
  }

  toggleWeights() {
    this.scene.foldWeights = !this.scene.foldWeights;
    this.rebuild();
    this.graph.fit();
  }

  // ---- moving the selection along wires

  moveSelection(direction) {
    const { scene } = this, item = scene.items.get(this.graph.selected);
    if (!item) { const first = scene.boxes.find((box) => box.node); if (first) this.select(first.id, true); return; }
    const down = direction === "ArrowDown", up = direction === "ArrowUp";
    if (down || up) {
      const ids = item.node ? [item.id] : item.group ? item.group.ids : [];
      const next = ids.flatMap((id) => (down ? (scene.users.get(id) || []).map((n) => n.id)
        : scene.nodes.get(id).inputs.map((input) => input.from).filter((from) => from !== undefined)))
        .map((id) => scene.visibleItem(id)).filter((box) => box && box !== item && !(scene.nodes.get(box.id) && scene.isFolded(scene.nodes.get(box.id))));
      if (next.length) this.select(next[0].id, true);
      return;
    }
    const left = direction === "ArrowLeft";
    const beside = scene.boxes.filter((box) => box !== item && !box.children && Math.abs(box.top - item.top) < 60
      && (left ? box.left < item.left : box.left > item.left));
    beside.sort((a, b) => Math.abs(a.left - item.left) - Math.abs(b.left - item.left));
    if (beside.length) this.select(beside[0].id, true);
  }

  addListeners() {
    const { find, graph } = this;
    const keys = {
      "+": () => graph.zoom(1.25), "=": () => graph.zoom(1.25), "-": () => graph.zoom(0.8), f: () => graph.fit(true),
      o: () => this.setKernelsOpen(true), c: () => this.setKernelsOpen(false), p: () => this.toggleWeights(), t: () => this.toggleStructInfo(), Escape: () => this.select(null),
      "/": () => find("search").focus(), Enter: () => this.enter(), " ": () => this.enter(),
    };
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest("input"), onButton = event.target.closest("button, summary");
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (typing && event.key !== "Escape") return;
      if (onButton && (event.key === "Enter" || event.key === " ")) return;
      if (event.target.closest("#inspector, #source") && event.key.startsWith("Arrow")) return;
      if (event.key.startsWith("Arrow")) this.moveSelection(event.key);
      else if (keys[event.key]) keys[event.key]();
      else return;
      event.preventDefault();
    });
    const buttons = { fit: () => graph.fit(true), "zoom-in": () => graph.zoom(1.25), "zoom-out": () => graph.zoom(0.8),
      "open-kernels": () => this.setKernelsOpen(true), "close-kernels": () => this.setKernelsOpen(false), weights: () => this.toggleWeights(), "struct-info": () => this.toggleStructInfo(), theme: () => this.toggleTheme() };
    for (const [id, act] of Object.entries(buttons)) find(id).addEventListener("click", act);
    find("search").addEventListener("input", (event) => this.search(event.target.value));
    find("search").addEventListener("keydown", (event) => {
      if (event.key === "Enter") { this.nextResult(event.shiftKey ? -1 : 1); event.stopPropagation(); }
      if (event.key === "Escape") { event.target.value = ""; this.search(""); find("graph").focus(); event.stopPropagation(); }
    });
    this.addSplitterListeners(find("splitter"));
  }

  enter() {
    const item = this.scene.items.get(this.graph.selected);
    if (!item) return;
    if (!item.node) { this.toggle(item); return; }
    const callee = item.node.callee && this.inspector.functionId(item.node.callee);
    if (callee !== null && callee !== undefined && callee !== "") this.select(callee, true);
  }

  addSplitterListeners(splitter) {
    const setShare = (share) => document.body.style.setProperty("--side", `${Math.min(Math.max(share, 18), 75)}%`);
    const share = () => Number.parseFloat(getComputedStyle(document.body).getPropertyValue("--side"));
    splitter.addEventListener("pointerdown", (event) => splitter.setPointerCapture(event.pointerId));
    splitter.addEventListener("pointermove", (event) => {
      if (splitter.hasPointerCapture(event.pointerId)) setShare(100 - (event.clientX / window.innerWidth) * 100);
    });
    splitter.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      setShare(share() + (event.key === "ArrowLeft" ? 3 : -3));
      event.stopPropagation();
    });
  }

  // ---- search and theme

  search(query) {
    const { scene } = this, words = query.toLowerCase().split(/\s+/).filter((word) => word);
    this.results = !words.length ? [] : scene.program.nodes.filter((node) => {
      const info = scene.infoOf(node);
      const text = `${node.label} ${node.name || ""} ${node.detail || ""} ${info ? info.text : ""}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    this.resultIndex = -1;
    this.graph.marked = new Set(this.results.map((node) => (scene.visibleItem(node.id) || {}).id));
    this.find("match-count").textContent = words.length ? `${this.results.length} ${this.results.length === 1 ? "match" : "matches"}` : "";
    this.graph.requestPaint();
  }

  nextResult(step) {
    if (!this.results || !this.results.length) return;
    this.resultIndex = (this.resultIndex + step + this.results.length) % this.results.length;
    this.find("match-count").textContent = `${this.resultIndex + 1} of ${this.results.length}`;
    this.select(this.results[this.resultIndex].id, true);
  }

  toggleTheme() {
    const root = document.documentElement;
    root.dataset.theme = this.graph.dark ? "light" : "dark";
    this.recolour();
  }

  recolour() {
    this.graph.readColours();
    this.graph.requestPaint();
    this.source.fill(true);
  }
}

window.explorer = new App(JSON.parse(document.getElementById("data").textContent));
requestAnimationFrame(() => requestAnimationFrame(() => { window.explorerReady = performance.now(); }));
