//! What the service knows of a session: its texts, its program, its output, and what waits for it.
//!
//! In: texts, lines of `ctl`, answers of the launcher. Out: what to ask the launcher, and what the
//! files of the session say. Blocks nothing: a task registers its waker.

mod program;
mod texts;

use super::control_line::{ControlLine, Lifetime, Limit};
use super::copy_target::CopyTarget;
use super::environment::{SessionPlace, SessionTexts, launched_program};
use super::error::{Refusal, SessionError};
use super::message::{Ending, LaunchCommand};
use super::{KEPT_OUTPUT, MAX_LABEL, MAX_OPEN, Stream};
use crate::output_log::{OutputLog, OutputSource, WhenFull};
use crate::user_worker::User;
use crate::waker_list::{WaitPlace, WakerList};
use program::Program;
pub use program::{Phase, ProcessEnd};
use rustix::io::Errno;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
pub use texts::TextFile;
use texts::TextFiles;

/// A session.
#[derive(Debug)]
pub struct SessionRecord {
    /// Its number.
    pub number: u32,
    /// The user of its program.
    pub user: User,
    /// Its directory, and its job.
    pub place: SessionPlace,
    /// What its program has written.
    pub output: Arc<OutputLog>,
    /// What it has written as errors.
    pub errors: Arc<OutputLog>,
    state: Mutex<State>,
    changed: WakerList,
}

#[derive(Debug, Default)]
struct State {
    texts: TextFiles,
    program: Program,
    id: (String, String),
    lifetime: Lifetime,
    redirects: [Option<Vec<u8>>; 3],
    /// The explanation of the last refusal.
    error: String,
    /// A line for each target of the last `clone`.
    outcomes: String,
    /// Whether a copy of another session comes in.
    is_copied_to: bool,
    /// Open files of the session.
    holds: usize,
    /// Whether the file that has made it is among them.
    has_maker: bool,
    must_end: bool,
    is_gone: bool,
}

fn is_copied_to(command: &str) -> SessionError {
    let why = format!("{command}: a copy of another session comes in: wait for its end");
    SessionError::new(Refusal::Busy, why)
}

/// What remains to be done for a line of `ctl`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// Nothing.
    Nothing,
    /// The launcher is asked.
    Ask(LaunchCommand),
    /// This end of a stream is closed.
    Close(Stream),
    /// The processes are limited.
    Limit(Limit),
    /// The session is copied to others, at most this number at a time; 0 is all.
    Copy(usize, Vec<CopyTarget>),
    /// The session ends.
    Wipe,
}

/// An open file of a session, which keeps the session.
#[derive(Debug)]
pub struct SessionHold {
    record: Arc<SessionRecord>,
    /// Whether it is the one that has made it: an open `clone`.
    is_maker: bool,
}

impl Drop for SessionHold {
    fn drop(&mut self) {
        let mut state = self.record.lock();
        state.holds -= 1;
        if self.is_maker {
            state.has_maker = false;
            state.must_end |= state.lifetime == Lifetime::Attached;
        }
        drop(state);
        self.record.changed.wake();
    }
}

impl SessionRecord {
    /// A session of a user, with this environment.
    pub fn new(number: u32, user: User, (place, env): (SessionPlace, &[u8])) -> Arc<Self> {
        let texts = TextFiles::with_env(env);
        let [output, errors] = OutputLog::pair(KEPT_OUTPUT, WhenFull::Wait);
        Arc::new(Self {
            number,
            user,
            place,
            output,
            errors,
            state: Mutex::new(State { texts, ..State::default() }),
            changed: WakerList::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each field is consistent after each change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the session until it is dropped.
    ///
    /// # Errors
    ///
    /// When it has too many open files.
    pub fn hold(self: &Arc<Self>) -> Result<SessionHold, SessionError> {
        let mut state = self.lock();
        if state.holds >= MAX_OPEN {
            let why = format!("{MAX_OPEN} files of the session are open, the limit: close some");
            return Err(SessionError::new(Refusal::TryAgain, why));
        }
        state.holds += 1;
        Ok(SessionHold { record: Arc::clone(self), is_maker: false })
    }

    /// The same for the open file that has made it: with `type attached`, it ends with that.
    ///
    /// # Errors
    ///
    /// As [`SessionRecord::hold`].
    pub fn hold_by_maker(self: &Arc<Self>) -> Result<SessionHold, SessionError> {
        let mut hold = self.hold()?;
        hold.is_maker = true;
        self.lock().has_maker = true;
        Ok(hold)
    }

    /// A text.
    pub fn text(&self, file: TextFile) -> Vec<u8> {
        self.lock().texts.bytes(file).to_vec()
    }

    /// Length and version of a text.
    pub fn text_length(&self, file: TextFile) -> (usize, u32) {
        let state = self.lock();
        (state.texts.bytes(file).len(), state.texts.version(file))
    }

    /// Writes a part of a text; a gap before it has NULs, which `exec` refuses.
    ///
    /// # Errors
    ///
    /// When it would be longer than it may be.
    pub fn write_text(&self, file: TextFile, at: u64, part: &[u8]) -> Result<(), SessionError> {
        self.lock().texts.write(file, at, part)
    }

    /// Empties a text.
    pub fn clear_text(&self, file: TextFile) {
        self.lock().texts.replace(file, Vec::new());
    }

    /// What reading `ctl` says: the process of the program, or -1.
    pub fn process_text(&self) -> String {
        match self.lock().program.phase() {
            Phase::Running(pid) => pid.to_string(),
            Phase::Ready | Phase::Starting | Phase::Ended(_) => "-1".to_owned(),
        }
    }

    /// The id of the job that the session is.
    pub fn job_id(&self) -> &str {
        self.place.job.as_ref().map_or("", |it| &it.0)
    }

    /// The source of what the program writes.
    pub fn output_source(&self, is_error: bool) -> OutputSource {
        let id = self.job_id();
        let group = if id.is_empty() { self.number.to_string().into() } else { id.into() };
        OutputSource { group, rank: Some(0), is_error }
    }

    /// How far the program is.
    pub fn phase(&self) -> Phase {
        self.lock().program.phase()
    }

    /// The numbers of job and process.
    pub fn id(&self) -> String {
        self.lock().id_text()
    }

    /// The explanation of the last refusal, and the lines of the last `clone`.
    pub fn error(&self) -> String {
        let state = self.lock();
        format!("{}{}", state.error, state.outcomes)
    }

    /// Sets a line for each target of a `clone`.
    pub fn set_outcomes(&self, lines: String) {
        let mut state = self.lock();
        state.error.clear();
        state.outcomes = lines;
    }

    /// Keeps the explanation of a refusal.
    pub fn refused(&self, error: &SessionError) {
        let mut text = error.why.clone();
        text.truncate(text.floor_char_boundary(MAX_LABEL));
        text.push('\n');
        let mut state = self.lock();
        state.error = text;
        if error.refusal != Refusal::Incomplete {
            state.outcomes.clear();
        }
    }

    /// Carries out a line of `ctl`, as far as this record does.
    ///
    /// # Errors
    ///
    /// When the line is none, or does not suit the state of the program.
    pub fn control(&self, line: &[u8]) -> Result<Remaining, SessionError> {
        let mut state = self.lock();
        if state.must_end {
            return Err(SessionError::new(Refusal::NoProcess, "the session is wiped"));
        }
        match ControlLine::parse(line)? {
            ControlLine::Nothing => {}
            ControlLine::Exec { program, folder } => {
                return self.exec(state, program.as_deref(), folder);
            }
            ControlLine::Signal(number) => {
                return match state.program.phase() {
                    Phase::Running(_) => Ok(Remaining::Ask(LaunchCommand::Signal(number))),
                    _ => Err(SessionError::new(
                        Refusal::NoProcess,
                        "signal: no program runs in this session",
                    )),
                };
            }
            ControlLine::Close(stream) => return Ok(Remaining::Close(stream)),
            ControlLine::Type(Lifetime::Attached) if !state.has_maker => {
                let why = "type attached: the open clone that has made the session is closed";
                return Err(SessionError::new(Refusal::Closed, why));
            }
            ControlLine::Type(lifetime) => state.lifetime = lifetime,
            ControlLine::Id(job, process) => state.set_id(&job, &process),
            ControlLine::Redirect(redirect) => {
                if !state.program.is_ready() {
                    let why = "redirect: the program was executed with its streams";
                    return Err(SessionError::new(Refusal::Busy, why));
                }
                state.redirects[redirect.stream as usize] = Some(redirect.path);
            }
            ControlLine::Limit(Limit::DropOutput) => {
                self.output.set_when_full(WhenFull::DropOldest);
                self.errors.set_when_full(WhenFull::DropOldest);
            }
            ControlLine::Limit(limit) => return Ok(Remaining::Limit(limit)),
            ControlLine::Clone(..) if state.is_copied_to => return Err(is_copied_to("clone")),
            ControlLine::Clone(width, targets) => return Ok(Remaining::Copy(width, targets)),
            ControlLine::Wipe => return Ok(Remaining::Wipe),
        }
        drop(state);
        self.changed.wake();
        Ok(Remaining::Nothing)
    }

    fn exec(
        &self,
        mut state: MutexGuard<'_, State>,
        program: Option<&[u8]>,
        folder: Option<PathBuf>,
    ) -> Result<Remaining, SessionError> {
        if !state.program.is_ready() {
            let why = "exec: the program of the session was executed: open another session";
            return Err(SessionError::new(Refusal::Busy, why));
        }
        if state.is_copied_to {
            return Err(is_copied_to("exec"));
        }
        let id = state.id_text();
        let texts = SessionTexts {
            place: &self.place,
            number: self.number,
            id: &id,
            argv: state.texts.bytes(TextFile::Argv),
            env: state.texts.bytes(TextFile::Env),
        };
        let mut program = launched_program(texts, program, folder)?;
        program.redirects = state.redirects.clone();
        state.program.starting();
        Ok(Remaining::Ask(LaunchCommand::Exec(program)))
    }

    /// A copy of another session comes in: until it has ended, no program is executed.
    ///
    /// # Errors
    ///
    /// When the program was executed, or the session ends.
    pub fn begin_copy(&self) -> Result<(), SessionError> {
        let mut state = self.lock();
        if state.must_end {
            return Err(SessionError::new(Refusal::NoProcess, "the session is wiped"));
        }
        if !state.program.is_ready() {
            let why = "the program of the session was executed: open another session";
            return Err(SessionError::new(Refusal::Busy, why));
        }
        state.is_copied_to = true;
        Ok(())
    }

    /// The copy has ended; with its arguments and environment if it is complete.
    pub fn end_copy(&self, texts: Option<(Vec<u8>, Vec<u8>)>) {
        let mut state = self.lock();
        state.is_copied_to = false;
        if let Some((argv, env)) = texts {
            state.texts.replace(TextFile::Argv, argv);
            state.texts.replace(TextFile::Env, env);
        }
    }

    /// The launcher has executed the program.
    pub fn started(&self, pid: u32) {
        self.change(|state| state.program.started(pid));
    }

    /// The launcher has not executed the program.
    pub fn not_started(&self, error: &SessionError) {
        let number = match error.refusal {
            Refusal::Kernel(number) => number,
            _ => Errno::INVAL.raw_os_error(),
        };
        self.change(|state| state.program.not_started(number));
    }

    /// The program has ended.
    pub fn ended(&self, ending: Ending) {
        self.change(|state| state.program.ended(ProcessEnd::Ended(ending)));
    }

    /// The session shall end.
    pub fn end(&self) {
        self.change(|state| state.must_end = true);
    }

    /// The session has ended: all that wait get an answer.
    pub fn wiped(&self, last: Option<Ending>) {
        self.output.close();
        self.errors.close();
        self.change(|state| {
            state.must_end = true;
            state.is_gone = true;
            state.program.ended(ProcessEnd::Wiped(last));
        });
    }

    /// Changes the state, then wakes what waits for it.
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.wake();
    }

    /// Whether it shall end, or has.
    pub fn is_ending(&self) -> bool {
        self.lock().must_end
    }

    /// What `wait` says, when the program has ended or was not executed.
    pub fn poll_wait(&self, place: &WaitPlace, context: &Context<'_>) -> Poll<String> {
        // Before the look: a change after it wakes.
        place.wait(context);
        self.lock().program.wait_text().map_or(Poll::Pending, Poll::Ready)
    }

    /// A place for a task that waits for what changes.
    pub fn wait_place(&self) -> WaitPlace {
        self.changed.add_place()
    }

    /// Waits for what `wait` says.
    pub async fn wait(&self) -> String {
        let place = self.wait_place();
        poll_fn(|context| self.poll_wait(&place, context)).await
    }

    /// Waits until the session shall end.
    pub async fn ending(&self) {
        self.until(|state| state.must_end).await;
    }

    /// Waits until it has ended, with all its processes.
    pub async fn gone(&self) {
        self.until(|state| state.is_gone).await;
    }

    /// Waits until nothing keeps the session: no program, no open file, and no `type persistent`.
    pub async fn unused(&self) {
        self.until(State::is_unused).await;
    }

    /// Waits until something keeps it.
    pub async fn used(&self) {
        self.until(|state| !state.is_unused()).await;
    }

    /// Whether nothing keeps the session.
    pub fn is_unused(&self) -> bool {
        self.lock().is_unused()
    }

    async fn until(&self, is_ready: impl Fn(&State) -> bool) {
        let place = self.wait_place();
        poll_fn(|context| {
            place.wait(context);
            if is_ready(&self.lock()) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl State {
    fn id_text(&self) -> String {
        format!("{}/{}", self.id.0, if self.id.1.is_empty() { "0" } else { &self.id.1 })
    }

    fn set_id(&mut self, job: &[u8], process: &[u8]) {
        if !job.is_empty() {
            self.id.0 = String::from_utf8_lossy(job).into_owned();
        }
        if !process.is_empty() {
            self.id.1 = String::from_utf8_lossy(process).into_owned();
        }
    }

    fn is_unused(&self) -> bool {
        self.holds == 0 && !self.program.runs() && self.lifetime == Lifetime::Normal
    }
}

#[cfg(test)]
mod tests;
