//! A robot of a user's own: a MuJoCo model, and a page of TOML that says what is observed, rewarded, bounded.
//!
//! ```toml
//! model = "arm.xml"
//! frame_skip = 5
//! observe = ["qpos", "clip(qvel, -10, 10)", "pos.target - site.hand"]
//!
//! [reward]
//! near = "-norm(pos.target - site.hand)"
//!
//! [costs.force]
//! value = "max(abs(force))"
//! threshold = 2.5
//! ```
//!
//! docs/own-robot.md says what else there is.

mod check;
mod compile;
mod compiled;
mod expression;
mod file;
mod plan;
mod program;
mod quantity;
mod random;
mod robot;
mod starter;

use std::path::Path;
use std::sync::Arc;

use cmdp::{Constraint, Cost};
use mujoco_rs::error::MjEditError;
use mujoco_rs::prelude::{MjModel, MjSpec};
use mujoco_rs::wrappers::mj_editing::{MjtLimited, SpecItem as _};
use mujoco_rs::wrappers::mj_model::{MjtObjBase, MjtTrn};

pub use check::{Check, check};
pub use robot::OwnRobot;
pub use starter::starter;

use self::file::Source;
use self::plan::{Motor, Plan};
use self::quantity::{object, widths};
use crate::engine::{self, EngineError};

/// A task file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OwnTaskError {
    /// It cannot be read.
    #[error("{file}: cannot read it: {error}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        error: std::io::Error,
    },
    /// Something in it is wrong: file, line, column, what.
    #[error("{0}")]
    Mistake(String),
    /// The physics engine cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A task of a user's own.
pub struct OwnTask {
    name: String,
    description: String,
    /// The file's text.
    text: String,
    model: Arc<MjModel>,
    plan: Plan,
}

impl OwnTask {
    /// Reads a task file and compiles the model that it names.
    pub fn read(path: &Path) -> Result<Arc<Self>, OwnTaskError> {
        engine::ready()?;
        let name = path.display().to_string();
        let read = std::fs::read_to_string(path);
        let text = read.map_err(|error| OwnTaskError::Read { file: name.clone(), error })?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self::build(&name, &stem, text, |model, motors| {
            let model = path.parent().unwrap_or(Path::new("")).join(model);
            Ok(match motors {
                [] => Self::load(&model)?,
                motors => motorised(&model, motors)?,
            })
        })
    }

    /// The task of a copy: the file's text, its model compiled, as [`copy`](Self::copy) gave them. `name` is what the
    /// task is called where the text does not say so.
    pub fn of_copy(
        file: &str,
        name: &str,
        text: String,
        model: &[u8],
    ) -> Result<Arc<Self>, OwnTaskError> {
        engine::ready()?;
        // Which has its motors.
        Self::build(file, name, text, |_, _| {
            MjModel::from_buffer(model).map_err(|error| {
                format!(
                    "its compiled copy: {}; it was made for MuJoCo {}",
                    told(&error),
                    engine::VERSION
                )
            })
        })
    }

    /// The file's text, and the model compiled, with all meshes: everything that is needed to make the task again.
    pub fn copy(&self) -> (&str, Vec<u8>) {
        (&self.text, compiled::compiled(&self.model))
    }

    /// Reads a model by itself: MJCF, URDF, or compiled. Everything it names is in it then.
    pub fn load(path: &Path) -> Result<MjModel, String> {
        let name = path.display();
        if engine::ready().is_err() || !path.is_file() {
            return Err(format!("{name}: there is no such file"));
        }
        let loaded = match path.extension().is_some_and(|end| end == "mjb") {
            true => MjModel::from_mjb(path),
            false => MjModel::from_xml(path),
        };
        let embedded = loaded.and_then(|model| model.to_embed_assets());
        let model = embedded.map_err(|error| format!("{name}: {}", told(&error)))?;
        let names: Vec<u8> = model.names().iter().map(|&c| c as u8).collect();
        match std::str::from_utf8(&names) {
            Ok(_) => Ok(model),
            Err(_) => Err(format!("{name}: a name in it is not UTF-8")),
        }
    }

    fn build(
        file: &str,
        stem: &str,
        text: String,
        load: impl FnOnce(&str, &[Motor]) -> Result<MjModel, String>,
    ) -> Result<Arc<Self>, OwnTaskError> {
        let source = Source { name: file, text: &text };
        let built = Plan::read(source.text, stem, load);
        let (name, description, model, plan) =
            built.map_err(|mistake| OwnTaskError::Mistake(source.told(&mistake)))?;
        Ok(Arc::new(Self { name, description, text, model, plan }))
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// It in one line.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// What it measures.
    pub fn costs(&self) -> &[Cost] {
        &self.plan.costs
    }

    /// The constraints in force where a user names none: every cost at its threshold.
    pub fn default_constraints(&self) -> Vec<Constraint> {
        let usual = |cost: &Cost| Constraint {
            name: cost.name.clone().into_owned(),
            aggregate: cost.aggregate,
            threshold: cost.threshold,
        };
        self.plan.costs.iter().map(usual).collect()
    }

    /// Entries of an observation and of an action, and the time limit in steps.
    pub fn sizes(&self) -> [usize; 3] {
        [self.plan.observation.len, self.plan.actuators.len(), self.plan.steps]
    }
}

/// A model with motors on some of its joints, for one that has none, as no URDF has.
fn motorised(path: &Path, motors: &[Motor]) -> Result<MjModel, String> {
    let name = path.display();
    let plain = OwnTask::load(path)?;
    for (joint, _) in motors {
        let id = object(&plain, MjtObjBase::mjOBJ_JOINT, "joint", joint)?;
        if widths(plain.jnt_type()[id]) != (1, 1) {
            return Err(format!(
                "a motor on '{joint}', which is a free or ball joint: expected a hinge or a slide"
            ));
        }
    }
    let refused = |error: MjEditError| format!("{name}: MuJoCo: {error}").replace('\n', " ");
    let mut spec = MjSpec::from_xml(path).map_err(refused)?;
    for (joint, most) in motors {
        let motor = spec.add_actuator().with_trntype(MjtTrn::mjTRN_JOINT);
        motor.set_to_motor();
        motor.set_target(joint);
        motor.set_name(joint).map_err(refused)?;
        motor.set_ctrllimited(MjtLimited::mjLIMITED_TRUE);
        *motor.ctrlrange_mut() = [-most, *most];
    }
    let compiled = spec.compile().map_err(refused)?;
    compiled.to_embed_assets().map_err(|error| format!("{name}: {}", told(&error)))
}

/// An engine's message in one line.
fn told(error: &mujoco_rs::error::MjModelError) -> String {
    use mujoco_rs::error::MjModelError;
    let text = match error {
        MjModelError::LoadFailed(text) if text.is_empty() => "MuJoCo refuses it".into(),
        MjModelError::LoadFailed(text) => format!("MuJoCo: {text}"),
        other => format!("MuJoCo: {other}"),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a task's name is that of a file.
pub fn is_file(task: &str) -> bool {
    task.ends_with(".toml")
}
