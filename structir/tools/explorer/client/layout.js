"use strict";
// Layered layout of boxes within boxes. What is told: items with `width`, `height`, `seq` (their
// order in the program) and, for open containers, `children`; and edges {from, to}. What is found:
// `x`, `y` of every item within its container, and `routes` of every container.
//
// Each container is laid out by itself, inner ones first. A value that comes in from outside enters
// through a port in the top edge; one that is read outside leaves through a port in the bottom.

const LANE = 12; // layers, from which a wire is a lane: it stays straight beside what it passes
const GAP = { across: 26, layer: 30, dummy: 9, pad: 14 };

function layoutTree(root, edges) {
  const containers = [];
  const visit = (item, depth) => {
    item.depth = depth;
    if (!item.children) return;
    item.local = new Map();
    item.ins = new Map();
    item.outs = new Map();
    for (const child of item.children) {
      child.parent = item;
      visit(child, depth + 1);
    }
    containers.push(item);
  };
  visit(root, 0);
  for (const edge of edges) splitEdge(edge);
  for (const container of containers) layoutOne(container, container === root);
}

// An edge becomes one piece in every container that it passes through.
function splitEdge({ from, to, value }) {
  let a = from, b = to;
  let lowest = a, other = b;
  while (lowest !== other) {
    if (lowest.depth < other.depth) [lowest, other] = [other, lowest];
    lowest = lowest.parent;
  }
  if (lowest === from || lowest === to) return; // a container and what stands inside of it
  while (a.parent !== lowest) {
    addLocal(a.parent, a, port(a.parent.outs, value, "out"), value);
    a = a.parent;
  }
  while (b.parent !== lowest) {
    addLocal(b.parent, port(b.parent.ins, value, "in"), b, value);
    b = b.parent;
  }
  addLocal(lowest, a, b, value);
}

function port(ports, value, side) {
  if (!ports.has(value)) ports.set(value, { port: side, value, width: 6, height: 0, x: 0 });
  return ports.get(value);
}

function addLocal(container, a, b, value) {
  if (!container.local.has(a)) container.local.set(a, new Map());
  const values = container.local.get(a);
  if (!values.has(value)) values.set(value, new Set());
  values.get(value).add(b);
}

function layoutOne(container, isRoot) {
  const items = [...container.ins.values(), ...container.children, ...container.outs.values()];
  const vertices = items.map((item, index) => ({
    item, index, width: item.width, height: item.height, ups: [], downs: [], rank: 0,
    seq: item.port ? (item.port === "in" ? -1 : Infinity) : item.seq,
  }));
  if (isRoot) {
    placeSideBySide(container);
    return;
  }
  const of = new Map(vertices.map((v) => [v.item, v]));
  const wires = []; // one for each value that a vertex sends out
  for (const [item, values] of container.local) {
    for (const [value, targets] of values) {
      wires.push({ value, source: of.get(item), targets: [...targets].map((t) => of.get(t)) });
    }
  }
  rankVertices(vertices, wires);
  const layers = layered(vertices, wires);
  orderLayers(layers);
  placeAcross(layers, wires.filter((wire) => wire.lane));
  placeDown(container, layers, wires);
}

// ---- ranks

function rankVertices(vertices, wires) {
  for (const v of vertices) { v.next = []; v.waiting = 0; }
  for (const { source, targets } of wires) {
    for (const target of targets) { source.next.push(target); target.waiting += 1; }
  }
  const order = topological(vertices);
  order.forEach((v, place) => { v.place = place; });
  for (const v of order) {
    for (const next of v.next) {
      if (next.place > v.place) next.rank = Math.max(next.rank, v.rank + 1);
    }
  }
  for (const v of [...order].reverse()) { // what reads nothing stands right above its first reader
    const below = v.next.filter((next) => next.place > v.place).map((next) => next.rank);
    if (!v.enters && v.item.port !== "in" && below.length) v.rank = Math.min(...below) - 1;
  }
  const inner = vertices.filter((v) => !v.item.port);
  const hasIn = inner.length < vertices.length && vertices.some((v) => v.item.port === "in");
  const shift = (hasIn ? 1 : 0) - Math.min(...inner.map((v) => v.rank));
  for (const v of inner) v.rank += shift;
  const most = inner.reduce((rank, v) => Math.max(rank, v.rank), 0);
  for (const v of vertices) {
    if (v.item.port === "in") v.rank = 0;
    if (v.item.port === "out") v.rank = most + 1;
  }
}

// Program order where nothing forbids it; a circle is entered at its first vertex.
function topological(vertices) {
  const order = [], ready = [], left = new Map(vertices.map((v) => [v, v.waiting]));
  for (const v of vertices) v.enters = v.waiting;
  const add = (v) => { // a heap by place in the program
    ready.push(v);
    for (let k = ready.length - 1; k > 0;) {
      const up = (k - 1) >> 1;
      if (ready[up].seq <= ready[k].seq) break;
      [ready[up], ready[k]] = [ready[k], ready[up]];
      k = up;
    }
  };
  const take = () => {
    const first = ready[0], last = ready.pop();
    if (ready.length) {
      ready[0] = last;
      for (let k = 0;;) {
        let least = k;
        for (const down of [2 * k + 1, 2 * k + 2]) {
          if (down < ready.length && ready[down].seq < ready[least].seq) least = down;
        }
        if (least === k) break;
        [ready[least], ready[k]] = [ready[k], ready[least]];
        k = least;
      }
    }
    return first;
  };
  const bySeq = [...vertices].sort((a, b) => a.seq - b.seq);
  let first = 0;
  for (const v of vertices) if (v.waiting === 0) { add(v); left.delete(v); }
  while (order.length < vertices.length) {
    if (!ready.length) {
      while (!left.has(bySeq[first])) first += 1;
      add(bySeq[first]);
      left.delete(bySeq[first]);
    }
    const v = take();
    order.push(v);
    for (const next of v.next) {
      if (!left.has(next)) continue;
      const count = left.get(next) - 1;
      left.set(next, count);
      if (count === 0) { left.delete(next); add(next); }
    }
  }
  return order;
}

// ---- layers: a wire that passes a layer has a place of its own in it

function layered(vertices, wires) {
  const layers = [];
  const put = (v) => { (layers[v.rank] = layers[v.rank] || []).push(v); };
  for (const v of [...vertices].sort((a, b) => a.seq - b.seq)) put(v);
  for (const wire of wires) {
    const { source, value } = wire;
    wire.direct = wire.targets.filter((t) => t.rank <= source.rank);
    wire.links = []; // [upper, lower], a layer apart
    const targets = wire.targets.filter((t) => t.rank > source.rank).sort((a, b) => a.rank - b.rank);
    let above = source;
    for (const target of targets) {
      while (above.rank < target.rank - 1) {
        const dummy = { dummy: true, width: 2, height: 0, ups: [], downs: [], rank: above.rank + 1 };
        dummy.seq = source.seq;
        dummy.lane = targets[targets.length - 1].rank - source.rank > LANE;
        link(wire, above, dummy, value);
        if (dummy.lane) (wire.lane = wire.lane || []).push(dummy);
        put(dummy);
        above = dummy;
      }
      link(wire, above, target, value);
    }
  }
  for (let rank = 0; rank < layers.length; rank += 1) layers[rank] = layers[rank] || [];
  return layers;
}

function link(wire, upper, lower, value) {
  wire.links.push([upper, lower]);
  // a value that many read pulls each of its readers less than one that is read once
  const weight = upper.dummy && lower.dummy ? 8 : (upper.dummy || lower.dummy ? 0.25 : 1) / wire.targets.length;
  lower.ups.push({ v: upper, at: portOf(upper, value, "outs"), own: portOf(lower, value, "ins"), weight });
  upper.downs.push({ v: lower, at: portOf(lower, value, "ins"), own: portOf(upper, value, "outs"), weight });
}

// Where a value enters or leaves a box, from its middle.
function portOf(v, value, side) {
  const ports = v.item && v.item.children && v.item[side];
  return ports && ports.has(value) ? ports.get(value).x - v.width / 2 : 0;
}

// ---- order within layers: sweeps by the middle of the neighbours; the best order is kept

function orderLayers(layers) {
  const number = () => layers.forEach((layer) => layer.forEach((v, k) => { v.order = k; }));
  number();
  const count = layers.reduce((sum, layer) => sum + layer.length, 0);
  const sweeps = count > 4000 ? 8 : 16;
  let best = crossings(layers), kept = layers.map((layer) => [...layer]), idle = 0;
  for (let sweep = 0; sweep < sweeps && best > 0 && idle < 4; sweep += 1) {
    const down = sweep % 2 === 0;
    const sequence = down ? layers : [...layers].reverse();
    for (const layer of sequence) {
      if (layer.length < 2) continue;
      for (const v of layer) v.wish = wishedOrder(v, down ? v.ups : v.downs);
      layer.sort((a, b) => a.wish - b.wish || a.order - b.order);
      for (let k = 0; k < layer.length; k += 1) layer[k].order = k;
    }
    const now = crossings(layers);
    idle += 1;
    if (now < best) { best = now; idle = 0; kept = layers.map((layer) => [...layer]); }
  }
  kept.forEach((layer, rank) => { layers[rank] = layer; });
  number();
}

const ORDERS = [];

// The middle one of where the neighbours stand, ports of boxes told apart.
function wishedOrder(v, near) {
  const place = (link) => link.v.order + (link.at / (link.v.width + 1)) * 0.8;
  if (near.length === 0) return v.order;
  if (near.length === 1) return place(near[0]);
  ORDERS.length = 0;
  for (const link of near) ORDERS.push(place(link));
  ORDERS.sort((a, b) => a - b);
  const half = ORDERS.length >> 1;
  return ORDERS.length % 2 ? ORDERS[half] : (ORDERS[half - 1] + ORDERS[half]) / 2;
}

function crossings(layers) {
  let total = 0, tree = new Int32Array(64);
  for (const layer of layers) {
    if (layer.length < 2) continue;
    const ends = [];
    let most = 1;
    for (const v of layer) {
      const first = ends.length;
      for (const { v: n } of v.downs) {
        ends.push(n.order);
        if (n.order >= most) most = n.order + 1;
      }
      if (ends.length - first > 1) ends.push(...ends.splice(first).sort((a, b) => a - b));
    }
    let size = 1;
    while (size < most) size *= 2;
    if (tree.length < 2 * size) tree = new Int32Array(2 * size); else tree.fill(0, 0, 2 * size);
    for (const end of ends) { // how many that came before end further right
      let place = end + size;
      tree[place] += 1;
      while (place > 1) {
        if (place % 2 === 0) total += tree[place + 1];
        place >>= 1;
        tree[place] += 1;
      }
    }
  }
  return total;
}

// ---- across: each layer as near to its neighbours as the boxes' widths allow

function placeAcross(layers, lanes) {
  for (const layer of layers) {
    let x = 0;
    layer.forEach((v, k) => {
      if (k) x += apart(layer[k - 1], v);
      v.x = x;
    });
    const shift = x / 2;
    for (const v of layer) v.x -= shift;
  }
  const count = layers.reduce((sum, layer) => sum + layer.length, 0);
  const rounds = Math.min(Math.max(Math.round(60000 / (count + 1)), 10), 160);
  for (let round = 0; round < rounds; round += 1) {
    const down = round % 2 === 0, both = round >= rounds * 0.4;
    let moved = 0;
    for (let k = 0; k < layers.length; k += 1) {
      const layer = layers[down ? k : layers.length - 1 - k];
      for (const v of layer) {
        let sum = 0, weight = 0;
        for (const links of both ? [v.ups, v.downs] : [down ? v.ups : v.downs]) {
          for (const link of links) {
            sum += link.weight * (link.v.x + link.at - link.own);
            weight += link.weight;
          }
        }
        v.wish = weight ? sum / weight : v.x;
        v.pull = weight ? (v.dummy ? 4 : 1) * weight : 0.05;
      }
      moved = Math.max(moved, settle(layer));
    }
    if (round % 4 === 3) {
      straighten(layers);
      slide(layers, lanes);
    } else if (both && moved < 0.5) {
      break;
    }
  }
  gather(layers);
}

// Parts that no wire joins have drifted apart: they move back towards the largest, each as one, as
// far as there is room beside all that they pass.
function gather(layers) {
  const parts = joined(layers);
  const middle = (part) => part.reduce((sum, v) => sum + v.x, 0) / part.length;
  const largest = parts.reduce((most, part) => (part.length > most.length ? part : most), []);
  const centre = middle(largest), far = new Map(parts.map((part) => [part, middle(part) - centre]));
  const nearest = parts.filter((part) => part !== largest);
  nearest.sort((a, b) => Math.abs(far.get(a)) - Math.abs(far.get(b)));
  for (const part of nearest) {
    const side = far.get(part) > 0 ? -1 : 1;
    let room = Math.abs(far.get(part));
    for (const v of part) {
      const next = layers[v.rank][v.order + side];
      if (!next || next.part === v.part) continue;
      room = Math.min(room, Math.abs(next.x - v.x) - (side < 0 ? apart(next, v) : apart(v, next)));
    }
    if (room > 0) for (const v of part) v.x += side * room;
  }
}

// The boxes and lanes of all layers, those together that wires join.
function joined(layers) {
  const parts = [];
  for (const first of layers.flat()) {
    if (first.part !== undefined) continue;
    const part = [first];
    first.part = parts.length;
    for (const v of part) {
      for (const { v: next } of [...v.ups, ...v.downs]) {
        if (next.part !== undefined) continue;
        next.part = parts.length;
        part.push(next);
      }
    }
    parts.push(part);
  }
  return parts;
}

// All that stands below a gap, but for lanes, moves sideways as one, to where the wires across the
// gap pull least.
function straighten(layers) {
  let shift = 0;
  for (const [k, layer] of layers.entries()) {
    let sum = 0, weight = 0;
    for (const v of layer) {
      if (v.lane) continue;
      for (const { v: up, at, own, weight: w } of v.ups) {
        if (up.lane) continue;
        sum += w * (up.x + at - own - (v.x + shift));
        weight += w;
      }
    }
    if (k && weight) shift += sum / weight;
    for (const v of layer) {
      v.wish = v.x + (v.lane ? 0 : shift);
      v.pull = v.lane ? 4 : 1;
    }
    settle(layer);
  }
}

// Lanes move as one toward those who read them, as far as there is room beside all that they pass.
function slide(layers, lanes) {
  const mean = ({ lane }) => lane.reduce((sum, v) => sum + v.x, 0) / lane.length;
  for (const side of [-1, 1]) {
    const sorted = [...lanes].sort((a, b) => -side * (mean(a) - mean(b)));
    for (const wire of sorted) {
      const readers = wire.targets.map((v) => v.x).sort((a, b) => a - b);
      const far = side * ((side < 0 ? readers[0] : readers[readers.length - 1]) - mean(wire));
      let room = far;
      for (const v of wire.lane) {
        const beside = layers[v.rank][v.order + side];
        if (beside) room = Math.min(room, Math.abs(beside.x - v.x) - (side < 0 ? apart(beside, v) : apart(v, beside)));
      }
      if (room > 1) for (const v of wire.lane) v.x += side * room;
    }
  }
}

function apart(a, b) {
  const gap = a.dummy && b.dummy ? GAP.dummy : a.dummy || b.dummy ? GAP.across * 0.6 : GAP.across;
  return a.width / 2 + b.width / 2 + gap;
}

const BLOCKS = { sum: [], weight: [], first: [] };

// The places nearest to what is wished, in order and apart: neighbours that meet move as one.
// How far the layer's boxes have moved at most.
function settle(layer) {
  const { sum, weight, first } = BLOCKS;
  let offset = 0, blocks = 0, moved = 0;
  for (let k = 0; k < layer.length; k += 1) {
    const v = layer[k];
    if (k) offset += apart(layer[k - 1], v);
    v.offset = offset;
    sum[blocks] = v.pull * (v.wish - offset);
    weight[blocks] = v.pull;
    first[blocks] = k;
    while (blocks && sum[blocks - 1] / weight[blocks - 1] >= sum[blocks] / weight[blocks]) {
      sum[blocks - 1] += sum[blocks];
      weight[blocks - 1] += weight[blocks];
      blocks -= 1;
    }
    blocks += 1;
  }
  for (let b = 0; b < blocks; b += 1) {
    const end = b + 1 < blocks ? first[b + 1] : layer.length, base = sum[b] / weight[b];
    for (let k = first[b]; k < end; k += 1) {
      const x = base + layer[k].offset;
      moved = Math.max(moved, Math.abs(x - layer[k].x));
      layer[k].x = x;
    }
  }
  return moved;
}

// ---- down: layers below each other, wires bend only between them

function placeDown(container, layers, wires) {
  let left = Infinity, right = -Infinity;
  for (const layer of layers) {
    for (const v of layer) {
      left = Math.min(left, v.x - v.width / 2);
      right = Math.max(right, v.x + v.width / 2);
    }
  }
  if (left === Infinity) { left = 0; right = 0; }
  const title = container.title || 0, pad = GAP.pad;
  const least = Math.max(container.least || 0, right - left + 2 * pad);
  const shift = pad - left + Math.max(0, (least - (right - left + 2 * pad)) / 2);
  let y = title + pad;
  const bands = layers.map((layer, rank) => {
    const height = Math.max(0, ...layer.map((v) => v.height));
    const onlyPorts = layer.length && layer.every((v) => v.dummy || v.item.port);
    const top = onlyPorts && rank === 0 ? title : y;
    y = top + height + gapBelow(layer);
    return { top, bottom: top + height };
  });
  const last = bands[bands.length - 1];
  container.width = least;
  container.height = last ? last.bottom + pad : title + pad;
  for (const [rank, layer] of layers.entries()) {
    for (const v of layer) {
      v.x += shift;
      v.top = bands[rank].top;
      v.bottom = bands[rank].bottom;
      if (v.dummy) continue;
      v.item.x = v.x - (v.item.port ? 0 : v.width / 2);
      v.item.y = v.top;
    }
  }
  for (const p of container.outs.values()) p.y = container.height;
  container.routes = wires.map((wire) => routed(wire, container));
}

function gapBelow(layer) {
  let far = 0;
  for (const v of layer) for (const { v: n } of v.downs) far = Math.max(far, Math.abs(n.x - v.x));
  return GAP.layer + Math.min(46, far * 0.05);
}

// Pieces of a wire: [x1, y1, x2, y2], curved where x changes; `ends` are where boxes are entered.
function routed(wire, container) {
  const pieces = [], ends = [];
  const leave = (v) => v.x + portOf(v, wire.value, "outs");
  for (const [upper, lower] of wire.links) {
    const x1 = upper.dummy ? upper.x : leave(upper);
    const bottom = upper.dummy || upper.item.port ? upper.bottom : upper.top + (upper.item.box || upper.item.height);
    if (!upper.dummy && bottom < upper.bottom) pieces.push([x1, bottom, x1, upper.bottom]);
    const entry = lower.dummy ? lower.x : entryOf(lower, wire.value, x1);
    const isOut = !lower.dummy && lower.item.port === "out";
    const y2 = isOut ? container.height : lower.top;
    pieces.push([x1, upper.bottom, entry, y2]);
    if (lower.dummy && lower.bottom > lower.top) pieces.push([lower.x, lower.top, lower.x, lower.bottom]);
    if (!lower.dummy && !lower.item.port && !lower.item.children) ends.push([entry, lower.top]);
  }
  for (const target of wire.direct) { // against the direction of reading
    const x2 = target.x + portOf(target, wire.value, "ins");
    pieces.push([leave(wire.source), wire.source.top + wire.source.height, x2, target.top]);
    ends.push([x2, target.top]);
  }
  return { value: wire.value, pieces, ends, from: wire.source.item };
}

// Values enter a plain box side by side, in the order in which they come.
function entryOf(v, value, from) {
  if (v.item.port) return v.x;
  if (v.item.children) return v.x + portOf(v, value, "ins");
  if (v.ups.length < 2) return v.x;
  if (!v.entries) {
    const order = [...v.ups].sort((a, b) => a.v.x + a.at - b.v.x - b.at);
    v.entries = order.map((up) => up.v.x + up.at);
  }
  const place = v.entries.findIndex((x) => Math.abs(x - from) < 0.01);
  const step = Math.min(22, (v.width * 0.6) / (v.ups.length - 1));
  return v.x + (Math.max(place, 0) - (v.ups.length - 1) / 2) * step;
}

// The functions of a module: open ones side by side, closed ones in a column after them.
function placeSideBySide(root) {
  let x = 0, height = 0;
  const open = root.children.filter((item) => item.children);
  const closed = root.children.filter((item) => !item.children);
  for (const item of open) {
    item.x = x;
    item.y = 0;
    x += item.width + 70;
    height = Math.max(height, item.height);
  }
  let y = 0;
  for (const item of closed) {
    item.x = x;
    item.y = y;
    y += item.height + 16;
  }
  root.width = Math.max(x - 70, ...closed.map((item) => x + item.width), 1);
  root.height = Math.max(height, y, 1);
  root.routes = [];
}
