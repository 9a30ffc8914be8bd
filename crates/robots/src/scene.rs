//! What a robot looks like: its shapes, and where they are.

use cmdp::{Shape, Visual};
use mujoco_rs::wrappers::mj_model::MjtGeomBase;

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
