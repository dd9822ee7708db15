"use strict";
// Layered graph layout (Sugiyama) of nested boxes. Inputs: items with `width`, `height`, `seq` (their
// program order) and, for open containers, `children`; and edges {from, to, value}. Results: `x`, `y`
// of every item within its container, and the `routes` of every container.
//
// Each container is laid out separately, inner ones first. A value from outside indegree through a port
// at the top edge; a value with users outside leaves through a port at the bottom. A wire is a
// hyperedge: one value with its source and all its targets.

const LANE = 12; // a wire that spans more layers is a lane, which stays straight
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
  for (const container of containers) layoutContainer(container, container === root);
}

// Splits an edge into one local edge per container that it crosses.
function splitEdge({ from, to, value }) {
  let a = from, b = to;
  let ancestor = a, other = b; // ends as the lowest common ancestor
  while (ancestor !== other) {
    if (ancestor.depth < other.depth) [ancestor, other] = [other, ancestor];
    ancestor = ancestor.parent;
  }
  if (ancestor === from || ancestor === to) return; // a container and an item inside it
  while (a.parent !== ancestor) {
    addLocal(a.parent, a, port(a.parent.outs, value, "out"), value);
    a = a.parent;
  }
  while (b.parent !== ancestor) {
    addLocal(b.parent, port(b.parent.ins, value, "in"), b, value);
    b = b.parent;
  }
  addLocal(ancestor, a, b, value);
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

function layoutContainer(container, isRoot) {
  const items = [...container.ins.values(), ...container.children, ...container.outs.values()];
  const vertices = items.map((item, index) => ({
    item, index, width: item.width, height: item.height, upLinks: [], downLinks: [], rank: 0,
    seq: item.port ? (item.port === "in" ? -1 : Infinity) : item.seq,
  }));
  if (isRoot) {
    placeFunctions(container);
    return;
  }
  const vertexOf = new Map(vertices.map((v) => [v.item, v]));
  const wires = []; // one per value and source
  for (const [item, values] of container.local) {
    for (const [value, targets] of values) {
      wires.push({ value, source: vertexOf.get(item), targets: [...targets].map((t) => vertexOf.get(t)) });
    }
  }
  rankVertices(vertices, wires);
  const layers = buildLayers(vertices, wires);
  orderLayers(layers);
  assignX(layers, wires.filter((wire) => wire.lane));
  assignY(container, layers, wires);
}

// ---- rank assignment: longest paths

function rankVertices(vertices, wires) {
  for (const v of vertices) { v.next = []; v.pending = 0; }
  for (const { source, targets } of wires) {
    for (const target of targets) { source.next.push(target); target.pending += 1; }
  }
  const order = topological(vertices);
  order.forEach((v, position) => { v.position = position; });
  for (const v of order) {
    for (const next of v.next) {
      if (next.position > v.position) next.rank = Math.max(next.rank, v.rank + 1);
    }
  }
  for (const v of [...order].reverse()) { // a vertex without operands is right above its first user
    const ranksBelow = v.next.filter((next) => next.position > v.position).map((next) => next.rank);
    if (!v.indegree && v.item.port !== "in" && ranksBelow.length) v.rank = Math.min(...ranksBelow) - 1;
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

// Topological order, by program order where possible; a cycle is entered at its first vertex.
function topological(vertices) {
  const order = [], ready = [], remaining = new Map(vertices.map((v) => [v, v.pending]));
  for (const v of vertices) v.indegree = v.pending;
  const add = (v) => { // a binary heap by program order
    ready.push(v);
    for (let k = ready.length - 1; k > 0;) {
      const parent = (k - 1) >> 1;
      if (ready[parent].seq <= ready[k].seq) break;
      [ready[parent], ready[k]] = [ready[k], ready[parent]];
      k = parent;
    }
  };
  const take = () => {
    const first = ready[0], last = ready.pop();
    if (ready.length) {
      ready[0] = last;
      for (let k = 0;;) {
        let least = k;
        for (const child of [2 * k + 1, 2 * k + 2]) {
          if (child < ready.length && ready[child].seq < ready[least].seq) least = child;
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
  for (const v of vertices) if (v.pending === 0) { add(v); remaining.delete(v); }
  while (order.length < vertices.length) {
    if (!ready.length) {
      while (!remaining.has(bySeq[first])) first += 1;
      add(bySeq[first]);
      remaining.delete(bySeq[first]);
    }
    const v = take();
    order.push(v);
    for (const next of v.next) {
      if (!remaining.has(next)) continue;
      const count = remaining.get(next) - 1;
      remaining.set(next, count);
      if (count === 0) { remaining.delete(next); add(next); }
    }
  }
  return order;
}

// ---- layers: a wire has a dummy vertex in every layer that it crosses

function buildLayers(vertices, wires) {
  const layers = [];
  const addToLayer = (v) => { (layers[v.rank] = layers[v.rank] || []).push(v); };
  for (const v of [...vertices].sort((a, b) => a.seq - b.seq)) addToLayer(v);
  for (const wire of wires) {
    const { source, value } = wire;
    wire.direct = wire.targets.filter((t) => t.rank <= source.rank);
    wire.links = []; // [upper, lower] in adjacent layers
    const targets = wire.targets.filter((t) => t.rank > source.rank).sort((a, b) => a.rank - b.rank);
    let above = source;
    for (const target of targets) {
      while (above.rank < target.rank - 1) {
        const dummy = { dummy: true, width: 2, height: 0, upLinks: [], downLinks: [], rank: above.rank + 1 };
        dummy.seq = source.seq;
        dummy.lane = targets[targets.length - 1].rank - source.rank > LANE;
        link(wire, above, dummy, value);
        if (dummy.lane) (wire.lane = wire.lane || []).push(dummy);
        addToLayer(dummy);
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
  // the more users a value has, the less each of them is attracted
  const weight = upper.dummy && lower.dummy ? 8 : (upper.dummy || lower.dummy ? 0.25 : 1) / wire.targets.length;
  lower.upLinks.push({ v: upper, offset: portOffset(upper, value, "outs"), ownOffset: portOffset(lower, value, "ins"), weight });
  upper.downLinks.push({ v: lower, offset: portOffset(lower, value, "ins"), ownOffset: portOffset(upper, value, "outs"), weight });
}

// Returns where a value indegree or leaves a box, relative to its centre.
function portOffset(v, value, side) {
  const ports = v.item && v.item.children && v.item[side];
  return ports && ports.has(value) ? ports.get(value).x - v.width / 2 : 0;
}

// ---- crossing reduction: median sweeps; the order with the fewest crossings is used

function orderLayers(layers) {
  const numberLayers = () => layers.forEach((layer) => layer.forEach((v, k) => { v.order = k; }));
  numberLayers();
  const vertexCount = layers.reduce((sum, layer) => sum + layer.length, 0);
  const sweeps = vertexCount > 4000 ? 8 : 16;
  let best = crossings(layers), bestLayers = layers.map((layer) => [...layer]), idle = 0;
  for (let sweep = 0; sweep < sweeps && best > 0 && idle < 4; sweep += 1) {
    const down = sweep % 2 === 0;
    const sequence = down ? layers : [...layers].reverse();
    for (const layer of sequence) {
      if (layer.length < 2) continue;
      for (const v of layer) v.median = medianOrder(v, down ? v.upLinks : v.downLinks);
      layer.sort((a, b) => a.median - b.median || a.order - b.order);
      for (let k = 0; k < layer.length; k += 1) layer[k].order = k;
    }
    const current = crossings(layers);
    idle += 1;
    if (current < best) { best = current; idle = 0; bestLayers = layers.map((layer) => [...layer]); }
  }
  bestLayers.forEach((layer, rank) => { layers[rank] = layer; });
  numberLayers();
}

const ORDERS = []; // reused, to avoid allocation

// Returns the median position of the neighbours, with the offsets of their ports.
function medianOrder(v, near) {
  const positionOf = (link) => link.v.order + (link.offset / (link.v.width + 1)) * 0.8;
  if (near.length === 0) return v.order;
  if (near.length === 1) return positionOf(near[0]);
  ORDERS.length = 0;
  for (const link of near) ORDERS.push(positionOf(link));
  ORDERS.sort((a, b) => a - b);
  const half = ORDERS.length >> 1;
  return ORDERS.length % 2 ? ORDERS[half] : (ORDERS[half - 1] + ORDERS[half]) / 2;
}

// Counts the crossings of edges between adjacent layers with an accumulator tree (Barth et al., 2002).
function crossings(layers) {
  let total = 0, tree = new Int32Array(64);
  for (const layer of layers) {
    if (layer.length < 2) continue;
    const ends = [];
    let most = 1;
    for (const v of layer) {
      const first = ends.length;
      for (const { v: n } of v.downLinks) {
        ends.push(n.order);
        if (n.order >= most) most = n.order + 1;
      }
      if (ends.length - first > 1) ends.push(...ends.splice(first).sort((a, b) => a - b));
    }
    let size = 1;
    while (size < most) size *= 2;
    if (tree.length < 2 * size) tree = new Int32Array(2 * size); else tree.fill(0, 0, 2 * size);
    for (const end of ends) { // counts the earlier edges that end further right
      let index = end + size;
      tree[index] += 1;
      while (index > 1) {
        if (index % 2 === 0) total += tree[index + 1];
        index >>= 1;
        tree[index] += 1;
      }
    }
  }
  return total;
}

// ---- x coordinates: each layer is as close to its neighbours as the widths of its boxes allow

function assignX(layers, lanes) {
  for (const layer of layers) {
    let x = 0;
    layer.forEach((v, k) => {
      if (k) x += minDistance(layer[k - 1], v);
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
        for (const links of both ? [v.upLinks, v.downLinks] : [down ? v.upLinks : v.downLinks]) {
          for (const link of links) {
            sum += link.weight * (link.v.x + link.offset - link.ownOffset);
            weight += link.weight;
          }
        }
        v.desiredX = weight ? sum / weight : v.x;
        v.weight = weight ? (v.dummy ? 4 : 1) * weight : 0.05;
      }
      moved = Math.max(moved, placeLayer(layer));
    }
    if (round % 4 === 3) {
      straighten(layers);
      shiftLanes(layers, lanes);
    } else if (both && moved < 0.5) {
      break;
    }
  }
  compactComponents(layers);
}

// Moves each connected component towards the largest one, as far as its neighbours in all layers allow.
function compactComponents(layers) {
  const components = connectedComponents(layers);
  const centre = (component) => component.reduce((sum, v) => sum + v.x, 0) / component.length;
  const largest = components.reduce((most, component) => (component.length > most.length ? component : most), []);
  const origin = centre(largest), distances = new Map(components.map((component) => [component, centre(component) - origin]));
  const others = components.filter((component) => component !== largest);
  others.sort((a, b) => Math.abs(distances.get(a)) - Math.abs(distances.get(b)));
  for (const component of others) {
    const side = distances.get(component) > 0 ? -1 : 1;
    let gap = Math.abs(distances.get(component));
    for (const v of component) {
      const next = layers[v.rank][v.order + side];
      if (!next || next.component === v.component) continue;
      gap = Math.min(gap, Math.abs(next.x - v.x) - (side < 0 ? minDistance(next, v) : minDistance(v, next)));
    }
    if (gap > 0) for (const v of component) v.x += side * gap;
  }
}

// Returns the connected components of the vertices of all layers.
function connectedComponents(layers) {
  const components = [];
  for (const first of layers.flat()) {
    if (first.component !== undefined) continue;
    const component = [first];
    first.component = components.length;
    for (const v of component) {
      for (const { v: next } of [...v.upLinks, ...v.downLinks]) {
        if (next.component !== undefined) continue;
        next.component = components.length;
        component.push(next);
      }
    }
    components.push(component);
  }
  return components;
}

// Shifts all layers below each gap together, except lanes, to minimize the lengths of wires across it.
function straighten(layers) {
  let shift = 0;
  for (const [k, layer] of layers.entries()) {
    let sum = 0, weight = 0;
    for (const v of layer) {
      if (v.lane) continue;
      for (const { v: up, offset, ownOffset, weight: w } of v.upLinks) {
        if (up.lane) continue;
        sum += w * (up.x + offset - ownOffset - (v.x + shift));
        weight += w;
      }
    }
    if (k && weight) shift += sum / weight;
    for (const v of layer) {
      v.desiredX = v.x + (v.lane ? 0 : shift);
      v.weight = v.lane ? 4 : 1;
    }
    placeLayer(layer);
  }
}

// Shifts each lane towards its users, as far as its neighbours in all layers allow.
function shiftLanes(layers, lanes) {
  const mean = ({ lane }) => lane.reduce((sum, v) => sum + v.x, 0) / lane.length;
  for (const side of [-1, 1]) {
    const sorted = [...lanes].sort((a, b) => -side * (mean(a) - mean(b)));
    for (const wire of sorted) {
      const userXs = wire.targets.map((v) => v.x).sort((a, b) => a - b);
      const distance = side * ((side < 0 ? userXs[0] : userXs[userXs.length - 1]) - mean(wire));
      let gap = distance;
      for (const v of wire.lane) {
        const beside = layers[v.rank][v.order + side];
        if (beside) gap = Math.min(gap, Math.abs(beside.x - v.x) - (side < 0 ? minDistance(beside, v) : minDistance(v, beside)));
      }
      if (gap > 1) for (const v of wire.lane) v.x += side * gap;
    }
  }
}

function minDistance(a, b) {
  const gap = a.dummy && b.dummy ? GAP.dummy : a.dummy || b.dummy ? GAP.across * 0.6 : GAP.across;
  return a.width / 2 + b.width / 2 + gap;
}

const BLOCKS = { sum: [], weight: [], first: [] }; // reused, to avoid allocation

// Moves the boxes of a layer as close as possible to their desired positions, in order and without
// overlap (isotonic regression: pools adjacent violators). Returns the largest movement.
function placeLayer(layer) {
  const { sum, weight, first } = BLOCKS;
  let offset = 0, blocks = 0, moved = 0;
  for (let k = 0; k < layer.length; k += 1) {
    const v = layer[k];
    if (k) offset += minDistance(layer[k - 1], v);
    v.offset = offset;
    sum[blocks] = v.weight * (v.desiredX - offset);
    weight[blocks] = v.weight;
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

// ---- y coordinates: layers below each other; wires bend only between layers

function assignY(container, layers, wires) {
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
  container.routes = wires.map((wire) => routeWire(wire, container));
}

function gapBelow(layer) {
  let longest = 0;
  for (const v of layer) for (const { v: n } of v.downLinks) longest = Math.max(longest, Math.abs(n.x - v.x));
  return GAP.layer + Math.min(46, longest * 0.05);
}

// Returns the segments of a wire, [x1, y1, x2, y2], curved where x changes; `ends` are its arrowheads.
function routeWire(wire, container) {
  const segments = [], ends = [];
  const exitX = (v) => v.x + portOffset(v, wire.value, "outs");
  for (const [upper, lower] of wire.links) {
    const x1 = upper.dummy ? upper.x : exitX(upper);
    const bottom = upper.dummy || upper.item.port ? upper.bottom : upper.top + (upper.item.box || upper.item.height);
    if (!upper.dummy && bottom < upper.bottom) segments.push([x1, bottom, x1, upper.bottom]);
    const entry = lower.dummy ? lower.x : entryX(lower, wire.value, x1);
    const isOut = !lower.dummy && lower.item.port === "out";
    const y2 = isOut ? container.height : lower.top;
    segments.push([x1, upper.bottom, entry, y2]);
    if (lower.dummy && lower.bottom > lower.top) segments.push([lower.x, lower.top, lower.x, lower.bottom]);
    if (!lower.dummy && !lower.item.port && !lower.item.children) ends.push([entry, lower.top]);
  }
  for (const target of wire.direct) { // back edges
    const x2 = target.x + portOffset(target, wire.value, "ins");
    segments.push([exitX(wire.source), wire.source.top + wire.source.height, x2, target.top]);
    ends.push([x2, target.top]);
  }
  return { value: wire.value, segments, ends, from: wire.source.item };
}

// Returns where a value indegree a box. Values enter side by side, in the order of their sources.
function entryX(v, value, from) {
  if (v.item.port) return v.x;
  if (v.item.children) return v.x + portOffset(v, value, "ins");
  if (v.upLinks.length < 2) return v.x;
  if (!v.entries) {
    const order = [...v.upLinks].sort((a, b) => a.v.x + a.offset - b.v.x - b.offset);
    v.entries = order.map((up) => up.v.x + up.offset);
  }
  const index = v.entries.findIndex((x) => Math.abs(x - from) < 0.01);
  const step = Math.min(22, (v.width * 0.6) / (v.upLinks.length - 1));
  return v.x + (Math.max(index, 0) - (v.upLinks.length - 1) / 2) * step;
}

// Places the functions of a module: open ones side by side, closed ones in a column after them.
function placeFunctions(root) {
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
