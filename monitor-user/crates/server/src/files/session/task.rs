//! The tasks of a session: its socket to the launcher, and the pipes that its program writes to.

use super::super::mon_settings::MonSettings;
use super::super::session_sample;
use super::copy::{CopyContext, IncomingCopy};
use super::input::InputPipe;
use super::job_host;
use super::live::{Ask, LiveSession};
use super::slot::SessionSlot;
use crate::lock::lock;
use crate::user_shares::UserShare;
use monitor_control::output_log::{OutputLog, OutputSource};
use monitor_control::session::{
    Ending, JobSocket, LaunchAnswer, LaunchCommand, Launcher, LauncherPipes, LauncherProcess,
    Phase, SessionError, SessionRecord,
};
use monitor_control::user_worker::frame::{CHUNK, Inbox, frame};
use monitor_sys::clock;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::{OnceCell, Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinHandle, spawn_blocking, yield_now};
use tokio::time::{Instant, sleep, timeout};

/// How long a session stays when nothing keeps it, so that a shell can open its files one by one.
const UNUSED_TIME: Duration = Duration::from_secs(10);
/// Commands that wait for a launcher.
const COMMANDS: usize = 16;
/// How long a launcher may take to accept a command: its user may have stopped it.
const SEND_TIME: Duration = Duration::from_secs(10);
/// How long processes that shall end may start others.
const FORK_TIME: Duration = Duration::from_secs(1);
/// How long a launcher may take to end all processes then, on a machine with much else to do.
const WIPE_TIME: Duration = Duration::from_secs(10);
/// How long what is left in the pipes may take to be kept.
const LAST_OUTPUT: Duration = Duration::from_millis(100);
/// The pause between checks of that.
const LOOK: Duration = Duration::from_millis(5);
/// Most bytes of a message of a launcher.
const MAX_ANSWER: usize = 64 << 10;

/// The socket for commands such as `job output`, and its listener.
pub type HostSocket = (JobSocket, UnixListener);

/// What the task of a session has.
pub struct SessionTask {
    live: Arc<LiveSession>,
    /// Serves its job.
    host: Option<JoinHandle<()>>,
    process: LauncherProcess,
    stream: UnixStream,
    inbox: Inbox,
    commands: mpsc::Receiver<Ask>,
    /// Commands without an answer.
    asked: VecDeque<Ask>,
    /// The end of the program.
    ending: Option<Ending>,
}

/// A session with this launcher, and its task.
///
/// # Errors
///
/// When a descriptor cannot be registered.
pub fn start(
    record: Arc<SessionRecord>,
    (launcher, pipes): (Launcher, LauncherPipes),
    (share, slot, context): (&Arc<UserShare>, SessionSlot, &Arc<CopyContext>),
    host: Option<HostSocket>,
) -> Result<(Arc<LiveSession>, SessionTask), SessionError> {
    let failed = |error: io::Error| SessionError::kernel("registering a pipe", &error);
    let stream = UnixStream::from_std(launcher.socket).map_err(failed)?;
    let input = InputPipe::new(pipes.input).map_err(failed)?;
    let output = Receiver::from_owned_fd(pipes.output).map_err(failed)?;
    let errors = Receiver::from_owned_fd(pipes.error).map_err(failed)?;
    let (to, commands) = mpsc::channel(COMMANDS);
    let kept_from = |source| (source, Arc::clone(share));
    let [of_output, of_errors] = [false, true].map(|it| kept_from(record.output_source(it)));
    let of_output = keep(output, Arc::clone(&record.output), of_output);
    let of_errors = keep(errors, Arc::clone(&record.errors), of_errors);
    let readers = [of_output, of_errors];
    let readers = Mutex::new(readers.map(Some));
    let (stored, cgroups) = (launcher.stored, Mutex::new(launcher.cgroups));
    let live = Arc::new(LiveSession {
        launcher: launcher.process.pid(),
        record,
        stored,
        input,
        readers,
        commands: to,
        cgroups,
        feed: OnceCell::new(),
        monitor: MonSettings::new(&session_sample::CATEGORIES),
        incoming: Mutex::new(IncomingCopy::default()),
        copies: Semaphore::new(1),
        context: Arc::clone(context),
        share: Arc::clone(share),
        _slot: slot,
    });
    let host = host.and_then(|(socket, listener)| {
        let host = job_host::start(&live, (socket, listener, Arc::clone(share)));
        host.inspect_err(|why| tracing::warn!("a session is not found as a job: {why}")).ok()
    });
    let task = SessionTask {
        live: Arc::clone(&live),
        host,
        process: launcher.process,
        stream,
        inbox: Inbox::with_limit(MAX_ANSWER),
        commands,
        asked: VecDeque::new(),
        ending: None,
    };
    Ok((live, task))
}

/// Keeps what a pipe brings until all its writers have closed it, within the processor time of the
/// user: without a reader, and with output that is dropped, nothing else limits it.
fn keep(
    pipe: Receiver,
    log: Arc<OutputLog>,
    (source, share): (OutputSource, Arc<UserShare>),
) -> AbortHandle {
    let kept = async move {
        let (mut bytes, place) = (vec![0; CHUNK], log.wait_place());
        while pipe.readable().await.is_ok() {
            let permit = share.admit_line(|| false).await;
            let began = clock::thread_cpu();
            let read = pipe.try_read(&mut bytes);
            share.charge_socket(began);
            drop(permit);
            match read {
                Ok(0) => break,
                Ok(n) => poll_fn(|it| log.poll_append((&source, &bytes[..n]), &place, it)).await,
                Err(why) if why.kind() == ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
            // Others first: a program may write without end.
            yield_now().await;
        }
        log.close();
    };
    tokio::spawn(kept).abort_handle()
}

impl SessionTask {
    /// Serves the session until it ends; `removed` is called when it begins to.
    pub async fn run(mut self, removed: impl FnOnce()) {
        if let Err(why) = self.serve().await {
            let number = self.live.record.number;
            tracing::warn!(number, "the launcher of a session has ended: {why}");
        }
        removed();
        self.live.record.end();
        self.end().await;
    }

    /// Carries commands and answers until the session shall end.
    async fn serve(&mut self) -> Result<(), String> {
        let record = Arc::clone(&self.live.record);
        loop {
            tokio::select! {
                biased;
                () = record.ending() => return Ok(()),
                () = unused(&record) => return Ok(()),
                ready = self.stream.readable() => {
                    ready.map_err(|why| why.to_string())?;
                    self.receive()?;
                }
                Some(ask) = self.commands.recv() => self.send(ask).await?,
            }
        }
    }

    async fn send(&mut self, ask: Ask) -> Result<(), String> {
        let bytes = frame(&ask.0).map_err(|why| why.to_string())?;
        self.asked.push_back(ask);
        match timeout(SEND_TIME, write_all(&self.stream, &bytes)).await {
            Ok(written) => written.map_err(|why| why.to_string()),
            Err(_) => Err(format!("it accepted no command within {SEND_TIME:?}")),
        }
    }

    /// Receives what is there.
    fn receive(&mut self) -> Result<(), String> {
        let mut bytes = vec![0; 4 << 10];
        match self.stream.try_read(&mut bytes) {
            Ok(0) => return Err("its socket is closed".to_owned()),
            Ok(n) => self.inbox.add(&bytes[..n]),
            Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(why) => return Err(why.to_string()),
        }
        while let Some(answer) = self.inbox.next_message().map_err(|why| why.to_string())? {
            self.answered(answer);
        }
        Ok(())
    }

    fn answered(&mut self, answer: LaunchAnswer) {
        let record = &self.live.record;
        if let LaunchAnswer::Ended(ending) = answer {
            self.ending = Some(ending);
            // The end of a program that a wipe has ended is reported with the wipe.
            if !record.is_ending() {
                record.ended(ending);
            }
            return;
        }
        let Some((command, to)) = self.asked.pop_front() else { return };
        let is_exec = matches!(command, LaunchCommand::Exec(_));
        let result = match answer {
            LaunchAnswer::Started(pid) if is_exec => {
                record.started(pid);
                Ok(())
            }
            LaunchAnswer::Refused(error) => {
                if is_exec {
                    record.not_started(&error);
                }
                Err(error)
            }
            LaunchAnswer::Started(_) | LaunchAnswer::Done | LaunchAnswer::Ended(_) => Ok(()),
        };
        // The write that has asked may have been flushed.
        let _unheard = to.send(result);
    }

    /// Receives until the launcher has closed its socket.
    async fn until_closed(&mut self) {
        while self.stream.readable().await.is_ok() && self.receive().is_ok() {}
    }

    /// Ends all processes of the session, and answers what waits.
    async fn end(mut self) {
        if let Ok(bytes) = frame(&LaunchCommand::Wipe) {
            let _stopped = timeout(WIPE_TIME, write_all(&self.stream, &bytes)).await;
        }
        let mut in_time = timeout(FORK_TIME, self.until_closed()).await.is_ok();
        if !in_time {
            // A limit of memory that the kernel still sets has the lock.
            let live = Arc::clone(&self.live);
            let stopped = spawn_blocking(move || lock(&live.cgroups).stop_forks());
            let _in_time = timeout(FORK_TIME, stopped).await;
            in_time = timeout(WIPE_TIME, self.until_closed()).await.is_ok();
        }
        let ran = !matches!(self.live.record.phase(), Phase::Ready);
        let number = self.live.record.number;
        if !in_time {
            tracing::warn!(number, "the launcher of a session did not end within {WIPE_TIME:?}");
        }
        let (mut process, live) = (self.process, Arc::clone(&self.live));
        let ended = spawn_blocking(move || {
            if !process.end(WIPE_TIME) {
                tracing::warn!(number, "the launcher of a session does not end");
            }
            std::mem::take(&mut *lock(&live.cgroups)).end();
        });
        let _ended = ended.await;
        self.live.finish_output().await;
        self.live.input.close();
        self.live.record.wiped(self.ending.filter(|_| ran));
        if let Some(host) = self.host {
            // It ends with the session.
            let _ended = timeout(LAST_OUTPUT, host).await;
        }
        self.live.finish_events().await;
    }
}

impl LiveSession {
    /// Keeps what is left in the pipes, as far as it has room.
    async fn finish_output(&self) {
        let until = Instant::now() + LAST_OUTPUT;
        let readers: Vec<_> = lock(&self.readers).iter_mut().filter_map(Option::take).collect();
        while readers.iter().any(|it| !it.is_finished()) && Instant::now() < until {
            sleep(LOOK).await;
        }
        readers.iter().for_each(AbortHandle::abort);
    }
}

/// Ready when nothing has kept the session for a while.
async fn unused(record: &SessionRecord) {
    loop {
        record.unused().await;
        tokio::select! {
            () = sleep(UNUSED_TIME) => return,
            () = record.used() => {}
        }
    }
}

async fn write_all(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(why) if why.kind() == ErrorKind::WouldBlock => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}
