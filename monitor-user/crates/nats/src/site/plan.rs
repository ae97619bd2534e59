//! What is asked for, and what a folder already is: the site.
//!
//! In: a request, and the file `cluster.toml` of the folder. Out: the site. The first request makes
//! it; later ones may add nodes, and are refused if they contradict it.

use super::error::SiteError;
use super::folder::{PUBLIC, SiteFolder};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The file with the site.
const FILE: &str = "cluster.toml";
/// The port of a server, if none is given.
const PORT: u16 = 4222;
/// By how much the port between servers is above that for nodes.
const ROUTE_PORT: u16 = 2000;
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
    /// The nodes whose users may control processes on all nodes, as a node set.
    pub control_from: String,
    /// The certificate of an authority that signs those of the servers; none: one is made.
    pub ca: Option<PathBuf>,
    /// Whether configurations name files in the folder, for a cluster on this host.
    pub in_place: bool,
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServerAddress {
    /// A name or an address.
    pub host: String,
    /// The port for nodes.
    pub port: u16,
}

impl ServerAddress {
    /// Parses `HOST` or `HOST:PORT`; an IPv6 address is in brackets.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: expected a server such as n1, n1:4222 or [::1]:4222");
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ => (text, PORT),
        };
        let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        let is_name = |host: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
            host.bytes().all(is_plain) && !host.starts_with(['-', '.'])
        };
        let is_host = !host.is_empty() && (host.parse::<IpAddr>().is_ok() || is_name(host));
        let is_port = port > 0 && port <= u16::MAX - ROUTE_PORT;
        (is_host && is_port).then(|| Self { host: host.to_owned(), port }).ok_or_else(wrong)
    }

    /// The address, if it is one and no name.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// The address for nodes.
    pub fn url(&self) -> String {
        format!("tls://{self}")
    }

    /// The same host, at the port between servers.
    pub fn route(&self) -> Self {
        Self { host: self.host.clone(), port: self.port + ROUTE_PORT }
    }
}

impl std::fmt::Display for ServerAddress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.ip() {
            Some(IpAddr::V6(host)) => write!(out, "[{host}]:{}", self.port),
            _ => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

impl TryFrom<String> for ServerAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<ServerAddress> for String {
    fn from(address: ServerAddress) -> Self {
        address.to_string()
    }
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
    /// Whether configurations name files in the folder.
    pub in_place: bool,
}

impl Site {
    /// The site of the folder, or the one that this request makes there.
    pub fn resolve(request: &SiteRequest, folder: &mut SiteFolder) -> Result<Self, SiteError> {
        let file = Path::new(FILE);
        let Some(text) = folder.read(file)? else {
            let site = Self::of_request(request)?;
            let text = toml::to_string(&site).map_err(|why| SiteError::Content {
                path: folder.path(file),
                why: why.to_string(),
            })?;
            folder.write_new(file, PUBLIC, &format!("{NOTICE}{text}"))?;
            return Ok(site);
        };
        let malformed = |why: toml::de::Error| SiteError::Content {
            path: folder.path(file),
            why: why.message().to_owned(),
        };
        let site: Self = toml::from_str(&text).map_err(malformed)?;
        site.check_same(request)?;
        Ok(site)
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
            true => request.nodes.iter().take(3).cloned().collect(),
            false => request.services.clone(),
        };
        Ok(Self {
            name,
            servers: request.servers.clone(),
            services,
            control_from: request.control_from.clone(),
            has_own_ca: request.ca.is_some(),
            in_place: request.in_place,
        })
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

    /// The names of the folders of servers: the host, with the port if there are several on it.
    pub fn server_folders(&self) -> Vec<String> {
        let name = |server: &ServerAddress| {
            let n_there = self.servers.iter().filter(|it| it.host == server.host).count();
            match n_there {
                1 => server.host.clone(),
                _ => format!("{}-{}", server.host, server.port),
            }
        };
        self.servers.iter().map(name).collect()
    }
}
