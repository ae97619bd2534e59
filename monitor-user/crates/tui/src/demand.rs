//! What must be read for what is on the screen, and nothing else.
//!
//! In: columns, order, condition, groups and the open page of the details. Out: a [`Request`], as
//! any tool would make it, so that a daemon and a backend here are asked for the same.

use super::state::Tab;
use monitor_model::field::{Category, CpuField, DiskField, NetField, NodeField, ProcessField};
use monitor_model::group::{By, sum};
use monitor_model::id::{Identity, Ns};
use monitor_model::request::{Request, Target};
use monitor_model::want::Capability;
use monitor_sampling::expression::Expression;
use monitor_sampling::order::{Direction, Order};
use std::time::Duration;

/// What shall be read from now on.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// How often.
    pub every: Duration,
    /// Fields of processes.
    pub fields: Vec<ProcessField>,
    /// By what rows are sorted.
    pub order: Order,
    /// What processes are added up by.
    pub by: Option<By>,
    /// Only the first so many are looked at; all, if absent.
    pub top: Option<u32>,
    /// Whose details are shown.
    pub focus: Option<(Identity, Tab)>,
    /// Stands still: nothing needs to be read for the screen.
    pub frozen: bool,
}

/// Fields that every row needs: to be found again, to be drawn, to be put into a tree.
const ALWAYS: [ProcessField; 8] = [
    ProcessField::Pid,
    ProcessField::Ppid,
    ProcessField::Uid,
    ProcessField::Comm,
    ProcessField::State,
    ProcessField::Nice,
    ProcessField::StartTime,
    ProcessField::Ended,
];
const NODE: [NodeField; 13] = [
    NodeField::Uptime,
    NodeField::Load1,
    NodeField::Load5,
    NodeField::Load15,
    NodeField::MemTotal,
    NodeField::MemAvailable,
    NodeField::SwapTotal,
    NodeField::SwapFree,
    NodeField::TasksRunning,
    NodeField::IdlePercent,
    NodeField::PsiCpuPercent,
    NodeField::PsiMemoryPercent,
    NodeField::PsiIoPercent,
];
const CPU: [CpuField; 3] = [CpuField::UserPercent, CpuField::SystemPercent, CpuField::IdlePercent];
const DISK: [DiskField; 6] = [
    DiskField::Device,
    DiskField::ReadBytes,
    DiskField::WrittenBytes,
    DiskField::ReadRate,
    DiskField::WrittenRate,
    DiskField::BusyPercent,
];
const NET: [NetField; 5] = [
    NetField::Interface,
    NetField::ReceivedBytes,
    NetField::SentBytes,
    NetField::ReceivedRate,
    NetField::SentRate,
];

/// The fields that rows need: what is shown, what is sorted by, what the condition asks for.
pub fn fields(
    columns: &[ProcessField],
    order: Order,
    condition: Option<&Expression>,
) -> Vec<ProcessField> {
    let asked = condition.map(Expression::fields).unwrap_or_default();
    let all = ALWAYS.into_iter().chain(columns.iter().copied()).chain([order.field]).chain(asked);
    let mut fields = Vec::new();
    for field in all {
        // A rate says which of two idle processes did more by its counter.
        let counter = match field.field().role {
            monitor_model::field::Role::RateOf(counter) => ProcessField::at(counter),
            _ => None,
        };
        for field in [Some(field), counter].into_iter().flatten() {
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
    }
    fields
}

impl Demand {
    /// What any tool would ask for.
    pub fn request(&self) -> Request {
        let adds = |field: &&ProcessField| self.by.is_none() || sum(**field).is_some();
        let of_processes: Vec<_> = self.fields.iter().filter(adds).copied().collect();
        let mut fields = Vec::new();
        qualify("proc", &of_processes, &mut fields);
        qualify("node", &NODE, &mut fields);
        qualify("cpu", &CPU, &mut fields);
        qualify("disk", &DISK, &mut fields);
        qualify("net", &NET, &mut fields);
        let sign = if self.order.direction == Direction::Ascending { "+" } else { "" };
        Request {
            part: "all".into(),
            fields: Some(fields),
            every_ns: Some(Ns::from(self.every).0),
            sort: self.sorts().then(|| format!("{sign}{}", self.order.field.field().name)),
            group_by: self.by.map(|by| by.name().into()),
            top: self.top,
            capabilities: self.capabilities(),
            ..Request::default()
        }
    }

    /// Whether rows can be sorted as they shall: groups have what adds up, and no more.
    fn sorts(&self) -> bool {
        self.by.is_none() || sum(self.order.field).is_some()
    }

    /// The same without what only the open page needs.
    pub fn request_of_table(&self) -> Request {
        Request { capabilities: Vec::new(), ..self.request() }
    }

    /// All that is known of the process whose details are shown.
    pub fn request_of_focus(&self) -> Option<Request> {
        let (id, _) = self.focus?;
        // PSS is left out: for it the kernel walks page tables.
        let cheap = |it: &ProcessField| !matches!(it, ProcessField::Pss | ProcessField::Job);
        let all: Vec<_> = ProcessField::all().filter(cheap).collect();
        let mut fields = Vec::new();
        qualify("proc", &all, &mut fields);
        Some(Request {
            part: "proc".into(),
            fields: Some(fields),
            every_ns: Some(Ns::from(self.every).0),
            targets: vec![Target::Pid { pid: id.pid.0.into(), node: None }],
            threads: self.threads(),
            capabilities: self.capabilities(),
            ..Request::default()
        })
    }

    /// What the open page needs beyond the columns.
    pub fn capabilities(&self) -> Vec<String> {
        let needed: &[Capability] = match self.focus {
            Some((_, Tab::Storage)) => &[Capability::Block],
            Some((_, Tab::Signals)) => &[Capability::Signals],
            _ => &[],
        };
        needed.iter().map(|it| it.name().into()).collect()
    }

    /// Whether the open page shows threads.
    pub fn threads(&self) -> bool {
        matches!(self.focus, Some((_, Tab::Threads)))
    }
}

fn qualify<F: Category>(of: &str, fields: &[F], out: &mut Vec<String>) {
    out.extend(fields.iter().map(|it| format!("{of}.{}", it.field().name)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_sampling::plan::Plan;

    const ORDER: Order =
        Order { field: ProcessField::CpuPercent, direction: Direction::Descending };

    fn demand(columns: &[ProcessField]) -> Demand {
        Demand {
            every: Duration::from_secs(1),
            fields: fields(columns, ORDER, None),
            order: ORDER,
            by: None,
            top: None,
            focus: None,
            frozen: false,
        }
    }

    fn plan(demand: &Demand) -> Plan {
        Plan::of(&demand.request()).expect("a request that makes sense")
    }

    #[test]
    fn only_columns_that_are_seen_are_read() {
        assert!(plan(&demand(&[])).want.costly.is_empty());
        let shown = plan(&demand(&[ProcessField::Cmdline, ProcessField::BlockReadRate]));
        assert_eq!(shown.want.costly, [ProcessField::Cmdline]);
        assert!(shown.capabilities.contains(&Capability::Block));
    }

    #[test]
    fn a_page_of_the_details_attaches_what_it_shows() {
        let focus = |tab| {
            let focus = Some((Identity::default(), tab));
            plan(&Demand { focus, ..demand(&[]) }).capabilities
        };
        assert!(focus(Tab::Storage).contains(&Capability::Block));
        assert!(focus(Tab::Signals).contains(&Capability::Signals));
        assert!(focus(Tab::Overview).iter().all(|it| !it.opt_in()));
    }

    #[test]
    fn groups_are_asked_for_what_adds_up() {
        for by in [By::Job, By::User, By::Comm, By::Cgroup, By::Container] {
            let demand = Demand { by: Some(by), ..demand(&[ProcessField::Pid]) };
            assert!(plan(&demand).grouping.is_some());
            let order = Order { field: ProcessField::Pid, ..ORDER };
            assert!(plan(&Demand { order, ..demand }).grouping.is_some());
        }
    }
}
