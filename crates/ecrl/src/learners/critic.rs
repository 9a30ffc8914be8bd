//! A critic of actions, of the reward or of a cost: its network, its target, and what passes through them.

use cmdp::Rng;
use nets::{Activation, Adam, Mlp, Tape};

use crate::learners::trust_region::dot;
use crate::state::{StateError, Walk};

/// The rows that critics see, of a whole batch or of one half.
#[derive(Debug, Clone)]
pub struct Inputs<T> {
    /// `[s, a]`
    pub taken: T,
    /// `[s', ã']`
    pub next_drawn: T,
    /// `[s, ã]`
    pub drawn: T,
}

/// How costs enter an update.
#[derive(Debug, Clone, Copy)]
pub enum Price<'a> {
    /// In the reward, by the multipliers that each transition was collected under.
    Stored,
    /// In the reward, by these multipliers, each less its centre; the slope of the first critic's loss after its
    /// step by each of them is told.
    InForce {
        /// λ
        lambdas: &'a [f64],
        /// What is taken from each cost.
        centres: &'a [f64],
    },
    /// By critics of their own, with these multipliers, each less its centre.
    Critics {
        /// λ
        lambdas: &'a [f64],
        /// What is taken from each cost.
        centres: &'a [f64],
    },
}

impl Price<'_> {
    /// 1 + Σ λ, which the actor's objective is divided by where costs have critics.
    pub fn whole(self) -> f32 {
        match self {
            Self::Critics { lambdas, .. } => 1.0 + lambdas.iter().sum::<f64>() as f32,
            _ => 1.0,
        }
    }

    /// The multipliers of critics.
    pub fn lambdas(&self) -> &[f64] {
        if let Self::Critics { lambdas, .. } = self { lambdas } else { &[] }
    }

    /// The reward of a transition, and to `out` what the costs' critics learn.
    pub fn apply(self, reward: f32, costs: &[f32], stored: &[f32], out: &mut [f32]) -> f32 {
        match self {
            Self::Stored => stored.iter().zip(costs).fold(reward, |r, (lambda, c)| r - lambda * c),
            Self::InForce { centres, .. } | Self::Critics { centres, .. } => {
                let each = out.iter_mut().zip(costs).zip(centres);
                each.for_each(|((out, cost), centre)| *out = cost - *centre as f32);
                let Self::InForce { lambdas, .. } = self else { return reward };
                lambdas.iter().zip(out).fold(reward, |r, (lambda, c)| r - *lambda as f32 * *c)
            }
        }
    }
}

/// A critic.
#[derive(Debug, Clone)]
pub struct Critic {
    /// Q
    pub net: Mlp,
    /// Q̄, which follows it.
    pub target: Mlp,
    /// Its optimiser.
    pub adam: Adam,
    /// The gradient of its parameters.
    pub gradient: Vec<f32>,
    /// The mean squared error of the last step.
    pub loss: f64,
    /// What passes leave behind.
    pub tape: Tape,
    /// Q̄(s', ã')
    pub next: Vec<f32>,
    /// The rows in which this critic is the smaller one.
    pub smaller: Vec<usize>,
    /// The gradient of the action in those rows.
    pub d_action: Vec<f32>,
}

impl Critic {
    /// A new one with these layers, for a batch of so many rows; the last inputs are the actions.
    pub fn new(sizes: &[usize], action: usize, batch: usize, lr: f64, rng: &mut Rng) -> Self {
        let net = Mlp::new(sizes, Activation::Relu, rng);
        Self {
            target: net.clone(),
            adam: Adam::new(net.params().len(), lr),
            gradient: vec![0.0; net.params().len()],
            loss: 0.0,
            tape: Tape::new(&net, batch),
            next: vec![0.0; batch],
            smaller: Vec::with_capacity(batch),
            d_action: vec![0.0; batch * action],
            net,
        }
    }

    /// Q̄(s', ã') and Q(s, a).
    pub fn evaluate(&mut self, inputs: &Inputs<Vec<f32>>) {
        self.target.forward(&inputs.next_drawn, &mut self.tape);
        self.next.copy_from_slice(self.tape.output());
        self.net.forward(&inputs.taken, &mut self.tape);
    }

    /// One step towards the targets y.
    pub fn improve(&mut self, inputs: &Inputs<Vec<f32>>, target: &[f32], tau: f32) {
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
    }

    /// The same for rewards that costs were taken from by multipliers λ: returns the slope by each λ of the
    /// loss after the step, on the same rows. λ moves the targets, and by a step of rate η the parameters:
    ///
    /// ```text
    /// dL(θ')/dλ = mean 2 (Q' - y) c - η·∇L(θ')ᵀ mean 2 c ∇Q        as dy/dλ = -c
    /// ```
    pub fn improve_and_tell(
        &mut self,
        inputs: &Inputs<Vec<f32>>,
        target: &[f32],
        tau: f32,
        costs: &[f32],
    ) -> Vec<f64> {
        let (batch, width) = (target.len(), costs.len() / target.len());
        let column = |i: usize| costs.iter().skip(i).step_by(width);
        let moved: Vec<Vec<f32>> = (0..width)
            .map(|i| {
                let d_q = self.tape.output_and_gradient().1;
                d_q.iter_mut().zip(column(i)).for_each(|(d, c)| *d = 2.0 * c / batch as f32);
                self.net.backward(&inputs.taken, &mut self.tape, &mut self.gradient);
                self.gradient.clone()
            })
            .collect();
        self.improve(inputs, target, tau);
        self.net.forward(&inputs.taken, &mut self.tape);
        let (q, d_q) = self.tape.output_and_gradient();
        for ((q, d_q), y) in q.iter().zip(d_q.iter_mut()).zip(target) {
            *d_q = 2.0 * (q - y) / batch as f32;
        }
        let d_q = d_q.to_vec();
        self.net.backward(&inputs.taken, &mut self.tape, &mut self.gradient);
        let rate = self.adam.learning_rate();
        let direct =
            |i: usize| d_q.iter().zip(column(i)).map(|(d, c)| f64::from(d * c)).sum::<f64>();
        let slopes = moved.iter().enumerate();
        slopes.map(|(i, moved)| direct(i) - rate * dot(&self.gradient, moved)).collect()
    }

    /// Q(s, ã) for the actor.
    pub fn judge(&mut self, inputs: &Inputs<Vec<f32>>) {
        self.net.forward(&inputs.drawn, &mut self.tape);
    }

    /// The targets of a cost, `c + discount·Q̄(s', ã')`, from rows of several costs.
    pub fn cost_targets(&self, costs: &[f32], which: usize, discounts: &[f32]) -> Vec<f32> {
        let width = costs.len() / discounts.len();
        let column = costs.iter().skip(which).step_by(width);
        let rows = column.zip(discounts).zip(&self.next);
        rows.map(|((cost, discount), next)| cost + discount * next).collect()
    }

    /// The gradient of `weight·Q` for the actions, in the rows where this critic is the smaller.
    pub fn back_to_actions(&mut self, weight: f32) {
        let (inputs, batch) = (self.net.sizes()[0], self.next.len());
        let actions = self.d_action.len() / batch;
        self.tape.keep_rows(&self.smaller);
        self.tape.output_and_gradient().1.fill(weight);
        let d_action = &mut self.d_action[..self.smaller.len() * actions];
        self.net.backward_input(&mut self.tape, inputs - actions, d_action);
    }
}

impl Critic {
    /// The same in all rows: adds to the gradient of the actions.
    pub fn add_to_actions(&mut self, weight: f32, d_actions: &mut [f32]) {
        self.smaller.clear();
        self.smaller.extend(0..self.next.len());
        self.back_to_actions(weight);
        d_actions.iter_mut().zip(&self.d_action).for_each(|(sum, d)| *sum += d);
    }

    /// Walks everything that lasts, under a name.
    pub fn walk(&mut self, name: &str, walk: &mut Walk) -> Result<(), StateError> {
        walk.net(name, &mut self.net)?;
        walk.adam(&format!("{name}.adam"), &mut self.adam)?;
        walk.net(&format!("{name}.target"), &mut self.target)
    }
}

/// Finds the smaller critic of every row; returns the sum of the smaller values.
pub fn compare(first: &mut Critic, second: &mut Critic) -> f64 {
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
