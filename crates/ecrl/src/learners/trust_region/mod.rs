//! Steps within a trust region: the parts that TRPO, CPO and PCPO are made of.
//!
//! - [`conjugate_gradient`]: H⁻¹g by products with H alone.
//! - [`Problem`]: what is left of the step with constraints when every vector has become a product.
//! - [`search`](mod@search): back along the step until it does what it was to do.
//!
//! H is Fisher's matrix of the policy; its products are made in `learners/ppo`.

mod conjugate;
pub mod search;
mod solve;

pub use conjugate::{add, conjugate_gradient, dot};
pub use solve::{Case, Problem, Step};
