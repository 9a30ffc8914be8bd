"""Records what PyTorch computes for the updates of SAC, PPO and IPO, for the tests of the ecrl crate.

    make fixtures      (or: python tools/pytorch_fixtures.py, with torch and numpy installed)

Writes sac.json and ppo.json to crates/ecrl/tests/fixtures: small networks, batches and noise, and
the networks after some updates with torch.autograd and torch.optim.Adam.
"""

import json
import pathlib

import numpy as np
import torch

OBS, ACTION, HIDDEN, BATCH, UPDATES = 4, 2, [16, 12], 10, 10
GAMMA, TAU, ALPHA, ACTOR_LR, CRITIC_LR = 0.97, 0.01, 0.2, 1e-3, 2e-3
FOLDER = pathlib.Path(__file__).parent.parent / "crates/ecrl/tests/fixtures"


def write(name, fixture):
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / name
    file.write_text(json.dumps(fixture, separators=(",", ":")).replace('],"', '],\n"') + "\n")
    print(f"{file}: {file.stat().st_size} bytes")


def network(inputs, outputs, hidden=HIDDEN, activation=torch.nn.ReLU):
    sizes = [inputs, *hidden, outputs]
    layers = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        layers.append(torch.nn.Linear(a, b))
        if i + 2 < len(sizes):
            layers.append(activation())
    return torch.nn.Sequential(*layers)


def flat(net):
    return [float(x) for p in net.parameters() for x in p.detach().reshape(-1)]


def draw(actor, obs, noise):
    mean, log_std = actor(obs).chunk(2, dim=1)
    log_std = log_std.clamp(-20, 2)
    normal = torch.distributions.Normal(mean, log_std.exp())
    u = mean + log_std.exp() * noise
    action = torch.distributions.transforms.TanhTransform()
    log_prob = normal.log_prob(u) - action.log_abs_det_jacobian(u, torch.tanh(u))
    return torch.tanh(u), log_prob.sum(1)


def sac():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    actor = network(OBS, 2 * ACTION)
    critics = [network(OBS + ACTION, 1) for _ in range(2)]
    targets = [network(OBS + ACTION, 1) for _ in range(2)]
    optimisers = [torch.optim.Adam(net.parameters(), CRITIC_LR) for net in critics]
    actor_optimiser = torch.optim.Adam(actor.parameters(), ACTOR_LR)
    start = {"actor": flat(actor), "critics": [flat(c) for c in critics], "targets": [flat(t) for t in targets]}

    batches, after, losses = [], {}, []
    for update in range(1, UPDATES + 1):
        batch = {
            "obs": rng.normal(size=(BATCH, OBS)),
            "action": rng.uniform(-1, 1, (BATCH, ACTION)),
            "next_obs": rng.normal(size=(BATCH, OBS)),
            "reward": rng.normal(size=BATCH),
            "costs": rng.uniform(0, 1, (BATCH, 2)),
            "multipliers": rng.uniform(0, 1, (BATCH, 2)),
            "terminated": rng.uniform(size=BATCH) < 0.3,
            "noise": rng.normal(size=(BATCH, ACTION)),
            "next_noise": rng.normal(size=(BATCH, ACTION)),
        }
        t = {k: torch.tensor(v, dtype=torch.float32) for k, v in batch.items()}
        batches.append({k: v.astype(np.float32 if v.dtype != bool else bool).tolist() for k, v in batch.items()})

        with torch.no_grad():
            next_action, next_log_prob = draw(actor, t["next_obs"], t["next_noise"])
            q = [net(torch.cat([t["next_obs"], next_action], 1)).squeeze(1) for net in targets]
            shaped = t["reward"] - (t["multipliers"] * t["costs"]).sum(1)
            y = shaped + GAMMA * (1 - t["terminated"]) * (torch.min(*q) - ALPHA * next_log_prob)
        critic_losses = []
        for net, optimiser in zip(critics, optimisers):
            loss = ((net(torch.cat([t["obs"], t["action"]], 1)).squeeze(1) - y) ** 2).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            critic_losses.append(loss.item())
        action, log_prob = draw(actor, t["obs"], t["noise"])
        q = [net(torch.cat([t["obs"], action], 1)).squeeze(1) for net in critics]
        loss = (ALPHA * log_prob - torch.min(*q)).mean()
        actor_optimiser.zero_grad()
        loss.backward()
        actor_optimiser.step()
        losses.append({"critic": critic_losses, "actor": loss.item(), "entropy": -log_prob.mean().item()})
        with torch.no_grad():
            for net, target in zip(critics, targets):
                for p, q_ in zip(net.parameters(), target.parameters()):
                    q_.mul_(1 - TAU).add_(TAU * p)
        if update in (1, UPDATES):
            after[str(update)] = {"actor": flat(actor), "critics": [flat(c) for c in critics], "targets": [flat(t_) for t_ in targets]}

    fixture = {
        "torch": torch.__version__,
        "sizes": {"obs": OBS, "action": ACTION, "hidden": HIDDEN, "batch": BATCH},
        "config": {"gamma": GAMMA, "tau": TAU, "alpha": ALPHA, "actor_lr": ACTOR_LR, "critic_lr": CRITIC_LR},
        "start": start,
        "batches": batches,
        "losses": losses,
        "after": after,
    }
    write("sac.json", fixture)


PPO_CASES = {
    "ppo": {"constraints": 0},
    "everything": {"constraints": 0, "value_clip": True, "entropy_coef": 0.02, "normalise_advantages": False},
    "barrier": {"constraints": 2, "limits": [[0.3, 0.5, 1.0, 0.5], [20.0, 60.0, 40.0, 60.0]]},
    "recovery": {"constraints": 2, "limits": [[0.7, 0.5, 1.0, 0.5], [20.0, 60.0, 40.0, 60.0]]},
    "recovery of two": {"constraints": 2, "limits": [[0.7, 0.5, 1.0, 0.5], [70.0, 60.0, 40.0, 60.0]]},
    "choices": {"constraints": 1, "choices": 3, "entropy_coef": 0.02, "limits": [[0.1, 0.4, 5.0, 1.0]]},
}


def ppo_case(case):
    """Three updates on one minibatch. A limit is [J, threshold, length, scale]."""
    hidden, rows, lr, clip, value_coef, max_norm, t = [8, 6], 12, 3e-3, 0.2, 0.25, 0.5, 50.0
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    signals = 1 + case["constraints"]
    choices = case.get("choices")
    policy = network(OBS, choices or ACTION, hidden, torch.nn.Tanh)
    critics = [network(OBS, 1, hidden, torch.nn.Tanh) for _ in range(signals)]
    log_sigma = torch.nn.Parameter(torch.tensor([] if choices else [-0.5, -0.2]))
    batch = {
        "obs": rng.normal(1, 2, (rows, OBS)),
        "draws": rng.normal(0, 0.7, (rows, ACTION)),
        "advantages": rng.normal(0.3, 1, (signals, rows)),
        "returns": rng.normal(0, 1, (signals, rows)),
        "values": rng.normal(0, 0.3, (signals, rows)),
    }
    if choices:
        batch["draws"] = rng.integers(0, choices, (rows, 1)).astype(np.float64)
    mean, variance = np.array([1.0, 0.5, 0.0, -0.5]), np.array([4.0, 2.25, 1.0, 0.25])
    tensors = {k: torch.tensor(v, dtype=torch.float32) for k, v in batch.items()}
    x = ((tensors["obs"].double() - torch.tensor(mean)) / torch.tensor(variance).sqrt()).float()

    def log_prob():
        if choices:
            return torch.distributions.Categorical(logits=policy(x)).log_prob(tensors["draws"][:, 0])
        return torch.distributions.Normal(policy(x), log_sigma.exp()).log_prob(tensors["draws"]).sum(1)

    old = (log_prob() + torch.tensor(rng.normal(0, 0.2, rows), dtype=torch.float32)).detach()
    start = {"policy": flat(policy), "log_sigma": log_sigma.tolist(), "critics": [flat(c) for c in critics]}
    sigmas = [] if choices else [log_sigma]
    parameters = [*policy.parameters(), *sigmas, *(p for c in critics for p in c.parameters())]
    optimiser = torch.optim.Adam(parameters, lr)
    advantage = tensors["advantages"][0]
    if case.get("normalise_advantages", True):
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    losses = []
    for _ in range(3):
        new = log_prob()
        ratio = (new - old).exp()
        held = ratio.clamp(1 - clip, 1 + clip)
        costs = tensors["advantages"][1:]
        limits = case.get("limits", [])
        left = [e - j - length * ((ratio - 1) * a).mean() for (j, e, length, _), a in zip(limits, costs)]
        broken = [j >= e or l.item() <= 0 for (j, e, _, _), l in zip(limits, left)]
        recovery = any(broken)
        whole = sum(length / scale for (_, _, length, scale), b in zip(limits, broken) if b)
        loss = torch.tensor(0.0) if recovery else -torch.min(ratio * advantage, held * advantage).mean()
        for (_, _, length, scale), l, a, b in zip(limits, left, costs, broken):
            if b:
                loss = loss + length / scale / whole * torch.max(ratio * a, held * a).mean()
            else:
                loss = loss - torch.log(l) / t
        if choices:
            entropy = torch.distributions.Categorical(logits=policy(x)).entropy().mean()
        else:
            entropy = torch.distributions.Normal(0, log_sigma.exp()).entropy().sum()
        loss = loss - case.get("entropy_coef", 0.0) * entropy
        value_loss = 0.0
        for net, before, target in zip(critics, tensors["values"], tensors["returns"]):
            value = net(x).squeeze(1)
            error = (value - target) ** 2
            if case.get("value_clip"):
                error = torch.max(error, (before + (value - before).clamp(-clip, clip) - target) ** 2)
            value_loss = value_loss + value_coef * error.mean()
        optimiser.zero_grad()
        (loss + value_loss).backward()
        torch.nn.utils.clip_grad_norm_(parameters, max_norm)
        optimiser.step()
        losses.append({"actor": loss.item(), "critic": value_loss.item(), "entropy": entropy.item(), "recovery": recovery})
    return {
        "case": case,
        "config": {"clip": clip, "value_coef": value_coef, "max_grad_norm": max_norm, "barrier": t, "lr": lr},
        "layers": hidden,
        "mean": mean.tolist(),
        "variance": variance.tolist(),
        "batch": {k: v.astype(np.float32).tolist() for k, v in batch.items()},
        "log_prob": old.tolist(),
        "start": start,
        "losses": losses,
        "after": {"policy": flat(policy), "log_sigma": log_sigma.tolist(), "critics": [flat(c) for c in critics]},
    }


def ppo():
    cases = {name: ppo_case(case) for name, case in PPO_CASES.items()}
    write("ppo.json", {"torch": torch.__version__, "cases": cases})


def main():
    torch.set_num_threads(1)
    sac()
    ppo()


if __name__ == "__main__":
    main()
