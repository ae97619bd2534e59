//! `monitor serve`: the service, until it is told to end.

use super::args::Serve;
use super::exit::{Exit, Failure};
use super::log;
use crate::backend::{host, select};
use crate::cluster::scope::Node;
use crate::daemon::{self, Settings};
use crate::engine::Limits;
use crate::meter::need;
use crate::model::scope::Scope;
use crate::serve::policy::Hidden;
use crate::sys::place;

/// Files that are looked at at the same time; a file system that hangs holds up one of them.
const FILE_LOOKS: usize = 16;

/// Serves.
pub fn serve(args: &Serve) -> Result<Exit, Failure> {
    log::start(0);
    let named = args.socket.clone().map_or_else(place::default_path, Ok);
    let path = named.map_err(Failure::failed)?;
    let always = need::capabilities(Scope::Processes, &[], &[]);
    let (backend, opening) = select::open(args.backend, &always, 0)?;
    let settings = Settings {
        socket: path.clone(),
        limits: Limits::default(),
        queue_bytes: 1 << 20,
        connections: 1024,
        hidden: Hidden::Nothing,
        node: own_node(),
        link: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(FILE_LOOKS)
        .build();
    let runtime = runtime.map_err(|error| failed("start the event loop", &error))?;
    let served = runtime.block_on(daemon::serve(settings, backend, opening));
    served.map_err(|error| failed(&format!("serve on {}", path.display()), &error))?;
    Ok(Exit::Ok)
}

/// This node, under all its names.
fn own_node() -> Node {
    let name = host::name().to_string();
    Node { name, number: 0, aliases: host::addresses(), ranks: Vec::new() }
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot {what}: {error}"))
}
