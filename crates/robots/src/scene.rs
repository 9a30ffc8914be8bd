//! What a robot looks like: its shapes, and where they are.

use std::collections::BTreeMap;

use cmdp::{Mesh, Shape, Visual};
use mujoco_rs::prelude::MjModel;
use mujoco_rs::wrappers::mj_model::{MjtGeomBase, MjtObjBase};

use crate::own::OwnRobot;
use crate::physics::Data;
use crate::robot::Robot;

/// Geoms of these groups are drawn; those above stand in for others in collisions, by MuJoCo's own custom.
const SHOWN_GROUPS: std::ops::RangeInclusive<i32> = 0..=2;

/// MuJoCo's primitive shapes in its own measures.
impl Visual for Robot {
    fn shapes(&self) -> Vec<Shape> {
        shapes(self.model())
    }

    fn poses(&self) -> Vec<[f32; 12]> {
        poses(&self.physics().data)
    }

    fn seconds_per_step(&self) -> f64 {
        self.physics().dt()
    }

    /// The joint of each motor.
    fn action_names(&self) -> Vec<String> {
        let model = self.model();
        let joint = |to: &[i32; 2]| model.id_to_name(MjtObjBase::mjOBJ_JOINT, to[0] as usize);
        let joints = model.actuator_trnid().iter().map(joint);
        joints.map(|name| name.expect("the tests name every joint").to_owned()).collect()
    }

    fn action_unit(&self) -> String {
        "share of the maximum torque".into()
    }

    fn cost_unit(&self, cost: &str) -> String {
        match cost {
            "torque" => "share of the maximum",
            "velocity" => "steps too fast",
            _ => "",
        }
        .into()
    }
}

/// Shapes, meshes and height fields as the model has them.
impl Visual for OwnRobot {
    fn shapes(&self) -> Vec<Shape> {
        shapes(self.data().model())
    }

    fn meshes(&self) -> Vec<Mesh> {
        let model = self.data().model();
        solids(model).into_keys().map(|solid| mesh(model, solid)).collect()
    }

    fn poses(&self) -> Vec<[f32; 12]> {
        poses(self.data())
    }

    fn seconds_per_step(&self) -> f64 {
        self.physics().dt()
    }

    fn action_names(&self) -> Vec<String> {
        let model = self.data().model();
        let name = |&i: &usize| model.id_to_name(MjtObjBase::mjOBJ_ACTUATOR, i);
        let named = self.actuators().iter().zip(1..).map(|(i, number)| {
            let name = name(i).filter(|name| !name.is_empty());
            name.map_or_else(|| format!("actuator {number}"), str::to_owned)
        });
        named.collect()
    }

    fn action_unit(&self) -> String {
        "of the control range".into()
    }

    fn why_ended(&self) -> String {
        format!("ended by {}", self.ended_by().unwrap_or("nothing"))
    }
}

/// Something that a geom looks like and that is no plain shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Solid {
    Mesh(usize),
    Field(usize),
}

/// All of them that are shown, with their numbers among them.
fn solids(model: &MjModel) -> BTreeMap<Solid, usize> {
    let all = (0..model.geom_type().len()).filter(|&i| is_shown(model, i));
    let all: BTreeMap<Solid, usize> = all.filter_map(|i| Some((solid(model, i)?, 0))).collect();
    all.into_keys().zip(0..).collect()
}

fn solid(model: &MjModel, geom: usize) -> Option<Solid> {
    let data = usize::try_from(model.geom_dataid()[geom]).ok()?;
    match model.geom_type()[geom] {
        MjtGeomBase::mjGEOM_MESH | MjtGeomBase::mjGEOM_SDF => Some(Solid::Mesh(data)),
        MjtGeomBase::mjGEOM_HFIELD => Some(Solid::Field(data)),
        _ => None,
    }
}

fn is_shown(model: &MjModel, geom: usize) -> bool {
    SHOWN_GROUPS.contains(&model.geom_group()[geom]) && colour(model, geom)[3] > 0.0
}

/// Its material's, where it has one.
fn colour(model: &MjModel, geom: usize) -> [f32; 4] {
    match usize::try_from(model.geom_matid()[geom]) {
        Ok(material) => model.mat_rgba()[material],
        Err(_) => model.geom_rgba()[geom],
    }
}

fn drawn(model: &MjModel) -> impl Iterator<Item = (usize, &'static str)> {
    let kinds = model.geom_type().iter().enumerate().filter(|(i, _)| is_shown(model, *i));
    kinds.filter_map(|(i, &kind)| {
        let kind = match kind {
            MjtGeomBase::mjGEOM_PLANE => "plane",
            MjtGeomBase::mjGEOM_SPHERE => "sphere",
            MjtGeomBase::mjGEOM_CAPSULE => "capsule",
            MjtGeomBase::mjGEOM_ELLIPSOID => "ellipsoid",
            MjtGeomBase::mjGEOM_CYLINDER => "cylinder",
            MjtGeomBase::mjGEOM_BOX => "box",
            _ if solid(model, i).is_some() => "mesh",
            _ => return None,
        };
        Some((i, kind))
    })
}

fn shapes(model: &MjModel) -> Vec<Shape> {
    let solids = solids(model);
    let shape = |(i, kind): (usize, &'static str)| Shape {
        kind,
        size: model.geom_size()[i],
        colour: colour(model, i),
        moves: model.body_weldid()[model.geom_bodyid()[i] as usize] != 0,
        mesh: solid(model, i).map(|solid| solids[&solid]),
    };
    drawn(model).map(shape).collect()
}

fn poses(data: &Data) -> Vec<[f32; 12]> {
    let pose = |i: usize| {
        let mut pose = [0.0; 12];
        let numbers = data.geom_xpos()[i].iter().chain(&data.geom_xmat()[i]);
        pose.iter_mut().zip(numbers).for_each(|(to, from)| *to = *from as f32);
        pose
    };
    drawn(data.model()).map(|(i, _)| pose(i)).collect()
}

fn mesh(model: &MjModel, solid: Solid) -> Mesh {
    match solid {
        Solid::Mesh(id) => {
            let part = |starts: &[i32], counts: &[i32]| {
                starts[id] as usize..(starts[id] + counts[id]) as usize
            };
            let vertices = part(model.mesh_vertadr(), model.mesh_vertnum());
            let faces = part(model.mesh_faceadr(), model.mesh_facenum());
            let face = |corners: &[i32; 3]| corners.map(|i| i as u32);
            Mesh {
                vertices: model.mesh_vert()[vertices].to_vec(),
                faces: model.mesh_face()[faces].iter().map(face).collect(),
            }
        }
        Solid::Field(id) => {
            let (rows, columns) =
                (model.hfield_nrow()[id] as usize, model.hfield_ncol()[id] as usize);
            let [x, y, z, _] = model.hfield_size()[id].map(|size| size as f32);
            let heights = &model.hfield_data()[model.hfield_adr()[id] as usize..];
            let place = |i: usize, count: usize, half: f32| {
                half * (2.0 * i as f32 / (count - 1).max(1) as f32 - 1.0)
            };
            let vertex = |i: usize| {
                let (row, column) = (i / columns, i % columns);
                [place(column, columns, x), place(row, rows, y), z * heights[i]]
            };
            let square = |i: usize| {
                let first = (i / (columns - 1) * columns + i % (columns - 1)) as u32;
                let above = first + columns as u32;
                [[first, first + 1, above + 1], [first, above + 1, above]]
            };
            Mesh {
                vertices: (0..rows * columns).map(vertex).collect(),
                faces: (0..(rows - 1) * (columns - 1)).flat_map(square).collect(),
            }
        }
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
