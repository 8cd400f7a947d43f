//! Artifacts of aotc: a model is opened once and shared, each thread has a context, runs read and write slices where they lie.
//!
//! ```no_run
//! use aotc::{Input, Model, Output};
//! # fn main() -> aotc::Result<()> {
//! let model = Model::open("model.so")?;
//! let mut context = model.context()?;
//! let (x, mut y) = (vec![0f32; 8 * 1024], vec![0f32; 8 * 10]);
//! context.run(&[Input::new(&x, &[8, 1024])?], &mut [Output::new(&mut y, &[8, 10])?])?;
//! # Ok(())
//! # }
//! ```
mod context;
mod error;
#[doc(hidden)]
pub mod ffi;
mod model;
mod tensor;

pub use context::{Cancel, Context, ContextOptions, RunOptions};
pub use error::{Error, Result, Status, STATUSES};
pub use model::{Dim, Method, Model, TensorInfo};
pub use tensor::{Bf16, Bool, Element, F8e4m3, F8e5m2, Input, Output, C128, C64, DTYPES, F16};
