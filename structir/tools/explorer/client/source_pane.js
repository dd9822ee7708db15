"use strict";
// The source pane: highlighted lines with buttons for sizes. Only visible lines are in the document.

const TOKEN = /(#.*$)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(@?\b(?:I|R|T)\.[\w.]+)|\b(def|class|return|with|if|else|for|in|while|from|import|pass|not|and|or|True|False|None|range)\b|(\b\d[\w.]*\b)|([A-Za-z_]\w*)|([^\w\s])|(\s+)/g;
const KINDS = [null, "comment", "string", "op", "keyword", "number", "name", "mark", "space"];
const LINE = 19; // pixels, as in the style

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function highlightTokens(line) {
  const fragment = document.createDocumentFragment();
  for (const match of line.matchAll(TOKEN)) {
    const kind = KINDS[match.slice(1).findIndex((part) => part !== undefined) + 1];
    if (kind === "name" || kind === "mark" || kind === "space") fragment.append(match[0]);
    else fragment.append(element("span", { class: `t-${kind}` }, match[0]));
  }
  return fragment;
}

// Returns the sizes in the annotation of a line, as [start, end, tensor, axis].
function annotatedDims(line) {
  const dims = [];
  const head = /^\s*\w+: /.exec(line);
  if (!head) return dims;
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
      const character = line[k];
      if (character === "(" || character === "[") depth += 1;
      const ends = depth === 0 && (character === "," || character === ")");
      if (ends && line.slice(start, k).trim()) {
        const skip = line.slice(start, k).length - line.slice(start, k).trimStart().length;
        dims.push([start + skip, k, tensor, axis]);
        axis += 1;
        start = k + 1;
      }
      if (character === ")" || character === "]") depth -= 1;
      if (depth < 0) { at = k; break; }
    }
  }
  return dims;
}

// Returns a line without the StructInfo of the variable that it binds.
function withoutStructInfo(line) {
  const head = /^\s*\w+(?=: )/.exec(line), stop = line.indexOf(" = ");
  return head && stop > 0 && !line.includes("def ") ? head[0] + line.slice(stop) : line;
}

class SourcePane {
  constructor(root, events) {
    this.root = root;
    this.events = events;
    this.inner = element("div", { class: "lines" });
    root.append(this.inner);
    root.addEventListener("scroll", () => this.requestFill());
    new ResizeObserver(() => this.requestFill()).observe(root);
    this.lines = [];
    this.marks = new Map();
    this.inner.addEventListener("click", (event) => this.click(event));
    this.inner.addEventListener("mousemove", (event) => {
      const row = event.target.closest("[data-line]");
      this.events.hover(row ? Number(row.dataset.line) : null);
    });
    root.addEventListener("mouseleave", () => this.events.hover(null));
  }

  // `paint` returns the CSS class of a line, `bar` the colour of its margin.
  show(lines, { paint = () => "", bar = () => null, sizes = false, numbers = true } = {}) {
    Object.assign(this, { lines, paint, bar, sizes, numbers });
    const longest = lines.reduce((most, line) => Math.max(most, line.length), 0);
    this.inner.style.height = `${lines.length * LINE + 8}px`;
    this.inner.style.minWidth = `${longest + 9}ch`;
    this.first = -1;
    this.requestFill();
  }

  requestFill() {
    if (this.fillRequested) return;
    this.fillRequested = true;
    requestAnimationFrame(() => { this.fillRequested = false; this.fill(); });
  }

  fill(force = false) {
    const first = Math.max(0, Math.floor(this.root.scrollTop / LINE) - 12);
    const last = Math.min(this.lines.length, first + Math.ceil(this.root.clientHeight / LINE) + 30);
    if (!force && first === this.first && last === this.last) return;
    [this.first, this.last] = [first, last];
    const rows = [];
    for (let k = first; k < last; k += 1) rows.push(this.row(k));
    this.inner.replaceChildren(...rows);
  }

  row(k) {
    const number = k + 1, line = this.hideStructInfo ? withoutStructInfo(this.lines[k]) : this.lines[k];
    const row = element("div", { class: `line ${this.paint(number, line)}`, "data-line": number, style: `top:${k * LINE + 4}px` });
    const bar = this.bar(number);
    row.append(element("span", { class: "number", style: bar ? `border-right-color:${bar}` : null }, this.numbers ? String(number) : ""));
    const code = element("span", { class: "code" });
    let rest = 0; // start of the text that is not appended yet
    for (const [start, end, tensor, axis] of this.sizes ? annotatedDims(line) : []) {
      code.append(highlightTokens(line.slice(rest, start)));
      code.append(element("button", { class: "dim", tabindex: -1, "data-tensor": tensor, "data-axis": axis, title: "explain this size" }, line.slice(start, end)));
      rest = end;
    }
    code.append(highlightTokens(line.slice(rest)));
    row.append(code);
    return row;
  }

  click(event) {
    const row = event.target.closest("[data-line]");
    if (!row || window.getSelection().toString()) return;
    const dim = event.target.closest(".dim");
    this.events.select(Number(row.dataset.line), dim ? [Number(dim.dataset.tensor), Number(dim.dataset.axis)] : null);
  }

  reveal(number) {
    const top = (number - 1) * LINE, { scrollTop, clientHeight } = this.root;
    if (top < scrollTop + 2 * LINE || top > scrollTop + clientHeight - 4 * LINE) {
      this.root.scrollTop = top - clientHeight / 3;
    }
    this.fill(true);
  }
}
