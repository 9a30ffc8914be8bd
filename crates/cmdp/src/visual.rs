//! Environments that can be drawn: shapes, and where they are.

use crate::Env;

/// A shape of a scene.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Shape {
    /// `plane`, `sphere`, `capsule`, `cylinder`, `ellipsoid` or `box`.
    pub kind: &'static str,
    /// Half sizes; a capsule and a cylinder have their radius and half length.
    pub size: [f64; 3],
    /// Red, green, blue, opacity.
    pub colour: [f32; 4],
}

/// An environment that can be drawn.
pub trait Visual: Env {
    /// All shapes, the same throughout.
    fn shapes(&self) -> Vec<Shape>;

    /// Where each shape is now: its position, then its rotation matrix row after row.
    fn poses(&self) -> Vec<[f32; 12]>;

    /// Simulated seconds of a step.
    fn seconds_per_step(&self) -> f64;
}
