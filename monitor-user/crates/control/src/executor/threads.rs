//! Requests on the threads of a process, one by one or all together: what a debugger needs.
//!
//! In: a process and thread ids. Out: the threads are held or released, each by ptrace, without a
//! signal. Reading lists of threads and the auxiliary vector stops nothing.

use super::{Answer, Executor, done, open, request_deadline};
use crate::call_questions::CallAnswers as _;
use crate::rank_calls::RankCallReader;
use crate::rank_program::program_processes;
use crate::rank_stacks::RankStackReader;
use crate::stack_rows::StackOptions;
use crate::trace::ThreadSelection;
use crate::{
    ControlError, RequestTag, ThreadEntry, ToolId, WorkerReply, WorkerRequest, loader, signal,
};
use monitor_event::{Catch, Target};
use monitor_jobs::RankProcesses;

/// Most bytes of an auxiliary vector: the kernel has some twenty entries of 16 bytes.
const MAX_AUXV: usize = 4096;

impl Executor {
    /// Requests on threads, on what a process has loaded, and on the ranks of a job.
    pub(super) fn execute_on_threads(&mut self, tool: ToolId, request: &WorkerRequest) -> Answer {
        match request {
            WorkerRequest::ReadSignalInfo(target) => self.signal_info(target),
            WorkerRequest::ReadAuxiliaryVector(target) => Self::auxiliary_vector(target),
            WorkerRequest::LoadedImages(target) => {
                Ok(WorkerReply::Images(loader::images(&open(target)?)?))
            }
            WorkerRequest::ListThreads(target) => Self::list_threads(target),
            WorkerRequest::StopThreads(target, tids) => self.stop_threads(tool, target, tids),
            WorkerRequest::ContinueThreads(target, tids, number) => {
                self.continue_threads(tool, target, (tids, *number))
            }
            WorkerRequest::SetSignal(target, signal) => self.set_signal(tool, target, *signal),
            WorkerRequest::Catch(target, what, tag) => self.catch((tool, *tag), target, what),
            WorkerRequest::ReadRankCalls(question) => {
                let reader = self.rank_calls.get_or_insert_with(|| RankCallReader::new(false));
                reader.answer(question.clone()).map(WorkerReply::RankCalls)
            }
            WorkerRequest::ReadRankStacks(ranks, tag, options) => {
                self.read_rank_stacks((tool, *tag), ranks, *options)
            }
            WorkerRequest::StartDaemons(spec) => {
                self.daemons.start(tool, spec).map(WorkerReply::DaemonsStarted)
            }
            _ => self.execute_traced(tool, request),
        }
    }

    /// One look at once; of several an event has the result.
    fn read_rank_stacks(
        &mut self,
        requester: (ToolId, RequestTag),
        ranks: &[RankProcesses],
        options: StackOptions,
    ) -> Answer {
        let ranks = program_processes(ranks);
        if options.looks > 1 {
            return done(self.stack_looks.begin(requester, ranks, options));
        }
        let mut reader = RankStackReader::new(ranks, options.threads, options.lines);
        reader.read_in_time();
        reader.rows().map(WorkerReply::RankStacks)
    }

    fn stop_threads(&mut self, tool: ToolId, target: &Target, tids: &[u32]) -> Answer {
        let process = open(target)?;
        self.check_not_moving(&process)?;
        let mut deadline = request_deadline(self.peer.as_ref());
        let chosen = ThreadSelection::from_tids(tids);
        let number = self.tracer.stop_threads(tool, process, &chosen, &mut deadline)?;
        Ok(WorkerReply::ThreadsStopped(number))
    }

    fn continue_threads(
        &mut self,
        tool: ToolId,
        target: &Target,
        (tids, number): (&[u32], u64),
    ) -> Answer {
        let chosen = ThreadSelection::from_tids(tids);
        done(self.tracer.continue_threads((tool, number), target.process, &chosen))
    }

    fn set_signal(&mut self, tool: ToolId, target: &Target, signal: i32) -> Answer {
        if signal != 0 {
            signal::check(signal)?;
        }
        let tid = open(target)?.thread(target)?;
        done(self.tracer.set_signal(tool, target.process, (tid, signal)))
    }

    fn catch(&mut self, requester: (ToolId, RequestTag), target: &Target, what: &Catch) -> Answer {
        if let Catch::Signals(signals) = what {
            signals.iter().try_for_each(|it| signal::check(*it))?;
        }
        done(self.tracer.catch(open(target)?, requester, what))
    }

    /// The threads of a process that have not ended, ascending.
    fn list_threads(target: &Target) -> Answer {
        let process = open(target)?;
        let mut threads: Vec<ThreadEntry> = process
            .living_threads()
            .filter_map(|(tid, stat)| {
                Some(ThreadEntry { tid: u32::try_from(tid).ok()?, name: stat.comm.into_bytes() })
            })
            .collect();
        threads.sort_unstable_by_key(|it| it.tid);
        if threads.is_empty() { Err(ControlError::Gone) } else { Ok(WorkerReply::Threads(threads)) }
    }

    /// The auxiliary vector, `/proc/<pid>/auxv`.
    fn auxiliary_vector(target: &Target) -> Answer {
        let process = open(target)?;
        let path = format!("/proc/{}/task/{}/auxv", process.pid(), process.memory_thread());
        let mut bytes = std::fs::read(path)
            .map_err(|error| ControlError::from_io("reading the auxiliary vector", &error))?;
        bytes.truncate(MAX_AUXV);
        Ok(WorkerReply::Bytes(bytes))
    }
}
