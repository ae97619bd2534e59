//! The front: accepts tools and hosts, and passes each tool to the worker of its user.

use super::packet::{self, Packet};
use super::registry::{Registry, accept_hosts, lock};
use crate::libpmix::owner_of_peer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most workers at a time: one for each user.
const WORKERS: usize = 64;
/// Most connections that are kept open for a worker, after they woke it.
const KEPT: usize = 16;
/// How long a worker may take to end by itself.
const ENDS: Duration = Duration::from_secs(2);
/// How long a worker may take to begin.
const BEGINS: Duration = Duration::from_secs(10);
/// How long to wait where no connection can be accepted.
const AGAIN: Duration = Duration::from_millis(100);

/// The process that serves the tools of one user.
struct Worker {
    child: Child,
    socket: Option<OwnedFd>,
    port: u16,
    /// The last connections that woke its library: the kernel names their owner until they are
    /// closed.
    woke: VecDeque<TcpStream>,
}

type Workers = Arc<Mutex<BTreeMap<u32, Worker>>>;

fn locked(workers: &Workers) -> MutexGuard<'_, BTreeMap<u32, Worker>> {
    workers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves until the process ends: hosts at one socket, tools at the other. The function makes the
/// command of a worker of a user; its standard input is then its socket to the front.
///
/// # Errors
/// If a socket or a thread cannot be had.
pub fn serve(
    tools: &TcpListener,
    hosts: UnixListener,
    command: fn(u32) -> Command,
) -> io::Result<()> {
    let registry = Arc::new(Mutex::new(Registry::default()));
    let workers = Workers::default();
    let (of_hosts, known) = (Arc::clone(&workers), Arc::clone(&registry));
    accept_hosts(hosts, Arc::clone(&registry), move |uid| {
        let mut workers = locked(&of_hosts);
        // A worker that is not there needs no list; root has all jobs in its own.
        workers.retain(|user, it| (*user != uid && *user != 0) || it.inform(*user, &known));
    })?;
    loop {
        let Ok((tool, _)) = tools.accept() else {
            // No descriptor is free, or the tool has gone.
            std::thread::sleep(AGAIN);
            continue;
        };
        // One that has gone already has no owner.
        let Some(uid) = owner_of_peer(&tool) else { continue };
        let mut workers = locked(&workers);
        if let Err(error) = pass(&mut workers, (uid, &registry), tool, command) {
            tracing::warn!(%error, uid, "a tool is not served");
        }
    }
}

/// Passes a tool to the worker of its user, which is started if there is none, or if it has ended.
fn pass(
    workers: &mut BTreeMap<u32, Worker>,
    (uid, registry): (u32, &Mutex<Registry>),
    tool: TcpStream,
    command: fn(u32) -> Command,
) -> io::Result<()> {
    let packet = Packet::Connection(tool.into());
    workers.retain(|_, it| it.child.try_wait().is_ok_and(|ended| ended.is_none()));
    if let Some(worker) = workers.get_mut(&uid)
        && worker.send(&packet).and_then(|()| worker.wake()).is_ok()
    {
        return Ok(());
    }
    workers.remove(&uid);
    if workers.len() >= WORKERS {
        return Err(io::Error::other("all workers have users"));
    }
    let mut worker = Worker::start(uid, command(uid))?;
    if !worker.inform(uid, registry) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    worker.send(&packet)?;
    worker.wake()?;
    workers.insert(uid, worker);
    Ok(())
}

impl Worker {
    fn start(uid: u32, mut command: Command) -> io::Result<Self> {
        let (socket, of_worker) = packet::pair()?;
        let mut child = command.stdin(of_worker).spawn()?;
        // The command keeps its end, of which the worker has a copy.
        drop(command);
        let port = receive_port(&socket);
        match port {
            Ok(port) => {
                tracing::debug!(uid, port, "worker");
                Ok(Self { child, socket: Some(socket), port, woke: VecDeque::new() })
            }
            Err(error) => {
                let _ended = child.kill();
                let _ended = child.wait();
                Err(error)
            }
        }
    }

    /// Sends it the jobs that the user may know; whether it reads them.
    fn inform(&self, uid: u32, registry: &Mutex<Registry>) -> bool {
        let jobs = lock(registry).of_user(uid).into_iter().map(Packet::Job);
        let mut packets = std::iter::once(Packet::Begin).chain(jobs).chain([Packet::Complete]);
        packets.all(|it| self.send(&it).is_ok())
    }

    /// The library of the worker accepts what was sent when a connection comes at its own socket.
    fn wake(&mut self) -> io::Result<()> {
        self.woke.push_back(TcpStream::connect(("127.0.0.1", self.port))?);
        if self.woke.len() > KEPT {
            self.woke.pop_front();
        }
        Ok(())
    }

    fn send(&self, packet: &Packet) -> io::Result<()> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        packet::send(socket, packet)
    }
}

/// Its tools lose their connections, and may come again. It ends with its socket.
impl Drop for Worker {
    fn drop(&mut self) {
        self.socket = None;
        let ends = |child: &mut Child| child.try_wait().is_ok_and(|ended| ended.is_some());
        let until = Instant::now() + ENDS;
        while !ends(&mut self.child) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn receive_port(socket: &OwnedFd) -> io::Result<u16> {
    let limit = Timespec::try_from(BEGINS).map_err(io::Error::other)?;
    if poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&limit))? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    match packet::receive(socket)? {
        Some(Packet::Port(port)) => Ok(port),
        _ => Err(io::Error::other("the worker has ended")),
    }
}
