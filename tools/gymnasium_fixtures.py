"""Records what the real Gymnasium computes, for the parity tests of the robots crate.

    make fixtures      (or: python tools/gymnasium_fixtures.py, with the versions below installed)

Writes, for each task, into crates/robots/tests/fixtures:
- <task>.json: episodes from several starts. Of every step the reward, whether it terminated, the
  velocity cost, and a digest of the observation's bits (FNV-1a, 64 bits); every 50th observation
  in full.
- <task>.model.txt: the compiled model as MuJoCo itself prints it, every float with 17 digits.
"""

import json
import pathlib
import warnings

import gymnasium
import mujoco
import numpy as np

VERSIONS = {"gymnasium": "1.4.0", "mujoco": "3.17.0"}
TASKS = {
    "ant": ("Ant-v4", 2.6222),
    "half-cheetah": ("HalfCheetah-v4", 3.2096),
    "walker2d": ("Walker2d-v4", 2.3415),
    "hopper": ("Hopper-v4", 0.7402),
    "swimmer": ("Swimmer-v4", 0.2282),
}
STEPS = 300
FOLDER = pathlib.Path(__file__).parent.parent / "crates/robots/tests/fixtures"


def starts(env, rng):
    """Yields (about, qpos, qvel, size of the actions)."""
    simulation = env.unwrapped
    for about, size in [("a reset, actions out of range", 1.5), ("a reset, gentle actions", 0.1)]:
        env.reset(seed=int(rng.integers(1000)))
        yield about, simulation.data.qpos.copy(), simulation.data.qvel.copy(), size
    qpos, qvel = simulation.init_qpos.copy(), simulation.init_qvel.copy()
    height = {"Ant-v4": 2, "Swimmer-v4": 0}.get(env.spec.id, 1)
    qpos[height] += 1.5
    yield "high above the ground", qpos.copy(), rng.normal(0, 0.5, qvel.size), 1.0
    qpos[height] -= 1.5
    # Beyond the hopper's healthy range; the swimmer's fluid would tear it apart.
    qvel[0] = 3.0 if env.spec.id == "Swimmer-v4" else 150.0
    yield "upright and far too fast", qpos, qvel, 0.3
    yield "thrown about", qpos + rng.normal(0, 0.3, qpos.size), rng.normal(0, 5, qvel.size), 1.0


def digest(numbers):
    value = 0xCBF29CE484222325
    for byte in np.asarray(numbers, dtype="<f8").tobytes():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def episode(env, limit, about, qpos, qvel, size, rng):
    simulation = env.unwrapped
    mujoco.mj_resetData(simulation.model, simulation.data)
    simulation.set_state(qpos, qvel)
    # Three decimals keep the file small; as f32 they still round in every bit.
    actions = np.round(rng.uniform(-size, size, (STEPS, simulation.model.nu)), 3)
    first = simulation._get_obs()
    steps, seen = [], []
    for action in actions.astype(np.float32):
        obs, reward, terminated, _, info = simulation.step(action)
        speed = info["x_velocity"]
        if env.spec.id == "Ant-v4":
            speed = np.sqrt(speed**2 + info["y_velocity"] ** 2)
        steps.append([float(reward), bool(terminated), int(speed > limit), digest(obs)])
        seen.append(obs.tolist())
    warned = sum(warning.number for warning in simulation.data.warning)
    assert warned == 0, f"{about}: MuJoCo warned, and Gymnasium does not tell"
    return {
        "about": about,
        "qpos": qpos.tolist(),
        "qvel": qvel.tolist(),
        "actions": actions.tolist(),
        "first": first.tolist(),
        "steps": steps,
        "every_50th": seen[::50],
    }


def dumps(fixture):
    """JSON with one list of numbers a line, so that a difference can be read."""
    text = json.dumps(fixture, separators=(",", ":"))
    return text.replace("],[", "],\n[").replace('","', '",\n"').replace('},{', '},\n{') + "\n"


def main():
    warnings.simplefilter("ignore", DeprecationWarning)  # that v4 is not the newest is the point
    found = {"gymnasium": gymnasium.__version__, "mujoco": mujoco.__version__}
    assert found == VERSIONS, f"found {found}, expected {VERSIONS}"
    for index, (task, (name, limit)) in enumerate(TASKS.items()):
        rng = np.random.default_rng(index)
        env = gymnasium.make(name)
        episodes = [episode(env, limit, *start, rng) for start in starts(env, rng)]
        ends = {step[1] for e in episodes for step in e["steps"]}
        fast = {step[2] for e in episodes for step in e["steps"]}
        print(f"{task}: terminated {sorted(ends)}, velocity costs {sorted(fast)}")
        fixture = {**found, "numpy": np.__version__, "episodes": episodes}
        (FOLDER / f"{task}.json").write_text(dumps(fixture))
        model = str(FOLDER / f"{task}.model.txt")
        mujoco.mj_printFormattedModel(env.unwrapped.model, model, "% .17g")


if __name__ == "__main__":
    main()
