// ---- Charts of runs: reward, every constraint, multipliers, and whatever else was measured.
const data = new Map();
// Asks for what is not here yet or has grown; what comes is drawn.
const want = (id, names) => {
  const row = runs.get(id), old = data.get(id) ?? { size: -1, names: [], series: {}, asked: "", busy: false, at: 0 };
  data.set(id, old);
  const asked = names.join(",");
  const fresh = old.size === row.size && old.asked === asked;
  if (fresh || old.busy || (old.asked === asked && Date.now() - old.at < 1500)) { if (!fresh && !old.busy) setTimeout(later, 1600); return old; }
  old.busy = true;
  ask("/series", { run: id, names: asked }).then((told) => data.set(id, { ...told, size: row.size, asked, busy: false, at: Date.now() }), () => data.set(id, { ...old, busy: false, at: Date.now(), asked, size: row.size })).then(later);
  return old;
};
const smooth = (ys, by) => {
  if (by <= 0) return ys;
  let sum = 0, weight = 0;
  return ys.map((y) => { sum = by * sum + (1 - by) * y; weight = by * weight + 1 - by; return sum / weight; });
};
let zoom = null;
const panels = new Map();
const panel = (parent, key, title, wide) => {
  let one = panels.get(key);
  if (one) { one.title.textContent = title; if (one.figure.parentNode !== parent) parent.append(one.figure); return one; }
  const figure = make("figure", parent), caption = make("figcaption", figure), canvas = make("canvas", figure);
  one = { figure, title: make("span", caption, title), canvas, lines: [], at: null };
  canvas.tabIndex = 0; canvas.setAttribute("aria-label", title);
  for (const kind of ["SVG", "PNG", "PDF", "CSV"]) make("button", caption, kind).addEventListener("click", () => save(one, kind));
  panels.set(key, one);
  if (!wide) listen(one);
  return one;
};
// Values at a place, under the mouse or with the arrow keys; a drag chooses a part of the axis.
const listen = (one) => {
  const { canvas, figure } = one;
  const clear = () => { one.tip?.remove(); one.tip = null; one.at = null; };
  const at = (event) => { const box = canvas.getBoundingClientRect(); return one.value?.((event.clientX - box.left)); };
  const tell = (x) => {
    if (x === undefined || !one.frame) return;
    clear();
    one.at = Math.min(Math.max(x, one.x.low), one.x.high);
    one.tip = make("div", figure, undefined, "tip");
    make("div", one.tip, look.over === "x" ? `${Math.round(one.at).toLocaleString("en")} steps` : duration(one.at));
    for (const line of one.lines.slice(0, 24)) {
      if (!line.xs.length) continue;
      let [a, b] = [0, line.xs.length - 1];
      while (b - a > 1) { const m = (a + b) >> 1; if (line.xs[m] < one.at) a = m; else b = m; }
      const near = Math.abs(line.xs[a] - one.at) < Math.abs(line.xs[b] - one.at) ? a : b;
      make("div", one.tip, `${number(line.ys[near])}  ${line.name}`).style.borderColor = line.colour;
    }
    const place = one.px(one.at), right = place > one.frame.width / 2;
    one.tip.style.left = right ? "" : `${place + 10}px`; one.tip.style.right = right ? `${one.frame.width - place + 10}px` : ""; one.tip.style.top = "30px";
    paint(one);
  };
  let from = null;
  canvas.addEventListener("pointerdown", (event) => { from = at(event); canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (from !== null && event.buttons === 1 && Math.abs(one.px(at(event)) - one.px(from)) > 6) { clear(); one.brush = [from, at(event)]; paint(one); } else tell(at(event));
  });
  canvas.addEventListener("pointerup", () => {
    if (one.brush) { const [a, b] = one.brush.map((x) => Math.min(Math.max(x, one.x.low), one.x.high)).sort((a, b) => a - b); zoom = b > a ? [a, b] : null; one.brush = null; later(); }
    from = null;
  });
  canvas.addEventListener("pointerleave", () => { if (from === null) { clear(); paint(one); } });
  canvas.addEventListener("blur", () => { clear(); paint(one); });
  canvas.addEventListener("dblclick", () => { zoom = null; later(); });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -0.02, ArrowRight: 0.02, Home: -2, End: 2 }[event.key];
    if (by === undefined || !one.x) return;
    event.preventDefault(); event.stopPropagation();
    tell((one.at ?? one.x.high) + by * (one.x.high - one.x.low));
  });
};
const paint = (one, onto) => {
  if (!one.lines.length && !onto && !one.drawn) { const { ctx } = sheet(one.canvas); ctx.fillStyle = colour("faint"); ctx.font = "13px system-ui, sans-serif"; ctx.fillText("nothing measured yet", 20, 30); return; }
  if (one.draw) return one.draw(onto);
  const { ctx, width, height } = onto ?? sheet(one.canvas);
  const frame = { width, height, left: 52, right: 12, top: 8, bottom: 20 };
  let [low, high, left, right] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const { xs } of one.lines) if (xs.length) { left = Math.min(left, xs[0]); right = Math.max(right, xs[xs.length - 1]); }
  left = Math.min(left, 0);
  if (zoom) [left, right] = zoom;
  for (const { xs, ys, lows, highs } of one.lines) for (let i = 0; i < xs.length; i++) if ((xs[i + 1] ?? xs[i]) >= left && (xs[i - 1] ?? xs[i]) <= right) { const a = lows ? lows[i] : ys[i], b = highs ? highs[i] : ys[i]; if ((!look.log || a > 0) && a < low) low = a; if (b > high) high = b; }
  if (one.bound !== undefined && (!look.log || one.bound > 0)) { low = Math.min(low, one.bound); high = Math.max(high, one.bound); }
  if (!(high >= low)) [low, high] = look.log ? [0.1, 1] : [0, 1];
  if (look.log) { low = Math.max(low, high * 1e-9); low /= 1.2; high *= 1.2; } else { const room = 0.05 * (high - low || Math.abs(high) || 1); low -= room; high += room; }
  const x = { low: left, high: right > left ? right : left + 1, ...(look.over === "t" ? { ticks: ticks(left, right, 5).map(([v]) => [v, duration(v)]) } : {}) };
  const [px, py] = axes(ctx, frame, x, { low, high, log: look.log });
  Object.assign(one, { frame, x, px, value: (at) => x.low + (at - frame.left) / (width - frame.left - frame.right) * (x.high - x.low) });
  ctx.save(); ctx.beginPath(); ctx.rect(frame.left, frame.top, width - frame.left - frame.right, height - frame.top - frame.bottom); ctx.clip();
  const place = (v) => look.log && v <= 0 ? NaN : py(v);
  for (const { xs, lows, highs, colour } of one.lines) if (lows) {
    ctx.globalAlpha = 0.18; ctx.fillStyle = colour; ctx.beginPath();
    xs.forEach((v, i) => i ? ctx.lineTo(px(v), place(highs[i])) : ctx.moveTo(px(v), place(highs[i])));
    for (let i = xs.length - 1; i >= 0; i--) ctx.lineTo(px(xs[i]), place(Math.max(lows[i], look.log ? low : -Infinity)));
    ctx.closePath(); ctx.fill(); ctx.globalAlpha = 1;
  }
  for (const { xs, ys, colour, here } of one.lines) { ctx.strokeStyle = colour; ctx.lineWidth = here ? 2.4 : 1.3; path(ctx, Array.from(xs, (v, i) => [px(v), place(ys[i])])); }
  ctx.restore();
  ctx.lineWidth = 1; ctx.strokeStyle = colour("text");
  if (one.bound !== undefined && one.bound >= low && one.bound <= high) { ctx.setLineDash([6, 4]); path(ctx, [[frame.left, py(one.bound)], [width - frame.right, py(one.bound)]]); ctx.setLineDash([]); }
  if (!onto && one.at !== null) path(ctx, [[px(one.at), frame.top], [px(one.at), height - frame.bottom]]);
  if (!onto && one.brush) { ctx.globalAlpha = 0.2; ctx.fillStyle = colour("mark"); const [a, b] = one.brush.map(px); ctx.fillRect(a, frame.top, b - a, height - frame.top - frame.bottom); ctx.globalAlpha = 1; }
};
const save = async (one, kind) => {
  const name = one.title.textContent.replace(/[^\w.=-]+/g, "-").replace(/^-|-$/g, "") || "figure";
  const give = (blob, end) => { const a = make("a"); a.href = URL.createObjectURL(blob); a.download = `${name}.${end}`; a.click(); setTimeout(() => URL.revokeObjectURL(a.href), 1000); };
  if (kind === "CSV") return give(new Blob([one.csv ? one.csv() : csv(one)], { type: "text/csv" }), "csv");
  if (kind === "PNG") return one.canvas.toBlob((blob) => give(blob, "png"));
  const svg = new Svg(one.canvas.clientWidth, one.canvas.clientHeight + 18 * Math.min(one.lines.length, 12));
  paint(one, { ctx: svg, width: one.canvas.clientWidth, height: one.canvas.clientHeight });
  one.lines.slice(0, 12).forEach(({ name, colour: ink }, i) => {
    const y = one.canvas.clientHeight + 14 + 18 * i;
    svg.fillStyle = ink; svg.fillRect(52, y - 5, 18, 3); svg.fillStyle = colour("text"); svg.textAlign = "left"; svg.textBaseline = "alphabetic"; svg.fillText(name, 76, y);
  });
  const text = svg.toString();
  if (kind === "SVG") return give(new Blob([text], { type: "image/svg+xml" }), "svg");
  const answer = await fetch(address("/pdf", {}), { method: "POST", body: text });
  if (answer.ok) give(await answer.blob(), "pdf"); else el("chosen").textContent = (await answer.text()).trim();
};
const cell = (text) => /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
const csv = (one) => ["line,x,y,low,high", ...one.lines.flatMap(({ name, xs, ys, lows, highs }) => Array.from(xs, (x, i) => [cell(name), x, ys[i], lows?.[i] ?? "", highs?.[i] ?? ""].join(",")))].join("\n") + "\n";

// Lines of a metric: one for each run, or the mean over seeds with all of them between low and high.
const lines_of = (name, ids) => {
  const order = rank();
  const single = ids.flatMap((id) => {
    const series = data.get(id)?.series[typeof name === "function" ? name(id) : name];
    if (!series?.x.length) return [];
    return [{ id, name: runs.get(id).run, xs: series[look.over], ys: smooth(series.y, look.smooth), colour: colours[order.get(id) % colours.length], here: id === here && ids.length > 1 }];
  });
  if (!look.band) return single;
  const groups = Map.groupBy ? Map.groupBy(single, (line) => label(runs.get(line.id))) : single.reduce((all, line) => { const key = label(runs.get(line.id)); return all.set(key, [...all.get(key) ?? [], line]); }, new Map());
  return [...groups].map(([key, group], i) => {
    const last = Math.min(...group.map((line) => line.xs[line.xs.length - 1])), first = Math.max(...group.map((line) => line.xs[0]));
    const xs = Array.from({ length: 200 }, (_, k) => first + (last - first) * k / 199);
    const all = group.map((line) => { let k = 0; return xs.map((x) => { while (k < line.xs.length - 2 && line.xs[k + 1] < x) k++; const [a, b] = [line.xs[k], line.xs[Math.min(k + 1, line.xs.length - 1)]], f = b > a ? Math.min(1, Math.max(0, (x - a) / (b - a))) : 0; return line.ys[k] * (1 - f) + line.ys[Math.min(k + 1, line.ys.length - 1)] * f; }); });
    const over = (f) => xs.map((_, k) => f(all.map((ys) => ys[k])));
    return { name: `${key}, n = ${group.length}`, xs, ys: over((ys) => ys.reduce((a, b) => a + b, 0) / ys.length), lows: over((ys) => Math.min(...ys)), highs: over((ys) => Math.max(...ys)), colour: colours[i % colours.length] };
  });
};
const show_curves = () => {
  const ids = [...rank().keys()], sampled = look.face === "sampled";
  const costs = [...new Set(ids.flatMap((id) => runs.get(id).bounds.map((b) => b.name)))];
  const index = (name) => (id) => { const i = runs.get(id).bounds.findIndex((b) => b.name === name); return i < 0 ? "" : `${sampled ? "sampled_cost" : "learner_cost"}.${i}`; };
  const lambda = (name) => (id) => { const i = runs.get(id).bounds.findIndex((b) => b.name === name); return i < 0 ? "" : `lambda_learner.${i}`; };
  const asked = ["learner_reward", "sampled_reward", ...[0, 1, 2, 3].flatMap((i) => [`learner_cost.${i}`, `sampled_cost.${i}`, `lambda_learner.${i}`]), "critic_loss", "actor_loss", "seconds_collect", "seconds_updates", "seconds_tests", look.more].filter(Boolean);
  const names = new Set(ids.flatMap((id) => want(id, asked).names));
  const parent = el("charts"), used = new Set();
  const add = (key, title, name, bound) => {
    const one = panel(parent, key, title);
    used.add(key);
    Object.assign(one, { lines: lines_of(name, ids), bound, drawn: true });
    paint(one);
  };
  const face = sampled ? "sampled actions" : "mean action";
  add("reward", `reward, ${face}`, sampled ? "sampled_reward" : "learner_reward");
  for (const name of costs) {
    const bounds = new Set(ids.flatMap((id) => runs.get(id).bounds.filter((b) => b.name === name).map((b) => b.bound)));
    const kind = ids.flatMap((id) => runs.get(id).bounds).find((b) => b.name === name).aggregate;
    add(`cost ${name}`, `${kind} ${name}, ${face}`, index(name), bounds.size === 1 ? [...bounds][0] : undefined);
  }
  for (const name of costs) if (ids.some((id) => data.get(id)?.series[lambda(name)(id)])) add(`lambda ${name}`, `λ of ${name}`, lambda(name));
  for (const name of ["critic_loss", "actor_loss"]) if (names.has(name)) add(name, name.replace("_", " "), name);
  if (ids.length === 1 && names.has("seconds_updates")) {
    const id = ids[0], one = panel(parent, "time", "where the time goes: seconds so far");
    used.add("time");
    const part = ["collect", "updates", "tests"].map((name, i) => ({ name, ...data.get(id).series[`seconds_${name}`], colour: colours[i] })).filter((line) => line.x);
    Object.assign(one, { lines: part.map(({ name, x, t, y, colour }) => ({ name, xs: look.over === "x" ? x : t, ys: y, colour })), bound: undefined, drawn: true });
    paint(one);
  }
  if (look.more && names.has(look.more)) add("more", look.more, look.more);
  for (const [key, one] of panels) if (one.figure.parentNode === parent && !used.has(key)) one.figure.remove();
  const more = el("more"), all = ["", ...[...names].sort()];
  if (more.options.length !== all.length || [...more.options].some((option, i) => option.value !== all[i])) { more.textContent = ""; for (const name of all) { const option = make("option", more, name || "nothing else"); option.value = name; } }
  more.value = look.more;
  el("chosen").textContent = ids.length ? `${ids.length} of ${runs.size} runs` : "no run is chosen";
  const legend = el("legend"), lines = panels.get("reward").lines;
  legend.textContent = "";
  for (const line of lines) { const one = make("span", legend); make("i", one).style.background = line.colour; one.append(line.name); }
};

// ---- The population: reward against cost, who is elite, who comes of whom.
const people = { id: null, told: null, generation: null, size: null, playing: false, busy: false };
const population = async (id, generation) => {
  if (people.busy) return;
  people.busy = true;
  try {
    const told = await ask("/population", generation === null ? { run: id } : { run: id, generation });
    if (told) Object.assign(people, { id, told, generation, size: runs.get(id)?.size });
  } catch { /* it may be gone */ }
  people.busy = false;
  later();
};
const show_population = () => {
  const row = runs.get(here);
  const none = !row || !row.population;
  el("who").textContent = !row ? "no run is chosen" : none ? `${row.run} has no population` : "";
  for (const part of [el("go").parentNode, el("scatter")]) part.hidden = none;
  if (none) return;
  const last = people.generation === null;
  if (people.id !== here) { people.generation = null; population(here, null); return; }
  if (last && people.size !== row.size) population(here, null);
  const { generations, now, before } = people.told;
  if (!now) return;
  const slider = el("generation"), at = generations.indexOf(now.generation);
  slider.max = generations.length - 1; slider.value = at;
  el("which").textContent = `generation ${now.generation} of ${generations[generations.length - 1]}${last ? ", the newest" : ""}`;
  const cost = el("cost");
  if (cost.options.length !== row.bounds.length) { cost.textContent = ""; row.bounds.forEach((b, i) => { make("option", cost, b.name).value = i; }); }
  const which = Math.max(0, Number(cost.value) || 0), bound = row.bounds[which];
  cost.parentNode.hidden = row.bounds.length < 2;
  const one = panel(el("scatter"), "scatter", `population of ${row.run}, generation ${now.generation}`, true);
  const value = (member) => bound ? member.cost[which] : 0;
  one.lines = []; one.drawn = true;
  one.csv = () => ["slot,rank,elite,reward,cost,violation,lambda,origin,parents", ...now.individuals.map((m) => [m.slot, m.rank, m.elite, m.reward, m.cost.join(" "), m.violation, m.lambda.join(" "), m.origin, m.parents.join(" ")].join(","))].join("\n") + "\n";
  one.draw = (onto) => {
    const { ctx, width, height } = onto ?? sheet(one.canvas);
    const frame = { width, height, left: 56, right: 14, top: 10, bottom: 34 };
    const all = [...now.individuals, ...before?.individuals ?? []], xs = all.map(value), ys = all.map((m) => m.reward);
    const [l, r] = [Math.min(0, ...xs), Math.max(...xs, bound?.bound ?? 0)], [b, t] = [Math.min(...ys), Math.max(...ys)];
    const [px, py] = axes(ctx, frame, { low: l, high: r + 0.06 * (r - l || 1) }, { low: b - 0.08 * (t - b || 1), high: t + 0.08 * (t - b || 1) });
    ctx.fillStyle = colour("text"); ctx.textAlign = "center"; ctx.fillText(bound ? `${bound.aggregate} ${bound.name}` : "no constraint", width / 2, height - 4);
    if (bound) { ctx.setLineDash([6, 4]); ctx.strokeStyle = colour("text"); path(ctx, [[px(bound.bound), frame.top], [px(bound.bound), height - frame.bottom]]); ctx.setLineDash([]); }
    const old = new Map((before?.individuals ?? []).map((m) => [m.slot, m]));
    ctx.globalAlpha = 0.45; ctx.lineWidth = 1;
    for (const m of now.individuals) for (const parent of m.parents) {
      const from = old.get(parent);
      if (from) { ctx.strokeStyle = colour("faint"); path(ctx, [[px(value(from)), py(from.reward)], [px(value(m)), py(m.reward)]]); }
    }
    ctx.globalAlpha = 0.35; ctx.fillStyle = colour("faint");
    for (const m of old.values()) { ctx.beginPath(); ctx.arc(px(value(m)), py(m.reward), 2.5, 0, 7); ctx.fill(); }
    ctx.globalAlpha = 1;
    for (const m of now.individuals) {
      const [x, y] = [px(value(m)), py(m.reward)];
      ctx.fillStyle = colour(m.violation === 0 ? "kept" : "broken"); ctx.beginPath();
      if (m.origin === "learner") ctx.rect(x - 5, y - 5, 10, 10); else ctx.arc(x, y, 5, 0, 7);
      ctx.fill();
      if (m.elite) { ctx.strokeStyle = colour("text"); ctx.lineWidth = 2; ctx.beginPath(); ctx.arc(x, y, 8, 0, 7); ctx.stroke(); }
      ctx.fillStyle = colour("text"); ctx.textAlign = "left"; ctx.textBaseline = "middle"; ctx.font = "11px system-ui, sans-serif"; ctx.fillText(m.slot, x + 10, y);
    }
    ctx.textBaseline = "alphabetic";
  };
  paint(one);
  const best = now.individuals[0], kept = now.individuals.filter((m) => m.violation === 0).length;
  el("who").textContent = `${kept} of ${now.individuals.length} keep every constraint; first of the ranking: ${best.slot} with ${number(best.reward)}${best.cost.length ? ` at ${best.cost.map(number).join(", ")}` : ""}. Ringed: elites; square: a copy of the learner; grey: the generation before, with lines to whom it became.`;
};
const step_generation = (by) => {
  const all = people.told?.generations ?? [], at = all.indexOf(people.told?.now?.generation) + by;
  if (at >= 0 && at < all.length) population(here, all[at]); else people.playing = false;
};
const play_generations = () => {
  people.playing = !people.playing;
  el("go").textContent = people.playing ? "pause" : "play";
  const all = people.told?.generations ?? [];
  if (people.playing && people.told?.now?.generation === all[all.length - 1]) population(here, all[0]);
};
setInterval(() => { if (people.playing && look.view === "population") { step_generation(1); el("go").textContent = people.playing ? "pause" : "play"; } }, 250);
el("go").addEventListener("click", play_generations);
el("generation").addEventListener("input", (event) => { people.playing = false; const all = people.told.generations, at = Number(event.target.value); people.busy = false; population(here, at === all.length - 1 ? null : all[at]); });
el("cost").addEventListener("change", later);

// ---- The robot: the newest best policy, replaced when a better one is saved.
let shown_robot = "";
const show_robot = () => {
  const row = runs.get(here), key = row?.best ? `${here} ${row.best}` : "";
  el("robot-told").textContent = !row ? "no run is chosen" : row.best ? `the best policy of ${row.run} so far${row.reward === null ? "" : `: reward ${number(row.reward)}`}` : `${row.run} has no policy yet that was tested twice`;
  if (key === shown_robot) return;
  shown_robot = key;
  el("frame").textContent = "";
  if (!key) return;
  const frame = make("iframe", el("frame"));
  frame.title = "the robot in 3-D";
  frame.src = address("/robot", { run: here, of: row.best });
};

// ---- Two runs beside each other, and all of one.
let compared = "";
const show_compare = async () => {
  const [a, b] = [...rank().keys()], parent = el("compare"), key = `${a} ${b} ${runs.get(a)?.size} ${runs.get(b)?.size}`;
  if (b === undefined) { parent.textContent = "choose two runs with space to see what differs"; compared = ""; return; }
  if (key === compared) return;
  compared = key;
  const told = await ask("/compare", { run: a, with: b }).catch((error) => ({ error: error.message }));
  const [x, y] = [runs.get(a), runs.get(b)];
  if (!x || !y) return;
  parent.textContent = "";
  if (told.error) { parent.textContent = told.error; return; }
  const table = make("table", parent);
  const line = (cells, head) => { const tr = make("tr", table); for (const text of cells) make(head ? "th" : "td", tr, text); };
  line(["", x.run, y.run], true);
  told.rows.forEach((row) => line(row));
  const both = (row) => row.reward === null ? "-" : `${number(row.reward)} / ${number(row.sampled_reward)}`;
  line(["reward, mean / sampled", both(x), both(y)]);
  for (const name of new Set([...x.constraints, ...y.constraints].map((c) => c.constraint))) line([name, ...[x, y].map((row) => { const c = row.constraints.find((c) => c.constraint === name); return c ? `${number(c.mean)} / ${number(c.sampled)} ${c.kept ? "kept" : "broken"}` : "-"; })]);
  line(["steps taken", ...[x, y].map((row) => `${number(row.steps)} of ${number(row.of)}`)]);
  line(["time", ...[x, y].map((row) => duration(row.seconds))]);
  make("p", parent, told.rows.length ? "all other values are the same" : "all values are the same");
};
let told_about = "";
const show_about = async () => {
  const row = runs.get(here), key = `${here} ${row?.size} ${row?.state}`, parent = el("about");
  if (!row) { parent.textContent = "no run is chosen"; return; }
  if (key === told_about) return;
  told_about = key;
  const told = await ask("/about", { run: here }).catch((error) => ({ error: error.message }));
  parent.textContent = "";
  if (told.error) { parent.textContent = told.error; return; }
  make("h2", parent, row.run);
  make("p", parent, row.reason ? `failed: ${row.reason}` : row.state, row.reason ? "fault" : undefined);
  make("h2", parent, "warnings");
  make("pre", parent, told.warnings === null ? "it has no log: grids keep those of their runs" : told.warnings.join("\n") || "none in its log");
  make("h2", parent, "what differs from the usual values");
  make("pre", parent, told.changes.join("\n") || "nothing");
  make("h2", parent, "what it was made with");
  make("pre", parent, told.origins.map((origin) => Object.entries(origin).map(([name, value]) => `${name}: ${Array.isArray(value) ? value.join("; ") : value}`).join("\n")).join("\n\n"));
  make("h2", parent, "all values");
  make("pre", parent, told.values);
};

// ---- Views and keys.
const views = { curves: show_curves, population: show_population, robot: show_robot, compare: show_compare, about: show_about };
const show = () => {
  if (!(look.view in views)) look.view = "curves";
  for (const tab of document.querySelectorAll("[data-view]")) tab.setAttribute("aria-selected", tab.dataset.view === look.view);
  for (const view of document.querySelectorAll(".view")) view.hidden = view.id !== look.view;
  if (look.view !== "robot" && shown_robot) { shown_robot = ""; el("frame").textContent = ""; }
  views[look.view]();
};
const controls = { sort: "value", filter: "value", over: "value", face: "value", more: "value", band: "checked", log: "checked", smooth: "value" };
const set = (key, value) => { look[key] = value; el(key)[controls[key]] = value; if (key === "over") zoom = null; keep(); later(); };
for (const [key, kind] of Object.entries(controls)) {
  el(key)[kind] = look[key];
  el(key).addEventListener(kind === "checked" || el(key).tagName === "SELECT" ? "change" : "input", (event) => set(key, key === "smooth" ? Number(event.target.value) : event.target[kind]));
}
for (const tab of document.querySelectorAll("[data-view]")) tab.addEventListener("click", () => { look.view = tab.dataset.view; keep(); later(); });
const help = () => { el("help").hidden = !el("help").hidden; el("help-button").setAttribute("aria-expanded", !el("help").hidden); };
el("help-button").addEventListener("click", help);
const next = (list, value, by = 1) => list[(list.indexOf(value) + by + list.length) % list.length];
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input[type=search], select, input[type=range]");
  if (event.key === "Escape") { if (typing) event.target.blur(); zoom = null; later(); return; }
  if (typing) { if (event.key === "Enter" || (event.key === "ArrowDown" && event.target === el("filter"))) { event.target.blur(); event.preventDefault(); list(); if (listed.length && !listed.includes(here)) move(listed[0]); } return; }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const by = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
  const button = event.target.matches("button, [role=tab]");
  const acts = {
    "/": () => el("filter").focus(), "?": help, " ": () => { if (here !== null && !button) toggle(here); else if (button) event.target.click(); },
    Enter: () => { if (button) event.target.click(); else if (here !== null) choose([here]); },
    a: () => choose(listed.slice(0, 60)), x: () => choose([]), s: () => set("sort", next([...el("sort").options].map((o) => o.value), look.sort)),
    g: () => set("band", !look.band), l: () => set("log", !look.log), t: () => set("over", next(["x", "t"], look.over)), f: () => set("face", next(["mean", "sampled"], look.face)),
    "[": () => set("smooth", Math.max(0, Math.round(50 * look.smooth - 5) / 50)), "]": () => set("smooth", Math.min(0.98, Math.round(50 * look.smooth + 5) / 50)),
    p: () => { if (look.view === "population") play_generations(); },
    ArrowLeft: () => { if (look.view === "population") step_generation(-1); }, ArrowRight: () => { if (look.view === "population") step_generation(1); },
  };
  for (const [i, view] of Object.keys(views).entries()) acts[String(i + 1)] = () => { look.view = view; keep(); later(); };
  if (by !== undefined && listed.length) { event.preventDefault(); const at = listed.indexOf(here); move(listed[Math.min(listed.length - 1, Math.max(0, at < 0 ? 0 : at + by))]); } else if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
});
for (const what of ["resize", "hashchange"]) window.addEventListener(what, later);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
later();
