const data = JSON.parse(document.getElementById("data").textContent);
const shown = new Set(data.algorithms);

// An algorithm is off or on everywhere: curves and rows.
for (const box of document.querySelectorAll("input[data-toggle]")) {
  box.addEventListener("change", () => {
    const name = box.dataset.toggle;
    if (box.checked) shown.add(name); else shown.delete(name);
    for (const part of document.querySelectorAll("[data-algorithm]"))
      if (part.dataset.algorithm === name) part.classList.toggle("off", !box.checked);
  });
}

// So is a face.
const faces = new Set(["mean", "sampled"]);
for (const box of document.querySelectorAll("input[data-toggle-face]")) {
  box.addEventListener("change", () => {
    const face = box.dataset.toggleFace;
    if (box.checked) faces.add(face); else faces.delete(face);
    for (const part of document.querySelectorAll(`[data-face="${face}"]`))
      part.classList.toggle("hidden-face", !box.checked);
  });
}

const select = document.getElementById("task");
select.addEventListener("change", () => {
  for (const part of document.querySelectorAll("[data-task]"))
    part.hidden = select.value !== "" && part.dataset.task !== select.value;
});

// Values at a step: under the mouse, or with the arrow keys on a panel that has the focus.
for (const panel of document.querySelectorAll(".panel")) {
  const { frame, series, steps } = data.panels[Number(panel.dataset.panel)];
  const svg = panel.querySelector("svg");
  let tip = null, line = null, at = null;
  const clear = () => { tip?.remove(); line?.remove(); tip = line = null; };
  const show = (step) => {
    clear();
    at = Math.min(Math.max(step, 0), steps);
    const x = frame.left + (at / steps) * (frame.width - frame.left - frame.right);
    line = document.createElementNS("http://www.w3.org/2000/svg", "path");
    line.setAttribute("d", `M${x} ${frame.top}V${frame.height - frame.bottom}`);
    line.setAttribute("stroke", "currentColor");
    line.setAttribute("opacity", ".5");
    svg.append(line);
    tip = document.createElement("div");
    tip.className = "tip";
    tip.setAttribute("role", "status");
    const add = (text, colour) => {
      const row = tip.appendChild(document.createElement("div"));
      row.textContent = text;
      if (colour) { row.style.borderLeft = `4px solid ${colour}`; row.style.paddingLeft = "5px"; }
    };
    add(`${Math.round(at).toLocaleString("en")} steps`);
    for (const one of series) {
      if (!shown.has(one.label) || !faces.has(one.face) || one.points.length === 0) continue;
      const near = one.points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a);
      // Between its first test and its last.
      if (at < one.points[0][0] - steps / 50 || at > one.points.at(-1)[0] + steps / 50) continue;
      const band = near[2] < near[3] ? ` [${number(near[2])}, ${number(near[3])}]` : "";
      const face = one.face === "sampled" ? " sampled" : "";
      add(`${one.label}${face} ${number(near[1])}${band} n=${near[4]}`, data.colours[one.label]);
    }
    panel.append(tip);
    const place = (x / frame.width) * panel.clientWidth;
    const right = place > panel.clientWidth / 2;
    tip.style.left = right ? "" : `${place + 10}px`;
    tip.style.right = right ? `${panel.clientWidth - place + 10}px` : "";
    tip.style.top = "28px";
  };
  panel.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * frame.width;
    show(((x - frame.left) / (frame.width - frame.left - frame.right)) * steps);
  });
  panel.addEventListener("pointerleave", clear);
  panel.addEventListener("blur", clear);
  panel.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -0.02, ArrowRight: 0.02, Home: -2, End: 2 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    show((at ?? steps) + by * steps);
  });
}
