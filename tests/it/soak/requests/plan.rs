//! What happens in a round: the event, what its actions need, how the program ends, and when the
//! tool goes away. Only what can happen is picked.

use super::super::random::Random;
use super::program::Shape;

/// Where a thread is when its process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventSite {
    Call,
    Return,
    Signal,
    Breakpoint,
    Step,
    Next,
    Finish,
    Procedure,
    /// The start of a child.
    Start,
    /// The end of a child.
    End,
}

/// What the actions need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing that leaves the kernel.
    Kernel,
    /// What the kernel copied.
    Copy,
    /// The thread held.
    Held,
    /// The thread held until another tool has answered.
    Long,
    /// The process stopped, because another user worker traces it.
    Stopped,
}

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// An action of the event sends this signal.
    Action(i32),
    /// An action of the event sends the thread where it crashes.
    Goto,
    /// The test sends SIGKILL.
    Killed,
    /// It executes another program; beside the thread at the event, if it has several.
    Exec,
    /// `_exit`, also beside it.
    Quit,
    /// `exit`, also beside it.
    Exit,
    /// The first thread ends before the others.
    Leader,
}

/// When the tool that set the event goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolEnd {
    Stays,
    Disconnects,
    Deletes,
}

/// A round.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub shape: Shape,
    pub place: EventSite,
    pub level: Level,
    pub cause: Cause,
    pub tool_end: ToolEnd,
    /// The program, and the tool if `by_user`, are those of an ordinary user.
    pub of_user: bool,
    pub by_user: bool,
}

impl Plan {
    /// Picks one that can happen; with `MONITOR_SOAK_ONLY="Threads Exec"`, one with these words.
    pub fn pick(random: &mut Random) -> Self {
        let only = std::env::var("MONITOR_SOAK_ONLY").unwrap_or_default();
        loop {
            let shape = Shape::pick(random);
            let of_user = shape.is_own() && random.one_in(2);
            let it = Self {
                shape,
                place: random.pick(&[
                    EventSite::Call,
                    EventSite::Call,
                    EventSite::Return,
                    EventSite::Signal,
                    EventSite::Breakpoint,
                    EventSite::Step,
                    EventSite::Next,
                    EventSite::Finish,
                    EventSite::Procedure,
                    EventSite::Start,
                    EventSite::End,
                ]),
                level: random.pick(&[
                    Level::Kernel,
                    Level::Copy,
                    Level::Held,
                    Level::Held,
                    Level::Long,
                    Level::Long,
                    Level::Stopped,
                ]),
                cause: random.pick(&[
                    Cause::Action(9),
                    Cause::Action(15),
                    Cause::Goto,
                    Cause::Killed,
                    Cause::Exec,
                    Cause::Quit,
                    Cause::Exit,
                    Cause::Leader,
                ]),
                tool_end: random.pick(&[ToolEnd::Stays, ToolEnd::Disconnects, ToolEnd::Deletes]),
                of_user,
                by_user: of_user && random.one_in(2),
            };
            let text = format!("{it:?}");
            if it.can_happen() && only.split_whitespace().all(|word| text.contains(word)) {
                return it;
            }
        }
    }

    /// Whether an action of the event ends the program.
    pub fn by_action(&self) -> bool {
        matches!(self.cause, Cause::Action(_) | Cause::Goto)
    }

    /// Whether a held thread must continue for the end.
    pub fn must_continue(&self) -> bool {
        let is_beside = self.shape == Shape::Threads && self.cause != Cause::Leader;
        self.by_action() || self.cause != Cause::Killed && !is_beside
    }

    /// Whether a request is for one thread, and its event occurs once.
    pub fn is_command(&self) -> bool {
        matches!(
            self.place,
            EventSite::Step | EventSite::Next | EventSite::Finish | EventSite::Procedure
        )
    }

    /// What the program does at its end, as its second argument.
    pub fn how(&self) -> &'static str {
        match self.cause {
            Cause::Exec => "exec",
            Cause::Quit => "quit",
            Cause::Exit => "exit",
            Cause::Leader => "leader",
            Cause::Action(_) | Cause::Goto | Cause::Killed => "stay",
        }
    }

    /// How the processes at the event end: the exit code, or 128 and the signal.
    pub fn code(&self) -> i32 {
        match self.cause {
            Cause::Action(signal) => 128 + signal,
            Cause::Goto => 139,
            Cause::Killed => 137,
            Cause::Exec => 7,
            Cause::Quit => 5,
            Cause::Exit => 3,
            Cause::Leader => 0,
        }
    }

    fn can_happen(&self) -> bool {
        let is_call = matches!(self.place, EventSite::Call | EventSite::Return);
        let holds = is_call || matches!(self.place, EventSite::Signal | EventSite::Breakpoint);
        let place = match self.place {
            EventSite::Start | EventSite::End => self.shape == Shape::Breed && !self.by_action(),
            _ if self.is_command() => matches!(self.shape, Shape::Single | Shape::Threads),
            EventSite::Signal | EventSite::Breakpoint => self.shape.is_own(),
            _ => true,
        };
        let level = match self.level {
            // Only root's signals are sent from the kernel, and commands have no part there.
            Level::Kernel => {
                matches!(self.cause, Cause::Action(_) | Cause::Killed)
                    && !self.by_user
                    && (is_call || self.place == EventSite::Signal)
            }
            Level::Copy => self.cause != Cause::Goto,
            Level::Held => true,
            Level::Long => true,
            Level::Stopped => self.by_user && holds && self.place != EventSite::Breakpoint,
        };
        let cause = match self.cause {
            Cause::Leader => self.shape == Shape::Threads && !self.is_command(),
            Cause::Exec | Cause::Quit | Cause::Exit => self.shape.is_own(),
            Cause::Goto => self.shape.is_own() && holds && self.level != Level::Stopped,
            Cause::Action(_) | Cause::Killed => true,
        };
        // The tool stays until every process has been at the event.
        let is_unknown = self.level == Level::Kernel || self.shape == Shape::Children;
        let tool_end = self.tool_end == ToolEnd::Stays || !(self.by_action() && is_unknown);
        place && level && cause && tool_end
    }
}
