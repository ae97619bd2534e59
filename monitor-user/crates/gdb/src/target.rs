//! What `gdbstub` asks of a target, by the services of the monitor.
//!
//! In: gdb's packets as calls. Out: registers, memory, threads. Nothing here waits for the program:
//! `serve` reports stops. A refusal of the monitor is an error of the packet; only a lost session
//! ends gdb's.

use crate::debuggee::{Debuggee, thread_id};
use crate::description::{Vectors, target_xml};
use crate::registers::{GdbRegisters, RegisterNumber, X86_64Linux};
use crate::session::CallError;
use crate::signals;
use crate::watchpoints::Watched;
use gdbstub::common::{Pid, Signal, Tid};
use gdbstub::target::ext::auxv::{Auxv, AuxvOps};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume,
    MultiThreadResumeOps, MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps,
    MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps,
    SwBreakpoint, SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::catch_syscalls::{CatchSyscalls, CatchSyscallsOps, SyscallNumbers};
use gdbstub::target::ext::exec_file::{ExecFile, ExecFileOps};
use gdbstub::target::ext::extended_mode::{
    Args, AttachKind, CurrentActivePid, CurrentActivePidOps, ExtendedMode, ExtendedModeOps,
    ShouldTerminate,
};
use gdbstub::target::ext::host_io::HostIoOps;
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::{Target, TargetError, TargetResult};
use monitor_omis::Status;
use std::os::unix::ffi::OsStrExt as _;

/// Error numbers of the system that gdb knows (errno(3)).
const EPERM: u8 = 1;
const ESRCH: u8 = 3;
const EIO: u8 = 5;
const EFAULT: u8 = 14;

impl From<CallError> for TargetError<CallError> {
    fn from(error: CallError) -> Self {
        match error.status() {
            None => Self::Fatal(error),
            Some(Status::GONE | Status::NO_SUCH_OBJECT) => Self::Errno(ESRCH),
            Some(Status::FAULT) => Self::Errno(EFAULT),
            Some(Status::PERMISSION) => Self::Errno(EPERM),
            Some(_) => Self::Errno(EIO),
        }
    }
}

impl Target for Debuggee {
    type Arch = X86_64Linux;
    type Error = CallError;

    fn base_ops(&mut self) -> BaseOps<'_, Self::Arch, Self::Error> {
        BaseOps::MultiThread(self)
    }

    // Replies are amended before they are sent, which needs them as they are.
    fn use_rle(&self) -> bool {
        false
    }

    // Children are not reported to gdb: they run on without breakpoints.
    fn use_fork_stop_reason(&self) -> bool {
        false
    }

    fn use_vfork_stop_reason(&self) -> bool {
        false
    }

    fn use_vforkdone_stop_reason(&self) -> bool {
        false
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_extended_mode(&mut self) -> Option<ExtendedModeOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }

    fn support_auxv(&mut self) -> Option<AuxvOps<'_, Self>> {
        Some(self)
    }

    fn support_exec_file(&mut self) -> Option<ExecFileOps<'_, Self>> {
        Some(self)
    }

    fn support_catch_syscalls(&mut self) -> Option<CatchSyscallsOps<'_, Self>> {
        Some(self)
    }

    fn support_host_io(&mut self) -> Option<HostIoOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Debuggee {
    fn read_registers(&mut self, registers: &mut GdbRegisters, tid: Tid) -> TargetResult<(), Self> {
        *registers = self.images(number(tid))?.to_gdb();
        Ok(())
    }

    fn write_registers(&mut self, registers: &GdbRegisters, tid: Tid) -> TargetResult<(), Self> {
        let images = self.images(number(tid))?;
        let before = images.clone();
        if !images.set_from_gdb(registers) {
            *images = before;
            return Err(TargetError::NonFatal);
        }
        Ok(self.write_images(number(tid), &before)?)
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, address: u64, data: &mut [u8], _: Tid) -> TargetResult<usize, Self> {
        let read = self.read_memory(address, data.len())?;
        if read.is_empty() && !data.is_empty() {
            return Err(TargetError::Errno(EFAULT));
        }
        data[..read.len()].copy_from_slice(&read);
        Ok(read.len())
    }

    fn write_addrs(&mut self, address: u64, data: &[u8], _: Tid) -> TargetResult<(), Self> {
        Ok(self.write_memory(address, data)?)
    }

    fn list_active_threads(&mut self, report: &mut dyn FnMut(Tid)) -> Result<(), CallError> {
        match self.threads() {
            Ok(threads) => threads.iter().for_each(|it| report(thread_id(it.tid))),
            // It has ended, which gdb learns when it continues.
            Err(CallError::Refused { .. }) => report(thread_id(self.current)),
            Err(lost) => return Err(lost),
        }
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }
}

impl SingleRegisterAccess<Tid> for Debuggee {
    fn read_register(
        &mut self,
        tid: Tid,
        register: RegisterNumber,
        buffer: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let Some(own) = self.images(number(tid))?.get(register) else { return Ok(0) };
        let room = buffer.get_mut(..own.len()).ok_or(TargetError::NonFatal)?;
        room.copy_from_slice(&own);
        Ok(own.len())
    }

    fn write_register(
        &mut self,
        tid: Tid,
        register: RegisterNumber,
        value: &[u8],
    ) -> TargetResult<(), Self> {
        let images = self.images(number(tid))?;
        let before = images.clone();
        if !images.put(register, value) {
            return Err(TargetError::NonFatal);
        }
        Ok(self.write_images(number(tid), &before)?)
    }
}

impl MultiThreadResume for Debuggee {
    fn resume(&mut self) -> Result<(), CallError> {
        Debuggee::resume(self)
    }

    fn clear_resume_actions(&mut self) -> Result<(), CallError> {
        self.resumption = Default::default();
        Ok(())
    }

    fn set_resume_action_continue(
        &mut self,
        tid: Tid,
        signal: Option<Signal>,
    ) -> Result<(), CallError> {
        self.resumption.continued.push(number(tid));
        self.set_action_signal(tid, signal);
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Debuggee {
    fn set_resume_action_step(
        &mut self,
        tid: Tid,
        signal: Option<Signal>,
    ) -> Result<(), CallError> {
        self.resumption.stepped.push((number(tid), None));
        self.set_action_signal(tid, signal);
        Ok(())
    }
}

impl MultiThreadRangeStepping for Debuggee {
    fn set_resume_action_range_step(
        &mut self,
        tid: Tid,
        start: u64,
        end: u64,
    ) -> Result<(), CallError> {
        self.resumption.stepped.push((number(tid), Some((start, end))));
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Debuggee {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), CallError> {
        self.resumption.is_locked = true;
        Ok(())
    }
}

impl Debuggee {
    fn set_action_signal(&mut self, tid: Tid, signal: Option<Signal>) {
        if let Some(signal) = signal.and_then(signals::from_gdb) {
            let _none = self.resumption.signals.insert(number(tid), signal);
        }
    }
}

impl Breakpoints for Debuggee {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

/// The monitor decides how a breakpoint stops threads.
impl HwBreakpoint for Debuggee {
    fn add_hw_breakpoint(&mut self, address: u64, kind: usize) -> TargetResult<bool, Self> {
        self.add_sw_breakpoint(address, kind)
    }

    fn remove_hw_breakpoint(&mut self, address: u64, kind: usize) -> TargetResult<bool, Self> {
        self.remove_sw_breakpoint(address, kind)
    }
}

impl HwWatchpoint for Debuggee {
    fn add_hw_watchpoint(
        &mut self,
        address: u64,
        length: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let has_reads = kind != WatchKind::Write;
        Ok(self.watchpoints.insert(&self.session, Watched { address, length, has_reads })?)
    }

    fn remove_hw_watchpoint(
        &mut self,
        address: u64,
        length: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let has_reads = kind != WatchKind::Write;
        Ok(self.watchpoints.remove(Watched { address, length, has_reads }))
    }
}

impl SwBreakpoint for Debuggee {
    fn add_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        self.breakpoints.insert(&self.session, address, Vec::new())?;
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.breakpoints.remove(address))
    }
}

impl CatchSyscalls for Debuggee {
    fn enable_catch_syscalls(
        &mut self,
        filter: Option<SyscallNumbers<'_, u64>>,
    ) -> TargetResult<(), Self> {
        self.calls.wanted = Some(filter.map(Iterator::collect).unwrap_or_default());
        Ok(())
    }

    fn disable_catch_syscalls(&mut self) -> TargetResult<(), Self> {
        self.calls.wanted = None;
        Ok(())
    }
}

impl ExtendedMode for Debuggee {
    fn run(&mut self, _: Option<&[u8]>, _: Args<'_, '_>) -> TargetResult<Pid, Self> {
        Err(TargetError::Errno(EPERM))
    }

    fn attach(&mut self, _: Pid) -> TargetResult<(), Self> {
        Err(TargetError::Errno(EPERM))
    }

    fn query_if_attached(&mut self, _: Pid) -> TargetResult<AttachKind, Self> {
        Ok(AttachKind::Attach)
    }

    fn kill(&mut self, _: Option<Pid>) -> TargetResult<ShouldTerminate, Self> {
        Debuggee::kill(self)?;
        Ok(ShouldTerminate::Yes)
    }

    fn restart(&mut self) -> Result<(), CallError> {
        // gdb asks for it only where it may run programs.
        Ok(())
    }

    fn support_current_active_pid(&mut self) -> Option<CurrentActivePidOps<'_, Self>> {
        Some(self)
    }
}

impl CurrentActivePid for Debuggee {
    fn current_active_pid(&mut self) -> Result<Pid, CallError> {
        Ok(thread_id(self.session.pid()))
    }
}

impl TargetDescriptionXmlOverride for Debuggee {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        buffer: &mut [u8],
    ) -> TargetResult<usize, Self> {
        if annex != b"target.xml" {
            return Err(TargetError::NonFatal);
        }
        let vectors = if self.has_avx() { Vectors::Avx } else { Vectors::Sse };
        Ok(part(target_xml(vectors).as_bytes(), (offset, length), buffer))
    }
}

impl Auxv for Debuggee {
    fn get_auxv(&self, offset: u64, length: usize, buffer: &mut [u8]) -> TargetResult<usize, Self> {
        let vector = self.bytes(&format!("auxiliary_vector({})", self.session.pid()))?;
        Ok(part(&vector, (offset, length), buffer))
    }
}

impl ExecFile for Debuggee {
    fn get_exec_file(
        &self,
        _: Option<Pid>,
        offset: u64,
        length: usize,
        buffer: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let path = std::fs::read_link(format!("/proc/{}/exe", self.session.pid()))?;
        Ok(part(path.as_os_str().as_bytes(), (offset, length), buffer))
    }
}

/// A thread id of gdb's as one of the system.
fn number(tid: Tid) -> u32 {
    u32::try_from(tid.get()).unwrap_or(u32::MAX)
}

/// Copies a part of what gdb reads bit by bit; returns its length.
pub fn part(whole: &[u8], (offset, length): (u64, usize), buffer: &mut [u8]) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|it| whole.get(it..)).unwrap_or_default();
    let length = length.min(rest.len()).min(buffer.len());
    buffer[..length].copy_from_slice(&rest[..length]);
    length
}
