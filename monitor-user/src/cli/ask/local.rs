//! Asking without a daemon: the machine and the node in this process.

use super::super::exit::{Exit, Failure};
use super::super::output::{Output as Stream, Reader, say};
use super::super::words::Ask;
use super::verdict::Verdict;
use super::{attachments, dialect, lines};
use crate::backend::{host, select};
use crate::engine::ask::{Input, Limits, Machine, Output};
use crate::model::id::Ns;
use crate::model::want::Capability;
use crate::omis::{Node, Reply, parse, picture};
use crate::service::ctx::Member;
use crate::service::ground::Happenings;
use crate::service::ground::live::Live;
use crate::service::session::right::{SessionId, Tool};
use crate::sys::clock;
use std::time::Duration;

/// How often is looked for what happened.
const LOOK: Duration = Duration::from_millis(10);

/// Asks.
pub fn ask(words: &Ask) -> Result<Exit, Failure> {
    let (backend, notes) = select::open(words.reader.backend, &[Capability::Snapshot], 0)?;
    for note in notes {
        say(&note.text);
    }
    let own = Member { node: Node(0), name: host::name().to_string() };
    let mut talk = Talk {
        words,
        machine: Machine::new(own, Limits::default()),
        ground: Live::new(backend),
        out: Stream::Stream,
        verdict: Verdict::default(),
        n_occurred: 0,
    };
    let session = SessionId { entry: 0, conn: 0 };
    let tool = Tool::root(session, std::process::id());
    talk.input(Input::Opened(tool, dialect(words)))?;
    talk.run()
}

struct Talk<'w> {
    words: &'w Ask,
    machine: Machine,
    ground: Live,
    out: Stream,
    verdict: Verdict,
    n_occurred: u64,
}

impl Talk<'_> {
    fn run(&mut self) -> Result<Exit, Failure> {
        for line in attachments(self.words) {
            for reply in self.replies(Input::Said(0, line.into_bytes())) {
                // Only what went wrong is worth a line: nobody asked for this one.
                if !reply.status().is_success() || reply.status() != crate::omis::Status::OK {
                    self.put(&reply)?;
                }
            }
        }
        for line in lines(self.words) {
            if self.say(line?)? == Reader::Gone {
                return Ok(self.verdict.exit());
            }
        }
        self.wait()?;
        Ok(self.verdict.exit())
    }

    /// Says a line, and prints what comes of it.
    fn say(&mut self, line: Vec<u8>) -> Result<Reader, Failure> {
        if let Err(fault) = parse::request(&line, dialect(self.words)) {
            say(&picture::picture(&line, &fault));
        }
        self.input(Input::Said(0, line))
    }

    /// Waits for what happens, as long as was said.
    fn wait(&mut self) -> Result<(), Failure> {
        let span = match (self.words.span, self.words.count) {
            (None, None) => return Ok(()),
            (span, _) => span.unwrap_or(Duration::MAX),
        };
        let begin = clock::boot();
        let end = Ns(begin.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)));
        while clock::boot() < end && self.words.count.is_none_or(|most| self.n_occurred < most) {
            std::thread::sleep(LOOK);
            let happened = self.ground.happened(clock::boot());
            let replies = self.replies(Input::Happened(happened));
            self.n_occurred += u64::try_from(replies.len()).unwrap_or(u64::MAX);
            for reply in replies {
                if self.put(&reply)? == Reader::Gone {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn input(&mut self, input: Input) -> Result<Reader, Failure> {
        for reply in self.replies(input) {
            if self.put(&reply)? == Reader::Gone {
                return Ok(Reader::Gone);
            }
        }
        Ok(Reader::There)
    }

    fn replies(&mut self, input: Input) -> Vec<Reply> {
        let outputs = self.machine.input(clock::boot(), input, &mut self.ground);
        let reply = |output| match output {
            Output::Line(_, line) => parse::reply(line.as_bytes()).ok(),
            // There are no other nodes.
            Output::Order(_) | Output::Answer(..) | Output::Speak(..) => None,
        };
        outputs.into_iter().filter_map(reply).collect()
    }

    fn put(&mut self, reply: &Reply) -> Result<Reader, Failure> {
        self.verdict.take(reply);
        let line = crate::omis::print::reply(reply, dialect(self.words));
        self.out.put(format!("{line}\n").as_bytes())
    }
}
