//! Metric families in the encodings of Prometheus, OpenMetrics and OTLP.
//!
//! In: a frame and its layout. Out: `families` makes its families; `text`, `protobuf` and `otlp`
//! encode them.

mod families;
mod otlp;
mod protobuf;
mod text;

pub use families::{Exposition, Family, FamilyHead, Labels, MetricType};
pub use text::{Dialect, text};

use super::{Frame, FrameWriter, Layout};
use monitor_model::{Ns, Process, Rates};

/// The encoding of an exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Text, in one of its dialects.
    Text(Dialect),
    /// Prometheus' protobuf messages, with native histograms.
    Protobuf,
    /// OTLP metrics in JSON.
    Otlp,
}

impl Exposition {
    /// Encodes all families, with node and time where the encoding has them.
    pub fn encode(&self, encoding: Encoding, node: &str, at: Ns) -> Vec<u8> {
        match encoding {
            Encoding::Text(dialect) => text(self, dialect).into_bytes(),
            Encoding::Protobuf => protobuf::protobuf(self),
            Encoding::Otlp => otlp::otlp(self, otlp::Resource { node, at }),
        }
    }
}

/// The families of a frame.
pub fn from_frame(rates: &Rates, processes: &[Process], layout: &Layout) -> Exposition {
    let mut exposition = Exposition::default();
    exposition.add_reader(&rates.sample);
    match &rates.groups {
        Some(grouped) => exposition.add_groups(grouped, layout),
        None if layout.scope.processes() => exposition.add_processes(processes, layout),
        None => {}
    }
    if let Some(node) = &rates.sample.node_stats {
        exposition.add_node(node, layout);
    }
    exposition
}

/// The text format of Prometheus: `monitor_process_cpu_seconds_total{pid="1",comm="init"} 2.5`.
///
/// One exposition per sample. `# EOF` ends a sample; Prometheus takes it for a comment.
pub struct Prometheus {
    layout: Layout,
}

impl Prometheus {
    /// With these fields.
    pub const fn new(layout: Layout) -> Self {
        Self { layout }
    }
}

/// The families of the frames of many nodes: each point has the label `node`.
fn from_nodes(frames: &[Frame<'_>], layout: &Layout) -> Exposition {
    let mut all = Exposition::default();
    for frame in frames {
        let own = from_frame(frame.rates, frame.processes, layout);
        all.merge(own.labelled("node", &frame.rates.sample.node));
    }
    all
}

impl FrameWriter for Prometheus {
    fn write_nodes(&mut self, frames: &[Frame<'_>], out: &mut Vec<u8>) {
        let all = from_nodes(frames, &self.layout);
        out.extend(text(&all, Dialect::Prometheus).into_bytes());
    }

    fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        let all = from_frame(frame.rates, frame.processes, &self.layout);
        out.extend(text(&all, Dialect::Prometheus).into_bytes());
    }
}
