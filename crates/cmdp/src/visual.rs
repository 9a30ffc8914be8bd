//! Environments that can be drawn: shapes, and where they are.

use crate::Env;

/// A shape of a scene.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Shape {
    /// `plane`, `sphere`, `capsule`, `cylinder`, `ellipsoid`, `box` or `mesh`.
    pub kind: &'static str,
    /// Half sizes; a capsule and a cylinder have their radius and half length.
    pub size: [f64; 3],
    /// Red, green, blue, opacity.
    pub colour: [f32; 4],
    /// Whether it is part of what moves, rather than of the world.
    pub moves: bool,
    /// Of a mesh, its number among [`Visual::meshes`].
    pub mesh: Option<usize>,
}

/// Triangles that shapes may be made of.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Mesh {
    /// Corners.
    pub vertices: Vec<[f32; 3]>,
    /// The three corners of each triangle, by their numbers.
    pub faces: Vec<[u32; 3]>,
}

/// An environment that can be drawn.
pub trait Visual: Env {
    /// All shapes, the same throughout.
    fn shapes(&self) -> Vec<Shape>;

    /// The meshes that shapes name.
    fn meshes(&self) -> Vec<Mesh> {
        Vec::new()
    }

    /// Where each shape is now: its position, then its rotation matrix row after row.
    fn poses(&self) -> Vec<[f32; 12]>;

    /// Simulated seconds of a step.
    fn seconds_per_step(&self) -> f64;

    /// What each entry of an action moves, in a few words.
    fn action_names(&self) -> Vec<String> {
        (1..=self.spec().action).map(|i| format!("action {i}")).collect()
    }

    /// What an entry of an action is measured in; it lies in [-1, 1].
    fn action_unit(&self) -> String {
        "share of the maximum".into()
    }

    /// What the cost of that name is measured in; nothing where it is a plain number.
    fn cost_unit(&self, cost: &str) -> String {
        let _ = cost;
        String::new()
    }

    /// Why the last step terminated the episode, as in `it ...`.
    fn why_ended(&self) -> String {
        "fell".into()
    }
}
