"""The style sheet of the live page: that of the reports, and additions for live data."""

from typing import Final

from poise.report.style import STYLE as REPORT

STYLE: Final = (
    REPORT
    + """
[hidden]{display:none!important}
.top{display:flex;flex-wrap:wrap;align-items:baseline;gap:4px 16px}
.top h1{margin-right:auto}
#link{color:var(--soft);font-size:.9em;margin:0}
#link.lost{color:var(--warn);font-weight:600}
.old{opacity:.55}
.state{display:inline-flex;align-items:center;gap:6px;white-space:nowrap}
.state::before{content:"";width:9px;height:9px;border-radius:50%;background:var(--soft);flex:none}
.state.serving::before,.state.ready::before,.state.sent::before{background:var(--c2)}
.state.ejected::before,.state.down::before,.state.refused::before,.state.not::before{background:var(--c1)}
.state.draining::before,.state.held::before,.state.half-open::before{background:var(--c4)}
.state.moved::before{background:var(--c0)}
h1 .state{font-size:.62em;font-weight:500;margin-left:10px;vertical-align:middle}
#tiles{grid-template-columns:repeat(6,minmax(0,1fr))}
.spark{width:84px;height:20px;display:block}.spark path{fill:none;stroke:var(--c0);stroke-width:1.5}
.spark .floor{stroke:var(--rule)}
.map{display:grid;grid-template-columns:repeat(auto-fill,minmax(96px,1fr));gap:4px;margin:var(--s2) 0;
max-height:34em;overflow:auto}
.map>button{border-radius:6px;padding:4px 6px;text-align:left;overflow-wrap:anywhere;
border-left:4px solid var(--soft)}
.map .serving{border-left-color:var(--c2)}.map .ejected,.map .down{border-left-color:var(--c1)}
.map .draining,.map .half-open{border-left-color:var(--c4)}.map small{display:block;color:var(--soft)}
button[aria-pressed=true]{background:var(--ink);color:var(--ground)}
nav .data{color:var(--soft)}
.tiles dd{white-space:nowrap}.tiles dd small{white-space:normal}
.tiles .bad dd{color:var(--warn)}
.doubt{color:var(--warn)}
td small{white-space:nowrap}
td .faint,.faint{color:var(--soft)}
.scroll{position:relative}
table.wide tbody td,table.wide tbody th{vertical-align:top;font-size:1em}
#rows th{font-weight:400}
th.n small{display:block;color:var(--soft);font-weight:400;font-size:.82em;max-width:22ch;overflow:hidden;
text-overflow:ellipsis}
tbody th{background:var(--ground)}
.fill{display:inline-block;width:54px;height:8px;margin-right:7px;border-radius:2px;background:var(--rule);
overflow:hidden;vertical-align:baseline}
.fill i{display:block;height:100%;background:var(--c0)}
button{font:inherit;font-size:.88em;padding:2px 10px;color:var(--ink);background:var(--panel);
border:1px solid var(--rule);border-radius:99px;cursor:pointer}
button:hover{border-color:var(--soft)}
button:focus-visible,a:focus-visible,summary:focus-visible,.scroll:focus-visible,input:focus-visible
{outline:2px solid var(--c0);outline-offset:1px}
input{font:inherit;padding:3px 8px;color:inherit;background:var(--ground);border:1px solid var(--soft);
border-radius:6px}
form{display:flex;flex-wrap:wrap;gap:8px;align-items:center;margin:1em 0}
.bar{display:flex;flex-wrap:wrap;gap:4px 14px;align-items:center;margin:.3em 0}
.live .legend{margin:.1em 0 .2em;font-size:.88em;gap:2px 14px;font-variant-numeric:tabular-nums}
.live .chart{max-width:none}.live .chart text{font-size:12px}
.live figcaption small{font-weight:400;color:var(--soft)}
.why{text-align:left!important;white-space:normal;min-width:17em;width:60%}
.why details{margin:0}.why summary{font-weight:400;padding:0}
.why table{width:auto;margin:3px 0 6px;font-size:.88em}.why td,.why th{padding:1px 8px;border:0}
.why table th{background:none;color:var(--soft);font-weight:400;min-width:0}
#rows td{padding-top:4px;padding-bottom:4px}
.tall{max-height:34em;overflow:auto}
.tall thead th{position:sticky;top:0;z-index:2}
.hide{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.cursor{stroke:var(--soft);stroke-width:1;pointer-events:none}
@media (max-width:1000px){#tiles{grid-template-columns:repeat(4,minmax(0,1fr))}}
@media (max-width:600px){#tiles{grid-template-columns:repeat(3,minmax(0,1fr))}
tbody th.n{white-space:normal;overflow-wrap:anywhere;min-width:7.5em;max-width:42vw}
#rows th.n{white-space:nowrap;min-width:0;position:static}.why{min-width:0!important;width:100%}
.few tr>:nth-child(2),.few tr>:nth-child(3),.few tr>:nth-child(4),.few tr>:nth-child(6){display:none}
.few .why table{display:block;max-width:46vw;overflow-x:auto}.few .why table tr>*{display:table-cell}
.live .chart text{font-size:13px}.tiles dd{font-size:1em}}
@media (prefers-reduced-motion:no-preference){.new{animation:come .6s}}
@keyframes come{from{background:color-mix(in srgb,var(--c0) 9%,transparent)}}
"""
)
