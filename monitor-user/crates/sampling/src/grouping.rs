//! What a request adds processes up by.
//!
//! In: the request. Out: by what, and how long a group is kept, or why that makes no sense.

use super::{expression::Expression, group::GroupLimits, order::Order};
use monitor_model::{
    Category, GroupBy, MonitorRequest, Ns, ProcessField, Refusal, group::aggregation,
};

/// By what, and within which limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// By what.
    pub by: GroupBy,
    /// How many groups, and how long each is kept.
    pub limits: GroupLimits,
}

impl Grouping {
    /// Of a request; none, if it asks for processes one by one.
    pub fn from_request(
        request: &MonitorRequest,
        order: Option<Order>,
    ) -> Result<Option<Self>, Refusal> {
        let Some(by) = &request.group_by else {
            return match request.keep_ns {
                Some(_) => Err(Refusal::bad("keep_ns without group_by: it is of groups")),
                None => Ok(None),
            };
        };
        let by = by.parse()?;
        let apart = [
            (request.threads, "threads has a row for each thread, group_by for many processes"),
            (request.pmix, "group_by with pmix: PMIx has no names for groups"),
        ];
        if let Some((_, why)) = apart.iter().find(|(given, _)| *given) {
            return Err(Refusal::bad(*why));
        }
        let names = request.fields.iter().flatten();
        // A name of no process field is refused elsewhere, or of the node.
        let named = names.filter_map(|name| {
            let name = name.trim();
            ProcessField::from_any_name(name.strip_prefix("proc.").unwrap_or(name))
        });
        for field in named.chain(order.map(|order| order.field)) {
            if aggregation(field).is_none() {
                let name = field.field().name;
                let why = format!("{name} is of one process: group_by has no sum of it");
                return Err(Refusal::bad(why));
            }
        }
        let keep = request.keep_ns.map_or(GroupLimits::default().keep, Ns);
        Ok(Some(Self { by, limits: GroupLimits { keep, ..GroupLimits::default() } }))
    }

    /// Refuses a condition on what groups do not have.
    ///
    /// # Errors
    /// If it compares a field that is not added up.
    pub fn check(self, condition: &Expression) -> Result<(), Refusal> {
        let compared = condition.compared_fields();
        let has = |field: ProcessField| field == self.by.field() || aggregation(field).is_some();
        let Some(field) = compared.into_iter().find(|it| !has(*it)) else { return Ok(()) };
        let (name, by) = (field.field().name, self.by.name());
        let why = format!("filter: {name} is of one process: groups by {by} have {by} and sums");
        Err(Refusal::bad(why))
    }

    /// Whether a field must be read of each process to show these of groups.
    pub fn needs(self, field: ProcessField, shown: &[ProcessField]) -> bool {
        field == self.by.field() || (shown.contains(&field) && aggregation(field).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Plan;
    use super::*;

    fn request(by: &str) -> MonitorRequest {
        MonitorRequest { group_by: Some(by.into()), ..MonitorRequest::default() }
    }

    #[track_caller]
    fn refused(request: &MonitorRequest, want: &str) {
        let refusal = Plan::from_request(request).expect_err("it makes no sense");
        assert_eq!(refusal.message, want);
    }

    #[test]
    fn what_makes_no_sense_of_groups_is_refused() {
        refused(&request("jobs"), r#"unknown group "jobs"; did you mean "job"?"#);
        refused(
            &MonitorRequest { keep_ns: Some(1), ..MonitorRequest::default() },
            "keep_ns without group_by: it is of groups",
        );
        refused(
            &MonitorRequest { part: "node".into(), ..request("job") },
            "group_by applies to processes, not to node",
        );
        refused(
            &MonitorRequest { threads: true, ..request("job") },
            "threads has a row for each thread, group_by for many processes",
        );
        refused(
            &MonitorRequest { pmix: true, ..request("job") },
            "group_by with pmix: PMIx has no names for groups",
        );
        let why = "priority is of one process: group_by has no sum of it";
        refused(&MonitorRequest { fields: Some(vec!["priority".into()]), ..request("job") }, why);
        refused(&MonitorRequest { sort: Some("priority".into()), ..request("job") }, why);
    }

    #[test]
    fn only_what_the_groups_need_is_read() {
        let plan = Plan::from_request(&request("user")).expect("a plan");
        assert_eq!(plan.read_spec.costly, [ProcessField::User]);
        let fields = Some(vec!["cpu_ns".into(), "pss_bytes".into()]);
        let plan =
            Plan::from_request(&MonitorRequest { fields, ..request("comm") }).expect("a plan");
        assert_eq!(plan.read_spec.costly, [ProcessField::Pss]);
    }
}
