//! Actions and run control commands of the request language as requests to a user worker.

use crate::ProcessAction;
use monitor_control::{DumpLocation, ProbeUse, RequestTag, WorkerRequest};
use monitor_event::thread::{RunControl, Target};
use std::path::Path;

/// The request for an action on one process; later events carry the tag. Processes are dumped to
/// this folder.
pub fn worker_request(
    action: &ProcessAction,
    target: Target,
    (mark, folder): (RequestTag, &Path),
) -> WorkerRequest {
    let dump = |name: &String| DumpLocation { folder: folder.to_owned(), name: name.clone() };
    match action {
        ProcessAction::Stop => WorkerRequest::Stop(target),
        ProcessAction::Continue => WorkerRequest::Continue(target),
        ProcessAction::Kill(signal) => WorkerRequest::Signal(target, *signal),
        ProcessAction::Nice(value) => WorkerRequest::SetNice(target, *value),
        ProcessAction::Read(address, bytes) => WorkerRequest::ReadMemory(target, *address, *bytes),
        ProcessAction::Write(address, bytes) => {
            WorkerRequest::WriteMemory(target, *address, bytes.clone())
        }
        ProcessAction::Integers(first, count) => {
            WorkerRequest::ReadIntegers(target, *first, *count)
        }
        ProcessAction::SetIntegers(first, values) => {
            WorkerRequest::WriteIntegers(target, *first, values.clone())
        }
        ProcessAction::Floats(first, count) => WorkerRequest::ReadFloats(target, *first, *count),
        ProcessAction::SetFloats(first, values) => {
            WorkerRequest::WriteFloats(target, *first, values.clone())
        }
        ProcessAction::ReadImage(set, most) => WorkerRequest::ReadImage(target, *set, *most),
        ProcessAction::WriteImage(set, bytes) => {
            WorkerRequest::WriteImage(target, *set, bytes.clone())
        }
        ProcessAction::ReadSignalInfo => WorkerRequest::ReadSignalInfo(target),
        ProcessAction::AuxiliaryVector => WorkerRequest::ReadAuxiliaryVector(target),
        ProcessAction::ListThreads => WorkerRequest::ListThreads(target),
        ProcessAction::StopThreads(tids) => WorkerRequest::StopThreads(target, tids.clone()),
        ProcessAction::ContinueThreads(tids, number) => {
            WorkerRequest::ContinueThreads(target, tids.clone(), *number)
        }
        ProcessAction::SetSignal(signal) => WorkerRequest::SetSignal(target, *signal),
        ProcessAction::Goto(address) => WorkerRequest::Goto(target, *address),
        ProcessAction::Backtrace(names) => WorkerRequest::Backtrace(target, u16::MAX, *names),
        ProcessAction::Loader => WorkerRequest::LoadedImages(target),
        ProcessAction::Work(work) => WorkerRequest::RunBatch(target, work.clone()),
        ProcessAction::Checkpoint => WorkerRequest::CheckCriu,
        ProcessAction::Lossless => WorkerRequest::CheckLossless(target),
        ProcessAction::Movable => WorkerRequest::CheckMovable(target, folder.to_owned()),
        ProcessAction::Dump(name) => WorkerRequest::Dump(target, mark, dump(name)),
        ProcessAction::Restore(name) | ProcessAction::Return(name) => {
            WorkerRequest::Restore(mark, dump(name))
        }
        ProcessAction::Start(program) => WorkerRequest::Start(program.clone()),
        ProcessAction::StartDaemons(daemons) => WorkerRequest::StartDaemons(daemons.clone()),
        ProcessAction::JobCommand(command) => WorkerRequest::RunJobCommand(command.clone()),
        ProcessAction::RankStacks(ranks, options) => {
            WorkerRequest::ReadRankStacks(ranks.clone(), mark, *options)
        }
    }
}

/// The request for a run control command on one process; later events carry the tag.
/// A breakpoint may be a probe or not.
pub fn run_control_request(
    command: &RunControl,
    target: Target,
    (mark, probe_use): (RequestTag, ProbeUse),
) -> WorkerRequest {
    match command {
        RunControl::Break(address, conditions) => {
            WorkerRequest::SetBreakpoint(target, *address, mark, probe_use, conditions.clone())
        }
        // The threads that the kernel stops are held, as for rules.
        RunControl::Watch(_) => WorkerRequest::WatchData(target, mark),
        RunControl::Step => WorkerRequest::Step(target, mark),
        RunControl::Next => WorkerRequest::Next(target, mark),
        RunControl::Finish => WorkerRequest::Finish(target, mark),
        RunControl::Call(procedure, arguments) => {
            WorkerRequest::Call(target, mark, *procedure, arguments.clone())
        }
        RunControl::Catch(what) => WorkerRequest::Catch(target, what.clone(), mark),
    }
}
