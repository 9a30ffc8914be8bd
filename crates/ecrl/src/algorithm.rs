//! Every algorithm is one loop with choices made once: this is the table of choices.

/// Which multipliers λ transitions are shaped with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Multipliers {
    /// None: λ = 0, the constraints are measured and nothing else.
    None,
    /// The learner's own, which follows the violation.
    Adaptive,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Algorithm {
    /// The name as typed on the command line.
    pub name: &'static str,
    /// The multipliers of the transitions.
    pub multipliers: Multipliers,
    /// What it is, in one line.
    pub description: &'static str,
}

/// Every algorithm.
pub const ALGORITHMS: [Algorithm; 2] = [
    Algorithm {
        name: "rcpo",
        multipliers: Multipliers::Adaptive,
        description: "SAC on r - λ·c, λ adapted to the violation (Tessler et al., 2019)",
    },
    Algorithm {
        name: "sac",
        multipliers: Multipliers::None,
        description: "SAC without constraints: the unconstrained reference (Haarnoja et al., 2018)",
    },
];
