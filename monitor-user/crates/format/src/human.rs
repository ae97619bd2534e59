//! Numbers and texts for reading: `1.2M`, `3.4s`, and escaped control characters.
//!
//! Every quantity fits five characters. Other formats print exact values.

use monitor_model::{Field, FieldValue, Ns, Unit};
use monitor_protocol::terminal::is_active;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

/// Appends a value with its unit. Writing to a `String` cannot fail.
pub fn value(field: &Field, value: FieldValue<'_>, out: &mut String) {
    let number = value.as_f64().unwrap_or_default();
    let _ = match (field.unit, value) {
        (_, FieldValue::Text(text)) => return escaped(text, out),
        (_, FieldValue::Letter(letter)) => return out.push(letter),
        (_, FieldValue::Flag(yes)) => return out.push_str(if yes { "yes" } else { "no" }),
        (Unit::Bytes | Unit::BytesPerSecond, _) => return scaled(number, 1024.0, out),
        (Unit::Count | Unit::PerSecond, _) => return scaled(number, 1000.0, out),
        (Unit::Nanoseconds, _) => return duration(number, out),
        (Unit::Percent, _) => write!(out, "{number:.1}"),
        (Unit::None, FieldValue::Float(x)) => write!(out, "{x:.2}"),
        (Unit::None, other) => write!(out, "{other}"),
    };
}

/// Rounds to three decimals, to keep the text short; `None` for infinity and NaN.
pub fn rounded(number: f64) -> Option<f64> {
    number.is_finite().then(|| (number * 1e3).round() / 1e3)
}

/// A value with [`rounded`] numbers.
pub fn rounded_value(value: FieldValue<'_>) -> Option<FieldValue<'_>> {
    match value {
        FieldValue::Float(number) => rounded(number).map(FieldValue::Float),
        other => Some(other),
    }
}

/// Appends a number with at most three digits and the prefix of its scale.
pub fn scaled(mut number: f64, base: f64, out: &mut String) {
    const LETTERS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let mut scale = 0;
    // From 999.5 on it would round to four digits.
    while number >= 999.5 && scale + 1 < LETTERS.len() {
        number /= base;
        scale += 1;
    }
    let decimals = usize::from(number < 9.95 && (scale > 0 || number.fract() >= 0.05));
    let _ = write!(out, "{number:.decimals$}{}", LETTERS[scale]);
}

/// Appends a duration given in nanoseconds.
pub fn duration(ns: f64, out: &mut String) {
    const MINUTE: f64 = 60e9;
    let (count, unit) = match ns {
        ..999.5 => (ns, "ns"),
        ..999.5e3 => (ns / 1e3, "us"),
        ..999.5e6 => (ns / 1e6, "ms"),
        ..99.5e9 => (ns / 1e9, "s"),
        ..3599.5e9 => return two_units(ns / 1e9, (60, "m", "s"), out),
        ..360_000e9 => return two_units(ns / MINUTE, (60, "h", "m"), out),
        _ => return two_units(ns / MINUTE / 60.0, (24, "d", "h"), out),
    };
    let decimals = usize::from(count < 9.95 && unit != "ns");
    let _ = write!(out, "{count:.decimals$}{unit}");
}

/// Appends a time on the realtime clock, to the second.
pub fn timestamp(unix: Ns, out: &mut String) {
    let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(unix.0);
    let _ = write!(out, "{}", humantime::format_rfc3339_seconds(at));
}

/// Appends a count in two units, such as `1h05m`.
fn two_units(count: f64, (size, large, small): (u64, &str, &str), out: &mut String) {
    let count = count as u64;
    let _ = write!(out, "{}{large}{:02}{small}", count / size, count % size);
}

/// Appends a text. Control characters and changes of writing direction are escaped.
pub fn escaped(text: &str, out: &mut String) {
    for letter in text.chars() {
        if is_active(letter) {
            out.extend(letter.escape_default());
        } else {
            out.push(letter);
        }
    }
}

/// A text of several lines, each as [`escaped`] appends it.
pub fn escaped_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (content, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        escaped(content, &mut out);
        out.push_str(end);
    }
    out
}

/// A number as [`scaled`] appends it.
pub fn scaled_text(number: f64, base: f64) -> String {
    let mut out = String::new();
    scaled(number, base, &mut out);
    out
}

/// A duration as [`duration`] appends it.
pub fn duration_text(ns: f64) -> String {
    let mut out = String::new();
    duration(ns, &mut out);
    out
}

/// A text as [`escaped`] appends it.
pub fn escaped_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escaped(text, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(write: impl FnOnce(&mut String), want: &str) {
        let mut got = String::new();
        write(&mut got);
        assert_eq!(got, want);
    }

    #[test]
    fn bytes_are_short_and_never_four_digits() {
        for (bytes, want) in [
            (0.0, "0"),
            (999.0, "999"),
            (1000.0, "1.0K"),
            (1_258_291.0, "1.2M"),
            (10_200.0, "10K"),
            (1_048_000.0, "1.0M"),
            (1.8e19, "16E"),
        ] {
            check(|out| scaled(bytes, 1024.0, out), want);
        }
    }

    #[test]
    fn a_small_rate_keeps_a_decimal() {
        check(|out| scaled(0.5, 1000.0, out), "0.5");
    }

    #[test]
    fn durations_range_from_nanoseconds_to_days() {
        for (ns, want) in [
            (0.0, "0ns"),
            (950.0, "950ns"),
            (1_500.0, "1.5us"),
            (12e6, "12ms"),
            (3.4e9, "3.4s"),
            (99.6e9, "1m39s"),
            (7_980e9, "2h13m"),
            (360_000e9, "4d04h"),
        ] {
            check(|out| duration(ns, out), want);
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        check(|out| escaped("a\x1b[2J\n\u{202e}é", out), "a\\u{1b}[2J\\n\\u{202e}é");
    }
}
