//! From what a policy makes of an observation to what is done.

use cmdp::{EnvSpec, Rng};
use nets::{categorical, gaussian};
use rand::RngExt as _;
use rand_distr::StandardNormal;

/// What a policy's numbers mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// `[μ, log σ]` of a Gaussian, which tanh brings to [-1, 1].
    Gaussian,
    /// A score for each choice.
    Categorical,
}

impl Head {
    /// The head of a task's policies.
    pub fn of(spec: &EnvSpec) -> Self {
        if spec.choices.is_some() { Self::Categorical } else { Self::Gaussian }
    }

    /// The action that is best in a policy's eyes: without noise, or the most likely one.
    pub fn settle(self, numbers: &[f32], action: &mut [f32]) {
        match self {
            Self::Gaussian => gaussian::act(numbers, None, action),
            Self::Categorical => action[0] = categorical::best(numbers) as f32,
        }
    }

    /// Draws an action; `draw` is what was drawn before tanh.
    pub fn draw(self, numbers: &[f32], rng: &mut Rng, draw: &mut [f32], action: &mut [f32]) {
        match self {
            Self::Gaussian => {
                draw.fill_with(|| rng.sample(StandardNormal));
                let (means, log_sigma) = numbers.split_at(draw.len());
                for (j, draw) in draw.iter_mut().enumerate() {
                    *draw = means[j] + gaussian::clamp(log_sigma[j]).exp() * *draw;
                    action[j] = draw.tanh();
                }
            }
            Self::Categorical => {
                draw[0] = categorical::sample(numbers, rng.random()) as f32;
                action[0] = draw[0];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_come_as_often_as_they_are_likely() {
        let (scores, mut rng) = ([0.0f32, 1.0f32.ln(), 6.0f32.ln()], cmdp::rng([3; 4]));
        let mut counts = [0; 3];
        for _ in 0..8000 {
            let (mut draw, mut action) = ([0.0], [0.0]);
            Head::Categorical.draw(&scores, &mut rng, &mut draw, &mut action);
            assert_eq!(draw, action);
            counts[action[0] as usize] += 1;
        }
        // One, one and six of eight; five deviations wide.
        for (count, expected) in counts.into_iter().zip([1000i32, 1000, 6000]) {
            assert!((count - expected).abs() < 200, "{counts:?}");
        }
        let mut action = [7.0];
        Head::Categorical.settle(&scores, &mut action);
        assert_eq!(action, [2.0]);
    }
}
