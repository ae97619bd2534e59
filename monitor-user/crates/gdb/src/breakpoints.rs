//! The breakpoints that gdb has inserted, each a stored request.
//!
//! gdb removes all of them at each stop and for each step, and inserts them again before it
//! continues. A removed one is therefore deleted only when threads continue without it; meanwhile
//! nothing that gdb reads shows it, and its hits are ignored.

use crate::agent::Condition;
use crate::session::{CallError, Session};
use monitor_omis::Status;
use std::collections::BTreeMap;

/// The breakpoints, by address.
#[derive(Debug, Default)]
pub struct Breakpoints(BTreeMap<u64, Breakpoint>);

/// A breakpoint.
#[derive(Debug)]
struct Breakpoint {
    kind: Kind,
    /// Whether gdb has it inserted.
    is_inserted: bool,
    /// The thread stops if one of these holds, or if there are none.
    conditions: Vec<Condition>,
}

/// How a thread stops at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// By a stored request of this number.
    Request(u64),
    /// By the fault of a return to data: gdb lets called procedures return to the stack.
    Fault,
}

/// The refusal of a breakpoint in memory that cannot be executed.
const DATA: &str = "is data, not code";

impl Breakpoints {
    /// Inserts a breakpoint; or sets the conditions of one that is inserted.
    ///
    /// # Errors
    /// If no breakpoint is possible at the address.
    pub fn insert(
        &mut self,
        session: &Session,
        address: u64,
        conditions: Vec<Condition>,
    ) -> Result<(), CallError> {
        if let Some(known) = self.0.get_mut(&address) {
            (known.is_inserted, known.conditions) = (true, conditions);
            return Ok(());
        }
        let event = format!("breakpoint([{}],{address})", session.pid());
        let kind = match session.watch(&event, "print(REQUEST,$thread,$pc)") {
            Ok(request) => Kind::Request(request),
            Err(CallError::Refused { status: Status::UNSAFE_SITE, text, .. })
                if text.ends_with(DATA) =>
            {
                Kind::Fault
            }
            Err(why) => return Err(why),
        };
        let _none = self.0.insert(address, Breakpoint { kind, is_inserted: true, conditions });
        Ok(())
    }

    /// Removes a breakpoint; whether there was one.
    pub fn remove(&mut self, address: u64) -> bool {
        let known = self.0.get_mut(&address).filter(|it| it.is_inserted);
        known.map(|it| it.is_inserted = false).is_some()
    }

    /// Deletes the requests of removed breakpoints: threads are about to continue.
    pub fn delete_removed(&mut self, session: &Session) {
        for (_, removed) in self.0.extract_if(.., |_, it| !it.is_inserted) {
            if let Kind::Request(request) = removed.kind {
                session.delete(request);
            }
        }
    }

    /// Deletes all breakpoints: the process has executed another program.
    pub fn delete_all(&mut self, session: &Session) {
        self.0.values_mut().for_each(|it| it.is_inserted = false);
        self.delete_removed(session);
    }

    /// The address of the breakpoint with this request.
    pub fn address_of(&self, request: u64) -> Option<u64> {
        let its = self.0.iter().find(|(_, it)| it.kind == Kind::Request(request));
        its.map(|(address, _)| *address)
    }

    /// The conditions of the breakpoint that is inserted at an address; none, if none is.
    pub fn conditions(&self, address: u64) -> Option<&[Condition]> {
        self.0.get(&address).filter(|it| it.is_inserted).map(|it| it.conditions.as_slice())
    }

    /// Whether a fault at this address is a breakpoint.
    pub fn is_fault(&self, address: u64) -> bool {
        self.0.get(&address).is_some_and(|it| it.is_inserted && it.kind == Kind::Fault)
    }
}
