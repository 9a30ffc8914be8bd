//! What a constrained Markov decision problem is, and nothing about how to solve one.
//!
//! - [`Env`]: something that is reset, stepped, captured and restored.
//! - [`Step`]: the reward of a step and how it ended. Costs come beside it, one per constraint.
//! - [`Constraint`]: a named cost, how it adds up over an episode, and the bound it must keep.
//! - [`Episode`]: adds up the steps of one episode into its return and its constraint values.
//! - [`check`]: does what an environment promises, and names what it does wrong.
//! - [`Visual`]: an environment that can be drawn.
//! - [`PointMass`]: a task small enough to be learnt in seconds.
//!
//! ```
//! use cmdp::{Constraint, Env, Episode, PointMass};
//!
//! let constraints = Constraint::parse_all(&["force<=0.1"], &PointMass::COSTS)?;
//! let mut env = PointMass::new(constraints)?;
//! let mut episode = Episode::new(&env.spec().constraints);
//! let (mut obs, mut costs) = ([0.0; 2], [0.0; 1]);
//! env.reset(&mut cmdp::rng([0; 4]), &mut obs);
//! loop {
//!     let step = env.step(&[0.05], &mut obs, &mut costs);
//!     episode.push(&step, &costs);
//!     if step.is_last() {
//!         break;
//!     }
//! }
//! assert!(episode.is_feasible());
//! # Ok::<(), cmdp::ConstraintError>(())
//! ```

pub mod check;
mod constraint;
mod env;
mod episode;
mod median;
mod nearest;
pub mod point_mass;
mod random;
mod visual;

pub use constraint::{Aggregate, Constraint, ConstraintError, Cost};
pub use env::{Env, EnvSpec, Fault, NotFinite, StateError, Step};
pub use episode::Episode;
pub use median::median;
pub use nearest::nearest;
pub use point_mass::PointMass;
pub use random::{Rng, rng};
pub use visual::{Mesh, Shape, Visual};
