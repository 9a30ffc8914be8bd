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
//! The batch is split into two chunks, and the work into pairs of independent pieces: chunk by
//! chunk for the actor, critic by critic for the critics. Pairs run on two threads if there are
//! two; sums over chunks are taken in order, so the bits never depend on the threads. Only rows
//! in which a critic is the smaller one are sent back through it.
//!
//! 1. Haarnoja et al., Soft Actor-Critic, ICML 2018.
//! 2. Fujimoto et al., Addressing Function Approximation Error in Actor-Critic Methods, ICML 2018.

use cmdp::Rng;
use nets::{Activation, Adam, Mlp, Tape, gaussian, store::mlp_tensors};
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
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Losses {
    /// The mean squared error of each critic.
    pub critic: [f64; 2],
    /// The actor's loss.
    pub actor: f64,
    /// The policy's entropy, as estimated by -log π.
    pub entropy: f64,
}

impl Losses {
    /// Whether every figure is a number.
    pub fn are_finite(&self) -> bool {
        let Self { critic: [a, b], actor, entropy } = self;
        [a, b, actor, entropy].iter().all(|x| x.is_finite())
    }

    /// Adds another update's figures.
    pub fn add(&mut self, other: &Self) {
        self.critic[0] += other.critic[0];
        self.critic[1] += other.critic[1];
        self.actor += other.actor;
        self.entropy += other.entropy;
    }

    /// The mean of `count` updates that were added.
    pub fn divided_by(self, count: f64) -> Self {
        Self {
            critic: self.critic.map(|x| x / count),
            actor: self.actor / count,
            entropy: self.entropy / count,
        }
    }
}

/// The learner: an actor, two critics with their targets, and their optimisers.
#[derive(Debug, Clone)]
pub struct Sac {
    config: SacConfig,
    actor: Mlp,
    actor_adam: Adam,
    actor_gradient: Vec<f32>,
    critics: [Critic; 2],
    chunks: [Chunk; 2],
}

#[derive(Debug, Clone)]
struct Critic {
    net: Mlp,
    target: Mlp,
    adam: Adam,
    gradient: Vec<f32>,
    loss: f64,
    passes: [Pass; 2],
}

/// What one critic computes about one chunk.
#[derive(Debug, Clone)]
struct Pass {
    tape: Tape,
    target_tape: Tape,
    /// The rows in which this critic is the smaller one.
    smaller: Vec<usize>,
    /// The gradient of the action in those rows.
    d_action: Vec<f32>,
}

/// One half of the batch.
#[derive(Debug, Clone)]
struct Chunk {
    rows: usize,
    obs: Vec<f32>,
    next_obs: Vec<f32>,
    /// Rows `[s, a]`, `[s', ã']` and `[s, ã]`: inputs of the critics.
    taken: Vec<f32>,
    next_drawn: Vec<f32>,
    drawn: Vec<f32>,
    /// r - λ·c
    reward: Vec<f32>,
    /// γ (1 - terminated)
    discount: Vec<f32>,
    noise: Vec<f32>,
    next_noise: Vec<f32>,
    log_prob: Vec<f32>,
    next_log_prob: Vec<f32>,
    target: Vec<f32>,
    tape: Tape,
    next_tape: Tape,
    d_action: Vec<f32>,
    actor_gradient: Vec<f32>,
}

impl Sac {
    /// A new learner for these sizes.
    pub fn new(config: SacConfig, obs: usize, action: usize, rng: &mut Rng) -> Self {
        let sizes = |inputs: usize, outputs: usize| -> Vec<usize> {
            [&[inputs], &config.hidden[..], &[outputs]].concat()
        };
        let actor = Self::new_actor(&config.hidden, obs, action, rng);
        let halves = [config.batch.div_ceil(2), config.batch / 2];
        let critics = [(); 2].map(|()| {
            let net = Mlp::new(&sizes(obs + action, 1), Activation::Relu, rng);
            let passes = halves.map(|rows| Pass {
                tape: Tape::new(&net, rows),
                target_tape: Tape::new(&net, rows),
                smaller: Vec::with_capacity(rows),
                d_action: vec![0.0; rows * action],
            });
            Critic {
                target: net.clone(),
                adam: Adam::new(net.params().len(), config.critic_lr),
                gradient: vec![0.0; net.params().len()],
                loss: 0.0,
                passes,
                net,
            }
        });
        let chunks = halves.map(|rows| Chunk::new(rows, obs, action, &actor));
        Self {
            actor_adam: Adam::new(actor.params().len(), config.actor_lr),
            actor_gradient: vec![0.0; actor.params().len()],
            config,
            actor,
            critics,
            chunks,
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
        let [first, second] = rngs;
        let gamma = self.config.gamma as f32;
        let Self { chunks: [a, b], actor, .. } = self;
        rayon::join(
            || a.draw(replay, gamma, first, actor),
            || b.draw(replay, gamma, second, actor),
        );
        self.learn()
    }

    /// The update proper, on what the chunks hold.
    fn learn(&mut self) -> Losses {
        let Self { config, actor, critics: [first, second], chunks, .. } = self;
        let alpha = config.alpha as f32;
        rayon::join(|| first.evaluate(chunks), || second.evaluate(chunks));
        for (i, chunk) in chunks.iter_mut().enumerate() {
            let next = [&first.passes[i], &second.passes[i]].map(|pass| pass.target_tape.output());
            chunk.set_target(next, alpha);
        }
        let (tau, batch) = (config.tau as f32, config.batch as f32);
        rayon::join(|| first.improve(chunks, tau, batch), || second.improve(chunks, tau, batch));
        let actor_loss = compare(first, second, chunks, config.alpha) / config.batch as f64;
        rayon::join(|| first.back_to_actions(batch), || second.back_to_actions(batch));
        let critics = [&*first, &*second];
        let d_log_prob = alpha / batch;
        let [a, b] = chunks;
        rayon::join(
            || a.back_to_actor(actor, critics.map(|critic| &critic.passes[0]), d_log_prob),
            || b.back_to_actor(actor, critics.map(|critic| &critic.passes[1]), d_log_prob),
        );
        let gradient = &mut self.actor_gradient;
        nets::simd(
            #[inline(always)]
            || {
                let parts = a.actor_gradient.iter().zip(&b.actor_gradient);
                for (sum, (a, b)) in gradient.iter_mut().zip(parts) {
                    *sum = a + b;
                }
            },
        );
        self.actor_adam.step(self.actor.params_mut(), gradient);

        let log_probs = self.chunks.iter().flat_map(|chunk| &chunk.log_prob);
        let entropy = -log_probs.map(|&x| f64::from(x)).sum::<f64>();
        Losses {
            critic: [self.critics[0].loss, self.critics[1].loss],
            actor: actor_loss,
            entropy: entropy / self.config.batch as f64,
        }
    }

    /// The name of the first tensor that holds a number that is not finite.
    pub fn broken_tensor(&self) -> Option<String> {
        let [first, second] = &self.critics;
        let nets = [
            ("actor", &self.actor),
            ("critic1", &first.net),
            ("critic2", &second.net),
            ("target1", &first.target),
            ("target2", &second.target),
        ];
        let mut tensors = nets.into_iter().flat_map(|(prefix, net)| {
            mlp_tensors(prefix, net)
                .into_iter()
                .map(move |(name, _, range)| (name, &net.params()[range]))
        });
        tensors.find(|(_, numbers)| numbers.iter().any(|x| !x.is_finite())).map(|(name, _)| name)
    }
}

impl Chunk {
    fn new(rows: usize, obs: usize, action: usize, actor: &Mlp) -> Self {
        let zeros = |width: usize| vec![0.0; rows * width];
        Self {
            rows,
            obs: zeros(obs),
            next_obs: zeros(obs),
            taken: zeros(obs + action),
            next_drawn: zeros(obs + action),
            drawn: zeros(obs + action),
            reward: zeros(1),
            discount: zeros(1),
            noise: zeros(action),
            next_noise: zeros(action),
            log_prob: zeros(1),
            next_log_prob: zeros(1),
            target: zeros(1),
            tape: Tape::new(actor, rows),
            next_tape: Tape::new(actor, rows),
            d_action: zeros(action),
            actor_gradient: vec![0.0; actor.params().len()],
        }
    }

    fn draw(&mut self, replay: &Replay, gamma: f32, rng: &mut Rng, actor: &Mlp) {
        for row in 0..self.rows {
            self.set(row, replay.sample(rng), gamma);
        }
        for noise in [&mut self.noise, &mut self.next_noise] {
            noise.fill_with(|| rng.sample(StandardNormal));
        }
        self.draw_actions(actor);
    }

    fn set(&mut self, row: usize, transition: Transition, gamma: f32) {
        let Transition { obs, action, next_obs, .. } = transition;
        let (n, width) = (obs.len(), obs.len() + action.len());
        self.obs[row * n..][..n].copy_from_slice(obs);
        self.next_obs[row * n..][..n].copy_from_slice(next_obs);
        self.taken[row * width..][..n].copy_from_slice(obs);
        self.taken[row * width + n..][..action.len()].copy_from_slice(action);
        self.drawn[row * width..][..n].copy_from_slice(obs);
        self.next_drawn[row * width..][..n].copy_from_slice(next_obs);
        let penalties = transition.multipliers.iter().zip(transition.costs);
        self.reward[row] = penalties.fold(transition.reward, |r, (lambda, c)| r - lambda * c);
        self.discount[row] = if transition.terminated { 0.0 } else { gamma };
    }

    /// Draws ã' and ã, with their log-probabilities.
    fn draw_actions(&mut self, actor: &Mlp) {
        let (obs, width) = (actor.sizes()[0], self.drawn.len() / self.rows.max(1));
        actor.forward(&self.next_obs, &mut self.next_tape);
        let head = self.next_tape.output();
        let actions = &mut self.next_drawn[obs..];
        gaussian::sample(head, &self.next_noise, actions, width, &mut self.next_log_prob);
        actor.forward(&self.obs, &mut self.tape);
        let actions = &mut self.drawn[obs..];
        gaussian::sample(self.tape.output(), &self.noise, actions, width, &mut self.log_prob);
    }

    fn set_target(&mut self, next: [&[f32]; 2], alpha: f32) {
        for i in 0..self.rows {
            let value = next[0][i].min(next[1][i]) - alpha * self.next_log_prob[i];
            self.target[i] = self.reward[i] + self.discount[i] * value;
        }
    }

    fn back_to_actor(&mut self, actor: &Mlp, passes: [&Pass; 2], d_log_prob: f32) {
        let actions = self.noise.len() / self.rows.max(1);
        for pass in passes {
            for (&row, d) in pass.smaller.iter().zip(pass.d_action.chunks_exact(actions)) {
                self.d_action[row * actions..][..actions].copy_from_slice(d);
            }
        }
        let (obs, width) = (actor.sizes()[0], actor.sizes()[0] + actions);
        let (head, d_head) = self.tape.output_and_gradient();
        let drawn = &self.drawn[obs..];
        gaussian::backward(head, &self.noise, drawn, width, &self.d_action, d_log_prob, d_head);
        actor.backward(&self.obs, &mut self.tape, &mut self.actor_gradient, false);
    }
}

impl Critic {
    /// Q̄(s', ã') and Q(s, a).
    fn evaluate(&mut self, chunks: &[Chunk; 2]) {
        for (pass, chunk) in self.passes.iter_mut().zip(chunks) {
            self.target.forward(&chunk.next_drawn, &mut pass.target_tape);
            self.net.forward(&chunk.taken, &mut pass.tape);
        }
    }

    /// One step towards the targets y; then Q(s, ã) for the actor.
    fn improve(&mut self, chunks: &[Chunk; 2], tau: f32, batch: f32) {
        let mut loss = 0.0;
        for (i, (pass, chunk)) in self.passes.iter_mut().zip(chunks).enumerate() {
            let (q, d_q) = pass.tape.output_and_gradient();
            for ((q, d_q), y) in q.iter().zip(d_q).zip(&chunk.target) {
                let error = q - y;
                loss += f64::from(error) * f64::from(error);
                *d_q = 2.0 * error / batch;
            }
            self.net.backward(&chunk.taken, &mut pass.tape, &mut self.gradient, i > 0);
        }
        self.loss = loss / f64::from(batch);
        let (params, target) = (self.net.params_mut(), self.target.params_mut());
        self.adam.step_with_target(params, &self.gradient, target, tau);
        for (pass, chunk) in self.passes.iter_mut().zip(chunks) {
            self.net.forward(&chunk.drawn, &mut pass.tape);
        }
    }

    /// The gradient of `-Q/batch` for the actions in the rows where this critic is the smaller.
    fn back_to_actions(&mut self, batch: f32) {
        for pass in &mut self.passes {
            pass.tape.keep_rows(&pass.smaller);
            pass.tape.output_and_gradient().1.fill(-1.0 / batch);
            let actions = pass.d_action.len() / pass.smaller.capacity().max(1);
            let first = self.net.sizes()[0] - actions;
            let d_action = &mut pass.d_action[..pass.smaller.len() * actions];
            self.net.backward_input(&mut pass.tape, first, d_action);
        }
    }
}

/// Finds the smaller critic of every row; returns the sum of `α log π - min_j Q_j`.
fn compare(first: &mut Critic, second: &mut Critic, chunks: &[Chunk; 2], alpha: f64) -> f64 {
    let mut sum = 0.0;
    for (chunk, (a, b)) in chunks.iter().zip(first.passes.iter_mut().zip(&mut second.passes)) {
        a.smaller.clear();
        b.smaller.clear();
        for row in 0..chunk.rows {
            let (q1, q2) = (a.tape.output()[row], b.tape.output()[row]);
            if q1 <= q2 {
                a.smaller.push(row);
            } else {
                b.smaller.push(row);
            }
            sum += alpha * f64::from(chunk.log_prob[row]) - f64::from(q1.min(q2));
        }
    }
    sum
}
