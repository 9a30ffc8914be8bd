//! How a run stands, from its last test: the learner, the champion, the best and the population told
//! apart, each with both faces.

use cmdp::Constraint;
use ecrl::best::Outcome;
use ecrl::metrics::{
    BEST_COST, BEST_REWARD, BEST_SAMPLED_COST, BEST_SAMPLED_REWARD, CHAMPION_COST, CHAMPION_REWARD,
    CHAMPION_SAMPLED_COST, CHAMPION_SAMPLED_REWARD, LEARNER_COST, LEARNER_REWARD, Metric, Record,
    SAMPLED_COST, SAMPLED_REWARD, Value,
};
use ecrl::multipliers::LAMBDA_LEARNER;

/// A policy with its mean action and with sampled ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Faces {
    pub mean: Outcome,
    pub sampled: Outcome,
}

/// How a run stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Standing {
    pub learner: Option<Faces>,
    pub champion: Option<Faces>,
    pub best: Option<Faces>,
    /// The share of the population whose episode kept every constraint.
    pub feasible: Option<f64>,
    pub lambda: Vec<f64>,
}

impl Faces {
    fn each<'a>(
        &'a self,
        constraints: &'a [Constraint],
    ) -> impl Iterator<Item = (&'a Constraint, [f64; 2])> {
        let values = self.mean.cost.iter().zip(&self.sampled.cost);
        constraints.iter().zip(values.map(|(mean, sampled)| [*mean, *sampled]))
    }

    /// All of it on one line, each J_C against its threshold: kept if both are.
    fn text(&self, constraints: &[Constraint]) -> String {
        let cost = |(c, [mean, sampled]): (&Constraint, [f64; 2])| {
            let word = kept(c, [mean, sampled]);
            format!("{}<={}: {mean:.3} (sampled {sampled:.3}) {word}  ", c.name, c.threshold)
        };
        let costs: String = self.each(constraints).map(cost).collect();
        let (mean, sampled) = (self.mean.reward, self.sampled.reward);
        format!("reward {mean:.1} (sampled {sampled:.1})  {costs}")
    }
}

fn kept(constraint: &Constraint, values: [f64; 2]) -> &'static str {
    if values.iter().all(|value| constraint.is_kept_by(*value)) { "kept" } else { "broken" }
}

impl Standing {
    /// What a generation's record says, if it was tested.
    pub fn of(record: &Record) -> Option<Self> {
        let outcome = |reward: &'static Metric<f64>, cost: &'static Metric<Vec<f64>>| {
            Some(Outcome { reward: record.get(reward)?, cost: record.get(cost)? })
        };
        let faces = |mean: Option<Outcome>, sampled: Option<Outcome>| {
            Some(Faces { mean: mean?, sampled: sampled? })
        };
        Some(Self {
            learner: Some(faces(
                outcome(&LEARNER_REWARD, &LEARNER_COST),
                outcome(&SAMPLED_REWARD, &SAMPLED_COST),
            )?),
            champion: faces(
                outcome(&CHAMPION_REWARD, &CHAMPION_COST),
                outcome(&CHAMPION_SAMPLED_REWARD, &CHAMPION_SAMPLED_COST),
            ),
            best: faces(
                outcome(&BEST_REWARD, &BEST_COST),
                outcome(&BEST_SAMPLED_REWARD, &BEST_SAMPLED_COST),
            ),
            feasible: match record.value("population_feasible") {
                Some(Value::Number(share)) => Some(*share),
                _ => None,
            },
            lambda: record.get(&LAMBDA_LEARNER).unwrap_or_default(),
        })
    }

    /// All of it on one line, for where there is no terminal.
    pub fn line(&self, constraints: &[Constraint]) -> String {
        let mut lambda = String::new();
        if !self.lambda.is_empty() {
            let each: Vec<String> = self.lambda.iter().map(|l| format!("{l:.4}")).collect();
            lambda = format!("λ {}", each.join(", "));
        }
        let learner = |faces: &Faces| format!("learner: {}{lambda}", faces.text(constraints));
        let mut parts: Vec<String> = self.learner.iter().map(learner).collect();
        parts.extend(self.champion.iter().map(|c| format!("champion: {}", c.text(constraints))));
        parts.extend(self.feasible.map(|share| format!("population: {}", percent(share))));
        parts.iter().map(|part| part.trim_end()).collect::<Vec<_>>().join("  |  ")
    }

    /// A table: a row for each of them, a column for each constraint.
    pub fn table(&self, constraints: &[Constraint]) -> Vec<String> {
        let mut rows: Vec<Vec<String>> = Vec::new();
        let names = constraints.iter().map(|c| format!("{}<={}", c.name, c.threshold));
        rows.push(
            ["mean action / sampled".into(), "return".into()].into_iter().chain(names).collect(),
        );
        for (name, faces) in [
            ("learner", self.learner.as_ref()),
            ("champion", self.champion.as_ref()),
            ("best, tested again", self.best.as_ref()),
        ] {
            let Some(faces) = faces else { continue };
            let reward = format!("{:.1} / {:.1}", faces.mean.reward, faces.sampled.reward);
            let costs = faces.each(constraints).map(|(c, values)| {
                let [mean, sampled] = values;
                format!("{mean:.3} / {sampled:.3} {}", kept(c, values))
            });
            rows.push([name.to_owned(), reward].into_iter().chain(costs).collect());
        }
        if !self.lambda.is_empty() {
            let lambda = self.lambda.iter().map(|lambda| format!("{lambda:.4}"));
            rows.push(["learner's λ".into(), String::new()].into_iter().chain(lambda).collect());
        }
        rows.extend(self.feasible.map(|share| vec!["population".into(), percent(share)]));
        columns(&rows)
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} % of its episodes feasible", 100.0 * share)
}

/// Rows with their cells below each other; what is last in its row needs no room.
pub fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |i: usize| {
        let cells = rows.iter().filter(|row| row.len() > i + 1).map(|row| row[i].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}  "));
        cells.collect::<String>().trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmdp::Aggregate;

    fn standing() -> (Standing, Vec<Constraint>) {
        let make = |name: &str, aggregate, threshold| Constraint {
            name: name.into(),
            aggregate,
            threshold,
        };
        let constraints =
            vec![make("torque", Aggregate::Mean, 0.4), make("velocity", Aggregate::Sum, 25.0)];
        let faces = |reward: f64, cost: f64| Faces {
            mean: Outcome { reward, cost: vec![0.2, 3.0] },
            sampled: Outcome { reward: reward / 2.0, cost: vec![cost, 9.0] },
        };
        let standing = Standing {
            learner: Some(faces(1234.56, 0.436)),
            champion: Some(faces(3000.0, 0.3)),
            best: None,
            feasible: Some(0.0),
            lambda: vec![0.001, 0.25],
        };
        (standing, constraints)
    }

    #[test]
    fn learner_and_population_are_told_apart_within_eighty_columns() {
        let (standing, constraints) = standing();
        let table = standing.table(&constraints);
        assert_eq!(
            table,
            [
                "mean action / sampled  return           torque<=0.4           velocity<=25",
                "learner                1234.6 / 617.3   0.200 / 0.436 broken  3.000 / 9.000 kept",
                "champion               3000.0 / 1500.0  0.200 / 0.300 kept    3.000 / 9.000 kept",
                "learner's λ                             0.0010                0.2500",
                "population             0 % of its episodes feasible",
            ]
        );
        let line = standing.line(&constraints);
        assert!(line.starts_with("learner: reward 1234.6 (sampled 617.3)  torque<=0.4: 0.200 "));
        assert!(line.ends_with("  |  population: 0 % of its episodes feasible"), "{line}");
    }
}
