"use strict";
// The canvas view of a scene: a camera, painting of the visible boxes and wires, and pointer events.
// Details are omitted at small scales.

const SANS = 'Inter, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
const FONT = { title: `600 14px ${SANS}`, bold: `600 12px ${SANS}`, small: `11px ${SANS}`, tiny: `10.5px ${SANS}` };
const HUES = {
  contract: 231, conv: 231, pool: 214, attention: 250, normalise: 276, reduce: 32, elementwise: 172,
  unary: 172, binary: 160, broadcast: 160, layout: 205, reshape: 205, indexing: 338, call: 262,
  create: 215, constant: 215, match: 48, loss: 12, sort: 320, image: 110, quantise: 88,
};

function hueOf(family) {
  if (family in HUES) return HUES[family];
  let hash = 7;
  for (const character of family || "") hash = (hash * 31 + character.charCodeAt(0)) % 360;
  return hash;
}

class GraphView {
  constructor(canvas, events) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.events = events;
    this.camera = { x: 0, y: 0, scale: 1 };
    this.selected = null;
    this.hovered = null;
    this.marked = new Set(); // ids of boxes that match the search
    this.frames = [];
    this.readColours();
    this.addListeners();
    new ResizeObserver(() => this.resize()).observe(canvas);
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const names = ["canvas", "panel", "ink", "muted", "line", "wire", "accent", "group", "closed", "hot"];
    this.colour = Object.fromEntries(names.map((n) => [n, style.getPropertyValue(`--${n}`).trim()]));
    this.dark = style.getPropertyValue("--dark").trim() === "1";
    this.overview = null;
  }

  measurer() {
    const widths = new Map();
    return (text, font) => {
      const key = font + text;
      if (!widths.has(key)) {
        this.context.font = font;
        widths.set(key, this.context.measureText(text).width);
      }
      return widths.get(key);
    };
  }

  show(scene) {
    this.scene = scene;
    this.overview = null;
    this.requestPaint();
  }

  // ---- camera

  resize() {
    const { clientWidth, clientHeight } = this.canvas;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(clientWidth * ratio));
    this.canvas.height = Math.max(1, Math.round(clientHeight * ratio));
    this.requestPaint();
  }

  // Shows the first function at a readable scale, or its beginning; with `whole`, the entire scene.
  fit(whole = false) {
    const { clientWidth: w, clientHeight: h } = this.canvas, { root, functions, items } = this.scene;
    const { width, height } = (!whole && functions.length && items.get(functions[0].id)) || root;
    const available = w - this.overviewWidth() - 48, fitScale = Math.min(available / width, (h - 48) / height, 1.1);
    const scale = whole || fitScale > 0.85 ? fitScale : Math.max(Math.min(available / width, 1), 0.85);
    const first = this.scene.boxes.find((item) => item.node) || { left: 0, width };
    const centre = width * scale <= available ? width / 2 : Math.max(first.left + first.width / 2, (available / 2) / scale - 24);
    this.camera.scale = scale;
    this.camera.x = centre - (available + 48) / 2 / scale;
    this.camera.y = scale === fitScale && whole ? height / 2 - h / 2 / scale : -24 / scale;
    this.requestPaint();
  }

  zoom(factor, px = this.canvas.clientWidth / 2, py = this.canvas.clientHeight / 2) {
    const { camera } = this, scale = Math.min(Math.max(camera.scale * factor, 0.02), 3);
    camera.x += px / camera.scale - px / scale;
    camera.y += py / camera.scale - py / scale;
    camera.scale = scale;
    this.requestPaint();
  }

  pan(dx, dy) {
    this.camera.x += dx / this.camera.scale;
    this.camera.y += dy / this.camera.scale;
    this.requestPaint();
  }

  reveal(item) {
    if (!item) return;
    const { camera, canvas } = this, { scale } = camera;
    if (scale < 0.45) camera.scale = 0.8;
    const w = (canvas.clientWidth - this.overviewWidth()) / camera.scale, h = canvas.clientHeight / camera.scale;
    const height = Math.min(item.height, h * 0.6);
    const isOutside = item.left < camera.x || item.left + Math.min(item.width, w) > camera.x + w
      || item.top < camera.y + 20 / scale || item.top + height > camera.y + h;
    if (isOutside || scale !== camera.scale) {
      camera.x = item.left + item.width / 2 - w / 2;
      camera.y = item.top + height / 2 - h / 2;
    }
    this.requestPaint();
  }

  requestPaint() {
    if (this.paintRequested) return;
    this.paintRequested = true;
    requestAnimationFrame(() => {
      this.paintRequested = false;
      if (this.scene && this.scene.root) this.paint();
    });
  }

  // ---- painting

  paint() {
    const start = performance.now();
    const { context, camera, canvas, colour } = this, ratio = canvas.width / Math.max(canvas.clientWidth, 1);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = colour.canvas;
    context.fillRect(0, 0, canvas.width, canvas.height);
    const k = camera.scale * ratio;
    context.setTransform(k, 0, 0, k, -camera.x * k, -camera.y * k);
    this.view = [camera.x, camera.y, camera.x + canvas.clientWidth / camera.scale, camera.y + canvas.clientHeight / camera.scale];
    const visible = this.scene.boxes.filter((item) => this.isVisible(item.left, item.top, item.left + item.width, item.top + item.height));
    for (const item of visible) if (item.children) this.paintContainer(item);
    this.paintWires();
    for (const item of visible) if (!item.children) this.paintBox(item);
    this.paintOverview(ratio);
    this.frames.push(performance.now() - start); // for benchmarks
    if (this.frames.length > 600) this.frames.shift();
  }

  isVisible(left, top, right, bottom) {
    const [x1, y1, x2, y2] = this.view;
    return right >= x1 && left <= x2 && bottom >= y1 && top <= y2;
  }

  paintContainer(item) {
    const { context, colour, camera } = this, isFunction = item.container && item.container.kind === "function";
    this.path(item.left, item.top, item.width, item.height, isFunction ? 10 : 8);
    context.fillStyle = isFunction ? colour.panel : this.groupFill(item);
    context.fill();
    this.stroke(item, isFunction ? colour.line : this.groupStroke(item), isFunction ? 1.2 : 1);
    if (camera.scale < 0.22) return;
    const heat = item.group && item.group.kernel.heat;
    if (heat) {
      context.fillStyle = this.heat(heat, 85);
      context.beginPath();
      context.roundRect(item.left + 1, item.top + 1, item.width - 2, item.title - 1, [7, 7, 0, 0]);
      context.fill();
    }
    context.fillStyle = colour.ink;
    context.font = isFunction ? FONT.title : FONT.bold;
    const y = item.top + (isFunction ? 23 : 16), time = this.timeOf(item);
    const x = Math.max(item.left + 10, Math.min(this.view[0] + 10, item.left + item.width - 160));
    context.fillText(`▾ ${this.scene.titleOf(item)}`, x, y);
    context.font = FONT.small;
    context.fillStyle = heat ? colour.ink : colour.muted;
    context.textAlign = "right";
    context.fillText(time || this.subtitle(item), item.left + item.width - 10, y);
    context.textAlign = "left";
  }

  subtitle(item) {
    if (item.group) return item.group.kernel.kind;
    const { kind } = item.container;
    return kind === "function" ? "" : kind;
  }

  timeOf(item) {
    const kernel = item.group && item.group.kernel;
    return kernel && kernel.seconds !== undefined ? timeText(kernel.seconds) : "";
  }

  groupFill(item) {
    const share = item.group && item.group.kernel.heat;
    if (share) return this.heat(share, 24);
    return this.colour.group;
  }

  groupStroke(item) { return item.group ? this.colour.wire : this.colour.line; }

  heat(share, most) { return `color-mix(in srgb, ${this.colour.hot} ${Math.round(most * Math.sqrt(share))}%, ${this.colour.group})`; }

  stroke(item, line, width) {
    const { context, colour, camera } = this;
    const selected = item.id === this.selected, hovered = item.id === this.hovered, marked = this.marked.has(item.id);
    context.strokeStyle = selected || hovered || marked ? colour.accent : line;
    context.lineWidth = selected ? Math.max(2.4, 1.6 / camera.scale) : marked ? Math.max(1.8, 1.2 / camera.scale) : width;
    context.stroke();
  }

  paintBox(item) {
    const { context, colour, camera } = this, { node } = item;
    const width = item.boxWidth || item.width, left = item.left + (item.width - width) / 2, { top, box } = item;
    if (camera.scale < 0.16) {
      context.fillStyle = node ? this.strokeColour(node) : colour.closed;
      context.fillRect(left, top, width, box);
      if (item.id === this.selected || this.marked.has(item.id)) {
        this.path(left - 4, top - 4, width + 8, box + 8, 4);
        this.stroke(item, colour.accent, 2);
      }
      return;
    }
    const rounded = node && node.kind !== "op" && node.kind !== "call" ? box / 2 : 6;
    this.path(left, top, width, box, Math.min(rounded, 13));
    context.fillStyle = node ? this.fillColour(node) : item.group && item.group.kernel.heat ? this.heat(item.group.kernel.heat, 70) : colour.closed;
    context.fill();
    this.stroke(item, node ? this.strokeColour(node) : colour.wire, 1.1);
    if (camera.scale < 0.3) return;
    if (!node) { this.paintClosed(item, left, width); return; }
    context.font = FONT.bold;
    context.fillStyle = colour.ink;
    context.textAlign = "center";
    context.fillText(this.ellipsize(item.title, width - 14, FONT.bold), left + width / 2, top + 17);
    context.textAlign = "left";
    if (camera.scale < 0.5) return;
    context.font = FONT.small;
    context.fillStyle = colour.muted;
    item.lines.forEach((line, k) => context.fillText(this.ellipsize(line, width - 20, FONT.small), left + 10, top + 32 + 15 * k));
    if (!item.edgeLabel) return;
    context.font = FONT.tiny;
    const label = this.scene.measure(item.edgeLabel, FONT.tiny), x = item.left + (item.width - label) / 2;
    context.fillStyle = this.backdrop(item);
    context.fillRect(x - 3, top + box + 5, label + 6, 13);
    context.fillStyle = colour.muted;
    context.fillText(item.edgeLabel, x, top + box + 15);
  }

  paintClosed(item, left, width) {
    const { context, colour } = this;
    context.font = FONT.bold;
    context.fillStyle = colour.ink;
    context.fillText(this.ellipsize(`▸ ${this.scene.titleOf(item)}`, width - 20, FONT.bold), left + 10, item.top + 18);
    context.font = FONT.small;
    context.fillStyle = colour.muted;
    const ops = item.group ? `${item.group.ids.length} ops, ${item.group.kernel.kind}` : this.sizeOf(item.container);
    context.fillText(this.timeOf(item) ? `${ops} · ${this.timeOf(item)}` : ops, left + 10, item.top + 34);
  }

  sizeOf(container) {
    if (container.kind === "kernel") return "@I.kernel";
    const inside = this.scene.program.nodes.filter((n) => n.kind !== "param" && this.scene.functionOf(n.id) === container);
    return `${container.kind}, ${inside.length} bindings`;
  }

  backdrop(item) {
    const { parent } = item;
    if (parent.group) return this.groupFill(parent);
    return parent.container && parent.container.kind === "function" ? this.colour.panel : this.colour.group;
  }

  ellipsize(text, width, font) {
    if (this.scene.measure(text, font) <= width) return text;
    let low = 0, high = text.length;
    while (low < high) {
      const half = (low + high + 1) >> 1;
      if (this.scene.measure(`${text.slice(0, half)}…`, font) <= width) low = half; else high = half - 1;
    }
    return `${text.slice(0, low)}…`;
  }

  fillColour(node) {
    const hue = hueOf(node.family || node.kind), dark = this.dark;
    if (["param", "result", "constant", "value", "field", "tuple", "join"].includes(node.kind)) {
      return dark ? "#262a36" : "#f3f4f8";
    }
    return dark ? `hsl(${hue} 32% 22%)` : `hsl(${hue} 70% 95.5%)`;
  }

  strokeColour(node) {
    const hue = hueOf(node.family || node.kind);
    if (["param", "result", "constant", "value", "field", "tuple", "join"].includes(node.kind)) return this.colour.wire;
    return this.dark ? `hsl(${hue} 40% 48%)` : `hsl(${hue} 45% 68%)`;
  }

  path(x, y, w, h, r) {
    this.context.beginPath();
    if (this.camera.scale < 0.12) this.context.rect(x, y, w, h); else this.context.roundRect(x, y, w, h, r);
  }

  paintWires() {
    const { context, colour, camera, scene } = this;
    const highlighted = [];
    context.strokeStyle = colour.wire;
    context.fillStyle = colour.wire;
    context.lineWidth = Math.max(1.2, 0.7 / camera.scale);
    const curved = camera.scale > 0.2;
    context.beginPath();
    const arrowheads = [];
    for (const wire of scene.wires) {
      const [x1, y1, x2, y2] = wire.box;
      if (!this.isVisible(x1 - 2, y1, x2 + 2, y2)) continue;
      if (wire.value === this.highlighted) { highlighted.push(wire); continue; }
      this.pathOf(wire, curved);
      if (camera.scale > 0.35) arrowheads.push(...wire.ends);
    }
    context.stroke();
    context.beginPath();
    for (const [x, y] of arrowheads) this.arrowhead(x, y);
    context.fill();
    if (!highlighted.length) return;
    context.strokeStyle = context.fillStyle = colour.accent;
    context.lineWidth = Math.max(2, 1.2 / camera.scale);
    context.beginPath();
    for (const wire of highlighted) this.pathOf(wire, curved);
    context.stroke();
    context.beginPath();
    for (const wire of highlighted) for (const [x, y] of wire.ends) this.arrowhead(x, y);
    context.fill();
  }

  pathOf({ segments }, curved) {
    const { context, view } = this;
    for (let k = 0; k < segments.length; k += 4) {
      const x1 = segments[k], y1 = segments[k + 1], x2 = segments[k + 2], y2 = segments[k + 3];
      if (y2 < view[1] && y1 < view[1] || y1 > view[3] && y2 > view[3]) continue;
      context.moveTo(x1, y1);
      if (!curved || Math.abs(x1 - x2) < 0.5) context.lineTo(x2, y2);
      else context.bezierCurveTo(x1, (y1 + y2) / 2, x2, (y1 + y2) / 2, x2, y2);
    }
  }

  arrowhead(x, y) {
    this.context.moveTo(x, y);
    this.context.lineTo(x - 3.5, y - 7);
    this.context.lineTo(x + 3.5, y - 7);
  }

  // ---- the overview at the right edge, rendered once into an image

  overviewWidth() {
    const { root } = this.scene;
    if (this.scene.small || (root.width < 900 && root.height < 900)) return 0;
    return Math.min(120, Math.max(46, root.width * this.overviewScale()));
  }

  overviewScale() {
    const { root } = this.scene;
    return Math.min(120 / root.width, (this.canvas.clientHeight - 24) / root.height);
  }

  paintOverview(ratio) {
    const width = this.overviewWidth(), [x0, y0, x9, y9] = this.view, { root } = this.scene;
    const showsAll = x0 <= 0 && y0 <= 0 && x9 >= root.width && y9 >= root.height;
    if (!width || showsAll) { if (this.overview) this.overview.bounds = null; return; }
    const { context, canvas, colour, scene } = this, scale = this.overviewScale();
    const left = canvas.clientWidth - width - 10, height = scene.root.height * scale;
    const imageLeft = left + (width - scene.root.width * scale) / 2;
    if (!this.overview || this.overview.key !== `${canvas.width}x${canvas.height}`) this.renderOverview(scale, ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colour.panel;
    context.fillRect(left - 4, 8, width + 8, height + 8);
    context.drawImage(this.overview.image, imageLeft, 12, scene.root.width * scale, height);
    context.strokeStyle = colour.line;
    context.lineWidth = 1;
    context.strokeRect(left - 4.5, 7.5, width + 9, height + 9);
    const [x1, y1, x2, y2] = this.view.map((v, k) => Math.min(Math.max(v, 0), k % 2 ? scene.root.height : scene.root.width));
    context.strokeStyle = colour.accent;
    context.lineWidth = 1.5;
    context.strokeRect(imageLeft + x1 * scale, 12 + y1 * scale, Math.max((x2 - x1) * scale, 4), Math.max((y2 - y1) * scale, 3));
    this.overview.bounds = { left: imageLeft, top: 12, scale, width: width + 8, height };
  }

  renderOverview(scale, ratio) {
    const image = document.createElement("canvas"), { root } = this.scene;
    image.width = Math.max(1, Math.ceil(root.width * scale * ratio));
    image.height = Math.max(1, Math.ceil(root.height * scale * ratio));
    const context = image.getContext("2d");
    context.scale(scale * ratio, scale * ratio);
    for (const item of this.scene.boxes) {
      if (item.children) {
        context.fillStyle = item.container && item.container.kind === "function" ? this.colour.canvas : this.groupFill(item);
        context.fillRect(item.left, item.top, item.width, item.height);
      } else {
        context.fillStyle = item.node ? this.strokeColour(item.node) : this.colour.wire;
        context.fillRect(item.left, item.top, item.width, Math.max(item.box, 1.2 / scale));
      }
    }
    this.overview = { image, key: `${this.canvas.width}x${this.canvas.height}` };
  }

  // ---- pointer

  itemAt(px, py) {
    const x = this.camera.x + px / this.camera.scale, y = this.camera.y + py / this.camera.scale;
    let innermost = null;
    for (const item of this.scene.boxes) {
      const height = item.children ? item.height : item.box;
      if (x >= item.left && x <= item.left + item.width && y >= item.top && y <= item.top + height) innermost = item;
    }
    return innermost;
  }

  // Returns the box whose edge label, its StructInfo, is at a position.
  labelAt(px, py) {
    const x = this.camera.x + px / this.camera.scale, y = this.camera.y + py / this.camera.scale;
    return this.scene.boxes.find((item) => item.edgeLabel && x >= item.left && x <= item.left + item.width
      && y > item.top + item.box && y <= item.top + item.height) || null;
  }

  addListeners() {
    const { canvas } = this;
    let drag = null;
    const position = (event) => [event.offsetX, event.offsetY];
    const jump = (px, py) => {
      const bounds = this.overview && this.overview.bounds;
      if (!bounds || px < bounds.left - 6 || px > bounds.left + bounds.width || py > bounds.top + bounds.height + 6) return false;
      this.camera.x = (px - bounds.left) / bounds.scale - canvas.clientWidth / this.camera.scale / 2;
      this.camera.y = (py - bounds.top) / bounds.scale - canvas.clientHeight / this.camera.scale / 2;
      this.requestPaint();
      return true;
    };
    canvas.addEventListener("pointerdown", (event) => {
      const [x, y] = position(event);
      drag = { x, y, moved: false, overview: jump(x, y) };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = position(event);
      if (drag && drag.overview) { jump(x, y); return; }
      if (drag) {
        if (Math.abs(x - drag.x) + Math.abs(y - drag.y) < 3 && !drag.moved) return;
        drag.moved = true;
        this.pan(drag.x - x, drag.y - y);
        [drag.x, drag.y] = [x, y];
        return;
      }
      const item = this.itemAt(x, y) || this.labelAt(x, y);
      const id = item ? item.id : null;
      canvas.style.cursor = item && !item.children ? "pointer" : "grab";
      if (id !== this.hovered) { this.hovered = id; this.events.hover(item); this.requestPaint(); }
    });
    canvas.addEventListener("pointerup", (event) => {
      const [x, y] = position(event), finished = drag;
      drag = null;
      if (finished && !finished.moved && !finished.overview) this.click(x, y);
    });
    canvas.addEventListener("pointerleave", () => { this.hovered = null; this.events.hover(null); this.requestPaint(); });
    canvas.addEventListener("dblclick", (event) => {
      const item = this.itemAt(...position(event));
      if (item && !item.node) this.events.toggle(item);
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 18 : 1;
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY * unit * 0.0022), ...position(event));
      else this.pan((event.shiftKey ? event.deltaY : event.deltaX) * unit, (event.shiftKey ? 0 : event.deltaY) * unit);
    }, { passive: false });
  }

  click(px, py) {
    const item = this.itemAt(px, py), label = this.labelAt(px, py);
    if (label && (!item || item.children)) { this.events.select(label.id, true); return; }
    const { x, y, scale } = this.camera;
    const onArrow = item && !item.node && x + px / scale < item.left + 26 && y + py / scale < item.top + 26;
    if (onArrow) { this.events.toggle(item); return; }
    this.events.select(item ? item.id : null, false);
  }
}
