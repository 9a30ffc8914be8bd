//! Actors that are ranked by an episode each and varied: who they are, who is champion, and who was who.

use cmdp::Rng;
use nets::Mlp;
use serde::{Deserialize, Deserializer, Serialize};

use super::census::{Census, Fate, Fates};
use super::contest::Contest;
use super::variation::{Descent, Origin};
use super::{Champion, EvolutionConfig};
use crate::algorithm;
use crate::best::Outcome;
use crate::collect::episodes::Rollout;
use crate::context::{Context, Stream};
use crate::metrics::Record;
use crate::state::{StateError, Walk};

/// The population.
pub struct Evolved {
    /// How it evolves.
    pub config: EvolutionConfig,
    /// The actors, slot after slot.
    pub actors: Vec<Mlp>,
    /// The champion of the last generation, as it was before variation.
    champion: Mlp,
    /// How far it has come.
    pub progress: Progress,
}

/// How far evolution has come.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Progress {
    /// Where each actor of the population comes from.
    pub descents: Vec<Descent>,
    /// The slots that hold a copy of a learner that has not been ranked yet.
    #[serde(deserialize_with = "one_or_more")]
    pub(crate) injected: Vec<usize>,
    pub(crate) fates: Fates,
    census: Option<Census>,
    /// B_C^g: J_C of the current generation's episodes.
    pub values: Vec<Vec<f64>>,
    /// The slots of the current generation's ranking, best first.
    pub ranked: Vec<usize>,
    /// How the champion did when it was ranked.
    champion: Option<Outcome>,
}

/// A list; of earlier versions, one or none.
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<usize>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Many(Vec<usize>),
        Few(Option<usize>),
    }
    Ok(match Stored::deserialize(deserializer)? {
        Stored::Many(slots) => slots,
        Stored::Few(slot) => slot.into_iter().collect(),
    })
}

impl Evolved {
    /// A population of these actors.
    pub fn new(config: EvolutionConfig, actors: Vec<Mlp>) -> Self {
        let progress = Progress {
            descents: vec![Descent::without_parents(Origin::Initial); actors.len()],
            injected: Vec::new(),
            fates: Fates::default(),
            census: None,
            values: Vec::new(),
            ranked: Vec::new(),
            champion: None,
        };
        Self { config, champion: actors[0].clone(), actors, progress }
    }

    /// Ranks the actors by what they played, an episode each; notes what there is to tell of it.
    pub fn rank(
        &mut self,
        played: &[Rollout],
        lambda: &dyn Fn(usize) -> Vec<f64>,
        context: &Context,
        record: &mut Record,
    ) {
        let EvolutionConfig { ranking, elites, champion, .. } = self.config;
        let descent = |slot: usize| self.progress.descents[slot].clone();
        let contest = Contest { ranking, elites, played, fitness: None, lambda, descent: &descent };
        let census = contest.decide(context, record);
        let ranked = census.ranked();
        let first = match champion {
            Champion::Ranking => ranked[0],
            // Of equals, the first of the ranking.
            Champion::Reward => {
                let reward = |slot: &usize| played[*slot].episode.reward();
                let most = |a: &&usize, b: &&usize| reward(a).total_cmp(&reward(b));
                *ranked.iter().rev().max_by(most).expect("a population")
            }
        };
        self.champion = self.actors[first].clone();
        self.progress.champion = census.outcome(first);
        self.progress.census = Some(census);
        self.progress.ranked = ranked;
    }

    /// Makes the next population of the ranked one, by a function of the actors, the ranking and how to
    /// evolve; returns what became of the learners' copies.
    pub fn vary(
        &mut self,
        context: &Context,
        vary: impl FnOnce(&mut [Mlp], &[usize], &EvolutionConfig, &mut Rng) -> Vec<Descent>,
    ) -> Vec<Fate> {
        let mut rng = cmdp::rng(context.key(Stream::Evolution, 1));
        let Progress { descents, injected, fates, census, ranked, .. } = &mut self.progress;
        *descents = vary(&mut self.actors, ranked, &self.config, &mut rng);
        let fate = |slot: usize| match descents[slot].origin {
            Origin::Elite => Fate::Elite,
            Origin::Winner => Fate::Selected,
            _ => Fate::Discarded,
        };
        let met: Vec<Fate> = injected.drain(..).map(fate).collect();
        met.iter().for_each(|fate| fates.count(*fate));
        if let Some(census) = census {
            census.learner_copies = *fates;
        }
        met
    }

    /// A learner's actor takes a slot.
    pub fn inject(&mut self, slot: usize, actor: &Mlp) {
        self.actors[slot].params_mut().copy_from_slice(actor.params());
        self.progress.descents[slot] = Descent::without_parents(Origin::Learner);
        self.progress.injected.push(slot);
    }

    /// The champion of the last generation, as it was ranked.
    pub fn champion(&self, express: impl FnOnce(&Mlp) -> Mlp) -> Option<algorithm::Champion> {
        let played = self.progress.champion.clone()?;
        Some(algorithm::Champion { actor: express(&self.champion), played })
    }

    /// Who was who in the last generation.
    pub fn census(&self) -> Option<&Census> {
        self.progress.census.as_ref()
    }

    /// Walks the actors.
    pub fn walk_actors(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        for (slot, actor) in self.actors.iter_mut().enumerate() {
            walk.net(&format!("population{slot}"), actor)?;
        }
        walk.net("champion", &mut self.champion)
    }

    /// Walks how far it has come.
    pub fn walk_progress(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        let slots = self.actors.len();
        walk.fitting("evolution", &mut self.progress, "a population of this size", |p, _| {
            p.descents.len() == slots && p.ranked.iter().chain(&p.injected).all(|&s| s < slots)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_earlier_versions_hold_one_copy_of_the_learner_or_none() {
        #[derive(Deserialize)]
        struct Held(#[serde(deserialize_with = "one_or_more")] Vec<usize>);
        let read = |stored: Vec<u8>| -> Vec<usize> {
            ciborium::from_reader::<Held, _>(&stored[..]).unwrap().0
        };
        let stored = |value: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            value(&mut bytes);
            bytes
        };
        let of = |slot: Option<usize>| {
            read(stored(&|bytes| ciborium::into_writer(&slot, bytes).unwrap()))
        };
        assert_eq!(of(None), [0usize; 0]);
        assert_eq!(of(Some(7)), [7]);
        let many = vec![3usize, 1];
        assert_eq!(read(stored(&|bytes| ciborium::into_writer(&many, bytes).unwrap())), [3, 1]);
    }
}
