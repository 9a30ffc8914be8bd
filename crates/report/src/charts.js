// ---- The charts: values against seconds. A click or a drag in one goes to that instant.
const { action_names, action_unit, ended } = data;
const charts = document.getElementById("charts");
const end = (frames - 1) * seconds;
const value = (x) => Math.abs(x) >= 100 ? x.toFixed(0) : x.toFixed(3);
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
    const { ctx, width: w, height: h } = sheet(paper);
    const place = { width: w, height: h, left: edge, right: side, top, bottom };
    const across = { low: 0, high: end, ticks: ticks(0, end, Math.max(2, Math.min(6, w / 80))), unit: " s" };
    const [x, y] = axes(ctx, place, across, { low: low - room, high: high + room, ticks: ticks(low, high, 4) });
    const ink = colour("text");
    for (const { values, ink, width } of lines) {
      ctx.strokeStyle = colour(ink); ctx.lineWidth = width;
      path(ctx, values.map((v, i) => [x((i + 1) * seconds), y(v)]));
    }
    ctx.strokeStyle = ink; ctx.lineWidth = 1;
    if (threshold !== undefined) { ctx.setLineDash([6, 4]); path(ctx, [[edge, y(threshold)], [w - side, y(threshold)]]); ctx.setLineDash([]); }
    if (ended) {
      ctx.strokeStyle = ctx.fillStyle = colour("fall"); ctx.lineWidth = 2;
      path(ctx, [[x(end), top], [x(end), h - bottom]]);
      ctx.textAlign = "right"; ctx.textBaseline = "bottom"; ctx.font = "bold 11px system-ui, sans-serif";
      ctx.fillText(ended, x(end) - 5, h - bottom - 3);
    }
    ctx.strokeStyle = ink; ctx.lineWidth = 1.5;
    path(ctx, [[x(frame * seconds), top], [x(frame * seconds), h - bottom]]);
    const [text, broken] = words(Math.max(0, frame - 1));
    right.textContent = text;
    right.className = broken ? "broken" : "";
  };
};
const running = (values) => { let sum = 0; return values.map((v) => sum += v); };
const updates = [];
const earned = running(rewards);
updates.push(chart({ name: "reward so far", lines: [{ values: earned, ink: "reward", width: 1.8 }], words: (i) => [value(earned[i])] }));
for (const { name, unit, mean, threshold, costs } of constraints) {
  const sums = running(costs), sofar = mean ? sums.map((s, i) => s / (i + 1)) : sums;
  const words = (i) => [`${value(sofar[i])} ${sofar[i] <= threshold ? "≤" : ">"} ${threshold}`, sofar[i] > threshold];
  const lines = [{ values: sofar, ink: "cost", width: 1.8 }];
  // What a step costs beside what an episode's mean is; beside a sum it would be a flat line.
  if (mean) lines.unshift({ values: costs, ink: "step", width: 0.8 });
  updates.push(chart({ name: `${mean ? "mean" : "sum of"} ${name} so far`, unit, lines, threshold, words }));
}
action_names.forEach((name, j) => {
  const line = { values: actions.map((a) => a[j]), ink: "action", width: 1 };
  updates.push(chart({ name, unit: action_unit, lines: [line], low: -1, high: 1, words: (i) => [value(actions[i][j])] }));
});

