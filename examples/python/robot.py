"""A robot's policy in ten lines: trained, measured, shipped, and run in Gymnasium's own Hopper.

    python examples/python/robot.py
"""

import gymnasium as gym

import ecrl


def main(steps: int = 300_000, out: str = "runs/hopper") -> float:
    run = ecrl.train("ipo", "hopper", constraints={"torque": 0.4}, steps=steps, out=out, force=True, preset="fast")
    policy = ecrl.load(run.path)
    print(policy.evaluate(episodes=10))
    policy.export(f"{out}/policy.onnx")
    env = gym.make("ecrl/Hopper-v0")
    obs, _ = env.reset(seed=0)
    total, over = 0.0, False
    while not over:
        obs, reward, terminated, truncated, info = env.step(policy(obs))
        total, over = total + float(reward), terminated or truncated
    print(f"one episode earned {total:.1f}")
    return total


if __name__ == "__main__":
    main()
