//! MuJoCo robots as constrained problems: five that are built in, and those of a user's own ([`own`]).
//!
//! The five are Gymnasium's `-v4` tasks, bit for bit: the same compiled model, the same
//! observation, reward and termination for the same f32 actions. Each can measure two costs,
//! [`torque`](COSTS) and [`velocity`](COSTS), under any number of constraints at once.
//!
//! ```
//! use cmdp::{Constraint, Env};
//! use robots::{COSTS, Robot, Task};
//!
//! let constraints = Constraint::parse_all(&["torque<=0.4", "velocity<=25"], &COSTS)?;
//! let mut hopper = Robot::new(Task::find("Hopper-v4")?, constraints)?;
//! let (mut obs, mut costs) = ([0.0; 11], [0.0; 2]);
//! hopper.reset(&mut cmdp::rng([0; 4]), &mut obs);
//! let step = hopper.step(&[0.5, -0.25, 0.0], &mut obs, &mut costs);
//! assert!(!step.terminated);
//! assert_eq!(costs[0], 0.25);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod any;
mod engine;
pub mod own;
mod physics;
mod replay;
mod robot;
mod scene;
mod task;
#[cfg(feature = "window")]
mod window;

pub use any::{AnyTask, Bare, Body, TaskError};
pub use engine::EngineError;
pub use replay::{Replay, ReplayError};
pub use robot::{Robot, RobotError};
pub use task::{COSTS, MAX_STEPS, TASKS, Task, UnknownTask};
#[cfg(feature = "window")]
pub use window::{Window, WindowError};
