//! The configuration of the servers: one file of each, and the users in a second one.
//!
//! In: the site and its users. Out: texts for nats-server from 2.9.10 on. All access is by accounts
//! with users: nothing is granted to a client without a key.

use super::certificates::CA;
use super::error::SiteError;
use super::folder::{PUBLIC, SiteFolder};
use super::plan::{ServerAddress, Site};
use super::users::{SiteUser, SiteUsers};
use crate::disconnects::REPORTS;
use crate::permissions::{Permissions, permissions};
use std::fmt::Write as _;
use std::path::Path;

/// Where the files of a server are on its host.
const ETC: &str = "/etc/nats";
/// Where its streams are.
const STORE: &str = "/var/lib/nats";
/// Where the servers report that a connection of the account of nodes has ended.
const ENDED: &str = "$SYS.ACCOUNT.MONITOR.DISCONNECT";
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

/// Writes the files of all servers.
pub fn write_all(site: &Site, users: &SiteUsers, folder: &mut SiteFolder) -> Result<(), SiteError> {
    let accounts = accounts(users);
    let ca = folder.read(Path::new(CA))?.unwrap_or_default();
    for (server, name) in site.servers.iter().zip(site.server_folders()) {
        let place = Path::new("servers").join(&name);
        let (etc, store) = match site.in_place {
            true => {
                let etc = folder.path(&place);
                (etc.display().to_string(), etc.join("store").display().to_string())
            }
            false => (ETC.to_owned(), STORE.to_owned()),
        };
        let text = config(site, (server, &name), (&etc, &store));
        folder.write_new(&place.join("nats-server.conf"), PUBLIC, &text)?;
        folder.write_new(&place.join("ca.crt"), PUBLIC, &ca)?;
        folder.replace(&place.join("accounts.conf"), &accounts)?;
        if !site.in_place {
            let file = place.join("nats-server.service.d/monitor.conf");
            folder.write_new(&file, PUBLIC, DROP_IN)?;
        }
    }
    Ok(())
}

/// The configuration of a server. Writing to a `String` cannot fail.
fn config(
    site: &Site,
    (server, name): (&ServerAddress, &str),
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
         ping_max: 2\n\
         jetstream {{\n  \
           store_dir: {store:?}\n  \
           max_memory_store: 64MB\n  \
           max_file_store: 1GB\n  \
           # From nats-server 2.10 on: no acknowledged entry is lost if the power fails.\n  \
           # sync_interval: always\n\
         }}\n",
        site.name,
        listen(server),
    );
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

/// Where a server listens. A name may be that of loopback on its own host (hosts(5)).
fn listen(server: &ServerAddress) -> String {
    match server.ip() {
        Some(_) => server.to_string(),
        None if server.host == "localhost" => server.to_string(),
        None => format!("0.0.0.0:{}", server.port),
    }
}

/// The accounts and their users. Writing to a `String` cannot fail.
fn accounts(users: &SiteUsers) -> String {
    let mut out = String::from(
        "# Made by `monitor cluster init` from the files user.toml: what is written here is lost.\n\
         # There is no authorization outside of accounts, and no user for clients without a key.\n\
         system_account: SYS\n\
         accounts {\n  \
           SYS { users: [\n",
    );
    let _ = writeln!(out, "    {{ nkey: {} }}", users.system.key);
    let _ = write!(
        out,
        "  ]\n    \
             # That a connection of the account of nodes has ended, and no other event.\n    \
             exports: [ {{ stream: {ENDED:?}, accounts: [MONITOR] }} ]\n  \
           }}\n  MONITOR {{\n    \
             imports: [ {{ stream: {{ account: SYS, subject: {ENDED:?} }}, to: {REPORTS:?} }} ]\n"
    );
    out += "    \
            jetstream { max_mem: 64MB, max_file: 1GB, max_streams: 8, max_consumers: 50000 }\n    \
            users: [\n";
    for user in users.nodes.iter().chain([&users.admin]) {
        out += &line(user);
    }
    out + "    ]\n  }\n}\n"
}

fn line(user: &SiteUser) -> String {
    let Permissions { publish, subscribe } = permissions(user.role, &user.name);
    let list = |subjects: &[String]| {
        let quoted: Vec<String> = subjects.iter().map(|it| format!("{it:?}")).collect();
        quoted.join(", ")
    };
    format!(
        "      # {}\n      {{ nkey: {}, permissions: {{\n        \
         publish: {{ allow: [{}] }}\n        \
         subscribe: {{ allow: [{}] }}\n      }} }}\n",
        user.name,
        user.key,
        list(&publish),
        list(&subscribe),
    )
}
