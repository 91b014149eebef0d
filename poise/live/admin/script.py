"""The script of the live page: it reads `/events`, keeps the state, and writes it into the page.

All text is written with `textContent`, never as markup: names come from clients.
"""

from typing import Final

# The events come by `fetch`, not `EventSource`, which cannot show a token. A change is a JSON merge patch (RFC 7396).
SCRIPT: Final = r"""
(() => {
  "use strict";
  const at = id => document.getElementById(id), SHOWN = 60, STALE = 3;
  const make = (tag, text, kind) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };

  // Words for numbers -----------------------------------------------------------------------------------------------
  const units = [[1, "s"], [1e-3, "ms"]];
  const short = v => Math.abs(v) >= 1000 ? Math.round(v).toLocaleString("en") : String(+v.toPrecision(3));
  const big = v => v >= 1e9 ? short(v / 1e9) + " G" : v >= 1e6 ? short(v / 1e6) + " M" : short(v);
  const axis = v => v >= 1e4 && v < 1e6 ? short(v / 1e3) + " k" : big(v);
  const bytes = v => v >= 1e9 ? short(v / 1e9) + " GB" : v >= 1e6 ? short(v / 1e6) + " MB" : short(v / 1e3) + " kB";
  const time = v => {
    if (v >= 5400) return short(v / 3600) + " h";
    if (v >= 90) return short(v / 60) + " min";
    const unit = units.find(u => v >= u[0] * 0.9995) || units[1];
    return short(v / unit[0]) + " " + unit[1];
  };
  const share = v => (100 * v).toFixed(v && v < 0.1 ? 1 : 0) + " %";
  const limit = v => v === undefined || v === null ? "–" : v < 0 ? "> 80 s" : "≤ " + time(v);
  const sum = counts => Object.values(counts).reduce((a, b) => a + b, 0);
  const known = (value, write) => value === undefined ? "unknown" : write(value);
  const tenantName = name => name === "" ? "–" : name;

  // The state -------------------------------------------------------------------------------------------------------
  let state = null, latest = 0, paused = false, later = [], token = sessionStorage.getItem("poise-token") || "";
  let total = 0, from = 0;
  const merge = (target, change) => {
    for (const name of Object.keys(change)) {
      const value = change[name];
      if (value === null) delete target[name];
      else if (typeof value === "object" && !Array.isArray(value)) {
        const old = target[name];
        const inner = typeof old === "object" && old !== null && !Array.isArray(old) ? old : Object.create(null);
        target[name] = merge(inner, value);
      } else target[name] = value;
    }
    return target;
  };
  const hear = (name, data) => {
    latest = performance.now();
    if (name === "state") { state = merge(Object.create(null), data); from = Date.now() - 1000 * state.at; }
    else if (name === "change" && state) merge(state, data);
    else if (name === "decisions") { decided(data); return; }
    show();
  };

  // Rows that stay where they are while their figures change ----------------------------------------------------------
  const rows = (body, keys, cells, fill) => {
    const have = new Map([...body.children].map(row => [row.dataset.key, row]));
    let place = body.firstElementChild;
    for (const key of keys) {
      let row = have.get(key);
      have.delete(key);
      if (!row) {
        row = make("tr");
        row.dataset.key = key;
        for (let n = 0; n < cells; n++) row.append(make(n ? "td" : "th", undefined, n ? "" : "n"));
        row.firstElementChild.scope = "row";
      }
      if (row !== place) body.insertBefore(row, place);
      else place = place.nextElementSibling;
      fill(row.children, key, row);
    }
    for (const row of have.values()) row.remove();
  };
  const mark = (cell, text, kind) => {
    let span = cell.firstElementChild;
    if (!span) cell.append(span = make("span"));
    put(span, text);
    span.className = "state " + kind;
  };
  const named = (cell, name, small) => {
    if (cell.childNodes.length !== 2) cell.replaceChildren(make("span"), make("small"));
    put(cell.firstChild, name);
    put(cell.lastChild, small);
    cell.lastChild.title = small;
  };
  const filled = (cell, part, doubt) => {
    if (part === undefined) return put(cell, "unknown");
    if (!cell.firstElementChild) {
      const bar = make("span", undefined, "fill");
      bar.append(make("i"));
      bar.setAttribute("aria-hidden", "true");
      cell.replaceChildren(bar, make("span"));
    }
    cell.firstElementChild.firstElementChild.style.width = 100 * part + "%";
    put(cell.lastElementChild, (doubt ? "~ " : "") + share(part));
  };
  const facts = (list, pairs) => {
    if (list.children.length !== 2 * pairs.length) {
      list.replaceChildren(...pairs.flatMap(() => [make("dt"), make("dd")]));
    }
    pairs.forEach(([name, text], n) => { put(list.children[2 * n], name); put(list.children[2 * n + 1], text); });
  };

  // What is shown ---------------------------------------------------------------------------------------------------
  let states = new Map();
  const changes = () => {
    const now = new Map(Object.values(state.engines).map(each => [each.name, each.state]));
    const news = [];
    for (const [name, word] of now) {
      if (states.size && states.get(name) !== word) news.push(`${name}: ${states.get(name) || "new"} → ${word}`);
    }
    for (const name of states.keys()) if (!now.has(name)) news.push(`${name}: gone`);
    if (news.length) put(at("change"), `${clock(state.at)} ${news.join("; ")}`);
    states = now;
  };
  const tiles = () => {
    const {requests, rates, latency, policy} = state, engines = Object.values(state.engines);
    const serving = engines.filter(each => each.state === "serving").length;
    const all = [
      ["Engines serving", `${serving} of ${engines.length}`, "", serving < engines.length],
      ["Open requests", short(requests.open), "at engines or held"],
      ["Held", short(requests.held), requests.held ? `oldest ${time(requests.oldest_wait_s || 0)}` : "none waits"],
      ["Requests ended", short(rates.requests) + "/s", "last ten seconds"],
      ["Prompt tokens", big(rates.prompt) + "/s", "in, as requests end"],
      ["Output tokens", big(rates.output) + "/s", "out, as they pass"],
      ["TTFT p50", limit(latency.ttft.p50), "of streams, last minute"],
      ["TTFT p99", limit(latency.ttft.p99), `of ${short(latency.ttft.count)} streams`],
      ["End to end p99", limit(latency.e2e.p99), `of ${short(latency.e2e.count)} answers`],
      ["Failed (5xx)", short(rates.failed) + "/s", "last ten seconds", rates.failed > 0],
      ["Limited (429)", short(rates.limited) + "/s", "last ten seconds", rates.limited > 0],
      ["Policy errors", short(policy.errors), policy.errors ? policy.last : "since the start", policy.errors > 0],
    ];
    const list = at("tiles");
    if (list.children.length !== all.length) {
      list.replaceChildren(...all.map(() => {
        const tile = make("div"), value = make("dd");
        value.append(make("span"), make("small"));
        tile.append(make("dt"), value);
        return tile;
      }));
    }
    all.forEach(([name, value, small, bad], n) => {
      const tile = list.children[n];
      tile.className = bad ? "bad" : "";
      put(tile.firstChild, name);
      put(tile.lastChild.firstChild, value);
      put(tile.lastChild.lastChild, small);
    });
  };
  // The last minute of each engine and tenant, as this page has seen it; nothing is fetched.
  const MINUTE = 60, past = new Map();
  const remember = (key, value) => {
    const kept = past.get(key) || past.set(key, []).get(key);
    if (!kept.length || state.at > kept[kept.length - 1][0]) kept.push([state.at, value]);
    while (kept[0][0] < state.at - MINUTE) kept.shift();
  };
  const spark = (cell, key, word) => {
    let drawn = cell.firstElementChild;
    if (!drawn) {
      cell.append(drawn = svg("svg", {class: "spark", viewBox: "0 0 84 20", role: "img"}));
      drawn.append(svg("path", {class: "floor", d: "M0 19h84"}), svg("path", {}));
    }
    const kept = past.get(key), most = Math.max(1, ...kept.map(([, value]) => value));
    const x = then => (84 * (1 - (state.at - then) / MINUTE)).toFixed(1);
    const y = value => (19 - 17 * value / most).toFixed(1);
    drawn.lastElementChild.setAttribute("d", "M" + kept.map(([then, value]) => `${x(then)} ${y(value)}`).join("L"));
    const now = short(kept[kept.length - 1][1]);
    drawn.setAttribute("aria-label", `${word}: now ${now}, at most ${short(most)} in the last minute`);
  };
  let compact, ill = false;
  const CROWD = 40, press = (id, on) => at(id).setAttribute("aria-pressed", String(on));
  const shown = () => {
    const all = Object.keys(state.engines).sort((a, b) => a - b);
    const words = at("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    if (compact === undefined && all.length > CROWD) press("small", compact = true);
    const keys = all.filter(key => {
      const each = state.engines[key];
      const text = [each.name, each.state, each.role, ...each.models].join(" ").toLowerCase();
      return (!ill || each.state !== "serving") && words.every(word => text.includes(word));
    });
    put(at("found"), keys.length < all.length ? `${keys.length} of ${all.length} engines` : `${all.length} engines`);
    at("map").hidden = !compact;
    at("engines").closest(".scroll").hidden = Boolean(compact);
    return keys;
  };
  at("find").addEventListener("input", () => { if (state) fleet(); });
  at("ill").addEventListener("click", () => { press("ill", ill = !ill); if (state) fleet(); });
  at("small").addEventListener("click", () => { press("small", compact = !compact); if (state) fleet(); });
  // What all names begin or end with, up to a separator, tells no engine from another in a small cell.
  const alike = (names, turn) => {
    const [first, ...others] = names.map(turn);
    let n = 0;
    while (n < first.length && others.every(other => other[n] === first[n])) n++;
    while (n && !/[-._:/]/.test(first[n - 1])) n--;
    return n;
  };
  const shortener = names => {
    if (names.length < 2) return name => name;
    const begin = alike(names, name => name), end = alike(names, name => [...name].reverse().join(""));
    return name => name.slice(begin, name.length - end) || name;
  };
  const cell = key => {
    const shape = make("button");
    shape.dataset.key = key;
    shape.append(make("span"), make("small"));
    shape.addEventListener("click", () => {
      press("small", compact = false);
      fleet();
      const row = [...at("engines").children].find(each => each.dataset.key === key);
      if (row) row.querySelector("button").focus();
    });
    return shape;
  };
  const map = keys => {
    const have = new Map([...at("map").children].map(each => [each.dataset.key, each]));
    const wanted = new Set(keys), small = shortener(Object.values(state.engines).map(each => each.name));
    for (const [key, each] of have) if (!wanted.has(key)) each.remove();
    let place = at("map").firstElementChild;
    for (const key of keys) {
      const each = state.engines[key], shape = have.get(key) || cell(key);
      if (shape !== place) at("map").insertBefore(shape, place);
      else place = place.nextElementSibling;
      put(shape.firstChild, small(each.name));
      shape.title = each.name;
      put(shape.lastChild, `${short(each.in_flight)} in flight`);
      shape.className = each.state;
      shape.setAttribute("aria-label", `${each.name}: ${each.state}, ${short(each.in_flight)} in flight`);
    }
  };
  const fleet = () => {
    for (const each of Object.values(state.engines)) remember("engine " + each.name, each.in_flight);
    const keys = shown();
    if (compact) map(keys);
    rows(at("engines"), compact ? [] : keys, 12, (cells, key, row) => {
      const each = state.engines[key];
      const age = each.measured_at === undefined ? undefined : state.at - each.measured_at;
      const doubt = age === undefined || age > STALE;
      const report = (cell, value, write) => {
        put(cell, value === undefined ? "unknown" : (doubt ? "~ " : "") + write(value));
        cell.className = doubt ? "doubt" : "";
      };
      const role = each.role === "mixed" ? "" : each.role + " · ";
      const any = each.state === "starting" ? "not reached yet" : "any model";
      named(cells[0], each.name, role + (each.models.join(", ") || any));
      const trial = each.circuit && each.state !== "ejected" ? ", " + each.circuit : "";
      const since = each.down_at === undefined ? "" : " since " + time(state.at - each.down_at);
      mark(cells[1], each.state + since + trial, each.state);
      cells[1].className = "w";
      put(cells[2], short(each.in_flight));
      spark(cells[3], "engine " + each.name, "In flight");
      cells[3].className = "w";
      report(cells[4], each.waiting, short);
      report(cells[5], each.running, short);
      filled(cells[6], each.kv_used, doubt);
      cells[6].className = doubt ? "doubt" : "";
      const kv = each.kv_events, trouble = kv ? Object.entries(kv.counts).map(([word, n]) => `${n} ${word}`) : [];
      named(cells[7], known(each.hit_rate, share), kv ? ["KV events " + kv.state, ...trouble].join(", ") : "");
      put(cells[8], short(each.sent));
      const failed = sum(each.failures);
      put(cells[9], failed ? `${short(failed)} (${Object.keys(each.failures).join(", ")})` : "0");
      cells[9].className = failed ? "doubt" : "";
      put(cells[10], age === undefined ? "never" : doubt ? `${time(age)}, stale` : time(age));
      cells[10].className = doubt ? "doubt" : "";
      button(cells[11], each.name, each.state === "draining" && state.drained.includes(each.name));
    });
    const gone = state.drained.filter(name => !Object.values(state.engines).some(each => each.name === name));
    const list = at("drained");
    list.hidden = !gone.length;
    if (list.dataset.names !== gone.join("\n")) {
      list.dataset.names = gone.join("\n");
      list.replaceChildren(make("span", gone.length ? "Drained: " : ""), ...gone.map(name => {
        const part = make("span", name + " ");
        button(part, name, true);
        return part;
      }));
    }
  };
  const button = (cell, name, back) => {
    let press = cell.querySelector("button");
    if (!press) {
      cell.append(press = make("button"));
      press.addEventListener("click", () => turn(press.dataset.verb, press.dataset.name));
    }
    press.dataset.verb = back ? "undrain" : "drain";
    press.dataset.name = name;
    put(press, back ? "Undrain" : "Drain");
    press.setAttribute("aria-label", `${back ? "Undrain" : "Drain"} ${name}`);
  };
  const turn = async (verb, name) => {
    if (verb === "drain" && !confirm(`Send ${name} no more requests? It ends what it has.`)) return;
    try {
      const answer = await ask(`${verb}/${encodeURIComponent(name)}`, {method: "POST"});
      const reply = await answer.json();
      put(at("change"), answer.ok ? `${name}: ${reply.state}` : `${name}: ${reply.error.message}`);
    } catch { put(at("change"), `${name}: the gateway does not answer`); }
  };
  const who = () => {
    const all = state.tenants;
    const keys = Object.keys(all).sort((a, b) => all[b].held - all[a].held || all[b].requests - all[a].requests);
    rows(at("tenants"), keys, 12, (cells, key) => {
      const each = all[key];
      const texts = [
        tenantName(key), short(each.open), short(each.held), null,
        each.oldest_wait_s === undefined ? "–" : time(each.oldest_wait_s),
        short(each.requests), big(each.prompt), big(each.output), share(each.share),
        short(each.limited), short(each.failed), short(each.left),
      ];
      texts.forEach((text, n) => { if (text !== null) put(cells[n], text); });
      remember("tenant " + key, each.held);
      spark(cells[3], "tenant " + key, "Held");
      cells[3].className = "w";
      [9, 10].forEach(n => { cells[n].className = texts[n] === "0" ? "" : "doubt"; });
    });
    at("who").hidden = !keys.length;
  };
  const beside = () => {
    const {shadow, recording, peers} = state;
    at("peers").hidden = !peers;
    if (peers) {
      facts(at("others"), [
        ["Connected", short(peers.connected)], ["Their open requests", short(peers.requests)],
      ]);
    }
    at("shadowed").hidden = !shadow;
    at("record").hidden = !recording;
    if (shadow) {
      const {routed, same, gain_tokens: less, gain_s} = shadow;
      facts(at("shadow"), [
        ["Obeyed", shadow.active], ["Shadow", shadow.shadow], ["Decisions", short(shadow.decisions)],
        ["Same replica", routed ? `${share(same / routed)} of ${short(routed)} that both sent` : "–"],
        ["Predicted", `${short(Math.abs(less))} prompt tokens ${less < 0 ? "more" : "less"} to wait for, on average` +
          (gain_s ? ` (${short(Math.abs(1000 * gain_s))} ms)` : "")],
      ]);
    }
    if (recording) {
      facts(at("recording"), [
        ["File", recording.path || "–"], ["Lines", short(recording.lines || 0)],
        ["Written", bytes(recording.bytes || 0)],
        ["Dropped", recording.dropped ? `${short(recording.dropped)} (${recording.failed})` : "none"],
      ]);
    }
  };
  const show = () => {
    const all = at("all");
    all.classList.remove("old");
    put(at("models"), ["Poise gateway", ...state.models].join(" · "));
    const ready = at("ready"), word = state.draining ? "draining" : state.ready ? "ready" : "not ready";
    put(ready, word);
    ready.className = "state " + word;
    changes();
    tiles();
    fleet();
    charts();
    who();
    beside();
  };

  // Charts ----------------------------------------------------------------------------------------------------------
  const W = 460, H = 170, LEFT = 58, RIGHT = 10, TOP = 10, FLOOR = 146;
  const svg = (tag, given, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const name in given) made.setAttribute(name, given[name]);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const nice = top => {
    const ten = Math.pow(10, Math.floor(Math.log10(top)));
    return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map(n => n * ten).find(n => n >= top * 0.999);
  };
  const scale = (values, log, whole) => {
    const most = values.length ? Math.max(...values) : 1;
    if (!log) {
      const top = whole && nice(most || 1) % 2 ? nice(most || 1) + 1 : nice(most || 1);
      return {place: v => FLOOR - v / top * (FLOOR - TOP), ticks: [0, top / 2, top]};
    }
    const low = Math.min(...values) / 1.6, high = Math.max(most, low * 8) * 1.25;
    const steps = high / low > 300 ? [1] : high / low > 30 ? [1, 3] : [1, 2, 5], ticks = [];
    for (let ten = Math.pow(10, Math.floor(Math.log10(low))); ten < high; ten *= 10) {
      for (const n of steps) if (n * ten > low && n * ten < high) ticks.push(n * ten);
    }
    return {place: v => FLOOR - Math.log(v / low) / Math.log(high / low) * (FLOOR - TOP), ticks};
  };
  const draw = (name, lines, values, write, legend) => {
    const chart = at("chart-" + name), log = chart.dataset.scale === "log s";
    const known = values.flat().filter(v => v !== null && v !== undefined);
    at("legend-" + name).replaceChildren(...legend.map(([word, value], n) => {
      const key = make("span", undefined, "key"), line = svg("svg", {viewBox: "0 0 28 12", "aria-hidden": "true"});
      line.append(svg("line", {x1: 1, y1: 6, x2: 27, y2: 6, class: "l c" + n}));
      key.append(line, make("span", `${word} ${value}`));
      return key;
    }));
    const stamp = JSON.stringify(values);
    if (chart.dataset.drawn === stamp) return;
    chart.dataset.drawn = stamp;
    chart.setAttribute("viewBox", `0 0 ${W} ${H}`);
    chart.replaceChildren();
    const text = legend.map(pair => pair.join(" ")).join(", ");
    chart.setAttribute("aria-label", `${chart.previousElementSibling.previousElementSibling.textContent}: ${text}`);
    const steps = 30, step = (W - LEFT - RIGHT) / steps, whole = chart.dataset.scale === "number";
    const up = scale(known, log && known.length > 0, whole);
    for (const tick of up.ticks) {
      const y = up.place(tick);
      chart.append(svg("line", {class: "g", x1: LEFT, x2: W - RIGHT, y1: y, y2: y}));
      chart.append(svg("text", {x: LEFT - 6, y: y + 4, "text-anchor": "end"}, write(tick)));
    }
    for (const [share, word, anchor] of [[0, time(steps * state.series.step_s) + " ago", "start"], [1, "now", "end"]]) {
      chart.append(svg("text", {x: LEFT + share * (W - LEFT - RIGHT), y: H - 5, "text-anchor": anchor}, word));
    }
    if (!values.length) {
      const words = `the first ${state.series.step_s} s are not over`;
      chart.append(svg("text", {x: (W + LEFT) / 2, y: 80, "text-anchor": "middle"}, words));
    }
    lines.forEach((line, n) => {
      let path = "", open = false;
      values.forEach((point, place) => {
        const v = point[n];
        if (v === null || v === undefined) { open = false; return; }
        const x = W - RIGHT - (values.length - place) * step, y = up.place(v);
        path += `${open ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}h${step.toFixed(1)}`;
        open = true;
      });
      chart.append(svg("path", {class: "l c" + n, d: path}));
    });
    chart.pick = {values, lines, write, step};
  };
  const charts = () => {
    const {series, latency, rates, requests} = state;
    for (const name of ["ttft", "e2e"]) {
      const top = v => v < 0 ? 100 : v;
      const points = series[name].map(step => step.map(top));
      const parts = ["p50", "p95", "p99"];
      const legend = parts.map(part => [part, limit(latency[name][part])]);
      draw(name, parts, points, v => v >= 100 ? "> 80 s" : time(v), legend);
    }
    const rate = n => series.rates.map(step => [step[n]]), write = v => big(v) + "/s", tick = v => axis(v) + "/s";
    draw("prompt", ["in"], rate(1), tick, [["in", write(rates.prompt)]]);
    draw("output", ["out"], rate(2), tick, [["out", write(rates.output)]]);
    draw("requests", ["all", "failed"], series.rates.map(step => [step[0], step[3]]), tick,
      [["all", write(rates.requests)], ["failed", write(rates.failed)]]);
    draw("open", ["open", "held"], series.open, big, [["open", big(requests.open)], ["held", big(requests.held)]]);
  };
  const tip = at("tip");
  for (const chart of document.querySelectorAll("svg.chart")) {
    const cursor = svg("line", {class: "cursor", y1: TOP, y2: FLOOR});
    const forget = () => { tip.hidden = true; cursor.remove(); };
    chart.addEventListener("pointerleave", forget);
    chart.addEventListener("pointermove", event => {
      const box = chart.getBoundingClientRect(), {values, lines, write, step} = chart.pick || {};
      if (!values || !values.length) return;
      const x = (event.clientX - box.left) * W / box.width;
      const place = values.length - 1 - Math.floor((W - RIGHT - x) / step);
      if (place < 0 || place >= values.length) return forget();
      const ago = (values.length - place) * state.series.step_s + state.at - state.series.end_at;
      const words = lines.map((line, n) => `${line} ${values[place][n] === undefined ? "–" : write(values[place][n])}`);
      tip.textContent = [`${clock(state.at - ago)} + ${state.series.step_s} s`, ...words].join("\n");
      tip.hidden = false;
      tip.style.left = Math.max(8, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)) + "px";
      tip.style.top = event.clientY + 18 + "px";
      const middle = W - RIGHT - (values.length - place - 0.5) * step;
      cursor.setAttribute("x1", middle);
      cursor.setAttribute("x2", middle);
      chart.append(cursor);
    });
  }

  // Decisions -------------------------------------------------------------------------------------------------------
  const clock = seconds => new Date(from + 1000 * seconds).toTimeString().slice(0, 8);
  const COLUMNS = [
    ["cached_tokens", "cached"], ["requests", "in flight"], ["waiting", "waiting"], ["running", "running"],
    ["queued_tokens", "queued tokens"], ["tokens", "tokens"], ["free_blocks", "free blocks"],
  ];
  const reasons = each => {
    const chosen = (each.engines || []).find(engine => engine.chosen);
    const others = (each.engines || []).filter(engine => !engine.chosen), words = [];
    if (each.reason) words.push(each.reason);
    if (!chosen) return words;
    if (!others.length) words.push("the only one allowed");
    if (chosen.cached_tokens !== undefined) {
      const best = Math.max(0, ...others.map(engine => engine.cached_tokens));
      const rest = others.length ? `, at best ${short(best)} elsewhere` : "";
      words.push(`cached ${short(chosen.cached_tokens)} of ${short(each.prompt_tokens)}${rest}`);
    }
    for (const [name, word] of COLUMNS.slice(1)) {
      if (chosen[name] === undefined || !others.length || name === "tokens") continue;
      const seen = others.map(engine => engine[name]), least = Math.min(...seen), most = Math.max(...seen);
      words.push(`${word} ${short(chosen[name])} (others ${short(least)}${most > least ? "–" + short(most) : ""})`);
    }
    if (chosen.age_s > STALE) words.push(`report ${time(chosen.age_s)} old`);
    const shadow = (each.engines || []).find(engine => engine.shadow);
    if (shadow && !shadow.chosen) words.push(`the shadow: ${shadow.name}`);
    return words;
  };
  const unfold = (each, words) => {
    const fold = make("details"), table = make("table"), head = make("tr");
    const columns = COLUMNS.filter(([name]) => each.engines[0][name] !== undefined);
    fold.append(make("summary", words), table);
    const left = each.candidates - each.engines.length;
    if (left) fold.append(make("span", `and ${left} other engines`, "faint"));
    for (const word of ["", ...columns.map(pair => pair[1]), "report age"]) head.append(make("th", word));
    head.firstChild.textContent = "engine";
    table.append(head);
    for (const engine of each.engines) {
      const row = make("tr"), marks = (engine.chosen ? " ← chosen" : "") + (engine.shadow ? " ← shadow" : "");
      row.append(make("td", engine.name + marks, "w"));
      for (const [name] of columns) row.append(make("td", short(engine[name])));
      row.append(make("td", engine.age_s === undefined ? "never" : time(engine.age_s)));
      table.append(row);
    }
    return fold;
  };
  const line = each => {
    const row = make("tr", undefined, "new"), why = make("td", undefined, "why");
    const text = each.outcome === "sent" || each.outcome === "moved"
      ? each.outcome + " to " + each.engine + (each.decode ? " → " + each.decode : "") : each.outcome;
    const decision = make("td", undefined, "w");
    mark(decision, text, each.outcome);
    const first = make("th", clock(each.at), "n");
    first.scope = "row";
    const words = reasons(each).join("; ") || "–";
    why.append(each.engines && each.engines.length > 1 ? unfold(each, words) : make("span", words));
    row.append(first, make("td", "#" + each.request), make("td", tenantName(each.tenant), "w"));
    row.append(make("td", short(each.prompt_tokens)), decision);
    row.append(make("td", each.waited_s >= 0.001 ? time(each.waited_s) : "–"), why);
    return row;
  };
  const decided = data => {
    if (data.anew) { later = []; at("rows").replaceChildren(); }
    later.push(...data.rows);
    if (data.rows.length) total = data.rows[data.rows.length - 1].number;
    if (later.length > SHOWN) later = later.slice(-SHOWN);
    if (!paused) write();
    count();
  };
  const write = () => {
    const body = at("rows");
    body.prepend(...later.map(line).reverse());
    later = [];
    while (body.children.length > SHOWN) body.lastElementChild.remove();
  };
  const count = () => {
    const waits = paused ? `; ${later.length === SHOWN ? "more than " : ""}${later.length} newer wait` : "";
    put(at("count"), `${short(total)} so far, the last ${at("rows").children.length} shown${waits}`);
  };
  at("pause").addEventListener("click", () => {
    paused = !paused;
    at("pause").setAttribute("aria-pressed", String(paused));
    put(at("pause"), paused ? "Go on" : "Pause");
    if (!paused) write();
    count();
  });

  // The connection --------------------------------------------------------------------------------------------------
  const ask = (path, given = {}) =>
    fetch(path, {...given, cache: "no-store", headers: token ? {authorization: "Bearer " + token} : {}});
  const tell = (text, lost) => { const link = at("link"); put(link, text); link.className = lost ? "lost" : ""; };
  const listen = async () => {
    const answer = await ask("events");
    if (answer.status === 401) return false;
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    at("ask").hidden = true;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let kept = "";
    for (;;) {
      const {value, done} = await reader.read();
      if (done) throw new Error("the gateway has closed the connection");
      const parts = (kept + value).split("\n\n");
      kept = parts.pop();
      for (const part of parts) {
        const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(part) || [];
        if (name) hear(name, JSON.parse(data));
      }
      tell("Live");
    }
  };
  const forever = async () => {
    for (;;) {
      try {
        if (!await listen()) return enquire();
      } catch (error) {
        at("all").classList.add("old");
        tell(`Not connected: ${error.message}. What is shown is old; trying again …`, true);
      }
      await new Promise(done => setTimeout(done, 2000));
    }
  };
  const enquire = () => {
    at("ask").hidden = false;
    put(at("wrong"), token ? "That is not the token." : "");
    tell("A token is needed", true);
    at("token").focus();
  };
  at("ask").addEventListener("submit", event => {
    event.preventDefault();
    token = at("token").value;
    sessionStorage.setItem("poise-token", token);
    at("token").value = "";
    forever();
  });
  setInterval(() => {
    const silent = (performance.now() - latest) / 1000;
    if (state && silent > STALE && at("link").className !== "lost") {
      at("all").classList.add("old");
      tell(`No news for ${Math.round(silent)} s; what is shown is old`);
    }
  }, 1000);
  const setup = at("config").querySelector("details");
  setup.addEventListener("toggle", async () => {
    if (!setup.open) return;
    const answer = await ask("config");
    put(at("resolved"), JSON.stringify(await answer.json(), null, 2));
  });
  if ("token" in document.body.dataset && !token) enquire();
  else forever();
})();
"""
