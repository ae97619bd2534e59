//! The PMIx server of the node (`PMIX_SERVER_SYSTEM_SUPPORT`): tools that name no server find it,
//! and it answers which jobs of their user are here, and where the hosts of these are.
//!
//! ```text
//!  host of a job -- Unix socket, owner by SO_PEERCRED --> front
//!  tool of user U -- TCP, owner by the kernel --> front -- the connection --> worker of U
//! ```
//!
//! In: jobs that their hosts register, connections of tools. Out: namespaces and URIs. Libpmix
//! does not say which tool a query is of (4.2.2: `pmix_query.c` passes the server's own name), so
//! each user has a worker, a process with the library that gets the connections of this user and
//! the jobs that it may know. The front itself has no library and believes nothing that a client
//! says. None of these processes has a right: they run as a user of their own.

mod front;
mod packet;
mod registry;
mod worker;

pub use front::serve;
pub use worker::work;

use std::io;

/// The text of the rendezvous file of a server at a port, of a process and a user: a tool of PMIx
/// reads its first two lines (`pmix_ptl_base_parse_uri_file`).
///
/// # Errors
/// If the library is not installed.
pub fn rendezvous_text(port: u16, process: u32, owner: u32) -> io::Result<String> {
    let version = crate::libpmix::installed_version().map_err(io::Error::other)?;
    let server = crate::host::SERVER;
    Ok(format!("{server}.0;tcp4://127.0.0.1:{port}\n{version}\n{process}\n{owner}:{owner}\n\n"))
}
