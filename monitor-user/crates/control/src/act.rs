//! What a hand is asked to do, and what it tells.
//!
//! Both ends of the socket are the same program, so these types are the protocol: no numbers of
//! versions, no defaults for what is missing.

use super::trouble::Trouble;
use super::work::Work;
use monitor_event::thread::{Argument, Target};
use monitor_model::id::Identity;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Who asks: what one holds, no other lets go.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tool(pub u64);

/// What the asker calls a breakpoint, an errand or a watch; it comes back with what happens.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark(pub u64);

/// One order.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Order {
    /// Comes back with the answer.
    pub number: u64,
    /// Who asks.
    pub tool: Tool,
    /// What for.
    pub act: Act,
}

/// What can be asked.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum Act {
    /// Stop the process, or the thread alone. What this tool holds already stays held.
    Stop(Target),
    /// Let go of what this tool stopped; it runs when nobody else holds it.
    Continue(Target),
    /// Send a signal.
    Kill(Target, i32),
    /// Set the nice value of every thread, or of the one.
    Nice(Target, i32),
    /// Read so many bytes from an address.
    Read(Target, u64, u64),
    /// Write bytes to an address.
    Write(Target, u64, Vec<u8>),
    /// Read so many integer registers from this number of the processor's psABI on.
    Integers(Target, u16, u16),
    /// Write them.
    SetIntegers(Target, u16, Vec<u64>),
    /// Read so many floating point registers.
    Floats(Target, u16, u16),
    /// Write them.
    SetFloats(Target, u16, Vec<f64>),
    /// Let the thread go on elsewhere.
    Goto(Target, u64),
    /// At most so many frames, innermost first; with names if that is asked for.
    Backtrace(Target, u16, Names),
    /// What the loader has put where.
    Loader(Target),
    /// Start a program.
    Start(Program),
    /// Say whether processes can be dumped here.
    Checkpoint,
    /// Say whether this one can, and no message to or from it would be lost.
    Lossless(Target),
    /// Say whether it can be taken away, too, and dumped to this folder.
    Movable(Target, PathBuf),
    /// Dump it and end it.
    Dump(Target, Mark, Dump),
    /// Make one anew that was dumped.
    Restore(Mark, Dump),
    /// Another hand, which died, was dumping this one: let it run when CRIU is done.
    Settle(Identity, Dump),
    /// Tell when a thread comes to this address.
    Break(Target, u64, Mark),
    /// One instruction.
    Step(Target, Mark),
    /// One instruction, calls as a whole.
    Next(Target, Mark),
    /// Until the current procedure has returned.
    Finish(Target, Mark),
    /// Call a procedure in the thread.
    Call(Target, Mark, u64, Vec<Argument>),
    /// Do all of this while every thread stands.
    Work(Target, Work),
    /// Kernel programs stop threads of the process from now on: trace them, so that each can be
    /// held alone. Whom they stop and nobody lets go, let go, whether he can be traced or not.
    Watch(Target, Mark),
    /// Forget a breakpoint, an errand or a watch.
    Unset(Target, Mark),
    /// A kernel program has stopped the process, as the thread came here: hold it for that.
    Catch(Target, Mark, Spot),
    /// The event that holds this thread was met here: it may stand a little further.
    Met(Target, Mark, Spot),
    /// Let who an event held go on; the signal that held it is not for it.
    Release(Target, Mark),
    /// The same, but the signal was for it after all.
    Deliver(Target, Mark),
    /// Kernel probes are here: their bytes are no part of the program.
    Sites(Vec<Site>),
    /// The tool has gone: let go of all that it holds and wants.
    Forget,
    /// Undo what another hand, which died, did to this process.
    Recover(Identity, Vec<Patch>),
}

/// Where an event was met.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The instruction.
    pub pc: u64,
    /// The stack pointer before it.
    pub sp: u64,
}

/// Whether frames get names.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Addresses only.
    Without,
    /// Names too, where the file has symbols.
    With,
}

/// A program to be started.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Program {
    /// Its file; a name without a slash is looked for as a shell would.
    pub path: PathBuf,
    /// Its arguments, without its own name.
    pub arguments: Vec<Vec<u8>>,
    /// Its environment; that of the hand if there is none.
    pub environment: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    /// Where it runs; `/` if there is none.
    pub folder: Option<PathBuf>,
    /// Files for its standard input, output and error; `/dev/null` for those that are missing.
    pub streams: [Option<PathBuf>; 3],
    /// Stopped by the tool before its first instruction.
    pub stopped: bool,
}

/// A process as files: the folder of all that were dumped, and the name of this one there.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    /// The folder of all.
    pub folder: PathBuf,
    /// The number of the process and a time, with a `-` between.
    pub name: String,
}

/// A byte of ours in a process.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Where.
    pub address: u64,
    /// What belongs there.
    pub original: u8,
}

/// Where the kernel has put a probe for us.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The file.
    pub inode: u64,
    /// Where in the file.
    pub offset: u64,
}

/// How a process is stopped.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub enum Method {
    /// By its cgroup, which it has for itself: nobody's `SIGCONT` lets it run.
    Freezer(PathBuf),
    /// It stood still before anybody here wanted it, and will when nobody does.
    Already,
    /// By `SIGSTOP`, which is sent again if somebody else lets it run.
    Signal,
    /// One thread, by ptrace.
    Trace,
}

/// What was done.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum Done {
    /// It.
    It,
    /// It stands still.
    Stopped(Method),
    /// What was read.
    Bytes(Vec<u8>),
    /// Registers.
    Integers(Vec<u64>),
    /// Registers.
    Floats(Vec<f64>),
    /// The stack.
    Frames(Vec<Frame>),
    /// What is loaded.
    Images(Vec<Image>),
    /// The new process.
    Started(Identity),
    /// A breakpoint is set; the byte that it took the place of, if it took one.
    Placed(Option<Patch>),
    /// It works, in this version.
    Version(String),
}

/// One frame of a stack.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where it goes on.
    pub pc: u64,
    /// Its canonical frame address: the stack pointer before the call that made it.
    pub frame: u64,
    /// The procedure, if it was asked for and is known.
    pub name: Option<String>,
}

/// An object file in a process: parts as address and length.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its file.
    pub path: Vec<u8>,
    /// Instructions.
    pub code: (u64, u64),
    /// Data that is in the file.
    pub data: (u64, u64),
    /// Data that is not.
    pub bss: (u64, u64),
    /// Its build id.
    pub build_id: Vec<u8>,
}

/// What a hand says without being asked.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Happened {
    /// Whom it concerns.
    pub target: Target,
    /// Who wanted to know; of what concerns all, nobody.
    pub wanted: Option<(Tool, Mark)>,
    /// What it was.
    pub what: What,
}

/// What can happen.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum What {
    /// A breakpoint was reached. The thread is held before the instruction.
    Breakpoint(u64),
    /// A step is done; the thread is held here.
    Stepped(u64),
    /// The current procedure has returned, with this value; the thread is held.
    Finished(u64),
    /// The called procedure has returned these; the thread is as it was, and held.
    Called(u64, f64),
    /// The thread is held by a kernel program, or so it seems: see `Deliver`.
    Held,
    /// It was held for longer than is allowed, and has been let go.
    Overdue(Duration),
    /// An errand, a breakpoint or a watch came to nothing.
    Failed(Trouble),
    /// Somebody else let it run; it is stopped again.
    StoppedAgain,
    /// A process that was held or traced has ended.
    Ended,
    /// The process is dumped, and there no more.
    Dumped,
    /// A process was made anew: this one.
    Restored,
}

/// Everything that comes from a hand.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum Told {
    /// The answer to the order with this number.
    Answer(u64, Result<Done, Trouble>),
    /// Something happened.
    Happened(Happened),
}
