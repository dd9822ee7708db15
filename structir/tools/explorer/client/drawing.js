"use strict";
// The canvas: a camera over the scene, only what is in sight is painted, small things only when near.

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
  for (const letter of family || "") hash = (hash * 31 + letter.charCodeAt(0)) % 360;
  return hash;
}

class Drawing {
  constructor(canvas, events) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d", { alpha: false });
    this.events = events;
    this.camera = { x: 0, y: 0, scale: 1 };
    this.selected = null;
    this.hovered = null;
    this.marked = new Set(); // boxes that a search has found
    this.frames = [];
    this.readColours();
    this.listen();
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
    const known = new Map();
    return (text, font) => {
      const key = font + text;
      if (!known.has(key)) {
        this.pen.font = font;
        known.set(key, this.pen.measureText(text).width);
      }
      return known.get(key);
    };
  }

  show(scene) {
    this.scene = scene;
    this.overview = null;
    this.ask();
  }

  // ---- camera

  resize() {
    const { clientWidth, clientHeight } = this.canvas;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(clientWidth * ratio));
    this.canvas.height = Math.max(1, Math.round(clientHeight * ratio));
    this.ask();
  }

  // The first function if it can be read at once, else its beginning; or the whole.
  fit(whole = false) {
    const { clientWidth: w, clientHeight: h } = this.canvas, { root, functions, items } = this.scene;
    const { width, height } = (!whole && functions.length && items.get(functions[0].id)) || root;
    const room = w - this.overviewWidth() - 48, all = Math.min(room / width, (h - 48) / height, 1.1);
    const scale = whole || all > 0.85 ? all : Math.max(Math.min(room / width, 1), 0.85);
    const first = this.scene.boxes.find((item) => item.node) || { left: 0, width };
    const middle = width * scale <= room ? width / 2 : Math.max(first.left + first.width / 2, (room / 2) / scale - 24);
    this.camera.scale = scale;
    this.camera.x = middle - (room + 48) / 2 / scale;
    this.camera.y = scale === all && whole ? height / 2 - h / 2 / scale : -24 / scale;
    this.ask();
  }

  zoom(factor, px = this.canvas.clientWidth / 2, py = this.canvas.clientHeight / 2) {
    const { camera } = this, scale = Math.min(Math.max(camera.scale * factor, 0.02), 3);
    camera.x += px / camera.scale - px / scale;
    camera.y += py / camera.scale - py / scale;
    camera.scale = scale;
    this.ask();
  }

  pan(dx, dy) {
    this.camera.x += dx / this.camera.scale;
    this.camera.y += dy / this.camera.scale;
    this.ask();
  }

  reveal(item) {
    if (!item) return;
    const { camera, canvas } = this, { scale } = camera;
    if (scale < 0.45) camera.scale = 0.8;
    const w = (canvas.clientWidth - this.overviewWidth()) / camera.scale, h = canvas.clientHeight / camera.scale;
    const height = Math.min(item.height, h * 0.6);
    const out = item.left < camera.x || item.left + Math.min(item.width, w) > camera.x + w
      || item.top < camera.y + 20 / scale || item.top + height > camera.y + h;
    if (out || scale !== camera.scale) {
      camera.x = item.left + item.width / 2 - w / 2;
      camera.y = item.top + height / 2 - h / 2;
    }
    this.ask();
  }

  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      if (this.scene && this.scene.root) this.paint();
    });
  }

  // ---- painting

  paint() {
    const start = performance.now();
    const { pen, camera, canvas, colour } = this, ratio = canvas.width / Math.max(canvas.clientWidth, 1);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = colour.canvas;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    const k = camera.scale * ratio;
    pen.setTransform(k, 0, 0, k, -camera.x * k, -camera.y * k);
    this.view = [camera.x, camera.y, camera.x + canvas.clientWidth / camera.scale, camera.y + canvas.clientHeight / camera.scale];
    const sight = this.scene.boxes.filter((item) => this.inSight(item.left, item.top, item.left + item.width, item.top + item.height));
    for (const item of sight) if (item.children) this.paintContainer(item);
    this.paintWires();
    for (const item of sight) if (!item.children) this.paintBox(item);
    this.paintOverview(ratio);
    const taken = performance.now() - start;
    this.frames.push(taken);
    if (this.frames.length > 600) this.frames.shift();
  }

  inSight(left, top, right, bottom) {
    const [x1, y1, x2, y2] = this.view;
    return right >= x1 && left <= x2 && bottom >= y1 && top <= y2;
  }

  paintContainer(item) {
    const { pen, colour, camera } = this, isFunction = item.container && item.container.kind === "function";
    this.path(item.left, item.top, item.width, item.height, isFunction ? 10 : 8);
    pen.fillStyle = isFunction ? colour.panel : this.groupFill(item);
    pen.fill();
    this.stroke(item, isFunction ? colour.line : this.groupLine(item), isFunction ? 1.2 : 1);
    if (camera.scale < 0.22) return;
    const heat = item.group && item.group.kernel.heat;
    if (heat) {
      pen.fillStyle = this.heat(heat, 85);
      pen.beginPath();
      pen.roundRect(item.left + 1, item.top + 1, item.width - 2, item.title - 1, [7, 7, 0, 0]);
      pen.fill();
    }
    pen.fillStyle = colour.ink;
    pen.font = isFunction ? FONT.title : FONT.bold;
    const y = item.top + (isFunction ? 23 : 16), time = this.timeOf(item);
    const x = Math.max(item.left + 10, Math.min(this.view[0] + 10, item.left + item.width - 160));
    pen.fillText(`▾ ${this.scene.titleOf(item)}`, x, y);
    pen.font = FONT.small;
    pen.fillStyle = heat ? colour.ink : colour.muted;
    pen.textAlign = "right";
    pen.fillText(time || this.subtitle(item), item.left + item.width - 10, y);
    pen.textAlign = "left";
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

  groupLine(item) { return item.group ? this.colour.wire : this.colour.line; }

  heat(share, most) { return `color-mix(in srgb, ${this.colour.hot} ${Math.round(most * Math.sqrt(share))}%, ${this.colour.group})`; }

  stroke(item, line, width) {
    const { pen, colour, camera } = this;
    const chosen = item.id === this.selected, over = item.id === this.hovered, found = this.marked.has(item.id);
    pen.strokeStyle = chosen || over || found ? colour.accent : line;
    pen.lineWidth = chosen ? Math.max(2.4, 1.6 / camera.scale) : found ? Math.max(1.8, 1.2 / camera.scale) : width;
    pen.stroke();
  }

  paintBox(item) {
    const { pen, colour, camera } = this, { node } = item;
    const width = item.boxWidth || item.width, left = item.left + (item.width - width) / 2, { top, box } = item;
    if (camera.scale < 0.16) {
      pen.fillStyle = node ? this.stripe(node) : colour.closed;
      pen.fillRect(left, top, width, box);
      if (item.id === this.selected || this.marked.has(item.id)) {
        this.path(left - 4, top - 4, width + 8, box + 8, 4);
        this.stroke(item, colour.accent, 2);
      }
      return;
    }
    const rounded = node && node.kind !== "op" && node.kind !== "call" ? box / 2 : 6;
    this.path(left, top, width, box, Math.min(rounded, 13));
    pen.fillStyle = node ? this.fill(node) : item.group && item.group.kernel.heat ? this.heat(item.group.kernel.heat, 70) : colour.closed;
    pen.fill();
    this.stroke(item, node ? this.stripe(node) : colour.wire, 1.1);
    if (camera.scale < 0.3) return;
    if (!node) { this.paintClosed(item, left, width); return; }
    pen.font = FONT.bold;
    pen.fillStyle = colour.ink;
    const known = item.title;
    pen.textAlign = "center";
    pen.fillText(this.cut(known, width - 14, FONT.bold), left + width / 2, top + 17);
    pen.textAlign = "left";
    if (camera.scale < 0.5) return;
    pen.font = FONT.small;
    pen.fillStyle = colour.muted;
    item.lines.forEach((line, k) => pen.fillText(this.cut(line, width - 20, FONT.small), left + 10, top + 32 + 15 * k));
    if (!item.edgeLabel) return;
    pen.font = FONT.tiny;
    const label = this.scene.measure(item.edgeLabel, FONT.tiny), x = item.left + (item.width - label) / 2;
    pen.fillStyle = this.backdrop(item);
    pen.fillRect(x - 3, top + box + 5, label + 6, 13);
    pen.fillStyle = colour.muted;
    pen.fillText(item.edgeLabel, x, top + box + 15);
  }

  paintClosed(item, left, width) {
    const { pen, colour } = this;
    pen.font = FONT.bold;
    pen.fillStyle = colour.ink;
    pen.fillText(this.cut(`▸ ${this.scene.titleOf(item)}`, width - 20, FONT.bold), left + 10, item.top + 18);
    pen.font = FONT.small;
    pen.fillStyle = colour.muted;
    const ops = item.group ? `${item.group.ids.length} ops, ${item.group.kernel.kind}` : this.sizeOf(item.container);
    pen.fillText(this.timeOf(item) ? `${ops} · ${this.timeOf(item)}` : ops, left + 10, item.top + 34);
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

  cut(text, width, font) {
    if (this.scene.measure(text, font) <= width) return text;
    let low = 0, high = text.length;
    while (low < high) {
      const half = (low + high + 1) >> 1;
      if (this.scene.measure(`${text.slice(0, half)}…`, font) <= width) low = half; else high = half - 1;
    }
    return `${text.slice(0, low)}…`;
  }

  fill(node) {
    const hue = hueOf(node.family || node.kind), dark = this.dark;
    if (["param", "result", "constant", "value", "field", "tuple", "join"].includes(node.kind)) {
      return dark ? "#262a36" : "#f3f4f8";
    }
    return dark ? `hsl(${hue} 32% 22%)` : `hsl(${hue} 70% 95.5%)`;
  }

  stripe(node) {
    const hue = hueOf(node.family || node.kind);
    if (["param", "result", "constant", "value", "field", "tuple", "join"].includes(node.kind)) return this.colour.wire;
    return this.dark ? `hsl(${hue} 40% 48%)` : `hsl(${hue} 45% 68%)`;
  }

  path(x, y, w, h, r) {
    this.pen.beginPath();
    if (this.camera.scale < 0.12) this.pen.rect(x, y, w, h); else this.pen.roundRect(x, y, w, h, r);
  }

  paintWires() {
    const { pen, colour, camera, scene } = this;
    const special = [];
    pen.strokeStyle = colour.wire;
    pen.fillStyle = colour.wire;
    pen.lineWidth = Math.max(1.2, 0.7 / camera.scale);
    const curved = camera.scale > 0.2;
    pen.beginPath();
    const heads = [];
    for (const wire of scene.wires) {
      const [x1, y1, x2, y2] = wire.box;
      if (!this.inSight(x1 - 2, y1, x2 + 2, y2)) continue;
      if (wire.value === this.lit) { special.push(wire); continue; }
      this.trace(wire, curved);
      if (camera.scale > 0.35) heads.push(...wire.ends);
    }
    pen.stroke();
    pen.beginPath();
    for (const [x, y] of heads) this.head(x, y);
    pen.fill();
    if (!special.length) return;
    pen.strokeStyle = pen.fillStyle = colour.accent;
    pen.lineWidth = Math.max(2, 1.2 / camera.scale);
    pen.beginPath();
    for (const wire of special) this.trace(wire, curved);
    pen.stroke();
    pen.beginPath();
    for (const wire of special) for (const [x, y] of wire.ends) this.head(x, y);
    pen.fill();
  }

  trace({ pieces }, curved) {
    const { pen, view } = this;
    for (let k = 0; k < pieces.length; k += 4) {
      const x1 = pieces[k], y1 = pieces[k + 1], x2 = pieces[k + 2], y2 = pieces[k + 3];
      if (y2 < view[1] && y1 < view[1] || y1 > view[3] && y2 > view[3]) continue;
      pen.moveTo(x1, y1);
      if (!curved || Math.abs(x1 - x2) < 0.5) pen.lineTo(x2, y2);
      else pen.bezierCurveTo(x1, (y1 + y2) / 2, x2, (y1 + y2) / 2, x2, y2);
    }
  }

  head(x, y) {
    this.pen.moveTo(x, y);
    this.pen.lineTo(x - 3.5, y - 7);
    this.pen.lineTo(x + 3.5, y - 7);
  }

  // ---- the overview at the right edge: painted once, then copied

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
    const allSeen = x0 <= 0 && y0 <= 0 && x9 >= root.width && y9 >= root.height;
    if (!width || allSeen) { if (this.overview) this.overview.place = null; return; }
    const { pen, canvas, colour, scene } = this, scale = this.overviewScale();
    const left = canvas.clientWidth - width - 10, height = scene.root.height * scale;
    const at = left + (width - scene.root.width * scale) / 2;
    if (!this.overview || this.overview.key !== `${canvas.width}x${canvas.height}`) this.makeOverview(scale, ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colour.panel;
    pen.fillRect(left - 4, 8, width + 8, height + 8);
    pen.drawImage(this.overview.image, at, 12, scene.root.width * scale, height);
    pen.strokeStyle = colour.line;
    pen.lineWidth = 1;
    pen.strokeRect(left - 4.5, 7.5, width + 9, height + 9);
    const [x1, y1, x2, y2] = this.view.map((v, k) => Math.min(Math.max(v, 0), k % 2 ? scene.root.height : scene.root.width));
    pen.strokeStyle = colour.accent;
    pen.lineWidth = 1.5;
    pen.strokeRect(at + x1 * scale, 12 + y1 * scale, Math.max((x2 - x1) * scale, 4), Math.max((y2 - y1) * scale, 3));
    this.overview.place = { left: at, top: 12, scale, width: width + 8, height };
  }

  makeOverview(scale, ratio) {
    const image = document.createElement("canvas"), { root } = this.scene;
    image.width = Math.max(1, Math.ceil(root.width * scale * ratio));
    image.height = Math.max(1, Math.ceil(root.height * scale * ratio));
    const pen = image.getContext("2d");
    pen.scale(scale * ratio, scale * ratio);
    for (const item of this.scene.boxes) {
      if (item.children) {
        pen.fillStyle = item.container && item.container.kind === "function" ? this.colour.canvas : this.groupFill(item);
        pen.fillRect(item.left, item.top, item.width, item.height);
      } else {
        pen.fillStyle = item.node ? this.stripe(item.node) : this.colour.wire;
        pen.fillRect(item.left, item.top, item.width, Math.max(item.box, 1.2 / scale));
      }
    }
    this.overview = { image, key: `${this.canvas.width}x${this.canvas.height}` };
  }

  // ---- pointer

  at(px, py) {
    const x = this.camera.x + px / this.camera.scale, y = this.camera.y + py / this.camera.scale;
    let found = null;
    for (const item of this.scene.boxes) {
      const height = item.children ? item.height : item.box;
      if (x >= item.left && x <= item.left + item.width && y >= item.top && y <= item.top + height) found = item;
    }
    return found;
  }

  // The value whose label stands at a place: StructInfo is told on the wires.
  labelAt(px, py) {
    const x = this.camera.x + px / this.camera.scale, y = this.camera.y + py / this.camera.scale;
    return this.scene.boxes.find((item) => item.edgeLabel && x >= item.left && x <= item.left + item.width
      && y > item.top + item.box && y <= item.top + item.height) || null;
  }

  listen() {
    const { canvas } = this;
    let drag = null;
    const place = (event) => [event.offsetX, event.offsetY];
    const jump = (px, py) => {
      const spot = this.overview && this.overview.place;
      if (!spot || px < spot.left - 6 || px > spot.left + spot.width || py > spot.top + spot.height + 6) return false;
      this.camera.x = (px - spot.left) / spot.scale - canvas.clientWidth / this.camera.scale / 2;
      this.camera.y = (py - spot.top) / spot.scale - canvas.clientHeight / this.camera.scale / 2;
      this.ask();
      return true;
    };
    canvas.addEventListener("pointerdown", (event) => {
      const [x, y] = place(event);
      drag = { x, y, moved: false, overview: jump(x, y) };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      if (drag && drag.overview) { jump(x, y); return; }
      if (drag) {
        if (Math.abs(x - drag.x) + Math.abs(y - drag.y) < 3 && !drag.moved) return;
        drag.moved = true;
        this.pan(drag.x - x, drag.y - y);
        [drag.x, drag.y] = [x, y];
        return;
      }
      const item = this.at(x, y) || this.labelAt(x, y);
      const id = item ? item.id : null;
      canvas.style.cursor = item && !item.children ? "pointer" : "grab";
      if (id !== this.hovered) { this.hovered = id; this.events.hover(item); this.ask(); }
    });
    canvas.addEventListener("pointerup", (event) => {
      const [x, y] = place(event), was = drag;
      drag = null;
      if (was && !was.moved && !was.overview) this.click(x, y);
    });
    canvas.addEventListener("pointerleave", () => { this.hovered = null; this.events.hover(null); this.ask(); });
    canvas.addEventListener("dblclick", (event) => {
      const item = this.at(...place(event));
      if (item && !item.node) this.events.toggle(item);
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 18 : 1;
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY * unit * 0.0022), ...place(event));
      else this.pan((event.shiftKey ? event.deltaY : event.deltaX) * unit, (event.shiftKey ? 0 : event.deltaY) * unit);
    }, { passive: false });
  }

  click(px, py) {
    const item = this.at(px, py), label = this.labelAt(px, py);
    if (label && (!item || item.children)) { this.events.select(label.id, true); return; }
    const { x, y, scale } = this.camera;
    const arrow = item && !item.node && x + px / scale < item.left + 26 && y + py / scale < item.top + 26;
    if (arrow) { this.events.toggle(item); return; }
    this.events.select(item ? item.id : null, false);
  }
}
