// ---- The charts: values against seconds. A click or a drag in one goes to that instant.
const { action_names, action_unit, ended } = data;
const charts = document.getElementById("charts");
const end = (frames - 1) * seconds;
const number = (x) => Math.abs(x) >= 100 ? x.toFixed(0) : x.toFixed(3);
// Round numbers from low to high, a few, each with its text.
const ticks = (low, high, count) => {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= 0.8 * rough);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) out.push([i * step, (i * step).toFixed(digits).replace(/^-(0\.?0*)$/, "$1")]);
  return out;
};
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
const chart = ({ name, unit, lines, threshold, words, low, high }) => {
  const figure = charts.appendChild(document.createElement("figure"));
  const caption = figure.appendChild(document.createElement("figcaption"));
  const [left, right] = [0, 1].map(() => caption.appendChild(document.createElement("span")));
  left.append(name);
  if (unit) { const small = left.appendChild(document.createElement("small")); small.textContent = ` ${unit}`; }
  const paper = figure.appendChild(document.createElement("canvas"));
  const all = lines.flatMap((line) => line.values).concat(threshold ?? []);
  low ??= Math.min(0, ...all); high ??= Math.max(...all, low + 1e-9);
  const room = 0.05 * (high - low);
  const [edge, bottom, top, side] = [44, 18, 6, 14];
  const seek = (event) => {
    const box = paper.getBoundingClientRect();
    go((event.clientX - box.left - edge) / (box.width - edge - side) * end / seconds);
  };
  paper.addEventListener("pointerdown", (event) => { paper.setPointerCapture(event.pointerId); seek(event); });
  paper.addEventListener("pointermove", (event) => { if (event.buttons === 1) seek(event); });
  return (frame) => {
    const scale = window.devicePixelRatio || 1, ctx = paper.getContext("2d");
    const [w, h] = [paper.clientWidth, paper.clientHeight];
    if (paper.width !== Math.round(w * scale) || paper.height !== Math.round(h * scale)) { paper.width = Math.round(w * scale); paper.height = Math.round(h * scale); }
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
    ctx.clearRect(0, 0, w, h);
    const y = (v) => h - bottom - (v - low + room) / (high - low + 2 * room) * (h - top - bottom);
    const x = (t) => edge + t / end * (w - edge - side);
    const path = (points) => { ctx.beginPath(); points.forEach(([a, b], i) => i ? ctx.lineTo(a, b) : ctx.moveTo(a, b)); ctx.stroke(); };
    const [ink, rule] = [colour("text"), colour("line")];
    ctx.font = "11px system-ui, sans-serif"; ctx.fillStyle = ink; ctx.lineWidth = 1;
    ctx.textAlign = "right"; ctx.textBaseline = "middle"; ctx.strokeStyle = rule;
    for (const [v, text] of ticks(low, high, 4)) { ctx.fillText(text, edge - 6, y(v)); path([[edge, y(v)], [w - side, y(v)]]); }
    ctx.textAlign = "center"; ctx.textBaseline = "alphabetic";
    for (const [t, text] of ticks(0, end, Math.max(2, Math.min(6, w / 80)))) { ctx.fillText(`${text} s`, Math.min(x(t), w - 14), h - 4); path([[x(t), h - bottom], [x(t), h - bottom + 3]]); }
    path([[edge, top], [edge, h - bottom], [w - side, h - bottom]]);
    for (const { values, ink, width } of lines) {
      ctx.strokeStyle = colour(ink); ctx.lineWidth = width;
      path(values.map((v, i) => [x((i + 1) * seconds), y(v)]));
    }
    ctx.strokeStyle = ink; ctx.lineWidth = 1;
    if (threshold !== undefined) { ctx.setLineDash([6, 4]); path([[edge, y(threshold)], [w - side, y(threshold)]]); ctx.setLineDash([]); }
    if (ended) {
      ctx.strokeStyle = ctx.fillStyle = colour("fall"); ctx.lineWidth = 2;
      path([[x(end), top], [x(end), h - bottom]]);
      ctx.textAlign = "right"; ctx.textBaseline = "bottom"; ctx.font = "bold 11px system-ui, sans-serif";
      ctx.fillText(ended, x(end) - 5, h - bottom - 3);
    }
    ctx.strokeStyle = ink; ctx.lineWidth = 1.5;
    path([[x(frame * seconds), top], [x(frame * seconds), h - bottom]]);
    const [text, broken] = words(Math.max(0, frame - 1));
    right.textContent = text;
    right.className = broken ? "broken" : "";
  };
};
const running = (values) => { let sum = 0; return values.map((v) => sum += v); };
const updates = [];
const earned = running(rewards);
updates.push(chart({ name: "reward so far", lines: [{ values: earned, ink: "reward", width: 1.8 }], words: (i) => [number(earned[i])] }));
for (const { name, unit, mean, threshold, costs } of constraints) {
  const sums = running(costs), value = mean ? sums.map((s, i) => s / (i + 1)) : sums;
  const words = (i) => [`${number(value[i])} ${value[i] <= threshold ? "≤" : ">"} ${threshold}`, value[i] > threshold];
  const lines = [{ values: value, ink: "cost", width: 1.8 }];
  // What a step costs beside what an episode's mean is; beside a sum it would be a flat line.
  if (mean) lines.unshift({ values: costs, ink: "step", width: 0.8 });
  updates.push(chart({ name: `${mean ? "mean" : "sum of"} ${name} so far`, unit, lines, threshold, words }));
}
action_names.forEach((name, j) => {
  const line = { values: actions.map((a) => a[j]), ink: "action", width: 1 };
  updates.push(chart({ name, unit: action_unit, lines: [line], low: -1, high: 1, words: (i) => [number(actions[i][j])] }));
});

