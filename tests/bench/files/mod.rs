//! The files over 9P: readers that wait, a stream through a session, and the start of a program.
//! `MONITOR_BENCH_BYTES` sets the bytes of the stream.

mod connection;
mod exec;
mod readers;
mod service;
mod stream;

pub use exec::serve_as_program;

use service::Service;

/// Runs all measurements.
pub fn run() {
    let service = Service::start();
    readers::run(&service);
    exec::run(&service);
    stream::run(&service);
}
