//! The consumer for metrics: processes by group, the node, and the monitor itself.
//!
//! In: readings, the configuration, and families about the service. Out: one exposition for each
//! reading. It exists from the first scrape on, so its counters only grow. The number of groups is
//! limited, and the limit is exposed.

use super::group::rule::{GroupRules, RuleSpec};
use super::view::{Output, Reading, View};
use super::{plan::Plan, visibility::Visibility};
use monitor_backend::Backend;
use monitor_format::exposition::{Encoding, Exposition, Labels, MetricType};
use monitor_model::{
    Capability, GroupBy, MonitorRequest, ProcessFilter, Rates, ReadSpec, Refusal, Scope,
    group::OTHER,
};

/// The configuration of the exposition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeConfig {
    /// The grouping of processes without a matching rule.
    pub by: GroupBy,
    /// Maximum number of groups; further ones are counted in the group `(other)`.
    pub groups: usize,
    /// Rules that name groups.
    pub rules: Vec<RuleSpec>,
    /// Capabilities whose histograms are exposed; attached from the first scrape on.
    pub histograms: Vec<Capability>,
}

impl Default for ScrapeConfig {
    fn default() -> Self {
        Self { by: GroupBy::Comm, groups: 200, rules: Vec::new(), histograms: Vec::new() }
    }
}

/// The encoding of the next exposition, and what is added to it.
#[derive(Debug)]
pub struct ScrapeFormat {
    /// The encoding.
    pub encoding: Encoding,
    /// Metrics of the service itself.
    pub service_metrics: Exposition,
}

/// The consumer for scrapes.
pub struct MetricsConsumer {
    view: View,
    max_groups: usize,
    format: Option<ScrapeFormat>,
}

impl MetricsConsumer {
    /// A consumer for a configuration and a user.
    ///
    /// # Errors
    /// If a rule is invalid.
    pub fn new(config: &ScrapeConfig, visibility: Visibility) -> Result<Self, Refusal> {
        let rules = GroupRules::from_specs(&config.rules).map_err(Refusal::bad)?;
        let mut plan = Plan::from_request(&MonitorRequest {
            part: Scope::All.name().into(),
            group_by: Some(config.by.name().into()),
            capabilities: config.histograms.iter().map(|it| it.name().into()).collect(),
            ..MonitorRequest::default()
        })?;
        plan.layout.histograms = !config.histograms.is_empty();
        if let Some(grouping) = &mut plan.grouping {
            grouping.limits.groups = config.groups;
        }
        Ok(Self {
            view: View::with_rules(plan, visibility, rules),
            max_groups: config.groups,
            format: None,
        })
    }

    /// Sets the encoding of the next exposition.
    pub fn set_format(&mut self, format: ScrapeFormat) {
        self.format = Some(format);
    }

    /// What must be read for it.
    pub const fn read_spec(&self) -> &ReadSpec {
        self.view.read_spec()
    }

    /// The processes whose page tables are read for it.
    pub fn pss_filter(&self) -> ProcessFilter {
        self.view.pss_filter()
    }

    /// Consumes a reading; the output is an exposition.
    ///
    /// # Errors
    /// If no format is set, or the view refuses the reading.
    pub fn consume(
        &mut self,
        reading: &Reading<'_>,
        backend: &mut dyn Backend,
    ) -> Result<Output, Refusal> {
        let Some(ScrapeFormat { encoding, service_metrics: mut all }) = self.format.take() else {
            return Err(Refusal::bad("no encoding is set for the exposition"));
        };
        let layout = self.view.layout().clone();
        let rates = self.view.rates(reading, backend)?;
        all.add_reader(&rates.sample);
        add_limits(&mut all, rates, self.max_groups);
        if let Some(grouped) = &rates.groups {
            all.add_groups(grouped, &layout);
        }
        if let Some(node) = &rates.sample.node_stats {
            all.add_node(node, &layout);
        }
        let at = rates.sample.at.unix;
        let partial = rates.sample.notes.iter().any(|note| note.partial);
        let json = all.encode(encoding, &rates.sample.node, at);
        Ok(Output { bytes: json, unix: at, partial, ..Output::default() })
    }
}

/// Adds the number of groups, their limit, and the number of missing parts.
fn add_limits(all: &mut Exposition, rates: &Rates, max_groups: usize) {
    let groups = rates.groups.iter().flat_map(|it| &it.groups);
    let named = groups.clone().filter(|it| &*it.name != OTHER).count();
    let partial = rates.sample.notes.iter().filter(|note| note.partial).count();
    for (stem, help, value) in [
        ("monitor_groups", "Groups of processes, the one of all others not counted", named),
        ("monitor_groups_limit", "Most groups; further processes count in (other)", max_groups),
        ("monitor_missing_parts", "Notes that something asked for is missing", partial),
    ] {
        all.add((stem, "", help, MetricType::Gauge), [(Labels::new(), value as f64)]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::exit_log::ExitLog;
    use super::super::job_index::JobIndex;
    use super::*;
    use monitor_backends::canned::Canned;
    use monitor_format::exposition::Dialect;

    /// The scrapes of a scripted world, one for each reading.
    fn scrapes<const N: usize>(config: &ScrapeConfig, script: &str) -> [String; N] {
        let mut backend = Canned::scripted(script).expect("a script");
        let mut scrape = MetricsConsumer::new(config, Visibility::All).expect("rules");
        let mut exit_log = ExitLog::default();
        std::array::from_fn(|_| {
            let mut sample = backend.read(scrape.read_spec()).expect("a sample");
            exit_log.take_from(&mut sample);
            let (sample, exit_log, namespaces) = (&sample, &exit_log, &JobIndex::default());
            let reading = Reading {
                sample,
                node: None,
                counters: &Default::default(),
                exit_log,
                namespaces,
                shed: &[],
            };
            let encoding = Encoding::Text(Dialect::Prometheus);
            scrape.set_format(ScrapeFormat { encoding, service_metrics: Exposition::default() });
            let output = scrape.consume(&reading, &mut backend).expect("the format is set");
            String::from_utf8(output.bytes).expect("text")
        })
    }

    fn lines<'a>(text: &'a str, metric: &'a str) -> Vec<&'a str> {
        text.lines().filter_map(|line| line.strip_prefix(metric)).collect()
    }

    #[test]
    fn counters_of_a_group_include_ended_processes() {
        let [first, last] = scrapes(
            &ScrapeConfig::default(),
            "process 7 comm=a cpu_ns=1s\nprocess 8 comm=a cpu_ns=2s\nat 1s end 8 cpu_ns=3s",
        );
        let metric = "monitor_group_cpu_seconds_total";
        assert_eq!(lines(&first, metric), [r#"{by="comm",name="a"} 3"#]);
        assert_eq!(lines(&last, metric), [r#"{by="comm",name="a"} 4"#]);
    }

    #[test]
    fn groups_over_the_limit_are_in_other_and_the_limit_is_exposed() {
        let config = ScrapeConfig { groups: 1, ..ScrapeConfig::default() };
        let [text] = scrapes(&config, "process 7 comm=a cpu_ns=1s\nprocess 8 comm=b cpu_ns=2s");
        let want = [r#"{by="comm",name="(other)"} 2"#, r#"{by="comm",name="a"} 1"#];
        assert_eq!(lines(&text, "monitor_group_cpu_seconds_total"), want);
        assert_eq!(lines(&text, "monitor_groups_limit "), ["1"]);
        assert_eq!(lines(&text, "monitor_groups "), ["1"]);
    }

    #[test]
    fn a_rule_names_the_group_of_matching_processes() {
        use monitor_model::field::ProcessField;
        let patterns = vec![(ProcessField::Comm, "^(a|b)$".to_owned())];
        let rules = vec![RuleSpec { name: "both".into(), patterns }];
        let config = ScrapeConfig { rules, ..ScrapeConfig::default() };
        let [text] = scrapes(
            &config,
            "process 7 comm=a cpu_ns=1s\nprocess 8 comm=b cpu_ns=2s\nprocess 9 comm=c cpu_ns=1s",
        );
        let want = [r#"{by="rule",name="both"} 3"#, r#"{by="rule",name="c"} 1"#];
        assert_eq!(lines(&text, "monitor_group_cpu_seconds_total"), want);
    }
}
