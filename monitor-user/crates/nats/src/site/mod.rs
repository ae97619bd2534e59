//! The files that a site needs for a cluster: servers, users, nodes.
//!
//! ```text
//!  SiteRequest --> Site (cluster.toml) --> certificates --> servers/HOST/…, also those of racks
//!                                      --> users        --> nodes/NAME/…, admin, system
//!                                                       --> accounts.conf of each server
//! ```
//!
//! In: names of nodes and servers. Out: files below one folder, and what is left to do. What exists
//! is kept: keys, certificates and configurations are written once. Only `accounts.conf` is made
//! again, from the users in the folder, so that nodes can be added.

mod accounts;
mod address;
mod certificates;
mod error;
mod folder;
mod node_files;
mod plan;
mod racks;
mod server_files;
mod users;

pub use address::ServerAddress;
pub use error::SiteError;
pub use plan::SiteRequest;
pub use racks::Rack;

use certificates::Certificates;
use folder::SiteFolder;
use plan::Site;
use std::collections::BTreeSet;
use std::path::PathBuf;
use users::SiteUsers;

/// More nodes than a server should have as clients.
const MANY_NODES: usize = 512;

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteReport {
    /// The name of the cluster.
    pub name: String,
    /// Nodes that have files now and had none before.
    pub new_nodes: BTreeSet<String>,
    /// Number of nodes in the folder.
    pub n_nodes: usize,
    /// Servers, by the name of their folder.
    pub servers: Vec<String>,
    /// Files that were written, relative to the folder.
    pub written: Vec<PathBuf>,
    /// Requests for certificates that are to be signed, relative to the folder.
    pub to_sign: Vec<PathBuf>,
    /// Whether a server has more nodes than it should have.
    pub is_large: bool,
}

/// Writes the files of a site that do not exist yet.
///
/// # Errors
/// The request contradicts what the folder has, or a file cannot be read or written.
pub fn write_site(request: &SiteRequest) -> Result<SiteReport, SiteError> {
    let mut folder = SiteFolder::open(&request.folder)?;
    let site = Site::resolve(request, &mut folder)?;
    let mut certificates = Certificates::open(&site, request.ca.as_deref(), &mut folder)?;
    certificates.write_servers(&site, &mut folder)?;
    let users = SiteUsers::write_all(&site, request, &mut folder)?;
    certificates.write_nodes(&site, &users, &mut folder)?;
    server_files::write_all(&site, &users, &mut folder)?;
    node_files::write_all((&site, request), &users, &mut folder)?;
    let n_nodes = users.n_nodes();
    Ok(SiteReport {
        name: site.name.clone(),
        new_nodes: users.new_nodes,
        n_nodes,
        servers: site.all_servers().into_iter().map(|(_, name)| name).collect(),
        written: folder.into_written(),
        to_sign: certificates.into_to_sign(),
        is_large: site.n_clients(n_nodes) > MANY_NODES,
    })
}

#[cfg(test)]
mod tests;
