//! A worker: the library, for the tools of one user. It answers queries alone; the library itself
//! refuses what has no function in its server module.

use super::packet::{self, Packet};
use crate::attribute::{Attribute, Datum, ProcName, find};
use crate::host::SERVER;
use crate::kind;
use crate::libpmix::{self, PmixError, Reply, Server, set_queue};
use crate::registration::RegisteredJob;
use crate::rendezvous;
use crate::status;
use crate::upcall::Upcall;
use monitor_control::job_folder::JobFolder;
use monitor_model::Pid;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::unbounded_channel;

/// How long it stays without a tool.
const IDLE: Duration = Duration::from_secs(60);
/// How often it is seen whether it has one.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The jobs that the tools may know.
type Jobs = Arc<Mutex<Vec<RegisteredJob>>>;

/// Serves tools until the front ends, which is at the other end of the standard input. Call it
/// before there is another thread.
///
/// # Errors
/// If the library is not installed, or cannot make its sockets and files.
pub fn work(temporary: &Path, host: &str) -> Result<(), PmixError> {
    let failed = |error: io::Error| PmixError::NotOpened { why: error.to_string() };
    let own = rustix::process::getpid().as_raw_nonzero().get().cast_unsigned();
    // Another user may have made a folder with a name that can be guessed.
    let name = format!("rendezvous-{own}-{:016x}", RandomState::new().hash_one(()));
    let folder = JobFolder::create(temporary, &name).map_err(failed)?;
    let (queue, mut upcalls) = unbounded_channel();
    set_queue(queue);
    let server = Server::start_discovery(&crate::host::server_attributes(folder.path()))?;
    let uid = rustix::process::geteuid().as_raw();
    let found = rendezvous::read(folder.path(), host, Pid(own), uid);
    let uri = found.map_err(|error| failed(io::Error::other(error)))?.uri;
    let port = uri.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0);
    libpmix::accept_passed();
    packet::send(std::io::stdin(), &Packet::Port(port)).map_err(failed)?;
    let jobs = Jobs::default();
    let of_reader = Arc::clone(&jobs);
    let path = folder.path().to_owned();
    let leave = move || {
        // The library may wait for ever at its end, for a tool.
        let _left = std::fs::remove_dir_all(&path);
        std::process::exit(0);
    };
    let (connected, mut tools) = (Arc::new(AtomicU32::new(0)), 0u32);
    let (idle_leave, seen) = (leave.clone(), Arc::clone(&connected));
    let thread = std::thread::Builder::new().spawn(move || {
        wait_for_idle(&seen);
        idle_leave();
    });
    thread.map_err(failed)?;
    let thread = std::thread::Builder::new().spawn(move || {
        // A malformed packet is none of the front.
        let _ended = read(&of_reader);
        leave();
    });
    thread.map_err(failed)?;
    while let Some(upcall) = upcalls.blocking_recv() {
        match upcall {
            Upcall::Query(queries, reply) => answer(&jobs, &queries, reply),
            Upcall::ToolConnected(_, reply) => {
                tools += 1;
                connected.fetch_add(1, Ordering::Relaxed);
                let nspace = format!("{SERVER}.tool.{tools}");
                reply.admitted(&ProcName { nspace, rank: 0 });
            }
            Upcall::Left(_) => {
                // One that left while it connected was not counted.
                let less = |count: u32| count.checked_sub(1);
                let _none = connected.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            }
            // Replies that are dropped say that it failed.
            _ => {}
        }
    }
    drop(server);
    Ok(())
}

/// Returns when no tool has been connected for a while.
fn wait_for_idle(connected: &AtomicU32) {
    let mut since = Instant::now();
    while since.elapsed() < IDLE {
        std::thread::sleep(LOOK_AGAIN);
        if connected.load(Ordering::Relaxed) > 0 {
            since = Instant::now();
        }
    }
}

/// Takes what the front sends, until it ends.
fn read(jobs: &Jobs) -> io::Result<()> {
    let mut next = Vec::new();
    while let Some(packet) = packet::receive(std::io::stdin().as_fd())? {
        match packet {
            Packet::Connection(connection) => libpmix::add_passed(connection),
            Packet::Begin => next.clear(),
            Packet::Job(job) => next.push(job),
            Packet::Complete => {
                *jobs.lock().unwrap_or_else(PoisonError::into_inner) = std::mem::take(&mut next);
            }
            Packet::Port(_) => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Ok(())
}

fn answer(jobs: &Jobs, queries: &[(Vec<String>, Vec<Attribute>)], reply: Reply) {
    let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let asked: usize = queries.iter().map(|(keys, _)| keys.len()).sum();
    let mut found = Vec::new();
    for (keys, qualifiers) in queries {
        let nspace = find(qualifiers, "pmix.nspace").and_then(Datum::as_str);
        found.extend(keys.iter().filter_map(|key| one(&jobs, key, nspace)));
    }
    let status = match found.len() {
        0 => status::NOT_FOUND,
        n if n < asked => status::PARTIAL_SUCCESS,
        _ => status::SUCCESS,
    };
    reply.attributes(status, &found);
}

/// The answer to a key; about one namespace, if it is named.
fn one(jobs: &[RegisteredJob], key: &str, nspace: Option<&str>) -> Option<Attribute> {
    let meant: Vec<&RegisteredJob> =
        jobs.iter().filter(|job| nspace.is_none_or(|it| it == job.namespace)).collect();
    let value = match key {
        "pmix.qry.ns" => {
            let names: Vec<&str> = meant.iter().map(|it| it.namespace.as_str()).collect();
            Datum::text(&names.join(","))
        }
        "pmix.qry.nsinfo" => array(&meant, "pmix.nsinfo", |job| {
            vec![
                Attribute::new("pmix.nspace", Datum::text(&job.namespace)),
                Attribute::new("pmix.cmd.line", Datum::text(&job.command)),
                Attribute::new("pmix.euid", Datum::Number(kind::UINT32, job.uid.into())),
            ]
        }),
        "pmix.srvr.uri" => Datum::text(&meant.first()?.uri),
        _ => return None,
    };
    Some(Attribute::new(key, value))
}

fn array(
    jobs: &[&RegisteredJob],
    key: &str,
    of_job: impl Fn(&RegisteredJob) -> Vec<Attribute>,
) -> Datum {
    let one = |job: &&RegisteredJob| Attribute::new(key, Datum::Attributes(of_job(job)));
    Datum::Attributes(jobs.iter().map(one).collect())
}
