//! Tests during training, and who is the best of a run.
//!
//! A test plays a few episodes. The most rewarding of hundreds of such tests owes much of it to luck:
//! the best tested policy of some tens of thousands of steps is only a candidate, which is tested again
//! on fresh starts, longer and with both faces, before it can become the best of the run.

use nets::Mlp;
use serde::{Deserialize, Serialize};

use crate::algorithm::Champion;
use crate::best::{Best, Outcome, TestResult};
use crate::collect::episodes::{Choice, constraint_values};
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
    /// The best of the tests since candidates were last tested again.
    candidate: Option<Best>,
    /// The best of those that were tested again.
    best: Option<Best>,
}

/// How far it has come.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Progress {
    /// Steps taken until the last test, and until candidates were last tested again.
    tested_at: Option<u64>,
    retested_at: u64,
    /// The learner's last training episodes that ended.
    sampled: Option<Outcome>,
    candidate: Option<TestResult>,
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
        if !last && self.progress.tested_at.is_some_and(|at| steps < at + every) {
            return;
        }
        self.progress.tested_at = Some(steps);
        let played = self.progress.sampled.clone();
        let result = self.test(context, &learner(), played, Stream::TestLearner);
        record.set(&LEARNER_REWARD, result.mean.reward);
        record.set(&LEARNER_COST, result.mean.cost.clone());
        record.set(&SAMPLED_REWARD, result.sampled.reward);
        record.set(&SAMPLED_COST, result.sampled.cost.clone());
        record.set(&FEASIBLE, result.is_feasible());
        if let Some(Champion { actor, played }) = champion() {
            let result = self.test(context, &actor, Some(played), Stream::TestChampion);
            record.set(&CHAMPION_REWARD, result.mean.reward);
            record.set(&CHAMPION_COST, result.mean.cost);
            record.set(&CHAMPION_SAMPLED_REWARD, result.sampled.reward);
            record.set(&CHAMPION_SAMPLED_COST, result.sampled.cost);
        }
        let due = last || steps >= self.progress.retested_at + context.config.test.retest_every;
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
        let mean = outcome(context, actor, episodes, stream, Choice::Mean);
        let sampled = match played {
            Some(played) if !sample => played,
            _ => outcome(context, actor, episodes, stream, Choice::Sample),
        };
        let constraints = &context.spec.constraints;
        let result = TestResult::new(context.env_steps, mean, sampled, constraints);
        Best::keep(&mut self.candidate, actor, result.clone());
        result
    }

    /// Tests the candidate again if it seems better than the best; returns whether it is.
    fn retest(&mut self, context: &mut Context) -> bool {
        self.progress.retested_at = context.env_steps;
        let Some(Best { actor, result }) = self.candidate.take() else { return false };
        if self.best.as_ref().is_some_and(|best| !result.is_better_than(&best.result)) {
            return false;
        }
        let episodes = context.config.test.retest_episodes;
        let mut face = |choice| outcome(context, &actor, episodes, Stream::Retest, choice);
        let (mean, sampled) = (face(Choice::Mean), face(Choice::Sample));
        let constraints = &context.spec.constraints;
        let result = TestResult::new(result.env_steps, mean, sampled, constraints);
        Best::keep(&mut self.best, &actor, result)
    }

    /// Walks everything that lasts; `actor` is a network like those it keeps.
    pub fn walk(&mut self, walk: &mut Walk, actor: &Mlp) -> Result<(), StateError> {
        let result = |kept: &Option<Best>| kept.as_ref().map(|best| best.result.clone());
        self.progress.candidate = result(&self.candidate);
        self.progress.best = result(&self.best);
        let stored = walk.peek("judge", self.progress.clone())?;
        walk.plain("judge", &mut self.progress)?;
        for (name, kept, stored, own) in [
            ("candidate", &mut self.candidate, stored.candidate, &self.progress.candidate),
            ("best", &mut self.best, stored.best, &self.progress.best),
        ] {
            // In place of the one there, or of a copy where there is none yet.
            let mut net = kept.take().map_or_else(|| actor.clone(), |best| best.actor);
            let walked = stored.map_or(Ok(()), |_| walk.net(name, &mut net));
            *kept = own.clone().map(|result| Best { actor: net, result });
            walked?;
        }
        Ok(())
    }
}

/// How a policy does, on the mean over some episodes.
fn outcome(
    context: &mut Context,
    actor: &Mlp,
    episodes: usize,
    stream: Stream,
    choice: Choice,
) -> Outcome {
    let played = context.play_several(actor, episodes, stream, choice);
    let rewards: Vec<f64> = played.iter().map(|rollout| rollout.episode.reward()).collect();
    let constraints = context.spec.constraints.len();
    Outcome::of(&rewards, &constraint_values(&played), constraints).expect("at least one episode")
}
