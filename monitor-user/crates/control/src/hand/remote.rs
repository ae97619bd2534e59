//! The daemon's end of a hand: a process of the user, and what to undo should it die.
//!
//! In: acts. Out: answers, sooner or later, and what happened. When the hand has died, another is
//! started, which lets everything run that the first had stopped and takes its bytes out.

use super::super::act::{Act, Done, Happened, Order, Told, Tool};
use super::super::trouble::Trouble;
use super::Hand;
use super::frame::{CHUNK, Inbox, frame};
use super::ledger::Ledger;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest act is 5 s, the check of CRIU, and others may be before it.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Most that lie here and nobody has asked for; older ones are dropped and counted.
const HAPPENED_AT_MOST: usize = 65_536;

/// Whose rights a hand has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct User {
    /// The user.
    pub uid: u32,
    /// His group.
    pub gid: u32,
    /// His other groups.
    pub groups: Vec<u32>,
}

/// A hand in a process of its own.
pub struct Remote {
    program: PathBuf,
    user: Option<User>,
    process: Child,
    socket: UnixStream,
    inbox: Inbox,
    /// Orders without an answer yet.
    open: BTreeMap<u64, (Tool, Act)>,
    answers: BTreeMap<u64, Result<Done, Trouble>>,
    happened: Vec<Happened>,
    lost: u64,
    last: u64,
    ledger: Ledger,
}

impl Remote {
    /// Starts one for a user; without one, with the rights of this process.
    pub fn start(program: &Path, user: Option<User>) -> io::Result<Self> {
        let (process, socket) = spawn(program, user.as_ref())?;
        Ok(Self {
            program: program.to_owned(),
            user,
            process,
            socket,
            inbox: Inbox::default(),
            open: BTreeMap::new(),
            answers: BTreeMap::new(),
            happened: Vec::new(),
            lost: 0,
            last: 0,
            ledger: Ledger::default(),
        })
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// What happened and was dropped, because nobody asked for it in time.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Sends an order; its answer comes with this number.
    pub fn order(&mut self, tool: Tool, act: Act) -> u64 {
        self.last += 1;
        let number = self.last;
        self.ledger.ask(tool, &act);
        let order = Order { number, tool, act };
        let sent = frame(&order).and_then(|bytes| self.socket.write_all(&bytes));
        let _none = self.open.insert(number, (tool, order.act));
        if sent.is_err() {
            self.replace();
        }
        number
    }

    /// Takes in what has come; call it when the descriptor is readable.
    pub fn turn(&mut self) {
        loop {
            match self.take() {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    self.replace();
                    break;
                }
            }
        }
    }

    /// The answer to an order, once it is there.
    pub fn answer(&mut self, number: u64) -> Option<Result<Done, Trouble>> {
        self.answers.remove(&number)
    }

    /// Whether there was something.
    fn take(&mut self) -> io::Result<bool> {
        if !self.has_come() {
            return Ok(false);
        }
        let mut chunk = vec![0; CHUNK];
        match self.socket.read(&mut chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => self.inbox.add(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        }
        while let Some(told) = self.inbox.next::<Told>()? {
            self.told(told);
        }
        Ok(true)
    }

    fn has_come(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
    }

    fn told(&mut self, told: Told) {
        match told {
            Told::Answer(number, answer) => {
                // An answer to nothing is no answer.
                let Some((tool, act)) = self.open.remove(&number) else { return };
                self.ledger.enter(tool, &act, &answer);
                let _none = self.answers.insert(number, answer);
            }
            Told::Happened(happened) => {
                self.ledger.happened(&happened);
                if self.happened.len() < HAPPENED_AT_MOST {
                    self.happened.push(happened);
                } else {
                    self.lost += 1;
                }
            }
        }
    }

    /// The hand has died: another undoes what it did and takes its place.
    fn replace(&mut self) {
        let _dead = self.process.kill();
        let _status = self.process.wait();
        for (number, _) in std::mem::take(&mut self.open) {
            let _none = self.answers.insert(number, Err(Trouble::HandLost));
        }
        self.inbox = Inbox::default();
        let ledger = std::mem::take(&mut self.ledger);
        match spawn(&self.program, self.user.as_ref()) {
            Ok((process, socket)) => {
                (self.process, self.socket) = (process, socket);
                self.recover(&ledger);
            }
            // Then nothing but our own rights is left.
            Err(error) => {
                tracing::error!("no other hand could be started: {error}");
                ledger.undo_here();
                ledger.undo_dumps_here();
            }
        }
        self.happened.extend(ledger.ended());
    }

    fn recover(&mut self, ledger: &Ledger) {
        ledger.undo_here();
        for act in ledger.acts() {
            let number = self.order_once(act);
            // What another user's process refuses, its own kernel rules refuse for us too.
            let _answer = self.wait(number);
            let _answer = self.answer(number);
        }
    }

    /// Without a second replacement, should this one die too.
    fn order_once(&mut self, act: Act) -> u64 {
        self.last += 1;
        let order = Order { number: self.last, tool: Tool(0), act };
        let _lost = frame(&order).and_then(|bytes| self.socket.write_all(&bytes));
        let _none = self.open.insert(self.last, (Tool(0), order.act));
        self.last
    }

    /// Until the answer is there.
    fn wait(&mut self, number: u64) -> Result<(), Trouble> {
        let until = Instant::now() + ANSWER_WITHIN;
        while !self.answers.contains_key(&number) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Trouble::Late("the answer of the hand".to_owned()));
            }
            let pause = Timespec::try_from(left).unwrap_or_default();
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            let _interrupted = poll(&mut fds, Some(&pause));
            match self.take() {
                Ok(_) => {}
                Err(_) => return Err(Trouble::HandLost),
            }
        }
        Ok(())
    }
}

impl Hand for Remote {
    fn act(&mut self, tool: Tool, act: Act) -> Result<Done, Trouble> {
        let number = self.order(tool, act);
        if self.wait(number) == Err(Trouble::HandLost) {
            self.replace();
        }
        self.answer(number).unwrap_or_else(|| Err(Trouble::Late("the answer of the hand".into())))
    }

    fn happened(&mut self) -> Vec<Happened> {
        self.turn();
        std::mem::take(&mut self.happened)
    }
}

impl AsFd for Remote {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Whoever had programs has taken them away by now: it need not wait for their end.
        for (tool, unset) in self.ledger.without_programs() {
            let _number = self.order(tool, unset);
        }
        // The socket closes, so it undoes everything and ends.
        let _closed = self.socket.shutdown(std::net::Shutdown::Both);
        let _status = self.process.wait();
    }
}

/// The socket is its input: a descriptor that every process has, and that no one else inherits.
fn spawn(program: &Path, user: Option<&User>) -> io::Result<(Child, UnixStream)> {
    let (own, other) = UnixStream::pair()?;
    // A hand that takes no order for so long is as good as dead.
    own.set_write_timeout(Some(ANSWER_WITHIN))?;
    let mut command = Command::new(program);
    let _command = command.arg("hand").stdin(Stdio::from(OwnedFd::from(other)));
    let _command = command.stdout(Stdio::null());
    if let Some(user) = user {
        // What the service was given in its environment is not for others.
        let _command = command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        let groups: Vec<String> = user.groups.iter().map(u32::to_string).collect();
        let _command =
            command.arg(format!("--uid={}", user.uid)).arg(format!("--gid={}", user.gid));
        let _command = command.arg(format!("--groups={}", groups.join(",")));
    }
    Ok((command.spawn()?, own))
}
