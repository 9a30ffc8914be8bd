//! The five tasks as data: what Gymnasium's `-v4` versions say about each robot.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use cmdp::{Aggregate, Constraint, Cost, nearest};
use mujoco_rs::prelude::MjModel;

/// The time limit of every task, in steps.
pub const MAX_STEPS: usize = 1000;

/// What every robot measures at each step.
pub const COSTS: [Cost; 2] = [
    Cost {
        name: Cow::Borrowed("torque"),
        aggregate: Aggregate::Mean,
        threshold: 0.4,
        description: Cow::Borrowed("mean over motors of |action|, as applied"),
    },
    Cost {
        name: Cow::Borrowed("velocity"),
        aggregate: Aggregate::Sum,
        threshold: 25.0,
        description: Cow::Borrowed("1 in a step faster than the task's speed limit, else 0"),
    },
];

/// From joint positions and velocities, whether the robot is still up.
pub(crate) type Healthy = fn(&[f64], &[f64]) -> bool;

/// One robot and what it is asked to do.
#[derive(Debug)]
pub struct Task {
    /// The name as typed on the command line.
    pub name: &'static str,
    /// The robot in one line.
    pub description: &'static str,
    /// Entries in an observation: joint positions less the hidden ones, then joint velocities.
    pub observation: usize,
    /// Entries in an action: one for each motor.
    pub action: usize,
    /// The speed, in m/s, above which a step costs `velocity`: Safety-Gymnasium's v1 thresholds.
    pub speed_limit: f64,
    /// The robot's model.
    pub mjcf: &'static str,
    /// Physics steps in one environment step.
    pub frame_skip: usize,
    /// Weight of Σ a² in the reward; f32, because Gymnasium computes this term in f32.
    pub(crate) control_cost: f32,
    /// Whether the robot is still up. Such a task pays 1 for every step and terminates when this
    /// fails; without it, a task never terminates.
    pub(crate) healthy: Option<Healthy>,
    /// Scale of the noise on the initial state.
    pub(crate) reset_noise: f64,
    /// Whether the noise on initial velocities is normal rather than uniform.
    pub(crate) normal_velocities: bool,
    /// Leading joint positions left out of the observation: where the robot is must not matter.
    pub(crate) hidden: usize,
    /// Bound on the velocities in the observation.
    pub(crate) velocity_clip: f64,
    /// Whether the robot moves freely in space. Progress is then read from the torso's `xpos`,
    /// which MuJoCo leaves one physics step behind `qpos`, and speed counts in the whole plane.
    pub(crate) free: bool,
    pub(crate) model: OnceLock<Arc<MjModel>>,
}

/// Every task, by name.
pub static TASKS: [Task; 5] = [
    Task {
        name: "ant",
        description: "four-legged ant, runs in three dimensions without falling",
        observation: 27,
        action: 8,
        speed_limit: 2.6222,
        mjcf: include_str!("../models/ant.xml"),
        frame_skip: 5,
        control_cost: 0.5,
        healthy: Some(|qpos, qvel| {
            qpos.iter().chain(qvel).all(|x| x.is_finite()) && (0.2..=1.0).contains(&qpos[2])
        }),
        reset_noise: 0.1,
        normal_velocities: true,
        hidden: 2,
        velocity_clip: f64::INFINITY,
        free: true,
        model: OnceLock::new(),
    },
    Task {
        name: "half-cheetah",
        description: "planar cheetah with two legs, runs as fast as it can",
        observation: 17,
        action: 6,
        speed_limit: 3.2096,
        mjcf: include_str!("../models/half_cheetah.xml"),
        frame_skip: 5,
        control_cost: 0.1,
        healthy: None,
        reset_noise: 0.1,
        normal_velocities: true,
        hidden: 1,
        velocity_clip: f64::INFINITY,
        free: false,
        model: OnceLock::new(),
    },
    Task {
        name: "walker2d",
        description: "planar walker with two legs, walks without falling",
        observation: 17,
        action: 6,
        speed_limit: 2.3415,
        mjcf: include_str!("../models/walker2d.xml"),
        frame_skip: 4,
        control_cost: 1e-3,
        healthy: Some(|qpos, _| {
            let (z, angle) = (qpos[1], qpos[2]);
            0.8 < z && z < 2.0 && angle.abs() < 1.0
        }),
        reset_noise: 5e-3,
        normal_velocities: false,
        hidden: 1,
        velocity_clip: 10.0,
        free: false,
        model: OnceLock::new(),
    },
    Task {
        name: "hopper",
        description: "planar robot with one leg, hops without falling",
        observation: 11,
        action: 3,
        speed_limit: 0.7402,
        mjcf: include_str!("../models/hopper.xml"),
        frame_skip: 4,
        control_cost: 1e-3,
        healthy: Some(|qpos, qvel| {
            let (z, angle) = (qpos[1], qpos[2]);
            z > 0.7
                && z < f64::INFINITY
                && angle.abs() < 0.2
                && qpos[2..].iter().chain(qvel).all(|x| x.abs() < 100.0)
        }),
        reset_noise: 5e-3,
        normal_velocities: false,
        hidden: 1,
        velocity_clip: 10.0,
        free: false,
        model: OnceLock::new(),
    },
    Task {
        name: "swimmer",
        description: "three links in a viscous fluid, swims forward",
        observation: 8,
        action: 2,
        speed_limit: 0.2282,
        mjcf: include_str!("../models/swimmer.xml"),
        frame_skip: 4,
        control_cost: 1e-4,
        healthy: None,
        reset_noise: 0.1,
        normal_velocities: false,
        hidden: 2,
        velocity_clip: f64::INFINITY,
        free: false,
        model: OnceLock::new(),
    },
];

impl Task {
    /// The scale of the noise on the initial state, and whether that on velocities is normal rather than
    /// uniform.
    pub fn start_noise(&self) -> (f64, bool) {
        (self.reset_noise, self.normal_velocities)
    }

    /// The task of that name. Case, dashes and the suffix `v4` do not matter: `HalfCheetah-v4`,
    /// `halfcheetah` and `half_cheetah` are all `half-cheetah`. Other versions are other tasks.
    pub fn find(name: &str) -> Result<&'static Self, UnknownTask> {
        let plain = |name: &str| name.to_lowercase().replace(['-', '_', ' '], "");
        let wanted = plain(name);
        let wanted = wanted.strip_suffix("v4").unwrap_or(&wanted);
        TASKS.iter().find(|task| plain(task.name) == wanted).ok_or_else(|| {
            let names = TASKS.iter().map(|task| task.name);
            let hint = match nearest(name, names.clone()).as_slice() {
                [] => format!("expected one of: {}", names.collect::<Vec<_>>().join(", ")),
                alike => format!("did you mean {}?", alike.join(" or ")),
            };
            UnknownTask { name: name.into(), hint }
        })
    }

    /// The paper's constraint, in force where a user names none: `torque<=0.4`.
    pub fn default_constraints() -> Vec<Constraint> {
        let [Cost { name, aggregate, threshold, .. }, _] = COSTS;
        vec![Constraint { name: name.into(), aggregate, threshold }]
    }
}

/// No task has this name.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("unknown task '{name}': {hint}")]
pub struct UnknownTask {
    /// The name given.
    pub name: String,
    /// What may have been meant.
    pub hint: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_people_write_them() {
        for name in ["half-cheetah", "halfcheetah", "HalfCheetah-v4", "half_cheetah", "HALFCHEETAH"]
        {
            assert_eq!(Task::find(name).unwrap().name, "half-cheetah", "{name}");
        }
        for (name, found) in [("Ant-v4", "ant"), ("Walker2d-v4", "walker2d"), ("hopper", "hopper")]
        {
            assert_eq!(Task::find(name).unwrap().name, found);
        }
    }

    #[test]
    fn an_unknown_task_suggests_the_nearest() {
        for (name, hint) in [
            ("hoper", "unknown task 'hoper': did you mean hopper?"),
            ("Hopper-v5", "unknown task 'Hopper-v5': did you mean hopper?"),
            ("zzz", "expected one of: ant, half-cheetah, walker2d, hopper, swimmer"),
            ("", "expected one of"),
        ] {
            let message = Task::find(name).unwrap_err().to_string();
            assert!(message.contains(hint), "{message}");
        }
    }

    #[test]
    fn health_has_gymnasiums_bounds() {
        let healthy = |name: &str, z: f64, angle: f64, speed: f64| {
            let task = Task::find(name).unwrap();
            let (mut qpos, mut qvel) = ([0.0; 15], [0.0; 14]);
            qpos[2] = angle;
            qpos[if task.free { 2 } else { 1 }] = z;
            qvel[3] = speed;
            task.healthy.unwrap()(&qpos, &qvel)
        };
        for (name, z, angle, speed, expected) in [
            ("ant", 0.2, 0.0, 0.0, true), // both ends belong to the range
            ("ant", 1.0, 0.0, 1e9, true),
            ("ant", 0.199, 0.0, 0.0, false),
            ("ant", 1.001, 0.0, 0.0, false),
            ("ant", 0.5, 0.0, f64::NAN, false),
            ("walker2d", 0.8, 0.0, 0.0, false), // neither end does
            ("walker2d", 0.801, 0.999, 1e9, true),
            ("walker2d", 1.999, -0.999, 0.0, true),
            ("walker2d", 2.0, 0.0, 0.0, false),
            ("walker2d", 1.25, 1.0, 0.0, false),
            ("walker2d", 1.25, -1.0, 0.0, false),
            ("hopper", 0.7, 0.0, 0.0, false),
            ("hopper", 0.701, 0.199, 99.9, true),
            ("hopper", 50.0, -0.199, -99.9, true),
            ("hopper", f64::INFINITY, 0.0, 0.0, false),
            ("hopper", 1.25, 0.2, 0.0, false),
            ("hopper", 1.25, -0.2, 0.0, false),
            ("hopper", 1.25, 0.0, 100.0, false),
            ("hopper", 1.25, 0.0, -100.0, false),
        ] {
            assert_eq!(healthy(name, z, angle, speed), expected, "{name} {z} {angle} {speed}");
        }
    }

    #[test]
    fn sizes_agree_with_the_models() {
        for task in &TASKS {
            let model = crate::engine::model(task).unwrap();
            let model = model.ffi();
            assert_eq!(task.observation + task.hidden, (model.nq + model.nv) as usize);
            assert_eq!(task.action, model.nu as usize);
        }
    }
}
