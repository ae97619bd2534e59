//! The accounts of a server and their users: the file `accounts.conf`.
//!
//! In: the users of the site. Out: text for the servers of the cluster, or for that of a rack,
//! which knows only the nodes of its rack. All access is by users: nothing is granted to a client
//! without a key, and no user has a password.

use super::certificates::common_name;
use super::plan::Site;
use super::racks::Rack;
use super::users::{SiteUser, SiteUsers};
use crate::disconnects::{REPORTS, account_of_rack, reports_of_account};
use crate::permissions::{Permissions, permissions, rack_permissions};
use std::fmt::Write as _;

/// The account of nodes on the servers of the cluster.
pub const ACCOUNT: &str = "MONITOR";
/// The limits of the account on the servers that have its streams.
const JETSTREAM: &str =
    "    jetstream { max_mem: 64MB, max_file: 1GB, max_streams: 8, max_consumers: 50000 }\n";

/// The accounts of the servers of the cluster: its nodes that are in no rack, and racks.
pub fn of_cluster(site: &Site, users: &SiteUsers) -> String {
    let is_outside = |user: &&SiteUser| site.rack_of(&user.name).is_none();
    let nodes = users.nodes.iter().filter(is_outside).chain([&users.admin]);
    let mut lines: String = nodes.map(node_user).collect();
    for rack in &site.racks {
        lines += &rack_user(site, rack, users);
    }
    accounts(users, (ACCOUNT, &format!(", to: {REPORTS:?}")), JETSTREAM, &lines)
}

/// The accounts of the server of a rack: its nodes.
pub fn of_rack(rack: &Rack, users: &SiteUsers) -> String {
    let nodes = users.nodes.iter().filter(|user| rack.nodes.contains(&user.name));
    let lines: String = nodes.map(node_user).collect();
    accounts(users, (&account_of_rack(&rack.server.host), ""), "", &lines)
}

/// The accounts; `renamed` is what is done with the subject of reports.
fn accounts(
    users: &SiteUsers,
    (account, renamed): (&str, &str),
    limits: &str,
    lines: &str,
) -> String {
    let ended = reports_of_account(account);
    format!(
        "# Made by `monitor cluster init` from the files user.toml: what is written here is lost.\n\
         # There is no authorization outside of accounts, and no user for clients without a key.\n\
         system_account: SYS\n\
         accounts {{\n  \
           SYS {{\n    \
             users: [ {{ nkey: {} }} ]\n    \
             # That a connection of the account of nodes has ended, and no other event.\n    \
             exports: [ {{ stream: {ended:?}, accounts: [{account:?}] }} ]\n  \
           }}\n  \
           {account:?} {{\n    \
             imports: [ {{ stream: {{ account: SYS, subject: {ended:?} }}{renamed} }} ]\n\
         {limits}    \
             users: [\n\
         {lines}    ]\n  \
           }}\n\
         }}\n",
        users.system.key,
    )
}

fn node_user(user: &SiteUser) -> String {
    let key = format!("nkey: {}", user.key);
    entry(&user.name, &key, &permissions(user.role, &user.name))
}

/// The server of a rack is known by its certificate. It may do what its nodes may, over a
/// connection of servers alone: clients have no certificate, and would need no password.
fn rack_user(site: &Site, rack: &Rack, users: &SiteUsers) -> String {
    let is_in_rack = |user: &&SiteUser| rack.nodes.contains(&user.name);
    let nodes: Vec<&SiteUser> = users.nodes.iter().filter(is_in_rack).collect();
    let others = users.nodes.iter().filter(|user| !is_in_rack(user));
    let permissions = rack_permissions(
        &rack.server.host,
        nodes.iter().map(|user| (user.role, user.name.as_str())),
        others.map(|user| user.name.as_str()),
    );
    let name = format!("CN={}", common_name(site, &rack.server));
    let user = format!("user: {name:?}, allowed_connection_types: [\"LEAFNODE\"]");
    entry(&format!("the rack {}", rack.server.host), &user, &permissions)
}

/// A user. Writing to a `String` cannot fail.
fn entry(comment: &str, user: &str, Permissions { publish, subscribe }: &Permissions) -> String {
    let list = |subjects: &[String]| {
        let quoted: Vec<String> = subjects.iter().map(|it| format!("{it:?}")).collect();
        quoted.join(", ")
    };
    let mut out = String::new();
    let _ = write!(
        out,
        "      # {comment}\n      {{ {user}, permissions: {{\n        \
         publish: {{ allow: [{}] }}\n        \
         subscribe: {{ allow: [{}] }}\n      }} }}\n",
        list(publish),
        list(subscribe),
    );
    out
}
