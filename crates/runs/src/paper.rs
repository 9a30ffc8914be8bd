//! The paper's three figures, each a grid.

use crate::grid::Variant;

/// A figure of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Reward against constraint: fixed penalties from too small to too large.
    Dilemma,
    /// ECRL beside the state of the art.
    Compare,
    /// ECRL beside its parts.
    Ablation,
}

/// An agent of a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// What the paper calls it.
    pub name: &'static str,
    /// What it is here.
    pub variant: Variant,
}

impl Figure {
    /// All figures.
    pub const ALL: [Self; 3] = [Self::Dilemma, Self::Compare, Self::Ablation];

    /// The name used in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dilemma => "dilemma",
            Self::Compare => "compare",
            Self::Ablation => "ablation",
        }
    }

    /// What it shows, as the paper's caption has it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Dilemma => "ERL, RCPO-ERL, and ERL with rewards shaped by different penalties",
            Self::Compare => "ECRL beside RCPO, IPO, RCPO-ERL, ERL with shaped rewards, and ERL",
            Self::Ablation => "Ablation: ECRL beside its parts",
        }
    }

    /// Its line-up, in the paper's order.
    pub fn agents(self) -> Vec<Agent> {
        let pairs: &[(&'static str, &str)] = match self {
            Self::Dilemma => &[
                ("ERL", "erl"),
                ("RCPO-ERL", "rcpo-erl"),
                ("ERL_0.00001", "erl-shaped lambda=1e-5"),
                ("ERL_0.0001", "erl-shaped lambda=1e-4"),
                ("ERL_0.001", "erl-shaped lambda=1e-3"),
                ("ERL_0.01", "erl-shaped lambda=1e-2"),
                ("ERL_0.1", "erl-shaped lambda=0.1"),
                ("ERL_1", "erl-shaped lambda=1"),
                ("ERL_10", "erl-shaped lambda=10"),
                ("ERL_100", "erl-shaped lambda=100"),
            ],
            Self::Compare => &[
                ("ECRL", "ecrl"),
                ("RCPO", "rcpo"),
                ("IPO", "ipo"),
                ("RCPO-ERL", "rcpo-erl"),
                ("ERL_0.001", "erl-shaped lambda=1e-3"),
                ("ERL", "erl"),
            ],
            Self::Ablation => {
                &[("ECRL", "ecrl"), ("SR", "sr"), ("SR_λ", "sr-shaped lambda=1e-3"), ("B_C", "bc")]
            }
        };
        let agent = |&(name, text): &(&'static str, &str)| Agent {
            name,
            variant: text.parse().expect("our own"),
        };
        pairs.iter().map(agent).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_figures() {
        let counts = Figure::ALL.map(|figure| figure.agents().len());
        assert_eq!(counts, [10, 6, 4]);
        // What two figures share is run once: ecrl, erl, rcpo-erl and erl-shaped lambda=1e-3.
        let all = Figure::ALL.iter().flat_map(|figure| figure.agents());
        let mut names: Vec<String> = all.map(|agent| agent.variant.to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 16);
    }
}
