"""The fixed parts of the HTML report: its style sheet and the script that shows values under the pointer."""

# Colours: Okabe and Ito, "Color Universal Design" (2008), darkened or lightened until lines stand out from the ground.
STYLE = """
:root{color-scheme:light dark;--ground:#fff;--ink:#1c1f23;--soft:#5b636d;--rule:#dde1e6;--panel:#f6f7f9;
--c0:#0072b2;--c1:#d55e00;--c2:#008a65;--c3:#b5538c;--c4:#b07c00;--c5:#2b9bd6;--c6:#1c1f23;--c7:#7b6cc4}
@media (prefers-color-scheme:dark){:root{--ground:#14171a;--ink:#e6e9ec;--soft:#9aa4ae;--rule:#30363d;--panel:#1c2126;
--c0:#4aa8e8;--c1:#f07d33;--c2:#2fc79b;--c3:#e08abb;--c4:#e6b32e;--c5:#9ad4f5;--c6:#e6e9ec;--c7:#a99cf0}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1400px;margin:0 auto;padding:20px 24px 48px}
h1{font-size:1.6rem;line-height:1.25;margin:.2em 0 .4em}
h2{font-size:1.15rem;margin:2em 0 .5em}
p{margin:.3em 0;overflow-wrap:anywhere;max-width:80ch}
.belief{color:var(--soft);max-width:none}
.soft,.none{color:var(--soft);font-size:.9em}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:2px 14px;margin:.6em 0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
details{margin:.6em 0}summary{cursor:pointer;padding:4px 0;font-weight:600}
.scroll{overflow-x:auto;border:1px solid var(--rule);border-radius:6px}
table{border-collapse:separate;border-spacing:0;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:6px 8px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
th{background:var(--panel);font-weight:600;font-size:.88em}
thead th{white-space:normal;vertical-align:bottom;min-width:5.2em}
th.n,td.n{position:sticky;left:0;background:var(--ground)}
th.n{background:var(--panel)}
tr:last-child td{border-bottom:0}
th.n,td.n{text-align:left}
td small{display:block;color:var(--soft);font-size:.78em}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr));gap:16px}
figure{margin:0;padding:10px 12px;background:var(--panel);border:1px solid var(--rule);border-radius:6px;min-width:0}
figcaption{font-weight:600;margin-bottom:4px}
.chart{display:block;width:100%;height:auto;max-width:640px;margin:0 auto;touch-action:pan-y}
.chart text{font-size:12px;fill:var(--soft)}
.chart .a{fill:var(--ink)}
.g{stroke:var(--rule);stroke-width:1}
.l{fill:none;stroke-width:2;stroke-linejoin:round}
.e{stroke-width:1.2;opacity:.75}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:.4em 0 .7em}
.key{display:inline-flex;align-items:center;gap:6px;min-width:0;overflow-wrap:anywhere}
.key svg{width:28px;height:12px;flex:none}
.pick{fill:var(--ground);stroke:var(--ink);stroke-width:2;pointer-events:none}
#tip{position:fixed;z-index:9;pointer-events:none;padding:5px 9px;border-radius:5px;background:var(--ink);
color:var(--ground);font-size:13px;line-height:1.35;max-width:260px;white-space:pre-line}
#tip[hidden]{display:none}
footer{margin-top:3em;color:var(--soft);font-size:.85em}
@media (max-width:600px){main{padding:14px 14px 36px}h1{font-size:1.3rem}
figure{padding:8px 6px}.chart text{font-size:14px}dl{grid-template-columns:minmax(0,1fr)}dd{margin-bottom:6px}}
@media print{.scroll{overflow:visible}figure{break-inside:avoid}}
""" + "".join(f".c{n}{{stroke:var(--c{n})}}.d.c{n}{{fill:var(--c{n});stroke:none}}" for n in range(8))

# A chart carries its scales in data-x and data-y, so the values under the pointer are computed from the drawn points.
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
  const scale = text => {
    const [low, high, start, end, log, kind] = text.split(",").map((part, at) => at < 5 ? +part : part);
    return {label: p => {
      const share = (p - start) / (end - start);
      return write(log ? low * Math.pow(high / low, share) : low + share * (high - low), kind);
    }};
  };
  for (const svg of document.querySelectorAll("svg.chart")) {
    const x = scale(svg.dataset.x), y = scale(svg.dataset.y);
    let points = null;
    const dot = document.createElementNS(svg.namespaceURI, "circle");
    dot.setAttribute("class", "pick");
    dot.setAttribute("r", 4);
    const read = () => {
      const all = [];
      for (const line of svg.querySelectorAll("path")) {
        const numbers = line.getAttribute("d").match(/[\\d.-]+/g).map(Number);
        for (let i = 0; i < numbers.length; i += 2) {
          all.push([numbers[i], numbers[i + 1], line.parentNode.dataset.name]);
        }
      }
      return all;
    };
    const leave = () => { tip.hidden = true; dot.remove(); };
    svg.addEventListener("pointerleave", leave);
    const move = event => {
      points = points || read();
      const box = svg.getBoundingClientRect(), size = svg.viewBox.baseVal;
      const px = (event.clientX - box.left) * size.width / box.width;
      const py = (event.clientY - box.top) * size.height / box.height;
      let best = null, least = Infinity;
      for (const point of points) {
        const far = (point[0] - px) ** 2 + (point[1] - py) ** 2;
        if (far < least) { least = far; best = point; }
      }
      if (!best || least > 60 * 60) return leave();
      dot.setAttribute("cx", best[0]);
      dot.setAttribute("cy", best[1]);
      svg.append(dot);
      const said = svg.dataset.read.replace("{x}", x.label(best[0])).replace("{y}", y.label(best[1]));
      tip.textContent = best[2] + "\\n" + said;
      tip.hidden = false;
      const wide = tip.offsetWidth, left = Math.min(event.clientX + 14, innerWidth - wide - 8);
      tip.style.left = Math.max(left, 8) + "px";
      tip.style.top = Math.max(event.clientY - tip.offsetHeight - 12, 8) + "px";
    };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", move);
  }
})();
"""
