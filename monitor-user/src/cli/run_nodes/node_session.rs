//! A session on one node, from `clone` to its end.
//!
//! In: the address of the node, what is executed, input and signals. Out: what the program writes,
//! and how it ended. The session is `attached`: it ends with the connection, however this ends.

use super::copy_tree::{FilesFrom, Offer, TreeSlot, files_from};
use super::plan::RunPlan;
use super::printer::{NodeStream, OutputClosed};
use crate::cli::output::notice;
use bytes::Bytes;
use monitor_control::session::quoted;
use monitor_remote::{Address, Connector, Remote, RemoteError, RemoteFile, RemoteMode};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{sleep, timeout};

/// How long a stream may bring nothing after the end of the program: a process that it has left may
/// have it open. Then the session is wiped.
const AFTER_END: Duration = Duration::from_secs(2);
/// Bytes of a file that are read at once.
const PUSH_BYTES: usize = 128 << 10;
/// How long a session may copy itself to others; its node has a shorter deadline for it.
const COPY_TIME: Duration = Duration::from_secs(620);
/// Most bytes of what it says about each of them.
const OUTCOME_BYTES: usize = 1 << 20;
/// Most bytes of small texts of a session.
const TEXT_BYTES: usize = 256 << 10;

/// What a node is given.
#[derive(Debug)]
pub struct NodeTask {
    /// Its number in the set, from 0.
    pub index: usize,
    /// Where it serves its files.
    pub address: Address,
    /// Its name.
    pub name: String,
    /// What is executed.
    pub plan: Arc<RunPlan>,
    /// Its place in the tree that the files are copied over.
    pub slot: TreeSlot,
    /// Standard input.
    pub input: mpsc::Receiver<Bytes>,
    /// Signals for the program, by number.
    pub signals: broadcast::Receiver<u32>,
    /// Where its output goes: standard output, and error.
    pub streams: [NodeStream; 2],
}

/// How the program of a node ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEnd {
    /// What counts for the exit code of this command.
    pub code: u8,
    /// What is printed about it; empty after exit code 0.
    pub report: String,
    /// The output that is to be folded.
    pub output: Vec<u8>,
}

/// Why no program has run, or how it ended is not known.
#[derive(Debug)]
pub enum NodeError {
    /// The node does not answer, or not any longer.
    NoAnswer(String),
    /// It refuses.
    Refused(String),
    /// It does not execute the program.
    NotExecuted {
        /// Its reason.
        why: String,
        /// Whether it has no such program.
        is_absent: bool,
    },
    /// The reader of the output has closed it.
    OutputClosed,
}

impl From<OutputClosed> for NodeError {
    fn from(_: OutputClosed) -> Self {
        Self::OutputClosed
    }
}

/// A session whose program is executed.
struct NodeSession {
    remote: Remote,
    /// Its number, as a path.
    path: String,
    /// The file that has made it: the session ends when it is closed.
    _maker: RemoteFile,
    deadline: Duration,
}

/// Runs the program on a node.
///
/// # Errors
///
/// When the node does not answer, refuses, or does not execute the program.
pub async fn run(task: NodeTask) -> Result<NodeEnd, NodeError> {
    let NodeTask { index, address, name, plan, slot, input, signals, streams } = task;
    let session = NodeSession::begin(&address, &plan).await?;
    session.prepare(&plan, (&name, index), slot).await?;
    let (stdout, stderr) = (session.open("stdout").await?, session.open("stderr").await?);
    let (wait, stdin) = (session.open("wait").await?, session.open("stdin").await?);
    let files = [stdout, stderr];
    session.execute(&plan.program.exec).await?;
    let given = async {
        tokio::join!(session.pass_signals(signals), session.feed(&stdin, input));
    };
    let run = session.follow(wait, files, streams);
    let (text, output) = tokio::select! {
        ended = run => ended?,
        () = given => return Err(NodeError::NoAnswer("no signals come any longer".to_owned())),
    };
    let _wiped = session.control("wipe\n").await;
    Ok(NodeEnd { output, ..end_of(&text) })
}

impl NodeSession {
    async fn begin(address: &Address, plan: &RunPlan) -> Result<Self, NodeError> {
        let remote = Connector::default().connect(address, &plan.user, plan.deadline).await;
        let remote = remote.map_err(|why| NodeError::NoAnswer(why.to_string()))?;
        let maker = match remote.open("clone", RemoteMode::Read).await {
            Ok(file) => file,
            Err(RemoteError::NotFound) => {
                let why = "it executes no programs (files.execute in its configuration)";
                return Err(NodeError::Refused(why.to_owned()));
            }
            Err(why) => return Err(explained(&remote, "clone", why).await),
        };
        let number = within(plan.deadline, maker.read_to_end(TEXT_BYTES)).await;
        let number = match number {
            Ok(number) => String::from_utf8_lossy(&number).into_owned(),
            Err(why) => return Err(explained(&remote, "clone", why).await),
        };
        Ok(Self { remote, path: number, _maker: maker, deadline: plan.deadline })
    }

    /// Copies the files, and writes the texts of the session.
    async fn prepare(
        &self,
        plan: &RunPlan,
        (name, index): (&str, usize),
        slot: TreeSlot,
    ) -> Result<(), NodeError> {
        self.control(&format!("type attached\nid {}/{index}\n", plan.id)).await?;
        // A copy of another session brings the environment of that.
        let at = format!("{}/env", self.path);
        let read = within(self.deadline, self.remote.read(&at, TEXT_BYTES)).await;
        let mut env = self.explain(&at, read).await?;
        let width = slot.tree().map_or(0, |it| it.width);
        match self.files_from(slot, index).await {
            FilesFrom::Session => {}
            FilesFrom::HereFor(offers) => {
                self.push_all(plan).await?;
                self.copy_to(offers, width).await;
            }
            FilesFrom::Here(why) => {
                if let Some(why) = why {
                    notice(&format!("{name}: its files are copied from here: {why}"));
                }
                self.push_all(plan).await?;
            }
        }
        self.write("argv", &plan.argv).await?;
        if !plan.env.is_empty() {
            env.push(b'\n');
            env.extend_from_slice(&plan.env);
        }
        self.write("env", &env).await
    }

    /// Where the session has the files of the program from.
    async fn files_from(&self, slot: TreeSlot, index: usize) -> FilesFrom {
        let Some(tree) = slot.tree() else { return FilesFrom::Here(None) };
        let text = async |path: &str| {
            let read = within(self.deadline, self.remote.read(path, TEXT_BYTES)).await;
            read.ok().and_then(|it| String::from_utf8(it).ok())
        };
        let address = text("addr").await.map(|it| it.trim_end().to_owned());
        let address = address.filter(|it| tree.with_unix || it.starts_with("tls!"));
        let key = text(&format!("{}/key", self.path)).await;
        match (address, key) {
            (Some(address), Some(key)) => {
                slot.join(index, format!("{address}/{}/{key}", self.path)).await
            }
            _ => FilesFrom::Here(None),
        }
    }

    /// Copies all files from here.
    async fn push_all(&self, plan: &RunPlan) -> Result<(), NodeError> {
        // Nodes wait for others here, so that the parts of files in memory are few.
        let _place = plan.pushes.acquire().await;
        for file in &plan.program.files {
            let pushed = self.push(file).await;
            self.explain(&file.name, pushed).await?;
        }
        Ok(())
    }

    /// Lets the session copy itself to others, and says to each how that has ended.
    async fn copy_to(&self, offers: Vec<Offer>, width: usize) {
        if offers.is_empty() {
            return;
        }
        let targets: Vec<&str> = offers.iter().map(|it| it.target.as_str()).collect();
        let line = format!("clone {width} {}\n", quoted_list(&targets));
        let at = format!("{}/ctl", self.path);
        let copied = timeout(COPY_TIME, self.remote.write(&at, line.as_bytes())).await;
        let lines = match copied {
            Ok(Ok(())) => None,
            _ => {
                let at = format!("{}/err", self.path);
                let read = within(self.deadline, self.remote.read(&at, OUTCOME_BYTES)).await;
                Some(String::from_utf8_lossy(&read.unwrap_or_default()).into_owned())
            }
        };
        for Offer { target, decided, .. } in offers {
            let from = lines.as_deref().map_or(FilesFrom::Session, |it| files_from(&target, it));
            // Its node may have gone.
            let _awaited = decided.send(from);
        }
    }

    async fn push(&self, pushed: &super::program::PushedFile) -> Result<(), RemoteError> {
        let folder = self.remote.walk(&format!("{}/fs", self.path)).await?;
        let name = (pushed.name.as_str(), pushed.permissions);
        let file = folder.create(name, RemoteMode::Write).await?;
        let mut bytes = vec![0; PUSH_BYTES];
        let mut offset = 0;
        loop {
            let unreadable = |why: std::io::Error| RemoteError::Lost { why: why.to_string() };
            let count = pushed.file.read_at(&mut bytes, offset).map_err(unreadable)?;
            if count == 0 {
                return Ok(());
            }
            within(self.deadline, file.upload(offset, &bytes[..count])).await?;
            offset += u64::try_from(count).unwrap_or(u64::MAX);
        }
    }

    async fn execute(&self, line: &[u8]) -> Result<(), NodeError> {
        let at = format!("{}/ctl", self.path);
        match within(self.deadline, self.remote.write(&at, line)).await {
            Ok(()) => Ok(()),
            Err(why) if !why.leaves_connection() => Err(NodeError::NoAnswer(why.to_string())),
            Err(why) => {
                let is_absent = matches!(why, RemoteError::NotFound);
                let why = with_explanation(why, &self.remote.explanation().await);
                Err(NodeError::NotExecuted { why, is_absent })
            }
        }
    }

    /// What the program writes, until its end and that of its output; the text of `wait`, and the
    /// output that is to be folded.
    async fn follow(
        &self,
        wait: RemoteFile,
        files: [RemoteFile; 2],
        streams: [NodeStream; 2],
    ) -> Result<(String, Vec<u8>), NodeError> {
        let (ended, has_ended) = watch::channel(false);
        let waited = async {
            let text = wait.read_to_end(TEXT_BYTES).await;
            let text = self.explain("wait", text).await;
            let _others_follow = ended.send(true);
            text
        };
        let ([stdout, stderr], [output, errors]) = (files, streams);
        let (text, output, errors) = tokio::try_join!(
            waited,
            self.copy(stdout, output, has_ended.clone()),
            self.copy(stderr, errors, has_ended.clone()),
        )?;
        drop(errors);
        Ok((String::from_utf8_lossy(&text).into_owned(), output))
    }

    /// Copies a stream to its end.
    async fn copy(
        &self,
        file: RemoteFile,
        mut to: NodeStream,
        mut has_ended: watch::Receiver<bool>,
    ) -> Result<Vec<u8>, NodeError> {
        let mut offset = 0;
        let mut is_wiped = false;
        loop {
            let is_left_open = async {
                // The sender is there as long as the program runs.
                drop(has_ended.wait_for(|it| *it).await);
                sleep(AFTER_END).await;
            };
            let part = tokio::select! {
                biased;
                part = file.read(offset, file.read_bytes()) => part,
                // The flushed read has taken nothing: an offset counts from the beginning.
                () = is_left_open, if !is_wiped => {
                    is_wiped = true;
                    let _wiped = self.control("wipe\n").await;
                    continue;
                }
            };
            let part = self.explain("output", part).await?;
            if part.is_empty() {
                return Ok(to.finish().await?);
            }
            to.add(&part).await?;
            offset += u64::try_from(part.len()).unwrap_or(u64::MAX);
        }
    }

    /// Sends the program what this command gets, for ever.
    async fn pass_signals(&self, mut signals: broadcast::Receiver<u32>) {
        loop {
            match signals.recv().await {
                // The program may have ended.
                Ok(number) => drop(self.control(&format!("signal {number}\n")).await),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Writes standard input, and closes it at its end.
    async fn feed(&self, stdin: &RemoteFile, mut input: mpsc::Receiver<Bytes>) {
        while let Some(part) = input.recv().await {
            if stdin.write_all(0, &part).await.is_err() {
                // The program has closed it; what follows is dropped.
                return;
            }
        }
        let _closed = self.control("close stdin\n").await;
    }

    /// Opens a stream of the program: its input to be written, another to be read.
    async fn open(&self, name: &str) -> Result<RemoteFile, NodeError> {
        let mode = if name == "stdin" { RemoteMode::Write } else { RemoteMode::Read };
        let opened = self.remote.open(&format!("{}/{name}", self.path), mode).await;
        self.explain(name, opened).await
    }

    async fn write(&self, name: &str, text: &[u8]) -> Result<(), NodeError> {
        let at = format!("{}/{name}", self.path);
        let written = async {
            let file = self.remote.open(&at, RemoteMode::Replace).await?;
            file.write_all(0, text).await
        };
        let written = within(self.deadline, written).await;
        self.explain(name, written).await
    }

    async fn control(&self, lines: &str) -> Result<(), NodeError> {
        let at = format!("{}/ctl", self.path);
        let written = within(self.deadline, self.remote.write(&at, lines.as_bytes())).await;
        self.explain("ctl", written).await
    }

    async fn explain<T>(&self, what: &str, result: Result<T, RemoteError>) -> Result<T, NodeError> {
        match result {
            Ok(value) => Ok(value),
            Err(why) => Err(explained(&self.remote, what, why).await),
        }
    }
}

/// Targets as one word of `ctl`: an address may have blanks.
fn quoted_list(targets: &[&str]) -> String {
    let list = targets.join(",");
    String::from_utf8_lossy(&quoted([list.as_bytes()])).into_owned()
}

/// An error with the explanation that the node has for it.
async fn explained(remote: &Remote, what: &str, why: RemoteError) -> NodeError {
    if !why.leaves_connection() {
        return NodeError::NoAnswer(why.to_string());
    }
    let explanation = remote.explanation().await;
    NodeError::Refused(format!("{what}: {}", with_explanation(why, &explanation)))
}

fn with_explanation(why: RemoteError, explanation: &str) -> String {
    if explanation.is_empty() { why.to_string() } else { format!("{why}: {explanation}") }
}

async fn within<T>(
    after: Duration,
    future: impl Future<Output = Result<T, RemoteError>>,
) -> Result<T, RemoteError> {
    let late = |_| Err(RemoteError::TimedOut { what: "the node".to_owned(), after });
    timeout(after, future).await.unwrap_or_else(late)
}

/// How a program ended, by the text of `wait`: `CODE KIND N …`.
fn end_of(text: &str) -> NodeEnd {
    let mut words = text.split_whitespace();
    let code = words.next().and_then(|it| it.parse::<u8>().ok());
    let (kind, number) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (code, report) = match (code, kind) {
        (Some(0), "exit") => (0, String::new()),
        (Some(code), "exit") => (code, format!("exit code {code}")),
        (Some(code), "signal") => (code, format!("ended by signal {number}")),
        (Some(code), "wiped") => (code.max(1), "its session was wiped".to_owned()),
        _ => (1, format!("its end is not known: {:?}", text.trim_end())),
    };
    NodeEnd { code, report, output: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_program_is_a_code_and_a_text() {
        let end = |text| {
            let end = end_of(text);
            (end.code, end.report)
        };
        assert_eq!(end("0 exit 0 2 0 34 3988\n"), (0, String::new()));
        assert_eq!(end("3 exit 3 2 0 34 3988\n"), (3, "exit code 3".to_owned()));
        assert_eq!(end("143 signal 15 2 0 1278 4200\n"), (143, "ended by signal 15".to_owned()));
        assert_eq!(end("0 wiped 0 0 0 0 0\n"), (1, "its session was wiped".to_owned()));
        assert_eq!(end("").0, 1);
    }
}
