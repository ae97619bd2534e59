//! Faults and limits of a script: `environment SOURCE WHAT KIND VALUE` sets a counter, `oom PID` is
//! the kill of a process because memory is used up, `machine-check CPU BANK STATUS` is what a
//! processor has recorded. After `reports exec`, the kernel reports that processes execute
//! programs: `exec PID`.

use super::FakePlatform;
use crate::rules::tracepoints;
use crate::{PlatformEvent, events::process_event};
use monitor_event::node_event::{EventKind, NodeEvent};
use monitor_model::environment::{ChangeRule, EnvironmentKey, EnvironmentSource, EnvironmentValue};
use monitor_model::{Credentials, Ns, ProcessField};

impl FakePlatform {
    /// Sets the counter of a line, or what the kernel reports; whether the line is of that.
    pub(super) fn sets_environment(&mut self, line: &str) -> bool {
        if line == "reports exec" {
            self.reports_exec = true;
            return true;
        }
        let Some(it) = value(line) else { return false };
        self.environment.retain(|other| other.key != it.key);
        self.environment.push(it);
        true
    }

    /// The event of a line, if it is of a process that is killed or executes a program, or of a
    /// machine check.
    pub(super) fn kernel_report(&mut self, line: &str) -> Option<PlatformEvent> {
        if let Some(check) = machine_check(line) {
            return Some(check);
        }
        if let Some(pid) = line.strip_prefix("exec ") {
            let id = self.find(pid)?;
            return Some(PlatformEvent::Event(process_event(EventKind::Executed, Ns(0), id, None)));
        }
        let id = self.find(line.strip_prefix("oom ")?)?;
        let process = self.poller.read_processes(&[id.pid]).ok()?.pop()?;
        let number = |field| process.row.get(field).and_then(|it| u32::try_from(it).ok());
        let user = |uid| Credentials { uid, gid: number(ProcessField::Gid).unwrap_or(uid) };
        let credentials = number(ProcessField::Uid).map(user);
        let event = process_event(EventKind::OomKilled, Ns(0), id, None);
        Some(PlatformEvent::Event(NodeEvent { credentials, is_checked: true, ..event }))
    }
}

/// The event of a line, if it is a machine check.
fn machine_check(line: &str) -> Option<PlatformEvent> {
    let words: Vec<&str> = line.strip_prefix("machine-check ")?.split(' ').collect();
    let [cpu, bank, status] = words[..] else { return None };
    let status = u64::from_str_radix(status, 16).ok()?;
    Some(tracepoints::machine_check(Ns(0), [cpu.parse().ok()?, bank.parse().ok()?, status]))
}

fn value(line: &str) -> Option<EnvironmentValue> {
    let words: Vec<&str> = line.strip_prefix("environment ")?.split(' ').collect();
    let [source, what, kind, value] = words[..] else { return None };
    let source = EnvironmentSource::from_name(source)?;
    let key = EnvironmentKey { source, what: what.into(), kind: kind.into() };
    Some(EnvironmentValue { key, value: value.parse().ok()?, rule: ChangeRule::Counter })
}
