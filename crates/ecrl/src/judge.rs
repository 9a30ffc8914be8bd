//! Tests during training, and who is the best of a run.
//!
//! A test plays a few episodes. The most rewarding of hundreds of such tests owes much of it to luck,
//! and so does one that keeps a constraint by a hair: the best tested policies of some tens of thousands
//! of steps are only candidates. They are tested again on fresh starts, longer and with both faces, the
//! most promising first, until one has kept every constraint and become the best of the run.
//!
//! Both may take no more than a share of the steps of training, however long episodes are: where they have
//! taken more, the next one waits.

use cmdp::Constraint;
use nets::Mlp;
use serde::{Deserialize, Serialize};

use crate::algorithm::Champion;
use crate::best::{Best, Outcome, TestResult};
use crate::collect::episodes::{Choice, constraint_values, mean, mean_costs};
use crate::context::{Context, Stream};
use crate::metrics::{
    BEST_COST, BEST_FEASIBLE, BEST_REWARD, BEST_SAMPLED_COST, BEST_SAMPLED_REWARD, CHAMPION_COST,
    CHAMPION_REWARD, CHAMPION_SAMPLED_COST, CHAMPION_SAMPLED_REWARD, FEASIBLE, LEARNER_COST,
    LEARNER_REWARD, NEW_BEST, ROLLOUT_COST, ROLLOUT_REWARD, Record, SAMPLED_COST, SAMPLED_REWARD,
};
use crate::state::{StateError, Walk};

/// Who tests policies and keeps the best.
#[derive(Debug, Default)]
pub struct Judge {
    progress: Progress,
    /// The best of the tests since candidates were last tested again, best first.
    candidates: Vec<Best>,
    /// The best of those that were tested again.
    best: Option<Best>,
}

/// Candidates that are kept.
const CANDIDATES: usize = 3;

/// How far it has come.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Progress {
    /// Steps taken until the last test, and until candidates were last tested again.
    tested_at: Option<u64>,
    retested_at: u64,
    /// Steps that tests and second tests have taken.
    #[serde(default)]
    spent: [u64; 2],
    /// The learner's last training episodes that ended.
    sampled: Option<Outcome>,
    candidates: Vec<TestResult>,
    best: Option<TestResult>,
}

impl Judge {
    /// The best policy so far.
    pub fn best(&self) -> Option<&Best> {
        self.best.as_ref()
    }

    /// Takes note of a generation, and tests the learner and the champion if it is time; the last
    /// generation is always tested.
    pub fn judge(
        &mut self,
        context: &mut Context,
        (learner, champion): (impl FnOnce() -> Mlp, impl FnOnce() -> Option<Champion>),
        last: bool,
        record: &mut Record,
    ) {
        if let (Some(reward), Some(cost)) = (record.get(&ROLLOUT_REWARD), record.get(&ROLLOUT_COST))
        {
            self.progress.sampled = Some(Outcome { reward, cost });
        }
        let (steps, every) = (context.env_steps, context.config.test.every);
        let allowed = 0.5 * context.config.test.share * steps as f64;
        let [may_test, may_retest] = self.progress.spent.map(|spent| spent as f64 <= allowed);
        let early = |at: u64| steps < at + every || !may_test;
        if !last && self.progress.tested_at.is_some_and(early) {
            return;
        }
        self.progress.tested_at = Some(steps);
        // What it played before its last updates does not tell of the learner that the run ends with.
        let played = |played| if last { None } else { played };
        let (learner, sampled) = (learner(), self.progress.sampled.clone());
        let result = self.test(context, &learner, played(sampled), Stream::TestLearner);
        record.set(&LEARNER_REWARD, result.mean.reward);
        record.set(&LEARNER_COST, result.mean.cost.clone());
        record.set(&SAMPLED_REWARD, result.sampled.reward);
        record.set(&SAMPLED_COST, result.sampled.cost.clone());
        record.set(&FEASIBLE, result.is_feasible());
        let learner = Best { actor: learner, result };
        if let Some(Champion { actor, played: ranked }) = champion() {
            let result = self.test(context, &actor, played(Some(ranked)), Stream::TestChampion);
            record.set(&CHAMPION_REWARD, result.mean.reward);
            record.set(&CHAMPION_COST, result.mean.cost);
            record.set(&CHAMPION_SAMPLED_REWARD, result.sampled.reward);
            record.set(&CHAMPION_SAMPLED_COST, result.sampled.cost);
        }
        let next = self.progress.retested_at + context.config.test.retest_every;
        let due = last || (steps >= next && may_retest);
        if last && !self.candidates.contains(&learner) {
            self.candidates.push(learner); // should all others fail
        }
        let new_best = due && self.retest(context);
        record.set(&NEW_BEST, new_best);
        if let Some(Best { result, .. }) = &self.best {
            record.set(&BEST_REWARD, result.mean.reward);
            record.set(&BEST_COST, result.mean.cost.clone());
            record.set(&BEST_SAMPLED_REWARD, result.sampled.reward);
            record.set(&BEST_SAMPLED_COST, result.sampled.cost.clone());
            record.set(&BEST_FEASIBLE, result.is_feasible());
        }
    }

    /// Tests a policy; what it has `played` anyway tells of its sampled actions, unless tests of their
    /// own are asked for.
    fn test(
        &mut self,
        context: &mut Context,
        actor: &Mlp,
        played: Option<Outcome>,
        stream: Stream,
    ) -> TestResult {
        let (episodes, sample) = (context.config.test.episodes, context.config.test.sample);
        let spent = &mut self.progress.spent[0];
        let mut face = |choice| outcome(context, actor, episodes, stream, choice, spent);
        let mean = face(Choice::Mean);
        let sampled = match played {
            Some(played) if !sample => played,
            _ => face(Choice::Sample),
        };
        let constraints = &context.spec.constraints;
        let result = TestResult::new(context.env_steps, mean, sampled, constraints);
        let place = self.candidates.partition_point(|one| !result.is_better_than(&one.result));
        if place < CANDIDATES {
            self.candidates.insert(place, Best { actor: actor.clone(), result: result.clone() });
            self.candidates.truncate(CANDIDATES);
        }
        result
    }

    /// Tests candidates again; returns whether there is a new best.
    fn retest(&mut self, context: &mut Context) -> bool {
        self.progress.retested_at = context.env_steps;
        let Self { progress, candidates, best } = self;
        choose(best, std::mem::take(candidates), |actor, env_steps| {
            let episodes = context.config.test.retest_episodes;
            let spent = &mut progress.spent[1];
            let mut face =
                |choice| outcome(context, actor, episodes, Stream::Retest, choice, spent);
            let (mean, sampled) = (face(Choice::Mean), face(Choice::Sample));
            TestResult::new(env_steps, mean, sampled, &context.spec.constraints)
        })
    }

    /// Measures what was tested by constraints whose thresholds may have been changed since.
    pub fn measure(&mut self, constraints: &[Constraint]) {
        for Best { result, .. } in self.candidates.iter_mut().chain(&mut self.best) {
            let TestResult { env_steps, mean, sampled, .. } = result.clone();
            *result = TestResult::new(env_steps, mean, sampled, constraints);
        }
    }

    /// Walks everything that lasts; `actor` is a network like those it keeps.
    pub fn walk(&mut self, walk: &mut Walk, actor: &Mlp) -> Result<(), StateError> {
        self.progress.candidates = self.candidates.iter().map(|one| one.result.clone()).collect();
        self.progress.best = self.best.as_ref().map(|best| best.result.clone());
        walk.fitting("judge", &mut self.progress, "at most three candidates", |stored, _| {
            stored.candidates.len() <= CANDIDATES
        })?;
        let Progress { candidates, best, .. } = walk.peek("judge", self.progress.clone())?;
        // In place of those there, or of copies where there are none yet.
        let mut nets: Vec<Mlp> = self.candidates.iter().map(|one| one.actor.clone()).collect();
        nets.resize(nets.len().max(candidates.len()), actor.clone());
        let mut net = self.best.as_ref().map_or_else(|| actor.clone(), |best| best.actor.clone());
        for (i, net) in nets.iter_mut().enumerate().take(candidates.len()) {
            walk.net(&format!("candidate{i}"), net)?;
        }
        if best.is_some() {
            walk.net("best", &mut net)?;
        }
        let kept = self.progress.candidates.iter().zip(nets);
        self.candidates =
            kept.map(|(result, actor)| Best { actor, result: result.clone() }).collect();
        self.best = self.progress.best.clone().map(|result| Best { actor: net, result });
        Ok(())
    }
}

/// Tests candidates `again` that seem better than the best, until one of them is feasible and becomes it; returns
/// whether there is a new best.
fn choose(
    best: &mut Option<Best>,
    candidates: Vec<Best>,
    mut again: impl FnMut(&Mlp, u64) -> TestResult,
) -> bool {
    let mut new = false;
    for Best { actor, result } in candidates {
        if best.as_ref().is_some_and(|best| !result.is_better_than(&best.result)) {
            continue;
        }
        let result = again(&actor, result.env_steps);
        let feasible = result.is_feasible();
        let better = Best::keep(best, &actor, result);
        new |= better;
        if better && feasible {
            break;
        }
    }
    new
}

/// How a policy does, on the mean over some episodes, whose steps are added to those spent.
fn outcome(
    context: &mut Context,
    actor: &Mlp,
    episodes: usize,
    stream: Stream,
    choice: Choice,
    spent: &mut u64,
) -> Outcome {
    let played = context.play_several(actor, episodes, stream, choice);
    *spent += played.iter().map(|rollout| rollout.episode.steps() as u64).sum::<u64>();
    Outcome {
        reward: mean(played.iter().map(|rollout| rollout.episode.reward())),
        cost: mean_costs(&constraint_values(&played), context.spec.constraints.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nets::Activation;

    #[test]
    fn a_candidate_that_does_worse_when_tested_again_does_not_keep_the_next_from_its_turn() {
        let constraints = Constraint::parse_all(&["force<=1"], &cmdp::PointMass::COSTS).unwrap();
        let actor = Mlp::zeros(&[1, 2], Activation::Relu);
        let result = |env_steps, reward, cost| {
            let face = Outcome { reward, cost: vec![cost] };
            TestResult::new(env_steps, face.clone(), face, &constraints)
        };
        let candidate =
            |steps, reward| Best { actor: actor.clone(), result: result(steps, reward, 0.5) };
        // By their tests 14, 12 and 11.5; played again the first is worse than the best, and the second better.
        let (mut best, mut tested) = (Some(candidate(0, 10.0)), Vec::new());
        let candidates = vec![candidate(1, 14.0), candidate(2, 12.0), candidate(3, 11.5)];
        let mut again = |truth: [(f64, f64); 3]| {
            choose(&mut best, candidates.clone(), |_, steps| {
                tested.push(steps);
                let (reward, cost) = truth[steps as usize - 1];
                result(steps, reward, cost)
            })
        };
        assert!(again([(8.0, 0.5), (11.0, 0.5), (20.0, 0.5)]));
        assert!(!again([(11.0, 0.5), (30.0, 1.5), (9.0, 0.5)]));
        assert_eq!(best.unwrap().result, result(2, 11.0, 0.5));
        assert_eq!(tested, [1, 2, 1, 2, 3]);
    }
}
