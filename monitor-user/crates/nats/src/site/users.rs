//! The users of a site: one for each node, an administrator of streams, one of the system account.
//!
//! In: the nodes that are asked for. Out: a seed for each, that only its owner may read, and beside
//! it what is public. A seed may be removed from the folder when its node has it: the user remains.

use super::error::SiteError;
use super::folder::{PUBLIC, SECRET, SiteFolder};
use super::plan::{Site, SiteRequest};
use crate::permissions::Role;
use nkeys::KeyPair;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The file with the secret of a user.
pub const SEED: &str = "cluster.seed";
/// The file with what is public of it.
const USER: &str = "user.toml";
/// The folder of the nodes.
const NODES: &str = "nodes";

/// A user of the servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteUser {
    /// The name of its node, or its own.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Its public key, by which servers know it.
    pub key: String,
}

/// The users of a folder.
pub struct SiteUsers {
    /// Those of the nodes, in the order of their names.
    pub nodes: Vec<SiteUser>,
    /// The nodes that are new.
    pub new_nodes: BTreeSet<String>,
    /// The administrator of streams and consumers.
    pub admin: SiteUser,
    /// The user of the system account.
    pub system: SiteUser,
}

impl SiteUsers {
    /// Reads the users of the folder, and writes those that are asked for and do not exist.
    pub fn write_all(
        site: &Site,
        request: &SiteRequest,
        folder: &mut SiteFolder,
    ) -> Result<Self, SiteError> {
        let is_user =
            |name: &String| [USER, SEED].iter().any(|it| folder.has(&node_folder(name).join(it)));
        let known = folder.names(Path::new(NODES))?;
        let known: BTreeSet<String> = known.into_iter().filter(is_user).collect();
        let asked = [&request.nodes, &request.gateways, &request.services].into_iter().flatten();
        let of_racks = request.racks.iter().flat_map(|rack| &rack.nodes);
        let asked: BTreeSet<String> = asked.chain(of_racks).cloned().collect();
        if let Some(name) = asked.iter().find(|name| name.starts_with('.')) {
            return Err(SiteError::Request(format!("{name:?} is no name of a node")));
        }
        let mut nodes = Vec::new();
        for name in known.union(&asked) {
            let role = match (site.services.contains(name), request.gateways.contains(name)) {
                (true, _) => Role::Service,
                (false, true) => Role::Gateway,
                (false, false) => Role::Node,
            };
            let user = write_user(folder, &node_folder(name), (name, role))?;
            if request.gateways.contains(name) && user.role == Role::Node {
                let why = format!("{name} is a node already, and cannot become a gateway");
                return Err(SiteError::Request(why));
            }
            nodes.push(user);
        }
        let new_nodes = asked.difference(&known).cloned().collect();
        let admin = write_user(folder, Path::new("admin"), ("admin", Role::Admin))?;
        let system = write_user(folder, Path::new("system"), ("system", Role::Admin))?;
        Ok(Self { nodes, new_nodes, admin, system })
    }

    /// Number of nodes.
    pub fn n_nodes(&self) -> usize {
        self.nodes.len()
    }
}

/// The folder with the files of a node.
pub fn node_folder(name: &str) -> PathBuf {
    Path::new(NODES).join(name)
}

/// The user of a folder, or a new one.
fn write_user(
    folder: &mut SiteFolder,
    place: &Path,
    (name, role): (&str, Role),
) -> Result<SiteUser, SiteError> {
    let (user_file, seed_file) = (place.join(USER), place.join(SEED));
    if let Some(text) = folder.read(&user_file)? {
        return read_user(folder.path(&user_file), &text);
    }
    // A seed without its user is from an attempt that was interrupted.
    let key = match folder.read(&seed_file)? {
        Some(seed) => KeyPair::from_seed(seed.trim()),
        None => Ok(KeyPair::new_user()),
    };
    let seed = key.and_then(|key| Ok((key.public_key(), key.seed()?)));
    let (key, seed) = seed.map_err(|why| SiteError::Key("seed", why.to_string()))?;
    folder.write_new(&seed_file, SECRET, &format!("{seed}\n"))?;
    let user = SiteUser { name: name.to_owned(), role, key };
    let text = toml::to_string(&user);
    let text = text.map_err(|why| SiteError::Key("user", why.to_string()))?;
    folder.write_new(&user_file, PUBLIC, &text)?;
    Ok(user)
}

fn read_user(path: PathBuf, text: &str) -> Result<SiteUser, SiteError> {
    let user: SiteUser = match toml::from_str(text) {
        Ok(user) => user,
        Err(why) => return Err(SiteError::Content { path, why: why.message().to_owned() }),
    };
    // It goes into the configuration of the servers.
    match KeyPair::from_public_key(&user.key) {
        Ok(_) => Ok(user),
        Err(why) => Err(SiteError::Content { path, why: format!("key: {why}") }),
    }
}
