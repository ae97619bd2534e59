//! A service as data: all that is known of it before it is called.
//!
//! The row feeds the check of a request, the manual, `docs/SERVICES.md` and the test of its
//! examples. It holds no state; what a service does is one function.

use super::ctx::Ctx;
use super::kernel::Lower;
use super::outcome::Outcome;
use super::within;
use monitor_event::occurrence::EventFilter;
use monitor_event::outcome::{Done, Refusal};
use monitor_event::right::Right;
use monitor_model::id::Ns;
use monitor_omis::kind::Param;
use monitor_omis::{Status, Value};

/// A service.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// As the specification spells it; a name of ours may begin with a prefix.
    pub name: &'static str,
    /// Other spellings that the specification has for it.
    pub aliases: &'static [&'static str],
    /// The extension that owns it; empty for the specification's own and ours without one.
    pub prefix: &'static str,
    /// What it takes.
    pub takes: &'static [Param],
    /// What it gives after its status; of an event, what `$1` and so on are.
    pub gives: &'static [Given],
    /// What each bit of its parameter `flags` asks for.
    pub flags: &'static [Flag],
    /// What its caller must be allowed.
    pub right: Right,
    /// Where it can be executed when it is the action of an event.
    pub level: Level,
    /// What it is in the kernel, if the kernel can do it.
    pub kernel: Option<Lower>,
    /// How long its outcome is waited for.
    pub within: Ns,
    /// The manual: a paragraph.
    pub help: &'static str,
    /// Text cases (tests/request/README.md), each of which is run.
    pub examples: &'static [&'static str],
    /// What it does.
    pub act: Act,
}

/// What a service does, by its class.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Changes something, and gives no more than its status.
    Manipulation(fn(&mut Ctx<'_>, &[Value]) -> Outcome),
    /// Tells something.
    Synchronous(fn(&mut Ctx<'_>, &[Value]) -> Outcome),
    /// Says what has to be watched for.
    Event(fn(&mut Ctx<'_>, &[Value]) -> Result<EventFilter, Refusal>),
}

/// The three classes of the specification (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// An acknowledge is all it gives.
    Manipulation,
    /// It gives results, once.
    Synchronous,
    /// It occurs, any number of times.
    Event,
}

impl Class {
    /// Its name in the manual.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Manipulation => "manipulation",
            Self::Synchronous => "synchronous",
            Self::Event => "event",
        }
    }
}

/// A result.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// What the manual calls it.
    pub name: &'static str,
    /// Its kind, in the words of the specification.
    pub kind: &'static str,
}

/// A bit of the parameter `flags`.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Which bit, from 0.
    pub bit: u8,
    /// The result that it asks for.
    pub name: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// What it means, and in which unit.
    pub help: &'static str,
}

/// The weakest place where an action can be executed (docs/REQUESTS.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// In the kernel, where the event occurred.
    Kernel,
    /// From what the kernel copied at the event.
    Snapshot,
    /// While the thread is held.
    HoldThread,
    /// While the process is held.
    HoldProcess,
    /// Whenever and wherever: it is not about who met the event.
    Anywhere,
}

impl Level {
    /// Whether who met the event must not go on before it is done.
    pub const fn needs_hold(self) -> bool {
        matches!(self, Self::HoldThread | Self::HoldProcess)
    }

    /// Its name in the manual.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "in the kernel",
            Self::Snapshot => "from a copy",
            Self::HoldThread => "thread held",
            Self::HoldProcess => "process held",
            Self::Anywhere => "anywhere",
        }
    }
}

impl Row {
    /// The row that most begin with: takes nothing, is about nothing, and does nothing.
    pub const BLANK: Self = Self {
        name: "",
        aliases: &[],
        prefix: "",
        takes: &[],
        gives: &[],
        flags: &[],
        right: Right::Nothing,
        level: Level::Anywhere,
        kernel: None,
        within: within::ACT,
        help: "",
        examples: &[],
        act: Act::Manipulation(|_, _| Outcome::Done(Done::ok())),
    };

    /// Its class.
    pub const fn class(&self) -> Class {
        match self.act {
            Act::Manipulation(_) => Class::Manipulation,
            Act::Synchronous(_) => Class::Synchronous,
            Act::Event(_) => Class::Event,
        }
    }

    /// Every name that it answers to.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name].into_iter().chain(self.aliases.iter().copied())
    }

    /// Whether an occurrence tells any number of things: `user_event`, library calls.
    pub fn is_variadic(&self) -> bool {
        self.gives.last().is_some_and(|it| it.kind == Given::ANY.kind)
    }
}

/// The parameter `flags` of a call; a bit that the row does not have is a mistake.
pub fn flags(arg: Option<&Value>, known: &[Flag]) -> Result<u64, Refusal> {
    let all = known.iter().fold(0, |all, flag| all | 1 << flag.bit);
    let asked = arg.and_then(Value::integer::<u64>).filter(|bits| bits & !all == 0);
    asked.ok_or_else(|| {
        let found = arg.map(Value::to_string).unwrap_or_default();
        Refusal::new(Status::RANGE, format!("flags {found}: wanted bits of {all}"))
    })
}

/// A parameter in the type that the system has for it.
pub fn integer<T: TryFrom<i128>>(value: &Value, what: &str) -> Result<T, Refusal> {
    let wrong = || Refusal::new(Status::RANGE, format!("{value} is no {what}"));
    value.integer().ok_or_else(wrong)
}

/// A parameter as a word of 64 bits; a negative number is its two's complement.
pub fn word(value: &Value) -> Result<u64, Refusal> {
    match value.integer::<i64>() {
        Some(negative) => Ok(negative.cast_unsigned()),
        None => integer(value, "word of 64 bits"),
    }
}

impl Flag {
    /// A row of a table of bits.
    pub const fn new(bit: u8, name: &'static str, kind: &'static str, help: &'static str) -> Self {
        Self { bit, name, kind, help }
    }
}

impl Given {
    /// Whatever the caller was given.
    pub const ANY: Self = Self { name: "params", kind: "any..." };
}
