//! Messages between the daemon and a user worker.
//!
//! In: nothing; these types are the protocol of the socket, encoded with postcard. Both ends are
//! the same program, so there are no version numbers and no defaults for missing fields.
//! Framing is in `user_worker::frame`.

use super::call_questions::{CallAnswer, CallQuestion};
use super::job_command::{CommandOutput, JobCommand};
use super::machine::{Changes, FrameStore};
use super::message_queue::{QueueAnswer, QueueQuery};
use super::stack_rows::{StackOptions, StackRows};
use super::tool_daemon::DaemonsPer;
use super::{ControlError, StoppedBatch};
use monitor_event::{AgentExpression, Argument, Catch, Target};
use monitor_jobs::{RankProcesses, Runtime};
use monitor_model::{Identity, Pid};
use monitor_symbols::{calls, diag_probes::DiagProbeSite, held_file::FileRef, report::Report};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Duration};

/// The tool that makes a request. What one tool holds, no other tool can release.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolId(pub u64);

/// Correlation id of a breakpoint, a thread plan or a watch; events about it carry the same id.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestTag(pub u64);

/// A request with the number that its reply repeats.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct NumberedRequest {
    /// Repeated by the reply.
    pub number: u64,
    /// The tool that asks.
    pub tool: ToolId,
    /// What to do.
    pub request: WorkerRequest,
}

/// What the daemon can request.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum WorkerRequest {
    /// Stop the process, or only the thread. Stopping twice for the same tool changes nothing.
    Stop(Target),
    /// Release what this tool stopped; it runs once no tool holds it.
    Continue(Target),
    /// Send a signal.
    Signal(Target, i32),
    /// Set the nice value of every thread, or of the named one.
    SetNice(Target, i32),
    /// Read a number of bytes at an address.
    ReadMemory(Target, u64, u64),
    /// Write bytes at an address.
    WriteMemory(Target, u64, Vec<u8>),
    /// Read a number of integer registers, from this DWARF register number of the psABI on.
    ReadIntegers(Target, u16, u16),
    /// Write integer registers, from this number on.
    WriteIntegers(Target, u16, Vec<u64>),
    /// Read a number of floating point registers, from this number on.
    ReadFloats(Target, u16, u16),
    /// Write floating point registers, from this number on.
    WriteFloats(Target, u16, Vec<f64>),
    /// Read all registers of a set as the kernel has them; at most this many bytes.
    ReadImage(Target, RegisterSet, u32),
    /// Write all registers of a set; the position in the program is not checked.
    WriteImage(Target, RegisterSet, Vec<u8>),
    /// Read the `siginfo_t` of the signal with which the thread stopped.
    ReadSignalInfo(Target),
    /// Read the auxiliary vector of the process.
    ReadAuxiliaryVector(Target),
    /// List the threads of the process.
    ListThreads(Target),
    /// Hold each of these threads for this tool, by ptrace; no number means all.
    StopThreads(Target, Vec<u32>),
    /// Release these threads, or all, unless the last stop of this tool has another number; 0 is
    /// any.
    ContinueThreads(Target, Vec<u32>, u64),
    /// Set the signal with which a stopped thread continues; 0 is none.
    SetSignal(Target, i32),
    /// Hold each thread at which this happens, and report it.
    Catch(Target, Catch, RequestTag),
    /// Set the program counter of the thread.
    Goto(Target, u64),
    /// Return at most this many stack frames, innermost first, with or without symbol names.
    Backtrace(Target, u16, FrameNames),
    /// List the loaded object files and their addresses.
    LoadedImages(Target),
    /// Start a program.
    Start(LaunchSpec),
    /// Start daemons beside ranks, which end when the tool disconnects.
    StartDaemons(DaemonSpec),
    /// Read the call stacks of ranks, merged; each thread is stopped while its stack is copied.
    /// After several looks an event with the tag has them.
    ReadRankStacks(Vec<RankProcesses>, RequestTag, StackOptions),
    /// Run a command on a job; its reply comes when it has ended.
    RunJobCommand(JobCommand),
    /// Read what a profile of the calls of MPI needs of a rank.
    ReadRankCalls(CallQuestion),
    /// Check whether CRIU works on this node.
    CheckCriu,
    /// Check that CRIU works and that a dump of this process would lose no message in transit.
    CheckLossless(Target),
    /// Check that the process can be moved to another node and dumped to this folder.
    CheckMovable(Target, PathBuf),
    /// Dump the process and end it.
    Dump(Target, RequestTag, DumpLocation),
    /// Restore a dumped process.
    Restore(RequestTag, DumpLocation),
    /// Resume this process when CRIU is done; a user worker died while dumping it.
    RecoverDump(Identity, DumpLocation),
    /// Report each thread that reaches this address while one of the conditions holds, or if there
    /// are none.
    SetBreakpoint(Target, u64, RequestTag, ProbeUse, Vec<AgentExpression>),
    /// The probe of this breakpoint has stopped the thread: set it back to what it was. If no
    /// condition holds, it runs on.
    SetBack(Target, RequestTag, BeforeInstruction),
    /// Execute one instruction.
    Step(Target, RequestTag),
    /// Execute one instruction; a call counts as one.
    Next(Target, RequestTag),
    /// Run until the current procedure has returned.
    Finish(Target, RequestTag),
    /// Call a procedure in the thread.
    Call(Target, RequestTag, u64, Vec<Argument>),
    /// Execute all steps while every thread is stopped.
    RunBatch(Target, StoppedBatch),
    /// Rule programs stop threads of the process from now on: trace it, so that each thread can be
    /// held alone. Threads that they stop and no event holds are resumed, traceable or not.
    WatchRules(Target, RequestTag),
    /// The same for accesses to data, until the process executes another program.
    WatchData(Target, RequestTag),
    /// Remove a breakpoint, a thread plan or a watch.
    Unset(Target, RequestTag),
    /// A rule program stopped the process when the thread reached this position: hold it for the
    /// event.
    HoldForEvent(Target, RequestTag, CodePos),
    /// The event that holds this thread occurred at this position; the thread may be slightly
    /// further on.
    SetEventPos(Target, RequestTag, CodePos),
    /// Release what an event held and discard the signal that stopped it.
    ReleaseEvent(Target, RequestTag),
    /// Release what an event held and deliver the signal: no rule program sent it.
    ReleaseWithSignal(Target, RequestTag),
    /// The kernel's probe locations, whose bytes do not belong to the program.
    SetProbes(Vec<ProbeLocation>),
    /// The tool has disconnected: release and remove everything that it holds and set.
    ForgetTool,
    /// Undo what a user worker that died left in this process.
    Recover(Identity, Vec<Patch>),
    /// Resume this process if it is stopped, and thaw this cgroup; a user worker that died had
    /// stopped it.
    Resume(Identity, Option<PathBuf>),
    /// Read the files that a process has mapped; for readers.
    ReadFiles(Pid, FileQuery),
}

/// A register set of a thread, as `PTRACE_GETREGSET` has it.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterSet {
    /// `struct user_regs_struct`: 27 words on x86-64, the number of the system call among them.
    General,
    /// The `xsave` area; on a processor without it the 512 bytes of `fxsave`.
    Float,
}

/// A thread of a process.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct ThreadEntry {
    /// Its thread id.
    pub tid: u32,
    /// Its name.
    pub name: Vec<u8>,
}

/// What is to be found in the files of a process.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum FileQuery {
    /// A function.
    Calls(calls::CallQuery),
    /// The static probes.
    DiagProbes,
    /// Its message queue.
    Queue(QueueQuery),
}

/// What was found.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum FoundInFiles {
    /// A function.
    Calls(calls::FoundCalls),
    /// The static probes.
    DiagProbes(Vec<DiagProbeSite>),
    /// Its message queue.
    Queue(QueueAnswer),
}

/// The position in the program at which an event occurred.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePos {
    /// Address of the instruction.
    pub pc: u64,
    /// The stack pointer before it.
    pub sp: u64,
}

/// Whether stack frames carry symbol names.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameNames {
    /// Addresses only.
    Without,
    /// Names too, where the file has symbols.
    With,
}

/// A program to start.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct LaunchSpec {
    /// The executable; a name without a slash is searched in `PATH`.
    pub path: PathBuf,
    /// Its arguments, without `argv[0]`.
    pub arguments: Vec<Vec<u8>>,
    /// Its environment; absent, that of the user worker.
    pub environment: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    /// Its working directory; absent, `/`.
    pub folder: Option<PathBuf>,
    /// Files for standard input, output and error; absent, `/dev/null`.
    pub streams: [Option<PathBuf>; 3],
    /// Whether the tool stops it before its first instruction.
    pub stopped: bool,
}

/// Daemons of a tool that are to be started beside the ranks of a job.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct DaemonSpec {
    /// The id of the job.
    pub job: String,
    /// Its runtime.
    pub runtime: Runtime,
    /// The ranks.
    pub ranks: Vec<RankProcesses>,
    /// Whether there is one for each.
    pub per: DaemonsPer,
    /// The program, to whose environment the ranks are added.
    pub program: LaunchSpec,
}

/// A daemon that was started.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct StartedDaemon {
    /// The rank that it is beside, if it is not beside all.
    pub rank: Option<u32>,
    /// Its pid.
    pub pid: u32,
    /// Why it does not end with the step of Slurm that it is beside.
    pub outside: Option<String>,
}

/// Where the files of a dumped process are: the folder of all dumps, and its name in there.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct DumpLocation {
    /// The folder of all dumps.
    pub folder: PathBuf,
    /// `PID-TIME`.
    pub name: String,
}

/// Whether a breakpoint may be a probe or a breakpoint of the processor, which the kernel sets for
/// the daemon.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeUse {
    /// If the instruction allows it.
    Allowed,
    /// No: the kernel sets none there.
    Refused,
}

/// How a breakpoint stops threads.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub enum BreakpointMeans {
    /// By a byte in the code, which ends with its worker.
    Byte(Patch),
    /// By a debug register of each thread, which its worker sets.
    DebugRegister,
    /// By a breakpoint of the processor that the daemon is to set in each thread.
    Hardware,
    /// By a probe that the daemon is to set.
    Probe(BreakpointProbe),
}

/// A probe that stops threads for a breakpoint.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct BreakpointProbe {
    /// The file of the code.
    pub file: FileRef,
    /// The offset of the instruction in it.
    pub offset: u64,
    /// What the instruction changes.
    pub changes: Changes,
}

/// What a probe has recorded before its instruction.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct BeforeInstruction {
    /// Registers, by their index in `struct pt_regs`.
    pub registers: Vec<(u8, u64)>,
    /// What the word was in which the instruction stores, if it could be read.
    pub stored: Option<(FrameStore, u64)>,
}

/// A breakpoint byte in a process.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Its address.
    pub address: u64,
    /// The byte of the program that it replaces.
    pub original: u8,
}

/// Where the kernel has inserted a uprobe for us.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeLocation {
    /// Inode of the file.
    pub inode: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
}

/// How a process or thread is stopped.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub enum StopMethod {
    /// Through `cgroup.freeze` of a cgroup with no other member; `SIGCONT` does not resume it.
    Freezer(PathBuf),
    /// It was stopped before the first tool stopped it, and stays so after the last releases it.
    AlreadyStopped,
    /// By `SIGSTOP`, which is sent again if another process resumes it.
    Signal,
    /// One thread, by ptrace.
    Ptrace,
}

/// The result of a request that succeeded.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum WorkerReply {
    /// Completed; no payload.
    Done,
    /// The target is stopped, by this method.
    Stopped(StopMethod),
    /// Memory that was read.
    Bytes(Vec<u8>),
    /// Integer registers.
    Integers(Vec<u64>),
    /// Floating point registers.
    Floats(Vec<f64>),
    /// All threads are held; the number of this stop, which grows with each of the tool's stops.
    ThreadsStopped(u64),
    /// The threads of a process, ascending.
    Threads(Vec<ThreadEntry>),
    /// Stack frames, innermost first.
    Frames(Vec<StackFrame>),
    /// Loaded object files.
    Images(Vec<LoadedImage>),
    /// The new process.
    Started(Identity),
    /// The new processes beside ranks.
    DaemonsStarted(Vec<StartedDaemon>),
    /// Merged call stacks.
    RankStacks(StackRows),
    /// A command on a job has ended.
    CommandEnded(CommandOutput),
    /// What a profile of calls needs.
    RankCalls(CallAnswer),
    /// A breakpoint is set.
    BreakpointSet(BreakpointMeans),
    /// Whether a condition of a breakpoint holds, or there are none.
    ConditionHolds(bool),
    /// The version of CRIU, which works.
    CriuVersion(String),
    /// What was found in files, or why not.
    Files(Result<FoundInFiles, Report>),
}

/// One frame of a stack.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct StackFrame {
    /// Address at which the frame continues.
    pub pc: u64,
    /// Canonical frame address: the stack pointer before the call that created the frame.
    pub cfa: u64,
    /// Name of the procedure, if requested; empty if it is unknown.
    pub name: Option<String>,
}

/// An object file loaded in a process. Its parts are pairs of address and length in bytes.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct LoadedImage {
    /// Path of the file.
    pub path: Vec<u8>,
    /// Instructions.
    pub code: (u64, u64),
    /// Writable data present in the file.
    pub data: (u64, u64),
    /// Zero-initialised data, which is not in the file.
    pub bss: (u64, u64),
    /// The GNU build id; empty if there is none.
    pub build_id: Vec<u8>,
}

/// An unsolicited message of a user worker: something happened to a target.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct WorkerEvent {
    /// The process or thread.
    pub target: Target,
    /// The tool and the tag of the request that it belongs to; absent if it concerns all tools.
    pub requester: Option<(ToolId, RequestTag)>,
    /// What happened.
    pub kind: WorkerEventKind,
}

/// What can happen to a target.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum WorkerEventKind {
    /// A thread reached a breakpoint at this address and is held before the instruction.
    Breakpoint(u64),
    /// A step is complete; the thread is held at this address.
    Stepped(u64),
    /// The current procedure has returned this value; the thread is held.
    Finished(u64),
    /// The called procedure has returned these values (integer and floating point register); the
    /// thread has its previous state again and is held.
    Called(u64, f64),
    /// The thread is about to take this signal, and is held before that.
    Signal(i32),
    /// The thread is about to begin the system call with this number, and is held before that.
    CallBegins(u32),
    /// The system call with this number has returned this; the thread is held.
    CallReturned(u32, i64),
    /// The process has executed another program; its thread is held before the first instruction.
    Executed,
    /// The thread stopped with the signal that rule programs send; see `ReleaseWithSignal`.
    Held,
    /// The hold exceeded this limit; the target was released.
    HoldExpired(Duration),
    /// A thread plan, a breakpoint, a watch, a dump or a restore failed.
    Failed(ControlError),
    /// Another process resumed the target; it is stopped again.
    StoppedAgain,
    /// A process that was held or traced has ended.
    Ended,
    /// The process is dumped and has ended.
    Dumped,
    /// A process was restored; `target` names it.
    Restored,
    /// A series of readings of the stacks of ranks has ended.
    StacksRead(Result<Box<StackRows>, ControlError>),
}

/// A message from a user worker to the daemon.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum WorkerMessage {
    /// The reply to the request with this number.
    Reply(u64, Result<WorkerReply, ControlError>),
    /// Something happened.
    Event(WorkerEvent),
}
