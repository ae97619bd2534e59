//! The files of a node: its section of the configuration, and what its service needs.
//!
//! In: the site and its users. Out: `nodes/NAME/`, which is copied to the node. The seed is beside
//! them already.

use super::certificates::{CA, NODE};
use super::error::SiteError;
use super::folder::{PUBLIC, SiteFolder};
use super::plan::{Site, SiteRequest};
use super::users::{SEED, SiteUser, SiteUsers, node_folder};
use crate::permissions::Role;
use monitor_cluster::node_set::fold;
use std::net::SocketAddr;
use std::path::Path;

/// Where the files of a node are on it.
const ETC: &str = "/etc/monitor";
/// Where its ledger is.
const LEDGER: &str = "/var/lib/monitor/ledger";
/// The file with the certificate of the authority.
const CA_FILE: &str = "cluster-ca.crt";
/// What the service needs beside the configuration.
const DROP_IN: &str = "\
# /etc/systemd/system/monitor.service.d/cluster.conf
[Unit]
Wants=network-online.target
After=network-online.target

[Service]
# The folder of the ledger.
StateDirectory=monitor
";

/// Writes the files of all nodes.
pub fn write_all(
    (site, request): (&Site, &SiteRequest),
    users: &SiteUsers,
    folder: &mut SiteFolder,
) -> Result<(), SiteError> {
    let ca = folder.read(Path::new(CA))?.unwrap_or_default();
    for user in &users.nodes {
        let place = node_folder(&user.name);
        let (etc, ledger) = match site.in_place {
            true => {
                let etc = folder.path(&place);
                (etc.display().to_string(), etc.join("ledger").display().to_string())
            }
            false => (ETC.to_owned(), LEDGER.to_owned()),
        };
        let is_gateway = request.gateways.contains(&user.name);
        let text = section(site, (user, is_gateway), (&etc, &ledger));
        folder.write_new(&place.join("monitor.toml"), PUBLIC, &text)?;
        folder.write_new(&place.join(CA_FILE), PUBLIC, &ca)?;
        if !site.in_place {
            let file = place.join("monitor.service.d/cluster.conf");
            folder.write_new(&file, PUBLIC, DROP_IN)?;
        }
    }
    Ok(())
}

/// The section of the configuration.
fn section(
    site: &Site,
    (user, is_gateway): (&SiteUser, bool),
    (etc, ledger): (&str, &str),
) -> String {
    let servers = match site.rack_of(&user.name) {
        Some(rack) => std::slice::from_ref(&rack.server),
        None => &site.servers,
    };
    let servers: Vec<String> = servers.iter().map(|it| format!("{:?}", it.url())).collect();
    format!(
        "# The node {name} of the cluster {cluster:?}, by `monitor cluster init`.\n\
         [cluster]\n\
         name = {cluster:?}\n\
         servers = [{servers}]\n\
         credentials = {credentials:?}\n\
         ca = {ca:?}\n\
         node = {name:?}\n\
         ledger = {ledger:?}\n\
         removes_dead = {removes_dead}\n\
         gateway = {is_gateway}\n\
         {aggregators}\
         control_from = {control_from:?}\n\
         {files}",
        name = user.name,
        cluster = site.name,
        servers = servers.join(", "),
        credentials = format!("{etc}/{SEED}"),
        ca = format!("{etc}/{CA_FILE}"),
        removes_dead = user.role == Role::Service,
        aggregators = aggregators(site, &user.name),
        control_from = site.control_from,
        files = site.files.map(|address| files_section(address, etc)).unwrap_or_default(),
    )
}

/// The key with the aggregators of the rack of a node.
fn aggregators(site: &Site, node: &str) -> String {
    let names = site.rack_of(node).map(|rack| fold(rack.aggregators.iter().map(String::as_str)));
    let names = names.filter(|names| !names.is_empty());
    names.map(|names| format!("aggregators = {names:?}\n")).unwrap_or_default()
}

/// The section of the files that other nodes send and read.
fn files_section(address: SocketAddr, etc: &str) -> String {
    format!(
        "\n[files]\n\
         tls = \"{address}\"\n\
         certificate = {certificate:?}\n\
         key = {key:?}\n\
         authority = {authority:?}\n",
        certificate = format!("{etc}/{NODE}.crt"),
        key = format!("{etc}/{NODE}.key"),
        authority = format!("{etc}/{CA_FILE}"),
    )
}
