//! `monitor cluster init`: the files of a site, and what is to be done with them.
//!
//! In: sets of nodes, hosts of servers. Out: files below a folder, and the next steps as text.

use super::args::ClusterInitArgs;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, notice};
use monitor_cluster::node_set::{expand, fold, has_wildcard};
use monitor_nats::site::{Rack, ServerAddress, SiteError, SiteReport, SiteRequest, write_site};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// Writes the files that do not exist.
pub fn init(args: &ClusterInitArgs) -> Result<Exit, Failure> {
    let report = write_site(&request(args)?).map_err(|why| match why {
        SiteError::Request(why) => Failure::usage(why),
        other => Failure::failed(other),
    })?;
    if report.is_large {
        let n_nodes = report.n_nodes;
        notice(&format!(
            "more than 512 of {n_nodes} nodes are clients of the same servers: servers of racks in \
             front of them are advisable (--rack)"
        ));
    }
    let deployment = if args.in_place { Deployment::InPlace } else { Deployment::OtherHosts };
    output::print(text(&report, &args.out, deployment).as_bytes())
}

fn request(args: &ClusterInitArgs) -> Result<SiteRequest, Failure> {
    let set = |option: &str, text: &Option<String>| match text {
        Some(text) if has_wildcard(text) => {
            let why =
                format!("{option}: {text:?}: wildcards match members, and there are none yet");
            Err(Failure::usage(why))
        }
        Some(text) => nodes(option, text),
        None => Ok(BTreeSet::new()),
    };
    let parse = |text: &String| {
        let parsed = ServerAddress::parse(text.trim());
        parsed.map_err(|why| Failure::usage(format!("--servers: {why}")))
    };
    let servers: Vec<ServerAddress> = args.servers.iter().map(parse).collect::<Result<_, _>>()?;
    let is_new = !args.out.join("cluster.toml").exists();
    if is_new && servers.is_empty() {
        let out = args.out.display();
        let why = format!("{out} has no cluster yet: name its servers with --servers");
        return Err(Failure::usage(why));
    }
    if let Some(from) = &args.control_from {
        // It is a set for the nodes, of which more may come.
        let _names = nodes("--control-from", from)?;
    }
    let parse =
        |text: &String| Rack::parse(text).map_err(|why| Failure::usage(format!("--rack: {why}")));
    let racks: Vec<Vec<Rack>> = args.racks.iter().map(parse).collect::<Result<_, _>>()?;
    Ok(SiteRequest {
        folder: args.out.clone(),
        name: args.name.clone(),
        nodes: set("--nodes", &args.nodes)?,
        racks: racks.concat(),
        gateways: set("--gateways", &args.gateways)?,
        services: set("--service", &args.service)?,
        servers,
        control_from: args.control_from.clone().unwrap_or_default(),
        ca: args.ca.clone(),
        files: args.files,
        in_place: args.in_place,
    })
}

fn nodes(option: &str, text: &str) -> Result<BTreeSet<String>, Failure> {
    expand(text, &BTreeSet::new()).map_err(|why| Failure::usage(format!("{option}: {why}")))
}

/// Where the files are used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deployment {
    /// In the folder.
    InPlace,
    /// On other hosts, to which they are copied.
    OtherHosts,
}

/// What was written, and what to do. Writing to a `String` cannot fail.
fn text(report: &SiteReport, out: &Path, deployment: Deployment) -> String {
    let (name, n_files, shown) = (&report.name, report.written.len(), out.display());
    let mut text = match report.new_nodes.len() {
        0 => format!("cluster {name}: no new node; {n_files} files written to {shown}\n"),
        _ => {
            let set = fold(report.new_nodes.iter().map(String::as_str));
            format!("cluster {name}: {set}; {n_files} files written to {shown}\n")
        }
    };
    for file in &report.to_sign {
        let file = out.join(file);
        let _ = writeln!(
            text,
            "let the authority sign {}, and write server.crt beside it",
            file.display()
        );
    }
    if n_files == 0 || deployment == Deployment::InPlace {
        return text;
    }
    let _ = write!(
        text,
        "\n\
         on each server: copy {shown}/servers/HOST/ to /etc/nats, let the user nats read\n\
         server.key, copy nats-server.service.d to /etc/systemd/system, and then\n  \
           systemctl daemon-reload; systemctl restart nats-server\n\
         (for nodes that were added, copy accounts.conf; systemctl reload nats-server)\n\
         on each node: copy {shown}/nodes/NAME/ to /etc/monitor; cluster.seed must belong to\n\
         the user monitor, mode 0600, as node.key; copy monitor.service.d to\n\
         /etc/systemd/system, and then\n  \
           systemctl daemon-reload; systemctl restart monitor; monitor cluster doctor\n\
         {shown}/ca/ca.key and the seeds are secret: keep the folder from other users\n",
    );
    text
}
