//! `monitor cluster doctor`: each link of a node to its cluster, and how to fix it.
//!
//! In: the configuration of the node. Out: a table or JSON. The links to the servers are tried from
//! here, as the daemon would use them; what only the daemon knows, it is asked for.

use super::args::ClusterDoctorArgs;
use crate::cli::bus;
use crate::cli::client::{connect, runtime};
use crate::cli::config::print_errors;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_backends::host;
use monitor_format::wrap::{COLUMNS, wrap};
use monitor_nats::Role;
use monitor_nats::doctor::{Finding, FindingState, examine};
use monitor_protocol::cluster::ClusterState;
use monitor_server::cluster::BusAddress;
use monitor_server::daemon::config::{ClusterConfig, LoadedConfig};
use rustix::fs::{Access, access};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use tokio::time::timeout;

/// What is checked that is no server.
const NODE: &str = "node";
/// Columns before wrapped text.
const INDENT: usize = 21;

/// The report.
#[derive(Serialize)]
struct ClusterReport {
    schema_version: u32,
    node: String,
    /// The worst of the findings.
    state: FindingState,
    findings: Vec<Finding>,
}

/// Checks the node.
pub fn doctor(args: &ClusterDoctorArgs) -> Result<Exit, Failure> {
    let loaded = LoadedConfig::read(args.file.path()).map_err(print_errors)?;
    let config = loaded.config.cluster;
    if config.servers.is_empty() {
        let file = loaded.path.map_or_else(
            || "/etc/monitor/monitor.toml".to_owned(),
            |path| path.display().to_string(),
        );
        let why = format!("{file}: cluster.servers is empty: this node is in no cluster");
        return Err(Failure::usage(why));
    }
    let node = match config.node.is_empty() {
        true => host::name().to_string(),
        false => config.node.clone(),
    };
    let findings = runtime()?.block_on(async {
        let mut findings = vec![ledger(&config.ledger)];
        findings.push(daemon(args, &node).await);
        match timeout(args.within, servers(&config, &node)).await {
            Ok(found) => findings.extend(found),
            Err(_) => {
                let fix = "name fewer servers, or give it more time with --within";
                findings.push(Finding::failed(NODE, "time", "not all checks have ended", fix));
            }
        }
        findings
    });
    let state = findings.iter().map(|it| it.state).max().unwrap_or(FindingState::Ok);
    let report = ClusterReport { schema_version: 1, node, state, findings };
    let exit = output::report(&report, args.printed.is_json(), table)?;
    Ok(if state == FindingState::Ok { exit } else { Exit::Degraded })
}

/// The links to the servers.
async fn servers(config: &ClusterConfig, node: &str) -> Vec<Finding> {
    match bus::options(BusAddress::new(config, node)) {
        Ok(options) => {
            let role = if config.gateway { Role::Gateway } else { Role::Node };
            examine(&options, role).await
        }
        Err(why) => {
            let fix =
                "run this as root or as the user of the daemon, or correct cluster.credentials";
            vec![Finding::failed(NODE, "user", why, fix)]
        }
    }
}

/// Whether the ledger, or its folder if it does not exist, can be written here.
fn ledger(path: &Path) -> Finding {
    let check = "ledger";
    let shown = path.display();
    let place = match path.exists() {
        true => path,
        // A folder that does not exist is made by the daemon.
        false => path.ancestors().skip(1).find(|it| it.exists()).unwrap_or(Path::new("/")),
    };
    match access(place, Access::READ_OK | Access::WRITE_OK) {
        Ok(()) => Finding::ok(NODE, check, format!("{shown} can be written")),
        Err(why) => {
            let fix =
                "StateDirectory=monitor in a drop-in of the service, or correct cluster.ledger";
            Finding::failed(NODE, check, format!("{shown}: {why}"), fix)
        }
    }
}

/// What the daemon says of its membership.
async fn daemon(args: &ClusterDoctorArgs, node: &str) -> Finding {
    let check = "member";
    let members = async {
        let client = connect(args.daemon.socket.as_deref()).await?;
        Ok::<_, Failure>(client.members().await?)
    };
    let start = "systemctl start monitor, or monitor serve";
    let members = match members.await {
        Ok(members) => members,
        Err(why) => return Finding::warning(NODE, check, why.message, start),
    };
    let name = members.node;
    match members.state {
        ClusterState::Alone => {
            let fix = "restart the daemon: [cluster] is read when it starts";
            Finding::failed(NODE, check, "the daemon is in no cluster", fix)
        }
        _ if name != node => {
            let found = format!("the daemon that answers is {name:?}");
            Finding::failed(NODE, check, found, "name its socket with --socket, or restart it")
        }
        ClusterState::Member => Finding::ok(NODE, check, name),
        ClusterState::NameInUse => {
            let found = format!("another daemon is the member {name:?}");
            let fix = "stop that one, or set cluster.node here";
            Finding::failed(NODE, check, found, fix)
        }
        state @ (ClusterState::Connecting | ClusterState::Joining) => {
            let found = match state {
                ClusterState::Connecting => "the daemon is not connected",
                _ => "the daemon is not a member yet",
            };
            Finding::failed(NODE, check, found, "fix what is wrong below; see its log")
        }
    }
}

/// Writing to a `String` cannot fail.
fn table(report: &ClusterReport) -> String {
    let mut out = String::new();
    let mut of = "";
    for finding in &report.findings {
        if finding.of != of {
            let _ = match finding.of == NODE {
                true => writeln!(out, "{NODE} {}", report.node),
                false => writeln!(out, "{}", finding.of),
            };
            of = &finding.of;
        }
        let state = match finding.state {
            FindingState::Ok => "ok",
            FindingState::Warning => "warning",
            FindingState::Failed => "FAILED",
        };
        let _ = write!(out, "  {state:<7} {:<10} ", finding.check);
        wrap(&finding.found, INDENT, COLUMNS, &mut out);
        if let Some(fix) = &finding.fix {
            let _ = write!(out, "{:INDENT$}", "");
            wrap(&format!("fix: {fix}"), INDENT, COLUMNS, &mut out);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_says_how_to_fix_it() {
        let findings = vec![
            Finding::ok(NODE, "member", "n1"),
            Finding::failed("tls://a:4222", "jetstream", "off", "add jetstream {}"),
        ];
        let state = FindingState::Failed;
        let report = ClusterReport { schema_version: 1, node: "n1".to_owned(), state, findings };
        let want = "\
node n1
  ok      member     n1
tls://a:4222
  FAILED  jetstream  off
                     fix: add jetstream {}
";
        assert_eq!(table(&report), want);
    }

    #[test]
    fn a_ledger_in_a_folder_that_the_daemon_makes_is_no_error() {
        let path = std::env::temp_dir().join("monitor-doctor-no-such/folder/ledger");
        assert_eq!(ledger(&path).state, FindingState::Ok);
        assert_eq!(ledger(Path::new("/proc/self/no-such/ledger")).of, NODE);
    }
}
