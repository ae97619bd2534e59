//! The breakpoints that gdb has inserted, each a stored request.
//!
//! gdb removes all of them at each stop and for each step, and inserts them again before it
//! continues. A removed one is therefore deleted only when threads continue without it; meanwhile
//! nothing that gdb reads shows it, and its hits are ignored.

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
    conditions: Vec<Condition>,
}

/// The bytecode of a condition, which gdb sends ("Agent Expressions" of its manual). The thread
/// stops if one of them holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition(pub Vec<u8>);

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
        if let Some(known) = self.0.get_mut(&address).filter(|it| it.conditions == conditions) {
            known.is_inserted = true;
            return Ok(());
        }
        if let Some(Breakpoint { kind: Kind::Request(request), .. }) = self.0.remove(&address) {
            session.delete(request);
        }
        let event = event(session.pid(), address, &conditions);
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

    /// Whether a breakpoint is inserted at an address.
    pub fn is_inserted(&self, address: u64) -> bool {
        self.0.get(&address).is_some_and(|it| it.is_inserted)
    }

    /// Whether a fault at this address is a breakpoint.
    pub fn is_fault(&self, address: u64) -> bool {
        self.0.get(&address).is_some_and(|it| it.is_inserted && it.kind == Kind::Fault)
    }
}

/// The event of a breakpoint.
fn event(pid: u32, address: u64, conditions: &[Condition]) -> String {
    if conditions.is_empty() {
        return format!("breakpoint([{pid}],{address})");
    }
    let binary = |it: &Condition| {
        let digits: String = it.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("#{}:{digits}", it.0.len())
    };
    let conditions: Vec<String> = conditions.iter().map(binary).collect();
    format!("breakpoint_if([{pid}],{address},[{}])", conditions.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_a_binary() {
        assert_eq!(event(7, 16, &[]), "breakpoint([7],16)");
        let conditions = [Condition(vec![0x22, 1, 0x27]), Condition(vec![0x27])];
        assert_eq!(event(7, 16, &conditions), "breakpoint_if([7],16,[#3:220127,#1:27])");
    }
}
