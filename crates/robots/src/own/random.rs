//! What is drawn when an episode begins: noise on the start, and parameters of the model.

use cmdp::Rng;
use mujoco_rs::prelude::MjModel;
use mujoco_rs::wrappers::mj_model::{MjtJoint, MjtObjBase as Of};
use rand::RngExt as _;
use rand_distr::StandardNormal;

use super::quantity::{object, widths};

/// A distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Draw {
    Uniform(f64, f64),
    Normal(f64),
}

impl Draw {
    fn sample(self, rng: &mut Rng) -> f64 {
        match self {
            Self::Uniform(from, to) if from < to => rng.random_range(from..to),
            Self::Uniform(from, _) => from,
            Self::Normal(deviation) => deviation * rng.sample::<f64, _>(StandardNormal),
        }
    }
}

/// Noise on some entries of a start.
#[derive(Debug, Clone, PartialEq)]
pub struct Noise {
    /// Whether on velocities.
    pub velocity: bool,
    /// The entries.
    pub entries: std::ops::Range<usize>,
    pub draw: Draw,
}

impl Noise {
    /// On `qpos`, `qvel`, or one joint's part of them, as in `qpos.knee`.
    pub fn new(model: &MjModel, on: &str, draw: Draw) -> Result<Self, String> {
        let (family, joint) = on.split_once('.').map_or((on, None), |(f, j)| (f, Some(j)));
        let velocity = match family {
            "qpos" => false,
            "qvel" => true,
            _ => {
                return Err(format!(
                    "noise on '{on}'; expected qpos, qvel, or one joint's, as in qpos.knee"
                ));
            }
        };
        let entries = match joint {
            None if velocity => 0..model.ffi().nv as usize,
            None => 0..model.ffi().nq as usize,
            Some(name) => {
                let id = object(model, Of::mjOBJ_JOINT, "joint", name)?;
                let (position, speed) = widths(model.jnt_type()[id]);
                let (start, len) = match velocity {
                    true => (model.jnt_dofadr()[id], speed),
                    false => (model.jnt_qposadr()[id], position),
                };
                start as usize..start as usize + len
            }
        };
        Ok(Self { velocity, entries, draw })
    }

    /// Adds it.
    pub fn add(&self, rng: &mut Rng, qpos: &mut [f64], qvel: &mut [f64]) {
        let to = if self.velocity { qvel } else { qpos };
        to[self.entries.clone()].iter_mut().for_each(|x| *x += self.draw.sample(rng));
    }
}

/// How a drawn number changes a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Multiply,
    Add,
    Replace,
}

/// A parameter of the model, drawn anew for every episode: one number for all that it is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// What is changed: `body.torso.mass`.
    pub name: String,
    property: Property,
    objects: Vec<usize>,
    change: Change,
    draw: Draw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Property {
    Mass,
    BodyPosition(usize),
    Friction,
    Damping,
    Stiffness,
    Armature,
    FrictionLoss,
    Gear,
    Gravity,
}

/// What can be drawn, as it is written.
pub const PARAMETERS: [&str; 11] = [
    "gravity",
    "body.NAME.mass",
    "body.NAME.x",
    "body.NAME.y",
    "body.NAME.z",
    "geom.NAME.friction",
    "joint.NAME.damping",
    "joint.NAME.stiffness",
    "joint.NAME.armature",
    "joint.NAME.frictionloss",
    "actuator.NAME.gear",
];

impl Parameter {
    /// Reads what is to be changed; `*` for a name means all.
    pub fn new(model: &MjModel, name: &str, change: Change, draw: Draw) -> Result<Self, String> {
        let unknown =
            || format!("unknown parameter '{name}': expected one of {}", PARAMETERS.join(", "));
        let made =
            |property, objects| Ok(Self { name: name.into(), property, objects, change, draw });
        if name == "gravity" {
            return made(Property::Gravity, vec![0]);
        }
        let (kind, rest) = name.split_once('.').ok_or_else(unknown)?;
        let (object_name, property) = rest.rsplit_once('.').ok_or_else(unknown)?;
        let (of, property) = match (kind, property) {
            ("body", "mass") => (Of::mjOBJ_BODY, Property::Mass),
            ("body", "x") => (Of::mjOBJ_BODY, Property::BodyPosition(0)),
            ("body", "y") => (Of::mjOBJ_BODY, Property::BodyPosition(1)),
            ("body", "z") => (Of::mjOBJ_BODY, Property::BodyPosition(2)),
            ("geom", "friction") => (Of::mjOBJ_GEOM, Property::Friction),
            ("joint", "damping") => (Of::mjOBJ_JOINT, Property::Damping),
            ("joint", "stiffness") => (Of::mjOBJ_JOINT, Property::Stiffness),
            ("joint", "armature") => (Of::mjOBJ_JOINT, Property::Armature),
            ("joint", "frictionloss") => (Of::mjOBJ_JOINT, Property::FrictionLoss),
            ("actuator", "gear") => (Of::mjOBJ_ACTUATOR, Property::Gear),
            _ => return Err(unknown()),
        };
        let ffi = model.ffi();
        let objects: Vec<usize> = match (object_name, of) {
            ("*", Of::mjOBJ_BODY) => (1..ffi.nbody as usize).collect(),
            ("*", Of::mjOBJ_GEOM) => (0..ffi.ngeom as usize).collect(),
            ("*", Of::mjOBJ_JOINT) => (0..ffi.njnt as usize).collect(),
            ("*", _) => (0..ffi.nactuator as usize).collect(),
            _ => vec![object(model, of, kind, object_name)?],
        };
        let free = |&body: &usize| {
            let first = usize::try_from(model.body_jntadr()[body]).ok();
            first.is_some_and(|joint| model.jnt_type()[joint] == MjtJoint::mjJNT_FREE)
                || model.body_mocapid()[body] >= 0
        };
        if matches!(property, Property::BodyPosition(_)) && objects.iter().any(free) {
            return Err(format!(
                "'{name}' moves freely, so that its place is not the model's: expected a body that is fixed, or noise \
                 on its joint under [start.noise]"
            ));
        }
        made(property, objects)
    }

    /// A number for an episode.
    pub fn sample(&self, rng: &mut Rng) -> f64 {
        self.draw.sample(rng)
    }

    /// Writes the parameter into a model, from what it is in the original.
    pub fn apply(&self, drawn: f64, original: &MjModel, model: &mut MjModel) {
        let changed = |x: f64| match self.change {
            Change::Multiply => x * drawn,
            Change::Add => x + drawn,
            Change::Replace => drawn,
        };
        for &i in &self.objects {
            match self.property {
                Property::Mass => {
                    let mass = original.body_mass()[i];
                    // Of nothing nobody knows how it moves.
                    let new = changed(mass).max(1e-6 * mass);
                    model.body_mass_mut()[i] = new;
                    // As if it were denser: inertia goes with mass.
                    let ratio = if mass > 0.0 { new / mass } else { 1.0 };
                    model.body_inertia_mut()[i] = original.body_inertia()[i].map(|x| x * ratio);
                }
                Property::BodyPosition(axis) => {
                    model.body_pos_mut()[i][axis] = changed(original.body_pos()[i][axis]);
                }
                Property::Friction => {
                    let friction = original.geom_friction()[i];
                    let new = changed(friction[0]).max(0.0);
                    model.geom_friction_mut()[i][0] = new;
                }
                Property::Stiffness => {
                    model.jnt_stiffness_mut()[i] = changed(original.jnt_stiffness()[i]);
                }
                Property::Damping | Property::Armature | Property::FrictionLoss => {
                    let start = original.jnt_dofadr()[i] as usize;
                    for dof in start..start + widths(original.jnt_type()[i]).1 {
                        match self.property {
                            Property::Damping => {
                                model.dof_damping_mut()[dof] =
                                    changed(original.dof_damping()[dof]).max(0.0);
                            }
                            Property::Armature => {
                                model.dof_armature_mut()[dof] =
                                    changed(original.dof_armature()[dof]).max(0.0);
                            }
                            _ => {
                                model.dof_frictionloss_mut()[dof] =
                                    changed(original.dof_frictionloss()[dof]).max(0.0);
                            }
                        }
                    }
                }
                Property::Gear => {
                    let gear = original.actuator_gear()[i];
                    model.actuator_gear_mut()[i][0] = changed(gear[0]);
                }
                Property::Gravity => {
                    let gravity = original.opt().gravity;
                    model.opt_mut().gravity[2] = changed(gravity[2]);
                }
            }
        }
    }
}
