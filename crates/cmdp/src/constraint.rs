//! Constraints: a cost, how it adds up over an episode, and the bound it must keep.
//!
//! As text, `torque<=0.4` bounds a cost with the aggregate that cost implies, and
//! `sum(torque)<=200` names another one.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::nearest;

/// How the costs of an episode's steps become one number, J_C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Aggregate {
    /// The sum over the episode divided by its length.
    Mean,
    /// The sum over the episode.
    Sum,
}

impl Aggregate {
    /// Every aggregate.
    pub const ALL: [Self; 2] = [Self::Mean, Self::Sum];

    /// The name used in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Sum => "sum",
        }
    }

    /// J_C of an episode of `steps` steps whose costs sum to `sum`; 0 before the first step.
    pub fn of(self, sum: f64, steps: usize) -> f64 {
        match self {
            Self::Mean if steps > 0 => sum / steps as f64,
            _ => sum,
        }
    }
}

/// A cost that a task can measure at every step, with the constraint it usually stands in.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// The name used in constraints.
    pub name: Cow<'static, str>,
    /// The aggregate implied when a constraint names none.
    pub aggregate: Aggregate,
    /// The usual threshold ε.
    pub threshold: f64,
    /// What is measured, in a few words.
    pub description: Cow<'static, str>,
}

/// "J_C, the aggregate of a cost over an episode, must not exceed a threshold."
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Constraint {
    /// The name of the cost.
    pub name: String,
    /// How the cost adds up over an episode.
    pub aggregate: Aggregate,
    /// The threshold ε: feasible means J_C ≤ ε.
    pub threshold: f64,
}

impl Constraint {
    /// Reads one constraint on any of `costs`.
    pub fn parse(text: &str, costs: &[Cost]) -> Result<Self, ConstraintError> {
        let parts = Parts::of(text)?;
        let index = find(parts.name, costs)?;
        parts.constraint(Some(costs[index].aggregate))
    }

    /// Whether values J_C keep all of some constraints.
    pub fn all_kept(constraints: &[Self], values: &[f64]) -> bool {
        values.iter().zip(constraints).all(|(value, c)| c.is_kept_by(*value))
    }

    /// What the excess over each threshold is measured by, s_i: where there are several constraints
    /// their thresholds, or 1 for a threshold of 0, so that a sum of hundreds does not drown a mean of
    /// 0.4; a single one by 1.
    pub fn scales(constraints: &[Self]) -> Vec<f64> {
        let scale = |c: &Self| match constraints.len() > 1 && c.threshold != 0.0 {
            true => c.threshold.abs(),
            false => 1.0,
        };
        constraints.iter().map(scale).collect()
    }

    /// How far values J_C are outside their constraints: `φ = Σ_i max(0, (J_Ci - ε_i)/s_i)²` with the
    /// [`scales`](Self::scales) s_i; infinite where a value is not a number.
    pub fn violation(constraints: &[Self], values: &[f64]) -> f64 {
        let each = values.iter().zip(constraints).zip(Self::scales(constraints));
        let excess = each.map(|((&value, c), scale)| match c.is_kept_by(value) {
            true => 0.0,
            false if value.is_nan() => f64::INFINITY,
            false => (value - c.threshold) / scale,
        });
        excess.map(|x| x * x).sum()
    }

    /// Whether a value J_C keeps the constraint; a value that is not a number does not.
    pub fn is_kept_by(&self, value: f64) -> bool {
        value <= self.threshold
    }

    /// Reads several constraints on any of `costs`.
    pub fn parse_all<T: AsRef<str>>(
        texts: &[T],
        costs: &[Cost],
    ) -> Result<Vec<Self>, ConstraintError> {
        let parsed: Result<Vec<Self>, _> =
            texts.iter().map(|text| Self::parse(text.as_ref(), costs)).collect();
        let parsed = parsed?;
        Self::indices(&parsed, costs)?;
        Ok(parsed)
    }

    /// For every constraint the index of its cost among `costs`: what an environment must measure.
    pub fn indices(constraints: &[Self], costs: &[Cost]) -> Result<Vec<usize>, ConstraintError> {
        for (i, constraint) in constraints.iter().enumerate() {
            let same = |c: &Self| c.name == constraint.name && c.aggregate == constraint.aggregate;
            if constraints[..i].iter().any(same) {
                return Err(ConstraintError::Twice {
                    aggregate: constraint.aggregate.name(),
                    name: constraint.name.clone(),
                });
            }
        }
        constraints.iter().map(|c| find(&c.name, costs)).collect()
    }
}

/// The largest threshold: of a larger one, neither f32 nor a square could be told from infinity.
const MOST: f64 = 1e30;

/// The parts of a constraint's text.
struct Parts<'a> {
    text: &'a str,
    aggregate: Option<&'a str>,
    name: &'a str,
    threshold: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Result<Self, ConstraintError> {
        let syntax = || ConstraintError::Syntax { text: text.into() };
        let (cost, threshold) = text.split_once("<=").ok_or_else(syntax)?;
        let (cost, threshold) = (cost.trim(), threshold.trim());
        let (aggregate, name) = match cost.strip_suffix(')').and_then(|c| c.split_once('(')) {
            Some((aggregate, name)) => (Some(aggregate.trim()), name.trim()),
            None => (None, cost),
        };
        if name.is_empty() || name.contains(|c: char| c == '(' || c == ')' || c.is_whitespace()) {
            return Err(syntax());
        }
        Ok(Self { text, aggregate, name, threshold })
    }

    fn constraint(self, implied: Option<Aggregate>) -> Result<Constraint, ConstraintError> {
        let Self { text, aggregate, name, threshold } = self;
        let unknown =
            |given: &str| ConstraintError::Aggregate { text: text.into(), given: given.into() };
        let aggregate = match aggregate {
            None => implied.ok_or_else(|| ConstraintError::Syntax { text: text.into() })?,
            Some(given) => {
                let known = Aggregate::ALL.into_iter().find(|a| a.name() == given);
                known.ok_or_else(|| unknown(given))?
            }
        };
        let fits = |t: &f64| t.abs() <= MOST;
        let threshold = threshold.parse().ok().filter(fits).ok_or_else(|| {
            ConstraintError::Threshold { text: text.into(), given: threshold.into() }
        })?;
        Ok(Constraint { name: name.into(), aggregate, threshold })
    }
}

/// Reads the explicit form, whatever the cost: `mean(torque)<=0.4`.
impl FromStr for Constraint {
    type Err = ConstraintError;

    fn from_str(text: &str) -> Result<Self, ConstraintError> {
        Parts::of(text)?.constraint(None)
    }
}

fn find(name: &str, costs: &[Cost]) -> Result<usize, ConstraintError> {
    costs.iter().position(|c| c.name == name).ok_or_else(|| {
        let names: Vec<&str> = costs.iter().map(|c| &c.name[..]).collect();
        let hint = match nearest(name, names.iter().copied()).first() {
            Some(best) => format!("did you mean '{best}'?"),
            None if names.is_empty() => "the task measures none".into(),
            None => format!("expected one of: {}", names.join(", ")),
        };
        ConstraintError::UnknownCost { name: name.into(), hint }
    })
}

/// The explicit form, which [`Constraint::parse`] reads back: `mean(torque)<=0.4`.
impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})<={}", self.aggregate.name(), self.name, self.threshold)
    }
}

/// A constraint that cannot be understood.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConstraintError {
    /// Not of the form of a constraint.
    #[error(
        "constraint '{text}': expected COST<=NUMBER or AGGREGATE(COST)<=NUMBER, \
         as in 'torque<=0.4' or 'sum(torque)<=200'"
    )]
    Syntax {
        /// The text given.
        text: String,
    },
    /// The task measures no such cost.
    #[error("unknown cost '{name}': {hint}")]
    UnknownCost {
        /// The name given.
        name: String,
        /// What may have been meant.
        hint: String,
    },
    /// No such aggregate.
    #[error("constraint '{text}': unknown aggregate '{given}', expected mean or sum")]
    Aggregate {
        /// The text given.
        text: String,
        /// The aggregate in it.
        given: String,
    },
    /// The threshold is not a number.
    #[error("constraint '{text}': expected a number from -1e30 to 1e30 after '<=', got '{given}'")]
    Threshold {
        /// The text given.
        text: String,
        /// The threshold in it.
        given: String,
    },
    /// Two constraints bound the same quantity.
    #[error("two constraints on {aggregate}({name}): expected one")]
    Twice {
        /// The aggregate of both.
        aggregate: &'static str,
        /// The cost of both.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: [Cost; 2] = [
        Cost {
            name: Cow::Borrowed("torque"),
            aggregate: Aggregate::Mean,
            threshold: 0.4,
            description: Cow::Borrowed(""),
        },
        Cost {
            name: Cow::Borrowed("velocity"),
            aggregate: Aggregate::Sum,
            threshold: 25.0,
            description: Cow::Borrowed(""),
        },
    ];

    fn parse(text: &str) -> Result<Constraint, ConstraintError> {
        Constraint::parse(text, &COSTS)
    }

    #[test]
    fn a_bare_cost_implies_its_aggregate() {
        let torque = parse("torque<=0.4").unwrap();
        assert_eq!(torque.aggregate, Aggregate::Mean);
        assert_eq!((torque.name.as_str(), torque.threshold), ("torque", 0.4));
        assert_eq!(parse(" velocity <= 25 ").unwrap().aggregate, Aggregate::Sum);
    }

    #[test]
    fn the_explicit_form_names_another_aggregate_and_reads_back() {
        let constraint = parse("sum(torque)<=2e2").unwrap();
        assert_eq!(constraint.aggregate, Aggregate::Sum);
        assert_eq!(constraint.to_string(), "sum(torque)<=200");
        assert_eq!(parse(&constraint.to_string()).unwrap(), constraint);
        assert_eq!(constraint.to_string().parse(), Ok(constraint));
        assert!("torque<=0.4".parse::<Constraint>().is_err(), "which aggregate?");
        assert_eq!(parse("mean( velocity ) <= .1").unwrap().aggregate, Aggregate::Mean);
    }

    #[test]
    fn a_bad_constraint_is_told_what_was_expected() {
        for (text, expected) in [
            ("torque<0.4", "expected COST<=NUMBER"),
            ("<=1", "expected COST<=NUMBER"),
            ("mean()<=1", "expected COST<=NUMBER"),
            ("torque velocity<=1", "expected COST<=NUMBER"),
            ("torqe<=1", "did you mean 'torque'?"),
            ("xyz<=1", "expected one of: torque, velocity"),
            ("max(torque)<=1", "expected mean or sum"),
            ("torque<=", "expected a number from -1e30 to 1e30 after '<=', got ''"),
            ("torque<=nan", "got 'nan'"),
            ("torque<=inf", "got 'inf'"),
            ("torque<=0.4<=0.5", "got '0.4<=0.5'"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn violations_add_up_over_constraints() {
        let both = Constraint::parse_all(&["torque<=0.4", "velocity<=25"], &COSTS).unwrap();
        let violation = |values: &[f64]| Constraint::violation(&both, values);
        assert_eq!(violation(&[0.4, 25.0]), 0.0);
        // 2/25 and 0.5/0.4, 1/25, squared.
        assert!((violation(&[0.0, 27.0]) - 0.0064).abs() < 1e-12);
        assert!((violation(&[0.9, 26.0]) - (1.5625 + 0.0016)).abs() < 1e-12);
        // A single one is measured as it is, and so is one with a threshold of 0.
        assert!((Constraint::violation(&both[..1], &[0.9]) - 0.25).abs() < 1e-12);
        let zero = Constraint::parse_all(&["torque<=0", "velocity<=-2"], &COSTS).unwrap();
        assert_eq!(Constraint::violation(&zero, &[3.0, 2.0]), 9.0 + 4.0);
        assert!(Constraint::all_kept(&both, &[0.4, 25.0]));
        assert!(!Constraint::all_kept(&both, &[0.4, 25.1]));
        assert_eq!(violation(&[f64::NAN, 0.0]), f64::INFINITY);
        assert!(Constraint::all_kept(&[], &[]) && Constraint::violation(&[], &[]) == 0.0);
    }

    #[test]
    fn one_cost_may_be_bounded_twice_only_by_different_aggregates() {
        let both = Constraint::parse_all(&["torque<=0.4", "sum(torque)<=200"], &COSTS).unwrap();
        assert_eq!(Constraint::indices(&both, &COSTS).unwrap(), [0, 0]);
        let twice = Constraint::parse_all(&["torque<=0.4", "mean(torque)<=0.5"], &COSTS);
        assert_eq!(twice.unwrap_err().to_string(), "two constraints on mean(torque): expected one");
    }
}
