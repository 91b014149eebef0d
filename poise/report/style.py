"""The style sheet of the HTML report: light and dark, wide and narrow."""

from poise.report.chart import COLOURS

_PARTS = (
    "#8d8d8d", "#5f5f5f", "#b9a27c", "#7a1f1f", "#e08214", "#2b6cb0", "#8e44ad", "#8fb8de",
    "#c2185b", "#f06292", "#1b9e77", "#8fd3b6", "#00838f", "#c9c9a0", "#c0392b", "#6d4c41",
)  # fmt: skip
"""Colours of the parts of `core.records.blame`: own work dark, that of others the same in light, delays apart."""

# Colours: Okabe and Ito, "Color Universal Design" (2008), darkened or lightened until lines stand out from the ground.
TINTS = """
:root{color-scheme:light dark;--ground:#fff;--ink:#1c1f23;--soft:#5b636d;--rule:#dde1e6;--panel:#f6f7f9;--warn:#9a5b00;
--c0:#0072b2;--c1:#d55e00;--c2:#008a65;--c3:#b5538c;--c4:#b07c00;--c5:#2b9bd6;--c6:#1c1f23;--c7:#7b6cc4}
@media (prefers-color-scheme:dark){:root{--ground:#14171a;--ink:#e6e9ec;--soft:#9aa4ae;--rule:#30363d;--panel:#1c2126;
--warn:#e6b32e;
--c0:#4aa8e8;--c1:#f07d33;--c2:#2fc79b;--c3:#e08abb;--c4:#e6b32e;--c5:#9ad4f5;--c6:#e6e9ec;--c7:#a99cf0}}
"""
"""The colours, light and dark."""

_PAGE = """*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1400px;margin:0 auto;padding:20px 24px 48px}
h1{font-size:1.6rem;line-height:1.25;margin:.2em 0 .4em;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2em 0 .5em}
h3{font-size:1rem;margin:1em 0 .4em;overflow-wrap:anywhere}
p{margin:.3em 0;overflow-wrap:anywhere;max-width:95ch}
.belief{color:var(--soft);max-width:none}
.answer{font-size:1.15em;font-weight:600}
.partial{color:var(--warn);font-weight:600}
.soft,.none{color:var(--soft);font-size:.9em}
.defs{position:absolute}
nav{display:flex;flex-wrap:wrap;gap:4px 18px;margin:1em 0 0;padding:8px 0;border:solid var(--rule);border-width:1px 0}
a{color:var(--c0)}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:2px 14px;margin:.6em 0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.tiles{grid-template-columns:repeat(auto-fill,minmax(132px,1fr));gap:10px}
.tiles div{padding:7px 10px;background:var(--panel);border:1px solid var(--rule);border-radius:6px}
.tiles dt{font-size:.85em}.tiles dd{font-size:1.1em;margin:0}
dd small,td small{display:block;color:var(--soft);font-size:.78em}
details{margin:.6em 0}summary{cursor:pointer;padding:4px 0;font-weight:600;overflow-wrap:anywhere}
details details{margin-left:1em}
.verdicts{margin:.4em 0 1em;padding-left:1.2em}.verdicts li{margin:.35em 0;overflow-wrap:anywhere}
.verdicts b{font-weight:600;display:block;font-size:.9em;color:var(--soft)}
.scroll{overflow-x:auto;border:1px solid var(--rule);border-radius:6px;margin:.5em 0}
table{border-collapse:separate;border-spacing:0;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:6px 8px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
th{background:var(--panel);font-weight:600;font-size:.88em}
thead th{white-space:normal;vertical-align:bottom;min-width:5.2em}
th.n,td.n{position:sticky;left:0;background:var(--ground)}
th.n{background:var(--panel)}
th[colspan] span{position:sticky;left:8px}
.best td{font-weight:600}
tbody:last-child tr:last-child td{border-bottom:0}
th.n,td.n,th.w,td.w{text-align:left}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr));gap:16px}
.pairs{grid-template-columns:repeat(auto-fit,minmax(min(100%,520px),1fr))}
figure{margin:0;padding:10px 12px;background:var(--panel);border:1px solid var(--rule);border-radius:6px;min-width:0}
figure.wide{margin-bottom:1em;max-width:524px}
figcaption{font-weight:600;margin-bottom:4px;overflow-wrap:anywhere}
.chart,.heat,.bars{display:block;width:100%;height:auto;max-width:640px;margin:0 auto;touch-action:pan-y}
"""

_HEAT = """.heat image{image-rendering:pixelated}
.heat .fault{fill:none;stroke:var(--ink)}
.t{stroke:var(--ink);stroke-width:2}.bars rect{stroke:var(--panel);stroke-width:.6}
.x{stroke:var(--soft);stroke-width:1.5;opacity:.6}
"""

DRAWN = (
    """svg text{font-size:12px;fill:var(--soft)}
svg .a{fill:var(--ink)}
.g{stroke:var(--rule);stroke-width:1}
.l{fill:none;stroke-width:2;stroke-linejoin:round;vector-effect:non-scaling-stroke}
.b{stroke:none;opacity:.2}
"""
    + "".join(f".c{n}{{stroke:var(--c{n})}}.d.c{n},.b.c{n}{{fill:var(--c{n})}}" for n in range(COLOURS))
    + "\n"
)
"""The rules of a chart."""

_REST = """
.r{stroke-width:4}.m{stroke-width:1.5;stroke-dasharray:5 4;opacity:.8}.own{stroke:var(--soft);stroke-dasharray:1 3}
.s{stroke-width:12;opacity:.3}.k{stroke-width:3}.h{fill:var(--panel);stroke-width:2}.u{opacity:.45}.z{fill:none}
.scale{display:flex;flex-wrap:wrap;align-items:center;gap:2px 6px;margin:.2em 0 .5em}
.scale svg{width:120px;height:11px;flex:none}.scale svg.none{width:16px}.scale span{margin-left:8px;white-space:nowrap}
.tabs>input{position:absolute;opacity:0}
.tabs>label{display:inline-block;padding:3px 12px;margin:0 6px 8px 0;border:1px solid var(--rule);border-radius:99px;
cursor:pointer}
.tabs>input:checked+label{background:var(--ink);color:var(--ground)}
.tabs>input:focus-visible+label{outline:2px solid var(--c0)}
.tabs>div{display:none}
.stories{padding:0;list-style:none}.stories li{margin:.5em 0;overflow-wrap:anywhere}
pre{font:12.5px/1.5 ui-monospace,monospace;margin:0;padding:8px 10px;background:var(--panel)}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:.4em 0 .7em}
.key{display:inline-flex;align-items:center;gap:6px;min-width:0;overflow-wrap:anywhere}
.key svg{width:28px;height:12px;flex:none}
.pick{fill:var(--ground);stroke:var(--ink);stroke-width:2;pointer-events:none}
#tip{position:fixed;z-index:9;pointer-events:none;padding:5px 9px;border-radius:5px;background:var(--ink);
color:var(--ground);font-size:13px;line-height:1.35;max-width:260px;white-space:pre-line;overflow-wrap:anywhere}
#tip[hidden]{display:none}
#provenance{color:var(--soft);font-size:.9em}
@media (max-width:600px){main{padding:14px 14px 36px}h1{font-size:1.3rem}
figure{padding:8px 6px}svg text{font-size:15px}.heat text{font-size:12px}
dl{grid-template-columns:minmax(0,1fr)}dd{margin-bottom:6px}
.tiles{grid-template-columns:repeat(auto-fill,minmax(100px,1fr))}}
@media print{.scroll{overflow:visible}figure{break-inside:avoid}}
""" + "".join(
    [f".p{n}{{fill:{tint}}}" for n, tint in enumerate(_PARTS)]
    + [f".tabs>input:nth-of-type({n}):checked~div:nth-of-type({n}){{display:block}}" for n in (1, 2, 3)]
)

STYLE = TINTS + _PAGE + DRAWN + _HEAT + _REST
"""The whole sheet."""
