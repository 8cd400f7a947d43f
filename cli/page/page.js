"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const KINDS = {"matrix product": "#3b6fd8", "convolution": "#6a4fc8", "attention": "#d9822b", "fused loops": "#2a9d8f", "library": "#7b8494", "own kernel": "#c0407f", "several": "#54606f"};
const state = {part: 0, variant: 0, sizes: {}, step: -1, tab: "graph", kernel: "", filter: ""};

// Lists of variants that equal an earlier one's are its number.
for (const {explain: {variants}} of DATA.parts)
  variants.forEach(v => {
    for (const key of ["args", "labels", "kernels"]) if (typeof v[key] === "number") v[key] = variants[v[key]][key];
    for (const key of ["buffers", "demands"])
      for (const column of Object.keys(v[key] || {})) if (column !== "count" && typeof v[key][column] === "number") v[key][column] = variants[v[key][column]][key][column];
  });

// Elements and words.
const byId = id => document.getElementById(id);
function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (key === "style") e.style.cssText = value;
    else if (value !== undefined && value !== null && value !== false) e.setAttribute(key, value);
  }
  e.append(...children.flat(Infinity).filter(c => c !== undefined && c !== null).map(c => c instanceof Node ? c : String(c)));
  return e;
}
function add(parent, ...children) { parent.append(...children.flat(Infinity).filter(c => c !== undefined && c !== null)); }
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function bytes(n) {
  if (!isFinite(n)) return "?";
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (n >= size) return (n / size).toFixed(n >= 100 * size ? 0 : n >= 10 * size ? 1 : 2) + " " + unit;
  return Math.round(n) + " B";
}
function time(us) {
  if (us === undefined || us === null || !isFinite(us)) return "";
  return us >= 1e6 ? (us / 1e6).toFixed(2) + " s" : us >= 1e3 ? (us / 1e3).toFixed(2) + " ms" : us >= 100 ? us.toFixed(0) + " us" : us.toFixed(us >= 10 ? 1 : 2) + " us";
}
const count = n => n >= 1e9 ? (n / 1e9).toFixed(2) + " G" : n >= 1e6 ? (n / 1e6).toFixed(2) + " M" : n >= 1e3 ? (n / 1e3).toFixed(1) + " k" : String(Math.round(n));
const flop = n => count(n) + (n < 1e3 ? " " : "") + "FLOP";
const plural = (n, word) => n + " " + word + (n === 1 ? "" : "s");

// Sizes: numbers, or text of integers, symbols, + - *, floordiv, mod, min, max.
function evaluate(x, sizes) {
  if (typeof x === "number") return x;
  if (typeof x !== "string") return NaN;
  const words = x.match(/[A-Za-z_][\w.]*|\d+|[-+*(),]/g) || [];
  let at = 0, depth = 0;
  const calls = {floordiv: (a, b) => Math.floor(a / b), mod: (a, b) => a - b * Math.floor(a / b), min: Math.min, max: Math.max};
  function atom() {
    const w = words[at++];
    if (w === undefined || depth > 200) return NaN;
    if (w === "-") return -atom();
    if (w === "(") { depth++; const v = sum(); at++; depth--; return v; }
    if (/^\d/.test(w)) return Number(w);
    if (Object.hasOwn(calls, w) && words[at] === "(") {
      at++; depth++;
      const a = sum(); at++;
      const b = sum(); at++; depth--;
      return calls[w](a, b);
    }
    return Object.hasOwn(sizes, w) ? sizes[w] : NaN;
  }
  function product() { let v = atom(); while (words[at] === "*") { at++; v *= atom(); } return v; }
  function sum() { let v = product(); while (words[at] === "+" || words[at] === "-") v = words[at++] === "+" ? v + product() : v - product(); return v; }
  return sum();
}

// The chosen plan, with what follows from it.
let view = null;
const part = () => DATA.parts[state.part];
function benchOf(p, v, labels) {
  const b = DATA.bench, steps = b && b.profile && b.profile.steps;
  if (!Array.isArray(steps) || steps.length !== labels.length || (b.variant !== undefined && b.variant !== v.name)) return null;
  return steps.every(s => s.label === labels[s.step]) ? b : null;
}
function startSizes(p, v, bench) {
  const sizes = {}, infos = (p.about && p.about.symbols) || [];
  for (const s of infos) {
    const range = (v.ranges || {})[s.name] || s, low = range.min ?? s.min ?? 1, high = range.max ?? s.max ?? Infinity, by = range.multiple_of || 1;
    const wanted = (s.tune || []).find(t => t >= low && t <= high) ?? Math.min(high, Math.max(low, 16));
    sizes[s.name] = Math.max(low, wanted - (by > 1 ? wanted % by : 0));
  }
  for (const [name, r] of Object.entries(v.ranges || {})) if (!Object.hasOwn(sizes, name)) sizes[name] = Math.min(r.max ?? Infinity, Math.max(r.min ?? 1, 16));
  return Object.assign(sizes, timedAt(v, bench));
}
// The sizes that the times are of: measured at those, or estimated.
const timedAt = (v, bench) => (bench ? bench.sizes : v.chosen_for) || {};
const sizesText = sizes => Object.entries(sizes || {}).map(([name, n]) => `${name}=${n}`).join(", ");
function choiceOf(e, kernel, variant) {
  const of = (e.choices || []).filter(c => c.kernel === kernel);
  return of.find(c => c.variant.split("; ").includes(variant)) || of[0];
}
function makeView(keepSizes) {
  const p = part(), e = p.explain, v = e.variants[state.variant] || e.variants[0];
  const labels = v.labels || e.steps.label || [], kernels = v.kernels || e.steps.kernel || [], n = labels.length;
  const bench = benchOf(p, v, labels);
  if (!keepSizes) state.sizes = startSizes(p, v, bench);
  const timed = Object.assign({...state.sizes}, timedAt(v, bench));
  const lines = new Map();
  (e.steps.label || []).forEach((label, i) => lines.set(label, [(e.steps.lines || [])[i] || [], (e.steps.ops || [])[i] || []]));
  const own = !v.labels, toldOf = label => label.split("; ").map(l => lines.get(l) || [[], []]).reduce((a, b) => [[...new Set(a[0].concat(b[0]))], a[1].concat(b[1])], [[], []]);
  const kindOf = new Map(e.kernels.map(k => [k.name, k.kind]));
  const joined = new Map((v.joined || []).map(j => [j.label, j.why]));
  const b = v.buffers, B = b ? b.count : 0, args = v.args || [];
  const users = Array.from({length: B}, () => []);
  args.forEach((list, i) => list.forEach(x => { if (x < B && users[x][users[x].length - 1] !== i) users[x].push(i); }));
  const chosen = new Map(), times = new Map(bench ? bench.profile.steps.map(m => [m.step, m]) : []);
  const steps = labels.map((label, i) => {
    const kernel = kernels[i], told = own ? [(e.steps.lines || [])[i] || [], (e.steps.ops || [])[i] || []] : toldOf(label);
    if (!chosen.has(kernel)) chosen.set(kernel, choiceOf(e, kernel, v.name));
    const choice = chosen.get(kernel), taken = choice && choice.candidates.find(c => c.choice === choice.choice);
    const s = {i, label, kernel, kind: kindOf.get(kernel) || (joined.has(label) ? "several" : "library"), why: joined.get(label), choice, ops: told[1], lines: told[0].map(l => (e.lines || [])[l]).filter(Boolean), reads: [], writes: [], before: [], after: []};
    if (taken) s.estimate = (taken.measured_us ?? taken.predicted_us) || undefined;  // 0: the form has no model of its cost
    const d = v.demands;
    if (d && d.count === n) {
      const work = sizes => ({flops: 2 * evaluate(d.products[i] ?? 0, sizes) + evaluate(d.operations[i] ?? 0, sizes), moved: evaluate(d.read[i] ?? 0, sizes) + evaluate(d.written[i] ?? 0, sizes)});
      Object.assign(s, work(state.sizes), {in: d.in[i], timed: work(timed)});
    }
    const m = times.get(i);
    if (m) s.us = m.us, s.roofline = m.roofline, s.bound = m.bound, s.gflops = m.gflops, s.gbytes = m.gbytes;
    s.time = s.us ?? s.estimate ?? 0;
    return s;
  });
  for (let x = 0; x < B; ++x) {
    const place = b.place[x], made = !["weight", "input", "state"].includes(place);
    const writer = made ? (users[x].includes(b.begin[x]) ? b.begin[x] : users[x][0]) : -1;
    for (const i of users[x]) {
      if (i === writer) { steps[i].writes.push(x); continue; }
      steps[i].reads.push(x);
      if (writer >= 0 && writer < i) { steps[i].before.push(writer); steps[writer].after.push(i); }
    }
  }
  for (const s of steps) s.before = [...new Set(s.before)], s.after = [...new Set(s.after)];
  view = {p, e, v, steps, n, b, B, users, bench, total: steps.reduce((t, s) => t + s.time, 0), timed: sizesText(timedAt(v, bench)), measured: !!bench};
}
const size = x => evaluate(view.b.bytes[x], state.sizes);

// Head: what is shown, cards, tabs.
function drawHead() {
  const {p, e, v} = view, about = DATA.about || {}, id = about.artifact && about.artifact.id;
  byId("name").replaceChildren(DATA.title, el("small", {}, [about.version ? "aotc " + about.version : "", id ? "id " + String(id).slice(0, 16) : ""].filter(Boolean).join(" · ")));
  const choose = byId("choose");
  choose.replaceChildren();
  const select = (name, options, at, set) => el("label", {}, name, el("select", {onchange: ev => set(Number(ev.target.value))}, options.map((o, i) => el("option", {value: i, selected: i === at ? "" : null}, o))));
  const several = new Set(DATA.parts.map(q => q.method)).size > 1;
  if (DATA.parts.length > 1) add(choose, select(several ? "method" : "target", DATA.parts.map(q => (several ? q.method + " · " : "") + q.target), state.part, i => { state.part = i; state.variant = 0; state.step = -1; refresh(); }));
  else add(choose, el("span", {class: "dim"}, "for " + p.target));
  if (e.variants.length > 1) add(choose, select("variant", e.variants.map(w => w.name), state.variant, i => { state.variant = i; state.step = -1; refresh(); }));
  for (const name of Object.keys(state.sizes)) {
    const r = (v.ranges || {})[name] || {};
    add(choose, el("label", {title: `${r.min ?? "?"} to ${r.max ?? "any"}${r.multiple_of ? ", multiples of " + r.multiple_of : ""}`}, name, el("input", {type: "number", min: r.min, max: r.max, step: r.multiple_of || 1, value: state.sizes[name], onchange: ev => { const n = Number(ev.target.value); if (Number.isFinite(n) && n >= 0) { state.sizes[name] = n; refresh(true); } }})));
  }
  const card = (value, name) => el("div", {class: "card"}, el("b", {}, value), el("span", {}, name));
  const cards = [card(view.n, view.n === 1 ? "step" : "steps"), card(e.kernels.length, e.kernels.length === 1 ? "kernel" : "kernels")];
  if (view.total > 0) cards.push(card(time(view.total), (view.measured ? "all steps, measured" : "all steps, estimated") + (view.timed ? " at " + view.timed : "")));
  if (p.about && p.about.weights_bytes !== undefined) cards.push(card(bytes(p.about.weights_bytes), "weights"));
  cards.push(card(bytes(v.arena_bytes), "arena at most"), card(bytes(v.buffers_bytes), "without reuse"), card(e.variants.length, e.variants.length === 1 ? "variant" : "variants"));
  if (p.about && p.about.states && p.about.states.length) cards.push(card(p.about.states.length, "states"));
  byId("cards").replaceChildren(...cards);
  byId("tabs").replaceChildren(...Object.entries(TABS).map(([key, [name]]) => el("button", {role: "tab", "aria-selected": String(state.tab === key), onclick: () => { state.tab = key; location.hash = key; refresh(true); }}, name)));
}
function refresh(keepSizes) {
  makeView(keepSizes);
  drawHead();
  byId("tip").hidden = true;
  const main = byId("main");
  main.replaceChildren();
  if (DATA.left_out && DATA.left_out.length) add(main, el("p", {class: "note"}, "Left out for the page's size: " + DATA.left_out.join("; ") + ". aotc explain --json has all of it."));
  TABS[state.tab][1](main);
}
function tip(ev, text) {
  const t = byId("tip");
  t.hidden = !text;
  if (!text) return;
  t.textContent = text;
  t.style.left = Math.min(ev.clientX + 14, innerWidth - t.offsetWidth - 8) + "px";
  t.style.top = Math.min(ev.clientY + 14, innerHeight - t.offsetHeight - 8) + "px";
}

// A canvas as wide as its place; draw(context, width, height) at each change.
function figure(height, draw) {
  const canvas = el("canvas", {style: `height:${height}px`});
  const again = () => {
    const width = canvas.clientWidth, scale = devicePixelRatio || 1;
    if (!width) return;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const g = canvas.getContext("2d");
    g.scale(scale, scale);
    g.font = '12px system-ui, "DejaVu Sans", sans-serif';
    draw(g, width, height);
  };
  new ResizeObserver(again).observe(canvas);
  canvas.again = again;
  return canvas;
}
function clip(g, text, width) {
  if (g.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) { const mid = (low + high + 1) >> 1; if (g.measureText(text.slice(0, mid) + "…").width <= width) low = mid; else high = mid - 1; }
  return text.slice(0, low) + "…";
}

const colour = kind => KINDS[kind] || KINDS.library;
const legend = steps => [...new Set(steps.map(s => s.kind))].map(k => el("span", {}, el("i", {style: "background:" + colour(k)}), k));

// Details of a step.
function stepDetails() {
  const box = el("div", {class: "panel", id: "details"});
  const s = view.steps[state.step];
  if (!s) {
    add(box, el("h2", {}, "Steps"), el("p", {class: "note"}, "A box is a step: operators that one kernel computes. Click one for its lines, buffers and choice. Drag moves the figure, the wheel zooms."));
    const slow = [...view.steps].sort((a, b) => b.time - a.time).slice(0, 8).filter(x => x.time > 0);
    if (slow.length) add(box, el("h3", {}, "Longest" + (view.measured ? "" : " by estimate")), el("table", {}, slow.map(x => el("tr", {style: "cursor:pointer", onclick: () => pick(x.i)}, el("td", {}, x.label), el("td", {class: "number"}, time(x.time))))));
    return box;
  }
  const at = sizes => sizes && " at " + sizes;
  const rows = (...pairs) => el("dl", {}, pairs.filter(q => q[1]).map(([k, value]) => [el("dt", {}, k), el("dd", {}, value)]));
  add(box, el("h2", {}, `${s.i} · ${s.label}`), rows(["kernel", s.kernel], ["kind", s.kind], ["operators", s.ops.join(", ")], ["one step", s.why],
    ["choice", s.choice && s.choice.choice], ["chosen by", s.choice && s.choice.by], ["measured", s.us !== undefined && time(s.us) + at(view.timed)], ["estimate", s.estimate !== undefined && time(s.estimate) + at(sizesText(view.v.chosen_for))],
    ["work", s.flops > 0 ? flop(s.flops) + (s.in ? " of " + s.in : "") : ""], ["moved", s.moved > 0 ? bytes(s.moved) : ""],
    ["roofline", s.roofline !== undefined ? Math.round(100 * s.roofline) + " % of what " + s.bound + " allows" : ""]));
  if (s.lines.length) add(box, el("h3", {}, "Lines"), s.lines.map(l => el("div", {class: "code"}, l)));
  for (const [name, list] of [["Reads", s.reads], ["Writes", s.writes]])
    if (list.length) add(box, el("h3", {}, name), el("table", {}, list.slice(0, 40).map(x => el("tr", {}, el("td", {}, view.b.name[x], el("div", {class: "dim"}, [view.b.place[x], view.b.dtype[x]].filter(Boolean).join(" "))), el("td", {class: "number"}, bytes(size(x)))))));
  const step = i => el("a", {href: "#" + state.tab, onclick: ev => { ev.preventDefault(); pick(i); }}, i + " " + view.steps[i].label);
  for (const [name, list] of [["From", s.before], ["To", s.after]]) if (list.length) add(box, el("h3", {}, name), list.slice(0, 20).map(i => el("div", {}, step(i))));
  if (s.choice && s.choice.candidates.length > 1) add(box, el("h3", {}, "Chosen from"), candidates(s.choice, 6));
  return box;
}
let onPick = () => {};
function pick(i) {
  state.step = i;
  const old = byId("details");
  if (old) old.replaceWith(stepDetails());
  onPick(i);
}

// "model.py:12 y = f(x)" of "src/model.py:12 in forward: y = f(x)".
const shortLine = line => line.replace(/^.*?([^/]+:\d+) in [^:]*: ?/, "$1 ");

// Graph of steps in layers.
const BOX = {w: 232, h: 44, x: 22, y: 34};
function layout() {
  const {steps} = view, layers = [];
  for (const s of steps) s.depth = view.v.args ? s.before.reduce((d, b) => Math.max(d, steps[b].depth + 1), 0) : s.i;
  for (const s of steps) {
    if (!s.before.length && s.after.length) s.depth = Math.min(...s.after.map(a => steps[a].depth)) - 1;  // above the first that reads it
    (layers[s.depth] = layers[s.depth] || []).push(s);
  }
  for (const layer of layers) {
    for (const s of layer) s.key = s.before.length ? s.before.reduce((t, b) => t + steps[b].px, 0) / s.before.length : 1e9;
    layer.sort((a, b) => a.key - b.key || a.i - b.i);
    const width = layer.length * (BOX.w + BOX.x) - BOX.x;
    // Each as near to what it reads as its neighbours allow, the layer centred where it reads nothing.
    layer.forEach((s, k) => { s.px = s.key < 1e9 ? s.key : -width / 2 + k * (BOX.w + BOX.x) + BOX.w / 2; });
    for (let k = 1; k < layer.length; ++k) layer[k].px = Math.max(layer[k].px, layer[k - 1].px + BOX.w + BOX.x);
    const known = layer.filter(s => s.key < 1e9), shift = known.length ? known.reduce((t, s) => t + s.key - s.px, 0) / known.length : 0;
    layer.forEach(s => { s.px += shift; s.x = s.px - BOX.w / 2; s.y = s.depth * (BOX.h + BOX.y); });
  }
}
function graphTab(main) {
  layout();
  const {steps} = view, most = Math.max(...steps.map(s => s.time), 1e-9), height = Math.max(420, innerHeight - 300);
  const left = Math.min(...steps.map(s => s.x)), right = Math.max(...steps.map(s => s.x + BOX.w)), bottom = Math.max(...steps.map(s => s.y + BOX.h));
  const eye = {x: 0, y: -16, k: 1};
  const canvas = figure(height, (g, w, h) => {
    if (!eye.set) { eye.set = true; fit(w, h, false); show(steps[state.step], w); }
    g.clearRect(0, 0, w, h);
    const X = x => (x - eye.x) * eye.k, Y = y => (y - eye.y) * eye.k, seen = s => X(s.x + BOX.w) > -40 && X(s.x) < w + 40 && Y(s.y + BOX.h) > -40 && Y(s.y) < h + 40;
    const line = css("--line"), accent = css("--accent"), text = css("--text"), dim = css("--dim"), panel = css("--panel");
    for (const s of steps)
      for (const b of s.before) {
        const from = steps[b], y0 = Y(from.y + BOX.h), y1 = Y(s.y), on = s.i === state.step || b === state.step;
        if (Math.max(y0, y1) < 0 || Math.min(y0, y1) > h) continue;
        const x0 = X(from.px), x1 = X(s.px), far = s.depth - from.depth > 1;
        g.strokeStyle = on ? accent : dim; g.globalAlpha = on ? 1 : far ? 0.28 * Math.min(1, 4 / from.after.length) : 0.6; g.lineWidth = on ? 2 : 1;
        g.beginPath(); g.moveTo(x0, y0);
        const bend = far ? Math.min(BOX.w * 0.62, 40 + 14 * (s.depth - from.depth)) * eye.k * (s.px >= from.px ? 1 : -1) : 0;
        g.bezierCurveTo(x0 + bend, y0 + (y1 - y0) * 0.3, x1 + bend, y1 - (y1 - y0) * 0.3, x1, y1);
        g.stroke();
      }
    g.globalAlpha = 1;
    for (const s of steps) {
      if (!seen(s)) continue;
      const x = X(s.x), y = Y(s.y), bw = BOX.w * eye.k, bh = BOX.h * eye.k;
      g.fillStyle = panel; g.strokeStyle = s.i === state.step ? accent : line; g.lineWidth = s.i === state.step ? 2.5 : 1;
      g.beginPath(); g.roundRect(x, y, bw, bh, 5 * eye.k); g.fill(); g.stroke();
      g.fillStyle = colour(s.kind); g.fillRect(x, y + 3 * eye.k, 5 * eye.k, bh - 6 * eye.k);
      if (s.time > 0) { g.fillStyle = css("--warm"); g.fillRect(x + 10 * eye.k, y + bh - 5 * eye.k, (bw - 16 * eye.k) * s.time / most, 2.5 * eye.k); }
      if (eye.k < 0.45) continue;
      g.save(); g.translate(x, y); g.scale(eye.k, eye.k);
      g.fillStyle = text; g.font = '600 12px system-ui, "DejaVu Sans", sans-serif'; g.fillText(clip(g, s.label, BOX.w - 20), 12, 17);
      g.fillStyle = dim; g.font = '11px system-ui, "DejaVu Sans", sans-serif';
      const us = time(s.time || undefined), room = us ? g.measureText(us).width + 8 : 0;
      g.fillText(clip(g, s.lines.length ? shortLine(s.lines[0]) : s.ops.slice(0, 6).join(", "), BOX.w - 20 - room), 12, 33);
      if (us) g.fillText(us, BOX.w - 8 - g.measureText(us).width, 33);
      g.restore();
    }
  });
  function fit(w, h, all) {
    eye.k = all ? Math.min(1, (w - 40) / (right - left), (h - 40) / bottom) : Math.min(1, Math.max(0.8, (w - 40) / (right - left)));
    eye.x = (left + right) / 2 - w / 2 / eye.k; eye.y = -20 / eye.k;
    if (!all && right - left > (w - 40) / eye.k) eye.x = steps.map(s => s.px).sort((a, b) => a - b)[steps.length >> 1] - w / 2 / eye.k;
  }
  const at = ev => { const r = canvas.getBoundingClientRect(), x = (ev.clientX - r.left) / eye.k + eye.x, y = (ev.clientY - r.top) / eye.k + eye.y; return steps.find(s => x >= s.x && x <= s.x + BOX.w && y >= s.y && y <= s.y + BOX.h); };
  let drag = null;
  canvas.addEventListener("pointerdown", ev => { drag = {x: ev.clientX, y: ev.clientY, moved: false}; canvas.setPointerCapture(ev.pointerId); });
  canvas.addEventListener("pointermove", ev => {
    if (!drag) { const s = at(ev); canvas.style.cursor = s ? "pointer" : "grab"; return tip(ev, s && `${s.label}\n${s.kind}${s.lines.length ? "\n" + s.lines.slice(0, 4).join("\n") : ""}`); }
    if (Math.abs(ev.clientX - drag.x) + Math.abs(ev.clientY - drag.y) > 4) drag.moved = true;
    eye.x -= (ev.clientX - drag.x) / eye.k; eye.y -= (ev.clientY - drag.y) / eye.k; drag.x = ev.clientX; drag.y = ev.clientY;
    canvas.again();
  });
  canvas.addEventListener("pointerup", ev => { if (drag && !drag.moved) { const s = at(ev); pick(s ? s.i : -1); } drag = null; });
  canvas.addEventListener("pointerleave", ev => tip(ev));
  canvas.addEventListener("wheel", ev => {
    ev.preventDefault();
    const r = canvas.getBoundingClientRect(), px = ev.clientX - r.left, py = ev.clientY - r.top, k = Math.min(2.5, Math.max(0.03, eye.k * Math.exp(-ev.deltaY * 0.0015)));
    eye.x += px / eye.k - px / k; eye.y += py / eye.k - py / k; eye.k = k;
    canvas.again();
  }, {passive: false});
  function show(s, w) {
    if (!s) return;
    const X = (s.px - eye.x) * eye.k, Y = (s.y - eye.y) * eye.k;
    if (X < 60 || X > w - 60) eye.x = s.px - w / 2 / eye.k;
    if (Y < 20 || Y > height - 60) eye.y = s.y - height / 2 / eye.k;
  }
  onPick = i => { show(steps[i], canvas.clientWidth); canvas.again(); };
  const zoom = f => { const w = canvas.clientWidth; eye.x += w / 2 / eye.k * (1 - 1 / f); eye.y += height / 2 / eye.k * (1 - 1 / f); eye.k *= f; canvas.again(); };
  add(main, el("div", {class: "split"}, el("div", {class: "panel figure"}, el("div", {class: "legend"}, legend(steps), view.total > 0 ? el("span", {}, el("i", {style: "background:var(--warm);height:4px"}), view.measured ? "time" : "time by estimate") : null,
    el("span", {class: "right"}, el("button", {onclick: () => zoom(1.4)}, "+"), el("button", {onclick: () => zoom(1 / 1.4)}, "−"), el("button", {onclick: () => { fit(canvas.clientWidth, height, true); canvas.again(); }}, "all"))), canvas), stepDetails()));
}

// Lists that draw only the rows in sight.
// width: what the columns need at least.
function list(width, columns, heads, n, cells, onclick) {
  const H = 26, rows = el("div", {class: "rows", style: `height:${n * H}px;min-width:${width}px`}), box = el("div", {class: "list"}, el("div", {class: "row head", style: `position:sticky;min-width:${width}px;grid-template-columns:${columns}`}, heads.map(h => el("div", {class: h[1] || ""}, h[0]))), rows);
  const draw = () => {
    const first = Math.max(0, Math.floor(box.scrollTop / H) - 8), last = Math.min(n, first + Math.ceil((box.clientHeight || 800) / H) + 18);
    rows.replaceChildren(...Array.from({length: last - first}, (_, k) => { const i = first + k; return el("div", {class: "row" + (i === box.on ? " on" : ""), style: `top:${i * H}px;grid-template-columns:${columns}`, onclick: () => { box.on = i; onclick(i); draw(); }}, cells(i)); }));
  };
  box.addEventListener("scroll", draw);
  box.draw = draw;
  requestAnimationFrame(draw);
  return box;
}
function stepsTab(main) {
  const most = Math.max(...view.steps.map(s => s.time), 1e-9);
  const order = [...view.steps], host = el("div");
  let by = "i";
  const draw = () => {
    order.sort((a, b) => by === "i" ? a.i - b.i : b.time - a.time);
    host.replaceChildren(list(900, "40px minmax(130px,1fr) minmax(130px,1fr) minmax(190px,2fr) 70px 98px 76px 66px", [["#"], ["step"], ["choice"], ["line"], ["moved", "number"], ["work", "number"], [view.measured ? "measured" : "estimate", "number"], ["of all"]], order.length, i => {
      const s = order[i];
      return [s.i, s.label, s.choice ? s.choice.choice : s.why || "", s.lines.map(shortLine).join("; "), bytes(s.moved ?? NaN).replace("?", ""), s.flops > 0 ? flop(s.flops) : "", time(s.time || undefined)].map((t, c) => el("div", {class: c >= 4 ? "number" : "", title: c === 3 ? s.lines.join("\n") : t}, c === 1 ? el("i", {style: "background:" + colour(s.kind), title: s.kind}) : "", t)).concat(el("div", {}, el("div", {class: "bar" + (view.measured ? " measured" : ""), style: `width:${100 * s.time / most}%`})));
    }, i => pick(order[i].i)));
  };
  draw();
  onPick = () => {};
  add(main, el("div", {class: "split"}, el("div", {class: "panel figure"}, el("div", {class: "legend"}, plural(view.n, "step"), legend(view.steps), el("span", {class: "right"}, "order", el("button", {onclick: () => { by = "i"; draw(); }}, "as they run"), el("button", {onclick: () => { by = "time"; draw(); }}, "longest first"))), host), stepDetails()));
}

// Memory over time.
function arenaTab(main) {
  const {b, B, n} = view;
  if (!b) { add(main, el("p", {class: "note"}, "The buffers of this variant are left out.")); return; }
  const rows = [];
  for (let x = 0; x < B; ++x) if (b.place[x] === "arena") rows.push({x, at: evaluate(b.offset[x], state.sizes), bytes: size(x), begin: b.begin[x], end: b.end[x]});
  const top = Math.max(1, ...rows.map(r => (r.at + r.bytes) || 0)), live = new Float64Array(n + 1);
  for (const r of rows) if (r.bytes > 0) for (let i = Math.max(0, r.begin); i < Math.min(n, Math.max(r.end, r.begin + 1)); ++i) live[i] += r.bytes;
  const M = {l: 74, r: 14, t: 12, b: 30}, height = 460;
  let hover = null;
  const X = (i, w) => M.l + (w - M.l - M.r) * i / Math.max(n, 1), Y = y => M.t + (height - M.t - M.b) * (1 - y / top);
  const canvas = figure(height, (g, w, h) => {
    g.clearRect(0, 0, w, h);
    g.fillStyle = css("--dim"); g.strokeStyle = css("--line"); g.lineWidth = 1;
    for (let k = 0; k <= 4; ++k) { const y = Y(top * k / 4); g.beginPath(); g.moveTo(M.l, y); g.lineTo(w - M.r, y); g.stroke(); g.textAlign = "right"; g.fillText(bytes(top * k / 4), M.l - 8, y + 4); }
    g.textAlign = "center";
    const every = Math.max(1, Math.ceil(n / 10));
    for (let i = 0; i < n; i += every) g.fillText("step " + i, X(i, w), h - 10);
    for (const r of rows) {
      const x = X(r.begin, w), y = Y(r.at + r.bytes), rw = Math.max(1, X(Math.max(r.end, r.begin + 1), w) - x), rh = Math.max(1, Y(r.at) - y), maker = view.steps[r.begin];
      g.fillStyle = colour(maker && maker.kind); g.globalAlpha = r === hover ? 1 : 0.72; g.fillRect(x, y, rw - (rw > 3 ? 0.8 : 0), rh - (rh > 3 ? 0.8 : 0)); g.globalAlpha = 1;
      if (rw > 60 && rh > 15) { g.save(); g.textAlign = "left"; g.fillStyle = "#fff"; g.fillText(clip(g, b.name[r.x], rw - 10), x + 5, y + Math.min(rh - 4, rh / 2 + 4)); g.restore(); }
    }
    g.textAlign = "left"; g.strokeStyle = css("--warm"); g.lineWidth = 2; g.beginPath();
    const columns = Math.min(n, Math.max(1, Math.floor((w - M.l - M.r) / 2)));  // of several steps in a column the most
    for (let c = 0, i = 0; c < columns; ++c) {
      const from = i, end = Math.floor((c + 1) * n / columns);
      let most = 0;
      for (; i < end; ++i) most = Math.max(most, live[i]);
      g.lineTo(X(from, w), Y(most)); g.lineTo(X(end, w), Y(most));
    }
    g.stroke();
  });
  canvas.addEventListener("pointermove", ev => {
    const r0 = canvas.getBoundingClientRect(), w = canvas.clientWidth, i = (ev.clientX - r0.left - M.l) / (w - M.l - M.r) * n, y = top * (1 - (ev.clientY - r0.top - M.t) / (height - M.t - M.b));
    const found = rows.find(r => i >= r.begin && i < Math.max(r.end, r.begin + 1) && y >= r.at && y < r.at + r.bytes) || null;
    if (found !== hover) { hover = found; canvas.again(); }
    tip(ev, found && `${b.name[found.x]}${b.dtype[found.x] ? " · " + b.dtype[found.x] : ""}\n${bytes(found.bytes)} at ${count(found.at)} · steps ${found.begin} to ${found.end}${b.in_place_of[found.x] ? "\nin place of " + b.in_place_of[found.x] : ""}\nmade by ${(view.steps[found.begin] || {}).label || "?"}`);
  });
  canvas.addEventListener("pointerleave", ev => { hover = null; tip(ev); canvas.again(); });
  const peak = Math.max(0, ...live), others = {};
  for (let x = 0; x < B; ++x) if (b.place[x] !== "arena") others[b.place[x]] = (others[b.place[x]] || 0) + (size(x) || 0);
  add(main, el("div", {class: "panel figure"}, el("div", {class: "legend"}, el("span", {}, "offsets of buffers in the arena while they are alive, by what makes them:"), legend(rows.map(r => view.steps[r.begin]).filter(Boolean)), el("span", {}, el("i", {style: "background:var(--warm);height:3px"}), "bytes alive")), canvas),
    el("div", {class: "panel"}, el("p", {class: "note"}, rows.length ? `${plural(rows.length, "buffer")}; the arena takes ${bytes(top)} at these sizes, ${bytes(peak)} are alive at most (${peak > 0 ? "+" + Math.max(0, 100 * (top / peak - 1)).toFixed(1) + " %" : ""}).` : "No step hands anything on in the arena."), el("dl", {}, Object.entries(others).map(([place, n2]) => [el("dt", {}, place), el("dd", {}, bytes(n2))]))));
}
// Work of steps beside what the machine can do.
function rooflineTab(main) {
  const points = view.steps.filter(s => s.timed && s.timed.flops > 0 && s.timed.moved > 0 && s.time > 0).map(s => ({s, x: s.timed.flops / s.timed.moved, y: s.timed.flops / s.time / 1e3}));
  const peaks = view.bench && view.bench.profile.peaks;
  if (!points.length) { add(main, el("p", {class: "note"}, "No step has both a time and a count of its work.")); return; }
  const band = peaks && peaks.gbytes, rates = new Map();
  for (const [type, y] of Object.entries((peaks && peaks.gflops) || {})) if (y > 0) rates.set(y.toPrecision(3), {y, type: rates.has(y.toPrecision(3)) ? rates.get(y.toPrecision(3)).type + ", " + type : type});
  const roofs = [...rates.values()];
  const ends = (list, low, high) => [Math.floor(Math.log10(Math.min(...list, low))), Math.ceil(Math.log10(Math.max(...list, high)))];
  const [x0, x1] = ends(points.map(p => p.x), 0.1, 10), [y0, y1] = ends(points.map(p => p.y).concat(roofs.map(r => r.y)), 1, 10);
  const M = {l: 70, r: 20, t: 16, b: 44}, height = 460;
  let hover = null;
  const X = (v, w) => M.l + (w - M.l - M.r) * (Math.log10(v) - x0) / (x1 - x0), Y = v => height - M.b - (height - M.t - M.b) * (Math.log10(v) - y0) / (y1 - y0);
  const R = p => 3 + 11 * Math.sqrt(p.s.time / Math.max(view.total, 1e-9));
  const canvas = figure(height, (g, w, h) => {
    g.clearRect(0, 0, w, h);
    g.strokeStyle = css("--line"); g.fillStyle = css("--dim"); g.textAlign = "center";
    for (let k = x0; k <= x1; ++k) { g.beginPath(); g.moveTo(X(10 ** k, w), M.t); g.lineTo(X(10 ** k, w), h - M.b); g.stroke(); g.fillText(String(10 ** k), X(10 ** k, w), h - M.b + 17); }
    g.fillText("FLOP a byte moved", M.l + (w - M.l - M.r) / 2, h - 8);
    g.textAlign = "right";
    for (let k = y0; k <= y1; ++k) { g.beginPath(); g.moveTo(M.l, Y(10 ** k)); g.lineTo(w - M.r, Y(10 ** k)); g.stroke(); g.fillText(10 ** k + (k === y1 ? " GFLOP/s" : ""), k === y1 ? M.l + 66 : M.l - 7, Y(10 ** k) + (k === y1 ? -4 : 4)); }
    g.save(); g.beginPath(); g.rect(M.l, M.t, w - M.l - M.r, h - M.t - M.b); g.clip();
    g.strokeStyle = css("--accent"); g.lineWidth = 1.6; g.fillStyle = css("--accent");
    if (band > 0) { g.beginPath(); g.moveTo(X(10 ** x0, w), Y(band * 10 ** x0)); g.lineTo(X(10 ** x1, w), Y(band * 10 ** x1)); g.stroke(); }
    for (const r of roofs) { g.beginPath(); g.moveTo(X(band > 0 ? r.y / band : 10 ** x0, w), Y(r.y)); g.lineTo(w, Y(r.y)); g.stroke(); }
    for (const p of points) { g.fillStyle = colour(p.s.kind); g.globalAlpha = p === hover ? 1 : 0.7; g.beginPath(); g.arc(X(p.x, w), Y(p.y), R(p), 0, 7); g.fill(); }
    g.globalAlpha = 1; g.fillStyle = css("--accent"); g.strokeStyle = css("--panel"); g.lineWidth = 4; g.lineJoin = "round";
    for (const r of roofs) for (const draw of ["strokeText", "fillText"]) g[draw](r.type, w - M.r - 6, Y(r.y) - 5);
    g.restore();
  });
  const nearest = ev => { const r = canvas.getBoundingClientRect(), w = canvas.clientWidth; let best = null, d = 24; for (const p of points) { const e = Math.hypot(X(p.x, w) - (ev.clientX - r.left), Y(p.y) - (ev.clientY - r.top)); if (e < d) d = e, best = p; } return best; };
  canvas.addEventListener("pointermove", ev => { const p = nearest(ev); if (p !== hover) { hover = p; canvas.again(); } tip(ev, p && `${p.s.label}\n${time(p.s.time)} · ${p.y.toFixed(1)} GFLOP/s · ${(p.s.timed.moved / p.s.time / 1e3).toFixed(1)} GB/s${p.s.roofline !== undefined ? `\n${Math.round(100 * p.s.roofline)} % of what ${p.s.bound} allows` : ""}`); });
  canvas.addEventListener("pointerleave", ev => tip(ev));
  canvas.addEventListener("pointerup", ev => { const p = nearest(ev); if (p) pick(p.s.i); });
  onPick = () => {};
  add(main, el("div", {class: "split"}, el("div", {class: "panel figure"}, el("div", {class: "legend"}, legend(points.map(p => p.s)), el("span", {class: "right"}, view.measured ? "measured" + (view.timed && " at " + view.timed) + (peaks && peaks.text ? "; lines: " + peaks.text : "") : "times by estimate" + (view.timed && " at " + view.timed) + "; explain --html --bench bench.json shows measured ones and the machine's limits")), canvas), stepDetails()));
}

// How kernels are computed.
function candidates(c, most) {
  const times = c.candidates.flatMap(x => [x.predicted_us, x.measured_us]).filter(t => t > 0), top = Math.max(...times, 1e-9), shown = c.candidates.slice(0, most);
  const taken = c.candidates.find(x => x.choice === c.choice);
  if (taken && !shown.includes(taken)) shown.push(taken);
  const bar = (t, kind) => t > 0 ? el("div", {class: "bar " + kind, style: `width:${100 * t / top}%`, title: time(t)}) : null;
  return el("table", {}, el("tr", {}, el("th", {}, "candidate"), el("th", {class: "number"}, "predicted"), el("th", {class: "number"}, "measured"), most > 6 ? el("th", {style: "width:28%"}, "") : null),
    shown.map(x => el("tr", {class: x === taken ? "taken" : ""}, el("td", {class: "mono"}, x.choice), el("td", {class: "number"}, time(x.predicted_us || undefined)), el("td", {class: "number"}, time(x.measured_us)), most > 6 ? el("td", {}, bar(x.predicted_us, ""), bar(x.measured_us, "measured")) : null)));
}
function choicesTab(main) {
  const all = view.e.choices || [], host = el("div"), right = el("div", {class: "panel", style: "max-height:80vh;overflow:auto"});
  const calls = new Map(view.e.kernels.map(k => [k.name, k]));
  const timesAt = c => { const v = view.e.variants.find(w => c.variant.split("; ").includes(w.name)), sizes = sizesText(v && v.chosen_for); return sizes && ": times at " + sizes; };
  const show = c => {
    if (!c) return right.replaceChildren(el("p", {class: "note"}, "No kernel was chosen among several forms."));
    const k = calls.get(c.kernel);
    right.replaceChildren(el("h2", {}, c.kernel), el("dl", {}, [["choice", c.choice], ["chosen by", c.by], ["variant", c.variant], ["kind", k && `${k.kind}, ${plural(k.calls, "call")}`], ["operators", k && k.ops.slice(0, 40).join(", ")], ["contract", c.contract]].filter(r => r[1]).map(([a, b]) => [el("dt", {}, a), el("dd", {}, b)])));
    if (c.candidates.length) add(right, el("h3", {}, "Candidates" + timesAt(c)), candidates(c, 40), c.others > 0 ? el("p", {class: "note"}, `and ${c.others} more`) : "");
    if (c.refused.length) add(right, el("h3", {}, "Refused"), el("table", {}, c.refused.map(r => el("tr", {}, el("td", {class: "mono"}, r.choice), el("td", {}, r.why)))), c.others_refused > 0 ? el("p", {class: "note"}, `and ${c.others_refused} more`) : "");
  };
  const draw = () => {
    const some = all.filter(c => (c.kernel + " " + c.choice).toLowerCase().includes(state.filter.toLowerCase()));
    host.replaceChildren(list(400, "minmax(120px,1fr) minmax(120px,1fr) 110px", [["kernel"], ["choice"], ["by"]], some.length, i => [some[i].kernel, some[i].choice, some[i].by].map(t => el("div", {title: t}, t)), i => show(some[i])));
    show(some.find(c => c.candidates.length > 1) || some[0]);
  };
  draw();
  add(main, el("div", {class: "split halves"}, el("div", {class: "panel figure"}, el("div", {class: "legend"}, plural(all.length, "choice"), el("span", {class: "right"}, el("input", {placeholder: "filter", value: state.filter, oninput: ev => { state.filter = ev.target.value; draw(); }}))), host), right));
  // What max-autotune tried: a row each, of names, times and reasons.
  const {trades, alternatives, comparison} = view.e;
  const tried = (name, note, heads, rows) => add(main, el("div", {class: "panel"}, el("h2", {}, name), el("p", {class: "note"}, note), el("div", {style: "max-height:300px;overflow:auto"}, el("table", {}, el("tr", {}, heads.map(h => el("th", {}, h))), rows.map(r => el("tr", {class: r[0] ? "taken" : ""}, r.slice(1).map(x => el("td", {}, x))))))));
  const complete = x => x.complete ? "" : " The time ran out.";
  if (comparison) tried("Beside mode default", `Kept: ${comparison.kept || "nothing"}${comparison.taken_back ? "; taken back: " + comparison.taken_back : ""}.${complete(comparison)}`, ["with", "time", "of mode default", "ratio in turns"], comparison.tried.map(s => [s.kept === comparison.kept, s.kept || "nothing", time(s.us), time(s.default_us), s.ratio > 0 ? s.ratio.toFixed(3) : "did not run"]));
  if (alternatives) tried("Alternatives of the whole program", "Timed as whole artifacts, in turns." + complete(alternatives), ["alternative", "time", "without", "why"], alternatives.tried.map(s => [s.taken, s.name, time(s.us), time(s.own_us), s.why]));
  if (trades) tried("Accuracy for time", trades.error > 0 ? `Error of the outputs against float64 ${trades.error.toPrecision(3)}, of ${trades.bound.toPrecision(3)} that is allowed.` : "None was taken.", ["contract", "choice", "time", "instead of", "error", "why"], trades.steps.map(s => [s.taken, s.contract, s.choice, time(s.us), time(s.accurate_us), s.error > 0 ? s.error.toPrecision(2) : "", s.why]));
  const notes = view.e.not_fused || [], prologues = view.e.prologues || [];
  for (const [name, rows] of [["Operands that contractions compute", prologues], ["Values with a buffer of their own, and why they were not fused", notes]])
    if (rows.length) add(main, el("div", {class: "panel"}, el("h2", {}, name), el("div", {style: "max-height:300px;overflow:auto"}, el("table", {}, rows.slice(0, 400).map(r => el("tr", {}, el("td", {style: "width:34%"}, r.value), el("td", {}, r.why)))))));
}

function variantsTab(main) {
  const {e} = view, rangeText = r => `${r.min} to ${r.max ?? "any"}${r.multiple_of ? ", multiples of " + r.multiple_of : ""}`;
  const names = [...new Set(e.variants.flatMap(v => Object.keys(v.ranges || {})))];
  const top = Math.max(...e.variants.map(v => v.arena_bytes), 1);
  add(main, el("div", {class: "panel"}, el("h2", {}, "Plans, tried in this order"), el("table", {}, el("tr", {}, el("th", {}, "variant"), names.map(n => el("th", {}, n)), el("th", {class: "number"}, "steps"), el("th", {class: "number"}, "arena at most"), el("th", {class: "number"}, "alive"), el("th", {style: "width:20%"}, "")),
    e.variants.map((v, i) => el("tr", {class: i === state.variant ? "taken" : "", style: "cursor:pointer", onclick: () => { state.variant = i; state.step = -1; refresh(); }}, el("td", {}, v.name), names.map(n => el("td", {}, v.ranges[n] ? rangeText(v.ranges[n]) : "")), el("td", {class: "number"}, v.steps), el("td", {class: "number"}, bytes(v.arena_bytes)), el("td", {class: "number"}, bytes(v.live_bytes)), el("td", {}, el("div", {class: "bar", style: `width:${100 * v.arena_bytes / top}%`})))))));
  for (const name of names) {
    const cuts = e.variants.map((v, i) => ({i, r: v.ranges[name]})).filter(c => c.r);
    if (cuts.every(c => c.r.min === cuts[0].r.min && c.r.max === cuts[0].r.max)) continue;
    const low = Math.max(1, Math.min(...cuts.map(c => c.r.min))), high = Math.max(low * 2, ...cuts.map(c => (c.r.max ?? c.r.min * 4) + 1)), H = 26 * cuts.length + 30;
    add(main, el("div", {class: "panel figure"}, el("div", {class: "legend"}, "thresholds of " + name), figure(H, (g, w) => {
      const X = v => 20 + (w - 40) * Math.log(Math.max(v, 1) / low) / Math.log(high / low);
      g.clearRect(0, 0, w, H);
      cuts.forEach((c, k) => {
        const a = X(c.r.min), b = Math.max(a + 3, X(c.r.max === undefined ? high : c.r.max + 1) - 1);
        g.fillStyle = c.i === state.variant ? css("--accent") : css("--dim"); g.globalAlpha = 0.8; g.fillRect(a, 8 + 26 * k, b - a, 18); g.globalAlpha = 1;
        g.fillStyle = b - a > 130 ? css("--panel") : css("--text"); g.fillText(clip(g, e.variants[c.i].name, b - a > 130 ? b - a - 10 : w - b - 20), b - a > 130 ? a + 6 : b + 6, 21 + 26 * k);
      });
      g.fillStyle = css("--dim");
      const last = String(high - 1), end = w - 20 - g.measureText(last).width;
      let free = 0;
      g.fillText(last, end, H - 6);
      for (const at of [...new Set(cuts.map(c => c.r.min))].sort((a, b) => a - b)) {
        const x = X(at), room = g.measureText(String(at)).width + 8;
        if (x >= free && x + room <= end) g.fillText(String(at), x, H - 6), free = x + room;
      }
    })));
  }
  const lists = [["Guards: sizes that are refused otherwise", e.guards], ["Conditions on data", e.checks], ["Sizes that a run finds in its data", (e.found || []).map(f => `${f.output}, dim ${f.dim}: ${f.size}, at most ${f.at_most}`)], ["Operators without a rule of their own, taken apart", (e.expanded || []).map(x => `${x.operator} (${x.node}): ${x.into.join(", ")}`)]];
  for (const [name, rows] of lists) if (rows && rows.length) add(main, el("div", {class: "panel"}, el("h2", {}, name), rows.map(r => el("div", {class: "code"}, r))));
  const about = view.p.about || {};
  for (const kind of ["inputs", "outputs", "states"]) if (about[kind] && about[kind].length) add(main, el("div", {class: "panel"}, el("h2", {}, kind[0].toUpperCase() + kind.slice(1)), el("table", {}, about[kind].slice(0, 300).map(t => el("tr", {}, el("td", {style: "width:40%"}, t.name), el("td", {class: "dim"}, `${t.dtype} [${(t.shape || []).join(", ")}]`))))));
}

function weightsTab(main) {
  const {b, B, p, e} = view, stored = e.stored_weights, rows = [];
  if (b) for (let x = 0; x < B; ++x) if (b.place[x] === "weight") rows.push({name: b.name[x], bytes: size(x) || 0, dtype: b.dtype[x] || "?", users: view.users[x]});
  const few = new Map(((stored && stored.weights) || []).map(w => [w.name, w]));
  for (const r of rows) if (few.has(r.name)) r.dtype = stored.as;
  rows.sort((a, c) => c.bytes - a.bytes);
  const sums = {};
  for (const r of rows) sums[r.dtype] = (sums[r.dtype] || 0) + r.bytes;
  const total = rows.reduce((t, r) => t + r.bytes, 0), colours = ["#3b6fd8", "#2a9d8f", "#d9822b", "#6a4fc8", "#c0407f", "#7b8494"];
  const kinds = Object.entries(sums).sort((a, c) => c[1] - a[1]);
  add(main, el("div", {class: "panel"}, el("h2", {}, `Weights that the steps read: ${bytes(total)}` + (p.about && p.about.weights_bytes !== undefined ? ` of ${bytes(p.about.weights_bytes)} stored` : "")),
    el("div", {class: "stack"}, kinds.map(([d, n], i) => el("div", {style: `flex:${n};background:${colours[i % 6]}`, title: `${d} ${bytes(n)}`}))), el("div", {class: "legend", style: "border:0;padding:0"}, kinds.map(([d, n], i) => el("span", {}, el("i", {style: `background:${colours[i % 6]}`}), `${d}: ${bytes(n)}`)))));
  if (stored) add(main, el("div", {class: "panel"}, el("h2", {}, `Stored as ${stored.as}: ${bytes(stored.bytes)} instead of ${bytes(stored.bytes_before)}`), el("p", {class: "note"}, `rounding changed them by ${Number(stored.error).toPrecision(2)} (relative L2)`), el("div", {style: "max-height:340px;overflow:auto"}, el("table", {}, el("tr", {}, el("th", {}, "weight"), el("th", {class: "number"}, "bytes"), el("th", {class: "number"}, "error")), stored.weights.map(w => el("tr", {}, el("td", {}, w.name), el("td", {class: "number"}, bytes(w.bytes)), el("td", {class: "number"}, Number(w.error).toPrecision(2)))), stored.left.map(w => el("tr", {}, el("td", {}, w.name), el("td", {class: "dim", colspan: 2}, "as it is: " + w.why)))))));
  if (e.precision) add(main, el("div", {class: "panel"}, el("h2", {}, `Products in ${e.precision.mode}`), el("div", {style: "max-height:340px;overflow:auto"}, el("table", {}, el("tr", {}, ["product", "multiplies", "float32", "bf16", "why"].map(h => el("th", {}, h))), e.precision.steps.map(s => el("tr", {}, el("td", {}, s.name, s.source ? el("div", {class: "dim"}, s.source) : ""), el("td", {}, s.precision), el("td", {class: "number"}, time(s.f32_us)), el("td", {class: "number"}, time(s.bf16_us)), el("td", {}, s.why || "")))))));
  if (rows.length) add(main, el("div", {class: "panel figure"}, list(640, "minmax(180px,2fr) 120px 110px minmax(120px,1fr)", [["weight"], ["type"], ["bytes", "number"], ["read by"]], rows.length, i => [rows[i].name, rows[i].dtype, bytes(rows[i].bytes), rows[i].users.slice(0, 3).map(u => view.steps[u].label).join(", ") + (rows[i].users.length > 3 ? ", ..." : "")].map((t, c) => el("div", {class: c === 2 ? "number" : "", title: t}, t)), i => { const u = rows[i].users[0]; if (u !== undefined) { state.step = u; state.tab = "graph"; refresh(true); onPick(u); } })));
}

const TABS = {graph: ["Graph", graphTab], steps: ["Steps", stepsTab], arena: ["Arena", arenaTab], roofline: ["Roofline", rooflineTab], choices: ["Choices", choicesTab], variants: ["Variants", variantsTab], weights: ["Weights", weightsTab]};
// The plan whose times were measured.
function measuredFirst() {
  DATA.parts.forEach((p, i) => p.explain.variants.forEach((v, k) => { if (DATA.bench && benchOf(p, v, v.labels || p.explain.steps.label || [])) state.part = i, state.variant = k; }));
}
function fromHash() {
  const [tab, partAt, step] = location.hash.slice(1).split(",");
  if (Object.hasOwn(TABS, tab)) state.tab = tab;
  measuredFirst();
  const wanted = partAt === undefined ? state.part : Number(partAt);
  if (wanted !== state.part && DATA.parts[wanted]) state.part = wanted, state.variant = 0;
  refresh();
  if (step !== undefined && view.steps[Number(step)]) pick(Number(step));
}
addEventListener("hashchange", () => { const tab = location.hash.slice(1).split(",")[0]; if (Object.hasOwn(TABS, tab) && tab !== state.tab) { state.tab = tab; refresh(true); } });
fromHash();
