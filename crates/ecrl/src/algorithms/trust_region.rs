//! A policy that steps within a trust region: TRPO's family.
//!
//! All that was played makes one step of the policy, as long as its divergence from the one that played
//! may be; then the critics learn from it in minibatches.
//!
//! ```text
//! maximise gᵀx    while    ½xᵀHx ≤ δ    (and    c_i + b_iᵀx ≤ 0)
//! ```
//!
//! g and b_i are the slopes of the surrogates `mean ρA`, H is Fisher's matrix and a little of the identity.
//! H⁻¹g comes from conjugate gradients. What the first order promises is then searched for back along the
//! step: the divergence within δ, more reward (unless a constraint is broken), and of each cost no more than
//! there is room for.

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, range};
use crate::learners::ppo::Ppo;
use crate::learners::trust_region::search::search;
use crate::learners::trust_region::{Case, Problem, Step, add, conjugate_gradient, dot};
use crate::metrics::{Metric, Record};
use crate::state::{StateError, Walk};

use super::on_policy::{KL, RECOVERY};

/// The step that was taken.
static STEP: Metric<f64> = Metric::new(
    "step",
    "train/step",
    "share",
    "How much of its step within the trust region the policy took; 0 where no part of it was accepted",
);

/// What the policy's steps record.
pub const STEPS: &[&crate::metrics::About] = &[&KL.about, &STEP.about, &RECOVERY.about];

/// The trust region.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrustRegionConfig {
    /// Size δ: the largest mean divergence of a step; more learns faster and less safely.
    pub delta: f64,
    /// How much of the identity is added to Fisher's matrix; more makes steps shorter and steadier.
    pub damping: f64,
    /// Iterations of conjugate gradients; fewer are faster and less exact.
    pub iterations: usize,
    /// Lengths that are tried, each 0.8 of the one before.
    pub tries: usize,
}

impl Default for TrustRegionConfig {
    fn default() -> Self {
        Self { delta: 0.01, damping: 0.1, iterations: 15, tries: 15 }
    }
}

impl TrustRegionConfig {
    /// The keys whose values may change in the midst of a run.
    pub const CHANGEABLE: [&'static str; 4] = [
        "trust_region.delta",
        "trust_region.damping",
        "trust_region.iterations",
        "trust_region.tries",
    ];

    /// Checks every value against its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        range::positive("trust_region.delta", self.delta)?;
        range::not_negative("trust_region.damping", self.damping)?;
        range::many("trust_region.iterations", self.iterations)?;
        range::many("trust_region.tries", self.tries)
    }
}

/// What there is to tell of the last step.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Stepped {
    kl: f64,
    length: f64,
    recovery: bool,
}

impl Stepped {
    /// Notes it.
    pub fn note(&self, record: &mut Record) {
        record.set(&KL, self.kl);
        record.set(&STEP, self.length);
        record.set(&RECOVERY, f64::from(u8::from(self.recovery)));
    }

    /// Walks it: a generation may pause between the step and its end.
    pub fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        walk.plain("stepped", self)
    }
}

/// A constraint of a step.
pub struct Bound {
    /// The signal of its cost.
    pub signal: usize,
    /// How far it is broken, in the unit of one step's cost.
    pub broken: f64,
}

/// One step of the policy up these advantages within the trust region, the small problem solved by `solve`.
pub fn improve(
    ppo: &mut Ppo,
    config: &TrustRegionConfig,
    advantages: &[f32],
    bounds: &[Bound],
    solve: fn(&Problem) -> Step,
) -> Stepped {
    let TrustRegionConfig { delta, damping, iterations, tries } = *config;
    let mut linear = ppo.linear();
    let g = linear.gradient(advantages);
    let b: Vec<Vec<f32>> = bounds
        .iter()
        .map(|bound| {
            let advantages = linear.advantages(bound.signal).to_vec();
            linear.gradient(&advantages)
        })
        .collect();
    let mut inverse = |vector: &[f32]| {
        conjugate_gradient(|direction| linear.fisher(direction, damping), vector, iterations)
    };
    let reward = inverse(&g);
    let costs: Vec<Vec<f32>> = b.iter().map(|b| inverse(b)).collect();
    let problem = Problem {
        q: dot(&g, &reward),
        r: b.iter().map(|b| dot(b, &reward)).collect(),
        s: b.iter().map(|b| costs.iter().map(|cost| dot(b, cost)).collect()).collect(),
        c: bounds.iter().map(|bound| bound.broken).collect(),
        delta,
    };
    let step = solve(&problem);
    let mut direction = vec![0.0; g.len()];
    add(&mut direction, step.reward as f32, &reward);
    step.costs.iter().zip(&costs).for_each(|(nu, cost)| add(&mut direction, -*nu as f32, cost));

    let kept = matches!(step.case, Case::Free | Case::Bound);
    let mut taken = Stepped { recovery: step.case == Case::Recovery, ..Stepped::default() };
    let found = search(tries, |length| {
        let moved = linear.step(&direction, length);
        taken.kl = moved.kl;
        let gained = moved.surrogate(advantages);
        let costs =
            bounds.iter().all(|bound| moved.signals[bound.signal] <= (-bound.broken).max(0.0));
        moved.kl <= delta && (!kept || gained >= 0.0) && costs
    });
    match found {
        Some(length) => taken.length = length,
        None => {
            linear.back_to_start();
            (taken.kl, taken.length) = (0.0, 0.0);
        }
    }
    taken
}
