//! Output formats: one file per format, all behind the trait `FrameWriter`.
//!
//! In: `Rates`, the selected rows, and a layout that names the fields. Out: bytes, appended to a
//! buffer. A format walks the field list and knows no field by name. No I/O.

#![warn(clippy::missing_errors_doc)]

mod csv;
pub mod diagnosis;
pub mod events;
pub mod exposition;
mod frame;
pub mod grid;
pub mod human;
mod json;
mod layout;
mod node_rows;
mod notes;
mod object;
mod output_format;
mod page;
#[cfg(feature = "parquet")]
mod parquet;
mod pmix;
pub mod pmix_text;
mod rows;
mod table;
pub mod wrap;

pub use frame::{Frame, FrameWriter, Viewport};
pub use human::rounded;
pub use layout::{Layout, OptionalColumn};
pub use monitor_model::scope::Scope;
pub use notes::loss_text;
pub use output_format::OutputFormat;
pub use page::Paint;

#[cfg(test)]
mod tests;
