//! The live page: runs as they grow, in a browser.
//!
//! [`Watch`](watch::Watch) follows run directories, and reads of each no more than what is new; [`server`] tells browsers, and gives them
//! what they ask of a run. Nothing is ever written. A run is asked for by its number, never by a path.

mod answers;
pub mod series;
pub mod server;
pub mod watch;

use std::path::Path;

pub use server::{Server, ServerError};

/// Makes the page on which the best policy of a run plays, or says why not: robots are not known here.
pub type Play = Box<dyn Fn(&Path) -> Result<String, String> + Send + Sync>;
