//! An asynchronous client of the 9P2000 files of another service.
//!
//! ```text
//!   Remote::open   RemoteFile::read …        each call is a future; many at once
//!         |              |
//!         v              v
//!      Connection: permits, fids        what is in flight is bounded
//!         |
//!         v
//!      CallTable: tag -> call           a dropped call is flushed, a dropped fid is clunked
//!         |
//!         v
//!      link: bytes of one stream        one task for each connection
//! ```
//!
//! In: the address of a service, the user to attach as, paths. Out: contents of files. Messages are
//! those of the crate `ninep`; nothing here knows which files there are, or what they mean.

#![forbid(unsafe_code)]

// What a caller uses.
mod address;
mod blocking;
mod certificate;
mod connector;
mod error;
mod file;
mod node;
mod remote;
// What carries it.
mod call;
mod call_table;
mod connection;
mod fid;
mod link;
#[cfg(feature = "tls")]
pub mod pem;
mod stream;
#[cfg(test)]
mod tests;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;

pub use address::{Address, HostPort};
pub use blocking::BlockingStream;
pub use certificate::CertificateFiles;
pub use connector::Connector;
pub use error::RemoteError;
pub use file::RemoteFile;
pub use node::{RemoteMode, RemoteNode};
pub use remote::Remote;
#[cfg(feature = "tls")]
pub use tls::server_config;
