"""Records what PyTorch computes for the updates of SAC, PPO and IPO, for the tests of the ecrl crate.

    make fixtures      (or: python tools/pytorch_fixtures.py, with torch and numpy installed)

Writes sac.json, ppo.json, evolution.json and others to crates/ecrl/tests/fixtures: small networks, batches and noise, and
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


def constrained_case(name):
    """Four updates with critics of two costs (sac, td3), or with the slopes of a meta-gradient (metal)."""
    updates, weights, centres = 4, [0.7, 2.5], [0.4, 0.0]
    delay, smoothing, clip = 2, 0.2, 0.3
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    td3, hidden = name == "td3", [6, 5]
    actor = network(OBS, ACTION if td3 else 2 * ACTION, hidden)
    actor_target = network(OBS, ACTION if td3 else 2 * ACTION, hidden)
    actor_target.load_state_dict(actor.state_dict())
    critics = [network(OBS + ACTION, 1, hidden) for _ in range(2 if name == "metal" else 4)]
    targets = [network(OBS + ACTION, 1, hidden) for _ in critics]
    optimisers = [torch.optim.Adam(net.parameters(), CRITIC_LR) for net in critics]
    actor_optimiser = torch.optim.Adam(actor.parameters(), ACTOR_LR)
    nets = lambda: {"actor": flat(actor), "critics": [flat(c) for c in critics], "targets": [flat(t) for t in targets]}
    start, batches, losses = nets(), [], []

    def act(net, obs, noise):
        return (torch.tanh(net(obs)), torch.zeros(BATCH)) if td3 else draw(net, obs, noise)

    for update in range(1, updates + 1):
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
        costs = t["costs"] - (torch.tensor(centres) if name != "metal" else 0.0)
        lambdas = torch.tensor(weights, requires_grad=True)
        with torch.no_grad():
            next_action, next_log_prob = act(actor_target if td3 else actor, t["next_obs"], t["next_noise"])
            if td3:
                next_action = (next_action + (smoothing * t["noise"]).clamp(-clip, clip)).clamp(-1, 1)
            q = [net(torch.cat([t["next_obs"], next_action], 1)).squeeze(1) for net in targets]
        discount = GAMMA * (1 - t["terminated"])
        reward = t["reward"] - (lambdas * costs).sum(1) if name == "metal" else t["reward"]
        y = reward + discount * (torch.min(q[0], q[1]) - (0.0 if td3 else ALPHA) * next_log_prob)
        ys = [y, y, *(costs[:, i] + discount * q[2 + i] for i in range(len(critics) - 2))]
        taken = torch.cat([t["obs"], t["action"]], 1)
        critic_losses, slopes = [], []
        for i, (net, target, optimiser) in enumerate(zip(critics, ys, optimisers)):
            loss = ((net(taken).squeeze(1) - target) ** 2).mean()
            gradient = torch.autograd.grad(loss, list(net.parameters()), create_graph=name == "metal")
            for p, g in zip(net.parameters(), gradient):
                p.grad = g.detach()
            if name == "metal" and i == 0:
                # How the parameters after a plain step of this rate move with each multiplier.
                flat_gradient = torch.cat([g.reshape(-1) for g in gradient])
                moved = torch.stack([
                    torch.autograd.grad(flat_gradient[k], lambdas, retain_graph=True)[0] for k in range(len(flat_gradient))
                ])
            optimiser.step()
            critic_losses.append(loss.item())
            if name == "metal" and i == 0:
                after = ((net(taken).squeeze(1) - target) ** 2).mean()
                direct = torch.autograd.grad(after, lambdas, retain_graph=True)[0]
                back = torch.cat([g.reshape(-1) for g in torch.autograd.grad(after, list(net.parameters()))])
                slopes = (direct - CRITIC_LR * back @ moved).tolist()
        moves = not td3 or update % delay == 0
        if moves:
            action, log_prob = act(actor, t["obs"], t["noise"])
            q = [net(torch.cat([t["obs"], action], 1)).squeeze(1) for net in critics]
            value = q[0] if td3 else torch.min(q[0], q[1])
            priced = sum(w * q_ for w, q_ in zip(weights, q[2:]))
            whole = 1 + sum(weights) if len(critics) > 2 else 1.0
            loss = (((0.0 if td3 else ALPHA) * log_prob - value + priced) / whole).mean()
            actor_optimiser.zero_grad()
            loss.backward()
            actor_optimiser.step()
            with torch.no_grad():
                for net, target in [*zip(critics, targets), (actor, actor_target)]:
                    for p, q_ in zip(net.parameters(), target.parameters()):
                        q_.mul_(1 - TAU).add_(TAU * p)
            actor_loss = loss.item()
        losses.append({"critic": critic_losses, "actor": actor_loss if update >= delay or not td3 else 0.0, "slopes": slopes})
    return {
        "weights": weights,
        "centres": centres,
        "smoothing": smoothing,
        "smoothing_clip": clip,
        "delay": delay,
        "start": start,
        "batches": batches,
        "losses": losses,
        "after": {**nets(), "actor_target": flat(actor_target)},
    }


def constrained():
    fixture = {
        "torch": torch.__version__,
        "sizes": {"obs": OBS, "action": ACTION, "hidden": [6, 5], "batch": BATCH},
        "config": {"gamma": GAMMA, "tau": TAU, "alpha": ALPHA, "actor_lr": ACTOR_LR, "critic_lr": CRITIC_LR},
        "cases": {name: constrained_case(name) for name in ("sac", "td3", "metal")},
    }
    write("constrained.json", fixture)


PPO_CASES = {
    "ppo": {"constraints": 0},
    "everything": {"constraints": 0, "value_clip": True, "entropy_coef": 0.02, "normalise_advantages": False},
    "barrier": {"constraints": 2, "limits": [[0.3, 0.5, 1.0], [20.0, 60.0, 40.0]]},
    "barrier, not normalised": {"constraints": 2, "normalise_advantages": False, "limits": [[0.48, 0.5, 1.0], [52.0, 60.0, 40.0]]},
    "broken": {"constraints": 2, "limits": [[0.7, 0.5, 1.0], [20.0, 60.0, 40.0]]},
    "choices": {"constraints": 1, "choices": 3, "entropy_coef": 0.02, "limits": [[0.1, 0.4, 5.0]]},
    "focops": {"constraints": 1, "normalise_advantages": False, "focops": {"delta": 0.05, "temperature": 1.5, "lambda": 0.7}},
    "focops of choices": {"constraints": 1, "choices": 3, "normalise_advantages": False, "focops": {"delta": 0.01, "temperature": 0.8, "lambda": 2.0}},
    "cup": {"constraints": 1, "cup": {"delta": 0.05, "lambda": 0.7}},
    "cup of choices": {"constraints": 1, "choices": 3, "cup": {"delta": 0.01, "lambda": 2.0}},
}


def ppo_case(case):
    """Three updates on one minibatch. A limit is [J, threshold, length]."""
    hidden, rows, lr, clip, value_coef, max_norm, t, steepest = [8, 6], 12, 3e-3, 0.2, 0.25, 0.5, 50.0, 20.0
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

    def distribution():
        if choices:
            return torch.distributions.Categorical(logits=policy(x))
        return torch.distributions.Independent(torch.distributions.Normal(policy(x), log_sigma.exp()), 1)

    def log_prob():
        return distribution().log_prob(tensors["draws"][:, 0] if choices else tensors["draws"])

    # The policy that played: this one with other heads.
    nudge = torch.tensor(rng.normal(0, 0.2, (rows, choices or ACTION)), dtype=torch.float32)
    played = (policy(x) + nudge).detach()
    if choices:
        player = torch.distributions.Categorical(logits=played)
        old = player.log_prob(tensors["draws"][:, 0])
    else:
        player = torch.distributions.Independent(torch.distributions.Normal(played, log_sigma.detach().exp() * 1.1), 1)
        old = player.log_prob(tensors["draws"])
    start = {"policy": flat(policy), "log_sigma": log_sigma.tolist(), "critics": [flat(c) for c in critics]}
    sigmas = [] if choices else [log_sigma]
    parameters = [*policy.parameters(), *sigmas, *(p for c in critics for p in c.parameters())]
    optimiser = torch.optim.Adam(parameters, lr)
    advantage, scale = tensors["advantages"][0], 1.0
    if case.get("normalise_advantages", True):
        scale = advantage.std() + 1e-8
        advantage = (advantage - advantage.mean()) / scale
    losses = []
    for _ in range(3):
        new = log_prob()
        ratio = (new - old).exp()
        held = ratio.clamp(1 - clip, 1 + clip)
        costs = tensors["advantages"][1:]
        weights = [case["focops"]["lambda"]] if "focops" in case else []
        for (j, e, length), a in zip(case.get("limits", []), costs):
            left = (e - j - length * ((ratio - 1) * a).mean()).item()
            weights.append(min(length / (t * left), steepest) if left > 0 else steepest)
        whole = 1 + sum(weights)
        a = (advantage - sum(w * c / scale for w, c in zip(weights, costs))) / whole
        if "focops" in case:
            a = (a - a.mean()) / (a.std() + 1e-8)
            apart = torch.distributions.kl_divergence(distribution(), player)
            near = (apart <= case["focops"]["delta"]).float()
            loss = (near.detach() * (apart - ratio * a / case["focops"]["temperature"])).mean()
        elif "cup" in case:
            apart = torch.distributions.kl_divergence(distribution(), player)
            near = (apart <= case["cup"]["delta"]).float()
            loss = (near.detach() * (apart + case["cup"]["lambda"] * ratio * costs[0])).mean()
        else:
            loss = -torch.min(ratio * a, held * a).mean()
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
        losses.append({"actor": loss.item(), "critic": value_loss.item(), "entropy": entropy.item()})
    return {
        "case": case,
        "config": {"clip": clip, "value_coef": value_coef, "max_grad_norm": max_norm, "barrier": t, "steepest": steepest, "lr": lr},
        "layers": hidden,
        "mean": mean.tolist(),
        "variance": variance.tolist(),
        "batch": {k: v.astype(np.float32).tolist() for k, v in batch.items()},
        "log_prob": old.tolist(),
        "old": {"heads": played.tolist(), "log_sigma": [] if choices else player.base_dist.stddev[0].log().tolist()},
        "start": start,
        "losses": losses,
        "after": {"policy": flat(policy), "log_sigma": log_sigma.tolist(), "critics": [flat(c) for c in critics]},
    }


def ppo():
    cases = {name: ppo_case(case) for name, case in PPO_CASES.items()}
    write("ppo.json", {"torch": torch.__version__, "cases": cases})


def paper_step(q, r, s, c, delta):
    """CPO's weights of H^-1 g and H^-1 b by the formulas of its appendix, which are not those of ours."""
    a, b = q - r * r / s, 2 * delta - c * c / s
    if c < 0 and b < 0:
        return (2 * delta / q) ** 0.5, 0.0
    if c > 0 and b < 0:
        return 0.0, (2 * delta / s) ** 0.5
    # Multipliers of the divergence: where the constraint binds, and where it does not.
    edge = max(-r / c, 0.0)
    low, high = ((edge, float("inf")), (0.0, edge)) if c > 0 else ((0.0, edge), (edge, float("inf")))
    clip = lambda x, between: min(max(x, between[0]), between[1])
    binding, free = clip((a / b) ** 0.5, low), clip((q / (2 * delta)) ** 0.5, high)
    gain = lambda l: -0.5 * (a / l + l * b) + r * c / s if l > 0 else -float("inf")
    gain_free = lambda l: -0.5 * (q / l + 2 * delta * l) if l > 0 else -float("inf")
    best = binding if gain(binding) >= gain_free(free) else free
    nu = max(0.0, best * c + r) / s
    return 1 / best, nu / best


def trust_region_case(case):
    """Slopes, a product with Fisher's matrix, and the steps of TRPO, CPO and PCPO with Fisher's matrix written out."""
    hidden, rows, damping, delta = [5, 4], 16, 0.1, 0.01
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    choices = case.get("choices")
    policy = network(OBS, choices or ACTION, hidden, torch.nn.Tanh).double()
    log_sigma = torch.tensor([] if choices else [-0.5, 0.2], dtype=torch.float64, requires_grad=True)
    obs = torch.tensor(rng.normal(size=(rows, OBS)))
    draws = torch.tensor(rng.integers(0, choices, (rows, 1)).astype(float) if choices else rng.normal(0, 0.7, (rows, ACTION)))
    advantages = torch.tensor(rng.normal(0.3, 1, (2, rows)))
    parameters = [*policy.parameters(), *([] if choices else [log_sigma])]
    start = torch.nn.utils.parameters_to_vector(parameters).detach()

    def distribution(flat_parameters):
        values, at = {}, 0
        for name, p in policy.named_parameters():
            values[name] = flat_parameters[at : at + p.numel()].view_as(p)
            at += p.numel()
        heads = torch.func.functional_call(policy, values, (obs,))
        if choices:
            return torch.distributions.Categorical(logits=heads)
        return torch.distributions.Independent(torch.distributions.Normal(heads, flat_parameters[at:].exp()), 1)

    draw = draws[:, 0] if choices else draws
    old = distribution(start)
    old_log = old.log_prob(draw).detach()
    surrogate = lambda p, a: (((distribution(p).log_prob(draw) - old_log).exp() - 1) * a).mean()
    divergence = lambda p: torch.distributions.kl_divergence(old, distribution(p)).mean()
    g, b = (torch.func.grad(surrogate)(start, a) for a in advantages)
    fisher = torch.func.hessian(divergence)(start).detach()
    damped = fisher + damping * torch.eye(len(start), dtype=torch.float64)
    direction = torch.tensor(rng.normal(size=len(start)))
    up, down = torch.linalg.solve(damped, g), torch.linalg.solve(damped, b)
    q, r, s = (g @ up).item(), (b @ up).item(), (b @ down).item()
    steps = []
    for name, share in [("trpo", None), *((n, c) for n in ("cpo", "pcpo") for c in (-2.0, -0.3, 0.3, 2.0))]:
        # How far the constraint is broken, in the longest way that a step can go down its cost.
        c = 0.0 if share is None else share * (2 * delta * s) ** 0.5
        if name == "trpo":
            reward, cost = (2 * delta / q) ** 0.5, 0.0
        elif name == "cpo":
            reward, cost = paper_step(q, r, s, c, delta)
        else:
            reward = (2 * delta / q) ** 0.5
            cost = max(0.0, (reward * r + c) / s)
            x = reward * up - cost * down
            shorter = min(1.0, (2 * delta / (x @ damped @ x).item()) ** 0.5)
            reward, cost = shorter * reward, shorter * cost
        step = reward * up - cost * down
        after = start + step
        steps.append({
            "name": name,
            "broken": c,
            "step": step.tolist(),
            "signals": [surrogate(after, a).item() for a in advantages],
            "kl": divergence(after).item(),
        })
    return {
        "case": case,
        "layers": hidden,
        "damping": damping,
        "delta": delta,
        "start": start.tolist(),
        "obs": obs.tolist(),
        "draws": draws.tolist(),
        "log_prob": old_log.tolist(),
        "advantages": advantages.tolist(),
        "gradients": [g.tolist(), b.tolist()],
        "direction": direction.tolist(),
        "product": (damped @ direction).tolist(),
        "steps": steps,
    }


def trust_region():
    cases = {"gaussian": trust_region_case({}), "choices": trust_region_case({"choices": 3})}
    write("trust_region.json", {"torch": torch.__version__, "cases": cases})


def evolution():
    """A child that learns its parents' better actions: PDERL's loss, the squares summed, the regulariser a mean."""
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    lr = 2e-3
    child = network(OBS, ACTION, activation=torch.nn.Tanh)
    start = flat(child)
    optimiser = torch.optim.Adam(child.parameters(), lr)
    batches = []
    for _ in range(UPDATES):
        obs = rng.normal(size=(BATCH, OBS)).astype(np.float32)
        wanted = rng.uniform(-1, 1, (BATCH, ACTION)).astype(np.float32)
        action = torch.tanh(child(torch.tensor(obs)))
        loss = ((action - torch.tensor(wanted)) ** 2).sum() + (action**2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        batches.append({"obs": obs.reshape(-1).tolist(), "wanted": wanted.reshape(-1).tolist(), "loss": loss.item()})
    distillation = {
        "sizes": [OBS, *HIDDEN, ACTION],
        "lr": lr,
        "start": start,
        "batches": batches,
        "after": flat(child),
    }
    write("evolution.json", {"torch": torch.__version__, "distillation": distillation})


def main():
    torch.set_num_threads(1)
    evolution()
    sac()
    constrained()
    ppo()
    trust_region()


if __name__ == "__main__":
    main()
