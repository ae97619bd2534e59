//! 512 readers that wait for one event: how soon all have it, beside 512 threads that read a pipe
//! each, and what the service does while they wait.

use super::connection::Connection;
use super::service::Service;
use crate::measure::median;
use crate::verdict::{Bar, line};
use monitor_ninep::Request;
use std::io::{Read as _, Write as _};
use std::sync::mpsc::channel;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const READERS: usize = 512;
/// Connections that have them.
const CONNECTIONS: usize = 8;
const ROUNDS: usize = 9;
/// Tags of reads that wait follow it; `Connection::ask` has one below.
const FIRST_TAG: u16 = 100;
/// How long nothing happens.
const IDLE: Duration = Duration::from_secs(10);

pub fn run(service: &Service) {
    let mut admin = service.connect();
    // Nothing is asked meanwhile.
    admin.put("nodes/ctl", "set interval 3600000\n");
    // Also a service that serves no reader wakes up for its own timers.
    let before = idle_switches(service.pid());
    let waiting = wait_all(service);
    let with_readers = idle_switches(service.pid());
    drop(waiting);
    let what = "wake-ups in 10 s by 512 readers that wait";
    line(what, with_readers - before, "", Bar::AtMost(10.0));
    let (mut files, mut pipes) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        pipes.push(pipe_round());
        files.push(files_round(service, &mut admin, round));
    }
    let (files, pipes) = (median(files), median(pipes));
    line("512 threads that read a pipe each: all have a byte", pipes, "ms", Bar::None);
    let bar = Bar::AtMost((2.0 * pipes + 10.0).round());
    line("512 readers of nodes/changes: all have the event", files, "ms", bar);
}

/// Connections with readers of what is next, each of which waits for its reply.
fn wait_all(service: &Service) -> Vec<Connection> {
    let mut connections: Vec<Connection> = (0..CONNECTIONS).map(|_| service.connect()).collect();
    for it in &mut connections {
        for fid in 1..=(READERS / CONNECTIONS) as u32 {
            it.open(fid, "nodes/changes", 0);
            it.send(FIRST_TAG + fid as u16, &Request::Read { fid, offset: 0, count: 8000 });
        }
    }
    connections
}

/// From an event to the last reader that has it, in milliseconds.
fn files_round(service: &Service, admin: &mut Connection, round: usize) -> f64 {
    let (woken, wakes) = channel();
    for mut it in wait_all(service) {
        let woken = woken.clone();
        spawn(move || {
            (0..READERS / CONNECTIONS).for_each(|_| _ = it.reply());
            woken.send(Instant::now()).unwrap();
        });
    }
    sleep(Duration::from_millis(200));
    let began = Instant::now();
    admin.put("nodes/ctl", &format!("add r{round}=/nonexistent.9p\n"));
    let last = (0..CONNECTIONS).map(|_| wakes.recv().unwrap()).max().unwrap();
    (last - began).as_secs_f64() * 1e3
}

/// How often threads of a process slept and woke up while nothing happened.
fn idle_switches(pid: u32) -> f64 {
    let count = || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let of = |task: std::io::Result<std::fs::DirEntry>| {
            let text = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
            let line = text.lines().find(|it| it.starts_with("voluntary_ctxt_switches"))?;
            line.split_whitespace().nth(1)?.parse::<f64>().ok()
        };
        tasks.filter_map(of).sum::<f64>()
    };
    sleep(Duration::from_secs(1));
    let before = count();
    sleep(IDLE);
    count() - before
}

/// From a byte for each of as many pipes to the last thread that has read it, in milliseconds.
fn pipe_round() -> f64 {
    let (woken, wakes) = channel();
    let mut writers = Vec::new();
    for _ in 0..READERS {
        let (mut reader, writer) = std::io::pipe().unwrap();
        writers.push(writer);
        let woken = woken.clone();
        spawn(move || {
            reader.read_exact(&mut [0]).unwrap();
            woken.send(Instant::now()).unwrap();
        });
    }
    sleep(Duration::from_millis(200));
    let began = Instant::now();
    for it in &mut writers {
        it.write_all(&[1]).unwrap();
    }
    let last = (0..READERS).map(|_| wakes.recv().unwrap()).max().unwrap();
    (last - began).as_secs_f64() * 1e3
}
