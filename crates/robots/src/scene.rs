//! What a robot looks like: its shapes, and where they are.

use cmdp::{Shape, Visual};
use mujoco_rs::wrappers::mj_model::{MjtGeomBase, MjtObjBase};

use crate::robot::Robot;

/// MuJoCo's primitive shapes in its own measures.
impl Visual for Robot {
    fn shapes(&self) -> Vec<Shape> {
        let model = self.model();
        self.drawn()
            .map(|(i, kind)| Shape {
                kind,
                size: model.geom_size()[i],
                colour: model.geom_rgba()[i],
            })
            .collect()
    }

    fn poses(&self) -> Vec<[f32; 12]> {
        let (positions, rotations) = self.geometry();
        let pose = |i: usize| {
            let mut pose = [0.0; 12];
            let numbers = positions[i].iter().chain(&rotations[i]);
            pose.iter_mut().zip(numbers).for_each(|(to, from)| *to = *from as f32);
            pose
        };
        self.drawn().map(|(i, _)| pose(i)).collect()
    }

    fn seconds_per_step(&self) -> f64 {
        self.model().opt().timestep * self.task().frame_skip as f64
    }

    /// The joint of each motor.
    fn action_names(&self) -> Vec<String> {
        let model = self.model();
        let joint = |to: &[i32; 2]| model.id_to_name(MjtObjBase::mjOBJ_JOINT, to[0] as usize);
        let joints = model.actuator_trnid().iter().map(joint);
        joints.map(|name| name.expect("the tests name every joint").to_owned()).collect()
    }

    fn action_unit(&self) -> &'static str {
        "share of the maximum torque"
    }

    fn cost_unit(&self, cost: &str) -> &'static str {
        match cost {
            "torque" => "share of the maximum",
            "velocity" => "steps too fast",
            _ => "",
        }
    }
}

impl Robot {
    fn drawn(&self) -> impl Iterator<Item = (usize, &'static str)> {
        self.model().geom_type().iter().enumerate().filter_map(|(i, &kind)| {
            Some((
                i,
                match kind {
                    MjtGeomBase::mjGEOM_PLANE => "plane",
                    MjtGeomBase::mjGEOM_SPHERE => "sphere",
                    MjtGeomBase::mjGEOM_CAPSULE => "capsule",
                    MjtGeomBase::mjGEOM_ELLIPSOID => "ellipsoid",
                    MjtGeomBase::mjGEOM_CYLINDER => "cylinder",
                    MjtGeomBase::mjGEOM_BOX => "box",
                    _ => return None,
                },
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::TASKS;

    #[test]
    fn every_motor_has_the_name_of_its_joint() {
        let names = TASKS.iter().map(|task| Robot::new(task, vec![]).unwrap().action_names());
        let names: Vec<String> = names.map(|names| names.join(", ")).collect();
        assert_eq!(
            names,
            [
                "back right hip, back right ankle, front left hip, front left ankle, \
                 front right hip, front right ankle, back left hip, back left ankle",
                "hind hip, hind knee, hind ankle, front hip, front knee, front ankle",
                "right hip, right knee, right ankle, left hip, left knee, left ankle",
                "hip, knee, ankle",
                "front joint, back joint",
            ]
        );
    }
}
