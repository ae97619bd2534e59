//! `monitor serve`: the service, until it is told to end.
//!
//! In: words, the environment, the file. Out: one configuration; what was said last, closest to
//! the start, holds. The file is read again when the service is told to.

use super::args::Serve;
use super::exit::{Exit, Failure};
use super::log;
use super::settings::{self, Said};
use monitor_backends::procfs::access::Hiding;
use monitor_backends::{host, select};
use monitor_cluster::scope::Node;
use monitor_model::scope::Scope;
use monitor_sampling::need;
use monitor_server::daemon;
use monitor_server::daemon::{Place, Settings};
use monitor_server::policy::Hidden;
use monitor_sys::files;
use std::path::Path;
use tokio::runtime::Runtime;

/// Files that are looked at at the same time; a file system that hangs holds up one of them.
const FILE_LOOKS: usize = 16;

/// Serves.
pub fn serve(args: &Serve) -> Result<Exit, Failure> {
    let said = Said { socket: args.socket.clone(), backend: args.backend, log: log::wanted() };
    let file = args.config.clone();
    // A connection is a descriptor, and half of them are for reading.
    let room = files::raise().map_or(usize::MAX, |most| usize::try_from(most / 2).unwrap_or(0));
    let reload = move || {
        let mut loaded = settings::read(file.as_deref(), &said)?;
        let all = &mut loaded.config.door.all_connections;
        *all = room.min(*all);
        Ok(loaded)
    };
    let loaded = reload().map_err(settings::told)?;
    let log = log::service(loaded.config.log);
    let path = settings::socket(&loaded.config)?;
    let always = need::capabilities(Scope::Processes, &[], &[]);
    let (backend, opening) = select::open(loaded.config.backend, &always, 0)?;
    for note in &opening {
        tracing::warn!("{}", note.text);
    }
    let settings = Settings {
        loaded,
        hidden: hidden(),
        reload: Box::new(reload),
        log,
        ..Settings::new(Place::Socket(path.clone()), own_node())
    };
    let served = runtime()?.block_on(daemon::serve(settings, backend, opening));
    served.map_err(|error| failed(&format!("serve on {}", path.display()), &error))?;
    Ok(Exit::Ok)
}

fn runtime() -> Result<Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(FILE_LOOKS).build();
    runtime.map_err(|error| failed("start the event loop", &error))
}

/// This node, under all its names.
fn own_node() -> Node {
    let name = host::name().to_string();
    Node { name, number: 0, aliases: host::addresses(), ranks: Vec::new() }
}

/// What `/proc` keeps from users here.
fn hidden() -> Hidden {
    let Hiding { level, except, .. } = Hiding::read(Path::new("/proc"), Path::new("/proc"));
    level.map_or(Hidden::Nothing, |_| Hidden::Others { except })
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot {what}: {error}"))
}
