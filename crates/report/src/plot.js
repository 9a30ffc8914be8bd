"use strict";
// ---- Charts: numbers, axes and lines, drawn on a canvas or written as SVG.
// The rule of the figures: see axis.rs.
const number = (x) => {
  const a = Math.abs(x);
  if (a > 0 && a < 1e-3) return x.toExponential(1);
  const [scaled, unit] = a >= 999950 ? [x / 1e6, "M"] : a >= 9999.5 ? [x / 1e3, "k"] : [x, ""];
  const before = Math.floor(Math.log10(Math.max(1, Math.abs(scaled)))) + 1;
  const text = scaled.toFixed(Math.abs(scaled) < 0.1 ? 4 : Math.max(0, 4 - before));
  return (text.includes(".") ? text.replace(/\.?0+$/, "") : text) + unit;
};
// Round numbers from low to high, a few, each with its text.
const ticks = (low, high, count) => {
  if (!(high > low) || !Number.isFinite(high - low)) return [[low, number(low)]];
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= 0.8 * rough) ?? 10 * power;
  const digits = Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))), out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step && out.length < 50; i++) {
    const value = i * step, plain = Math.abs(value) < 9999.5;
    out.push([value, plain ? value.toFixed(digits).replace(/^-(0\.?0*)$/, "$1") : number(value)]);
  }
  return out;
};
// Powers of ten between, or round numbers where there are too few.
const powers = (low, high) => {
  const out = [];
  for (let e = Math.ceil(Math.log10(low) - 1e-9); e <= Math.log10(high) + 1e-9; e++) out.push([10 ** e, e >= -3 && e < 7 ? number(10 ** e) : `1e${e}`]);
  return out.length > 1 ? out : ticks(low, high, 4).filter(([v]) => v > 0);
};
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
// A line through points, broken where one is not a number.
const path = (ctx, points) => {
  ctx.beginPath();
  let on = false;
  for (const [x, y] of points) {
    if (!Number.isFinite(y)) { on = false; continue; }
    if (on) ctx.lineTo(x, y); else ctx.moveTo(x, y);
    on = true;
  }
  ctx.stroke();
};
// Axes around a room; returns how values become places. `x` and `y` have low, high and perhaps texts, a name, log.
const axes = (ctx, { width, height, left, right, top, bottom }, x, y) => {
  const along = (axis, from, to) => {
    const f = axis.log ? Math.log10 : (v) => v, a = f(axis.low), b = f(axis.high);
    return (v) => from + (f(v) - a) / (b - a || 1) * (to - from);
  };
  const [px, py] = [along(x, left, width - right), along(y, height - bottom, top)];
  const [ink, rule] = [colour("text"), colour("line")];
  ctx.font = "11px system-ui, sans-serif"; ctx.fillStyle = ink; ctx.strokeStyle = rule; ctx.lineWidth = 1;
  ctx.textAlign = "right"; ctx.textBaseline = "middle";
  for (const [v, text] of y.ticks ?? (y.log ? powers(y.low, y.high) : ticks(y.low, y.high, 4))) {
    const at = py(v);
    if (at < top - 1 || at > height - bottom + 1) continue;
    ctx.fillText(text, left - 6, at);
    path(ctx, [[left, at], [width - right, at]]);
  }
  ctx.textAlign = "center"; ctx.textBaseline = "alphabetic";
  for (const [v, text] of x.ticks ?? ticks(x.low, x.high, Math.max(2, Math.min(6, width / 80)))) {
    const at = px(v);
    if (at < left - 1 || at > width - right + 1) continue;
    ctx.fillText(text + (x.unit ?? ""), Math.min(at, width - 14), height - bottom + 14);
    path(ctx, [[at, height - bottom], [at, height - bottom + 3]]);
  }
  path(ctx, [[left, top], [left, height - bottom], [width - right, height - bottom]]);
  return [px, py];
};
// A canvas as large as it is shown, ready to be drawn on, in pixels of the page.
const sheet = (canvas) => {
  const scale = window.devicePixelRatio || 1, ctx = canvas.getContext("2d");
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale);
  }
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  ctx.clearRect(0, 0, width, height);
  return { ctx, width, height };
};
// What a canvas is drawn with, written down as SVG.
class Svg {
  constructor(width, height) {
    Object.assign(this, { width, height, parts: [], d: "", dash: [], clips: 0, open: 0 });
    Object.assign(this, { strokeStyle: "#000", fillStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "11px sans-serif", textAlign: "left", textBaseline: "alphabetic" });
  }
  static round(x) { return Math.round(100 * x) / 100; }
  static text(text) { return String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`); }
  beginPath() { this.d = ""; }
  moveTo(x, y) { this.d += `M${Svg.round(x)} ${Svg.round(y)}`; }
  lineTo(x, y) { this.d += `L${Svg.round(x)} ${Svg.round(y)}`; }
  closePath() { this.d += "Z"; }
  rect(x, y, w, h) { this.d += `M${Svg.round(x)} ${Svg.round(y)}h${Svg.round(w)}v${Svg.round(h)}h${Svg.round(-w)}Z`; }
  arc(x, y, r) { this.d += `M${Svg.round(x - r)} ${Svg.round(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`; }
  setLineDash(dash) { this.dash = dash; }
  add(what) { if (this.d) this.parts.push(`<path d="${this.d}" opacity="${this.globalAlpha}" ${what}/>`); }
  stroke() { this.add(`fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"${this.dash.length ? ` stroke-dasharray="${this.dash}"` : ""}`); }
  fill() { this.add(`fill="${this.fillStyle}"`); }
  fillRect(x, y, w, h) { this.beginPath(); this.rect(x, y, w, h); this.fill(); }
  fillText(text, x, y) {
    const anchor = { right: "end", center: "middle" }[this.textAlign] ?? "start", down = { middle: 4, top: 9, bottom: -2 }[this.textBaseline] ?? 0;
    const bold = /bold/.test(this.font) ? ' font-weight="bold"' : "";
    this.parts.push(`<text x="${Svg.round(x)}" y="${Svg.round(y + down)}" font-size="${parseFloat(this.font.match(/[\d.]+px/))}" text-anchor="${anchor}" fill="${this.fillStyle}"${bold}>${Svg.text(text)}</text>`);
  }
  save() { this.parts.push("<g>"); this.open++; }
  clip() { this.parts.push(`<clipPath id="c${this.clips}"><path d="${this.d}"/></clipPath><g clip-path="url(#c${this.clips++})">`); this.open++; }
  restore() { while (this.open) { this.parts.push("</g>"); this.open--; } }
  toString() {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}" font-family="ecrl, sans-serif"><rect width="100%" height="100%" fill="${colour("back")}"/>${this.parts.join("")}</svg>`;
  }
}
