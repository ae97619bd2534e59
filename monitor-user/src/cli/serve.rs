//! `monitor serve`: runs the daemon until it is terminated, and `monitor user-worker`, which it
//! starts.
//!
//! In: arguments, the environment, the configuration file. Out: one effective configuration;
//! arguments override the environment, which overrides the file. SIGHUP reloads the file. A user
//! worker acts on processes with the rights of one user; its standard input is the socket to the
//! daemon, and without one it fails: it is not for users.

use super::args::{ServeArgs, UserWorkerArgs};
use super::config::{self, Overrides};
use super::exit::{Exit, Failure};
use super::log;
use monitor_backends::host;
use monitor_backends::procfs::hidepid::Hidepid;
use monitor_cluster::scope::Node;
use monitor_control::session::launcher;
use monitor_control::user_worker::{User, WorkerRole, main};
use monitor_loader::select;
use monitor_model::scope::Scope;
use monitor_sampling::capability_deps;
use monitor_server::cluster::BusConnector;
use monitor_server::daemon::{self, Endpoint, Settings};
use monitor_server::policy::Hidden;
use monitor_sys::fd_limit;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use tokio::runtime::Runtime;

/// Files that are checked at the same time; a hanging file system blocks one of these threads.
const FILE_READERS: usize = 16;

/// Runs the daemon.
pub fn serve(args: &ServeArgs) -> Result<Exit, Failure> {
    let overrides = Overrides::from_args(&args.overrides);
    let file = args.config.clone();
    // Each connection needs a descriptor, and half of them are reserved for reading.
    let max_connections =
        fd_limit::raise().map_or(usize::MAX, |most| usize::try_from(most / 2).unwrap_or(0));
    let reload = move || {
        let mut loaded = config::read(file.as_deref(), &overrides)?;
        let all = &mut loaded.config.connections.all_connections;
        *all = max_connections.min(*all);
        Ok(loaded)
    };
    let loaded = reload().map_err(config::print_errors)?;
    let log = log::service(loaded.config.log);
    let path = config::socket(&loaded.config)?;
    let always = capability_deps::capabilities(Scope::Processes, &[], &[]);
    let (backend, opening) = select::open(loaded.config.backend, &always, 0)?;
    for note in &opening {
        tracing::warn!("{}", note.text);
    }
    let opener = select::opener(loaded.config.backend);
    let settings = Settings {
        loaded,
        hidden: hidden(),
        connector: connector(),
        reload: Box::new(reload),
        log,
        ..Settings::new(Endpoint::Socket(path.clone()), own_node(), opener)
    };
    let served = runtime()?.block_on(daemon::serve(settings, backend, opening));
    served.map_err(|error| failed(&format!("serve on {}", path.display()), &error))?;
    Ok(Exit::Ok)
}

/// What connects to the bus of the cluster.
#[cfg(feature = "nats")]
fn connector() -> Option<Box<dyn BusConnector>> {
    Some(Box::new(super::bus::NatsConnector))
}

#[cfg(not(feature = "nats"))]
fn connector() -> Option<Box<dyn BusConnector>> {
    None
}

fn runtime() -> Result<Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(FILE_READERS).build();
    runtime.map_err(|error| failed("start the event loop", &error))
}

/// This node with all its names.
fn own_node() -> Node {
    let name = host::name().to_string();
    Node { name, number: 0, aliases: host::addresses() }
}

/// What `/proc` hides from users here.
fn hidden() -> Hidden {
    let Hidepid { level, except, .. } = Hidepid::read(Path::new("/proc"), Path::new("/proc"));
    level.map_or(Hidden::Nothing, |_| Hidden::Others { except })
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot {what}: {error}"))
}

/// Executes the requests that arrive on standard input.
pub fn user_worker(args: &UserWorkerArgs) -> Result<Exit, Failure> {
    let user =
        args.uid.map(|uid| User { uid, gid: args.gid.unwrap_or(uid), groups: args.groups.clone() });
    let input = std::io::stdin().as_fd().try_clone_to_owned();
    let socket = input.map(UnixStream::from).map_err(|error| worker_failed(&error))?;
    if socket.peer_addr().is_err() {
        let why = "`user-worker` is started by the daemon, with a socket as its standard input";
        return Err(Failure::usage(why.to_owned()));
    }
    if args.launcher {
        launcher::run(socket, user.as_ref()).map_err(|error| worker_failed(&error))?;
        return Ok(Exit::Ok);
    }
    let role = if args.reader { WorkerRole::Reader } else { WorkerRole::Actor };
    main::run(socket, user.as_ref(), role).map_err(|error| worker_failed(&error))?;
    Ok(Exit::Ok)
}

fn worker_failed(error: &std::io::Error) -> Failure {
    Failure::failed(format!("the user worker failed: {error}"))
}
