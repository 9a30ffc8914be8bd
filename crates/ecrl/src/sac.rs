//! Soft actor-critic with a fixed temperature, on rewards shaped by Lagrange multipliers.
//!
//! A batch of transitions, each with the multipliers λ it was collected under, gives the targets
//!
//! ```text
//! y = r - λ·c + γ (1 - terminated) ( min_j Q̄_j(s', ã') - α log π(ã'|s') )      ã' ~ π(·|s')
//! ```
//!
//! Both critics descend `mean (Q_j(s, a) - y)²`; then the actor descends
//! `mean ( α log π(ã|s) - min_j Q_j(s, ã) )` by the reparametrisation trick, against the critics
//! just improved; the target critics Q̄ follow with rate τ.
//!
//! # How it is fast
//!
//! The work is split into pairs of independent pieces: half by half of the batch for the actor,
//! critic by critic for the critics. Pairs run on two threads if there are two; whoever is done first
//! takes rows of the other's matrix products, and the second thread stays awake between the pieces.
//! Sums over halves are taken in order, so the bits never depend on the threads. Only rows in which a
//! critic is the smaller one are sent back through it. One tape serves all passes through a network:
//! what is touched less often than the second-level cache forgets is slow.
//!
//! 1. Haarnoja et al., Soft Actor-Critic, ICML 2018.
//! 2. Fujimoto et al., Addressing Function Approximation Error in Actor-Critic Methods, ICML 2018.

use cmdp::Rng;
use nets::store::{Store, StoreError, mlp_tensors};
use nets::threads::{awake, both};
use nets::{Activation, Adam, Mlp, Tape, gaussian};
use rand::RngExt as _;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use crate::replay::{Replay, Transition};

/// What the learner computes with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SacConfig {
    /// Units of the hidden layers of all networks. Paper: 256, 256.
    pub hidden: Vec<usize>,
    /// Transitions in a batch. Paper: 512.
    pub batch: usize,
    /// Discount γ; nearer to 1 looks further ahead. Authors' code: 0.99.
    pub gamma: f64,
    /// Rate τ at which target critics follow; less is steadier and slower. Authors' code: 1e-3.
    pub tau: f64,
    /// Entropy temperature α; more explores more. Paper: 0.1.
    pub alpha: f64,
    /// Learning rate of the actor. Paper: 1e-4.
    pub actor_lr: f64,
    /// Learning rate of the critics. Paper: 3e-4.
    pub critic_lr: f64,
}

impl Default for SacConfig {
    fn default() -> Self {
        Self {
            hidden: vec![256, 256],
            batch: 512,
            gamma: 0.99,
            tau: 1e-3,
            alpha: 0.1,
            actor_lr: 1e-4,
            critic_lr: 3e-4,
        }
    }
}

/// What one update saw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Losses {
    /// The mean squared error of each critic.
    pub critic: [f64; 2],
    /// The actor's loss.
    pub actor: f64,
    /// The policy's entropy, as estimated by -log π.
    pub entropy: f64,
}

/// The learner: an actor, two critics with their targets, and their optimisers.
#[derive(Debug, Clone)]
pub struct Sac {
    config: SacConfig,
    actor: Mlp,
    actor_adam: Adam,
    critics: [Critic; 2],
    halves: [Half; 2],
    inputs: Inputs<Vec<f32>>,
    /// y
    target: Vec<f32>,
}

#[derive(Debug, Clone)]
struct Critic {
    net: Mlp,
    target: Mlp,
    adam: Adam,
    gradient: Vec<f32>,
    loss: f64,
    tape: Tape,
    /// Q̄(s', ã')
    next: Vec<f32>,
    /// The rows in which this critic is the smaller one.
    smaller: Vec<usize>,
    /// The gradient of the action in those rows.
    d_action: Vec<f32>,
}

/// The rows that the critics see, of the whole batch or of one half.
#[derive(Debug, Clone)]
struct Inputs<T> {
    /// `[s, a]`
    taken: T,
    /// `[s', ã']`
    next_drawn: T,
    /// `[s, ã]`
    drawn: T,
}

/// One half of the batch, as the actor sees it.
#[derive(Debug, Clone)]
struct Half {
    rows: usize,
    obs: Vec<f32>,
    next_obs: Vec<f32>,
    /// r - λ·c
    reward: Vec<f32>,
    /// γ (1 - terminated)
    discount: Vec<f32>,
    noise: Vec<f32>,
    next_noise: Vec<f32>,
    log_prob: Vec<f32>,
    next_log_prob: Vec<f32>,
    tape: Tape,
    d_action: Vec<f32>,
    actor_gradient: Vec<f32>,
}

impl Sac {
    /// A new learner for these sizes; a batch must have at least two rows.
    pub fn new(config: SacConfig, obs: usize, action: usize, rng: &mut Rng) -> Self {
        let sizes = |inputs: usize, outputs: usize| -> Vec<usize> {
            [&[inputs], &config.hidden[..], &[outputs]].concat()
        };
        let actor = Self::new_actor(&config.hidden, obs, action, rng);
        let batch = config.batch;
        let critics = [(); 2].map(|()| {
            let net = Mlp::new(&sizes(obs + action, 1), Activation::Relu, rng);
            Critic {
                target: net.clone(),
                adam: Adam::new(net.params().len(), config.critic_lr),
                gradient: vec![0.0; net.params().len()],
                loss: 0.0,
                tape: Tape::new(&net, batch),
                next: vec![0.0; batch],
                smaller: Vec::with_capacity(batch),
                d_action: vec![0.0; batch * action],
                net,
            }
        });
        let rows = || vec![0.0; batch * (obs + action)];
        Self {
            actor_adam: Adam::new(actor.params().len(), config.actor_lr),
            halves: [batch.div_ceil(2), batch / 2].map(|rows| Half::new(rows, obs, action, &actor)),
            inputs: Inputs { taken: rows(), next_drawn: rows(), drawn: rows() },
            target: vec![0.0; batch],
            config,
            actor,
            critics,
        }
    }

    /// A new actor: a network from an observation to `[μ, log σ]`.
    pub fn new_actor(hidden: &[usize], obs: usize, action: usize, rng: &mut Rng) -> Mlp {
        Mlp::new(&[&[obs], hidden, &[2 * action]].concat(), Activation::Relu, rng)
    }

    /// The policy.
    pub fn actor(&self) -> &Mlp {
        &self.actor
    }

    /// One update on a batch drawn from `replay`. All randomness comes from the two generators, one
    /// for each half of the batch.
    pub fn update(&mut self, replay: &Replay, rngs: &mut [Rng; 2]) -> Losses {
        awake(|| {
            self.draw(replay, rngs);
            self.learn()
        })
    }

    /// Fills the halves.
    fn draw(&mut self, replay: &Replay, rngs: &mut [Rng; 2]) {
        let gamma = self.config.gamma as f32;
        let Self { halves: [a, b], inputs, actor, .. } = self;
        let ([first, second], [a_inputs, b_inputs]) = (rngs, inputs.halves(a.rows + b.rows));
        both(
            || a.draw(a_inputs, replay, gamma, first, actor),
            || b.draw(b_inputs, replay, gamma, second, actor),
        );
    }

    /// The update proper, on what the halves hold.
    fn learn(&mut self) -> Losses {
        let Self { config, actor, critics: [first, second], halves, inputs, target, .. } = self;
        let (alpha, tau) = (config.alpha as f32, config.tau as f32);
        let log_probs = |half: &Half| half.log_prob.iter().map(|&x| f64::from(x)).sum::<f64>();
        let entropy = -halves.iter().map(log_probs).sum::<f64>() / config.batch as f64;
        both(|| first.evaluate(inputs), || second.evaluate(inputs));
        let values = halves.iter().flat_map(Half::returns).zip(first.next.iter().zip(&second.next));
        for (target, ((reward, discount, log_prob), (q1, q2))) in target.iter_mut().zip(values) {
            *target = reward + discount * (q1.min(*q2) - alpha * log_prob);
        }
        both(|| first.improve(inputs, target, tau), || second.improve(inputs, target, tau));
        let q = compare(first, second) / config.batch as f64;
        both(|| first.back_to_actions(), || second.back_to_actions());
        let critics = [&*first, &*second];
        let d_log_prob = alpha / config.batch as f32;
        let ([a, b], [a_inputs, b_inputs]) = (&mut *halves, inputs.halves(config.batch));
        let rest = a.rows;
        both(
            || a.back_to_actor(actor, a_inputs.drawn, critics, 0, d_log_prob),
            || b.back_to_actor(actor, b_inputs.drawn, critics, rest, d_log_prob),
        );
        let gradients = halves.each_ref().map(|half| &half.actor_gradient[..]);
        self.actor_adam.step(self.actor.params_mut(), gradients);

        Losses {
            critic: [self.critics[0].loss, self.critics[1].loss],
            actor: -self.config.alpha * entropy - q,
            entropy,
        }
    }

    fn parts(&self) -> [(&'static str, &Mlp, Option<&Adam>); 5] {
        let [first, second] = &self.critics;
        // In the order in which trouble spreads.
        [
            ("critic1", &first.net, Some(&first.adam)),
            ("critic2", &second.net, Some(&second.adam)),
            ("target1", &first.target, None),
            ("target2", &second.target, None),
            ("actor", &self.actor, Some(&self.actor_adam)),
        ]
    }

    /// Adds all networks and the optimisers' moments to a store; returns the optimisers' steps.
    pub fn save(&self, store: &mut Store) -> Vec<u64> {
        let mut steps = Vec::new();
        for (name, net, adam) in self.parts() {
            store.add_mlp(name, net);
            if let Some((taken, m, v)) = adam.map(Adam::state) {
                store.add(format!("{name}.adam.m"), &[m.len()], m);
                store.add(format!("{name}.adam.v"), &[v.len()], v);
                steps.push(taken);
            }
        }
        steps
    }

    /// Goes back to what [`save`](Self::save) stored.
    pub fn load(&mut self, store: &Store, steps: &[u64]) -> Result<(), StoreError> {
        let mut steps = steps.iter();
        let [first, second] = &mut self.critics;
        for (name, net, adam) in [
            ("critic1", &mut first.net, Some(&mut first.adam)),
            ("critic2", &mut second.net, Some(&mut second.adam)),
            ("target1", &mut first.target, None),
            ("target2", &mut second.target, None),
            ("actor", &mut self.actor, Some(&mut self.actor_adam)),
        ] {
            *net = store.mlp_like(name, net)?;
            if let Some(adam) = adam {
                let shape = [net.params().len()];
                let m = store.get(&format!("{name}.adam.m"), &shape)?;
                let v = store.get(&format!("{name}.adam.v"), &shape)?;
                let taken = steps.next().ok_or_else(|| StoreError::Missing("adam steps".into()))?;
                adam.restore(*taken, m, v);
            }
        }
        Ok(())
    }

    /// The name of the first tensor that holds a number that is not finite.
    pub fn broken_tensor(&self) -> Option<String> {
        let mut tensors = self.parts().into_iter().flat_map(|(prefix, net, _)| {
            mlp_tensors(prefix, net)
                .into_iter()
                .map(move |(name, _, range)| (name, &net.params()[range]))
        });
        tensors.find(|(_, numbers)| numbers.iter().any(|x| !x.is_finite())).map(|(name, _)| name)
    }
}

impl Inputs<Vec<f32>> {
    /// The rows of each half of the batch; the first half is the larger one.
    fn halves(&mut self, rows: usize) -> [Inputs<&mut [f32]>; 2] {
        let at = self.taken.len() / rows * rows.div_ceil(2);
        let (taken, taken_2) = self.taken.split_at_mut(at);
        let (next_drawn, next_drawn_2) = self.next_drawn.split_at_mut(at);
        let (drawn, drawn_2) = self.drawn.split_at_mut(at);
        [
            Inputs { taken, next_drawn, drawn },
            Inputs { taken: taken_2, next_drawn: next_drawn_2, drawn: drawn_2 },
        ]
    }
}

impl Half {
    fn new(rows: usize, obs: usize, action: usize, actor: &Mlp) -> Self {
        let zeros = |width: usize| vec![0.0; rows * width];
        Self {
            rows,
            obs: zeros(obs),
            next_obs: zeros(obs),
            reward: zeros(1),
            discount: zeros(1),
            noise: zeros(action),
            next_noise: zeros(action),
            log_prob: zeros(1),
            next_log_prob: zeros(1),
            tape: Tape::new(actor, rows),
            d_action: zeros(action),
            actor_gradient: vec![0.0; actor.params().len()],
        }
    }

    fn draw(
        &mut self,
        mut inputs: Inputs<&mut [f32]>,
        replay: &Replay,
        gamma: f32,
        rng: &mut Rng,
        actor: &Mlp,
    ) {
        for row in 0..self.rows {
            self.set(row, replay.sample(rng), gamma, &mut inputs);
        }
        for noise in [&mut self.noise, &mut self.next_noise] {
            noise.fill_with(|| rng.sample(StandardNormal));
        }
        self.draw_actions(actor, inputs);
    }

    fn set(
        &mut self,
        row: usize,
        transition: Transition,
        gamma: f32,
        inputs: &mut Inputs<&mut [f32]>,
    ) {
        let Transition { obs, action, next_obs, .. } = transition;
        let (n, width) = (obs.len(), obs.len() + action.len());
        self.obs[row * n..][..n].copy_from_slice(obs);
        self.next_obs[row * n..][..n].copy_from_slice(next_obs);
        inputs.taken[row * width..][..n].copy_from_slice(obs);
        inputs.taken[row * width + n..][..action.len()].copy_from_slice(action);
        inputs.drawn[row * width..][..n].copy_from_slice(obs);
        inputs.next_drawn[row * width..][..n].copy_from_slice(next_obs);
        let penalties = transition.multipliers.iter().zip(transition.costs);
        self.reward[row] = penalties.fold(transition.reward, |r, (lambda, c)| r - lambda * c);
        self.discount[row] = if transition.terminated { 0.0 } else { gamma };
    }

    /// Draws ã' and ã, with their log-probabilities. What the tape holds then is of ã.
    fn draw_actions(&mut self, actor: &Mlp, inputs: Inputs<&mut [f32]>) {
        let Self { tape, noise, next_noise, log_prob, next_log_prob, .. } = self;
        let width = inputs.drawn.len() / self.rows;
        actor.forward(&self.next_obs, tape);
        gaussian::sample(tape.output(), next_noise, inputs.next_drawn, width, next_log_prob);
        actor.forward(&self.obs, tape);
        gaussian::sample(tape.output(), noise, inputs.drawn, width, log_prob);
    }

    /// Of each row: the shaped reward, the discount, and log π(ã'|s').
    fn returns(&self) -> impl Iterator<Item = (f32, f32, f32)> {
        let rewards = self.reward.iter().zip(&self.discount).zip(&self.next_log_prob);
        rewards.map(|((reward, discount), log_prob)| (*reward, *discount, *log_prob))
    }

    /// The gradient of the actor, for the rows of the batch from `first` on.
    fn back_to_actor(
        &mut self,
        actor: &Mlp,
        drawn: &[f32],
        critics: [&Critic; 2],
        first: usize,
        d_log_prob: f32,
    ) {
        let actions = self.noise.len() / self.rows;
        for critic in critics {
            let rows = critic.smaller.iter().zip(critic.d_action.chunks_exact(actions));
            for (&row, d) in rows.filter(|(row, _)| (first..first + self.rows).contains(row)) {
                self.d_action[(row - first) * actions..][..actions].copy_from_slice(d);
            }
        }
        let width = drawn.len() / self.rows;
        let (head, d_head) = self.tape.output_and_gradient();
        gaussian::backward(head, &self.noise, drawn, width, &self.d_action, d_log_prob, d_head);
        actor.backward(&self.obs, &mut self.tape, &mut self.actor_gradient);
    }
}

impl Critic {
    /// Q̄(s', ã') and Q(s, a).
    fn evaluate(&mut self, inputs: &Inputs<Vec<f32>>) {
        self.target.forward(&inputs.next_drawn, &mut self.tape);
        self.next.copy_from_slice(self.tape.output());
        self.net.forward(&inputs.taken, &mut self.tape);
    }

    /// One step towards the targets y; then Q(s, ã) for the actor.
    fn improve(&mut self, inputs: &Inputs<Vec<f32>>, target: &[f32], tau: f32) {
        let batch = target.len() as f32;
        let mut loss = 0.0;
        let (q, d_q) = self.tape.output_and_gradient();
        for ((q, d_q), y) in q.iter().zip(d_q).zip(target) {
            let error = q - y;
            loss += f64::from(error) * f64::from(error);
            *d_q = 2.0 * error / batch;
        }
        self.loss = loss / f64::from(batch);
        self.net.backward(&inputs.taken, &mut self.tape, &mut self.gradient);
        let (params, target) = (self.net.params_mut(), self.target.params_mut());
        self.adam.step_with_target(params, &self.gradient, target, tau);
        self.net.forward(&inputs.drawn, &mut self.tape);
    }

    /// The gradient of `-Q/batch` for the actions in the rows where this critic is the smaller.
    fn back_to_actions(&mut self) {
        let (inputs, batch) = (self.net.sizes()[0], self.next.len());
        let actions = self.d_action.len() / batch;
        self.tape.keep_rows(&self.smaller);
        self.tape.output_and_gradient().1.fill(-1.0 / batch as f32);
        let d_action = &mut self.d_action[..self.smaller.len() * actions];
        self.net.backward_input(&mut self.tape, inputs - actions, d_action);
    }
}

/// Finds the smaller critic of every row; returns the sum of the smaller values.
fn compare(first: &mut Critic, second: &mut Critic) -> f64 {
    first.smaller.clear();
    second.smaller.clear();
    let mut sum = 0.0;
    for (row, (q1, q2)) in first.tape.output().iter().zip(second.tape.output()).enumerate() {
        if q1 <= q2 {
            first.smaller.push(row);
        } else {
            second.smaller.push(row);
        }
        sum += f64::from(q1.min(*q2));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const FIXTURE: &str = include_str!("../tests/fixtures/sac.json");

    fn floats(value: &Value) -> Vec<f32> {
        match value {
            Value::Array(items) => items.iter().flat_map(floats).collect(),
            other => vec![other.as_f64().unwrap() as f32],
        }
    }

    fn doubles(numbers: &[f32]) -> Vec<f64> {
        numbers.iter().map(|&x| x.into()).collect()
    }

    /// The learner of the fixture before its first update.
    fn learner(fixture: &Value) -> Sac {
        let number = |name: &str| fixture["config"][name].as_f64().unwrap();
        let size = |name: &str| fixture["sizes"][name].as_u64().unwrap() as usize;
        let hidden = floats(&fixture["sizes"]["hidden"]).iter().map(|&x| x as usize).collect();
        let config = SacConfig {
            hidden,
            batch: size("batch"),
            gamma: number("gamma"),
            tau: number("tau"),
            alpha: number("alpha"),
            actor_lr: number("actor_lr"),
            critic_lr: number("critic_lr"),
        };
        let mut sac = Sac::new(config, size("obs"), size("action"), &mut cmdp::rng([0; 4]));
        let start = &fixture["start"];
        sac.actor.params_mut().copy_from_slice(&floats(&start["actor"]));
        for (i, critic) in sac.critics.iter_mut().enumerate() {
            critic.net.params_mut().copy_from_slice(&floats(&start["critics"][i]));
            critic.target.params_mut().copy_from_slice(&floats(&start["targets"][i]));
        }
        sac
    }

    /// Fills the halves with a batch of the fixture and draws the actions.
    fn fill(sac: &mut Sac, batch: &Value) {
        let mut first = 0;
        let gamma = sac.config.gamma as f32;
        let Sac { halves, inputs, actor, config, .. } = sac;
        for (half, mut inputs) in halves.iter_mut().zip(inputs.halves(config.batch)) {
            for row in 0..half.rows {
                let part = |name: &str| floats(&batch[name][first + row]);
                let (obs, action, next_obs) = (part("obs"), part("action"), part("next_obs"));
                let (costs, multipliers) = (part("costs"), part("multipliers"));
                let transition = Transition {
                    obs: &obs,
                    action: &action,
                    reward: part("reward")[0],
                    costs: &costs,
                    multipliers: &multipliers,
                    next_obs: &next_obs,
                    terminated: batch["terminated"][first + row].as_bool().unwrap(),
                };
                half.set(row, transition, gamma, &mut inputs);
            }
            let rows = |name: &str| -> Vec<f32> {
                (first..first + half.rows).flat_map(|row| floats(&batch[name][row])).collect()
            };
            half.noise = rows("noise");
            half.next_noise = rows("next_noise");
            half.draw_actions(actor, inputs);
            first += half.rows;
        }
    }

    fn assert_close(ours: &[f32], expected: &[f32], what: &str) {
        assert_eq!(ours.len(), expected.len());
        for (i, (a, b)) in ours.iter().zip(expected).enumerate() {
            // Relative to the size of a weight; the learning rate alone is 1e-3.
            assert!((a - b).abs() <= 1e-5 * b.abs().max(0.1), "{what}[{i}]: {a} {b}");
        }
    }

    #[test]
    fn ten_updates_agree_with_pytorch() {
        let fixture: Value = serde_json::from_str(FIXTURE).unwrap();
        let mut sac = learner(&fixture);
        for (i, batch) in fixture["batches"].as_array().unwrap().iter().enumerate() {
            fill(&mut sac, batch);
            let losses = sac.learn();
            let expected = &fixture["losses"][i];
            for (ours, theirs) in [
                (losses.critic[0], &expected["critic"][0]),
                (losses.critic[1], &expected["critic"][1]),
                (losses.actor, &expected["actor"]),
                (losses.entropy, &expected["entropy"]),
            ] {
                let theirs = theirs.as_f64().unwrap();
                assert!(
                    (ours - theirs).abs() <= 1e-5 * theirs.abs().max(0.1),
                    "{i}: {ours} {theirs}"
                );
            }
            if let Some(after) = fixture["after"].get((i + 1).to_string()) {
                assert_close(sac.actor.params(), &floats(&after["actor"]), "actor");
                for (j, critic) in sac.critics.iter().enumerate() {
                    assert_close(critic.net.params(), &floats(&after["critics"][j]), "critic");
                    assert_close(critic.target.params(), &floats(&after["targets"][j]), "target");
                }
            }
        }
        assert_eq!(fixture["batches"].as_array().unwrap().len(), 10);
    }

    /// A network in f64, as the formula says.
    fn forward(sizes: &[usize], params: &[f64], input: &[f64]) -> Vec<f64> {
        let mut x = input.to_vec();
        let mut at = 0;
        for (layer, pair) in sizes.windows(2).enumerate() {
            let (weight, bias) = params[at..].split_at(pair[0] * pair[1]);
            at += pair[0] * pair[1] + pair[1];
            x = (0..pair[1])
                .map(|o| {
                    let row = &weight[o * pair[0]..(o + 1) * pair[0]];
                    let sum: f64 = bias[o] + row.iter().zip(&x).map(|(w, x)| w * x).sum::<f64>();
                    if layer + 2 < sizes.len() { sum.max(0.0) } else { sum }
                })
                .collect();
        }
        x
    }

    fn differences(x: &[f64], loss: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        let at = |i: usize, h: f64| {
            let mut moved = x.to_vec();
            moved[i] += h;
            loss(&moved)
        };
        (0..x.len()).map(|i| (at(i, 1e-6) - at(i, -1e-6)) / 2e-6).collect()
    }

    fn assert_gradient(ours: &[f32], expected: &[f64], what: &str) {
        let largest = expected.iter().fold(0.0, |max: f64, x| max.max(x.abs()));
        assert!(largest > 1e-3, "{what}: nothing to compare");
        for (i, (a, b)) in ours.iter().zip(expected).enumerate() {
            let error = (f64::from(*a) - b).abs();
            assert!(error <= 1e-4 * b.abs().max(0.01 * largest), "{what}[{i}]: {a} {b}");
        }
    }

    #[test]
    fn both_losses_have_the_gradients_of_finite_differences() {
        let fixture: Value = serde_json::from_str(FIXTURE).unwrap();
        let mut sac = learner(&fixture);
        fill(&mut sac, &fixture["batches"][0]);
        let before = sac.clone();
        sac.learn();
        let batch = before.config.batch as f64;
        let rows = |numbers: &[f32], width: usize| -> Vec<Vec<f64>> {
            numbers.chunks_exact(width).map(doubles).collect()
        };
        let (taken, targets) = (rows(&sac.inputs.taken, 6), rows(&sac.target, 1));
        let obs = sac.halves.iter().flat_map(|half| rows(&half.obs, 4)).collect::<Vec<_>>();
        let noise = sac.halves.iter().flat_map(|half| rows(&half.noise, 2)).collect::<Vec<_>>();

        let sizes = before.critics[0].net.sizes();
        for (j, critic) in before.critics.iter().enumerate() {
            let loss = |params: &[f64]| -> f64 {
                let errors =
                    taken.iter().zip(&targets).map(|(x, y)| forward(sizes, params, x)[0] - y[0]);
                errors.map(|e| e * e).sum::<f64>() / batch
            };
            let expected = differences(&doubles(critic.net.params()), loss);
            assert_gradient(&sac.critics[j].gradient, &expected, "critic");
        }

        // The actor is improved against the critics as they are after their step.
        let critics: Vec<Vec<f64>> = sac.critics.iter().map(|c| doubles(c.net.params())).collect();
        let loss = |params: &[f64]| -> f64 {
            let each = obs.iter().zip(&noise).map(|(obs, noise)| {
                let head = forward(before.actor.sizes(), params, obs);
                let mut log_prob = 0.0;
                let mut input = obs.clone();
                for j in 0..2 {
                    let log_sigma = head[2 + j].clamp(-20.0, 2.0);
                    let a = (head[j] + log_sigma.exp() * noise[j]).tanh();
                    log_prob -= 0.5 * noise[j] * noise[j] + log_sigma + (1.0 - a * a).ln();
                    input.push(a);
                }
                let q = critics.iter().map(|critic| forward(sizes, critic, &input)[0]);
                before.config.alpha * log_prob - q.fold(f64::INFINITY, f64::min)
            });
            each.sum::<f64>() / batch
        };
        let expected = differences(&doubles(before.actor.params()), loss);
        let [first, rest] = sac.halves.each_ref().map(|half| &half.actor_gradient);
        let gradient: Vec<f32> = first.iter().zip(rest).map(|(a, b)| a + b).collect();
        assert_gradient(&gradient, &expected, "actor");
    }

    #[test]
    fn a_truncated_transition_bootstraps_and_a_terminated_one_does_not() {
        let fixture: Value = serde_json::from_str(FIXTURE).unwrap();
        let mut sac = learner(&fixture);
        fill(&mut sac, &fixture["batches"][0]);
        sac.learn();
        let terminated = fixture["batches"][0]["terminated"].as_array().unwrap();
        let rows = sac.target.iter().zip(sac.halves.iter().flat_map(|half| &half.reward));
        let mut seen = [0, 0];
        for ((target, reward), terminated) in rows.zip(terminated) {
            let terminated = terminated.as_bool().unwrap();
            assert_eq!(target == reward, terminated);
            seen[usize::from(terminated)] += 1;
        }
        assert!(seen[0] > 0 && seen[1] > 0);
    }

    fn filled(count: usize) -> Replay {
        let mut replay = Replay::new(count, 3, 2, 1);
        for i in 0..count {
            let x = (i as f32 * 0.7).sin();
            replay.push(Transition {
                obs: &[x, -x, 0.5],
                action: &[0.3 * x, 0.1],
                reward: x,
                costs: &[0.5],
                multipliers: &[0.1],
                next_obs: &[x + 0.1, x, 0.4],
                terminated: i % 7 == 0,
            });
        }
        replay
    }

    #[test]
    fn the_bits_do_not_depend_on_the_threads() {
        let replay = filled(500);
        let train = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            // Large enough for threads to share single products.
            let config = SacConfig { batch: 101, ..SacConfig::default() };
            let mut sac = Sac::new(config, 3, 2, &mut cmdp::rng([1; 4]));
            pool.install(|| {
                for i in 0..20 {
                    sac.update(&replay, &mut [cmdp::rng([i, 0, 0, 0]), cmdp::rng([i, 0, 0, 1])]);
                }
            });
            (sac.actor, sac.critics.map(|c| (c.net, c.target)))
        };
        let one = train(1);
        assert_eq!(train(2), one);
        assert_eq!(train(5), one);
    }

    #[test]
    fn a_broken_tensor_is_named() {
        let config = SacConfig { hidden: vec![8], batch: 4, ..SacConfig::default() };
        let mut sac = Sac::new(config, 3, 2, &mut cmdp::rng([1; 4]));
        assert_eq!(sac.broken_tensor(), None);
        let bias = sac.critics[1].net.bias_range(0).start;
        sac.critics[1].net.params_mut()[bias] = f32::NAN;
        assert_eq!(sac.broken_tensor().as_deref(), Some("critic2.0.bias"));
    }
}
