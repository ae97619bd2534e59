//! Files of other nodes: announced over the bus, uploaded over TLS.
//!
//! ```text
//!  send_file ---receive_file: name, bytes, SHA-256---> Uploads: quotas, a key     (bus)
//!  sender  <--------------- address, key ------------------|                      (bus)
//!     '---- key, bytes ---> file `upload` (receiver) --> PartialFile --> Spool    (9P over TLS)
//! ```
//!
//! In: announcements, which only members send, and bytes with a key. Out: files in the folder of
//! their user, once all bytes are there and have the SHA-256. What is not complete is removed: at
//! the end of its connection, at its deadline, and at the next start.

mod announced;
mod receiver;
mod sender;
mod spool;
#[cfg(test)]
mod test_uploads;
mod to_nodes;

pub use announced::Uploads;
pub use receiver::UploadReceiver;
pub use spool::{Spool, free_bytes};
pub use to_nodes::FileSender;
