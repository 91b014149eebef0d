"""The design system of all pages: tokens of colour, space and type, and the parts that are built from them.

Light and dark follow the reader's system or the page's switch; every text colour has a contrast of at least 4.5.
"""

from poise.report.chart import COLOURS

_PARTS = (
    "#8d8d8d", "#5f5f5f", "#b9a27c", "#7a1f1f", "#e08214", "#2b6cb0", "#8e44ad", "#8fb8de",
    "#c2185b", "#f06292", "#1b9e77", "#8fd3b6", "#00838f", "#c9c9a0", "#c0392b", "#6d4c41",
)  # fmt: skip
"""Colours of the parts of `core.records.blame`: own work dark, that of others the same in light, delays apart."""

# Colours: Okabe and Ito, "Color Universal Design" (2008), darkened or lightened until lines stand out from the ground.
_LIGHT = """--ground:#fff;--ink:#1c1f23;--soft:#5b636d;--rule:#dde1e6;--panel:#f6f7f9;--warn:#9a5b00;
--c0:#0072b2;--c1:#d55e00;--c2:#008a65;--c3:#b5538c;--c4:#b07c00;--c5:#2b9bd6;--c6:#1c1f23;--c7:#7b6cc4"""
_DARK = """--ground:#14171a;--ink:#e6e9ec;--soft:#9aa4ae;--rule:#30363d;--panel:#1c2126;
--warn:#e6b32e;
--c0:#4aa8e8;--c1:#f07d33;--c2:#2fc79b;--c3:#e08abb;--c4:#e6b32e;--c5:#9ad4f5;--c6:#e6e9ec;--c7:#a99cf0"""
_SENSE_LIGHT = "--good:#006b4d;--bad:#a8230f;--link:#0064a0"
_SENSE_DARK = "--good:#4fd3a5;--bad:#ff9c87;--link:#6cbcf0"

TINTS = f"""
:root{{color-scheme:light dark;{_LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}
"""
"""The colours, light and dark, as the system asks; for pictures that stand alone."""

TOKENS = f"""
:root{{color-scheme:light dark;{_LIGHT};{_SENSE_LIGHT};
--s1:4px;--s2:8px;--s3:12px;--s4:16px;--s5:24px;--s6:40px;--round:8px;
--small:.82rem;--base:.94rem;--large:1.15rem;--title:1.55rem;--huge:2.1rem}}
@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{_DARK};{_SENSE_DARK}}}}}
:root[data-theme=light]{{color-scheme:light}}
:root[data-theme=dark]{{color-scheme:dark;{_DARK};{_SENSE_DARK}}}
"""
"""Colour, space and type; `data-theme` on the page's root overrules the system."""

_GROUND = """*{box-sizing:border-box}
html{scroll-padding-top:56px}
body{margin:0;background:var(--ground);color:var(--ink);
font:var(--base)/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1400px;margin:0 auto;padding:0 var(--s5) 56px}
h1{font-size:var(--title);line-height:1.25;margin:var(--s3) 0 var(--s2);overflow-wrap:anywhere}
h2{font-size:var(--large);margin:var(--s6) 0 var(--s2)}
h3{font-size:1rem;margin:var(--s4) 0 var(--s1);overflow-wrap:anywhere}
p{margin:.3em 0;overflow-wrap:anywhere;max-width:95ch}
a{color:var(--link)}
:focus-visible{outline:2px solid var(--link);outline-offset:2px}
.partial{color:var(--warn);font-weight:600}
.soft,.none{color:var(--soft);font-size:.94em}
.defs{position:absolute}
[hidden]{display:none!important}
.hide{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
code{font:.92em ui-monospace,monospace}
"""

_NAV = """nav{position:sticky;top:0;z-index:6;display:flex;gap:2px;align-items:center;margin:0 calc(-1*var(--s5));
padding:6px var(--s5);background:var(--ground);border-bottom:1px solid var(--rule);overflow-x:auto;scrollbar-width:thin}
nav a{padding:5px 9px;border-radius:99px;color:var(--ink);text-decoration:none;white-space:nowrap;
font-size:var(--small)}
nav a:hover{background:var(--panel);text-decoration:underline}
nav a:first-child{font-weight:600}
nav button{margin-left:auto;position:sticky;right:0;flex:none}
button,.button{font:inherit;font-size:var(--small);padding:3px 11px;color:var(--ink);background:var(--ground);
border:1px solid var(--rule);border-radius:99px;cursor:pointer;white-space:nowrap}
button:hover{border-color:var(--soft)}
input[type=search]{font:inherit;font-size:var(--small);padding:4px 10px;color:inherit;background:var(--ground);
border:1px solid var(--soft);border-radius:99px;min-width:0;width:15em;max-width:100%}
"""

_CARDS = """.lead{display:grid;grid-template-columns:minmax(0,5fr) minmax(0,7fr);gap:var(--s4);align-items:stretch}
.lead.alone{grid-template-columns:minmax(0,1fr)}
.card{padding:var(--s4) var(--s5);background:var(--panel);border:1px solid var(--rule);border-left:4px solid var(--c0);
border-radius:var(--round)}
.card.good{border-left-color:var(--good)}.card.bad{border-left-color:var(--bad)}.card.open{border-left-color:var(--warn)}
.card .kicker{color:var(--soft);font-size:var(--small);margin:0}
.card .pick{font-size:var(--huge);line-height:1.15;font-weight:650;margin:2px 0 var(--s2);overflow-wrap:anywhere}
.card .pick.long{font-size:1.3rem}.card .why{font-size:1.02rem}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:2px 14px;margin:.6em 0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.tiles{grid-template-columns:repeat(auto-fit,minmax(112px,1fr));gap:var(--s2);margin:var(--s3) 0}
.tiles>div{padding:7px 10px;background:var(--panel);border:1px solid var(--rule);border-radius:var(--round)}
.card .tiles>div{background:var(--ground)}
.tiles dt{font-size:var(--small)}.tiles dd{font-size:1.12rem;font-weight:600}
dd small,td small{display:block;color:var(--soft);font-size:.82em;font-weight:400}
.tiles .good dd{color:var(--good)}.tiles .bad dd{color:var(--bad)}
.chip{display:inline-block;padding:1px 9px;border:1px solid currentColor;border-radius:99px;font-size:var(--small);
white-space:nowrap}
.chip.good,.good>.sign,td.good{color:var(--good)}.chip.bad,.bad>.sign,td.bad{color:var(--bad)}.chip.open{color:var(--warn)}
details{margin:.6em 0}summary{cursor:pointer;padding:4px 0;font-weight:600;overflow-wrap:anywhere}
details details{margin-left:1em}
.verdicts{margin:.4em 0 1em;padding-left:1.2em}.verdicts li{margin:.35em 0;overflow-wrap:anywhere}
.verdicts b{font-weight:600;display:block;font-size:.9em;color:var(--soft)}
.gauge{display:grid;grid-template-columns:minmax(0,11em) minmax(60px,1fr) minmax(0,15em);gap:4px 12px;
align-items:center;margin:var(--s2) 0;font-size:var(--small)}
.gauge svg{width:100%;height:12px;border-radius:4px;background:var(--rule);display:block}
.gauge rect{fill:var(--good)}.gauge .tight{fill:var(--warn)}.gauge .over{fill:var(--bad)}
"""

_TABLES = """.scroll{overflow-x:auto;border:1px solid var(--rule);border-radius:var(--round);margin:.5em 0;
position:relative}
table{border-collapse:separate;border-spacing:0;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:6px 9px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
th{background:var(--panel);font-weight:600;font-size:.88em}
thead th{white-space:normal;vertical-align:bottom;min-width:4.6em}
thead th small{color:var(--soft);font-weight:400;white-space:nowrap}
th.n,td.n{position:sticky;left:0;background:var(--ground);z-index:1}
th.n{background:var(--panel)}
th.n,td.n,th.w,td.w{text-align:left}
td.n{max-width:34ch;white-space:normal;overflow-wrap:break-word}
td.w{white-space:normal;min-width:14ch}
th button{all:unset;cursor:pointer;font:inherit}
th button:focus-visible{outline:2px solid var(--link);outline-offset:2px}
th button::after{content:" ↕";color:var(--soft);font-weight:400}
th[aria-sort=ascending] button::after{content:" ↑";color:inherit}
th[aria-sort=descending] button::after{content:" ↓";color:inherit}
.best td{font-weight:600}
tbody:last-child tr:last-child>*{border-bottom:0}
.tools{display:flex;flex-wrap:wrap;gap:6px 12px;align-items:center;margin:var(--s2) 0 0}
.widens{display:flex;flex-wrap:wrap;gap:6px 12px;align-items:center;margin-top:var(--s4)}
.widens>.scroll{flex-basis:100%}
.widens .tools{margin:0}
.widens .x{display:none}.widens:has(>input:checked) .x{display:table-cell}
.widens>input{position:absolute;opacity:0}
.widens>label{display:inline-block}
.widens>input:checked+label{background:var(--ink);color:var(--ground)}
.widens>input:focus-visible+label{outline:2px solid var(--link);outline-offset:2px}
.strip th:not(.n){text-align:center}.strip th small{display:block}
.strip td{text-align:center;padding:7px 6px;border-left:1px solid var(--ground);border-bottom-color:var(--ground)}
.q4{background:color-mix(in srgb,var(--good) 20%,var(--ground))}
.q3{background:color-mix(in srgb,var(--warn) 20%,var(--ground))}
.q2{background:color-mix(in srgb,var(--bad) 14%,var(--ground))}
.q1{background:color-mix(in srgb,var(--bad) 24%,var(--ground))}
.q0{background:color-mix(in srgb,var(--bad) 36%,var(--ground))}
"""

_FIGURES = """.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr));gap:var(--s4)}
.pairs{grid-template-columns:repeat(auto-fit,minmax(min(100%,520px),1fr))}
.grid.one{grid-template-columns:minmax(0,700px)}
.split{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:var(--s4);align-items:start}
figure{margin:0;padding:10px 12px;background:var(--panel);border:1px solid var(--rule);border-radius:var(--round);
min-width:0;container-type:inline-size}
figcaption{display:flex;flex-wrap:wrap;gap:2px 10px;align-items:baseline;font-weight:600;margin-bottom:4px;
overflow-wrap:anywhere}
figcaption small{font-weight:400;color:var(--soft)}
figcaption .copy{margin-left:auto;display:flex;gap:4px}
.copy button{padding:0 8px;font-size:.76rem}
figure output{display:block;position:relative;font-size:var(--small);line-height:1.4;height:1.4em;margin-top:-1.4em;
color:var(--soft);white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
figure output:not(:empty){background:var(--panel)}
.chart,.heat,.bars{display:block;width:100%;height:auto;max-width:640px;margin:0 auto;touch-action:pan-y}
.chart.big{max-width:none}.narrow{display:none}.heat+.chart{margin-top:-3%}
@container (max-width:360px){.chart text,.bars text{font-size:15px}.chart .name{font-size:13.5px}
.heat text{font-size:13px}}
@container (min-width:540px){.chart:not(.big) text,.bars text,.heat text{font-size:10px}}
.copied{position:relative;margin:.5em 0}.copied .copy{position:absolute;top:6px;right:6px}
pre{font:12.5px/1.5 ui-monospace,monospace;margin:0;padding:8px 10px;background:var(--panel);white-space:pre;
overflow-x:auto}
.copied pre{border:1px solid var(--rule);border-radius:var(--round);max-height:26em}
"""

_HEAT = """.heat image{image-rendering:pixelated}
.heat .fault{fill:none;stroke:var(--ink)}.heat .ground{fill:var(--ground);stroke:var(--rule)}
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
svg text.a,svg .name{paint-order:stroke;stroke:var(--panel);stroke-width:3px;stroke-linejoin:round}
.m{stroke-width:1.5;stroke-dasharray:5 4;opacity:.8}.own{stroke:var(--soft);stroke-dasharray:1 3}
.goal{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:6 3}
.room{stroke:var(--good);stroke-width:2;fill:none}svg .room-name{fill:var(--ink);font-weight:600}
.lead-in{opacity:.5}.goal.lead-in{opacity:1}.front{fill:none;stroke:var(--soft);stroke-width:1.5}
.s{stroke-width:12;opacity:.3}.k{stroke-width:3}.h{fill:var(--panel);stroke-width:2}.u{opacity:.45}.z{fill:none}
.cross{stroke:var(--soft);stroke-width:1;pointer-events:none}
.scale{display:flex;flex-wrap:wrap;align-items:center;gap:2px 6px;margin:.2em 0 .5em}
.scale svg{width:120px;height:11px;flex:none}.scale svg.none{width:16px}.scale span{margin-left:8px;white-space:nowrap}
.tabs>input{position:absolute;opacity:0}
.tabs>label{display:inline-block;padding:3px 12px;margin:0 6px 8px 0;border:1px solid var(--rule);border-radius:99px;
cursor:pointer}
.tabs>input:checked+label{background:var(--ink);color:var(--ground)}
.tabs>input:focus-visible+label{outline:2px solid var(--link);outline-offset:2px}
.tabs>div{display:none}
.stories{padding:0;list-style:none}.stories li{margin:.5em 0;overflow-wrap:anywhere}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:.4em 0 .7em}
.key{display:inline-flex;align-items:center;gap:6px;min-width:0;overflow-wrap:anywhere}
.key svg{width:28px;height:12px;flex:none}
svg .pick{fill:var(--ground);stroke:var(--ink);stroke-width:2;pointer-events:none}
#tip{position:fixed;z-index:9;pointer-events:none;padding:5px 9px;border-radius:5px;background:var(--ink);
color:var(--ground);font-size:13px;line-height:1.35;max-width:260px;white-space:pre-line;overflow-wrap:anywhere}
@media (max-width:900px){.lead,.split{grid-template-columns:minmax(0,1fr)}}
@media (max-width:600px){main{padding:0 var(--s3) 36px}nav{margin:0 calc(-1*var(--s3));padding:5px var(--s3)}
h1{font-size:1.12rem}.card{padding:var(--s3)}.card .pick{font-size:1.5rem}.card .pick.long{font-size:1.12rem}
.card .why{font-size:var(--base)}
figure{padding:8px 6px}.broad{display:none}.narrow{display:block}
dl{grid-template-columns:minmax(0,1fr)}dd{margin-bottom:6px}td.n{min-width:9em;max-width:44vw}
.gauge{grid-template-columns:minmax(0,1fr) max-content}.gauge svg{grid-column:1/-1;grid-row:2}
.tiles{grid-template-columns:repeat(2,minmax(0,1fr))}.tiles dd{margin:0}}
@media print{.scroll{overflow:visible}figure{break-inside:avoid}nav{position:static}.copy,.tools button{display:none}}
""" + "".join(
    [f".p{n}{{fill:{tint}}}" for n, tint in enumerate(_PARTS)]
    + [f".tabs>input:nth-of-type({n}):checked~div:nth-of-type({n}){{display:block}}" for n in (1, 2, 3)]
)

STYLE = TOKENS + _GROUND + _NAV + _CARDS + _TABLES + DRAWN + _FIGURES + _HEAT + _REST
"""The whole sheet."""
