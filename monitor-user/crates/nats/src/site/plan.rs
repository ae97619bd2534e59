//! What is asked for, and what a folder already is: the site.
//!
//! In: a request, and the file `cluster.toml` of the folder. Out: the site. The first request makes
//! it; later ones may add nodes, and are refused if they contradict it.

use super::address::ServerAddress;
use super::error::SiteError;
use super::folder::{PUBLIC, SiteFolder};
use super::racks::Rack;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The file with the site.
const FILE: &str = "cluster.toml";
/// The longest name of a cluster.
const NAME_BYTES: usize = 32;
/// Above the text of the site.
const NOTICE: &str = "\
# The cluster that `monitor cluster init` made here; it reads this file again when nodes are added.
";

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct SiteRequest {
    /// Where the files go.
    pub folder: PathBuf,
    /// The name of the cluster; none: that of the folder's cluster, or `monitor`.
    pub name: Option<String>,
    /// The nodes.
    pub nodes: BTreeSet<String>,
    /// Those of them that read what all nodes publish.
    pub gateways: BTreeSet<String>,
    /// Those of them that make the streams and remove dead members; none: the first three.
    pub services: BTreeSet<String>,
    /// The servers; none: those of the folder.
    pub servers: Vec<ServerAddress>,
    /// Servers of racks, each with its nodes.
    pub racks: Vec<Rack>,
    /// The nodes whose users may control processes on all nodes, as a node set.
    pub control_from: String,
    /// The certificate of an authority that signs those of the servers; none: one is made.
    pub ca: Option<PathBuf>,
    /// Where nodes serve files to other nodes; none: they serve none.
    pub files: Option<SocketAddr>,
    /// Whether configurations name files in the folder, for a cluster on this host.
    pub in_place: bool,
}

/// The site of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// The name of the cluster.
    pub name: String,
    /// The servers.
    pub servers: Vec<ServerAddress>,
    /// The nodes that make the streams and remove dead members.
    pub services: BTreeSet<String>,
    /// The nodes whose users may control processes on all nodes.
    pub control_from: String,
    /// Whether another authority signs the certificates of servers.
    pub has_own_ca: bool,
    /// Where nodes serve files to other nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<SocketAddr>,
    /// Whether configurations name files in the folder.
    pub in_place: bool,
    /// Servers of racks, each with its nodes.
    #[serde(default)]
    pub racks: Vec<Rack>,
}

impl Site {
    /// The site of the folder, or the one that this request makes there.
    pub fn resolve(request: &SiteRequest, folder: &mut SiteFolder) -> Result<Self, SiteError> {
        let file = Path::new(FILE);
        let Some(text) = folder.read(file)? else {
            let site = Self::of_request(request)?;
            let text = site.to_text(&folder.path(file))?;
            folder.write_new(file, PUBLIC, &text)?;
            return Ok(site);
        };
        let malformed = |why: toml::de::Error| SiteError::Content {
            path: folder.path(file),
            why: why.message().to_owned(),
        };
        let mut site: Self = toml::from_str(&text).map_err(malformed)?;
        site.check_same(request)?;
        site.add_racks(request, folder)?;
        Ok(site)
    }

    /// Adds racks, and nodes to racks, to the site of a folder.
    fn add_racks(
        &mut self,
        request: &SiteRequest,
        folder: &mut SiteFolder,
    ) -> Result<(), SiteError> {
        let refused = |why: String| Err(SiteError::Request(why));
        if request.racks.is_empty() {
            return Ok(());
        }
        if self.racks.is_empty() {
            return refused(
                "--rack: the servers of this folder were made without racks; choose another folder"
                    .to_owned(),
            );
        }
        for node in request.racks.iter().flat_map(|rack| &rack.nodes) {
            let is_known = folder.has(&Path::new("nodes").join(node));
            if is_known && self.rack_of(node).is_none() {
                return refused(format!("--rack: {node} is a node of the servers already"));
            }
        }
        self.merge_racks(&request.racks)?;
        let text = self.to_text(&folder.path(Path::new(FILE)))?;
        folder.replace(Path::new(FILE), &text)
    }

    /// Adds racks; a rack that exists gets more nodes.
    fn merge_racks(&mut self, racks: &[Rack]) -> Result<(), SiteError> {
        let refused = |why: String| Err(SiteError::Request(format!("--rack: {why}")));
        for rack in racks {
            let (host, server) = (&rack.server.host, &rack.server);
            if self.servers.iter().any(|it| it.host == *host) {
                return refused(format!("{host} has a server of the cluster already"));
            }
            if let Some(node) = rack.nodes.intersection(&self.services).next() {
                return refused(format!("{node} serves the cluster, and can be in no rack"));
            }
            let others = self.racks.iter().filter(|it| it.server != *server);
            if others.clone().any(|it| it.server.host == *host) {
                return refused(format!("{host} has a rack at another port"));
            }
            if let Some(node) = others.flat_map(|it| it.nodes.intersection(&rack.nodes)).next() {
                return refused(format!("{node} is in two racks"));
            }
            match self.racks.iter_mut().find(|it| it.server == *server) {
                Some(known) => known.nodes.extend(rack.nodes.iter().cloned()),
                None => self.racks.push(rack.clone()),
            }
        }
        Ok(())
    }

    fn to_text(&self, path: &Path) -> Result<String, SiteError> {
        let content = |why: toml::ser::Error| SiteError::Content {
            path: path.to_owned(),
            why: why.to_string(),
        };
        Ok(format!("{NOTICE}{}", toml::to_string(self).map_err(content)?))
    }

    /// The rack of a node.
    pub fn rack_of(&self, node: &str) -> Option<&Rack> {
        self.racks.iter().find(|rack| rack.nodes.contains(node))
    }

    /// The largest number of nodes that are clients of one server, or of those of the cluster.
    pub fn n_clients(&self, n_nodes: usize) -> usize {
        let n_racked: usize = self.racks.iter().map(|rack| rack.nodes.len()).sum();
        let largest = self.racks.iter().map(|rack| rack.nodes.len()).max().unwrap_or(0);
        largest.max(n_nodes.saturating_sub(n_racked))
    }

    fn of_request(request: &SiteRequest) -> Result<Self, SiteError> {
        let refused = |why: &str| Err(SiteError::Request(why.to_owned()));
        let name = request.name.clone().unwrap_or_else(|| "monitor".to_owned());
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if name.is_empty() || name.len() > NAME_BYTES || !name.bytes().all(is_plain) {
            return refused("the name of a cluster has 1 to 32 letters, digits, - and _");
        }
        let distinct: BTreeSet<String> = request.servers.iter().map(ToString::to_string).collect();
        if distinct.len() != request.servers.len() {
            return refused("a server is named twice");
        }
        if request.servers.len().is_multiple_of(2) {
            let why = "an odd number of servers is needed, such as one or three: more than half of \
                       them must run";
            return refused(why);
        }
        if request.nodes.is_empty() {
            return refused("no node: name them with --nodes");
        }
        let services = match request.services.is_empty() {
            true => {
                let in_rack =
                    |node: &&String| request.racks.iter().any(|it| it.nodes.contains(*node));
                request.nodes.iter().filter(|node| !in_rack(node)).take(3).cloned().collect()
            }
            false => request.services.clone(),
        };
        if services.is_empty() {
            return refused("no node outside of racks that could serve the cluster: see --service");
        }
        let mut site = Self {
            name,
            servers: request.servers.clone(),
            services,
            control_from: request.control_from.clone(),
            has_own_ca: request.ca.is_some(),
            files: request.files,
            in_place: request.in_place,
            racks: Vec::new(),
        };
        site.merge_racks(&request.racks)?;
        Ok(site)
    }

    /// Refuses what differs from the folder: its files say otherwise already.
    fn check_same(&self, request: &SiteRequest) -> Result<(), SiteError> {
        let differs = [
            ("--name", request.name.as_ref().is_some_and(|it| *it != self.name)),
            ("--servers", !request.servers.is_empty() && request.servers != self.servers),
            ("--service", !request.services.is_empty() && request.services != self.services),
            (
                "--control-from",
                !request.control_from.is_empty() && request.control_from != self.control_from,
            ),
            ("--ca", request.ca.is_some() && !self.has_own_ca),
            ("--files", request.files.is_some() && request.files != self.files),
            ("--in-place", request.in_place && !self.in_place),
        ];
        match differs.into_iter().find(|(_, differs)| *differs) {
            Some((option, _)) => Err(SiteError::Request(format!(
                "{option}: the folder has a cluster that was made otherwise; omit it to add nodes, \
                 or choose another folder"
            ))),
            None => Ok(()),
        }
    }

    /// The servers of the cluster, and after them those of racks, with the names of their folders:
    /// the host, with the port if there are several on it.
    pub fn all_servers(&self) -> Vec<(&ServerAddress, String)> {
        let all = || self.servers.iter().chain(self.racks.iter().map(|rack| &rack.server));
        let name = |server: &ServerAddress| {
            let n_there = all().filter(|it| it.host == server.host).count();
            match n_there {
                1 => server.host.clone(),
                _ => format!("{}-{}", server.host, server.port),
            }
        };
        all().map(|server| (server, name(server))).collect()
    }
}
