//! `libpmix` as a server: its C structures, its functions, and those that it calls.
//!
//! Only here are pointers of the library followed.

mod abi;
mod functions;
mod reply;
mod server;
mod server_module;
mod values;

pub use functions::set_queue;
pub use reply::{Blob, Reply};
pub use server::{PmixError, Server, check_installed};
