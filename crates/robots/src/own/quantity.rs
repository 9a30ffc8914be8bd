//! What a model measures, by name: `qpos.knee`, `pos.torso`, `sensor.foot`.

use cmdp::nearest;
use mujoco_rs::prelude::MjModel;
use mujoco_rs::wrappers::mj_model::{MjtJoint, MjtObjBase};

use super::compile::Quantities;
use super::expression::Wrong;
use crate::physics::Data;

/// A quantity; numbers are places in the engine's arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Joint positions from a place on, and so on.
    Qpos(usize),
    Qvel(usize),
    /// Of the action as the policy gave it, within -1 and 1.
    Action(usize),
    Ctrl(usize),
    Force(usize),
    Sensor(usize),
    /// Of a body: where its frame is, how that moves and stands.
    Position(usize),
    Velocity(usize),
    Spin(usize),
    Rotation(usize),
    /// An axis of it: the number of the axis, then the body.
    Axis(usize, usize),
    /// The centre of mass of a body and all that hangs on it.
    Mass(usize),
    Site(usize),
    Geom(usize),
    /// The normal forces on a geom's contacts, added up.
    Contact(usize),
    Time,
}

/// What a name stands for: with or without something after the point, and what that is.
struct Family {
    name: &'static str,
    /// Whose names follow it.
    of: MjtObjBase,
    /// What they are called.
    what: &'static str,
    /// Whether it means something by itself.
    whole: bool,
    help: &'static str,
}

const fn family(
    name: &'static str,
    of: MjtObjBase,
    what: &'static str,
    whole: bool,
    help: &'static str,
) -> Family {
    Family { name, of, what, whole, help }
}

use MjtObjBase as Of;

const FAMILIES: [Family; 18] = [
    family("qpos", Of::mjOBJ_JOINT, "joint", true, "joint positions, all or one joint's"),
    family("qvel", Of::mjOBJ_JOINT, "joint", true, "joint velocities"),
    family("action", Of::mjOBJ_ACTUATOR, "actuator", true, "the last action, from -1 to 1"),
    family("ctrl", Of::mjOBJ_ACTUATOR, "actuator", true, "controls in the model's own units"),
    family("force", Of::mjOBJ_ACTUATOR, "actuator", true, "what actuators exert"),
    family("sensor", Of::mjOBJ_SENSOR, "sensor", true, "sensors, all or one"),
    family("pos", Of::mjOBJ_BODY, "body", false, "where a body is: x, y, z"),
    family("vel", Of::mjOBJ_BODY, "body", false, "how fast it moves, along the world's axes"),
    family("angvel", Of::mjOBJ_BODY, "body", false, "how fast it turns, about the world's axes"),
    family(
        "quat",
        Of::mjOBJ_BODY,
        "body",
        false,
        "how it stands: a quaternion, its real part first, as .x",
    ),
    family("xaxis", Of::mjOBJ_BODY, "body", false, "where its own x axis points"),
    family("yaxis", Of::mjOBJ_BODY, "body", false, "where its own y axis points"),
    family(
        "zaxis",
        Of::mjOBJ_BODY,
        "body",
        false,
        "where its own z axis points; zaxis.B.z is 1 upright",
    ),
    family("com", Of::mjOBJ_BODY, "body", false, "centre of mass of it and all that hangs on it"),
    family("site", Of::mjOBJ_SITE, "site", false, "where a site is"),
    family("geom", Of::mjOBJ_GEOM, "geom", false, "where a geom is"),
    family("contact", Of::mjOBJ_GEOM, "geom", false, "normal force of all its contacts, in N"),
    family("time", Of::mjOBJ_UNKNOWN, "", true, "seconds since the episode began"),
];

/// Every family, and what it is, in a few words.
pub fn families() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    FAMILIES.iter().map(|family| (family.name, family.what, family.help))
}

/// The names of a model's objects of a kind; those without a name are left out.
pub fn names(model: &MjModel, of: MjtObjBase) -> Vec<(usize, String)> {
    let ffi = model.ffi();
    let count = match of {
        Of::mjOBJ_JOINT => ffi.njnt,
        Of::mjOBJ_ACTUATOR => ffi.nactuator,
        Of::mjOBJ_SENSOR => ffi.nsensor,
        Of::mjOBJ_BODY => ffi.nbody,
        Of::mjOBJ_SITE => ffi.nsite,
        Of::mjOBJ_GEOM => ffi.ngeom,
        Of::mjOBJ_KEY => ffi.nkey,
        _ => 0,
    };
    let name = |i: usize| Some((i, model.id_to_name(of, i).filter(|n| !n.is_empty())?.to_owned()));
    (0..count as usize).filter_map(name).collect()
}

/// The object of that name, or what is wrong with it.
pub fn object(model: &MjModel, of: MjtObjBase, what: &str, name: &str) -> Result<usize, String> {
    let known = names(model, of);
    if let Some((id, _)) = known.iter().find(|(_, known)| known == name) {
        return Ok(*id);
    }
    let known: Vec<&str> = known.iter().map(|(_, name)| &name[..]).collect();
    let hint = match (nearest(name, known.iter().copied()).first(), known.len()) {
        (Some(best), _) => format!("did you mean '{best}'?"),
        (None, 0) => format!("none of its {what}s has a name"),
        (None, count) => {
            let more = if count > 12 { ", ..." } else { "" };
            format!("expected one of: {}{more}", known[..count.min(12)].join(", "))
        }
    };
    Err(format!("the model has no {what} '{name}': {hint}"))
}

/// The numbers of a joint's position and of its velocity.
pub fn widths(joint: MjtJoint) -> (usize, usize) {
    match joint {
        MjtJoint::mjJNT_FREE => (7, 6),
        MjtJoint::mjJNT_BALL => (4, 3),
        _ => (1, 1),
    }
}

/// The quantities of a model whose policy moves some of its actuators.
pub struct Measured<'a> {
    pub model: &'a MjModel,
    /// The actuators that are moved, in the order of the action's entries.
    pub actuators: &'a [usize],
    pub frame_skip: usize,
}

impl Quantities for Measured<'_> {
    type Source = Source;

    fn families(&self) -> Vec<&str> {
        FAMILIES.iter().map(|family| family.name).collect()
    }

    fn dt(&self) -> f64 {
        self.model.opt().timestep * self.frame_skip as f64
    }

    fn find(&self, path: &[(String, usize)]) -> Result<(Source, usize, usize), Wrong> {
        let (first, at) = &path[0];
        let family = FAMILIES.iter().find(|family| family.name == first);
        let family = family.expect("the compiler asks for families alone");
        let ffi = self.model.ffi();
        if family.name == "time" {
            return Ok((Source::Time, 1, 1));
        }
        let Some((name, place)) = path.get(1) else {
            let all = match family.name {
                _ if !family.whole => None,
                "qpos" => Some((Source::Qpos(0), ffi.nq as usize)),
                "qvel" => Some((Source::Qvel(0), ffi.nv as usize)),
                "action" => Some((Source::Action(0), self.actuators.len())),
                "ctrl" => Some((Source::Ctrl(0), ffi.nu as usize)),
                "force" => Some((Source::Force(0), ffi.nout as usize)),
                _ => Some((Source::Sensor(0), ffi.nsensordata as usize)),
            };
            return match all {
                Some((_, 0)) => Err(Wrong::new(*at, format!("the model has no {}", family.what))),
                Some((source, len)) => Ok((source, len, 1)),
                None => {
                    let what = family.what;
                    let known = names(self.model, family.of);
                    let one = known.last().map_or(what.to_uppercase(), |(_, name)| name.clone());
                    let text = format!("expected the name of a {what}, as in {first}.{one}");
                    Err(Wrong::new(*at, text))
                }
            };
        };
        let id = object(self.model, family.of, family.what, name);
        let id = id.map_err(|error| Wrong::new(*place, error))?;
        let joint = || widths(self.model.jnt_type()[id]);
        let (source, len) = match family.name {
            "qpos" => (Source::Qpos(self.model.jnt_qposadr()[id] as usize), joint().0),
            "qvel" => (Source::Qvel(self.model.jnt_dofadr()[id] as usize), joint().1),
            "action" => match self.actuators.iter().position(|&a| a == id) {
                Some(entry) => (Source::Action(entry), 1),
                None => {
                    let text = format!("'{name}' is not among the actuators that are moved");
                    return Err(Wrong::new(*place, text));
                }
            },
            "ctrl" => (Source::Ctrl(id), 1),
            "force" => (Source::Force(id), 1),
            "sensor" => (
                Source::Sensor(self.model.sensor_adr()[id] as usize),
                self.model.sensor_dim()[id] as usize,
            ),
            "pos" => (Source::Position(id), 3),
            "vel" => (Source::Velocity(id), 3),
            "angvel" => (Source::Spin(id), 3),
            "quat" => (Source::Rotation(id), 4),
            "xaxis" => (Source::Axis(0, id), 3),
            "yaxis" => (Source::Axis(1, id), 3),
            "zaxis" => (Source::Axis(2, id), 3),
            "com" => (Source::Mass(id), 3),
            "site" => (Source::Site(id), 3),
            "geom" => (Source::Geom(id), 3),
            _ => (Source::Contact(id), 1),
        };
        match len {
            0 => Err(Wrong::new(
                *place,
                format!("{what} '{name}' has no numbers", what = family.what),
            )),
            _ => Ok((source, len, 2)),
        }
    }
}

impl Source {
    /// Reads it as the last physics step left it.
    pub fn read(self, data: &Data, action: &[f64], to: &mut [f64]) {
        let from = |all: &[f64], start: usize, to: &mut [f64]| {
            to.copy_from_slice(&all[start..start + to.len()]);
        };
        match self {
            Self::Qpos(start) => from(data.qpos(), start, to),
            Self::Qvel(start) => from(data.qvel(), start, to),
            Self::Action(start) => from(action, start, to),
            Self::Ctrl(start) => from(data.ctrl(), start, to),
            Self::Force(start) => from(data.actuator_force(), start, to),
            Self::Sensor(start) => from(data.sensordata(), start, to),
            Self::Position(body) => to.copy_from_slice(&data.xpos()[body]),
            Self::Velocity(body) => {
                let six = data.object_velocity(Of::mjOBJ_XBODY, body, false);
                to.copy_from_slice(&six[3..]);
            }
            Self::Spin(body) => {
                let six = data.object_velocity(Of::mjOBJ_XBODY, body, false);
                to.copy_from_slice(&six[..3]);
            }
            Self::Rotation(body) => to.copy_from_slice(&data.xquat()[body]),
            Self::Axis(axis, body) => {
                let matrix = &data.xmat()[body];
                to.iter_mut().enumerate().for_each(|(i, to)| *to = matrix[3 * i + axis]);
            }
            Self::Mass(body) => to.copy_from_slice(&data.subtree_com()[body]),
            Self::Site(site) => to.copy_from_slice(&data.site_xpos()[site]),
            Self::Geom(geom) => to.copy_from_slice(&data.geom_xpos()[geom]),
            Self::Contact(geom) => {
                let geom = geom as i32;
                let touches = data.contact().iter().enumerate();
                let touches = touches.filter(|(_, contact)| contact.geom.contains(&geom));
                to[0] = touches.map(|(i, _)| data.contact_force(i)[0]).sum();
            }
            Self::Time => to[0] = data.ffi().time,
        }
    }
}
