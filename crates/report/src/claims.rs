//! What the paper says of the panels of its figures, and whether runs agree.
//!
//! Its figures cannot be read as numbers, its text can, where it says something of a panel that can be
//! counted. Judged is the end of training, the mean over the last tenth of the steps and over seeds, with
//! sampled actions.

use std::collections::BTreeMap;

use runs::paper::Figure;

/// How an agent ended, and came there.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct End {
    /// The reward.
    pub reward: f64,
    /// J_C.
    pub cost: f64,
    /// J_C with the mean action.
    pub mean_cost: f64,
    /// J_C over the steps.
    pub costs: Vec<(f64, f64)>,
    /// The reward over the steps.
    pub rewards: Vec<(f64, f64)>,
    /// Finished runs.
    pub seeds: usize,
}

/// How the agents of a panel ended, by the paper's names.
pub type Ends = BTreeMap<&'static str, End>;

/// Whether runs agree with what the paper says.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// They do.
    Agrees,
    /// They do not.
    Disagrees,
    /// They cannot tell, for want of something.
    Open(String),
}

impl Verdict {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Agrees => "agree",
            Self::Disagrees => "disagree",
            Self::Open(_) => "cannot tell",
        }
    }
}

/// The threshold of the paper's only constraint.
pub const EPSILON: f64 = 0.4;

type Check = fn(&Ends) -> Option<bool>;

/// What the paper says of a panel, who is concerned, and how it is checked.
struct Claim {
    figure: Figure,
    tasks: &'static [&'static str],
    says: &'static str,
    agents: &'static [&'static str],
    check: Check,
}

const SMALL: [&str; 5] = ["ERL_0.00001", "ERL_0.0001", "ERL_0.001", "ERL_0.01", "ERL_0.1"];
const LARGE: [&str; 3] = ["ERL_1", "ERL_10", "ERL_100"];
const SHAPED: &[&str] = &[
    "ERL_0.00001",
    "ERL_0.0001",
    "ERL_0.001",
    "ERL_0.01",
    "ERL_0.1",
    "ERL_1",
    "ERL_10",
    "ERL_100",
];
const COMPARED: &[&str] = &["ECRL", "RCPO", "IPO", "RCPO-ERL", "ERL_0.001", "ERL"];
const ABLATED: &[&str] = &["ECRL", "SR", "SR_λ", "B_C"];

/// What the paper says of panels.
const CLAIMS: &[Claim] = &[
    Claim {
        figure: Figure::Dilemma,
        tasks: &["ant", "half-cheetah", "walker2d", "hopper", "swimmer"],
        says: "λ ≤ 0.1 often leads to more reward and more violation, λ of 1, 10 and 100 to less of both",
        agents: SHAPED,
        check: |ends| {
            let mean = |names: &[&str], of: fn(&End) -> f64| -> f64 {
                names.iter().map(|name| of(&ends[name])).sum::<f64>() / names.len() as f64
            };
            let more = |of: fn(&End) -> f64| mean(&SMALL, of) > mean(&LARGE, of);
            Some(more(|end| end.reward) && more(|end| end.cost))
        },
    },
    Claim {
        figure: Figure::Dilemma,
        tasks: &["ant"],
        says: "λ of 0.00001 and 0.0001 can score about 4000",
        agents: &["ERL_0.00001", "ERL_0.0001"],
        check: |ends| Some(about(most(ends), 4000.0)),
    },
    Claim {
        figure: Figure::Dilemma,
        tasks: &["half-cheetah"],
        says: "λ of 0.00001 and 0.0001 can score about 7500",
        agents: &["ERL_0.00001", "ERL_0.0001"],
        check: |ends| Some(about(most(ends), 7500.0)),
    },
    Claim {
        figure: Figure::Dilemma,
        tasks: &["swimmer"],
        says: "λ of 0.1 can score 200",
        agents: &["ERL_0.1"],
        check: |ends| Some(about(most(ends), 200.0)),
    },
    Claim {
        figure: Figure::Dilemma,
        tasks: &["half-cheetah"],
        says: "with λ of 1, 10 and 100 the violation falls fast, then rises with the reward between 1e5 and \
               5e5 steps",
        agents: &LARGE,
        check: |ends| {
            let at = |curve: &[(f64, f64)], step: f64| crate::stats::interpolate(curve, step);
            let each = ends.values().map(|end| {
                let (early, late) = (at(&end.costs, 1e5)?, at(&end.costs, 5e5)?);
                let earned = at(&end.rewards, 5e5)? > at(&end.rewards, 1e5)?;
                Some(end.costs.first()?.1 > early && late > early && earned)
            });
            each.collect::<Option<Vec<bool>>>().map(|each| !each.contains(&false))
        },
    },
    Claim {
        figure: Figure::Dilemma,
        tasks: &["walker2d", "hopper"],
        says: "with λ of 1, 10 and 100 the violation may rise along with training",
        agents: &LARGE,
        check: |ends| {
            let early = |end: &End| crate::stats::interpolate(&end.costs, 1e5);
            let risen = ends.values().map(|end| Some(end.cost > early(end)?));
            risen.collect::<Option<Vec<bool>>>().map(|risen| risen.contains(&true))
        },
    },
    Claim {
        figure: Figure::Compare,
        tasks: &["ant"],
        says: "all agents satisfy the constraint",
        agents: COMPARED,
        check: |ends| Some(ends.values().all(keeps)),
    },
    Claim {
        figure: Figure::Compare,
        tasks: &["ant"],
        says: "ECRL, RCPO-ERL, RCPO and ERL_0.001 are similar, and about 2000 above ERL",
        agents: &["ECRL", "RCPO-ERL", "RCPO", "ERL_0.001", "ERL"],
        check: |ends| {
            let erl = ends["ERL"].reward;
            let four =
                || ends.iter().filter(|(name, _)| **name != "ERL").map(|(_, end)| end.reward);
            let (least, most) = (four().fold(f64::INFINITY, f64::min), four().fold(0.0, f64::max));
            Some(least - erl >= 1000.0 && most - erl <= 3000.0 && most - least <= 1000.0)
        },
    },
    Claim {
        figure: Figure::Compare,
        tasks: &["ant"],
        says: "IPO has the lowest reward",
        agents: COMPARED,
        check: |ends| Some(ends.values().all(|end| end.reward >= ends["IPO"].reward)),
    },
    Claim {
        figure: Figure::Compare,
        tasks: &["half-cheetah", "walker2d"],
        says: "no agent satisfies the constraint",
        agents: COMPARED,
        check: |ends| Some(!ends.values().any(keeps)),
    },
    Claim {
        figure: Figure::Compare,
        tasks: &["half-cheetah", "walker2d"],
        says: "ECRL has the lowest violation",
        agents: COMPARED,
        check: ecrl_lowest,
    },
    Claim {
        figure: Figure::Compare,
        tasks: &["hopper", "swimmer"],
        says: "only ECRL satisfies the constraint",
        agents: COMPARED,
        check: only_ecrl,
    },
    Claim {
        figure: Figure::Ablation,
        tasks: &["ant"],
        says: "all agents are similar in violation",
        agents: ABLATED,
        check: |ends| {
            let all = || ends.values().map(|end| end.cost);
            Some(all().fold(0.0, f64::max) - all().fold(f64::INFINITY, f64::min) <= 0.05)
        },
    },
    Claim {
        figure: Figure::Ablation,
        tasks: &["half-cheetah", "walker2d", "hopper", "swimmer"],
        says: "ECRL has the lowest violation",
        agents: ABLATED,
        check: ecrl_lowest,
    },
    Claim {
        figure: Figure::Ablation,
        tasks: &["walker2d"],
        says: "ECRL earns nearly 5000 more than the others",
        agents: ABLATED,
        check: |ends| {
            let others = ends.iter().filter(|(name, _)| **name != "ECRL");
            let best = others.map(|(_, end)| end.reward).fold(f64::NEG_INFINITY, f64::max);
            Some(ends["ECRL"].reward - best >= 3500.0)
        },
    },
    Claim {
        figure: Figure::Ablation,
        tasks: &["hopper", "swimmer"],
        says: "ECRL does not earn much more than the others",
        agents: ABLATED,
        check: |ends| {
            let others = ends.iter().filter(|(name, _)| **name != "ECRL");
            let best = others.map(|(_, end)| end.reward).fold(f64::NEG_INFINITY, f64::max);
            Some(ends["ECRL"].reward <= best + 0.2 * best.abs())
        },
    },
    Claim {
        figure: Figure::Ablation,
        tasks: &["hopper", "swimmer"],
        says: "ECRL satisfies the constraint, the others do not",
        agents: ABLATED,
        check: only_ecrl,
    },
];

fn keeps(end: &End) -> bool {
    end.cost <= EPSILON
}

/// Within a fifth.
fn about(x: f64, expected: f64) -> bool {
    (x - expected).abs() <= 0.2 * expected
}

fn most(ends: &Ends) -> f64 {
    ends.values().map(|end| end.reward).fold(f64::NEG_INFINITY, f64::max)
}

/// Violation, not cost: who keeps the constraint violates it as little as anybody.
fn ecrl_lowest(ends: &Ends) -> Option<bool> {
    let excess = |end: &End| (end.cost - EPSILON).max(0.0);
    Some(ends.values().all(|end| excess(end) >= excess(&ends["ECRL"])))
}

fn only_ecrl(ends: &Ends) -> Option<bool> {
    Some(ends.iter().all(|(name, end)| keeps(end) == (*name == "ECRL")))
}

/// What the paper says of a panel, each with a verdict.
pub fn judge(figure: Figure, task: &str, ends: &Ends) -> Vec<(&'static str, Verdict)> {
    let own = CLAIMS.iter().filter(|claim| claim.figure == figure && claim.tasks.contains(&task));
    own.map(|claim| {
        let missing: Vec<&str> =
            claim.agents.iter().copied().filter(|name| !ends.contains_key(name)).collect();
        let concerned = claim.agents.iter().filter_map(|name| ends.get_key_value(name));
        let concerned: Ends = concerned.map(|(name, end)| (*name, end.clone())).collect();
        let verdict = match missing.is_empty() {
            false => Verdict::Open(format!("no finished run of {}", missing.join(", "))),
            true => match (claim.check)(&concerned) {
                Some(true) => Verdict::Agrees,
                Some(false) => Verdict::Disagrees,
                None => Verdict::Open("the runs are too short".into()),
            },
        };
        (claim.says, verdict)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(of: &[(&'static str, f64, f64)]) -> Ends {
        let end = |&(name, reward, cost): &(&'static str, f64, f64)| {
            (name, End { reward, cost, seeds: 1, ..End::default() })
        };
        of.iter().map(end).collect()
    }

    fn words(figure: Figure, task: &str, ends: &Ends) -> Vec<&'static str> {
        judge(figure, task, ends).iter().map(|(_, verdict)| verdict.word()).collect()
    }

    #[test]
    fn every_agent_named_is_one_of_the_figure() {
        for claim in CLAIMS {
            let names: Vec<&str> = claim.figure.agents().iter().map(|agent| agent.name).collect();
            assert!(claim.agents.iter().all(|name| names.contains(name)), "{}", claim.says);
        }
    }

    #[test]
    fn only_ecrl_keeps_the_constraint_or_not() {
        let compared = |ecrl: f64, ipo: f64| {
            ends(&[
                ("ECRL", 900.0, ecrl),
                ("RCPO", 1000.0, 0.5),
                ("IPO", 1000.0, ipo),
                ("RCPO-ERL", 1000.0, 0.5),
                ("ERL_0.001", 1000.0, 0.5),
                ("ERL", 1000.0, 0.6),
            ])
        };
        assert_eq!(words(Figure::Compare, "hopper", &compared(0.39, 0.5)), ["agree"]);
        assert_eq!(words(Figure::Compare, "hopper", &compared(0.41, 0.5)), ["disagree"]);
        assert_eq!(words(Figure::Compare, "hopper", &compared(0.39, 0.3)), ["disagree"]);
        let walker = |ecrl, ipo| words(Figure::Compare, "walker2d", &compared(ecrl, ipo));
        assert_eq!(walker(0.45, 0.5), ["agree", "agree"]);
        assert_eq!(walker(0.45, 0.3), ["disagree", "disagree"]);
        // Somebody is missing.
        let mut without = compared(0.39, 0.5);
        without.remove("IPO");
        let open = judge(Figure::Compare, "hopper", &without);
        assert_eq!(open[0].1, Verdict::Open("no finished run of IPO".into()));
    }

    #[test]
    fn small_and_large_penalties() {
        let shaped = |small: (f64, f64), large: (f64, f64)| {
            let all = SMALL.iter().map(|name| (*name, small.0, small.1));
            let all = all.chain(LARGE.iter().map(|name| (*name, large.0, large.1)));
            ends(&all.collect::<Vec<_>>())
        };
        let found = words(Figure::Dilemma, "swimmer", &shaped((190.0, 0.8), (50.0, 0.2)));
        assert_eq!(found, ["agree", "agree"]);
        let found = words(Figure::Dilemma, "swimmer", &shaped((40.0, 0.8), (50.0, 0.2)));
        assert_eq!(found, ["disagree", "disagree"]);
        // Whether violation rises between 1e5 and 5e5 steps.
        let mut rising = shaped((7000.0, 0.8), (100.0, 0.2));
        let half_cheetah = |ends: &Ends| words(Figure::Dilemma, "half-cheetah", ends);
        assert_eq!(half_cheetah(&rising), ["agree", "agree", "cannot tell"]);
        for name in LARGE {
            let end = rising.get_mut(name).unwrap();
            end.costs = vec![(0.0, 0.5), (1e5, 0.2), (5e5, 0.3)];
            end.rewards = vec![(0.0, 0.0), (1e5, 10.0), (5e5, 100.0)];
        }
        assert_eq!(half_cheetah(&rising), ["agree", "agree", "agree"]);
        // All three of them, with the reward, after a fall.
        let with = |change: &dyn Fn(&mut End)| {
            let mut other = rising.clone();
            change(other.get_mut("ERL_10").unwrap());
            half_cheetah(&other)[2]
        };
        assert_eq!(with(&|end| end.costs[2].1 = 0.2), "disagree");
        assert_eq!(with(&|end| end.costs[0].1 = 0.1), "disagree");
        assert_eq!(with(&|end| end.rewards[2].1 = 1.0), "disagree");
    }
}
