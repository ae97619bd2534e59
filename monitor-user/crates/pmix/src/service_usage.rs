//! A sample of the service of the node, as attributes.
//!
//! In: samples in the form of PMIx, which is JSON (`--format pmix`), of one or several nodes; which
//! nodes have none. Out: a container for each process, node, disk and interface, with the types of
//! OpenPMIx 6, and one for each node without a sample.

use crate::attribute::{Attribute, Datum, ProcName, WILDCARD};
use crate::kind;
use crate::status;
use monitor_model::{
    DiskField, NetField, NodeField, PmixEncoding, PmixNamed as _, ProcessField, Status,
};
use serde_json::Value as Json;
use std::ffi::c_int;

/// Container of a node without a sample.
const MISSING: &str = "monitor.node.missing";

/// What the service has sent.
#[derive(Debug)]
pub enum ServiceUsage {
    /// Samples.
    Sampled {
        /// The samples of the nodes: an array of containers each.
        samples: Vec<String>,
        /// The nodes that have none.
        missing: Vec<NodeWithoutSample>,
        /// Whether some of what was asked for is missing.
        is_partial: bool,
    },
    /// None follow; why.
    Ended(&'static str),
    /// It does not carry out the request, or there is no service.
    Refused(Status),
}

/// A node that has no sample.
#[derive(Debug)]
pub struct NodeWithoutSample {
    /// Its name.
    pub node: String,
    /// The name of the status.
    pub status: String,
    /// Why.
    pub message: String,
}

impl ServiceUsage {
    /// Whether no other sample follows.
    pub const fn is_last(&self) -> bool {
        !matches!(self, Self::Sampled { .. })
    }

    /// The status of the reply, with its attributes.
    pub fn attributes(&self) -> (c_int, Vec<Attribute>) {
        let (samples, missing, is_partial) = match self {
            Self::Sampled { samples, missing, is_partial } => (samples, missing, *is_partial),
            Self::Ended(why) => return (status::SUCCESS, vec![ended(why)]),
            Self::Refused(status) => return (status.number(), vec![ended(status.name())]),
        };
        let mut all = Vec::new();
        for sample in samples {
            match serde_json::from_str(sample) {
                Ok(Json::Array(containers)) => all.extend(attributes(&containers)),
                _ => return (status::ERROR, Vec::new()),
            }
        }
        all.extend(missing.iter().map(NodeWithoutSample::container));
        (if is_partial { status::PARTIAL_SUCCESS } else { status::SUCCESS }, all)
    }
}

/// Says in the last event of a monitor why it has ended.
pub fn ended(why: &str) -> Attribute {
    Attribute::new("monitor.ended", Datum::text(why))
}

impl NodeWithoutSample {
    fn container(&self) -> Attribute {
        let text = |key: &str, text: &str| Attribute::new(key, Datum::text(text));
        let about = vec![
            text("pmix.hname", &self.node),
            text("monitor.status", &self.status),
            text("monitor.message", &self.message),
        ];
        Attribute::new(MISSING, Datum::Attributes(about))
    }
}

/// The keys and values of objects, one after another.
fn attributes(objects: &[Json]) -> Vec<Attribute> {
    let pairs = objects.iter().filter_map(Json::as_object).flatten();
    pairs.filter_map(|(key, value)| Some(Attribute::new(key, datum(key, value)?))).collect()
}

fn datum(key: &str, value: &Json) -> Option<Datum> {
    Some(match value {
        Json::Array(inner) => Datum::Attributes(attributes(inner)),
        Json::String(text) => Datum::text(text),
        Json::Bool(flag) => Datum::flag(*flag),
        Json::Object(object) => {
            let number = |key: &str| object.get(key).and_then(Json::as_i64);
            match object.get("nspace").and_then(Json::as_str) {
                Some(nspace) => {
                    let rank = number("rank").and_then(|it| u32::try_from(it).ok());
                    let rank = rank.unwrap_or(WILDCARD);
                    Datum::Proc(ProcName { nspace: nspace.to_owned(), rank })
                }
                None => Datum::Timeval(number("sec")?, number("usec")?),
            }
        }
        Json::Number(number) => {
            let whole = number.as_u64().or_else(|| Some(number.as_i64()?.cast_unsigned()));
            match (number_kind(key), whole) {
                (kind::FLOAT, _) | (_, None) => Datum::float(number.as_f64()? as f32),
                (kind::UINT16, Some(it)) => Datum::Number(kind::UINT16, it.min(u16::MAX.into())),
                (kind::INT32, Some(it)) => Datum::Number(kind::INT32, it & u64::from(u32::MAX)),
                (kind, Some(it)) => Datum::Number(kind, it),
            }
        }
        Json::Null => return None,
    })
}

/// The type of a number, by its key.
fn number_kind(key: &str) -> u16 {
    let is_float = |encoding: Option<PmixEncoding>| encoding == Some(PmixEncoding::Mebibytes);
    match key {
        "pmix.ppid" => kind::PID,
        "pmix.nodeid" => kind::UINT32,
        "pmix.proc.pri" => kind::INT32,
        "pmix.proc.nthr" | "pmix.proc.cpu" => kind::UINT16,
        "pmix.proc.pcpu" | "pmix.node.la" | "pmix.node.la5" | "pmix.node.la15" => kind::FLOAT,
        _ if key.ends_with(".samptime") => kind::TIME,
        _ if is_float(encoding(key)) => kind::FLOAT,
        _ => kind::UINT64,
    }
}

/// How the value of a key is encoded.
fn encoding(key: &str) -> Option<PmixEncoding> {
    let process = ProcessField::NAMES.iter().find(|it| it.key == key).map(|it| it.encoding);
    let node = NodeField::NAMES.iter().find(|it| it.key == key).map(|it| it.encoding);
    let disk = DiskField::NAMES.iter().find(|it| it.key == key).map(|it| it.encoding);
    let net = NetField::NAMES.iter().find(|it| it.key == key).map(|it| it.encoding);
    process.or(node).or(disk).or(net)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::find;

    #[test]
    fn containers_have_the_types_of_pmix() {
        let sample = r#"[{"pmix.proc.res":[
            {"pmix.procid":{"nspace":"job","rank":3}},{"pmix.ppid":7},{"pmix.hname":"n2"},
            {"pmix.proc.time":{"sec":1234,"usec":5678}},{"pmix.proc.nthr":10},
            {"pmix.proc.pri":-5},{"pmix.proc.rss":3},{"monitor.state":"R"},
            {"pmix.proc.samptime":99}]},
            {"pmix.node.res":[{"pmix.nodeid":2},{"pmix.node.la":1},
            {"pmix.disk.res":[{"pmix.disk.id":"vda"},{"pmix.disk.rdscomp":8}]}]}]"#;
        let missing = NodeWithoutSample {
            node: "n3".to_owned(),
            status: "TIMEOUT".to_owned(),
            message: "late".to_owned(),
        };
        let usage = ServiceUsage::Sampled {
            samples: vec![sample.to_owned()],
            missing: vec![missing],
            is_partial: true,
        };
        let (status, all) = usage.attributes();
        assert_eq!(status, status::PARTIAL_SUCCESS);
        let inner = |all: &[Attribute], key: &str| match find(all, key) {
            Some(Datum::Attributes(inner)) => inner.clone(),
            other => panic!("{key}: {other:?}"),
        };
        let process = inner(&all, "pmix.proc.res");
        let name = ProcName { nspace: "job".to_owned(), rank: 3 };
        let minus_five = u64::from((-5i32).cast_unsigned());
        for (key, want) in [
            ("pmix.procid", Datum::Proc(name)),
            ("pmix.ppid", Datum::Number(kind::PID, 7)),
            ("pmix.hname", Datum::text("n2")),
            ("pmix.proc.time", Datum::Timeval(1234, 5678)),
            ("pmix.proc.nthr", Datum::Number(kind::UINT16, 10)),
            ("pmix.proc.pri", Datum::Number(kind::INT32, minus_five)),
            ("pmix.proc.rss", Datum::float(3.0)),
            ("pmix.proc.samptime", Datum::Number(kind::TIME, 99)),
        ] {
            assert_eq!(find(&process, key), Some(&want), "{key}");
        }
        let node = inner(&all, "pmix.node.res");
        assert_eq!(find(&node, "pmix.node.la"), Some(&Datum::float(1.0)));
        let disk = inner(&node, "pmix.disk.res");
        assert_eq!(find(&disk, "pmix.disk.rdscomp"), Some(&Datum::Number(kind::UINT64, 8)));
        assert_eq!(find(&inner(&all, MISSING), "pmix.hname"), Some(&Datum::text("n3")));
    }

    #[test]
    fn a_refusal_has_its_status_and_what_is_no_sample_is_an_error() {
        let (status, all) = ServiceUsage::Refused(Status::NotFound).attributes();
        assert_eq!((status, all), (status::NOT_FOUND, vec![ended("NOT_FOUND")]));
        let usage = ServiceUsage::Sampled {
            samples: vec!["{}".to_owned()],
            missing: Vec::new(),
            is_partial: false,
        };
        assert_eq!(usage.attributes().0, status::ERROR);
    }
}
