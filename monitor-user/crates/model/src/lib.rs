//! L0, what is measured: identities, units, the field lists, samples and the rates between two.
//!
//! Pure data and arithmetic. Nothing here reads a file, knows a backend or prints.

pub mod diagnosis;
pub mod event;
pub mod field;
pub mod group;
pub mod histogram;
pub mod id;
pub mod job;
pub mod name;
pub mod pmix;
pub mod probe;
pub mod rates;
pub mod request;
pub mod sample;
pub mod scope;
pub mod shortfall;
pub mod spread;
pub mod status;
pub mod unseen;
pub mod want;
pub mod whose;
