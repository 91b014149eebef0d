"use strict";

const $ = (id) => document.getElementById(id);
const form = $("form");

// The token is in a cookie by now; the address need not keep it.
history.replaceState(null, "", location.pathname + location.hash);

function make(tag, given = {}, ...children) {
  const made = Object.assign(document.createElement(tag), given);
  made.append(...children.filter((each) => each !== null));
  return made;
}

async function ask(path, body, method = "POST") {
  let answer;
  try {
    answer = await fetch(path, body === undefined ? {} : { method, body: body instanceof Blob ? body : JSON.stringify(body) });
  } catch {
    throw new Error("Not connected: is `poise ui` still running?");
  }
  const text = await answer.text();
  let reply = null;
  try { reply = JSON.parse(text); } catch { /* the text is the error */ }
  if (!answer.ok) throw new Error(reply?.error ?? text.trim());
  return reply;
}

const seconds = (s) =>
  s < 60 ? `${Math.ceil(s)} s` : s < 3600 ? `${Math.floor(s / 60)} min ${Math.round(s % 60)} s` : `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;

// The form ------------------------------------------------------------------------------------------------------------

let mapped = {}; // columns of the trace that its user has named

const number = (name) => (form.elements[name].value.trim() === "" ? null : Number(form.elements[name].value));
const ticked = (name) => [...form.querySelectorAll(`[name=${name}]:checked`)].map((each) => each.value);

function wanted() {
  const from = (names) => Object.fromEntries(names.map((name) => [name, number(name)]).filter(([, value]) => value !== null));
  const what = form.elements.what.value;
  const question = {
    what,
    name: $("name").value,
    model: form.elements.model.value,
    ttft_s: number("ttft_s"), tpot_s: number("tpot_s"), e2e_s: number("e2e_s"),
  };
  if (form.elements.source.value === "trace") {
    Object.assign(question, { trace: $("trace").value, columns: mapped, skip_bad: form.elements.skip_bad.checked });
  } else {
    question.load = from(["rate", "requests", "prompt_tokens", "output_tokens", "prompt_cv", "output_cv", "cv", "groups", "prefix_tokens", "turns"]);
  }
  if (what === "compare") {
    Object.assign(question, from(["replicas", "tensor"]), {
      device: form.elements.device.value,
      routers: ticked("routers"),
      loads: form.elements.loads.value.split(",").map((each) => each.trim()).filter(Boolean).map(Number),
      find_collapse: form.elements.find_collapse.checked,
    });
  } else {
    Object.assign(question, from(["attainment"]), {
      devices: ticked("devices"), minimize: form.elements.minimize.value, time_limit_s: number("time_limit_s"),
    });
  }
  return question;
}

function lacking() {
  const wrong = [...form.elements].find((each) => each.willValidate && !each.disabled && !each.validity.valid);
  if (wrong) return `${wrong.closest("label").firstChild.textContent.trim()}: ${wrong.validationMessage}`;
  return form.elements.source.value === "trace" && !$("trace").value ? "Drop a trace, or choose one that is there." : "";
}

function show() {
  for (const part of document.querySelectorAll("[data-when]")) {
    const [name, value] = part.dataset.when.split("=");
    part.hidden = form.elements[name].value !== value;
    for (const field of part.querySelectorAll("input, select")) field.disabled = part.hidden;
  }
}

let asking = 0;
async function preview() {
  const turn = ++asking;
  show();
  const words = lacking();
  let reply = null, error = words;
  if (!words) {
    try { reply = await ask("api/preview", wanted()); error = reply.lacking; } catch (wrong) { error = wrong.message; }
  }
  if (turn !== asking) return;
  $("lacking").textContent = error;
  $("start").disabled = error !== "";
  if (reply) {
    $("yaml").textContent = reply.yaml;
    $("shell").textContent = reply.shell;
    $("file-name").textContent = `runs/${reply.name}/scenario.yaml`;
    $("name").placeholder = reply.name;
  }
}

let timer = 0;
const soon = () => { clearTimeout(timer); timer = setTimeout(preview, 120); };
form.addEventListener("input", soon);
$("name").addEventListener("input", soon);

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  $("start").disabled = true;
  try {
    const { name } = await ask("api/runs", wanted());
    $("name").value = "";
    $("news").textContent = `Run ${name} is queued.`;
    $("runs").scrollIntoView({ block: "start" });
  } catch (wrong) {
    $("lacking").textContent = wrong.message;
  }
  await preview();
});

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const text = $(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(text.textContent);
    } catch {
      getSelection().selectAllChildren(text);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

// Traces --------------------------------------------------------------------------------------------------------------

async function traces(chosen) {
  const names = await ask("api/traces");
  const select = $("trace");
  const before = chosen ?? select.value;
  select.replaceChildren(...(names.length ? names : [""]).map((name) => make("option", { value: name, textContent: name || "none yet" })));
  if (names.includes(before)) select.value = before;
  await fresh();
}

async function fresh() { // another trace, whose columns have no names yet
  mapped = {};
  $("mapping").hidden = true;
  $("traffic").textContent = $("trace-error").textContent = "";
  if ($("trace").value) await look();
  soon();
}

async function drop(file) {
  if (!file) return;
  $("trace-error").textContent = "";
  if (file.size > Number(document.body.dataset.most)) {
    $("trace-error").textContent = `${file.name}: is too large to be dropped; copy it into the folder traces.`;
    return;
  }
  $("traffic").textContent = `Reading ${file.name} …`;
  try {
    const { name } = await ask(`api/traces/${encodeURIComponent(file.name)}`, file, "PUT");
    await traces(name);
  } catch (wrong) {
    $("traffic").textContent = "";
    $("trace-error").textContent = wrong.message;
  }
}

async function look() {
  const trace = $("trace").value;
  const turn = { trace, columns: mapped, skip_bad: form.elements.skip_bad.checked };
  $("traffic").textContent = `Reading ${trace} …`;
  $("trace-error").textContent = "";
  try {
    const reply = await ask("api/look", turn);
    if (trace !== $("trace").value) return;
    if (reply.missing.length && reply.missing.every((field) => reply.suggested[field])) {
      mapped = { ...mapped, ...reply.suggested };
      await look();
      map(reply, true);
      return;
    }
    $("traffic").textContent = reply.summary && `${reply.summary}.`;
    $("trace-error").textContent = reply.error;
    map(reply, false);
  } catch (wrong) {
    $("traffic").textContent = "";
    $("trace-error").textContent = wrong.message;
  }
}

function map(reply, suggested) {
  const fields = { ...reply.fields, ...mapped };
  $("mapping").hidden = false;
  if (suggested) $("mapping-words").textContent = `No column has a known name for ${reply.missing.join(", ")}: check what is suggested.`;
  else if (reply.missing.length) $("mapping-words").textContent = `No column for ${reply.missing.join(", ")}: choose it.`;
  else if (!Object.keys(mapped).length) $("mapping-words").textContent = `Read as format ${reply.format}.`;
  $("columns").replaceChildren(...Object.entries(reply.needed).map(([field, meaning]) => {
    const select = make("select", { id: `column-${field}` }, ...["", ...reply.columns].map((name) => make("option", { value: name, textContent: name || "choose …" })));
    select.value = fields[field] ?? "";
    select.addEventListener("change", async () => {
      if (select.value) mapped = { ...mapped, [field]: select.value }; else delete mapped[field];
      await look();
      $(select.id).focus();
      soon();
    });
    return make("label", {}, `${field} (${meaning})`, select);
  }));
}

$("trace").addEventListener("change", fresh);
form.elements.skip_bad.addEventListener("change", () => $("trace").value && look());
$("file").addEventListener("change", () => drop($("file").files[0]));
for (const kind of ["dragenter", "dragover"]) {
  $("drop").addEventListener(kind, (event) => { event.preventDefault(); $("drop").classList.add("over"); });
}
for (const kind of ["dragleave", "drop"]) $("drop").addEventListener(kind, () => $("drop").classList.remove("over"));
$("drop").addEventListener("drop", (event) => { event.preventDefault(); drop(event.dataTransfer.files[0]); });

// Runs ----------------------------------------------------------------------------------------------------------------

const rows = new Map(); // the list item of each run
let runs = [];

function row(run) {
  const item = make("li", { id: `run-${run.name}` });
  const pick = make("input", { type: "checkbox", ariaLabel: `Put ${run.name} side by side` });
  pick.addEventListener("change", picked);
  const cancel = make("button", { type: "button", textContent: "Cancel", ariaLabel: `Cancel ${run.name}` });
  cancel.addEventListener("click", async () => {
    cancel.disabled = true;
    try { await ask(`api/runs/${run.name}/cancel`, {}); } catch (wrong) { $("news").textContent = wrong.message; }
  });
  const parts = {
    item, pick, cancel, what: run.what,
    state: make("span", { className: "state" }), when: make("small"), bar: make("progress", { ariaLabel: `Progress of ${run.name}` }),
    doing: make("small"), files: make("div", { className: "files" }), error: make("p", { className: "wrong wide-row" }),
  };
  item.append(
    make("span", { className: "pick" }, pick),
    make("div", {}, make("span", { className: "name", textContent: run.name }), make("small", { textContent: run.what })),
    make("div", {}, parts.state, parts.when, parts.bar, parts.doing),
    parts.files,
    make("div", { className: "acts" }, cancel),
    parts.error,
    make("details", { className: "wide-row" }, make("summary", { textContent: "Command" }), make("pre", { className: "wrap", textContent: run.shell })),
  );
  return parts;
}

const ended = (run) => run.files.includes("result.json") || run.files.includes("plan.json");

function list(reply) {
  runs = reply;
  $("no-runs").hidden = runs.length > 0;
  for (const run of runs) {
    const parts = rows.get(run.name) ?? row(run);
    if (!rows.has(run.name)) { rows.set(run.name, parts); $("list").prepend(parts.item); }
    const over = !["queued", "running"].includes(run.state);
    if (over && !parts.over && parts.state.textContent) $("news").textContent = `Run ${run.name}: ${run.state}. ${run.error}`;
    parts.over = over;
    parts.state.className = `state ${run.state}`;
    parts.state.textContent = run.state;
    parts.when.textContent = new Date(run.began).toLocaleString() + (run.took_s === null ? "" : `, took ${seconds(run.took_s)}`);
    parts.bar.hidden = parts.doing.hidden = run.state !== "running";
    parts.cancel.hidden = over;
    parts.error.textContent = run.error;
    parts.pick.disabled = !ended(run);
    parts.files.replaceChildren(...run.files.map((file) => {
      const page = file === "report.html" || file === "plan.html";
      return make("a", { href: `runs/${run.name}/${file}`, target: "_blank", rel: "noopener", textContent: page ? "Open the report" : file, className: page ? "page" : "" });
    }));
  }
  const compared = runs.filter((run) => run.what === "compare" && ended(run)).map((run) => run.name).reverse();
  const select = $("story-run"), before = select.value;
  if ([...select.options].map((each) => each.value).join() !== compared.join()) {
    select.replaceChildren(...compared.map((name) => make("option", { textContent: name })));
    if (compared.includes(before)) select.value = before;
    if (select.value !== before) routers();
  }
}

function progress(reply) {
  for (const [name, at] of Object.entries(reply)) {
    const parts = rows.get(name);
    if (!parts) continue;
    if (at.share === null) parts.bar.removeAttribute("value"); else parts.bar.value = at.share;
    const left = at.left_s === null ? "" : `, ${at.left_s > 0 ? `about ${seconds(at.left_s)} left` : "finishing"}`;
    const best = at.best ? `; best so far ${at.best}` : "";
    const so_far = parts.what === "plan" ? `${at.done} ${at.label} tried` : `${at.done} of ${at.total} ${at.label}`;
    parts.doing.textContent = at.total ? `${so_far}${left}${best}` : `starting${best}`;
  }
}

const news = new EventSource("events");
news.addEventListener("open", () => { $("link").textContent = ""; $("link").className = ""; });
news.addEventListener("error", () => { $("link").textContent = "Not connected; trying again."; $("link").className = "wrong"; });
news.addEventListener("runs", (event) => list(JSON.parse(event.data)));
news.addEventListener("progress", (event) => progress(JSON.parse(event.data)));

// Side by side --------------------------------------------------------------------------------------------------------

const chosen = () => runs.map((run) => run.name).filter((name) => rows.get(name)?.pick.checked);

function picked() { $("put-beside").disabled = chosen().length < 2; }

$("put-beside").addEventListener("click", async () => {
  const names = chosen();
  $("beside-error").textContent = "";
  try {
    const reply = await ask(`api/beside?${names.map((name) => `run=${encodeURIComponent(name)}`).join("&")}`);
    const head = make("tr", {}, make("th", { scope: "col", textContent: "Figure" }), ...reply.runs.map((name) => make("th", { scope: "col", className: "n", textContent: name })));
    const body = reply.groups.flatMap((group) => [
      make("tr", {}, make("th", { scope: "rowgroup", className: "group", colSpan: names.length + 1, textContent: group.title })),
      ...group.rows.map((each) => make("tr", {}, make("th", { scope: "row", title: each.meaning, textContent: each.label }), ...each.cells.map(cell))),
    ]);
    $("beside-table").replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
    $("beside-table").hidden = false;
    $("beside").scrollIntoView({ block: "start" });
    $("beside-table").focus({ preventScroll: true });
  } catch (wrong) {
    $("beside-error").textContent = wrong.message;
  }
});

function cell(reply) {
  const mark = { better: "▲ ", worse: "▼ " }[reply.verdict] ?? "";
  return make("td", { className: "n" }, reply.text, reply.margin ? ` ${reply.margin}` : "",
    reply.difference ? make("small", { className: reply.verdict, textContent: `${mark}${reply.difference}${reply.verdict ? `, ${reply.verdict}` : ""}` }) : null);
}

// Story ---------------------------------------------------------------------------------------------------------------

async function routers() {
  const run = $("story-run").value;
  const names = run ? await ask(`api/runs/${run}/routers`) : [];
  $("story-router").replaceChildren(...names.map((name) => make("option", { textContent: name })));
}
$("story-run").addEventListener("change", routers);

$("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("story-error").textContent = $("story-closing").textContent = "";
  $("story-table").hidden = true;
  $("story-words").textContent = "Simulating …";
  const button = event.submitter;
  button.disabled = true;
  try {
    const reply = await ask(`api/runs/${$("story-run").value}/story`, { request: Number($("story-request").value), router: $("story-router").value });
    const head = ["At", "Since arrival", "Where", "What happened"].map((text, at) => make("th", { scope: "col", textContent: text, className: at < 2 ? "n" : "" }));
    const body = reply.lines.map((line) => make("tr", {},
      make("td", { className: "n", textContent: `${line.at_s.toFixed(6)} s` }), make("td", { className: "n", textContent: `+${line.since_s.toFixed(6)} s` }),
      make("td", { textContent: line.place }), make("td", { textContent: line.text })));
    $("story-table").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body)));
    $("story-table").hidden = false;
    $("story-closing").textContent = reply.closing;
    $("story-words").textContent = reply.shell;
  } catch (wrong) {
    $("story-words").textContent = "";
    $("story-error").textContent = wrong.message;
  } finally {
    button.disabled = false;
  }
});

traces().then(preview);
