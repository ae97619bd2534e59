//! What the service knows of a session: its texts, its program, its output, and what waits for it.
//!
//! In: texts, lines of `ctl`, answers of the launcher. Out: what to ask the launcher, and what the
//! files of the session say. Blocks nothing: a task registers its waker.

use super::control_line::{ControlLine, Lifetime, Limit};
use super::copy_target::CopyTarget;
use super::environment::{SessionPlace, SessionTexts, launched_program};
use super::error::{Refusal, SessionError};
use super::message::{Ending, LaunchCommand};
use super::{KEPT_OUTPUT, MAX_LABEL, MAX_OPEN, MAX_TEXT, Stream};
use crate::output_log::{OutputLog, OutputSource, WhenFull};
use crate::user_worker::User;
use crate::waker_list::{WaitPlace, WakerList};
use rustix::io::Errno;
use std::fmt::Write as _;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

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
    argv: Text,
    env: Text,
    label: Text,
    id: (String, String),
    lifetime: Lifetime,
    phase: Phase,
    /// How the last `exec` failed.
    failed: Option<i32>,
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

/// A text that clients write.
#[derive(Clone, Debug, Default)]
struct Text {
    bytes: Vec<u8>,
    version: u32,
}

impl Text {
    fn replace(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
        self.version = self.version.wrapping_add(1);
    }
}

fn is_copied_to(command: &str) -> SessionError {
    let why = format!("{command}: a copy of another session comes in: wait for its end");
    SessionError::new(Refusal::Busy, why)
}

/// Which text of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFile {
    /// The arguments.
    Argv,
    /// The environment.
    Env,
    /// A free text.
    State,
}

/// How far the program is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It was not executed.
    #[default]
    Ready,
    /// It is being executed.
    Starting,
    /// It runs, as this process.
    Running(u32),
    /// It has ended.
    Ended(ProcessEnd),
}

/// How a session came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself, or by a signal.
    Ended(Ending),
    /// It was wiped; with the end of its program, if that ran.
    Wiped(Option<Ending>),
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
        let text = Text { bytes: env.to_vec(), version: 0 };
        let [output, errors] = OutputLog::pair(KEPT_OUTPUT, WhenFull::Wait);
        Arc::new(Self {
            number,
            user,
            place,
            output,
            errors,
            state: Mutex::new(State { env: text, ..State::default() }),
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
        self.lock().text(file).bytes.clone()
    }

    /// Length and version of a text.
    pub fn text_length(&self, file: TextFile) -> (usize, u32) {
        let mut state = self.lock();
        let text = state.text(file);
        (text.bytes.len(), text.version)
    }

    /// Writes a part of a text; a gap before it has NULs, which `exec` refuses.
    ///
    /// # Errors
    ///
    /// When it would be longer than it may be.
    pub fn write_text(&self, file: TextFile, at: u64, part: &[u8]) -> Result<(), SessionError> {
        let most = if file == TextFile::State { MAX_LABEL } else { MAX_TEXT };
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let Some(end) = at.checked_add(part.len()).filter(|it| *it <= most) else {
            let why = format!("the text would have more than {most} bytes");
            return Err(SessionError::new(Refusal::TooLarge, why));
        };
        let mut state = self.lock();
        let text = state.text(file);
        if text.bytes.len() < end {
            text.bytes.resize(end, 0);
        }
        text.bytes[at..end].copy_from_slice(part);
        text.version = text.version.wrapping_add(1);
        Ok(())
    }

    /// Empties a text.
    pub fn clear_text(&self, file: TextFile) {
        let mut state = self.lock();
        state.text(file).replace(Vec::new());
    }

    /// What reading `ctl` says: the process of the program, or -1.
    pub fn process_text(&self) -> String {
        match self.lock().phase {
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
        self.lock().phase
    }

    /// The numbers of job and process.
    pub fn id(&self) -> String {
        let state = self.lock();
        format!("{}/{}", state.id.0, if state.id.1.is_empty() { "0" } else { &state.id.1 })
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
                return match state.phase {
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
                if !matches!(state.phase, Phase::Ready) {
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
        if state.phase != Phase::Ready {
            let why = "exec: the program of the session was executed: open another session";
            return Err(SessionError::new(Refusal::Busy, why));
        }
        if state.is_copied_to {
            return Err(is_copied_to("exec"));
        }
        let id =
            format!("{}/{}", state.id.0, if state.id.1.is_empty() { "0" } else { &state.id.1 });
        let texts = SessionTexts {
            place: &self.place,
            number: self.number,
            id: &id,
            argv: &state.argv.bytes,
            env: &state.env.bytes,
        };
        let mut program = launched_program(texts, program, folder)?;
        program.redirects = state.redirects.clone();
        state.phase = Phase::Starting;
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
        if state.phase != Phase::Ready {
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
            state.argv.replace(argv);
            state.env.replace(env);
        }
    }

    /// The launcher has executed the program.
    pub fn started(&self, pid: u32) {
        let mut state = self.lock();
        // Its end may have been reported before the answer to `exec`: never, but for a launcher
        // that its user has changed.
        if state.phase == Phase::Starting {
            state.phase = Phase::Running(pid);
            state.failed = None;
        }
        drop(state);
        self.changed.wake();
    }

    /// The launcher has not executed the program.
    pub fn not_started(&self, error: &SessionError) {
        let mut state = self.lock();
        if state.phase == Phase::Starting {
            state.phase = Phase::Ready;
            state.failed = Some(match error.refusal {
                Refusal::Kernel(number) => number,
                _ => Errno::INVAL.raw_os_error(),
            });
        }
        drop(state);
        self.changed.wake();
    }

    /// The program has ended.
    pub fn ended(&self, ending: Ending) {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Ended(_)) {
            state.phase = Phase::Ended(ProcessEnd::Ended(ending));
        }
        drop(state);
        self.changed.wake();
    }

    /// The session shall end.
    pub fn end(&self) {
        self.lock().must_end = true;
        self.changed.wake();
    }

    /// The session has ended: all that wait get an answer.
    pub fn wiped(&self, last: Option<Ending>) {
        let mut state = self.lock();
        state.must_end = true;
        state.is_gone = true;
        if !matches!(state.phase, Phase::Ended(_)) {
            state.phase = Phase::Ended(ProcessEnd::Wiped(last));
        }
        drop(state);
        self.output.close();
        self.errors.close();
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
        let state = self.lock();
        match (state.phase, state.failed) {
            (Phase::Ended(end), _) => Poll::Ready(wait_text(end)),
            (Phase::Ready, Some(number)) => {
                let code = if number == Errno::NOENT.raw_os_error() { 127 } else { 126 };
                Poll::Ready(format!("{code} execfail {number} 0 0 0 0\n"))
            }
            _ => Poll::Pending,
        }
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
    const fn text(&mut self, file: TextFile) -> &mut Text {
        match file {
            TextFile::Argv => &mut self.argv,
            TextFile::Env => &mut self.env,
            TextFile::State => &mut self.label,
        }
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
        let runs = matches!(self.phase, Phase::Starting | Phase::Running(_));
        self.holds == 0 && !runs && self.lifetime == Lifetime::Normal
    }
}

/// `<code> <kind> <n> <utime_ms> <stime_ms> <real_ms> <maxrss_kb>`.
fn wait_text(end: ProcessEnd) -> String {
    let (it, kind) = match end {
        ProcessEnd::Ended(it) if it.signal.is_some() => (it, "signal"),
        ProcessEnd::Ended(it) => (it, "exit"),
        ProcessEnd::Wiped(it) => (it.unwrap_or_default(), "wiped"),
    };
    let number = it.signal.or(it.code).unwrap_or(0);
    let code = it.signal.map_or(it.code.unwrap_or(0), |signal| 128 + signal);
    let mut out = format!("{code} {kind} {number}");
    for value in [it.user_ms, it.system_ms, it.real_ms, it.max_rss_kib] {
        let _ = write!(out, " {value}");
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn record() -> Arc<SessionRecord> {
        let user = User { uid: 7, gid: 7, groups: vec![7] };
        let place = SessionPlace { folder: "/run/s".into(), job: None };
        SessionRecord::new(3, user, (place, b"PATH=/bin\n"))
    }

    fn wait(record: &SessionRecord) -> Option<String> {
        match record.poll_wait(&record.wait_place(), &Context::from_waker(Waker::noop())) {
            Poll::Ready(text) => Some(text),
            Poll::Pending => None,
        }
    }

    fn exec(record: &SessionRecord, line: &str) -> Result<Remaining, Refusal> {
        record.control(line.as_bytes()).map_err(|it| it.refusal)
    }

    #[test]
    fn a_program_is_executed_once_and_waited_for() {
        let it = record();
        assert_eq!((wait(&it), it.process_text()), (None, "-1".to_owned()));
        assert!(matches!(exec(&it, "exec /bin/a"), Ok(Remaining::Ask(LaunchCommand::Exec(_)))));
        assert_eq!(exec(&it, "exec /bin/a"), Err(Refusal::Busy));
        it.started(77);
        assert_eq!((wait(&it), it.process_text()), (None, "77".to_owned()));
        it.ended(Ending { code: Some(3), user_ms: 1, real_ms: 9, ..Ending::default() });
        assert_eq!(wait(&it).as_deref(), Some("3 exit 3 1 0 9 0\n"));
        assert_eq!(exec(&it, "exec /bin/a"), Err(Refusal::Busy));
        assert_eq!(exec(&it, "signal 9"), Err(Refusal::NoProcess));
        it.wiped(None);
        assert_eq!(wait(&it).as_deref(), Some("3 exit 3 1 0 9 0\n"));
    }

    #[test]
    fn a_failed_exec_is_reported_and_can_be_repeated() {
        let it = record();
        let _ask = exec(&it, "exec /absent").expect("a command");
        it.not_started(&SessionError::new(Refusal::Kernel(2), "absent"));
        assert_eq!(wait(&it).as_deref(), Some("127 execfail 2 0 0 0 0\n"));
        let _ask = exec(&it, "exec /bin/a").expect("a command");
        it.started(77);
        assert_eq!(wait(&it), None);
        it.ended(Ending { signal: Some(9), ..Ending::default() });
        assert_eq!(wait(&it).as_deref(), Some("137 signal 9 0 0 0 0\n"));
    }

    #[test]
    fn a_session_is_unused_without_files_and_program() {
        let it = record();
        let hold = it.hold().expect("room");
        assert!(!it.is_unused());
        drop(hold);
        assert!(it.is_unused());
        let _ask = exec(&it, "exec /bin/a").expect("a command");
        assert!(!it.is_unused());
        it.started(77);
        it.ended(Ending::default());
        assert!(it.is_unused());
        assert_eq!(exec(&it, "type persistent"), Ok(Remaining::Nothing));
        assert!(!it.is_unused());
        assert_eq!(exec(&it, "type normal"), Ok(Remaining::Nothing));
        assert!(it.is_unused());
        it.wiped(None);
        assert_eq!(exec(&it, "type normal"), Err(Refusal::NoProcess));
    }

    #[test]
    fn an_attached_session_ends_with_the_file_that_has_made_it() {
        let it = record();
        let maker = it.hold_by_maker().expect("room");
        let file = it.hold().expect("room");
        assert_eq!(exec(&it, "type attached"), Ok(Remaining::Nothing));
        drop(file);
        assert!(!it.is_ending() && !it.is_unused());
        drop(maker);
        assert!(it.is_ending());
        let other = record();
        let maker = other.hold_by_maker().expect("room");
        drop(maker);
        assert_eq!(exec(&other, "type attached"), Err(Refusal::Closed));
        assert!(!other.is_ending());
    }

    #[test]
    fn a_text_is_written_in_parts_within_its_limit() {
        let it = record();
        it.write_text(TextFile::Argv, 0, b"abc").expect("room");
        it.write_text(TextFile::Argv, 5, b"x").expect("room");
        assert_eq!(it.text(TextFile::Argv), b"abc\0\0x");
        assert_eq!(exec(&it, "exec /bin/a"), Err(Refusal::Invalid));
        it.clear_text(TextFile::Argv);
        assert_eq!(it.text_length(TextFile::Argv), (0, 3));
        for at in [MAX_TEXT as u64, u64::MAX, u64::MAX - 1] {
            let refused = it.write_text(TextFile::Argv, at, b"xy").map_err(|it| it.refusal);
            assert_eq!(refused, Err(Refusal::TooLarge));
        }
    }

    #[test]
    fn a_session_that_was_wiped_has_an_answer_for_all_that_wait() {
        let it = record();
        assert_eq!(wait(&it), None);
        it.wiped(None);
        assert_eq!(wait(&it).as_deref(), Some("0 wiped 0 0 0 0 0\n"));
    }

    #[test]
    fn no_program_is_executed_while_a_copy_comes_in() {
        let it = record();
        it.begin_copy().expect("no program was executed");
        assert_eq!(exec(&it, "exec /bin/a"), Err(Refusal::Busy));
        assert_eq!(exec(&it, "clone 2 a/1/k"), Err(Refusal::Busy));
        it.end_copy(Some((b"a b".to_vec(), b"A=1".to_vec())));
        assert_eq!(
            (it.text(TextFile::Argv), it.text_length(TextFile::Env)),
            (b"a b".to_vec(), (3, 1))
        );
        assert!(matches!(exec(&it, "clone 2 a/1/k"), Ok(Remaining::Copy(2, _))));
        assert!(matches!(exec(&it, "exec /bin/a"), Ok(Remaining::Ask(_))));
        assert_eq!(it.begin_copy().map_err(|it| it.refusal), Err(Refusal::Busy));
    }

    #[test]
    fn the_outcomes_of_a_clone_stay_until_another_refusal() {
        let it = record();
        it.set_outcomes("a/1 copied\n".to_owned());
        assert_eq!(it.error(), "a/1 copied\n");
        it.refused(&SessionError::new(Refusal::Incomplete, "clone: 1 failed"));
        assert_eq!(it.error(), "clone: 1 failed\na/1 copied\n");
        it.refused(&SessionError::new(Refusal::Invalid, "odd"));
        assert_eq!(it.error(), "odd\n");
    }

    #[test]
    fn open_files_of_a_session_are_limited() {
        let it = record();
        let all: Vec<_> = std::iter::from_fn(|| it.hold().ok()).collect();
        assert_eq!(all.len(), MAX_OPEN);
        assert_eq!(it.hold().err().map(|it| it.refusal), Some(Refusal::TryAgain));
        drop(all);
        assert!(it.hold().is_ok());
    }

    #[test]
    fn an_id_changes_by_its_parts() {
        let it = record();
        assert_eq!(it.id(), "/0");
        let _done = (exec(&it, "id 7/"), exec(&it, "id /3"));
        assert_eq!(it.id(), "7/3");
    }
}
