//! What must be read for the current screen.
//!
//! In: columns, order, condition, groups and the open page of the details. Out: a
//! [`MonitorRequest`], the same for a daemon and a local backend.

use super::state::Tab;
use monitor_model::{
    Capability, Category, CpuField, DiskField, GroupBy, Identity, MonitorRequest, NetField,
    NodeField, Ns, ProcessField, Target, group::aggregation,
};
use monitor_sampling::expression::Expression;
use monitor_sampling::order::{Direction, Order};
use std::time::Duration;

/// What is read from now on.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewQuery {
    /// The period.
    pub every: Duration,
    /// Fields of processes.
    pub fields: Vec<ProcessField>,
    /// The order of rows.
    pub order: Order,
    /// What processes are grouped by.
    pub group_by: Option<GroupBy>,
    /// The number of first rows that are needed; all, if absent.
    pub top: Option<u32>,
    /// The process whose details are shown, and the open page.
    pub focus: Option<(Identity, Tab)>,
    /// Whether the screen is frozen: nothing needs to be read for it.
    pub frozen: bool,
}

/// Fields that every row needs: for its identity, its drawing and the tree.
const ALWAYS_READ: [ProcessField; 8] = [
    ProcessField::Pid,
    ProcessField::Ppid,
    ProcessField::Uid,
    ProcessField::Comm,
    ProcessField::State,
    ProcessField::Nice,
    ProcessField::StartTime,
    ProcessField::Ended,
];
const NODE_FIELDS: [NodeField; 24] = [
    NodeField::Uptime,
    NodeField::Load1,
    NodeField::Load5,
    NodeField::Load15,
    NodeField::MemTotal,
    NodeField::MemAvailable,
    NodeField::SwapTotal,
    NodeField::SwapFree,
    NodeField::TasksRunning,
    NodeField::OnlineCpus,
    NodeField::BusyPercent,
    NodeField::UserPercent,
    NodeField::NicePercent,
    NodeField::SystemPercent,
    NodeField::IrqPercent,
    NodeField::SoftirqPercent,
    NodeField::StealPercent,
    NodeField::IdlePercent,
    NodeField::UnattributedPercent,
    NodeField::PsiCpuPercent,
    NodeField::PsiMemoryPercent,
    NodeField::PsiMemoryFullPercent,
    NodeField::PsiIoPercent,
    NodeField::PsiIoFullPercent,
];
const CPU_FIELDS: [CpuField; 3] =
    [CpuField::UserPercent, CpuField::SystemPercent, CpuField::IdlePercent];
const DISK_FIELDS: [DiskField; 6] = [
    DiskField::Device,
    DiskField::ReadBytes,
    DiskField::WrittenBytes,
    DiskField::ReadRate,
    DiskField::WrittenRate,
    DiskField::BusyPercent,
];
const NET_FIELDS: [NetField; 5] = [
    NetField::Interface,
    NetField::ReceivedBytes,
    NetField::SentBytes,
    NetField::ReceivedRate,
    NetField::SentRate,
];

/// The fields that rows need: for columns, order and condition.
pub fn fields(
    columns: &[ProcessField],
    order: Order,
    condition: Option<&Expression>,
) -> Vec<ProcessField> {
    let compared = condition.map(Expression::fields).unwrap_or_default();
    let all =
        ALWAYS_READ.into_iter().chain(columns.iter().copied()).chain([order.field]).chain(compared);
    let mut fields = Vec::new();
    for field in all {
        // Rows with equal rates are ordered by the counter.
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

impl ViewQuery {
    /// The monitor request.
    pub fn request(&self) -> MonitorRequest {
        let adds =
            |field: &&ProcessField| self.group_by.is_none() || aggregation(**field).is_some();
        let of_processes: Vec<_> = self.fields.iter().filter(adds).copied().collect();
        let fields = [
            qualified("proc", &of_processes),
            qualified("node", &NODE_FIELDS),
            qualified("cpu", &CPU_FIELDS),
            qualified("disk", &DISK_FIELDS),
            qualified("net", &NET_FIELDS),
        ];
        let sign = if self.order.direction == Direction::Ascending { "+" } else { "" };
        MonitorRequest {
            part: "all".into(),
            fields: Some(fields.concat()),
            every_ns: Some(Ns::from(self.every).0),
            sort: self.is_sortable().then(|| format!("{sign}{}", self.order.field.field().name)),
            group_by: self.group_by.map(|by| by.name().into()),
            top: self.top,
            capabilities: self.capabilities(),
            ..MonitorRequest::default()
        }
    }

    /// Whether rows can be sorted by the order: groups have only aggregated fields.
    fn is_sortable(&self) -> bool {
        self.group_by.is_none() || aggregation(self.order.field).is_some()
    }

    /// The request without what only the open page needs.
    pub fn table_request(&self) -> MonitorRequest {
        MonitorRequest { capabilities: Vec::new(), ..self.request() }
    }

    /// The request for all fields of the process whose details are shown.
    pub fn focus_request(&self) -> Option<MonitorRequest> {
        let (id, _) = self.focus?;
        // Without PSS, for which the kernel walks page tables.
        let cheap = |it: &ProcessField| !matches!(it, ProcessField::Pss | ProcessField::Job);
        let all: Vec<_> = ProcessField::all().filter(cheap).collect();
        Some(MonitorRequest {
            part: "proc".into(),
            fields: Some(qualified("proc", &all)),
            every_ns: Some(Ns::from(self.every).0),
            targets: vec![Target::Pid { pid: id.pid.0.into(), node: None }],
            threads: self.threads(),
            capabilities: self.capabilities(),
            ..MonitorRequest::default()
        })
    }

    /// The capabilities that the open page needs besides those of the columns.
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

fn qualified<F: Category>(of: &str, fields: &[F]) -> Vec<String> {
    fields.iter().map(|it| format!("{of}.{}", it.field().name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_sampling::plan::Plan;

    const ORDER: Order =
        Order { field: ProcessField::CpuPercent, direction: Direction::Descending };

    fn query_of(columns: &[ProcessField]) -> ViewQuery {
        ViewQuery {
            every: Duration::from_secs(1),
            fields: fields(columns, ORDER, None),
            order: ORDER,
            group_by: None,
            top: None,
            focus: None,
            frozen: false,
        }
    }

    fn plan(query: &ViewQuery) -> Plan {
        Plan::from_request(&query.request()).expect("a valid request")
    }

    #[test]
    fn only_visible_columns_are_read() {
        assert!(plan(&query_of(&[])).read_spec.costly.is_empty());
        let shown = plan(&query_of(&[ProcessField::Cmdline, ProcessField::BlockReadRate]));
        assert_eq!(shown.read_spec.costly, [ProcessField::Cmdline]);
        assert!(shown.capabilities.contains(&Capability::Block));
    }

    #[test]
    fn a_page_of_the_details_requests_its_capabilities() {
        let focus = |tab| {
            let focus = Some((Identity::default(), tab));
            plan(&ViewQuery { focus, ..query_of(&[]) }).capabilities
        };
        assert!(focus(Tab::Storage).contains(&Capability::Block));
        assert!(focus(Tab::Signals).contains(&Capability::Signals));
        assert!(focus(Tab::Overview).iter().all(|it| !it.opt_in()));
    }

    #[test]
    fn groups_request_aggregated_fields() {
        for by in [GroupBy::Job, GroupBy::User, GroupBy::Comm, GroupBy::Cgroup, GroupBy::Container]
        {
            let query = ViewQuery { group_by: Some(by), ..query_of(&[ProcessField::Pid]) };
            assert!(plan(&query).grouping.is_some());
            let order = Order { field: ProcessField::Pid, ..ORDER };
            assert!(plan(&ViewQuery { order, ..query }).grouping.is_some());
        }
    }
}
