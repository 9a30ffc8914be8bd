//! A trained policy on disk: the actor's tensors and where they come from.

use std::path::{Path, PathBuf};

use cmdp::EnvSpec;
use ecrl::best::Best;
use ecrl::config::Config;
use ecrl::trainer::Trainer;
use nets::store::{Store, StoreError};
use nets::{Activation, Mlp, categorical, gaussian};
use serde::{Deserialize, Serialize};

use crate::files;
use crate::interface::Interface;

/// The version of the format; raised when an older program would misread a newer file.
const FORMAT: u32 = 4;

/// Where a policy comes from and how it did when it was tested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The version of the file's format.
    pub format: u32,
    /// The program that wrote it.
    pub program: String,
    /// The task it was trained on.
    pub task: String,
    /// The algorithm that trained it.
    pub algorithm: String,
    /// The seed of the run.
    pub seed: u64,
    /// The constraints in force.
    pub constraints: Vec<String>,
    /// Environment steps taken when it was stored.
    pub env_steps: u64,
    /// Units of the hidden layers.
    pub hidden: Vec<usize>,
    /// What follows each of them.
    #[serde(default)]
    pub activation: Activation,
    /// The mean return of its last test with its mean action, if it was tested.
    pub reward: Option<f64>,
    /// The mean J_C of every constraint in that test.
    pub cost: Option<Vec<f64>>,
    /// The mean return with sampled actions.
    #[serde(default)]
    pub sampled_reward: Option<f64>,
    /// The mean J_C of every constraint with sampled actions.
    #[serde(default)]
    pub sampled_cost: Option<Vec<f64>>,
    /// What it acts in, from format 4 on; absent for the environments of this program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
    /// The checksum of all of this and of the tensors, from format 3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crc32c: Option<u32>,
}

impl About {
    /// For a policy of this program and format.
    pub fn new(task: &str, algorithm: &str, seed: u64, constraints: &[String]) -> Self {
        Self {
            format: FORMAT,
            program: concat!("ecrl ", env!("CARGO_PKG_VERSION")).into(),
            task: task.into(),
            algorithm: algorithm.into(),
            seed,
            constraints: constraints.to_vec(),
            env_steps: 0,
            hidden: vec![],
            activation: Activation::default(),
            reward: None,
            cost: None,
            sampled_reward: None,
            sampled_cost: None,
            interface: None,
            crc32c: None,
        }
    }

    /// For a policy of a run; the environments say what the task and its constraints are.
    fn of(trainer: &Trainer) -> Self {
        let Config { task, algorithm, seed, constraints, .. } = trainer.config();
        let interface = Interface::of(trainer.config());
        Self { interface, ..Self::new(task, algorithm, *seed, constraints) }
    }

    /// The checksum of all else and of a network.
    fn checksum(&self, actor: &Mlp) -> u32 {
        let about = Self { crc32c: None, ..self.clone() };
        let about = serde_json::to_vec(&about).expect("plain data");
        let weights = actor.params().iter().flat_map(|x| x.to_le_bytes());
        crc32c::crc32c_append(crc32c::crc32c(&about), &weights.collect::<Vec<u8>>())
    }
}

/// A policy and its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// From an observation to `[μ, log σ]`, or to the scores of choices.
    pub actor: Mlp,
    /// Where it comes from.
    pub about: About,
}

/// A policy that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("{path}: cannot read it: {error}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What happened.
        error: std::io::Error,
    },
    /// The file does not hold a policy.
    #[error("{path}: {error}", path = path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: StoreError,
    },
    /// The file's description is missing or foreign.
    #[error("{path}: not a policy of ecrl: {error}", path = path.display())]
    About {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// The file is newer than this program.
    #[error("{path}: policy format {found} by {program}; expected 1 to {FORMAT}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The program that wrote it.
        program: String,
    },
    /// The file was changed since it was written.
    #[error("{path}: damaged: it does not match its checksum", path = .0.display())]
    Checksum(PathBuf),
    /// The policy is another task's.
    #[error("{path}: a policy of {found}; expected one of {expected}", path = path.display())]
    Task {
        /// The file.
        path: PathBuf,
        /// Its task.
        found: String,
        /// The task expected.
        expected: String,
    },
}

impl Policy {
    /// The learner's policy as it is now.
    pub fn of_learner(trainer: &Trainer) -> Self {
        let about = About { env_steps: trainer.env_steps(), ..About::of(trainer) };
        Self { actor: trainer.actor(), about }
    }

    /// The best policy so far.
    pub fn of_best(trainer: &Trainer) -> Option<Self> {
        let Best { actor, result } = trainer.best()?;
        let about = About {
            env_steps: result.env_steps,
            reward: Some(result.mean.reward),
            cost: Some(result.mean.cost.clone()),
            sampled_reward: Some(result.sampled.reward),
            sampled_cost: Some(result.sampled.cost.clone()),
            ..About::of(trainer)
        };
        Some(Self { actor: actor.clone(), about })
    }

    /// What the file says of it.
    fn about(&self) -> About {
        let sizes = self.actor.sizes();
        let about = About {
            hidden: sizes[1..sizes.len() - 1].to_vec(),
            activation: self.actor.activation(),
            // What format 4 adds is not there: who reads 3 reads this.
            format: if self.about.interface.is_some() { FORMAT } else { 3 },
            ..self.about.clone()
        };
        About { crc32c: Some(about.checksum(&self.actor)), ..about }
    }

    /// The checksum of all of it, as text.
    pub fn checksum(&self) -> String {
        format!("{:08x}", self.about().crc32c.unwrap_or_default())
    }

    /// The file's content.
    pub fn to_bytes(&self) -> Vec<u8> {
        let about = self.about();
        let mut store = Store::new(serde_json::to_string(&about).expect("plain data"));
        store.add_mlp("actor", &self.actor);
        store.to_bytes()
    }

    /// Reads a policy, whatever its task.
    pub fn open(path: &Path) -> Result<Self, PolicyError> {
        let read = files::read(path);
        let bytes = read.map_err(|error| PolicyError::Read { path: path.to_owned(), error })?;
        Self::from_bytes(&bytes, path)
    }

    /// Reads a policy from a file's bytes; errors name the file.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self, PolicyError> {
        let owned = || path.to_owned();
        let store = |error| PolicyError::Store { path: owned(), error };
        let tensors = Store::from_bytes(bytes).map_err(store)?;
        let about: About = serde_json::from_str(&tensors.about)
            .map_err(|error| PolicyError::About { path: owned(), error })?;
        // Format 1 did not name the activation, which was always the default.
        if !(1..=FORMAT).contains(&about.format) {
            let (found, program) = (about.format, about.program);
            return Err(PolicyError::Format { path: owned(), found, program });
        }
        let last = format!("actor.{}.weight", about.hidden.len());
        let size = |name: &str, i: usize| {
            let size = tensors.shape(name).and_then(|shape| shape.get(i).copied());
            size.filter(|&n| n > 0).ok_or_else(|| store(StoreError::Missing(name.into())))
        };
        let (inputs, outputs) = (size("actor.0.weight", 1)?, size(&last, 0)?);
        let sizes = [&[inputs], &about.hidden[..], &[outputs]].concat();
        for (layer, pair) in sizes.windows(2).enumerate() {
            // Before memory is taken for what the header claims.
            tensors.get(&format!("actor.{layer}.weight"), &[pair[1], pair[0]]).map_err(store)?;
        }
        let actor = tensors.mlp("actor", &sizes, about.activation).map_err(store)?;
        if let Some(interface) = &about.interface
            && interface.sizes() != Some([inputs, outputs])
        {
            let (name, found) = ("actor".into(), vec![inputs, outputs]);
            let expected = interface.sizes().map_or(Vec::new(), Vec::from);
            return Err(store(StoreError::Shape { name, found, expected }));
        }
        // Formats 1 and 2 had no checksum.
        match about.crc32c {
            None if about.format < 3 => {}
            Some(crc32c) if crc32c == about.checksum(&actor) => {}
            _ => return Err(PolicyError::Checksum(owned())),
        }
        Ok(Self { actor, about })
    }

    /// Reads a policy for a task.
    pub fn load(path: &Path, spec: &EnvSpec) -> Result<Self, PolicyError> {
        let policy = Self::open(path)?;
        if policy.about.task != spec.name {
            let (found, expected) = (policy.about.task, spec.name.clone());
            return Err(PolicyError::Task { path: path.to_owned(), found, expected });
        }
        let sizes = policy.actor.sizes();
        let (inputs, outputs) = (sizes[0], sizes[sizes.len() - 1]);
        if (inputs, outputs) != (spec.observation, spec.outputs()) {
            let error = StoreError::Shape {
                name: "actor".into(),
                found: vec![inputs, outputs],
                expected: vec![spec.observation, spec.outputs()],
            };
            return Err(PolicyError::Store { path: path.to_owned(), error });
        }
        Ok(policy)
    }

    /// How many choices it has, where its action is one of several.
    pub fn choices(&self) -> Option<usize> {
        self.about.interface.as_ref().and_then(|interface| interface.action.choices())
    }

    /// The entries of its action.
    pub fn actions(&self) -> usize {
        let sizes = self.actor.sizes();
        if self.choices().is_some() { 1 } else { sizes[sizes.len() - 1] / 2 }
    }

    /// The action it takes, without noise: in [-1, 1], or the number of a choice, from 0 on.
    pub fn act(&self, observation: &[f32]) -> Result<Vec<f32>, StoreError> {
        let mut action = vec![0.0; self.actions()];
        let (found, expected) = (observation.len(), self.actor.sizes()[0]);
        if found != expected {
            let (found, expected) = (vec![found], vec![expected]);
            return Err(StoreError::Shape { name: "observation".into(), found, expected });
        }
        let mut scratch = Vec::new();
        let head = self.actor.forward_one(observation, &mut scratch);
        match self.choices() {
            Some(_) => action[0] = categorical::best(head) as f32,
            None => gaussian::act(head, None, &mut action),
        }
        Ok(action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_anywhere_is_found() {
        let mut actor = Mlp::zeros(&[3, 4, 2], Activation::Tanh);
        let weights = actor.params_mut().iter_mut().enumerate();
        weights.for_each(|(i, weight)| *weight = i as f32 / 7.0 - 1.0);
        let about = About {
            reward: Some(1.5),
            cost: Some(vec![0.25]),
            ..About::new("toy", "ipo", 3, &["mean(force)<=0.1".into()])
        };
        let policy = Policy { actor, about };
        let bytes = policy.to_bytes();
        let path = std::env::temp_dir().join(format!("ecrl-flips-{}", std::process::id()));
        let open = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Policy::open(&path)
        };
        assert_eq!(open(&bytes).unwrap().actor, policy.actor);
        let mut missed = Vec::new();
        for at in 0..bytes.len() {
            for bit in [0x01, 0x04, 0x20, 0x80] {
                let mut flipped = bytes.clone();
                flipped[at] ^= bit;
                // What is read must be what was written: spaces at the header's end mean nothing.
                if open(&flipped).is_ok_and(|read| read.to_bytes() != bytes) {
                    missed.push((at, bit));
                }
            }
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(missed, []);
    }
}
