//! Pictures of a robot by MuJoCo's own renderer, without a display.

use mujoco_rs::prelude::MjvCamera;
use mujoco_rs::renderer::{MjRenderer, RendererError};

use crate::robot::{Robot, TORSO};

/// A camera that follows a robot.
pub struct Camera {
    renderer: MjRenderer,
}

/// No picture can be taken.
#[derive(Debug, thiserror::Error)]
#[error("cannot render: {0}; expected EGL, as Debian's libegl1 and libgl1-mesa-dri bring it")]
pub struct CameraError(String);

impl From<RendererError> for CameraError {
    fn from(error: RendererError) -> Self {
        Self(error.to_string())
    }
}

impl Camera {
    /// Width and height of a picture: what the models reserve.
    pub const SIZE: (u32, u32) = (640, 480);

    /// A camera for a robot.
    pub fn new(robot: &Robot) -> Result<Self, CameraError> {
        let mut camera = MjvCamera::new_tracking(TORSO);
        (camera.distance, camera.azimuth, camera.elevation) = (4.0, 90.0, -15.0);
        let (width, height) = Self::SIZE;
        let builder = MjRenderer::builder().width(width).height(height).camera(camera);
        Ok(Self { renderer: builder.build(robot.model())? })
    }

    /// The robot as it stands: red, green, blue, row after row from the top.
    pub fn picture(&mut self, robot: &mut Robot) -> Result<&[u8], CameraError> {
        self.renderer.sync_data(robot.data_mut())?;
        self.renderer.render()?;
        self.renderer.rgb_flat().ok_or_else(|| CameraError("no picture came".into()))
    }
}
