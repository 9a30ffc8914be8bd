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

impl Figure {
    /// All figures.
    pub const ALL: [Self; 3] = [Self::Dilemma, Self::Compare, Self::Ablation];

    /// What it compares.
    pub fn variants(self) -> Vec<Variant> {
        const PENALTIES: [&str; 8] = ["1e-5", "1e-4", "1e-3", "1e-2", "0.1", "1", "10", "100"];
        let texts: Vec<String> = match self {
            Self::Dilemma => {
                let shaped = PENALTIES.iter().map(|lambda| format!("erl-shaped lambda={lambda}"));
                ["erl", "rcpo-erl"].map(str::to_owned).into_iter().chain(shaped).collect()
            }
            Self::Compare => ["ecrl", "rcpo", "ipo", "rcpo-erl", "erl-shaped lambda=1e-3", "erl"]
                .map(str::to_owned)
                .to_vec(),
            Self::Ablation => ["ecrl", "sr", "sr-shaped", "bc"].map(str::to_owned).to_vec(),
        };
        texts.iter().map(|text| text.parse().expect("our own")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_figures() {
        let counts = Figure::ALL.map(|figure| figure.variants().len());
        assert_eq!(counts, [10, 6, 4]);
        // What two figures share is run once: ecrl, erl, rcpo-erl and erl-shaped lambda=1e-3.
        let mut names: Vec<String> =
            Figure::ALL.iter().flat_map(|f| f.variants()).map(|v| v.to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 16);
    }
}
