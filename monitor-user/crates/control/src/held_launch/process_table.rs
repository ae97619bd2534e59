//! Launchers whose ranks are no descendants of them, and which have a process table: Slurm's
//! `srun`, whose ranks are children of slurmstepd.
//!
//! ```text
//!  exec of srun: MPIR_being_debugged = 1, trap at MPIR_Breakpoint in each of its threads
//!  slurmstepd: leaves each task stopped by SIGSTOP at its exec; srun: fills the table
//!  srun calls MPIR_Breakpoint: the table is complete, and the tasks can be taken over
//!  MPIR_Breakpoint: has slurmstepd send SIGCONT to the tasks that no process traces
//!  srun returns from it: no SIGCONT follows, and the ranks can be stopped by a signal
//! ```
//!
//! In: a launcher that is stopped at its exec, and stops of its threads. Out: rows of its table.
//! A trap is a breakpoint of the processor, and what is written is a variable: if the tracer is
//! killed, srun passes the function and wakes all tasks. (The MPIR Process Acquisition Interface,
//! version 1.0; `debugger.c` and `pdebug.c` of Slurm.)

use super::begun_rank::TableRow;
use super::hold_error::HoldError;
use crate::ControlError;
use crate::machine::Registers;
use crate::memory;
use crate::process_ref::{ProcessRef, process_of};
use monitor_model::Pid;
use monitor_symbols::mapped_files;
use monitor_sys::perf_event;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The symbols, in the order of [`Addresses`].
const SYMBOLS: [&str; 4] =
    ["MPIR_being_debugged", "MPIR_Breakpoint", "MPIR_proctable", "MPIR_proctable_size"];
/// Most rows that are read, and bytes of a row: two pointers and an `int`.
const MOST_ROWS: usize = 1 << 18;
const ROW_BYTES: usize = 24;
/// Longest name of a node: 255 bytes (gethostname(2)) and the end.
const MOST_HOST_WORDS: u64 = 32;

/// The launchers that run, by pid.
#[derive(Default)]
pub struct TableLaunchers {
    processes: BTreeMap<i32, TableLauncher>,
}

struct TableLauncher {
    process: ProcessRef,
    addresses: Addresses,
    threads: BTreeMap<i32, ThreadTrap>,
    /// How many threads have to return from `MPIR_Breakpoint`, after the first one has called it.
    reports: usize,
    is_called: bool,
}

/// Where a launcher has the symbols.
#[derive(Clone, Copy)]
struct Addresses {
    being_debugged: u64,
    breakpoint: u64,
    table: u64,
    size: u64,
}

/// The trap of a thread: at `MPIR_Breakpoint`, or where it returns to.
struct ThreadTrap {
    _trap: OwnedFd,
    is_inside: bool,
}

/// What a thread does that is at a trap.
pub enum TableStop {
    /// It calls `MPIR_Breakpoint`.
    Called(Vec<TableRow>),
    /// It has returned from it.
    Returned,
}

impl TableLaunchers {
    /// Has a launcher that is stopped at its exec report its table.
    ///
    /// # Errors
    /// If it has none, or the system refuses the breakpoint.
    pub fn add(&mut self, pid: i32, reports: usize) -> Result<(), HoldError> {
        let failed = |why| HoldError::Table { launcher: pid, why };
        let process = ProcessRef::open_current(Pid(pid.cast_unsigned())).map_err(failed)?;
        let addresses = addresses(pid).ok_or(HoldError::NoTable(pid))?;
        let mut launcher = TableLauncher {
            process,
            addresses,
            threads: BTreeMap::new(),
            reports,
            is_called: false,
        };
        launcher.trap(pid, addresses.breakpoint)?;
        let one = 1_i32.to_ne_bytes();
        memory::write(&launcher.process, addresses.being_debugged, &one).map_err(failed)?;
        let _before = self.processes.insert(pid, launcher);
        Ok(())
    }

    /// Traps a thread that begins, if it is one of a launcher.
    ///
    /// # Errors
    /// If the system refuses the breakpoint.
    pub fn add_thread(&mut self, tid: i32) -> io::Result<()> {
        if self.processes.is_empty() || self.process_of(tid).is_some() {
            return Ok(());
        }
        match process_of(tid).and_then(|pid| self.processes.get_mut(&pid)) {
            Some(launcher) => launcher.trap(tid, launcher.addresses.breakpoint),
            None => Ok(()),
        }
    }

    /// The launcher that has this thread.
    pub fn process_of(&self, tid: i32) -> Option<i32> {
        let has_it = |it: &TableLauncher| it.threads.contains_key(&tid);
        self.processes.iter().find(|(_, it)| has_it(it)).map(|(pid, _)| *pid)
    }

    /// Handles a stop of a thread at its trap.
    ///
    /// # Errors
    /// If the table cannot be read, or the system refuses the breakpoint at the return.
    pub fn hit(&mut self, pid: i32, tid: i32) -> Result<TableStop, HoldError> {
        let Some(launcher) = self.processes.get_mut(&pid) else { return Ok(TableStop::Returned) };
        if launcher.threads.get(&tid).is_some_and(|it| it.is_inside) {
            launcher.reports = launcher.reports.saturating_sub(1);
            let _trap = launcher.threads.remove(&tid);
            return Ok(TableStop::Returned);
        }
        let failed = |why| HoldError::Table { launcher: pid, why };
        // The first instruction of the function follows: the return address is on top.
        let stack = Registers::read(tid).map_err(failed)?.sp();
        let returns_to = memory::word(&launcher.process, stack).map_err(failed)?;
        let rows = launcher.rows().map_err(failed)?;
        launcher.trap(tid, returns_to)?;
        launcher.is_called = true;
        if let Some(thread) = launcher.threads.get_mut(&tid) {
            thread.is_inside = true;
        }
        Ok(TableStop::Called(rows))
    }

    /// Whether a launcher has called `MPIR_Breakpoint`, and not returned from it in all threads
    /// that do.
    pub fn is_reporting(&self) -> bool {
        let is_inside = |it: &TableLauncher| it.threads.values().any(|it| it.is_inside);
        self.processes.values().any(|it| is_inside(it) || (it.is_called && it.reports > 0))
    }

    /// Forgets a thread that has ended, or a process that executes another program.
    pub fn forget(&mut self, tid: i32) {
        let _ended = self.processes.remove(&tid);
        for launcher in self.processes.values_mut() {
            let _ended = launcher.threads.remove(&tid);
        }
    }

    /// Removes all traps; the threads that had them.
    pub fn remove_all(&mut self) -> Vec<i32> {
        let all = std::mem::take(&mut self.processes);
        all.into_values().flat_map(|it| it.threads.into_keys()).collect()
    }
}

impl TableLauncher {
    fn trap(&mut self, tid: i32, address: u64) -> io::Result<()> {
        match perf_event::open_trap(Pid(tid.cast_unsigned()), address) {
            Ok(trap) => {
                let _before =
                    self.threads.insert(tid, ThreadTrap { _trap: trap, is_inside: false });
                Ok(())
            }
            // It has ended.
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads the table.
    fn rows(&self) -> Result<Vec<TableRow>, ControlError> {
        let size = memory::read(&self.process, self.addresses.size, size_of::<i32>() as u64)?;
        let size = size.as_slice().try_into().map_or(0, i32::from_ne_bytes);
        let size = usize::try_from(size).unwrap_or(0);
        if size > MOST_ROWS {
            let why = format!("it has {size} rows, and at most {MOST_ROWS} are read");
            return Err(ControlError::Exhausted(why));
        }
        let table = memory::word(&self.process, self.addresses.table)?;
        let bytes = memory::read(&self.process, table, (size * ROW_BYTES) as u64)?;
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let row = |(index, row): (usize, &[u8])| {
            let host = self.text(number(&row[..8]))?;
            let pid = row[16..20].try_into().map_or(0, i32::from_ne_bytes);
            Ok(TableRow { rank: u32::try_from(index).unwrap_or(u32::MAX), host, pid })
        };
        bytes.chunks_exact(ROW_BYTES).enumerate().map(row).collect()
    }

    /// Reads a text up to its end, or the longest that a name of a node can be. A row without a
    /// process has none.
    fn text(&self, address: u64) -> Result<String, ControlError> {
        let mut text = Vec::new();
        for word in 0..MOST_HOST_WORDS {
            if address == 0 {
                break;
            }
            let bytes = match memory::read(&self.process, address + 8 * word, 8) {
                // The end of the mapping, perhaps of the text.
                Err(ControlError::Fault { done, .. }) if !done.is_empty() => done,
                read => read?,
            };
            let end = bytes.iter().position(|byte| *byte == 0);
            text.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
            if end.is_some() {
                break;
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Finds the symbols of a process; `None` if one is missing.
fn addresses(pid: i32) -> Option<Addresses> {
    let (files, _) = mapped_files::files(Path::new("/proc"), Pid(pid.cast_unsigned())).ok()?;
    files.iter().find_map(|file| {
        let symbols = file.image.symbols(|name| SYMBOLS.contains(&name)).ok()?;
        let address = |name| {
            let symbol = symbols.iter().find(|it| it.name == name)?;
            Some(symbol.address.wrapping_add(file.bias))
        };
        let [being_debugged, breakpoint, table, size] = SYMBOLS.map(address);
        Some(Addresses {
            being_debugged: being_debugged?,
            breakpoint: breakpoint?,
            table: table?,
            size: size?,
        })
    })
}
