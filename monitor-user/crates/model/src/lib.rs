//! The data model: identities, units, field lists, samples, and the rates between two samples.
//!
//! Pure data and arithmetic. Nothing here reads a file, reads a clock, depends on a backend or
//! prints.

pub mod buckets;
pub mod credentials;
pub mod degradation;
pub mod diagnosis;
pub mod event;
pub mod field;
pub mod group;
pub mod hidden;
pub mod histogram;
pub mod id;
pub mod job;
pub mod name;
pub mod pmix;
pub mod probe;
pub mod quantiles;
pub mod rates;
pub mod read_spec;
pub mod request;
pub mod sample;
pub mod scope;
pub mod status;
