"""Records what PyTorch computes for the SAC update, for the tests of the ecrl crate.

    make fixtures      (or: python tools/pytorch_fixtures.py, with torch and numpy installed)

Writes crates/ecrl/tests/fixtures/sac.json: small networks, batches and noise, and the networks
after 1 and after 10 updates with torch.autograd and torch.optim.Adam.
"""

import json
import pathlib

import numpy as np
import torch

OBS, ACTION, HIDDEN, BATCH, UPDATES = 4, 2, [16, 12], 10, 10
GAMMA, TAU, ALPHA, ACTOR_LR, CRITIC_LR = 0.97, 0.01, 0.2, 1e-3, 2e-3
FILE = pathlib.Path(__file__).parent.parent / "crates/ecrl/tests/fixtures/sac.json"


def network(inputs, outputs):
    sizes = [inputs, *HIDDEN, outputs]
    layers = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        layers.append(torch.nn.Linear(a, b))
        if i + 2 < len(sizes):
            layers.append(torch.nn.ReLU())
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


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
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
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(fixture, separators=(",", ":")).replace('],"', '],\n"') + "\n")
    print(f"{FILE}: {FILE.stat().st_size} bytes, losses {losses[0]} ... {losses[-1]}")


if __name__ == "__main__":
    main()
