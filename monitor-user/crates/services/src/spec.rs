//! The specification of a service: name, parameters, results, right, manual and handler.
//!
//! It feeds the check of a request, the manual, `docs/SERVICES.md` and the test of its examples.
//! It holds no state; the handler is one function.

use super::{CallContext, Outcome, lower::LowerFn, timeouts};
use monitor_event::{CallResult, EventFilter, Refusal, Right};
use monitor_model::Ns;
use monitor_omis::param_type::{Param, ParamType};
use monitor_omis::{Status, Value};
use std::ops::RangeInclusive;

/// The specification of a service.
#[derive(Clone, Copy, Debug)]
pub struct ServiceSpec {
    /// As OMIS 1.0 spells it; names of extensions may begin with a prefix.
    pub name: &'static str,
    /// Other spellings of OMIS 1.0.
    pub aliases: &'static [&'static str],
    /// The prefix of its extension; empty if it has none.
    pub prefix: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Its results after the status; of an event service, `$1` and so on.
    pub results: &'static [ResultSpec],
    /// The bits of its parameter `flags`.
    pub flags: &'static [FlagSpec],
    /// The right that its caller needs.
    pub right: Right,
    /// The weakest place where it can run as the action of an event.
    pub level: ExecutionLevel,
    /// Lowers a call to steps that the kernel runs, if the kernel can run it.
    pub lower: Option<LowerFn>,
    /// How long to wait for its outcome.
    pub timeout: Ns,
    /// A paragraph of the manual.
    pub help: &'static str,
    /// Text cases (tests/request/README.md); tests run each of them.
    pub examples: &'static [&'static str],
    /// Its failures, besides those of its parameters' types (`ServiceSpec::all_errors`).
    pub errors: &'static [ErrorSpec],
    /// Its function.
    pub handler: Handler,
}

/// A failure of a service.
#[derive(Clone, Copy, Debug)]
pub struct ErrorSpec {
    /// Its status.
    pub status: Status,
    /// When it is returned.
    pub when: &'static str,
    /// A text case that ends with a request which fails so; a test runs it in both dialects. Empty
    /// if only a real system fails so.
    pub case: &'static str,
}

/// The failures of every service that has processes among its parameters. A list fails so if none
/// of its processes can be served.
const OF_PROCESSES: &[ErrorSpec] = &[
    error(Status::NO_SUCH_OBJECT, "a process that does not exist", ""),
    error(Status::GONE, "a process that has ended", ""),
    error(Status::NOT_ATTACHED, "a process that is not attached", ""),
    error(Status::PERMISSION, "a process to which the user of the tool lacks the right", ""),
];
/// Of a list of processes.
const OF_LISTS: &[ErrorSpec] =
    &[error(Status::PARTIAL, "some processes of the list failed, the others were served", "")];

/// The function of a service, by its class.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// Changes something, and returns its status alone.
    Manipulation(fn(&mut CallContext<'_>, &[Value]) -> Result<Outcome, Refusal>),
    /// Returns results.
    Synchronous(fn(&mut CallContext<'_>, &[Value]) -> Result<Outcome, Refusal>),
    /// Returns the filter for the events to wait for.
    Event(fn(&mut CallContext<'_>, &[Value]) -> Result<EventFilter, Refusal>),
}

/// The three classes of the specification (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It returns an acknowledgement alone.
    Manipulation,
    /// It returns results, once.
    Synchronous,
    /// It occurs any number of times.
    Event,
}

impl Class {
    /// The name in the manual.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Manipulation => "manipulation",
            Self::Synchronous => "synchronous",
            Self::Event => "event",
        }
    }
}

/// A result of a service.
#[derive(Clone, Copy, Debug)]
pub struct ResultSpec {
    /// Its name in the manual.
    pub name: &'static str,
    /// Its type, in the notation of OMIS 1.0.
    pub kind: &'static str,
}

/// A bit of the parameter `flags`.
#[derive(Clone, Copy, Debug)]
pub struct FlagSpec {
    /// The bit number, from 0.
    pub bit: u8,
    /// The result that it requests.
    pub name: &'static str,
    /// The result's type.
    pub kind: &'static str,
    /// The result's meaning and unit.
    pub help: &'static str,
}

/// The weakest place where an action can be executed (docs/REQUESTS.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExecutionLevel {
    /// In the kernel, where the event occurred.
    Kernel,
    /// From the data that the kernel copied at the event.
    Snapshot,
    /// While the thread is held.
    HoldThread,
    /// While the process is held.
    HoldProcess,
    /// At any time: it does not depend on the process that hit the event.
    Anywhere,
}

impl ExecutionLevel {
    /// Whether the thread that hit the event must stay held until the action is done.
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

impl ServiceSpec {
    /// The base of other specifications: no parameters, no right, and a handler that does nothing.
    pub const BASE: Self = Self {
        name: "",
        aliases: &[],
        prefix: "",
        params: &[],
        results: &[],
        flags: &[],
        right: Right::Nothing,
        level: ExecutionLevel::Anywhere,
        lower: None,
        timeout: timeouts::ACTION,
        help: "",
        examples: &[],
        errors: &[],
        handler: Handler::Manipulation(|_, _| Ok(CallResult::ok().into())),
    };

    /// The class of the service.
    pub const fn class(&self) -> Class {
        match self.handler {
            Handler::Manipulation(_) => Class::Manipulation,
            Handler::Synchronous(_) => Class::Synchronous,
            Handler::Event(_) => Class::Event,
        }
    }

    /// Its failures: those of its parameters' types, then its own. Those of all services are in
    /// docs/REQUESTS.md.
    pub fn all_errors(&self) -> impl Iterator<Item = &'static ErrorSpec> {
        let is_list = |it: &Param| match it.param_type {
            ParamType::Many(item) => matches!(item, ParamType::Process | ParamType::Thread),
            _ => false,
        };
        let is_one = |it: &Param| matches!(it.param_type, ParamType::Process | ParamType::Thread);
        let is_process = |it: &Param| is_one(it) || is_list(it);
        // Without a right, none are looked for on this node.
        let has_processes = self.right != Right::Nothing && self.params.iter().any(is_process);
        // An event of a process that cannot be served is refused as a whole.
        let has_list = self.params.iter().any(is_list) && self.class() != Class::Event;
        let when = |holds: bool, these: &'static [ErrorSpec]| if holds { these } else { &[] };
        [when(has_list, OF_LISTS), when(has_processes, OF_PROCESSES), self.errors]
            .into_iter()
            .flatten()
    }

    /// All names of the service.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name].into_iter().chain(self.aliases.iter().copied())
    }

    /// Whether its event has any number of parameters, as `user_event` and library calls do.
    pub fn is_variadic(&self) -> bool {
        self.results.last().is_some_and(|it| it.kind == ResultSpec::ANY.kind)
    }
}

/// The parameter `flags` of a call.
///
/// # Errors
/// `RANGE` if a bit is set that the service does not have.
pub fn flags(arg: Option<&Value>, known: &[FlagSpec]) -> Result<u64, Refusal> {
    let all = known.iter().fold(0, |all, flag| all | 1 << flag.bit);
    let asked = arg.and_then(Value::integer::<u64>).filter(|bits| bits & !all == 0);
    asked.ok_or_else(|| {
        let found = arg.map(Value::to_string).unwrap_or_default();
        Refusal::new(Status::RANGE, format!("flags {found}: expected bits of {all}"))
    })
}

/// The parameters of a call.
///
/// # Panics
/// If the specification has another number of parameters: a request is checked before.
pub fn params<const N: usize>(args: &[Value]) -> &[Value; N] {
    args.try_into().expect("a call has as many parameters as its specification")
}

/// A parameter as an integer of type `T`.
///
/// # Errors
/// `RANGE` if the value is out of the type's range; `what` names it in the message.
pub fn integer<T: TryFrom<i128>>(value: &Value, what: &str) -> Result<T, Refusal> {
    let wrong = || Refusal::new(Status::RANGE, format!("{value} is not a valid {what}"));
    value.integer().ok_or_else(wrong)
}

/// A parameter as a number in a range; `what` names it in the message.
///
/// # Errors
/// `RANGE` if it is outside.
pub fn number(value: &Value, what: &str, range: RangeInclusive<i32>) -> Result<i32, Refusal> {
    value.integer().filter(|it| range.contains(it)).ok_or_else(|| {
        let (first, last) = range.into_inner();
        Refusal::new(Status::RANGE, format!("{what} {value}: expected {first} to {last}"))
    })
}

/// A parameter as a 64-bit word; a negative number is its two's complement.
pub fn word(value: &Value) -> Result<u64, Refusal> {
    match value.integer::<i64>() {
        Some(negative) => Ok(negative.cast_unsigned()),
        None => integer(value, "64-bit word"),
    }
}

impl FlagSpec {
    /// A bit of `flags` with its result.
    pub const fn new(bit: u8, name: &'static str, kind: &'static str, help: &'static str) -> Self {
        Self { bit, name, kind, help }
    }
}

/// A failure with its status, when it is returned, and a case.
pub const fn error(status: Status, when: &'static str, case: &'static str) -> ErrorSpec {
    ErrorSpec { status, when, case }
}

/// A parameter with its type.
pub const fn param(name: &'static str, param_type: ParamType) -> Param {
    Param { name, param_type }
}

impl ResultSpec {
    /// A result with its type.
    pub const fn new(name: &'static str, kind: &'static str) -> Self {
        Self { name, kind }
    }

    /// Any number of results of any type.
    pub const ANY: Self = Self { name: "params", kind: "any..." };
}
