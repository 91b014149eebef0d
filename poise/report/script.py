"""The script of the HTML report: it shows values under the pointer; the page works without it."""

# A chart carries its scales in data-x and data-y, so values are computed from the drawn points; a point with data-said
# carries its own text. A map's values are read back from its picture (see `png`), one byte per value.
SCRIPT = """
(() => {
  const tip = document.getElementById("tip"), units = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  const short = v => Math.abs(v) >= 1000 ? Math.round(v).toLocaleString("en") : String(+v.toPrecision(3));
  const write = (v, kind) => {
    if (kind === "share") return (v > 0.99 && v < 1 ? String(+(100 * v).toPrecision(4)) : short(100 * v)) + " %";
    if (kind === "dollars") return "$" + short(v);
    if (kind !== "seconds") return short(Math.abs(v) < 1e-9 ? 0 : v);
    const unit = units.find(u => Math.abs(v) >= u[0] * 0.9995) || units[3];
    return short(v / unit[0]) + " " + unit[1];
  };
  const show = (text, event) => {
    tip.textContent = text;
    tip.hidden = false;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    tip.style.left = Math.max(left, 8) + "px";
    const above = event.clientY - tip.offsetHeight - 12;
    tip.style.top = (above < 8 ? event.clientY + 18 : above) + "px";
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
  };
  document.addEventListener("pointerdown", event => { if (!event.target.closest("svg")) forget(); });
  for (const svg of document.querySelectorAll("svg.bars")) {
    follow(svg, event => {
      const said = event.target.dataset.said;
      if (!said) return forget();
      forget = () => { tip.hidden = true; };
      show(said, event);
    });
  }

  const scale = text => {
    const [low, high, start, end, log, kind] = text.split(",").map((part, at) => at < 5 ? +part : part);
    return p => {
      const share = (p - start) / (end - start);
      return write(log ? low * Math.pow(high / low, share) : low + share * (high - low), kind);
    };
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
    const all = [];
    for (const dot of svg.querySelectorAll("[data-said]")) {
      all.push([+dot.getAttribute("cx"), +dot.getAttribute("cy"), "", dot.dataset.said]);
    }
    if (all.length) return all;
    for (const line of svg.querySelectorAll("path.l")) {
      const name = line.closest("[data-name]").dataset.name;
      walk(line.getAttribute("d"), (x, y) => all.push([x, y, name, ""]));
    }
    return all;
  };
  for (const svg of document.querySelectorAll("svg.chart")) {
    const x = svg.dataset.x && scale(svg.dataset.x), y = svg.dataset.y && scale(svg.dataset.y);
    let points = null;
    const dot = document.createElementNS(svg.namespaceURI, "circle");
    dot.setAttribute("class", "pick");
    dot.setAttribute("r", 4);
    follow(svg, event => {
      points = points || read(svg);
      const [px, py] = spot(svg, event);
      let best = null, least = 60 * 60;
      for (const point of points) {
        const far = (point[0] - px) ** 2 + (point[1] - py) ** 2;
        if (far < least) { least = far; best = point; }
      }
      if (!best) return forget();
      const same = points.filter(point => Math.hypot(point[0] - best[0], point[1] - best[1]) < 2);
      dot.setAttribute("cx", best[0]);
      dot.setAttribute("cy", best[1]);
      svg.append(dot);
      forget = () => { tip.hidden = true; dot.remove(); };
      const names = [...new Set(same.map(point => point[2]))].join(", ");
      const said = () => svg.dataset.read.replace("{x}", x(best[0])).replace("{y}", y(best[1]));
      show(best[3] ? same.map(point => point[3]).join("\\n") : names + "\\n" + said(), event);
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
  for (const svg of document.querySelectorAll("svg.heat")) {
    const [start, end, top, levels, kind] = svg.dataset.heat.split(",").map((part, at) => at < 4 ? +part : part);
    const replicas = svg.dataset.replicas.split(" "), image = svg.querySelector("image");
    const names = (svg.closest("[data-names]")?.dataset.names || "").split("|");
    let held = null;
    follow(svg, async event => {
      held = held || pixels(image.getAttribute("href"));
      const picture = await held, [px, py] = spot(svg, event);
      const side = name => +image.getAttribute(name);
      const column = Math.floor((px - side("x")) / side("width") * picture.wide);
      const row = Math.floor((py - side("y")) / side("height") * picture.high);
      if (column < 0 || row < 0 || column >= picture.wide || row >= picture.high) return forget();
      const level = picture.rows[row * (picture.wide + 1) + 1 + column], step = (end - start) / picture.wide;
      const value = level > levels ? "not up" : write(level / levels * top, kind);
      const name = names[replicas[row]] || "replica " + replicas[row];
      forget = () => { tip.hidden = true; };
      const from = start + column * step;
      show(`${name}\\n${value} at ${write(from, "")} s`, event);
    });
  }
})();
"""
