//! The remote protocol on standard input and output, between gdb and a debuggee.
//!
//! ```text
//!  gdb --bytes--> reader thread --\                      /--> own_packets
//!                                  >-- one queue --> serve --> gdbstub --> Debuggee --> monitor
//!  monitor --notices--------------/
//! ```
//!
//! In: bytes of gdb, notices of the monitor. Out: packets. It ends with gdb, with the process, or
//! when the monitor is gone, which it says.

use crate::debuggee::Debuggee;
use crate::own_packets;
use crate::packet::{self, Item, Splitter};
use crate::session::{CallError, Notice, Session};
use gdbstub::conn::Connection;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{GdbStub, GdbStubError};
use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use thiserror::Error;

/// Bytes of the longest packet in both directions; gdb reads memory in pieces of that size.
const PACKET_BYTES: usize = 16 << 10;

/// Why the session with gdb has ended before its time.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The monitor refuses the process, or is gone.
    #[error("{0}")]
    Session(#[from] CallError),
    /// gdb is gone, or sends what is no packet.
    #[error("the connection to gdb: {0}")]
    Connection(String),
}

/// What arrives.
enum Input {
    Bytes(Vec<u8>),
    Eof,
    Notice(Notice),
}

/// Serves gdb on standard input and output until it disconnects or the process ends. The monitor
/// listens on this socket, or on the usual one.
///
/// # Errors
/// If the monitor refuses the process, or one of the connections is lost.
pub fn serve(socket: Option<&Path>, pid: u32) -> Result<(), ServeError> {
    let (sender, receiver) = channel();
    let notices = Mutex::new(sender.clone());
    let notify = Arc::new(move |notice| {
        let sender = notices.lock().unwrap_or_else(PoisonError::into_inner);
        // Fails only when this function has returned.
        let _ended = sender.send(Input::Notice(notice));
    });
    let session = Session::connect(socket, pid, notify)?;
    let debuggee = Debuggee::attach(session)?;
    // Not before: what gdb sends waits in the pipe until the process is stopped.
    let _reader = std::thread::Builder::new()
        .name("gdb".into())
        .spawn(move || read_gdb(&sender))
        .map_err(|error| ServeError::Connection(error.to_string()))?;
    Server { debuggee, splitter: Splitter::default(), items: VecDeque::new(), acks: true }
        .run(&receiver)
}

fn read_gdb(sender: &Sender<Input>) {
    let mut input = io::stdin().lock();
    let mut chunk = [0; 4096];
    loop {
        let next = match input.read(&mut chunk) {
            Ok(0) => Input::Eof,
            Ok(read) => Input::Bytes(chunk[..read].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => Input::Eof,
        };
        let is_last = matches!(next, Input::Eof);
        if sender.send(next).is_err() || is_last {
            return;
        }
    }
}

/// What is sent to gdb: whole packets.
#[derive(Default)]
struct Output {
    packet: Vec<u8>,
    /// What the next packet has behind its data.
    more: Option<String>,
}

type Machine = GdbStubStateMachine<'static, Debuggee, Output>;
type StubError = GdbStubError<CallError, io::Error>;

struct Server {
    debuggee: Debuggee,
    splitter: Splitter,
    items: VecDeque<Item>,
    /// Whether each packet is acknowledged; gdb ends that soon.
    acks: bool,
}

impl Server {
    fn run(&mut self, receiver: &Receiver<Input>) -> Result<(), ServeError> {
        let stub = GdbStub::builder(Output::default()).packet_buffer_size(PACKET_BYTES).build();
        let stub = stub.map_err(|error| ServeError::Connection(error.to_string()))?;
        let mut machine = stub.run_state_machine(&mut self.debuggee).map_err(stub_error)?;
        loop {
            while let Some(item) = self.items.pop_front() {
                machine = self.take_item(machine, &item)?;
            }
            machine = self.report(machine)?;
            // What was stopped and set is undone when the connection to the monitor closes.
            if let GdbStubStateMachine::Disconnected(_) = machine {
                return Ok(());
            }
            match self.receive(receiver)? {
                Some(Input::Bytes(bytes)) => {
                    self.items.extend(bytes.into_iter().filter_map(|it| self.splitter.add(it)));
                }
                Some(Input::Eof) => return Ok(()),
                Some(Input::Notice(Notice::Event(reply))) => self.debuggee.take_event(&reply)?,
                Some(Input::Notice(Notice::Closed)) => {
                    let text = "the monitor has ended, and released the process".to_owned();
                    return Err(CallError::Lost(text).into());
                }
                None => self.debuggee.retry()?,
            }
        }
    }

    /// The next input; none, if a retry is due before.
    fn receive(&self, receiver: &Receiver<Input>) -> Result<Option<Input>, ServeError> {
        let gone = |_| ServeError::Connection("it is closed".to_owned());
        let Some(at) = self.debuggee.retry_at() else {
            return receiver.recv().map(Some).map_err(gone);
        };
        match receiver.recv_timeout(at.saturating_duration_since(Instant::now())) {
            Ok(input) => Ok(Some(input)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(ServeError::Connection("it is closed".to_owned()))
            }
        }
    }

    /// Passes an item to `gdbstub`, unless it is a packet of our own.
    fn take_item(&mut self, machine: Machine, item: &Item) -> Result<Machine, ServeError> {
        // gdb sends its packets while the process is stopped; a stop that is due comes first.
        let mut machine = self.report(machine)?;
        match item {
            Item::Interrupt => self.feed(machine, &[packet::INTERRUPT]),
            Item::Other(byte) => self.feed(machine, &[*byte]),
            Item::Packet(framed) => {
                let data = packet::data(framed);
                if let GdbStubStateMachine::Idle(idle) = &mut machine {
                    if let Some(reply) = own_packets::answer(&mut self.debuggee, data)? {
                        let ack: &[u8] = if self.acks { b"+" } else { b"" };
                        let sent =
                            idle.borrow_conn().send(&[ack, &packet::framed(&reply)].concat());
                        sent.map_err(|error| ServeError::Connection(error.to_string()))?;
                        return Ok(machine);
                    }
                    if data.starts_with(b"qSupported") {
                        let more = own_packets::features(&mut self.debuggee, data);
                        idle.borrow_conn().more = Some(more);
                    }
                    self.acks &= data != b"QStartNoAckMode";
                }
                self.feed(machine, framed)
            }
        }
    }

    fn feed(&mut self, mut machine: Machine, bytes: &[u8]) -> Result<Machine, ServeError> {
        for byte in bytes {
            let target = &mut self.debuggee;
            machine = match machine {
                GdbStubStateMachine::Idle(idle) => idle.incoming_data(target, *byte),
                GdbStubStateMachine::Running(running) => running.incoming_data(target, *byte),
                other => Ok(other),
            }
            .map_err(stub_error)?;
            if let GdbStubStateMachine::CtrlCInterrupt(interrupt) = machine {
                self.debuggee.interrupt()?;
                let none = None::<crate::debuggee::StopReason>;
                machine =
                    interrupt.interrupt_handled(&mut self.debuggee, none).map_err(stub_error)?;
            }
        }
        Ok(machine)
    }

    /// Reports a stop that is due.
    fn report(&mut self, machine: Machine) -> Result<Machine, ServeError> {
        let GdbStubStateMachine::Running(mut running) = machine else { return Ok(machine) };
        match self.debuggee.take_due() {
            Some(reason) => {
                running.borrow_conn().more = self.debuggee.take_stop_details();
                running.report_stop(&mut self.debuggee, reason).map_err(stub_error)
            }
            None => Ok(running.into()),
        }
    }
}

impl Output {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }
}

impl Connection for Output {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.packet.push(byte);
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.packet.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut packet = std::mem::take(&mut self.packet);
        if packet.contains(&b'$')
            && let Some(more) = self.more.take()
        {
            packet = packet::amended(&packet, &more).unwrap_or(packet);
        }
        self.send(&packet)
    }
}

fn stub_error(error: StubError) -> ServeError {
    if error.is_target_error()
        && let Some(error) = error.into_target_error()
    {
        return error.into();
    }
    ServeError::Connection("gdb has sent a packet that cannot be answered".to_owned())
}
