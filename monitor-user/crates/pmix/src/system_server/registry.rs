//! The jobs that hosts have registered.
//!
//! In: connections at the socket for hosts, each with a line. Out: jobs with the user that the
//! kernel names. A job is there as long as its connection.

use crate::registration::RegisteredJob;
use procfs::net::{TcpNetEntry, TcpState};
use rustix::net::sockopt::socket_peercred;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most jobs of one user.
const OF_USER: usize = 64;
/// Most jobs.
const MOST: usize = 1024;
/// How long a host may take to send its line.
const LINE_TIME: Duration = Duration::from_secs(10);
/// Longest line, bytes.
const LONGEST: u64 = 4096;
/// How long to wait where no connection can be accepted.
const AGAIN: Duration = Duration::from_millis(100);

/// The connections of hosts, with the jobs of those that have sent their line.
#[derive(Default)]
pub struct Registry {
    next: u64,
    all: Vec<(u64, u32, Option<RegisteredJob>)>,
}

impl Registry {
    /// The jobs that a user may know: its own ones; for root, all.
    pub fn of_user(&self, uid: u32) -> Vec<RegisteredJob> {
        let jobs = self.all.iter().filter_map(|(.., job)| job.as_ref());
        jobs.filter(|it| uid == 0 || it.uid == uid).cloned().collect()
    }

    /// A place for a connection of a user; none if the user, or all of them, have too many.
    fn add(&mut self, uid: u32) -> Option<u64> {
        let of_user = self.all.iter().filter(|(_, owner, _)| *owner == uid).count();
        if self.all.len() >= MOST || of_user >= OF_USER {
            return None;
        }
        self.next += 1;
        self.all.push((self.next, uid, None));
        Some(self.next)
    }

    /// Adds the job of a connection, unless another user has one of this name, which root could not
    /// tell apart; whether it did.
    fn set(&mut self, place: u64, job: RegisteredJob) -> bool {
        let is_taken = |it: &RegisteredJob| it.namespace == job.namespace && it.uid != job.uid;
        if self.all.iter().any(|(.., it)| it.as_ref().is_some_and(is_taken)) {
            return false;
        }
        let of_place = self.all.iter_mut().find(|(it, ..)| *it == place);
        of_place.is_some_and(|(.., of_place)| of_place.replace(job).is_none())
    }

    fn remove(&mut self, place: u64) {
        self.all.retain(|(it, ..)| *it != place);
    }
}

/// Whether a process of this user listens at the port of a URI: root's tools connect to it.
fn listens_at(uid: u32, uri: &str) -> bool {
    let port = uri.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let is_it = |it: TcpNetEntry| {
        it.state == TcpState::Listen && Some(it.local_address.port()) == port && it.uid == uid
    };
    procfs::net::tcp().is_ok_and(|all| all.into_iter().any(is_it))
}

/// The registry, which threads change.
pub fn lock(registry: &Mutex<Registry>) -> MutexGuard<'_, Registry> {
    registry.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Accepts hosts, on a thread; calls the function with the user at each change.
///
/// # Errors
/// If no thread can be started.
pub fn accept_hosts(
    listener: UnixListener,
    registry: Arc<Mutex<Registry>>,
    changed: impl Fn(u32) + Clone + Send + 'static,
) -> io::Result<()> {
    std::thread::Builder::new().name("hosts".into()).spawn(move || {
        loop {
            let Ok((stream, _)) = listener.accept() else {
                // No descriptor is free.
                std::thread::sleep(AGAIN);
                continue;
            };
            let Ok(peer) = socket_peercred(&stream) else { continue };
            let uid = peer.uid.as_raw();
            let Some(place) = lock(&registry).add(uid) else { continue };
            let (of_thread, changed) = (Arc::clone(&registry), changed.clone());
            let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).unwrap_or(0);
            let started = std::thread::Builder::new().spawn(move || {
                let job = read(&stream).ok().filter(RegisteredJob::is_plain);
                let job = job.filter(|job| listens_at(uid, &job.uri));
                let add = |job| lock(&of_thread).set(place, RegisteredJob { uid, pid, ..job });
                if job.is_some_and(add) {
                    changed(uid);
                    // Until the host has ended.
                    let _ended = (&stream).read(&mut [0]);
                }
                lock(&of_thread).remove(place);
                changed(uid);
            });
            if started.is_err() {
                lock(&registry).remove(place);
            }
        }
    })?;
    Ok(())
}

fn read(stream: &UnixStream) -> io::Result<RegisteredJob> {
    let mut line = String::new();
    stream.set_read_timeout(Some(LINE_TIME))?;
    BufReader::new(stream).take(LONGEST).read_line(&mut line)?;
    stream.set_read_timeout(None)?;
    Ok(serde_json::from_str(&line)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_knows_its_own_jobs_and_fills_no_place_of_others() {
        let mut registry = Registry::default();
        let job = |uid| RegisteredJob {
            uid,
            namespace: format!("monitor-{uid}"),
            uri: String::new(),
            command: String::new(),
            pid: 0,
        };
        for uid in [7, 8] {
            let place = registry.add(uid).unwrap();
            assert!(registry.set(place, job(uid)));
        }
        let place = registry.add(8).unwrap();
        assert!(!registry.set(place, RegisteredJob { uid: 8, ..job(7) }), "that of user 7");
        registry.remove(place);
        assert_eq!(registry.of_user(7), [job(7)]);
        assert_eq!(registry.of_user(0).len(), 2);
        while registry.add(7).is_some() {}
        assert_eq!(registry.all.len(), OF_USER + 1);
        assert!(registry.add(9).is_some());
    }
}
