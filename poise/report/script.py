"""The script of the pages: values under the pointer, one cross-hair over charts of one axis, copies, sorting, theme.

Pages work without it; what needs it (buttons, search fields) is made by it.
"""

from poise.report.controls import CONTROLS

# A chart carries its scales in data-x and data-y, so values are computed from the drawn points; a dot with data-v
# carries its values, one with data-text its own text. A map's values are read back from its picture (see `png`), one
# byte per value.
_CHARTS = """
  const tip = document.getElementById("tip"), units = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  const short = v => Math.abs(v) >= 1000 ? Math.round(v).toLocaleString("en") : String(+v.toPrecision(3));
  const write = (v, kind) => {
    if (kind === "share") return (v > 0.99 && v < 1 ? String(+(100 * v).toPrecision(4)) : short(100 * v)) + " %";
    if (kind === "dollars") return "$" + short(v);
    if (kind !== "seconds") return short(Math.abs(v) < 1e-9 ? 0 : v);
    const unit = units.find(u => Math.abs(v) >= u[0] * 0.9995) || units[3];
    return short(v / unit[0]) + " " + unit[1];
  };
  const show = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    tip.style.left = Math.max(Math.min(x + 14, innerWidth - tip.offsetWidth - 8), 8) + "px";
    const above = y - tip.offsetHeight - 12;
    tip.style.top = (above < 8 ? y + 18 : above) + "px";
  };
  const spot = (svg, event) => {
    const box = svg.getBoundingClientRect(), size = svg.viewBox.baseVal;
    return [(event.clientX - box.left) * size.width / box.width, (event.clientY - box.top) * size.height / box.height];
  };
  let forget = () => {};
  const follow = (svg, move) => {
    const act = event => { if (event.type === "pointerdown") forget(); move(event); };
    svg.addEventListener("pointermove", act);
    svg.addEventListener("pointerdown", act);
    svg.addEventListener("pointerleave", event => { if (event.pointerType !== "touch") forget(); });
    svg.addEventListener("blur", () => forget());
  };
  document.addEventListener("pointerdown", event => { if (!event.target.closest("svg")) forget(); });
  document.addEventListener("keydown", event => { if (event.key === "Escape") forget(); });
  for (const svg of document.querySelectorAll("svg.bars, svg.lanes")) {
    follow(svg, event => {
      const text = event.target.dataset.text;
      if (!text) return forget();
      forget = () => { tip.hidden = true; };
      show(text, event.clientX, event.clientY);
    });
  }

  const scale = text => {
    const [low, high, start, end, log, kind] = text.split(",").map((part, at) => at < 5 ? +part : part);
    const at = p => {
      const share = (p - start) / (end - start);
      return log ? low * Math.pow(high / low, share) : low + share * (high - low);
    };
    const part = v => log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low);
    const place = v => start + (end - start) * part(v);
    return {at, place, kind, start, end, write: v => write(v, kind)};
  };
  const walk = (path, put) => {
    let x = 0, y = 0;
    for (const [, letter, rest] of path.matchAll(/([Mlhv])([^Mlhv]*)/g)) {
      const [a, b] = rest.trim().split(" ").map(Number);
      if (letter === "M") { x = a; y = b; }
      if (letter === "l") { x += a; y += b; }
      if (letter === "h") x += a;
      if (letter === "v") y += a;
      if (letter !== "h") put(x / 10, y / 10);
    }
    put(x / 10, y / 10);
  };
  const read = svg => {
    if (svg.points) return svg.points;
    const x = svg.dataset.x && scale(svg.dataset.x), y = svg.dataset.y && scale(svg.dataset.y), all = [];
    const add = (px, py, name, text, v) => all.push({px, py, name, text, v: v || (x && [x.at(px), y.at(py)])});
    for (const dot of svg.querySelectorAll("circle[data-text], circle[data-v]")) {
      const name = dot.closest("[data-name]")?.dataset.name || "", v = dot.dataset.v?.split(",").map(Number);
      add(+dot.getAttribute("cx"), +dot.getAttribute("cy"), name, dot.dataset.text || "", v);
    }
    for (const line of all.length ? [] : svg.querySelectorAll("[data-name]:not(.off) path.l")) {
      walk(line.getAttribute("d"), (px, py) => add(px, py, line.closest("[data-name]").dataset.name, ""));
    }
    return svg.points = all;
  };
  const made = (svg, tag, given) => {
    const node = document.createElementNS(svg.namespaceURI, tag);
    for (const name in given) node.setAttribute(name, given[name]);
    return node;
  };
  const charts = [...document.querySelectorAll("svg.chart")]
    .filter(svg => svg.dataset.read || svg.querySelector("[data-text]"));
  const there = (svg, value) => {
    const x = scale(svg.dataset.x), y = scale(svg.dataset.y), px = x.place(value), found = new Map();
    for (const point of read(svg)) {
      const old = found.get(point.name), far = Math.abs(point.px - px);
      const holds = "steps" in svg.dataset ? point.px <= px + 0.5 && (!old || point.px >= old.px) : far < 4;
      if (holds) found.set(point.name, point);
    }
    return [px, [...found.values()].map(point => `${point.name} ${y.write(point.v[1])}`)];
  };
  const cross = (svg, value) => {
    const [px, words] = there(svg, value), y = scale(svg.dataset.y), x = scale(svg.dataset.x);
    if (px < x.start - 1 || px > x.end + 1) return () => {};
    const line = made(svg, "line", {class: "cross", x1: px, x2: px, y1: y.start, y2: y.end});
    const output = svg.closest("figure")?.querySelector("output");
    svg.append(line);
    if (output) output.textContent = `${x.write(value)}: ${words.join(", ") || "–"}`;
    return () => { line.remove(); if (output) output.textContent = ""; };
  };
  const point = (svg, best, x, y) => {
    forget();
    const dot = made(svg, "circle", {class: "pick", r: 4, cx: best.px, cy: best.py});
    const mates = svg.dataset.group
      ? charts.filter(other => other.dataset.group === svg.dataset.group && other.clientWidth) : [];
    const lines = mates.map(other => cross(other, best.v[0]));
    svg.append(dot);
    forget = () => { tip.hidden = true; dot.remove(); lines.forEach(undo => undo()); forget = () => {}; };
    const same = read(svg).filter(other => Math.hypot(other.px - best.px, other.py - best.py) < 2);
    const names = [...new Set(same.map(other => other.name))].join(", ");
    const value = () => svg.dataset.read.replace("{x}", scale(svg.dataset.x).write(best.v[0]))
      .replace("{y}", scale(svg.dataset.y).write(best.v[1]));
    show(best.text ? same.map(other => other.text).join("\\n") : names + "\\n" + value(), x, y);
  };
  for (const svg of charts) {
    for (const name of svg.dataset.group ? [0] : []) svg.after(document.createElement("output"));
    svg.tabIndex = 0;
    follow(svg, event => {
      const [px, py] = spot(svg, event);
      let best = null, least = 60 * 60;
      for (const each of read(svg)) {
        const far = (each.px - px) ** 2 + (each.py - py) ** 2;
        if (far < least) { least = far; best = each; }
      }
      if (!best) return forget();
      point(svg, best, event.clientX, event.clientY);
    });
    svg.addEventListener("keydown", event => {
      const step = {ArrowRight: 1, ArrowLeft: -1}[event.key], all = [...read(svg)].sort((a, b) => a.px - b.px);
      if (!step || !all.length) return;
      event.preventDefault();
      svg.at = Math.max(0, Math.min(all.length - 1, svg.at === undefined ? 0 : svg.at + step));
      const best = all[svg.at], box = svg.getBoundingClientRect(), share = box.width / svg.viewBox.baseVal.width;
      point(svg, best, box.left + best.px * share, box.top + best.py * share);
    });
  }

  const pixels = async href => {
    const bytes = Uint8Array.from(atob(href.split(",")[1]), letter => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer), wide = view.getUint32(16), high = view.getUint32(20);
    let at = 8;
    while (String.fromCharCode(...bytes.subarray(at + 4, at + 8)) !== "IDAT") at += 12 + view.getUint32(at);
    const packed = new Blob([bytes.subarray(at + 8, at + 8 + view.getUint32(at))]).stream();
    const flat = await new Response(packed.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
    return {wide, high, rows: new Uint8Array(flat)};
  };
  const heat = svg => {
    const [start, end, top, levels, kind] = svg.dataset.heat.split(",").map((part, at) => at < 4 ? +part : part);
    const names = (svg.closest("[data-names]")?.dataset.names || "").split("|");
    const replicas = svg.dataset.replicas.split(" ");
    const value = async (row, column) => {
      const picture = await (svg.held = svg.held || pixels(svg.querySelector("image").getAttribute("href")));
      const level = picture.rows[row * (picture.wide + 1) + 1 + column];
      return [picture, level > levels ? NaN : level / levels * top];
    };
    return {start, end, kind, value, name: row => names[replicas[row]] || "replica " + replicas[row]};
  };
  for (const svg of document.querySelectorAll("svg.heat")) {
    const map = heat(svg), image = svg.querySelector("image"), side = name => +image.getAttribute(name);
    follow(svg, async event => {
      const [{wide, high}] = await map.value(0, 0), [px, py] = spot(svg, event);
      const column = Math.floor((px - side("x")) / side("width") * wide);
      const row = Math.floor((py - side("y")) / side("height") * high);
      if (column < 0 || row < 0 || column >= wide || row >= high) return forget();
      const [, value] = await map.value(row, column), from = map.start + column * (map.end - map.start) / wide;
      forget = () => { tip.hidden = true; };
      const text = `${isNaN(value) ? "not up" : write(value, map.kind)} at ${write(from, "")} s`;
      show(`${map.name(row)}\\n${text}`, event.clientX, event.clientY);
    });
  }
"""

SCRIPT = f"\n(() => {{{_CHARTS}{CONTROLS}}})();\n"
"""The whole script."""
