"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const raw = atob(document.getElementById("poses").textContent);
const poses = new Float32Array(Uint8Array.from(raw, (c) => c.charCodeAt(0)).buffer);
const { shapes, rewards, constraints, actions, seconds } = data;
const frames = poses.length / (12 * shapes.length);
const pose = (frame, shape) => poses.subarray((frame * shapes.length + shape) * 12, (frame * shapes.length + shape) * 12 + 12);

// ---- Matrices, column after column as WebGL wants them.
const multiply = (a, b) => {
  const out = new Float32Array(16);
  for (let c = 0; c < 4; c++) for (let r = 0; r < 4; r++)
    for (let k = 0; k < 4; k++) out[4 * c + r] += a[4 * k + r] * b[4 * c + k];
  return out;
};
const perspective = (angle, aspect, near, far) => {
  const f = 1 / Math.tan(angle / 2);
  return new Float32Array([f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) / (near - far), -1, 0, 0, 2 * far * near / (near - far), 0]);
};
const minus = (a, b) => a.map((x, i) => x - b[i]);
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const unit = (a) => { const l = Math.hypot(...a) || 1; return a.map((x) => x / l); };
const lookAt = (eye, target) => {
  const z = unit(minus(eye, target)), x = unit(cross([0, 0, 1], z)), y = cross(z, x);
  return new Float32Array([x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0, -dot(x, eye), -dot(y, eye), -dot(z, eye), 1]);
};
// A pose, moved along its own z and stretched.
const placed = (p, along, sx, sy, sz) => new Float32Array([
  p[3] * sx, p[6] * sx, p[9] * sx, 0, p[4] * sy, p[7] * sy, p[10] * sy, 0, p[5] * sz, p[8] * sz, p[11] * sz, 0,
  p[0] + p[5] * along, p[1] + p[8] * along, p[2] + p[11] * along, 1]);

// ---- Meshes: triangles as positions and normals.
const sphere = () => {
  const out = [], n = 20, m = 28;
  const at = (i, j) => { const a = Math.PI * i / n, b = 2 * Math.PI * j / m; return [Math.sin(a) * Math.cos(b), Math.sin(a) * Math.sin(b), Math.cos(a)]; };
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++)
    for (const [u, v] of [[0, 0], [1, 0], [1, 1], [0, 0], [1, 1], [0, 1]]) { const p = at(i + u, j + v); out.push(...p, ...p); }
  return out;
};
const cylinder = () => {
  const out = [], m = 28, at = (j) => [Math.cos(2 * Math.PI * j / m), Math.sin(2 * Math.PI * j / m)];
  for (let j = 0; j < m; j++) {
    for (const [u, z] of [[0, -1], [1, -1], [1, 1], [0, -1], [1, 1], [0, 1]]) { const [x, y] = at(j + u); out.push(x, y, z, x, y, 0); }
    for (const z of [-1, 1]) for (const k of [null, j, j + 1]) { const [x, y] = k === null ? [0, 0] : at(k); out.push(x, y, z, 0, 0, z); }
  }
  return out;
};
const box = () => {
  const out = [];
  for (let axis = 0; axis < 3; axis++) for (const side of [-1, 1])
    for (const [u, v] of [[-1, -1], [1, -1], [1, 1], [-1, -1], [1, 1], [-1, 1]]) {
      const p = [0, 0, 0], n = [0, 0, 0];
      p[axis] = n[axis] = side; p[(axis + 1) % 3] = u; p[(axis + 2) % 3] = v;
      out.push(...p, ...n);
    }
  return out;
};

// ---- The scene.
const canvas = document.getElementById("scene");
const gl = canvas.getContext("webgl", { antialias: true, preserveDrawingBuffer: true });
const view = { turn: -Math.PI / 2, lift: 0.25, distance: 4, target: [0, 0, 0.6] };
let draw = () => {};
if (gl) {
  const compile = (kind, text) => { const s = gl.createShader(kind); gl.shaderSource(s, text); gl.compileShader(s); return s; };
  const program = gl.createProgram();
  gl.attachShader(program, compile(gl.VERTEX_SHADER, `
    attribute vec3 position; attribute vec3 normal; uniform mat4 camera; uniform mat4 model;
    varying vec3 world; varying vec3 facing;
    void main() { vec4 p = model * vec4(position, 1.0); world = p.xyz;
      facing = normalize(mat3(model) * (normal / max(vec3(dot(model[0], model[0]), dot(model[1], model[1]), dot(model[2], model[2])), 1e-9)));
      gl_Position = camera * p; }`));
  gl.attachShader(program, compile(gl.FRAGMENT_SHADER, `
    precision highp float; varying vec3 world; varying vec3 facing; uniform vec4 colour; uniform float floor_; uniform vec3 eye; uniform vec3 sky;
    void main() { vec3 base = colour.rgb;
      if (floor_ > 0.5) { vec2 tile = floor(world.xy); base = mix(vec3(0.42, 0.46, 0.5), vec3(0.52, 0.56, 0.6), mod(tile.x + tile.y, 2.0)); }
      vec3 n = normalize(facing), light = normalize(vec3(0.3, -0.5, 0.9));
      float shine = pow(max(dot(reflect(-light, n), normalize(eye - world)), 0.0), 24.0) * (1.0 - floor_) * 0.25;
      vec3 lit = base * (0.45 + 0.6 * max(dot(n, light), 0.0)) + shine;
      float far = floor_ * smoothstep(8.0, 26.0, distance(eye, world));
      gl_FragColor = vec4(mix(lit, sky, far), 1.0); }`));
  gl.linkProgram(program);
  gl.useProgram(program);
  const place = Object.fromEntries(["camera", "model", "colour", "floor_", "eye", "sky"].map((n) => [n, gl.getUniformLocation(program, n)]));
  const buffer = (numbers) => {
    const b = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, b);
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(numbers), gl.STATIC_DRAW);
    return { b, count: numbers.length / 6 };
  };
  const meshes = { sphere: buffer(sphere()), cylinder: buffer(cylinder()), box: buffer(box()) };
  const [position, normal] = ["position", "normal"].map((n) => gl.getAttribLocation(program, n));
  const mesh = (name, model) => {
    gl.bindBuffer(gl.ARRAY_BUFFER, meshes[name].b);
    gl.enableVertexAttribArray(position);
    gl.enableVertexAttribArray(normal);
    gl.vertexAttribPointer(position, 3, gl.FLOAT, false, 24, 0);
    gl.vertexAttribPointer(normal, 3, gl.FLOAT, false, 24, 12);
    gl.uniformMatrix4fv(place.model, false, model);
    gl.drawArrays(gl.TRIANGLES, 0, meshes[name].count);
  };
  gl.enable(gl.DEPTH_TEST);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  draw = (frame) => {
    const scale = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(canvas.clientWidth * scale), Math.round(canvas.clientHeight * scale)];
    if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
    gl.viewport(0, 0, w, h);
    const sky = dark.matches ? [0.13, 0.145, 0.17] : [0.9, 0.93, 0.96];
    gl.clearColor(...sky, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    // The camera follows the robot.
    const moving = shapes.map((s, i) => [s, pose(frame, i)]).filter(([s]) => s.kind !== "plane");
    const middle = [0, 1].map((axis) => moving.reduce((sum, [, p]) => sum + p[axis], 0) / moving.length);
    view.target = [middle[0], middle[1], view.target[2]];
    const { turn, lift, distance, target } = view;
    const eye = [target[0] + distance * Math.cos(lift) * Math.cos(turn), target[1] + distance * Math.cos(lift) * Math.sin(turn), target[2] + distance * Math.sin(lift)];
    gl.uniformMatrix4fv(place.camera, false, multiply(perspective(0.8, w / h, 0.05, 200), lookAt(eye, target)));
    gl.uniform3f(place.eye, ...eye);
    gl.uniform3f(place.sky, ...sky);
    shapes.forEach(({ kind, size, colour }, i) => {
      const p = pose(frame, i);
      gl.uniform4f(place.colour, ...colour);
      gl.uniform1f(place.floor_, kind === "plane" ? 1 : 0);
      if (kind === "plane") mesh("box", new Float32Array([60, 0, 0, 0, 0, 60, 0, 0, 0, 0, 1, 0, target[0], target[1], p[2] - 1, 1]));
      else if (kind === "sphere") mesh("sphere", placed(p, 0, size[0], size[0], size[0]));
      else if (kind === "ellipsoid") mesh("sphere", placed(p, 0, ...size));
      else if (kind === "box") mesh("box", placed(p, 0, ...size));
      else {
        mesh("cylinder", placed(p, 0, size[0], size[0], size[1]));
        if (kind === "capsule") for (const end of [-1, 1]) mesh("sphere", placed(p, end * size[1], size[0], size[0], size[0]));
      }
    });
  };
  const drag = (event) => {
    if (event.buttons !== 1) return;
    view.turn -= event.movementX * 0.008;
    view.lift = Math.min(1.5, Math.max(0.02, view.lift + event.movementY * 0.006));
    show();
  };
  canvas.addEventListener("pointermove", drag);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    view.distance = Math.min(30, Math.max(1, view.distance * Math.exp(event.deltaY * 0.001)));
    show();
  }, { passive: false });
} else {
  const note = document.createElement("p");
  note.textContent = "This browser has no WebGL: the robot cannot be drawn, the charts can.";
  canvas.replaceWith(note);
}

// ---- The charts.
const charts = document.getElementById("charts");
const number = (x) => Math.abs(x) >= 100 ? x.toFixed(0) : x.toFixed(3);
const chart = (name, lines, threshold, words) => {
  const figure = charts.appendChild(document.createElement("figure"));
  const caption = figure.appendChild(document.createElement("figcaption"));
  const [left, right] = [0, 1].map(() => caption.appendChild(document.createElement("span")));
  left.textContent = name;
  const paper = figure.appendChild(document.createElement("canvas"));
  const all = lines.flatMap((line) => line.values).concat(threshold ?? []);
  const low = Math.min(0, ...all), high = Math.max(...all, low + 1e-9);
  return (step) => {
    const scale = window.devicePixelRatio || 1, ctx = paper.getContext("2d");
    const [w, h] = [paper.clientWidth * scale, paper.clientHeight * scale];
    if (paper.width !== w || paper.height !== h) { paper.width = w; paper.height = h; }
    ctx.clearRect(0, 0, w, h);
    const y = (v) => h - 4 * scale - (v - low) / (high - low) * (h - 8 * scale);
    const x = (i) => i / Math.max(1, rewards.length - 1) * w;
    for (const { values, colour, width } of lines) {
      ctx.strokeStyle = colour; ctx.lineWidth = width * scale; ctx.beginPath();
      values.forEach((v, i) => i ? ctx.lineTo(x(i), y(v)) : ctx.moveTo(x(i), y(v)));
      ctx.stroke();
    }
    const ink = getComputedStyle(document.body).color;
    ctx.strokeStyle = ink; ctx.lineWidth = scale;
    if (threshold !== undefined) { ctx.setLineDash([6 * scale, 4 * scale]); ctx.beginPath(); ctx.moveTo(0, y(threshold)); ctx.lineTo(w, y(threshold)); ctx.stroke(); ctx.setLineDash([]); }
    ctx.beginPath(); ctx.moveTo(x(step), 0); ctx.lineTo(x(step), h); ctx.stroke();
    const [text, broken] = words(step);
    right.textContent = text;
    right.className = broken ? "broken" : "";
  };
};
const running = (values) => { let sum = 0; return values.map((v) => sum += v); };
const updates = [];
const earned = running(rewards);
updates.push(chart("reward so far", [{ values: earned, colour: "#0072b2", width: 1.6 }], undefined, (i) => [number(earned[i])]));
for (const { name, mean, threshold, costs } of constraints) {
  const sums = running(costs), value = mean ? sums.map((s, i) => s / (i + 1)) : sums;
  const words = (i) => [`${number(value[i])} ${value[i] <= threshold ? "≤" : ">"} ${threshold}`, value[i] > threshold];
  const lines = [{ values: costs, colour: "#99999988", width: 0.8 }, { values: value, colour: "#d55e00", width: 1.8 }];
  updates.push(chart(`${mean ? "mean" : "sum of"} ${name} so far`, lines, threshold, words));
}
const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#888888", "#8c6d31"];
const motors = (actions[0] ?? []).map((_, j) => ({ values: actions.map((a) => a[j]), colour: colours[j % colours.length], width: 0.9 }));
motors.forEach((line, j) => updates.push(chart(`motor ${j + 1}`, [line, { values: [1, -1], colour: "transparent", width: 1 }], undefined, (i) => [number(actions[i][j])])));

// ---- Time.
const slider = document.getElementById("time"), clock = document.getElementById("clock");
const button = document.getElementById("play"), speed = document.getElementById("speed");
slider.max = frames - 1;
let at = 0, playing = true, before = null;
const show = () => {
  const frame = Math.min(frames - 1, Math.floor(at));
  slider.value = frame;
  clock.textContent = `${(frame * seconds).toFixed(2)} s`;
  draw(frame);
  const step = Math.max(0, Math.min(rewards.length - 1, frame - 1));
  if (rewards.length > 0) updates.forEach((update) => update(step));
};
const set = (on) => { playing = on; before = null; button.textContent = on ? "pause" : "play"; };
const toggle = () => { if (!playing && at >= frames - 1) at = 0; set(!playing); };
button.addEventListener("click", toggle);
slider.addEventListener("input", () => { at = Number(slider.value); set(false); show(); });
document.addEventListener("keydown", (event) => {
  if (event.target === slider || event.target === speed || event.target === button) return;
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (event.key === " ") { event.preventDefault(); toggle(); }
  else if (by) { at = Math.min(frames - 1, Math.max(0, Math.floor(at) + by)); set(false); show(); }
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
show();
requestAnimationFrame(tick);
