//! Commands of this program that a user worker runs for tools.
//!
//! In: a request with its number, and the tool. Out: the reply to it, when the command has ended.
//! What a command writes is kept in memory files, so that no pipe fills up. A command that takes
//! too long, or whose tool has gone, is killed.

use crate::grouped_process::GroupedProcess;
use crate::job_command::{CommandOutput, JobCommand};
use crate::process_ref::raw_pid;
use crate::start::SELF_EXE;
use crate::{ControlError, LaunchSpec, NumberedRequest, ToolId, WorkerReply, start};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::Signal;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// How long a command may take: less than the service has for its reply.
const LIMIT: Duration = Duration::from_secs(8);
/// Most commands at a time.
const MAX_COMMANDS: usize = 16;
/// Most bytes that a command may write to a stream.
const MAX_OUTPUT: usize = 4 << 20;

/// What a command has done, as the reply to its request.
type CommandReply = Result<WorkerReply, ControlError>;

/// The commands that run.
#[derive(Default)]
pub(super) struct CommandTable {
    running: Vec<RunningCommand>,
    /// Those that were killed and are not reaped yet.
    killed: Vec<GroupedProcess>,
}

struct RunningCommand {
    /// That of the request.
    number: u64,
    tool: ToolId,
    until: Instant,
    process: GroupedProcess,
    stdout: File,
    stderr: File,
}

impl CommandTable {
    /// Starts a command.
    ///
    /// # Errors
    /// If there are too many, or it cannot be started.
    pub fn start(
        &mut self,
        numbered: &NumberedRequest,
        command: &JobCommand,
    ) -> Result<(), ControlError> {
        if self.running.len() >= MAX_COMMANDS {
            let why = format!("{MAX_COMMANDS} commands on jobs run for this user; wait for one");
            return Err(ControlError::Exhausted(why));
        }
        let program = LaunchSpec {
            path: SELF_EXE.into(),
            arguments: command.act.words(),
            environment: command.environment.clone(),
            folder: command.folder.clone(),
            streams: [None, None, None],
            stopped: false,
        };
        let failed = |error: std::io::Error| ControlError::from_io("running a command", &error);
        let file = || memfd_create("output", MemfdFlags::CLOEXEC).map(File::from);
        let (stdout, stderr) = (file().map_err(|it| failed(it.into()))?, file());
        let stderr = stderr.map_err(|it| failed(it.into()))?;
        let mut words = start::command(&program)?;
        words.stdout(stdout.try_clone().map_err(failed)?);
        words.stderr(stderr.try_clone().map_err(failed)?);
        let process = GroupedProcess::start_unread(&mut words).map_err(failed)?;
        let (number, tool, until) = (numbered.number, numbered.tool, Instant::now() + LIMIT);
        self.running.push(RunningCommand { number, tool, until, process, stdout, stderr });
        Ok(())
    }

    /// Adds the replies of those that have ended, except for traced ones, which the tracer reaps;
    /// kills those that take too long.
    pub fn poll(
        &mut self,
        is_traced: &dyn Fn(i32) -> bool,
        replies: &mut Vec<(u64, CommandReply)>,
    ) {
        let end =
            |it: &mut GroupedProcess| if is_traced(raw_pid(it.pid())) { None } else { it.poll() };
        self.running.retain_mut(|command| match end(&mut command.process) {
            Some(status) => {
                replies.push((command.number, command.answer(status)));
                false
            }
            None => true,
        });
        let now = Instant::now();
        for command in self.running.extract_if(.., |it| it.until <= now) {
            let late = ControlError::TimedOut(format!("the command did not end within {LIMIT:?}"));
            replies.push((command.number, Err(late)));
            command.process.signal(Signal::KILL);
            self.killed.push(command.process);
        }
        self.killed.retain_mut(|it| end(it).is_none());
    }

    /// When `poll` must be called at the latest.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.running.iter().map(|it| it.until).min()
    }

    /// Kills those of a tool that has gone.
    pub fn forget_tool(&mut self, tool: ToolId) {
        for command in self.running.extract_if(.., |it| it.tool == tool) {
            command.process.signal(Signal::KILL);
            self.killed.push(command.process);
        }
    }

    /// Kills all.
    pub fn end_all(&mut self) {
        for command in self.running.drain(..) {
            command.process.signal(Signal::KILL);
        }
    }
}

impl RunningCommand {
    fn answer(&self, status: ExitStatus) -> CommandReply {
        let [stdout, stderr] = [&self.stdout, &self.stderr].map(written);
        let (stdout, stderr) = (stdout?, stderr?);
        Ok(WorkerReply::CommandEnded(CommandOutput { code: status.code(), stdout, stderr }))
    }
}

/// What is in a file.
fn written(file: &File) -> Result<Vec<u8>, ControlError> {
    let mut bytes = vec![0; MAX_OUTPUT + 1];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], u64::try_from(length).unwrap_or(u64::MAX)) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) => return Err(ControlError::from_io("reading what it wrote", &error)),
        }
    }
    if length > MAX_OUTPUT {
        let why = format!("the command wrote more than {MAX_OUTPUT} bytes");
        return Err(ControlError::Exhausted(why));
    }
    bytes.truncate(length);
    Ok(bytes)
}
