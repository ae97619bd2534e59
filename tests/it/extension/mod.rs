//! The services with a prefix, on real processes.

mod alarm;
mod counter;
mod diag;
mod disk;
mod external_service;
mod monitor;

use crate::probe::fixture::Build;
use crate::root::workload::Guarded;
use crate::served::Served;
use crate::socket_session::SocketSession;
use std::process::Command;

/// `calls.c`, running; nothing, where there is no compiler.
pub fn caller(test: &str) -> Option<Guarded> {
    let words = ["-O1", "-fno-builtin"];
    let path = Build { test, source: "calls.c", product: "calls", words: &words }.done()?;
    let mut program = Guarded::run(&mut Command::new(path));
    assert_eq!(program.line(), "ready");
    Some(program)
}

/// A tool that observes these.
pub fn tool(served: &Served, pids: &[u32]) -> SocketSession {
    let mut talk = served.connect();
    for pid in pids {
        assert_eq!(talk.request(&format!("1 [0] attach([{pid}])")), "1 [0] attach(0)");
    }
    talk
}

/// Every one of these is done.
#[track_caller]
pub fn done(talk: &mut SocketSession, requests: &[&str]) {
    for request in requests {
        let reply = talk.request(request);
        let id = request.split(' ').next().unwrap();
        assert!(reply.starts_with(&format!("{id} [0] ")) && reply.contains("(0"), "{reply}");
    }
}
