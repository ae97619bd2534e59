//! Families as length-delimited `io.prometheus.client.MetricFamily` messages, with native
//! histograms.
//!
//! In: families. Out: bytes. The buckets of `Histogram` divide each power of two linearly by eight;
//! those of schema 3 divide it by ratio. A count goes to the bucket of its upper bound, so a
//! quantile is never too small, and at most two buckets (18 %) too large.
//! The message is defined in
//! https://github.com/prometheus/client_model/blob/master/io/prometheus/client/metrics.proto

use super::families::{Exposition, Family, MetricType};
use monitor_model::Histogram;
use prost::encoding::{
    WireType, double, encode_key, encode_varint, sint32, sint64, string, uint32, uint64,
};

/// The resolution of native histograms: 2^3 buckets per power of two.
pub const SCHEMA: i32 = 3;

/// Encodes all families.
pub fn protobuf(all: &Exposition) -> Vec<u8> {
    let labels: Vec<_> = all.labels.iter().map(|pairs| labels(pairs)).collect();
    let mut out = Vec::new();
    let mut one = Vec::new();
    for it in &all.families {
        one.clear();
        family(it, &labels, &mut one);
        encode_varint(one.len() as u64, &mut out);
        out.extend_from_slice(&one);
    }
    out
}

/// Encodes each label as field 1 of a metric.
fn labels(pairs: &[(&'static str, Box<str>)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut pair = Vec::new();
    for (name, value) in pairs {
        pair.clear();
        string::encode(1, &(*name).to_owned(), &mut pair);
        string::encode(2, &value.to_string(), &mut pair);
        nested(1, &pair, &mut out);
    }
    out
}

fn family(it: &Family, labels: &[Vec<u8>], out: &mut Vec<u8>) {
    string::encode(1, &it.name(), out);
    string::encode(2, &it.help.to_owned(), out);
    let (shape, field) = match it.metric_type {
        MetricType::Counter => (0, 3),
        MetricType::Gauge | MetricType::Info => (1, 2),
        MetricType::Histogram => (4, 7),
    };
    encode_key(3, WireType::Varint, out);
    encode_varint(shape, out);
    let (mut metric, mut value) = (Vec::new(), Vec::new());
    for &(index, number) in &it.points {
        value.clear();
        double::encode(1, &number, &mut value);
        point((&labels[index], field, &value), &mut metric, out);
    }
    for (index, durations) in &it.durations {
        value.clear();
        histogram(durations, &mut value);
        point((&labels[*index], field, &value), &mut metric, out);
    }
}

/// Encodes field 4 of a family: the labels, and the value in the field of its type.
fn point(it: (&[u8], u32, &[u8]), metric: &mut Vec<u8>, out: &mut Vec<u8>) {
    let (labels, field, value) = it;
    metric.clear();
    metric.extend_from_slice(labels);
    nested(field, value, metric);
    nested(4, metric, out);
}

fn histogram(durations: &Histogram, out: &mut Vec<u8>) {
    let (zero, threshold, buckets) = native_buckets(durations);
    uint64::encode(1, &durations.count(), out);
    double::encode(2, &durations.sum().seconds(), out);
    sint32::encode(5, &SCHEMA, out);
    double::encode(6, &threshold, out);
    uint64::encode(7, &zero, out);
    // Spans of adjacent buckets, and the difference of each count to the previous one.
    let (mut last, mut before) = (None, 0);
    let mut spans: Vec<(i32, u32)> = Vec::new();
    let mut deltas = Vec::new();
    for (index, count) in buckets {
        match (last, spans.last_mut()) {
            (Some(last), Some(span)) if last + 1 == index => span.1 += 1,
            (last, _) => spans.push((last.map_or(index, |last| index - last - 1), 1)),
        }
        deltas.push(count - before);
        (last, before) = (Some(index), count);
    }
    let mut span = Vec::new();
    for (offset, length) in spans {
        span.clear();
        sint32::encode(1, &offset, &mut span);
        uint32::encode(2, &length, &mut span);
        nested(12, &span, out);
    }
    sint64::encode_packed(13, &deltas, out);
}

/// The count of the zero bucket, its upper bound in seconds, and the other counts by index.
pub fn native_buckets(durations: &Histogram) -> (u64, f64, Vec<(i32, i64)>) {
    let mut zero = 0;
    let threshold = Histogram::shortest().seconds();
    let mut buckets: Vec<(i32, i64)> = Vec::new();
    for (low, high, count) in durations.buckets() {
        if high == Histogram::shortest() {
            zero = count;
            continue;
        }
        // The last bucket has no upper bound.
        let within = if high.0 == u64::MAX { low } else { high };
        let index = (within.seconds().log2() * f64::from(1 << SCHEMA)).ceil() as i32;
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        match buckets.last_mut() {
            Some((last, sum)) if *last == index => *sum += count,
            _ => buckets.push((index, count)),
        }
    }
    (zero, threshold, buckets)
}

/// Encodes a nested message.
fn nested(field: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::Ns;

    #[test]
    fn a_gauge_is_encoded_with_name_help_and_points() {
        let mut all = Exposition::default();
        all.add(("x", "", "h", MetricType::Gauge), [(vec![("a", "b".into())], 1.0)]);
        let want = b"\x1d\x0a\x01x\x12\x01h\x18\x01\x22\x13\x0a\x06\x0a\x01a\x12\x01b\
                     \x12\x09\x09\0\0\0\0\0\0\xf0\x3f";
        assert_eq!(protobuf(&all), want);
    }

    #[test]
    fn a_duration_is_counted_at_the_upper_bound_of_its_bucket() {
        let mut durations = Histogram::default();
        let all = [5, 1_000_000_000, 1_000_000_000, 2_000_000_000];
        all.into_iter().for_each(|ns| durations.record(Ns(ns)));
        let (zero, threshold, buckets) = native_buckets(&durations);
        assert_eq!((zero, threshold), (1, 1.023e-6));
        // One second is in the bucket up to 1.006 s, two seconds in the one up to 2.013 s.
        assert_eq!(buckets, [(1, 2), (9, 1)]);
    }
}
