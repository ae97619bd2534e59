//! The process as gdb sees it: all its threads are stopped, or they run.
//!
//! ```text
//!  gdb: continue, step --> run() --> continue_threads, step --> events --> take_event()
//!                                                                 |
//!  gdb: stop reply <-- take_due() <-- a stop that gdb must see <--/ else run() again
//! ```
//!
//! In: what gdb wants of threads, and notices of events. Out: stops to report. Every event has
//! stopped all threads before its notice arrives. A stop that is not reported, because gdb knows of
//! another one already, is kept until gdb continues. `stops` decides what is reported, and `resume`
//! how threads continue.

mod exec;
mod resume;
mod stops;

use crate::breakpoints::Breakpoints;
use crate::caught_calls::{CallEnd, CaughtCalls};
use crate::files::Files;
use crate::registers::{FLOAT_BYTES, Images};
use crate::session::{CallError, Session};
use crate::thread_locals::ThreadLocals;
use crate::watchpoints::{Watched, Watchpoints};
use gdbstub::common::Tid;
use gdbstub::stub::MultiThreadStopReason;
use monitor_omis::{Status, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

/// A stop as it is reported to gdb.
pub type StopReason = MultiThreadStopReason<u64>;

/// A process that gdb debugs.
pub struct Debuggee {
    /// The session with the monitor.
    pub session: Session,
    /// The breakpoints.
    pub breakpoints: Breakpoints,
    /// The watchpoints that gdb has inserted.
    pub watchpoints: Watchpoints,
    /// What gdb wants of threads when it continues them.
    pub resumption: Resumption,
    /// The thread that gdb has asked about last.
    pub current: u32,
    /// The files that gdb reads.
    pub files: Files,
    /// What finds thread-local variables.
    pub thread_locals: ThreadLocals,
    /// The system calls that stop the program.
    pub calls: CaughtCalls,
    /// Whether gdb wants to see that the process executes another program.
    pub reports_exec: bool,
    /// Whether thread ids have the process id in front.
    pub names_processes: bool,
    /// Signals that the program takes without a stop.
    passed: BTreeSet<i32>,
    /// The number of the last stop.
    stop: u64,
    is_running: bool,
    /// The threads, while they are stopped.
    threads: Option<Vec<ThreadName>>,
    images: BTreeMap<u32, Images>,
    /// The requests for a step, by thread.
    steps: BTreeMap<u32, u64>,
    /// The signals that threads are about to take.
    signals: BTreeMap<u32, i32>,
    pending: VecDeque<Stop>,
    due: Option<StopReason>,
    /// Threads whose step another tool, or a stop, has prevented.
    prevented: BTreeSet<u32>,
    retry_at: Option<Instant>,
    has_avx: bool,
    catch: u64,
    /// The signals of that request; none before the first, all of them if empty.
    caught: Option<Vec<i32>>,
    end: u64,
    exec: u64,
    /// The stop that is due is that of `exec`.
    is_at_exec: bool,
}

/// A thread id and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadName {
    /// The thread id.
    pub tid: u32,
    /// The name.
    pub name: Vec<u8>,
}

/// What gdb wants of threads when it continues them.
#[derive(Clone, Debug, Default)]
pub struct Resumption {
    /// Threads to continue, where only some do.
    pub continued: Vec<u32>,
    /// Threads to step; of a range, until they leave it.
    pub stepped: Vec<(u32, Option<(u64, u64)>)>,
    /// The signals that threads take, by their number here.
    pub signals: BTreeMap<u32, i32>,
    /// Whether all other threads stay stopped.
    pub is_locked: bool,
}

/// Why threads have stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Breakpoint { tid: u32, pc: u64 },
    Step { tid: u32, pc: u64 },
    Watch { tid: u32, watched: Watched },
    Signal { tid: u32, signal: i32 },
    Call { tid: u32, number: u64, end: CallEnd },
    Exec { tid: u32 },
    Ended { code: i64, signal: i64 },
}

impl Debuggee {
    /// Takes over a process: stops all its threads, and catches its signals and its end.
    ///
    /// # Errors
    /// If the monitor refuses it: a right is missing, or another debugger traces the process.
    pub fn attach(session: Session) -> Result<Self, CallError> {
        let pid = session.pid();
        let mut debuggee = Self {
            session,
            breakpoints: Breakpoints::default(),
            watchpoints: Watchpoints::default(),
            resumption: Resumption::default(),
            current: pid,
            files: Files::default(),
            thread_locals: ThreadLocals::default(),
            calls: CaughtCalls::default(),
            reports_exec: false,
            names_processes: false,
            has_avx: false,
            passed: BTreeSet::new(),
            stop: 0,
            is_running: false,
            threads: None,
            images: BTreeMap::new(),
            steps: BTreeMap::new(),
            signals: BTreeMap::new(),
            pending: VecDeque::new(),
            due: None,
            prevented: BTreeSet::new(),
            retry_at: None,
            catch: 0,
            caught: None,
            end: 0,
            exec: 0,
            is_at_exec: false,
        };
        debuggee.stop_all()?;
        debuggee.catch_signals()?;
        let session = &debuggee.session;
        let ended = format!("process_terminated([{pid}])");
        debuggee.end = session.define(&ended, &["print(REQUEST,$2,$3)"])?;
        session.enable(debuggee.end)?;
        let executed = format!("after_exec([{pid}])");
        debuggee.exec = session.watch(&executed, "print(REQUEST,$thread,0)")?;
        debuggee.current = debuggee.threads()?.first().map_or(pid, |it| it.tid);
        debuggee.has_avx = debuggee.images(debuggee.current)?.has_avx();
        Ok(debuggee)
    }

    /// Takes the stop that is to be reported to gdb, if there is one.
    pub fn take_due(&mut self) -> Option<StopReason> {
        self.due.take()
    }

    /// Whether its threads have AVX registers.
    pub const fn has_avx(&self) -> bool {
        self.has_avx
    }

    /// When `retry` is due.
    pub const fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// The threads, ascending by id.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn threads(&mut self) -> Result<Vec<ThreadName>, CallError> {
        if let Some(known) = self.threads.as_ref().filter(|_| !self.is_running) {
            return Ok(known.clone());
        }
        let listed = self.session.ask(&format!("list_threads({})", self.session.pid()))?;
        let listed = listed.first().and_then(Value::list).unwrap_or_default();
        let thread = |it: &Value| {
            let [tid, name] = it.list()? else { return None };
            Some(ThreadName { tid: tid.integer()?, name: name.text()?.as_bytes().to_vec() })
        };
        let threads: Vec<ThreadName> = listed.iter().filter_map(thread).collect();
        self.threads = Some(threads.clone());
        Ok(threads)
    }

    /// The registers of a stopped thread.
    ///
    /// # Errors
    /// If the thread has ended.
    pub fn images(&mut self, tid: u32) -> Result<&mut Images, CallError> {
        if !self.images.contains_key(&tid) {
            let thread = self.session.thread(tid);
            let general = self.bytes(&format!("read_int_image({thread})"))?;
            let float = self.bytes(&format!("read_fp_image({thread},{FLOAT_BYTES})"))?;
            let _none = self.images.insert(tid, Images { general, float });
        }
        Ok(self.images.get_mut(&tid).expect("it was read above"))
    }

    /// Writes the registers of a stopped thread that differ from these, which it had before.
    ///
    /// # Errors
    /// If the thread has ended.
    pub fn write_images(&mut self, tid: u32, before: &Images) -> Result<(), CallError> {
        let thread = self.session.thread(tid);
        let Some(images) = self.images.get_mut(&tid) else { return Ok(()) };
        if images.general != before.general {
            let bytes = binary(&images.general);
            let _done = self.session.ask(&format!("write_int_image({thread},{bytes})"))?;
        }
        if images.float != before.float {
            images.use_floats();
            let bytes = binary(&images.float);
            let _done = self.session.ask(&format!("write_fp_image({thread},{bytes})"))?;
        }
        Ok(())
    }

    /// The bytes at an address, up to the first page that is not mapped.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn read_memory(&self, address: u64, bytes: usize) -> Result<Vec<u8>, CallError> {
        let call = format!("read_memory({},{address},{bytes})", self.session.pid());
        match self.bytes(&call) {
            Err(CallError::Refused { status: Status::FAULT, results, .. }) => {
                let done = results.iter().find_map(Value::bytes);
                Ok(done.map(|it| it.into_owned()).unwrap_or_default())
            }
            other => other,
        }
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// If a part is not mapped, or the process has ended.
    pub fn write_memory(&self, address: u64, bytes: &[u8]) -> Result<(), CallError> {
        let pid = self.session.pid();
        self.session.ask(&format!("write_memory({pid},{address},{})", binary(bytes))).map(drop)
    }

    /// The bytes that a service returns.
    ///
    /// # Errors
    /// If it is refused.
    pub fn bytes(&self, call: &str) -> Result<Vec<u8>, CallError> {
        let results = self.session.ask(call)?;
        let bytes = results.first().and_then(Value::bytes).map(|it| it.into_owned());
        bytes.ok_or_else(|| CallError::Lost(format!("{call}: the result is not bytes")))
    }

    /// Kills the process.
    ///
    /// # Errors
    /// If the monitor refuses it.
    pub fn kill(&self) -> Result<(), CallError> {
        self.session.ask(&format!("kill([{}],9)", self.session.pid())).map(drop)
    }
}

/// The number of a stop, which `stop_threads` returns.
fn stop_number(results: &[Value]) -> Option<u64> {
    results.first()?.list()?.first()?.integer()
}

/// Thread ids are above 0.
pub fn thread_id(tid: u32) -> Tid {
    usize::try_from(tid).ok().and_then(Tid::new).unwrap_or(Tid::MIN)
}

/// Bytes as the request language writes them.
fn binary(bytes: &[u8]) -> Value {
    Value::Binary(bytes.to_vec().into())
}
