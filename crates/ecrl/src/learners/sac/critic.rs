//! One of the two critics: its network, its target, and what passes through them.

use nets::{Adam, Mlp, Tape};

use super::half::Inputs;

/// A critic.
#[derive(Debug, Clone)]
pub struct Critic {
    pub net: Mlp,
    pub target: Mlp,
    pub adam: Adam,
    pub gradient: Vec<f32>,
    pub loss: f64,
    pub tape: Tape,
    /// Q̄(s', ã')
    pub next: Vec<f32>,
    /// The rows in which this critic is the smaller one.
    pub smaller: Vec<usize>,
    /// The gradient of the action in those rows.
    pub d_action: Vec<f32>,
}

impl Critic {
    /// Q̄(s', ã') and Q(s, a).
    pub fn evaluate(&mut self, inputs: &Inputs<Vec<f32>>) {
        self.target.forward(&inputs.next_drawn, &mut self.tape);
        self.next.copy_from_slice(self.tape.output());
        self.net.forward(&inputs.taken, &mut self.tape);
    }

    /// One step towards the targets y; then Q(s, ã) for the actor.
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
        self.net.forward(&inputs.drawn, &mut self.tape);
    }

    /// The gradient of `-Q/batch` for the actions in the rows where this critic is the smaller.
    pub fn back_to_actions(&mut self) {
        let (inputs, batch) = (self.net.sizes()[0], self.next.len());
        let actions = self.d_action.len() / batch;
        self.tape.keep_rows(&self.smaller);
        self.tape.output_and_gradient().1.fill(-1.0 / batch as f32);
        let d_action = &mut self.d_action[..self.smaller.len() * actions];
        self.net.backward_input(&mut self.tape, inputs - actions, d_action);
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
