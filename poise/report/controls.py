"""The part of the pages' script that makes controls: copies of panels and texts, sorting and search, the theme."""

CONTROLS = r"""
  const put = (tag, text, kind) => {
    const node = document.createElement(tag);
    if (text) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };
  const press = (text, label, act) => {
    const node = put("button", text);
    node.type = "button";
    node.setAttribute("aria-label", label);
    node.addEventListener("click", () => act(node));
    return node;
  };
  const copy = async (text, node) => {
    const was = node.dataset.was = node.dataset.was || node.textContent;
    let done = true;
    try { await navigator.clipboard.writeText(text); } catch {
      const area = put("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
      node.focus();
    }
    node.textContent = done ? "copied" : "not allowed";
    setTimeout(() => { node.textContent = was; }, 1500);
  };
  const quote = cell => /[",\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
  const csv = rows => rows.map(row => row.map(cell => quote(String(cell))).join(",")).join("\n") + "\n";

  // A picture that stands alone: what the style sheet says becomes attributes.
  const LOOKS = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size",
    "font-weight", "paint-order", "stroke-linejoin", "text-anchor"];
  const alone = svg => {
    forget();
    const twin = svg.cloneNode(true), to = [twin, ...twin.querySelectorAll("*")];
    [svg, ...svg.querySelectorAll("*")].forEach((node, at) => {
      const look = getComputedStyle(node);
      for (const name of LOOKS) to[at].setAttribute(name, look.getPropertyValue(name));
      for (const name of [...to[at].attributes].map(each => each.name)) {
        if (name === "class" || name === "tabindex" || name.startsWith("data-")) to[at].removeAttribute(name);
      }
    });
    const box = svg.viewBox.baseVal, root = getComputedStyle(document.body);
    const back = document.createElementNS(svg.namespaceURI, "rect");
    for (const [name, value] of Object.entries({width: box.width, height: box.height, fill: root.backgroundColor})) {
      back.setAttribute(name, value);
    }
    twin.prepend(back);
    for (const [name, value] of Object.entries({xmlns: svg.namespaceURI, width: box.width, height: box.height})) {
      twin.setAttribute(name, value);
    }
    twin.setAttribute("font-family", "system-ui, sans-serif");
    return new XMLSerializer().serializeToString(twin);
  };
  const numbers = async svg => {
    if (svg.matches(".heat")) {
      const map = heat(svg), [{wide, high}] = await map.value(0, 0), rows = [["replica", "time_s", "value"]];
      for (let row = 0; row < high; row++) {
        for (let column = 0; column < wide; column++) {
          const at = map.start + column * (map.end - map.start) / wide, [, value] = await map.value(row, column);
          rows.push([map.name(row), +at.toPrecision(6), isNaN(value) ? "" : +value.toPrecision(4)]);
        }
      }
      return rows;
    }
    const precise = v => v.map(number => +number.toPrecision(6));
    if (svg.dataset.x) return [["name", "x", "y"], ...read(svg).map(({name, v}) => [name, ...precise(v)])];
    return [...svg.querySelectorAll("[data-text]")].map(each => each.dataset.text.split("\n"));
  };
  for (const figure of document.querySelectorAll("figure")) {
    const drawn = [...figure.querySelectorAll("svg.chart, svg.bars, svg.heat, svg.lanes")];
    if (!drawn.length) continue;
    let caption = figure.querySelector("figcaption");
    if (!caption) figure.prepend(caption = put("figcaption"));
    const title = caption.textContent || drawn[0].getAttribute("aria-label"), tools = put("span", "", "copy");
    const shown = () => drawn.filter(svg => svg.clientWidth);
    tools.append(press("SVG", `Copy “${title}” as SVG`, node => copy(shown().map(alone).join("\n"), node)));
    if (drawn.some(svg => svg.dataset.heat || svg.dataset.x || svg.querySelector("[data-text]"))) {
      tools.append(press("CSV", `Copy the values of “${title}” as CSV`,
        async node => copy((await Promise.all(shown().map(numbers))).map(csv).join("\n"), node)));
    }
    caption.append(tools);
  }
  for (const text of document.querySelectorAll(".copied")) {
    const tools = put("span", "", "copy"), body = text.querySelector("pre");
    tools.append(press("Copy", `Copy ${text.dataset.of || "this text"}`, node => copy(body.textContent, node)));
    text.append(tools);
  }

  // Tables: a press on a head sorts, a search field filters -----------------------------------------------------------
  const key = cell => {
    const text = (cell?.dataset.v ?? cell?.firstChild?.textContent ?? "").trim();
    const number = Number(text.replace(/[,%$~≤≥✓✗ ]/g, "").replace("−", "-"));
    return text === "" || text === "–" ? null : isNaN(number) ? text : number;
  };
  const below = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en");
  for (const table of document.querySelectorAll("table.sorts")) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    heads.forEach((head, column) => {
      const button = put("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const turn = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        for (const each of heads) each.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", turn > 0 ? "ascending" : "descending");
        const rows = [...body.rows].map(row => [key(row.cells[column]), row]);
        rows.sort(([a], [b]) => a === null ? (b === null ? 0 : 1) : b === null ? -1 : turn * below(a, b));
        body.append(...rows.map(([, row]) => row));
      });
    });
    const tools = put("div", "", "tools"), frame = table.closest(".scroll"), count = put("span", "", "soft");
    if (body.rows.length > 3) {
      const field = put("input");
      field.type = "search";
      field.placeholder = "Filter rows";
      field.setAttribute("aria-label", `Filter the rows of ${frame.getAttribute("aria-label") || "the table"}`);
      count.setAttribute("role", "status");
      field.addEventListener("input", () => {
        const words = field.value.toLowerCase().split(/\s+/).filter(Boolean), rows = [...body.rows];
        for (const row of rows) {
          const text = row.textContent.toLowerCase();
          row.hidden = !words.every(word => text.includes(word));
        }
        count.textContent = words.length ? `${rows.filter(row => !row.hidden).length} of ${rows.length} rows` : "";
      });
      tools.append(field, count);
    }
    const text = cell => cell.textContent.replace("↕", "").trim().replace(/\s+/g, " ");
    const cells = row => [...row.cells].filter(cell => cell.clientWidth).map(text);
    tools.append(press("CSV", "Copy the table as CSV",
      node => copy(csv([...table.rows].filter(row => !row.hidden).map(cells)), node)));
    frame.before(tools);
  }

  // Choices of what charts show: one list for each name in data-picks -------------------------------------------------
  for (const picks of document.querySelectorAll("[data-picks]")) {
    const names = picks.dataset.picks.split(" "), groups = [...document.querySelectorAll(`g[data-${names[0]}]`)];
    const lists = names.map(name => {
      const list = put("select"), known = [...new Set(groups.map(group => group.dataset[name]))].sort();
      list.setAttribute("aria-label", `Show one ${name}`);
      list.append(new Option(`every ${name}`, ""), ...known.map(each => new Option(each)));
      picks.append(list);
      return [name, list];
    });
    picks.addEventListener("change", () => {
      for (const group of groups) {
        const off = lists.some(([name, list]) => list.value && group.dataset[name] !== list.value);
        group.classList.toggle("off", off);
        group.ownerSVGElement.points = null;
      }
    });
  }

  const root = document.documentElement, bar = document.querySelector("nav");
  if (bar) {
    const words = {"": "Theme: system", light: "Theme: light", dark: "Theme: dark"}, order = ["", "light", "dark"];
    const turn = name => {
      if (name) root.dataset.theme = name; else delete root.dataset.theme;
      theme.textContent = words[name];
    };
    let now = "";
    try { now = localStorage.getItem("poise-theme") || ""; } catch {}
    const theme = put("button");
    theme.type = "button";
    theme.addEventListener("click", () => {
      now = order[(order.indexOf(now) + 1) % 3];
      try { localStorage.setItem("poise-theme", now); } catch {}
      turn(now);
    });
    turn(now in words ? now : "");
    bar.append(theme);
  }
"""
"""Statements within the function of `script.SCRIPT`."""
