//! What a request adds processes up by.
//!
//! In: the request. Out: by what, and how long a group is kept, or why that makes no sense.

use super::group::Limits;
use super::order::Order;
use monitor_model::field::{Category, ProcessField};
use monitor_model::group::{By, sum};
use monitor_model::id::Ns;
use monitor_model::pmix;
use monitor_model::request::Request;
use monitor_model::status::Refusal;

/// By what, and within which limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// By what.
    pub by: By,
    /// How many groups, and how long each is kept.
    pub limits: Limits,
}

impl Grouping {
    /// Of a request; none, if it asks for processes one by one.
    pub fn of(request: &Request, order: Option<Order>) -> Result<Option<Self>, Refusal> {
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
            pmix::field::<ProcessField>(name.strip_prefix("proc.").unwrap_or(name))
        });
        for field in named.chain(order.map(|order| order.field)) {
            if sum(field).is_none() {
                let name = field.field().name;
                let why = format!("{name} is of one process: group_by has no sum of it");
                return Err(Refusal::bad(why));
            }
        }
        let keep = request.keep_ns.map_or(Limits::default().keep, Ns);
        Ok(Some(Self { by, limits: Limits { keep, ..Limits::default() } }))
    }

    /// Whether a field must be read of each process to show these of groups.
    pub fn needs(self, field: ProcessField, shown: &[ProcessField]) -> bool {
        field == self.by.field() || (shown.contains(&field) && sum(field).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Plan;
    use super::*;

    fn request(by: &str) -> Request {
        Request { group_by: Some(by.into()), ..Request::default() }
    }

    #[track_caller]
    fn refused(request: &Request, want: &str) {
        let refusal = Plan::of(request).expect_err("it makes no sense");
        assert_eq!(refusal.message, want);
    }

    #[test]
    fn what_makes_no_sense_of_groups_is_refused() {
        refused(&request("jobs"), r#"unknown group "jobs"; did you mean "job"?"#);
        refused(
            &Request { keep_ns: Some(1), ..Request::default() },
            "keep_ns without group_by: it is of groups",
        );
        refused(
            &Request { part: "node".into(), ..request("job") },
            "group_by is of processes, not of node",
        );
        refused(
            &Request { threads: true, ..request("job") },
            "threads has a row for each thread, group_by for many processes",
        );
        refused(
            &Request { pmix: true, ..request("job") },
            "group_by with pmix: PMIx has no names for groups",
        );
        let why = "priority is of one process: group_by has no sum of it";
        refused(&Request { fields: Some(vec!["priority".into()]), ..request("job") }, why);
        refused(&Request { sort: Some("priority".into()), ..request("job") }, why);
    }

    #[test]
    fn only_what_the_groups_need_is_read() {
        let plan = Plan::of(&request("user")).expect("a plan");
        assert_eq!(plan.want.costly, [ProcessField::User]);
        let fields = Some(vec!["cpu_ns".into(), "pss_bytes".into()]);
        let plan = Plan::of(&Request { fields, ..request("comm") }).expect("a plan");
        assert_eq!(plan.want.costly, [ProcessField::Pss]);
    }
}
