//! The best step within a trust region, to first order, with constraints: the small problem that is left
//! when every large vector has become a product.
//!
//! ```text
//! maximise gᵀx    while    ½xᵀHx ≤ δ    and    c_i + b_iᵀx ≤ 0
//! x = w·H⁻¹g - Σ_i ν_i·H⁻¹b_i
//! ```
//!
//! where q = gᵀH⁻¹g, r_i = b_iᵀH⁻¹g, S_ij = b_iᵀH⁻¹b_j are all that the weights depend on. CPO's dual,
//! `min sqrt(2δ·(q - 2rᵀν + νᵀSν)) - cᵀν` over ν ≥ 0, has a closed form in one ν_i with the others held;
//! of one constraint that is its solution, of several it is taken in turns. PCPO projects the step without
//! constraints on their half-spaces, one after the other, too (Hildreth).
//!
//! 1. Achiam et al., Constrained Policy Optimization, ICML 2017.
//! 2. Yang et al., Projection-Based Constrained Policy Optimization, ICLR 2020.

/// The products of a problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// gᵀH⁻¹g
    pub q: f64,
    /// b_iᵀH⁻¹g
    pub r: Vec<f64>,
    /// b_iᵀH⁻¹b_j
    pub s: Vec<Vec<f64>>,
    /// How far each constraint is broken; below 0, how far it is kept.
    pub c: Vec<f64>,
    /// The trust region's size.
    pub delta: f64,
}

/// What kind of step it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// No constraint is broken, and none is in the way.
    Free,
    /// No constraint is broken, and one at least bounds the step.
    Bound,
    /// One is broken, and will be kept after the step.
    Recoverable,
    /// One is broken beyond what a step can mend: the cost alone is followed.
    Recovery,
}

/// The weights of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What kind of step it is.
    pub case: Case,
    /// Of H⁻¹g.
    pub reward: f64,
    /// Of each H⁻¹b_i, to be taken away.
    pub costs: Vec<f64>,
}

/// Turns that are taken over several constraints at the most: with slopes that nearly agree it takes thousands,
/// each of a few products.
const TURNS: usize = 10_000;
/// A constraint whose slope is this small cannot be answered.
const FLAT: f64 = 1e-12;

impl Problem {
    fn constraints(&self) -> std::ops::Range<usize> {
        0..self.c.len()
    }

    /// q - 2rᵀν + νᵀSν
    fn rest(&self, nu: &[f64]) -> f64 {
        let linear: f64 = self.constraints().map(|i| self.r[i] * nu[i]).sum();
        (self.q - 2.0 * linear + self.squares(nu)).max(0.0)
    }

    /// νᵀSν
    fn squares(&self, nu: &[f64]) -> f64 {
        self.constraints().map(|i| nu[i] * self.others(nu, i, true)).sum()
    }

    /// Σ_j S_ij ν_j, with j = i or without.
    fn others(&self, nu: &[f64], i: usize, with: bool) -> f64 {
        self.constraints().filter(|j| with || *j != i).map(|j| self.s[i][j] * nu[j]).sum()
    }

    fn is_flat(&self, i: usize) -> bool {
        self.s[i][i] <= FLAT
    }

    /// Whether a constraint is broken and its own best step does not mend it.
    fn is_out_of_reach(&self, i: usize) -> bool {
        self.c[i] > 0.0 && self.c[i].powi(2) >= 2.0 * self.delta * self.s[i][i]
    }

    fn is_broken(&self) -> bool {
        self.constraints().any(|i| self.c[i] > 0.0 && !self.is_flat(i))
    }

    fn step(&self, reward: f64, costs: Vec<f64>) -> Step {
        let active = costs.iter().any(|nu| *nu > 0.0);
        let case = match (self.is_broken(), active) {
            (true, _) => Case::Recoverable,
            (false, true) => Case::Bound,
            (false, false) => Case::Free,
        };
        Step { case, reward, costs }
    }

    /// The step by reward alone.
    pub fn free(&self) -> Step {
        let reward = (2.0 * self.delta / self.q.max(FLAT)).sqrt();
        Step { case: Case::Free, reward, costs: vec![0.0; self.c.len()] }
    }

    /// CPO's step.
    pub fn constrained(&self) -> Step {
        let reachable = self.constraints().all(|i| self.is_flat(i) || !self.is_out_of_reach(i));
        match reachable.then(|| self.dual()).flatten() {
            None => self.recover(),
            // Reward and broken costs pull along the same line, or there is no reward: the cost decides.
            Some(nu) if self.is_broken() && self.rest(&nu) <= FLAT * self.q.max(1.0) => {
                self.recover()
            }
            Some(nu) => {
                let lambda = (self.rest(&nu) / (2.0 * self.delta)).sqrt().max(FLAT);
                self.step(1.0 / lambda, nu.iter().map(|nu| nu / lambda).collect())
            }
        }
    }

    /// ν of the dual's lowest point; none where it has none: then no step keeps every constraint.
    fn dual(&self) -> Option<Vec<f64>> {
        let mut nu = vec![0.0; self.c.len()];
        for _ in 0..TURNS {
            let before = nu.clone();
            for i in self.constraints().filter(|i| !self.is_flat(*i)) {
                let (s, c) = (self.s[i][i], self.c[i]);
                let room = 2.0 * self.delta * s - c * c;
                nu[i] = 0.0;
                if c < 0.0 && room <= 0.0 {
                    continue; // kept everywhere in the region
                }
                let lowest = (self.r[i] - self.others(&nu, i, false)) / s;
                let height = (self.rest(&nu) - lowest * lowest * s).max(0.0);
                nu[i] = (lowest + c * (height / (s * room)).sqrt()).max(0.0);
            }
            let moved = nu.iter().zip(&before).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            // One alone is solved at once.
            if self.c.len() == 1
                || moved <= 1e-9 * nu.iter().fold(1.0, |most: f64, nu| most.max(*nu))
            {
                return Some(nu);
            }
        }
        // Only broken constraints that contradict each other let it fall for ever.
        if self.is_broken() { None } else { Some(nu) }
    }

    /// Down the costs that are broken, each by as much, as far as the region reaches.
    fn recover(&self) -> Step {
        let mut weights: Vec<f64> = self
            .constraints()
            .map(|i| match self.c[i] > 0.0 && !self.is_flat(i) {
                true => 1.0 / self.s[i][i].sqrt(),
                false => 0.0,
            })
            .collect();
        let factor = (2.0 * self.delta / self.squares(&weights).max(FLAT)).sqrt();
        weights.iter_mut().for_each(|weight| *weight *= factor);
        Step { case: Case::Recovery, reward: 0.0, costs: weights }
    }

    /// PCPO's step: that by reward alone, brought to where every constraint is kept by the shortest way in
    /// H's distance, and shortened to the region where that leads out of it.
    pub fn projected(&self) -> Step {
        let free = self.free().reward;
        let mut nu = vec![0.0; self.c.len()];
        for _ in 0..if self.c.len() > 1 { TURNS } else { 1 } {
            for i in self.constraints().filter(|i| !self.is_flat(*i)) {
                let rest = free * self.r[i] - self.others(&nu, i, false) + self.c[i];
                nu[i] = (rest / self.s[i][i]).max(0.0);
            }
        }
        // xᵀHx
        let linear: f64 = self.constraints().map(|i| self.r[i] * nu[i]).sum();
        let length = free * free * self.q - 2.0 * free * linear + self.squares(&nu);
        let shorter = (2.0 * self.delta / length.max(FLAT)).sqrt().min(1.0);
        let beyond = self.is_broken() && shorter < 1.0;
        let step = self.step(shorter * free, nu.iter().map(|nu| shorter * nu).collect());
        if beyond { Step { case: Case::Recovery, ..step } } else { step }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two unknowns with H = 1: g = (3, 4), b = (0, 1), δ = ½, so that the region is the unit circle.
    fn problem(c: f64) -> Problem {
        Problem { q: 25.0, r: vec![4.0], s: vec![vec![1.0]], c: vec![c], delta: 0.5 }
    }

    /// x, with g and b of [`problem`].
    fn x(step: &Step) -> [f64; 2] {
        [3.0 * step.reward, 4.0 * step.reward - step.costs[0]]
    }

    fn assert_near(found: [f64; 2], expected: [f64; 2]) {
        let apart = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart < 1e-9, "{found:?} {expected:?}");
    }

    #[test]
    fn cpo_by_hand() {
        // Kept wherever the step goes, x = g/5; and kept by that step: 0.8 - 0.9 < 0.
        for c in [-2.0, -0.9] {
            let step = problem(c).constrained();
            assert_eq!(step.case, Case::Free);
            assert_near(x(&step), [0.6, 0.8]);
        }
        // y ≤ 0.6 bounds it: x = (0.8, 0.6).
        let step = problem(-0.6).constrained();
        assert_eq!(step.case, Case::Bound);
        assert_near(x(&step), [0.8, 0.6]);
        // Broken by 0.6, that is y ≤ -0.6: x = (0.8, -0.6).
        let step = problem(0.6).constrained();
        assert_eq!(step.case, Case::Recoverable);
        assert_near(x(&step), [0.8, -0.6]);
        // Broken by more than a step of length 1 can mend: straight down.
        for c in [1.0, 3.0] {
            let step = problem(c).constrained();
            assert_eq!((step.case, step.reward), (Case::Recovery, 0.0));
            assert_near(x(&step), [0.0, -1.0]);
        }
    }

    #[test]
    fn pcpo_by_hand() {
        // Kept by the step without constraints.
        let step = problem(-0.9).projected();
        assert_eq!(step.case, Case::Free);
        assert_near(x(&step), [0.6, 0.8]);
        // (0.6, 0.8) straight down to y ≤ 0.6, and to y ≤ -0.6.
        let step = problem(-0.6).projected();
        assert_eq!(step.case, Case::Bound);
        assert_near(x(&step), [0.6, 0.6]);
        let step = problem(0.6).projected();
        assert_eq!(step.case, Case::Recoverable);
        assert_near(x(&step), [0.6, -0.6]);
        // (0.6, -0.8·4) is out of the region: shortened to its edge.
        let step = problem(3.2).projected();
        assert_eq!(step.case, Case::Recovery);
        let length = (0.36f64 + 3.2 * 3.2).sqrt();
        assert_near(x(&step), [0.6 / length, -3.2 / length]);
    }

    /// Three unknowns with H = 1: g = (1, 2, 2), b_1 = (0, 1, 0), b_2 = (0, 0, 1).
    fn two(c: [f64; 2]) -> Problem {
        let s = vec![vec![1.0, 0.0], vec![0.0, 1.0]];
        Problem { q: 9.0, r: vec![2.0, 2.0], s, c: c.to_vec(), delta: 0.5 }
    }

    #[test]
    fn several_constraints_by_hand() {
        let x = |step: &Step| {
            let [nu, mu] = [step.costs[0], step.costs[1]];
            [step.reward, 2.0 * step.reward - nu, 2.0 * step.reward - mu]
        };
        let near = |found: [f64; 3], expected: [f64; 3]| {
            let apart = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(apart < 1e-6, "{found:?} {expected:?}");
        };
        // y ≤ 0 and z ≤ 0.6: (0.8, 0, 0.6).
        let step = two([0.0, -0.6]).constrained();
        assert_eq!(step.case, Case::Bound);
        near(x(&step), [0.8, 0.0, 0.6]);
        // Only y is bounded: what is left is shared by x and z as 1 to 2.
        let step = two([0.0, -2.0]).constrained();
        let part = 1.0 / 5.0f64.sqrt();
        near(x(&step), [part, 0.0, 2.0 * part]);
        // Each could be mended by itself, but not both: 0.8² + 0.8² > 1. Down both alike.
        let step = two([0.8, 0.8]).constrained();
        assert_eq!((step.case, step.reward), (Case::Recovery, 0.0));
        let part = 0.5f64.sqrt();
        near(x(&step), [0.0, -part, -part]);
        // One out of reach, the other kept: down the broken one.
        near(x(&two([1.5, -1.0]).constrained()), [0.0, -1.0, 0.0]);
        // PCPO: (1/3, 2/3, 2/3) to y ≤ 0 and z ≤ 0.6.
        near(x(&two([0.0, -0.6]).projected()), [1.0 / 3.0, 0.0, 0.6]);
    }

    #[test]
    fn slopes_that_nearly_agree_are_told_from_ones_that_contradict_each_other() {
        // b_2 is b_1 turned by 8 degrees; both are kept, and both bound the step: y = 0.3, 0.14 x + 0.99 y = 0.35,
        // and z is what is left of a length of 1.
        let (g, b, turned) = ([3.0, 20.0, 3.0], [0.0, 1.0, 0.0], [0.14, 0.99, 0.0]);
        let dot = |a: [f64; 3], b: [f64; 3]| (0..3).map(|k| a[k] * b[k]).sum::<f64>();
        let problem = Problem {
            q: dot(g, g),
            r: vec![dot(b, g), dot(turned, g)],
            s: vec![vec![dot(b, b), dot(b, turned)], vec![dot(b, turned), dot(turned, turned)]],
            c: vec![-0.3, -0.35],
            delta: 0.5,
        };
        let step = problem.constrained();
        assert_eq!(step.case, Case::Bound);
        let found = [0, 1, 2]
            .map(|k| step.reward * g[k] - step.costs[0] * b[k] - step.costs[1] * turned[k]);
        let x: f64 = 0.053 / 0.14;
        for (found, expected) in found.iter().zip([x, 0.3, (1.0 - 0.09 - x * x).sqrt()]) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }

    #[test]
    fn a_broken_constraint_is_mended_although_there_is_no_reward() {
        let problem = Problem { q: 0.0, r: vec![0.0], ..problem(0.6) };
        let step = problem.constrained();
        assert_eq!((step.case, step.reward), (Case::Recovery, 0.0));
        assert!((step.costs[0] - 1.0).abs() < 1e-9, "{step:?}");
    }

    #[test]
    fn a_cost_without_slope_is_left_alone() {
        let flat = Problem { s: vec![vec![0.0]], r: vec![0.0], c: vec![3.0], ..problem(0.0) };
        for step in [flat.constrained(), flat.projected()] {
            assert_eq!((step.case, step.costs[0]), (Case::Free, 0.0));
            assert_near(x(&step), [0.6, 0.8]);
        }
    }
}
