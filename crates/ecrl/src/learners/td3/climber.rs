//! An actor that climbs critics, which need not be its own.

use nets::{Mlp, Tape, Trained};

use super::Td3Config;
use super::twins::{Twins, write_actions};
use crate::learners::critic::Price;
use crate::state::{StateError, Walk};

/// The actor, with its optimiser.
#[derive(Debug, Clone)]
pub struct Climber {
    /// The network, whose output tanh brings to an action.
    pub actor: Trained,
    /// What passes through a critic leave behind; all have the same layers.
    tape: Option<Tape>,
}

impl Climber {
    /// One with this network, whose optimiser begins anew.
    pub fn new(config: &Td3Config, actor: Mlp) -> Self {
        Self { actor: Trained::new(actor, config.batch, config.actor_lr), tape: None }
    }

    /// One step on the batch that the critics drew last; a target follows. Returns the loss,
    /// `mean ( -Q_1(s, a) + Σ_i λ_i Q_ci(s, a) ) / ( 1 + Σ_i λ_i )`.
    pub fn climb(&mut self, twins: &Twins, price: Price, target: Option<&mut Mlp>) -> f64 {
        let Self { actor, tape } = self;
        let (obs, rows) = (&twins.batch().obs, twins.config.batch);
        let actions = *actor.net.sizes().last().expect("a layer");
        actor.net.forward(obs, &mut actor.tape);
        let acted: Vec<f32> = actor.tape.output().iter().map(|mean| mean.tanh()).collect();
        let mut drawn = twins.drawn().to_vec();
        let width = drawn.len() / rows;
        write_actions(acted.iter().copied(), &mut drawn, width, actions);

        let whole = price.whole();
        let (mut d_actions, mut d_action) = (vec![0.0; rows * actions], vec![0.0; rows * actions]);
        let mut value = 0.0;
        let weights = [-1.0].into_iter().chain(price.lambdas().iter().copied());
        for (critic, weight) in twins.climbed().zip(weights) {
            let tape = tape.get_or_insert_with(|| Tape::new(critic, rows));
            critic.forward(&drawn, tape);
            value += weight * tape.output().iter().map(|&q| f64::from(q)).sum::<f64>();
            tape.output_and_gradient().1.fill(weight as f32 / (rows as f32 * whole));
            critic.backward_input(tape, width - actions, &mut d_action);
            d_actions.iter_mut().zip(&d_action).for_each(|(sum, d)| *sum += d);
        }
        let d_heads = actor.tape.output_and_gradient().1;
        for ((d_head, d), a) in d_heads.iter_mut().zip(&d_actions).zip(&acted) {
            *d_head = d * (1.0 - a * a);
        }
        actor.net.backward(obs, &mut actor.tape, &mut actor.gradient);
        let (params, gradient) = (actor.net.params_mut(), &actor.gradient);
        match target {
            None => actor.adam.step(params, [gradient]),
            Some(target) => {
                let tau = twins.config.tau as f32;
                actor.adam.step_with_target(params, gradient, target.params_mut(), tau);
            }
        }
        value / (rows as f64 * f64::from(whole))
    }

    /// Walks everything that lasts.
    pub fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        walk.trained("actor", &mut self.actor)
    }
}
