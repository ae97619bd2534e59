//! Values as a script writes them.
//!
//! In: `rss_bytes=4M`, `cpu_ns+=10ms`, `cpu_ns/s=500ms`. Out: a change of a field of one category.
//! Units are those of time (ns us ms s m h) and of memory (K M G T, powers of 1,024); a number
//! without one is in the field's own unit.

use monitor_model::{Category, Ns, Row, ValueKind};

/// What is done to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// `=`: it becomes the value.
    Set,
    /// `+=`: the value is added once.
    Add,
    /// `/s=`: the value is added each second from now on.
    Grow,
}

/// One change.
#[derive(Clone, Copy, Debug)]
pub struct FieldChange<F> {
    field: F,
    how: ChangeKind,
    bits: u64,
}

/// The values of an object, and how fast they grow.
#[derive(Clone, Debug)]
pub struct Values<F, const N: usize> {
    /// Now.
    pub row: Row<F, N>,
    per_second: Vec<(F, u64)>,
}

impl<F: Category, const N: usize> Default for Values<F, N> {
    fn default() -> Self {
        Self { row: Row::default(), per_second: Vec::new() }
    }
}

impl<F: Category, const N: usize> Values<F, N> {
    /// Makes a change.
    pub fn apply(&mut self, change: &FieldChange<F>) {
        match change.how {
            ChangeKind::Set => self.row.set(change.field, change.bits),
            ChangeKind::Add => self.row.add(change.field, change.bits),
            ChangeKind::Grow => {
                self.per_second.retain(|(field, _)| *field != change.field);
                self.per_second.push((change.field, change.bits));
            }
        }
    }

    /// Lets time pass.
    pub fn grow(&mut self, span: Ns) {
        for &(field, rate) in &self.per_second {
            let grown = u128::from(rate) * u128::from(span.0) / 1_000_000_000;
            self.row.add(field, u64::try_from(grown).unwrap_or(u64::MAX));
        }
    }
}

/// A word `name=value`, split at its sign.
pub fn split(word: &str) -> Result<(&str, ChangeKind, &str), String> {
    let (name, value) = word.split_once('=').ok_or_else(|| format!("{word}: wanted name=value"))?;
    if let Some(name) = name.strip_suffix('+') {
        return Ok((name, ChangeKind::Add, value));
    }
    if let Some(name) = name.strip_suffix("/s") {
        return Ok((name, ChangeKind::Grow, value));
    }
    Ok((name, ChangeKind::Set, value))
}

/// A word as a change of a category's field.
pub fn change<F: Category>(word: &str) -> Result<FieldChange<F>, String> {
    let (name, how, value) = split(word)?;
    let field = F::from_name(name).ok_or_else(|| format!("{name}: no such field"))?;
    let kind = field.field().kind;
    if how != ChangeKind::Set && kind != ValueKind::Number {
        return Err(format!("{name}: only numbers grow"));
    }
    let bits = bits(kind, value).ok_or_else(|| format!("{word}: {value} is no {kind:?}"))?;
    Ok(FieldChange { field, how, bits })
}

fn bits(kind: ValueKind, value: &str) -> Option<u64> {
    match kind {
        ValueKind::Number | ValueKind::Flag => number(value),
        ValueKind::Signed => value.parse::<i64>().ok().map(i64::cast_unsigned),
        ValueKind::Float => value.parse::<f64>().ok().map(f64::to_bits),
        ValueKind::Letter => match value.as_bytes() {
            [letter] => Some(u64::from(*letter)),
            _ => None,
        },
        ValueKind::Text => None,
    }
}

/// A whole number and its unit.
pub fn number(text: &str) -> Option<u64> {
    let end = text.find(|it: char| !it.is_ascii_digit() && it != '_').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let count: u64 = digits.replace('_', "").parse().ok()?;
    let worth = match unit {
        "" | "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return None,
    };
    count.checked_mul(worth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::field::process::ProcessRow;
    use monitor_model::field::{NodeField, ProcessField};

    #[test]
    fn numbers_have_units() {
        assert_eq!(number("1_500"), Some(1_500));
        assert_eq!(number("2ms"), Some(2_000_000));
        assert_eq!(number("4K"), Some(4_096));
        for bad in ["", "ms", "5x", "-1", "99999999999999999999", "99999999999999h"] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_field_grows_at_the_last_rate_set() {
        let mut values = Values::<ProcessField, { ProcessField::COUNT }>::default();
        for word in ["cpu_ns=1s", "cpu_ns+=1s", "cpu_ns/s=9s", "cpu_ns/s=500ms"] {
            values.apply(&change(word).unwrap());
        }
        values.grow(Ns(100_000_000));
        let row: &ProcessRow = &values.row;
        assert_eq!(row.get(ProcessField::CpuTime), Some(2_050_000_000));
    }

    #[test]
    fn a_wrong_word_says_what_is_wrong() {
        let error = |word| change::<NodeField>(word).unwrap_err();
        assert_eq!(error("load1"), "load1: wanted name=value");
        assert_eq!(error("lode=1"), "lode: no such field");
        assert_eq!(error("load1/s=1"), "load1: only numbers grow");
        assert_eq!(error("online_cpus=x"), "online_cpus=x: x is no Number");
    }
}
