//! The eye of whoever collects metrics: processes by group, the node, and the monitor itself.
//!
//! In: readings, what of them is exposed, and families about the service. Out: one exposition for
//! each reading. It lives from the first time that somebody collects, so its counters only grow;
//! how many groups there are is bounded, and the bound is told beside them.

use super::group::rule::{Rules, Written};
use super::plan::Plan;
use super::veil::Veil;
use super::view::{Reading, Seen, View};
use monitor_backend::Backend;
use monitor_format::exposition::{Encoding, Exposition, Labels, Shape};
use monitor_model::group::{By, OTHER};
use monitor_model::rates::Rates;
use monitor_model::request::Request;
use monitor_model::scope::Scope;
use monitor_model::status::Refusal;
use monitor_model::want::{Capability, Want};
use monitor_model::whose::Whose;

/// What is exposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposed {
    /// What names the group of a process that no rule fits.
    pub by: By,
    /// Most groups; processes of further ones count in the group `(other)`.
    pub groups: usize,
    /// Rules that name groups.
    pub rules: Vec<Written>,
    /// Capabilities whose durations are exposed; they are attached from the first collection on.
    pub histograms: Vec<Capability>,
}

impl Default for Exposed {
    fn default() -> Self {
        Self { by: By::Comm, groups: 200, rules: Vec::new(), histograms: Vec::new() }
    }
}

/// How, and with what beside it, the next exposition is written.
#[derive(Debug)]
pub struct Order {
    /// The form.
    pub encoding: Encoding,
    /// About the service itself.
    pub own: Exposition,
}

/// The eye.
pub struct Scrape {
    view: View,
    most: usize,
    order: Option<Order>,
}

impl Scrape {
    /// Of what is exposed to these eyes; refused, if a rule is none.
    pub fn new(exposed: &Exposed, veil: Veil) -> Result<Self, Refusal> {
        let rules = Rules::of(&exposed.rules).map_err(Refusal::bad)?;
        let mut plan = Plan::of(&Request {
            part: Scope::All.name().into(),
            group_by: Some(exposed.by.name().into()),
            capabilities: exposed.histograms.iter().map(|it| it.name().into()).collect(),
            ..Request::default()
        })?;
        plan.layout.histograms = !exposed.histograms.is_empty();
        if let Some(grouping) = &mut plan.grouping {
            grouping.limits.groups = exposed.groups;
        }
        Ok(Self { view: View::ruled(plan, veil, rules), most: exposed.groups, order: None })
    }

    /// How the next one is written.
    pub fn order(&mut self, order: Order) {
        self.order = Some(order);
    }

    /// What must be read for it.
    pub const fn want(&self) -> &Want {
        self.view.want()
    }

    /// Whose page tables it is about.
    pub fn pss_of(&self) -> Whose {
        self.view.pss_of()
    }

    /// Looks at a reading. The exposition stands where others have JSON.
    pub fn see(
        &mut self,
        reading: &Reading<'_>,
        backend: &mut dyn Backend,
    ) -> Result<Seen, Refusal> {
        let Some(Order { encoding, own: mut all }) = self.order.take() else {
            return Err(Refusal::bad("nobody said how the metrics are to be written"));
        };
        let layout = self.view.layout().clone();
        let rates = self.view.rates(reading, backend)?;
        all.reader(&rates.sample);
        bound(&mut all, rates, self.most);
        if let Some(grouped) = &rates.groups {
            all.groups(grouped, &layout);
        }
        if let Some(node) = &rates.sample.node_stats {
            all.node(node, &layout);
        }
        let at = rates.sample.at.unix;
        let partial = rates.sample.notes.iter().any(|note| note.partial);
        let json = all.encode(encoding, &rates.sample.node, at);
        Ok(Seen { json, unix: at, partial, ..Seen::default() })
    }
}

/// The bound of the groups, and whether it was reached.
fn bound(all: &mut Exposition, rates: &Rates, most: usize) {
    let groups = rates.groups.iter().flat_map(|it| &it.groups);
    let named = groups.clone().filter(|it| &*it.name != OTHER).count();
    let partial = rates.sample.notes.iter().filter(|note| note.partial).count();
    for (stem, help, value) in [
        ("monitor_groups", "Groups of processes, the one of all others not counted", named),
        ("monitor_groups_limit", "Most groups; further processes count in (other)", most),
        ("monitor_missing_parts", "Notes that something asked for is missing", partial),
    ] {
        all.add((stem, "", help, Shape::Gauge), [(Labels::new(), value as f64)]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::census::Census;
    use super::super::past::Past;
    use super::*;
    use monitor_backends::canned::Canned;
    use monitor_format::exposition::Dialect;

    /// What is exposed of a world, reading by reading.
    fn told<const N: usize>(exposed: &Exposed, script: &str) -> [String; N] {
        let mut backend = Canned::scripted(script).expect("a script");
        let mut scrape = Scrape::new(exposed, Veil::None).expect("rules");
        let mut past = Past::default();
        std::array::from_fn(|_| {
            let mut sample = backend.read(scrape.want()).expect("a sample");
            past.take_from(&mut sample);
            let (sample, past, namespaces) = (&sample, &past, &Census::default());
            let reading = Reading { sample, node: None, past, namespaces, shed: &[] };
            let encoding = Encoding::Text(Dialect::Prometheus);
            scrape.order(Order { encoding, own: Exposition::default() });
            let seen = scrape.see(&reading, &mut backend).expect("it sees");
            String::from_utf8(seen.json).expect("text")
        })
    }

    fn lines<'a>(text: &'a str, of: &'a str) -> Vec<&'a str> {
        text.lines().filter_map(|it| it.strip_prefix(of)).collect()
    }

    #[test]
    fn counters_of_a_group_go_on_when_its_processes_have_ended() {
        let [first, last] = told(
            &Exposed::default(),
            "process 7 comm=a cpu_ns=1s\nprocess 8 comm=a cpu_ns=2s\nat 1s end 8 cpu_ns=3s",
        );
        let of = "monitor_group_cpu_seconds_total";
        assert_eq!(lines(&first, of), [r#"{by="comm",name="a"} 3"#]);
        assert_eq!(lines(&last, of), [r#"{by="comm",name="a"} 4"#]);
    }

    #[test]
    fn what_exceeds_the_bound_is_in_other_and_the_bound_is_told() {
        let exposed = Exposed { groups: 1, ..Exposed::default() };
        let [text] = told(&exposed, "process 7 comm=a cpu_ns=1s\nprocess 8 comm=b cpu_ns=2s");
        let want = [r#"{by="comm",name="(other)"} 2"#, r#"{by="comm",name="a"} 1"#];
        assert_eq!(lines(&text, "monitor_group_cpu_seconds_total"), want);
        assert_eq!(lines(&text, "monitor_groups_limit "), ["1"]);
        assert_eq!(lines(&text, "monitor_groups "), ["1"]);
    }

    #[test]
    fn a_rule_names_whom_it_fits() {
        use monitor_model::field::ProcessField;
        let patterns = vec![(ProcessField::Comm, "^(a|b)$".to_owned())];
        let rules = vec![Written { name: "both".into(), patterns }];
        let exposed = Exposed { rules, ..Exposed::default() };
        let [text] = told(
            &exposed,
            "process 7 comm=a cpu_ns=1s\nprocess 8 comm=b cpu_ns=2s\nprocess 9 comm=c cpu_ns=1s",
        );
        let want = [r#"{by="rule",name="both"} 3"#, r#"{by="rule",name="c"} 1"#];
        assert_eq!(lines(&text, "monitor_group_cpu_seconds_total"), want);
    }
}
