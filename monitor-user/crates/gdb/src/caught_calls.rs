//! The system calls at which the program stops, `catch syscall`.
//!
//! In: the calls that gdb wants to see. Out: stored requests, one for each end of a call. gdb
//! withdraws its request at each stop and repeats it before it continues, so a change is made when
//! threads continue.

use crate::session::{CallError, Session};

/// The system calls that stop the program.
#[derive(Debug, Default)]
pub struct CaughtCalls {
    /// The calls that gdb wants to see; all of them, if the list is empty.
    pub wanted: Option<Vec<u64>>,
    /// Those that stop it now.
    caught: Option<Caught>,
}

#[derive(Debug)]
struct Caught {
    numbers: Vec<u64>,
    /// The requests for the beginning and the return.
    begin: u64,
    end: u64,
}

impl CaughtCalls {
    /// Stops the program at the calls that gdb wants to see, and at no others.
    ///
    /// # Errors
    /// If the monitor refuses it.
    pub fn update(&mut self, session: &Session) -> Result<(), CallError> {
        if self.wanted.as_ref() == self.caught.as_ref().map(|it| &it.numbers) {
            return Ok(());
        }
        if let Some(before) = self.caught.take() {
            session.delete(before.begin);
            session.delete(before.end);
        }
        let Some(numbers) = self.wanted.clone() else { return Ok(()) };
        let list: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        let watch = |event: &str| {
            let event = format!("{event}([{}],[{}])", session.pid(), list.join(","));
            session.watch(&event, "print(REQUEST,$thread,$2)")
        };
        let (begin, end) = (watch("before_syscall")?, watch("after_syscall")?);
        self.caught = Some(Caught { numbers, begin, end });
        Ok(())
    }

    /// The end of a call that a request is for.
    pub fn end_of(&self, request: u64) -> Option<CallEnd> {
        let caught = self.caught.as_ref()?;
        let ends = [(caught.begin, CallEnd::Begin), (caught.end, CallEnd::Return)];
        ends.into_iter().find(|it| it.0 == request).map(|it| it.1)
    }

    /// Whether gdb wants to see a call.
    pub fn wants(&self, number: u64) -> bool {
        self.wanted.as_ref().is_some_and(|it| it.is_empty() || it.contains(&number))
    }
}

/// An end of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// It is about to begin.
    Begin,
    /// It has returned.
    Return,
}
