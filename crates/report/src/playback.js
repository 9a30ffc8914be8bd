// ---- Time.
const slider = document.getElementById("time"), clock = document.getElementById("clock");
const button = document.getElementById("play"), speed = document.getElementById("speed");
slider.max = frames - 1;
if (ended) {
  const mark = slider.parentNode.appendChild(document.createElement("i"));
  mark.id = "fall";
  mark.title = `${ended} at ${end.toFixed(2)} s`;
}
let at = 0, playing = true, before = null;
const show = () => {
  const frame = Math.min(frames - 1, Math.floor(at));
  slider.value = frame;
  const over = ended && frame === frames - 1;
  clock.textContent = `${(frame * seconds).toFixed(2)} s${over ? `, ${ended}` : ""}`;
  clock.className = over ? "fell" : "";
  draw(frame);
  updates.forEach((update) => update(frame));
};
const set = (on) => { playing = on; before = null; button.textContent = on ? "pause" : "play"; };
const toggle = () => { if (!playing && at >= frames - 1) at = 0; set(!playing); };
const go = (frame) => { at = Math.min(frames - 1, Math.max(0, Math.round(frame))); set(false); show(); };
button.addEventListener("click", toggle);
slider.addEventListener("input", () => go(Number(slider.value)));
document.addEventListener("keydown", (event) => {
  if (event.target === slider || event.target === speed || event.target === button) return;
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (event.key === " ") { event.preventDefault(); toggle(); }
  else if (by) go(Math.floor(at) + by);
});
const tick = (now) => {
  if (playing) {
    if (before !== null) at += (now - before) / 1000 / seconds * Number(speed.value);
    before = now;
    if (at >= frames - 1) { at = frames - 1; set(false); }
    show();
  }
  requestAnimationFrame(tick);
};
window.addEventListener("resize", show);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
show();
requestAnimationFrame(tick);
