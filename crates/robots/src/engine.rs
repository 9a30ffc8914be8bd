//! The physics engine: its version, its log, and one compiled model for each task.

use std::sync::{Arc, Once};

use mujoco_rs::logging::set_log_handler;
use mujoco_rs::prelude::{MjLogMessage, MjModel, MjtLogLevel};

use crate::Task;

/// The MuJoCo that the bindings were generated for; memory layouts differ in any other.
pub(crate) const VERSION: &str = "3.17.0";

/// The physics engine cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// Another version of the library was found.
    #[error(
        "the MuJoCo library in use is version {0}; expected {VERSION}: \
         unset MUJOCO_DYNAMIC_LINK_DIR, or point it to MuJoCo {VERSION}"
    )]
    Version(String),
}

/// The model of a task, compiled at first use and then shared by all threads.
pub(crate) fn model(task: &'static Task) -> Result<Arc<MjModel>, EngineError> {
    ready()?;
    let model = task.model.get_or_init(|| {
        let model = MjModel::from_xml_string(task.mjcf);
        Arc::new(model.expect("the tests compile every embedded model"))
    });
    Ok(model.clone())
}

/// Sees that the engine is the right one and writes nowhere by itself.
pub(crate) fn ready() -> Result<(), EngineError> {
    let version = mujoco_rs::mujoco_version();
    if version != VERSION {
        return Err(EngineError::Version(version.into()));
    }
    static LOG: Once = Once::new();
    // SAFETY: this crate touches MuJoCo only through models, which are all made after a call of this, and
    // `Once` holds back every other thread until the handler is in place.
    LOG.call_once(|| unsafe { set_log_handler(log) });
    Ok(())
}

/// Without a handler MuJoCo writes warnings to stderr and to a MUJOCO_LOG.TXT in the working
/// directory. Warnings are seen by [`Robot`](crate::Robot) in the engine's counters; an error ends
/// the process as soon as this returns, and must not do so in silence.
fn log(message: &MjLogMessage) {
    if message.level() == MjtLogLevel::mjLOG_ERROR {
        let words = message.subject().split_whitespace().collect::<Vec<_>>();
        eprintln!("error: MuJoCo: {}", words.join(" "));
    }
}
