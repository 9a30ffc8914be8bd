//! A task file to begin with, made from a model: what it has, listed, and something that trains.

use std::fmt::Write as _;

use mujoco_rs::prelude::MjModel;
use mujoco_rs::wrappers::mj_model::{MjtJoint, MjtObjBase as Of};

use super::quantity::{families, names};

/// A step lasts about so many seconds where nobody says otherwise.
const STEP: f64 = 0.02;

/// The text of a task file for a model, which the file will name `path`.
pub fn starter(model: &MjModel, path: &str) -> String {
    let mut text = String::new();
    write(&mut text, model, path).expect("a text takes everything");
    text
}

fn write(text: &mut String, model: &MjModel, path: &str) -> std::fmt::Result {
    let timestep = model.opt().timestep;
    let skip = (STEP / timestep).round().clamp(1.0, 100.0) as usize;
    let joints = names(model, Of::mjOBJ_JOINT);
    let bodies: Vec<(usize, String)> =
        names(model, Of::mjOBJ_BODY).into_iter().filter(|(id, _)| *id > 0).collect();
    // A robot that gets about: a free joint, or a slide along x that a body of the world begins with.
    let free = joints.iter().find(|(id, _)| match model.jnt_type()[*id] {
        MjtJoint::mjJNT_FREE => true,
        MjtJoint::mjJNT_SLIDE => {
            let body = model.jnt_bodyid()[*id] as usize;
            model.body_parentid()[body] == 0
                && model.body_jntnum()[body] > 1
                && model.jnt_axis()[*id][0] == 1.0
        }
        _ => false,
    });
    let main = free.map(|(id, _)| model.jnt_bodyid()[*id] as usize);
    let main = main.and_then(|id| bodies.iter().find(|(body, _)| *body == id));
    let main = main.or(bodies.first()).map(|(_, name)| dotted(name));

    writeln!(text, "# A task for ecrl. Try it:   ecrl tasks check THIS_FILE")?;
    writeln!(
        text,
        "# Train it:                  ecrl train THIS_FILE --algo ppo-lag --steps 500k"
    )?;
    writeln!(text, "# All there is to say here:  docs/own-robot.md\n")?;
    writeln!(text, "model = {}", quoted(path))?;
    writeln!(text, "description = \"\"")?;
    writeln!(
        text,
        "# {timestep} s of physics, so often, make a step of {} s.",
        round(timestep * skip as f64)
    )?;
    writeln!(text, "frame_skip = {skip}")?;
    writeln!(text, "steps = 1000        # the time limit of an episode\n")?;

    list(
        text,
        "joints",
        joints.iter().map(|(id, name)| {
            let kind = match model.jnt_type()[*id] {
                MjtJoint::mjJNT_FREE => "free: 7 positions, 6 velocities",
                MjtJoint::mjJNT_BALL => "ball: 4 positions, 3 velocities",
                MjtJoint::mjJNT_SLIDE => "slide",
                _ => "hinge",
            };
            let [low, high] = model.jnt_range()[*id];
            let limits = match model.jnt_limited()[*id] {
                true => format!(", {} to {}", round(low), round(high)),
                false => String::new(),
            };
            format!("qpos.{}  ({kind}{limits})", dotted(name))
        }),
    )?;
    list(
        text,
        "actuators",
        names(model, Of::mjOBJ_ACTUATOR).iter().map(|(id, name)| {
            let [low, high] = model.actuator_ctrlrange()[*id];
            let range = match model.actuator_ctrllimited()[*id] {
                true => format!("-1 to 1 become {} to {}", round(low), round(high)),
                false => "-1 to 1 as they are: it has no control range".into(),
            };
            format!("action.{}  ({range})", dotted(name))
        }),
    )?;
    list(
        text,
        "sensors",
        names(model, Of::mjOBJ_SENSOR).iter().map(|(id, name)| {
            format!("sensor.{}  ({} numbers)", dotted(name), model.sensor_dim()[*id])
        }),
    )?;
    list(text, "bodies", bodies.iter().map(|(_, name)| format!("pos.{}", dotted(name))))?;
    list(
        text,
        "sites",
        names(model, Of::mjOBJ_SITE).iter().map(|(_, name)| format!("site.{}", dotted(name))),
    )?;
    list(text, "key frames", names(model, Of::mjOBJ_KEY).iter().map(|(_, name)| name.clone()))?;

    writeln!(
        text,
        "# What the policy sees. Where a robot is need not matter to how it moves: that is left out."
    )?;
    let positions = match free {
        Some((id, _)) if model.jnt_qposadr()[*id] > 0 => "qpos",
        Some((id, _)) if model.jnt_type()[*id] == MjtJoint::mjJNT_FREE => "qpos[2:]",
        Some(_) => "qpos[1:]",
        None => "qpos",
    };
    let mut observe = vec![positions.to_owned(), "clip(qvel, -10, 10)".into()];
    if model.ffi().nsensordata > 0 {
        observe.push("sensor".into());
    }
    let observe: Vec<String> = observe.iter().map(|text| quoted(text)).collect();
    writeln!(text, "observe = [{}]\n", observe.join(", "))?;
    if model.ffi().nactuator == 0 {
        writeln!(
            text,
            "# The model has no actuators, as no URDF has: motors on joints, each with its largest torque or force.\n\
             [motors]"
        )?;
        for (id, name) in joints.iter().filter(|(id, _)| {
            matches!(model.jnt_type()[*id], MjtJoint::mjJNT_HINGE | MjtJoint::mjJNT_SLIDE)
        }) {
            let [_, most] = model.jnt_actfrcrange()[*id];
            let known = model.jnt_actfrclimited()[*id] && most > 0.0;
            writeln!(text, "{} = {}", key(name), if known { round(most) } else { 10.0 })?;
        }
        writeln!(text)?;
    }

    writeln!(
        text,
        "# How an episode begins: the model's own pose, or that of a key frame, with noise."
    )?;
    writeln!(text, "[start]")?;
    match names(model, Of::mjOBJ_KEY).first() {
        Some((_, key)) => writeln!(text, "key = {}", quoted(key))?,
        None => writeln!(text, "# key = \"home\"")?,
    }
    writeln!(text, "[start.noise]\nqpos = 0.01\nqvel = 0.01\n")?;
    writeln!(
        text,
        "# What is drawn anew for every episode, so that a policy does not rely on it."
    )?;
    writeln!(text, "[random]")?;
    writeln!(text, "# \"body.*.mass\" = {{ scale = [0.9, 1.1] }}")?;
    writeln!(text, "# \"geom.*.friction\" = {{ scale = [0.7, 1.3] }}\n")?;

    writeln!(text, "# Names for what is used more than once.\n[let]")?;
    let moves = main.as_ref().filter(|_| free.is_some());
    match moves {
        Some(main) => writeln!(text, "speed = {}\n", quoted(&format!("rate(pos.{main}.x)")))?,
        None => writeln!(text, "# reach = \"norm(site.hand - pos.target)\"\n")?,
    }
    writeln!(text, "# The reward is the sum of these, in every step.\n[reward]")?;
    match moves {
        Some(_) => writeln!(text, "forward = \"speed\"")?,
        None => {
            writeln!(text, "still = \"-norm(qvel)\"          # to be replaced by what it is to do")?
        }
    }
    writeln!(text, "effort = {{ value = \"-sum(action^2)\", weight = 0.05 }}\n")?;
    writeln!(
        text,
        "# What may be bounded: --constraint 'torque<=0.4'. The mean over an episode's steps, or their sum."
    )?;
    writeln!(
        text,
        "[costs.torque]\nvalue = \"mean(abs(action))\"\nthreshold = 0.4\naggregate = \"mean\""
    )?;
    writeln!(text, "description = \"mean over actuators of |action|\"\n")?;
    writeln!(text, "# What ends an episode before its time.\n[end]")?;
    match moves {
        Some(main) => {
            writeln!(text, "# fallen = \"pos.{main}.z < 0.2 or zaxis.{main}.z < 0.5\"\n")?
        }
        None => writeln!(text, "# broken = \"any(abs(qvel) > 100)\"\n")?,
    }
    writeln!(text, "# What expressions may name:")?;
    for (name, of, help) in families() {
        let name =
            if of.is_empty() { name.into() } else { format!("{name}.{}", of.to_uppercase()) };
        writeln!(text, "#   {name:<18}{help}")?;
    }
    writeln!(text, "#   before(E), rate(E)  what E was a step ago, and its change in a second")
}

fn list(text: &mut String, what: &str, lines: impl Iterator<Item = String>) -> std::fmt::Result {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(text, "# Its {what}:")?;
    let lines = lines.iter().map(|line| line.replace('\n', " "));
    lines.into_iter().try_for_each(|line| writeln!(text, "#   {line}"))?;
    writeln!(text)
}

/// A name as it stands after a point.
fn dotted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    match name.contains('\'') {
        _ if plain => name.into(),
        true => format!("\"{name}\""),
        false => format!("'{name}'"),
    }
}

/// A name as a key of a file.
fn key(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(plain) { name.into() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

/// Without the digits that come of binary fractions.
fn round(x: f64) -> f64 {
    (x * 1e6).round() / 1e6
}
