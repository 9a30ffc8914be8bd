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

// Every triangle with the direction it faces.
const faceted = ({ vertices, faces }) => {
  const out = new Float32Array(18 * faces.length);
  faces.forEach((face, i) => {
    const [a, b, c] = face.map((j) => vertices[j]);
    const n = unit(cross(minus(b, a), minus(c, a)));
    [a, b, c].forEach((p, j) => out.set([...p, ...n], 18 * i + 6 * j));
  });
  return out;
};

// ---- The scene. It looks as in a video (picture.rs).
const canvas = document.getElementById("scene");
const gl = canvas.getContext("webgl", { antialias: true, alpha: false, stencil: true, preserveDrawingBuffer: true });
const usual = { turn: -Math.PI / 2, lift: 0.25, distance: data.view.distance };
const view = { ...usual, target: [0, 0, data.view.height] };
const sun = unit([0.3, -0.5, 0.9]);
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
    precision highp float; varying vec3 world; varying vec3 facing;
    uniform vec4 colour; uniform float floor_; uniform float shadow; uniform vec3 eye; uniform vec3 sky; uniform vec3 sun;
    void main() { vec3 base = colour.rgb;
      float far = smoothstep(8.0, 26.0, distance(eye, world));
      if (shadow > 0.5) { gl_FragColor = vec4(0.0, 0.0, 0.0, 0.42 * (1.0 - far)); return; }
      if (floor_ > 0.5) { vec2 tile = floor(world.xy); base = mix(vec3(0.42, 0.46, 0.5), vec3(0.52, 0.56, 0.6), mod(tile.x + tile.y, 2.0)); }
      vec3 n = normalize(facing);
      float shine = pow(max(dot(reflect(-sun, n), normalize(eye - world)), 0.0), 24.0) * (1.0 - floor_) * 0.25;
      vec3 lit = base * (0.45 + 0.6 * max(dot(n, sun), 0.0)) + shine;
      gl_FragColor = vec4(mix(lit, sky, floor_ * far), 1.0); }`));
  gl.linkProgram(program);
  gl.useProgram(program);
  const place = Object.fromEntries(["camera", "model", "colour", "floor_", "shadow", "eye", "sky", "sun"].map((n) => [n, gl.getUniformLocation(program, n)]));
  const buffer = (numbers) => {
    const b = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, b);
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(numbers), gl.STATIC_DRAW);
    return { b, count: numbers.length / 6 };
  };
  const meshes = { sphere: buffer(sphere()), cylinder: buffer(cylinder()), box: buffer(box()) };
  data.meshes.forEach((mesh, i) => { meshes[i] = buffer(faceted(mesh)); });
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
  // A shape, after `then` has moved it.
  const solid = ({ kind, size, mesh: own }, p, then) => {
    const part = (name, ...how) => mesh(name, then(placed(p, ...how)));
    if (kind === "sphere") part("sphere", 0, size[0], size[0], size[0]);
    else if (kind === "ellipsoid") part("sphere", 0, ...size);
    else if (kind === "box") part("box", 0, ...size);
    else if (kind === "mesh") part(own, 0, 1, 1, 1);
    else {
      part("cylinder", 0, size[0], size[0], size[1]);
      if (kind === "capsule") for (const end of [-1, 1]) part("sphere", end * size[1], size[0], size[0], size[0]);
    }
  };
  // Along the light down to a height.
  const flat = (z) => {
    const [x, y] = [sun[0] / sun[2], sun[1] / sun[2]];
    return new Float32Array([1, 0, 0, 0, 0, 1, 0, 0, -x, -y, 0, 0, x * z, y * z, z, 1]);
  };
  gl.uniform3f(place.sun, ...sun);
  gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
  gl.stencilOp(gl.KEEP, gl.KEEP, gl.INCR);
  gl.stencilFunc(gl.EQUAL, 0, 255);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  draw = (frame) => {
    const scale = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(canvas.clientWidth * scale), Math.round(canvas.clientHeight * scale)];
    if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
    gl.viewport(0, 0, w, h);
    const sky = dark.matches ? [0.13, 0.145, 0.17] : [0.9, 0.93, 0.96];
    gl.clearColor(...sky, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT | gl.STENCIL_BUFFER_BIT);
    // The camera follows the robot.
    const all = shapes.map((shape, i) => [shape, pose(frame, i)]);
    const [planes, moving] = [true, false].map((plane) => all.filter(([s]) => (s.kind === "plane") === plane));
    const robot = moving.some(([s]) => s.moves) ? moving.filter(([s]) => s.moves) : moving;
    const middle = [0, 1].map((axis) => robot.reduce((sum, [, p]) => sum + p[axis], 0) / robot.length);
    view.target = [middle[0], middle[1], view.target[2]];
    const { turn, lift, distance, target } = view;
    const eye = [target[0] + distance * Math.cos(lift) * Math.cos(turn), target[1] + distance * Math.cos(lift) * Math.sin(turn), target[2] + distance * Math.sin(lift)];
    gl.uniformMatrix4fv(place.camera, false, multiply(perspective(0.8, w / h, Math.min(0.05, distance / 80), 200), lookAt(eye, target)));
    gl.uniform3f(place.eye, ...eye);
    gl.uniform3f(place.sky, ...sky);
    // The floor, then the shadows on it while nothing else is there, so that depth need not tell the two
    // apart; the stencil lets no point grow darker twice. Then what stands on it.
    for (const [, p] of planes) {
      gl.enable(gl.DEPTH_TEST);
      gl.uniform1f(place.floor_, 1);
      mesh("box", new Float32Array([60, 0, 0, 0, 0, 60, 0, 0, 0, 0, 1, 0, target[0], target[1], p[2] - 1, 1]));
      gl.uniform1f(place.floor_, 0);
      gl.uniform1f(place.shadow, 1);
      gl.enable(gl.BLEND); gl.enable(gl.STENCIL_TEST); gl.disable(gl.DEPTH_TEST);
      const down = flat(p[2]);
      moving.forEach(([shape, p]) => solid(shape, p, (model) => multiply(down, model)));
      gl.disable(gl.BLEND); gl.disable(gl.STENCIL_TEST);
      gl.uniform1f(place.shadow, 0);
    }
    gl.enable(gl.DEPTH_TEST);
    for (const [shape, p] of moving) {
      gl.uniform4f(place.colour, ...shape.colour);
      solid(shape, p, (model) => model);
    }
  };
  const nearer = (by) => { view.distance = Math.min(7.5 * usual.distance, Math.max(usual.distance / 4, view.distance * by)); };
  // One finger or the mouse turns, two fingers come nearer.
  const fingers = new Map();
  const apart = () => { const [a, b] = [...fingers.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]) || 1; };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
  });
  canvas.addEventListener("pointermove", (event) => {
    const old = fingers.get(event.pointerId);
    if (!old) return;
    const before = fingers.size === 2 ? apart() : 0;
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    if (fingers.size === 2) nearer(before / apart());
    else {
      view.turn -= (event.clientX - old[0]) * 0.008;
      view.lift = Math.min(1.5, Math.max(0.02, view.lift + (event.clientY - old[1]) * 0.006));
    }
    show();
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); nearer(Math.exp(event.deltaY * 0.001)); show(); }, { passive: false });
  canvas.addEventListener("dblclick", () => { Object.assign(view, usual); show(); });
} else {
  const note = document.createElement("p");
  note.textContent = "This browser has no WebGL: the robot cannot be drawn, the charts can.";
  canvas.replaceWith(note);
}

