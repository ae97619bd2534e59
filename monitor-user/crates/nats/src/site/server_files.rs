//! The configuration of the servers: one file of each, and the users in a second one.
//!
//! In: the site and its users. Out: texts for nats-server from 2.9.10 on, for the servers of the
//! cluster and those of racks.

use super::accounts;
use super::address::ServerAddress;
use super::certificates::CA;
use super::error::SiteError;
use super::folder::{PUBLIC, SiteFolder};
use super::plan::Site;
use super::users::SiteUsers;
use crate::disconnects::account_of_rack;
use std::fmt::Write as _;
use std::path::Path;

/// Where the files of a server are on its host.
const ETC: &str = "/etc/nats";
/// Where its streams are.
const STORE: &str = "/var/lib/nats";
/// What makes the service of Debian read this configuration.
const DROP_IN: &str = "\
# /etc/systemd/system/nats-server.service.d/monitor.conf
[Service]
ExecStart=
ExecStart=/usr/sbin/nats-server -c /etc/nats/nats-server.conf
StateDirectory=nats
ReadWritePaths=/var/lib/nats
LimitNOFILE=65536
Restart=on-failure
";

/// What a server is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One of the cluster, with its streams.
    Cluster,
    /// In front of the nodes of a rack.
    Rack,
}

/// Writes the files of all servers.
pub fn write_all(site: &Site, users: &SiteUsers, folder: &mut SiteFolder) -> Result<(), SiteError> {
    let accounts = accounts::of_cluster(site, users);
    for (number, (server, name)) in site.all_servers().into_iter().enumerate() {
        match number.checked_sub(site.servers.len()) {
            None => write(site, (server, &name, Kind::Cluster), &accounts, folder)?,
            Some(rack) => {
                let accounts = accounts::of_rack(&site.racks[rack], users);
                write(site, (server, &name, Kind::Rack), &accounts, folder)?;
            }
        }
    }
    Ok(())
}

/// Writes the files of a server.
fn write(
    site: &Site,
    (server, name, kind): (&ServerAddress, &str, Kind),
    accounts: &str,
    folder: &mut SiteFolder,
) -> Result<(), SiteError> {
    let ca = folder.read(Path::new(CA))?.unwrap_or_default();
    let place = Path::new("servers").join(name);
    let (etc, store) = match site.in_place {
        true => {
            let etc = folder.path(&place);
            (etc.display().to_string(), etc.join("store").display().to_string())
        }
        false => (ETC.to_owned(), STORE.to_owned()),
    };
    let text = config(site, (server, name, kind), (&etc, &store));
    folder.write_new(&place.join("nats-server.conf"), PUBLIC, &text)?;
    folder.write_new(&place.join("ca.crt"), PUBLIC, &ca)?;
    folder.replace(&place.join("accounts.conf"), accounts)?;
    if !site.in_place {
        let file = place.join("nats-server.service.d/monitor.conf");
        folder.write_new(&file, PUBLIC, DROP_IN)?;
    }
    Ok(())
}

/// The configuration of a server. Writing to a `String` cannot fail.
fn config(
    site: &Site,
    (server, name, kind): (&ServerAddress, &str, Kind),
    (etc, store): (&str, &str),
) -> String {
    let tls = format!(
        "  cert_file: {:?}\n  key_file: {:?}\n  ca_file: {:?}\n  timeout: 5\n",
        format!("{etc}/server.crt"),
        format!("{etc}/server.key"),
        format!("{etc}/ca.crt"),
    );
    let mut out = format!(
        "# A server of the cluster {:?}, by `monitor cluster init`. It may be edited: init does\n\
         # not write it again. The users are in accounts.conf.\n\
         server_name: {name:?}\n\
         listen: {:?}\n\
         tls {{\n{tls}}}\n\
         # A client that does not answer is cut off after three times this.\n\
         ping_interval: \"2s\"\n\
         ping_max: 2\n",
        site.name,
        listen(server),
    );
    let account = match kind {
        Kind::Cluster => accounts::ACCOUNT.to_owned(),
        Kind::Rack => account_of_rack(&server.host),
    };
    if !site.racks.is_empty() {
        // Without a domain, servers of racks pass questions to the streams of the cluster.
        let _ = writeln!(out, "default_js_domain: {{ {account:?}: \"\" }}");
    }
    if kind == Kind::Rack {
        out += &remotes(site, &tls, &account);
        return out + "include \"accounts.conf\"\n";
    }
    let _ = write!(
        out,
        "jetstream {{\n  \
           store_dir: {store:?}\n  \
           max_memory_store: 64MB\n  \
           max_file_store: 1GB\n  \
           # From nats-server 2.10 on: no acknowledged entry is lost if the power fails.\n  \
           # sync_interval: always\n\
         }}\n"
    );
    if !site.racks.is_empty() {
        let _ = write!(
            out,
            "# Servers of racks are known by their certificates.\n\
             leafnodes {{\n  \
               listen: {:?}\n  \
               tls {{\n{}    verify_and_map: true\n  }}\n\
             }}\n",
            listen(&server.leaf()),
            tls.replace("  ", "    "),
        );
    }
    if site.servers.len() > 1 {
        let routes =
            site.servers.iter().map(|it| format!("    {:?}\n", format!("nats://{}", it.route())));
        let _ = write!(
            out,
            "# Servers know each other by certificates of the same authority.\n\
             cluster {{\n  \
               name: {:?}\n  \
               listen: {:?}\n  \
               tls {{\n{}  }}\n  \
               routes: [\n{}  ]\n\
             }}\n",
            site.name,
            listen(&server.route()),
            tls.replace("  ", "    "),
            routes.collect::<String>(),
        );
    }
    out + "include \"accounts.conf\"\n"
}

/// The servers of the cluster, for that of a rack.
fn remotes(site: &Site, tls: &str, account: &str) -> String {
    let urls = site.servers.iter().map(|it| format!("{:?}", format!("tls://{}", it.leaf())));
    format!(
        "leafnodes {{\n  \
           reconnect: 1\n  \
           remotes: [ {{\n    \
             urls: [ {} ]\n    \
             account: {account:?}\n    \
             tls {{\n{}    }}\n  \
           }} ]\n\
         }}\n",
        urls.collect::<Vec<_>>().join(", "),
        tls.replace("  ", "      "),
    )
}

/// Where a server listens. A name may be that of loopback on its own host (hosts(5)).
fn listen(server: &ServerAddress) -> String {
    match server.ip() {
        Some(_) => server.to_string(),
        None if server.host == "localhost" => server.to_string(),
        None => format!("0.0.0.0:{}", server.port),
    }
}
