//! A stream through `cat` as the program of a session, from `stdin` to `stdout`, beside `cat`
//! between pipes, and beside a bare relay: a thread that does for one message what the service
//! does, without 9P.

use super::connection::Connection;
use super::service::Service;
use crate::verdict::{Bar, line};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::{scope, spawn};
use std::time::Instant;

/// Bytes of the stream, unless `MONITOR_BENCH_BYTES` is set.
const BYTES: usize = 1 << 30;
/// Bytes of a message.
const MESSAGE: usize = 60_000;
/// Bytes before the memory is read first: buffers have grown.
const WARM_UP: usize = 64 << 20;

pub fn run(service: &Service) {
    let bytes = std::env::var("MONITOR_BENCH_BYTES").ok().map(|it| it.parse().unwrap());
    let bytes: usize = bytes.unwrap_or(BYTES);
    let pipes = through_pipes(bytes);
    let relay = through_relay(bytes);
    through_session(service, WARM_UP.min(bytes));
    let before = resident(service.pid());
    let session = through_session(service, bytes);
    let grown = (resident(service.pid()) - before) / f64::from(1 << 20);
    let rate = |seconds: f64| bytes as f64 / f64::from(1 << 20) / seconds;
    line("cat between pipes", rate(pipes), "MiB/s", Bar::None);
    line("a bare relay of messages as large", rate(relay), "MiB/s", Bar::None);
    line("stdin and stdout of a session", rate(session), "MiB/s", Bar::None);
    let most = f64::INFINITY;
    line("session beside pipes", pipes / session, "x", Bar::Between(0.25, most));
    line("session beside the relay", relay / session, "x", Bar::Between(0.8, most));
    line("memory that the service has grown by", grown, "MiB", Bar::AtMost(8.0));
}

/// Writes and reads at a time; the seconds that it takes.
fn timed(
    bytes: usize,
    write: impl FnOnce() + Send,
    mut read: impl FnMut(usize) -> usize + Send,
) -> f64 {
    let began = Instant::now();
    scope(|threads| {
        threads.spawn(write);
        let mut all = 0;
        while all < bytes {
            let n = read(all);
            assert!(n > 0, "the stream ends after {all} bytes");
            all += n;
        }
    });
    began.elapsed().as_secs_f64()
}

fn cat() -> (Child, ChildStdin, ChildStdout) {
    let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (input, output) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
    (cat, input, output)
}

fn through_pipes(bytes: usize) -> f64 {
    let (mut cat, mut input, mut output) = cat();
    let (content, mut buffer) = (vec![7; MESSAGE], vec![0; MESSAGE]);
    let write = move || write_all(bytes, |n| input.write_all(&content[..n]).unwrap());
    let took = timed(bytes, write, |_| output.read(&mut buffer).unwrap());
    cat.wait().unwrap();
    took
}

fn write_all(bytes: usize, mut write: impl FnMut(usize)) {
    let mut rest = bytes;
    while rest > 0 {
        let n = rest.min(MESSAGE);
        write(n);
        rest -= n;
    }
}

/// Each message is a length and its bytes to the relay, and a byte back; each read is a byte to the
/// relay, and a length and bytes back.
fn through_relay(bytes: usize) -> f64 {
    let (mut cat, mut input, mut output) = cat();
    let (mut writer, mut from_writer) = UnixStream::pair().unwrap();
    let (mut reader, mut to_reader) = UnixStream::pair().unwrap();
    let relay_in = spawn(move || {
        let mut buffer = vec![0; MESSAGE];
        let mut length = [0; 4];
        while from_writer.read_exact(&mut length).is_ok() {
            let part = &mut buffer[..u32::from_le_bytes(length) as usize];
            from_writer.read_exact(part).unwrap();
            input.write_all(part).unwrap();
            from_writer.write_all(&[1]).unwrap();
        }
    });
    let relay_out = spawn(move || {
        let mut buffer = vec![0; MESSAGE + 4];
        while to_reader.read_exact(&mut [0]).is_ok() {
            let n = output.read(&mut buffer[4..]).unwrap();
            buffer[..4].copy_from_slice(&(n as u32).to_le_bytes());
            to_reader.write_all(&buffer[..n + 4]).unwrap();
        }
    });
    let mut message = vec![7; MESSAGE + 4];
    let write = move || {
        write_all(bytes, |n| {
            message[..4].copy_from_slice(&(n as u32).to_le_bytes());
            writer.write_all(&message[..n + 4]).unwrap();
            writer.read_exact(&mut [0]).unwrap();
        });
    };
    let mut buffer = vec![0; MESSAGE];
    let read = |_| {
        reader.write_all(&[1]).unwrap();
        let mut length = [0; 4];
        reader.read_exact(&mut length).unwrap();
        let n = u32::from_le_bytes(length) as usize;
        reader.read_exact(&mut buffer[..n]).unwrap();
        n
    };
    let took = timed(bytes, write, read);
    drop(reader);
    relay_in.join().unwrap();
    relay_out.join().unwrap();
    cat.wait().unwrap();
    took
}

fn through_session(service: &Service, bytes: usize) -> f64 {
    let mut control = service.connect();
    let at = service.session(&mut control);
    control.put(&format!("{at}/argv"), "cat");
    control.put(&format!("{at}/ctl"), "exec /bin/cat\n");
    let open = |name: &str, mode: u8| {
        let mut it: Connection = service.connect();
        it.open(2, &format!("{at}/{name}"), mode);
        it
    };
    let (mut input, mut output) = (open("stdin", 1), open("stdout", 0));
    let content = vec![7; MESSAGE];
    let write = move || write_all(bytes, |n| input.write(2, &content[..n]));
    let took = timed(bytes, write, |at| output.read(2, at as u64).len());
    control.put(&format!("{at}/ctl"), "wipe\n");
    took
}

/// Resident memory of a process, in bytes.
fn resident(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: f64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as f64
}
