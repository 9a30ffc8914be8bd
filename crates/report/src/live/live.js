// ---- What the page knows: the runs as they were told, which are chosen, and how they are looked at.
const el = (id) => document.getElementById(id);
const make = (kind, parent, text, cls) => {
  const node = document.createElement(kind);
  if (text !== undefined) node.textContent = text;
  if (cls) node.className = cls;
  parent?.append(node);
  return node;
};
const token = new URLSearchParams(location.search).get("token");
const address = (path, query) => `${path}?${new URLSearchParams(token ? { ...query, token } : query)}`;
const ask = async (path, query) => {
  const answer = await fetch(address(path, query));
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
};
const runs = new Map();
const chosen = new Set();
let here = null, listed = [];
// How it is looked at; kept in the address, so that it is the same after a reload.
const look = { view: "curves", sort: "recorded", filter: "", over: "x", face: "mean", band: false, log: false, smooth: 0, more: "", chosen: "" };
for (const [key, text] of new URLSearchParams(location.hash.slice(1))) if (key in look) look[key] = typeof look[key] === "boolean" ? text === "true" : typeof look[key] === "number" ? Number(text) || 0 : text;
// Those that were chosen, and have not been told of yet.
const wanted = new Set(look.chosen.split("\n").filter(Boolean));
const keep = () => history.replaceState(null, "", `${location.pathname}${location.search}#${new URLSearchParams(look)}`);

const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#56b4e9", "#e69f00", "#7a4fd0", "#5c8f1e", "#c0182b"];
const rank = () => new Map([...chosen].filter((n) => runs.has(n)).map((n, i) => [n, i]));
const duration = (s) => s >= 86400 ? `${(s / 86400).toFixed(1)} d` : s >= 3600 ? `${(s / 3600).toFixed(1)} h` : s >= 60 ? `${Math.round(s / 60)} min` : `${Math.round(s)} s`;
const label = (row) => `${row.task} ${row.algorithm}`;

// ---- The list.
const eta = (row) => row.steps > 0 && row.seconds > 0 && row.steps < row.of ? row.seconds / row.steps * (row.of - row.steps) : null;
const spark = (points) => {
  if (points.length < 2) return null;
  const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
  const [l, r, b, t] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 70 24"); svg.setAttribute("aria-hidden", "true");
  const line = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "polyline"));
  line.setAttribute("points", points.map(([x, y]) => `${(1 + 68 * (x - l) / (r - l || 1)).toFixed(1)},${(22 - 20 * (y - b) / (t - b || 1)).toFixed(1)}`).join(" "));
  for (const [key, value] of [["fill", "none"], ["stroke", "currentColor"], ["stroke-width", "1.3"]]) line.setAttribute(key, value);
  return svg;
};
const rows = new Map();
const fill = (tr, id, row) => {
  tr.textContent = "";
  const mark = make("td", tr);
  const box = make("input", mark); box.type = "checkbox"; box.checked = chosen.has(id); box.tabIndex = -1;
  box.setAttribute("aria-label", `show ${row.run}`);
  const order = rank().get(id);
  if (order !== undefined) make("i", mark, "", "colour").style.background = colours[order % colours.length];
  const name = make("td", tr, undefined, "name");
  make("i", name, "", `dot ${row.state}`).title = row.state;
  name.append(row.run);
  make("small", name, `${row.task} · ${row.algorithm} · seed ${row.seed}${row.changed ? " · changed midway" : ""}`);
  if (row.reason) make("small", name, row.reason, "fault");
  const progress = make("td", tr), bar = make("span", progress, undefined, "bar"), share = Math.min(1, row.steps / row.of);
  make("i", bar).style.width = `${(100 * share).toFixed(1)}%`;
  const left = eta(row);
  make("span", progress, row.state === "going" && left !== null ? `${Math.floor(100 * share)} %, ${duration(left)}` : `${number(row.steps)}${row.steps < row.of ? ` of ${number(row.of)}` : ""} ${row.state === "going" ? "" : row.state}`, "sub");
  const last = row.last_reward === null ? "-" : number(row.last_reward), reward = make("td", tr, row.reward === null ? last : number(row.reward));
  if (row.sampled_reward !== null) make("small", reward, `${number(row.sampled_reward)} sampled${row.policy === "last" ? ", last" : ""}`, "sub");
  const costs = make("td", tr);
  for (const c of row.constraints) {
    const line = make("div", costs, `${number(c.mean)} / ${number(c.sampled)}`, c.kept ? "kept" : "broken");
    make("span", line, ` ${c.constraint}`, "sub"); line.title = c.kept ? "kept, both ways" : "broken";
  }
  const curve = spark(row.spark), cell = make("td", tr);
  if (curve) cell.append(curve);
};
const draw_row = (id) => {
  const row = runs.get(id);
  let tr = rows.get(id);
  if (!tr) {
    tr = document.createElement("tr"); tr.tabIndex = -1; tr.dataset.run = id;
    rows.set(id, tr);
  }
  fill(tr, id, row);
  tr.classList.toggle("here", id === here);
};
const orders = {
  run: (a, b) => a.run.localeCompare(b.run), task: (a, b) => label(a).localeCompare(label(b)) || a.seed - b.seed,
  algorithm: (a, b) => a.algorithm.localeCompare(b.algorithm) || a.task.localeCompare(b.task) || a.seed - b.seed,
  reward: (a, b) => kept(b) - kept(a) || (b.reward ?? b.last_reward ?? -Infinity) - (a.reward ?? a.last_reward ?? -Infinity),
  progress: (a, b) => b.steps / b.of - a.steps / a.of, state: (a, b) => a.state.localeCompare(b.state),
  recorded: (a, b) => (b.state === "going") - (a.state === "going") || (b.recorded ?? 0) - (a.recorded ?? 0),
};
const kept = (row) => row.constraints.length > 0 && row.constraints.every((c) => c.kept);
const list = () => {
  const all = look.filter.toLowerCase().split(/\s+/).filter(Boolean), words = all.filter((word) => !word.startsWith("sort:"));
  const typed = all.filter((word) => word.startsWith("sort:")).map((word) => Object.keys(orders).find((name) => word.length > 5 && name.startsWith(word.slice(5))));
  const has = (row) => { const text = `${row.run} ${row.task} ${row.algorithm} ${row.state} seed${row.seed} ${kept(row) ? "feasible" : ""}`.toLowerCase(); return words.every((word) => text.includes(word)); };
  const order = orders[typed.find(Boolean) ?? look.sort] ?? orders.recorded;
  listed = [...runs].filter(([, row]) => has(row)).sort(([i, a], [j, b]) => order(a, b) || i - j).map(([id]) => id);
  const body = el("rows"), nodes = listed.map((id) => rows.get(id));
  // What is in its place already stays there: a list of a thousand is not made anew for one that moved.
  nodes.forEach((tr, i) => { if (body.children[i] !== tr) body.insertBefore(tr, body.children[i] ?? null); });
  while (body.children.length > nodes.length) body.lastChild.remove();
  // How long it took, for whoever measures.
  if (nodes.length && !performance.getEntriesByName("listed").length) performance.mark("listed");
  el("none").textContent = runs.size === 0 ? "no runs yet: they appear here as they begin" : listed.length === 0 ? `none of ${runs.size} runs has all of these words` : "";
};
let pending = false;
// Many things may change at once: all is drawn once.
const later = () => { if (!pending) { pending = true; requestAnimationFrame(() => { pending = false; list(); show(); }); } };
const move = (id, scroll = true) => {
  rows.get(here)?.classList.remove("here");
  here = id;
  const tr = rows.get(id);
  tr?.classList.add("here");
  if (scroll) tr?.scrollIntoView({ block: "nearest" });
  later();
};
const choose = (ids) => { const before = [...chosen]; chosen.clear(); ids.forEach((id) => chosen.add(id)); for (const id of new Set([...before, ...chosen])) if (runs.has(id)) draw_row(id); wanted.clear(); look.chosen = [...chosen].slice(0, 50).map((id) => runs.get(id)?.run ?? "").join("\n"); keep(); later(); };
const toggle = (id) => choose(chosen.has(id) ? [...chosen].filter((other) => other !== id) : [...chosen, id]);
el("rows").addEventListener("click", (event) => {
  const tr = event.target.closest("tr");
  if (!tr) return;
  const id = Number(tr.dataset.run);
  move(id, false);
  if (event.target.matches("input") || event.ctrlKey || event.metaKey) toggle(id); else choose([id]);
});

// ---- What is told.
const take = (told) => told.forEach(([id, row]) => { if (wanted.delete(row.run)) chosen.add(id); runs.set(id, row); draw_row(id); });
const lose = (id) => { runs.delete(id); rows.get(id)?.remove(); rows.delete(id); chosen.delete(id); if (here === id) here = null; };
const settle = () => {
  if (here === null && runs.size) {
    list();
    here = listed.find((id) => chosen.has(id)) ?? listed[0] ?? null;
    if (chosen.size === 0 && here !== null) chosen.add(here);
    if (here !== null) draw_row(here);
  }
  later();
};
const events = new EventSource(address("/events", {}));
const link = (text, fault) => { el("link").textContent = text; el("link").className = fault ? "fault" : ""; };
events.addEventListener("open", () => link("live"));
events.addEventListener("error", () => link("the server is gone; it is asked again and again", true));
events.addEventListener("all", (event) => {
  const { rows: told } = JSON.parse(event.data), there = new Set(told.map(([id]) => id));
  for (const id of [...runs.keys()]) if (!there.has(id)) lose(id);
  take(told); settle();
});
events.addEventListener("news", (event) => { const { rows: told, gone } = JSON.parse(event.data); gone.forEach(lose); take(told); settle(); });
