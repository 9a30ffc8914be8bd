//! A robot in MuJoCo's native viewer. Needs a display, and the cargo feature `window`.

use mujoco_rs::viewer::{MjViewer, MjViewerError};

use crate::any::Body;

/// A window in which a robot is seen.
pub struct Window(MjViewer);

/// There is no window.
#[derive(Debug, thiserror::Error)]
#[error("cannot open a window: {0}")]
pub struct WindowError(String);

impl From<MjViewerError> for WindowError {
    fn from(error: MjViewerError) -> Self {
        Self(error.to_string())
    }
}

impl Window {
    /// Opens a window.
    pub fn open(robot: &mut dyn Body) -> Result<Self, WindowError> {
        Ok(Self(MjViewer::launch_passive(robot.data_mut().model(), 0)?))
    }

    /// Shows the robot as it stands; returns whether the user still looks.
    pub fn show(&mut self, robot: &mut dyn Body) -> Result<bool, WindowError> {
        self.0.sync_data(robot.data_mut());
        self.0.render()?;
        Ok(self.0.running())
    }
}
