//! The text format of Prometheus: `monitor_process_cpu_seconds_total{pid="1",comm="init"} 2.5`.
//!
//! Families come from the field list: base units, `_total` on counters, no rates (Prometheus
//! computes them), no timestamps. `# EOF` ends a sample; Prometheus takes it for a comment.

use super::exposition::{self, Dialect};
use super::{Frame, FrameWriter, Layout};

/// Writes one exposition per sample.
pub struct Prometheus {
    layout: Layout,
    text: String,
}

impl Prometheus {
    /// With these fields.
    pub const fn new(layout: Layout) -> Self {
        Self { layout, text: String::new() }
    }
}

impl FrameWriter for Prometheus {
    fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        let all = exposition::from_frame(frame.rates, frame.processes, &self.layout);
        self.text.clear();
        exposition::text(&all, Dialect::Prometheus, &mut self.text);
        out.extend_from_slice(self.text.as_bytes());
    }
}
