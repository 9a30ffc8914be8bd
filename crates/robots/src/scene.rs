//! What a robot looks like: its shapes, and where they are.

use mujoco_rs::wrappers::mj_model::MjtGeomBase;

use crate::robot::Robot;

/// A shape of the scene; MuJoCo's primitive shapes in its own measures.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Shape {
    /// `plane`, `sphere`, `capsule`, `cylinder`, `ellipsoid` or `box`.
    pub kind: &'static str,
    /// Half sizes; a capsule and a cylinder have their radius and half length.
    pub size: [f64; 3],
    /// Red, green, blue, opacity.
    pub colour: [f32; 4],
}

impl Robot {
    /// All shapes that can be drawn.
    pub fn shapes(&self) -> Vec<Shape> {
        let model = self.model();
        self.drawn()
            .map(|(i, kind)| Shape {
                kind,
                size: model.geom_size()[i],
                colour: model.geom_rgba()[i],
            })
            .collect()
    }

    /// Where each shape is: its position, then its rotation matrix row after row.
    pub fn poses(&self) -> Vec<[f32; 12]> {
        let (positions, rotations) = self.geometry();
        let pose = |i: usize| {
            let mut pose = [0.0; 12];
            let numbers = positions[i].iter().chain(&rotations[i]);
            pose.iter_mut().zip(numbers).for_each(|(to, from)| *to = *from as f32);
            pose
        };
        self.drawn().map(|(i, _)| pose(i)).collect()
    }

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
