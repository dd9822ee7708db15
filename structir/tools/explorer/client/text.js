"use strict";
// Text in lines: coloured, only what is in sight is in the document, lines and sizes can be chosen.

const TOKEN = /(#.*$)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(@?\b(?:I|R|T)\.[\w.]+)|\b(def|class|return|with|if|else|for|in|while|from|import|pass|not|and|or|True|False|None|range)\b|(\b\d[\w.]*\b)|([A-Za-z_]\w*)|([^\w\s])|(\s+)/g;
const KINDS = [null, "comment", "string", "op", "keyword", "number", "name", "mark", "space"];
const LINE = 19; // pixels, as in the style

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function coloured(line) {
  const made = document.createDocumentFragment();
  for (const match of line.matchAll(TOKEN)) {
    const kind = KINDS[match.slice(1).findIndex((part) => part !== undefined) + 1];
    if (kind === "name" || kind === "mark" || kind === "space") made.append(match[0]);
    else made.append(element("span", { class: `t-${kind}` }, match[0]));
  }
  return made;
}

// The sizes in a line's annotation: [start, end, tensor, axis].
function annotatedDims(line) {
  const found = [];
  const head = /^\s*\w+: /.exec(line);
  if (!head) return found;
  const stop = line.indexOf(" = ");
  let tensor = -1;
  for (let at = head[0].length; at >= 0 && at < (stop < 0 ? line.length : stop);) {
    at = line.indexOf("R.Tensor", at);
    if (at < 0 || (stop >= 0 && at > stop)) break;
    tensor += 1;
    at += 8;
    if (line.slice(at, at + 2) !== "((") continue;
    let depth = 0, start = at + 2, axis = 0;
    for (let k = at + 2; k < line.length; k += 1) {
      const letter = line[k];
      if (letter === "(" || letter === "[") depth += 1;
      const ends = depth === 0 && (letter === "," || letter === ")");
      if (ends && line.slice(start, k).trim()) {
        const skip = line.slice(start, k).length - line.slice(start, k).trimStart().length;
        found.push([start + skip, k, tensor, axis]);
        axis += 1;
        start = k + 1;
      }
      if (letter === ")" || letter === "]") depth -= 1;
      if (depth < 0) { at = k; break; }
    }
  }
  return found;
}

// A line without what is known of the value that it binds.
function withoutInfo(line) {
  const head = /^\s*\w+(?=: )/.exec(line), stop = line.indexOf(" = ");
  return head && stop > 0 && !line.includes("def ") ? head[0] + line.slice(stop) : line;
}

class TextPane {
  constructor(place, events) {
    this.place = place;
    this.events = events;
    this.inner = element("div", { class: "lines" });
    place.append(this.inner);
    place.addEventListener("scroll", () => this.ask());
    new ResizeObserver(() => this.ask()).observe(place);
    this.lines = [];
    this.marks = new Map();
    this.inner.addEventListener("click", (event) => this.clicked(event));
    this.inner.addEventListener("mousemove", (event) => {
      const row = event.target.closest("[data-line]");
      this.events.hover(row ? Number(row.dataset.line) : null);
    });
    place.addEventListener("mouseleave", () => this.events.hover(null));
  }

  // `paint` tells the class of a line, `bar` the colour of its margin.
  show(lines, { paint = () => "", bar = () => null, sizes = false, numbers = true } = {}) {
    Object.assign(this, { lines, paint, bar, sizes, numbers });
    const longest = lines.reduce((most, line) => Math.max(most, line.length), 0);
    this.inner.style.height = `${lines.length * LINE + 8}px`;
    this.inner.style.minWidth = `${longest + 9}ch`;
    this.first = -1;
    this.ask();
  }

  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.fill(); });
  }

  fill(force = false) {
    const first = Math.max(0, Math.floor(this.place.scrollTop / LINE) - 12);
    const last = Math.min(this.lines.length, first + Math.ceil(this.place.clientHeight / LINE) + 30);
    if (!force && first === this.first && last === this.last) return;
    [this.first, this.last] = [first, last];
    const rows = [];
    for (let k = first; k < last; k += 1) rows.push(this.row(k));
    this.inner.replaceChildren(...rows);
  }

  row(k) {
    const number = k + 1, line = this.brief ? withoutInfo(this.lines[k]) : this.lines[k];
    const row = element("div", { class: `line ${this.paint(number, line)}`, "data-line": number, style: `top:${k * LINE + 4}px` });
    const bar = this.bar(number);
    row.append(element("span", { class: "number", style: bar ? `border-right-color:${bar}` : null }, this.numbers ? String(number) : ""));
    const code = element("span", { class: "code" });
    let done = 0;
    for (const [start, end, tensor, axis] of this.sizes ? annotatedDims(line) : []) {
      code.append(coloured(line.slice(done, start)));
      code.append(element("button", { class: "dim", tabindex: -1, "data-tensor": tensor, "data-axis": axis, title: "why is it this size?" }, line.slice(start, end)));
      done = end;
    }
    code.append(coloured(line.slice(done)));
    row.append(code);
    return row;
  }

  clicked(event) {
    const row = event.target.closest("[data-line]");
    if (!row || window.getSelection().toString()) return;
    const dim = event.target.closest(".dim");
    this.events.choose(Number(row.dataset.line), dim ? [Number(dim.dataset.tensor), Number(dim.dataset.axis)] : null);
  }

  reveal(number) {
    const top = (number - 1) * LINE, { scrollTop, clientHeight } = this.place;
    if (top < scrollTop + 2 * LINE || top > scrollTop + clientHeight - 4 * LINE) {
      this.place.scrollTop = top - clientHeight / 3;
    }
    this.fill(true);
  }
}
