//! The remote protocol itself, without gdb: interrupts, and the end of what serves it.

use super::debuggee::Debuggee;
use crate::deadline::until;
use crate::served::{Served, monitor};
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// `monitor gdb --serve`, and what it has sent.
struct Stub {
    child: Child,
    input: ChildStdin,
    bytes: Receiver<u8>,
}

impl Stub {
    fn start(service: &Served, program: &Debuggee) -> Self {
        let mut command = monitor();
        command.env("MONITOR_SOCKET", service.socket());
        command.args(["gdb", "--serve", &program.pid().to_string()]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, bytes) = channel();
        let _reader = std::thread::spawn(move || {
            let mut byte = [0];
            while output.read(&mut byte).is_ok_and(|read| read == 1) && sender.send(byte[0]).is_ok()
            {
            }
        });
        let mut it = Self { child, input, bytes };
        assert_eq!(it.ask("QStartNoAckMode"), "OK");
        it
    }

    fn send(&mut self, data: &str) {
        let sum = data.bytes().fold(0_u8, u8::wrapping_add);
        self.input.write_all(format!("${data}#{sum:02x}").as_bytes()).unwrap();
        self.input.flush().unwrap();
    }

    /// The data of the next packet.
    fn packet(&mut self) -> String {
        let mut text = String::new();
        until(|| {
            text.extend(self.bytes.try_iter().map(char::from));
            let data = text.split_once('$').and_then(|it| it.1.split_once('#'));
            data.filter(|it| it.1.len() >= 2).map(|it| it.0.to_owned())
        })
    }

    fn ask(&mut self, data: &str) -> String {
        self.send(data);
        self.packet()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills the user workers of a service.
fn kill_workers(service: &Served) {
    let parent = service.pid().to_string();
    let workers = Command::new("pgrep").args(["-P", &parent, "-f", "user-worker"]).output();
    let workers = workers.unwrap();
    for pid in String::from_utf8(workers.stdout).unwrap().split_whitespace() {
        assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
    }
}

#[test]
fn root_a_system_call_is_made_when_the_user_worker_ends_before_it() {
    let service = Served::start("auto");
    let mut program = Debuggee::start("reads");
    let mut stub = Stub::start(&service, &program);
    assert_eq!(stub.ask("QCatchSyscalls:1;0"), "OK");
    let stop = stub.ask("vCont;c");
    assert!(stop.starts_with("T05") && stop.contains("syscall_entry:00;"), "{stop}");
    kill_workers(&service);
    until(|| (!program.is_traced() && program.state() == 'S').then_some(()));
    program.write(b"x");
    assert_eq!(program.ended().code(), Some(0));
}

#[test]
fn root_an_interrupt_stops_all_threads_at_once() {
    let service = Served::start("auto");
    let program = Debuggee::start("threads");
    let mut stub = Stub::start(&service, &program);
    assert!(stub.ask("?").starts_with("T00thread:"));
    for _ in 0..23 {
        stub.send("vCont;c");
        stub.input.write_all(&[3]).unwrap();
        stub.input.flush().unwrap();
        assert!(stub.packet().starts_with("T02thread:"));
        assert_eq!(stub.ask("qfThreadInfo").matches(',').count(), 3);
    }
    drop(stub);
    until(|| (!program.is_traced() && program.state() != 't').then_some(()));
}

#[test]
fn root_the_end_of_a_user_worker_ends_the_session_with_its_reason() {
    let service = Served::start("auto");
    let program = Debuggee::start("calls 0");
    let mut stub = Stub::start(&service, &program);
    stub.send("vCont;c");
    kill_workers(&service);
    let status = until(|| stub.child.try_wait().unwrap());
    let mut said = String::new();
    let _bytes = stub.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!status.success() && said.contains("runs on without breakpoints"), "{said}");
    until(|| (!program.is_traced()).then_some(()));
}
