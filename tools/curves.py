"""Draws the learning curves of runs as one SVG: reward above, the first constraint below.

    python3 tools/curves.py docs/curves.svg "Swimmer: runs/swimmer-ecrl-0 runs/swimmer-erl-0" ...

Each argument is a panel: a title, then run directories. Needs nothing but Python.
"""

import json
import pathlib
import sys

COLOURS = {"ecrl": "#0072B2", "erl": "#D55E00", "rcpo": "#009E73", "sac": "#CC79A7"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 330, 150, 55, 40, 45


def read(run):
    run = pathlib.Path(run)
    config = (run / "config.toml").read_text()
    algorithm = next(l for l in config.splitlines() if l.startswith("algorithm")).split('"')[1]
    threshold = float(config.split("<=")[1].split('"')[0])
    lines = [json.loads(l) for l in (run / "metrics.jsonl").read_text().splitlines()]
    tests = [g for g in lines if g["learner_reward"] is not None]
    return algorithm, threshold, [(g["env_steps"], g["learner_reward"], g["learner_cost"][0]) for g in tests]


def panel(x, y, title, curves, index, threshold=None):
    last = max(points[-1][0] for _, points in curves)
    values = [p[index] for _, points in curves for p in points] + ([threshold] if threshold else [])
    low, high = min(0.0, min(values)), 1.05 * max(values)

    def at(step, value):
        return f"{x + WIDTH * step / last:.1f},{y + HEIGHT * (1 - (value - low) / (high - low)):.1f}"

    out = [f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>']
    out.append(f'<text x="{x + WIDTH / 2}" y="{y - 8}" text-anchor="middle">{title}</text>')
    for value in (low, high):
        out.append(f'<text x="{x - 6}" y="{at(0, value).split(",")[1]}" text-anchor="end" dy="4">{value:.3g}</text>')
    out.append(f'<text x="{x + WIDTH}" y="{y + HEIGHT + 15}" text-anchor="end">{last:,} steps</text>')
    if threshold:
        a, b = at(0, threshold), at(last, threshold)
        out.append(f'<polyline points="{a} {b}" fill="none" stroke="#444" stroke-dasharray="5 4"/>')
    for algorithm, points in curves:
        line = " ".join(at(p[0], p[index]) for p in points)
        colour = COLOURS.get(algorithm, "#000")
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return out


def main():
    file, panels = sys.argv[1], sys.argv[2:]
    body, seen = [], {}
    for i, text in enumerate(panels):
        title, runs = text.split(":", 1)
        read_runs = [read(run) for run in runs.split()]
        curves = [(algorithm, points) for algorithm, _, points in read_runs]
        seen.update({algorithm: COLOURS.get(algorithm, "#000") for algorithm, _ in curves})
        x = LEFT + i * (WIDTH + LEFT + 10)
        body += panel(x, TOP, f"{title}: reward of the mean action", curves, 1)
        body += panel(x, TOP + HEIGHT + GAP, f"{title}: mean torque, bound dashed", curves, 2, read_runs[0][1])
    height = TOP + 2 * HEIGHT + GAP + 50
    for i, (algorithm, colour) in enumerate(seen.items()):
        body.append(f'<text x="{LEFT + 90 * i}" y="{height - 10}" fill="{colour}" font-weight="bold">{algorithm}</text>')
    width = len(panels) * (WIDTH + LEFT + 10) + 25
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
    background = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    pathlib.Path(file).write_text("\n".join([head, background, *body, "</svg>"]) + "\n")


if __name__ == "__main__":
    main()
