//! Values of the configuration as people write them: `"10ms"`, `"1MiB"`, `"0.5%"`, `["@staff"]`.
//!
//! In: a value of the file. Out: a number or a list, or what was wanted there. Names of users and
//! groups are looked up here, so that a wrong one is told with its line.

use crate::http::push;
use crate::policy::Who;
use monitor_sys::account;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeValue;

/// Sizes that people write, and their bytes.
const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1)];

/// A text.
pub fn text<'a>(value: &'a DeValue<'_>) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| wanted("a text in quotes", value))
}

/// Some texts.
pub fn texts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    const WANT: &str = "a list such as [\"a\", \"b\"]";
    let list = value.as_array().ok_or_else(|| wanted(WANT, value))?;
    list.iter().map(|it| text(it.get_ref()).map(str::to_owned)).collect()
}

/// A file; none, where the text is empty.
pub fn path(value: &DeValue<'_>) -> Result<Option<PathBuf>, String> {
    let text = text(value)?;
    Ok((!text.is_empty()).then(|| text.into()))
}

/// An address with a port; none, where the text is empty.
pub fn address(value: &DeValue<'_>) -> Result<Option<SocketAddr>, String> {
    let text = text(value)?;
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = |_| format!("{text:?}: an address and a port, such as \"127.0.0.1:9464\"");
    text.parse().map(Some).map_err(wrong)
}

/// A collector that metrics can be pushed to; none, where the text is empty.
pub fn endpoint(value: &DeValue<'_>) -> Result<Option<String>, String> {
    let text = text(value)?;
    if text.is_empty() {
        return Ok(None);
    }
    push::possible(text).map(|()| Some(text.to_owned()))
}

/// As a file of the file.
pub fn written_path(path: Option<&Path>) -> String {
    format!("{:?}", path.unwrap_or(Path::new("")))
}

/// Nanoseconds.
pub fn duration(value: &DeValue<'_>) -> Result<u64, String> {
    const WANT: &str = "a time such as \"10ms\" or \"7d\"";
    let text = value.as_str().ok_or_else(|| wanted(WANT, value))?;
    let wrong = |_| format!("{text:?}: wanted {WANT}; units are ns, us, ms, s, m, h and d");
    let time = humantime::parse_duration(text).map_err(wrong)?;
    match u64::try_from(time.as_nanos()) {
        Ok(ns @ 1..) => Ok(ns),
        _ => Err(format!("{text:?}: longer than nothing, shorter than 580 years")),
    }
}

/// How many, at least one.
pub fn count(value: &DeValue<'_>) -> Result<usize, String> {
    const WANT: &str = "a whole number from 1 on";
    let number = integer(value).ok_or_else(|| wanted(WANT, value))?;
    usize::try_from(number).ok().filter(|&n| n > 0).ok_or_else(|| format!("{number}: {WANT}"))
}

/// Bytes: `"64KiB"`, or a number of them.
pub fn size(value: &DeValue<'_>) -> Result<usize, String> {
    const WANT: &str = "a size such as \"64KiB\", \"1MiB\" or a number of bytes";
    let Some(text) = value.as_str() else {
        return count(value).map_err(|_| wanted(WANT, value));
    };
    let bytes = || {
        let (unit, scale) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
        let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        usize::try_from(number.checked_mul(*scale)?).ok().filter(|&n| n > 0)
    };
    bytes().ok_or_else(|| format!("{text:?}: wanted {WANT}"))
}

/// A part of the whole, from `"0.5%"`.
pub fn share(value: &DeValue<'_>) -> Result<f64, String> {
    const WANT: &str = "a part of the machine such as \"0.5%\"";
    let text = value.as_str().ok_or_else(|| wanted(WANT, value))?;
    let number = text.strip_suffix('%').and_then(|it| it.trim().parse::<f64>().ok());
    let within = number.filter(|it| *it > 0.0 && *it <= 100.0);
    within.map(|it| it / 100.0).ok_or_else(|| format!("{text:?}: wanted {WANT}, up to \"100%\""))
}

/// Users, and groups with `@` before them, by name or number; `"*"` is everybody.
pub fn people(value: &DeValue<'_>) -> Result<Vec<Who>, String> {
    const WANT: &str = "a list such as [\"alice\", \"@staff\", 1000]";
    let list = value.as_array().ok_or_else(|| wanted(WANT, value))?;
    list.iter().map(|it| person(it.get_ref(), WANT)).collect()
}

fn person(value: &DeValue<'_>, want: &str) -> Result<Who, String> {
    if let Some(number) = integer(value) {
        let uid = u32::try_from(number).map_err(|_| format!("{number} is no user id"))?;
        return Ok(Who::User(uid));
    }
    let name = value.as_str().ok_or_else(|| wanted(want, value))?;
    match name.strip_prefix('@') {
        _ if name == "*" => Ok(Who::Everybody),
        Some(group) => account::group(group).map(Who::Group),
        None => account::user(name).map(Who::User),
    }
}

/// As a list of the file.
pub fn written(people: &[Who]) -> String {
    let all: Vec<_> = people.iter().map(|who| format!("\"{who}\"")).collect();
    format!("[{}]", all.join(", "))
}

/// As a time of the file.
pub fn written_duration(ns: u64) -> String {
    format!("\"{}\"", humantime::format_duration(Duration::from_nanos(ns)))
}

/// As a size of the file, in the largest unit that is exact.
pub fn written_size(bytes: usize) -> String {
    let bytes = bytes as u64;
    let fits = |&&(_, scale): &&(&str, u64)| bytes.is_multiple_of(scale) && bytes >= scale;
    let unit = UNITS[..3].iter().rev().find(fits).unwrap_or(&UNITS[3]);
    format!("\"{}{}\"", bytes / unit.1, unit.0)
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// What was wanted, and what is there instead.
pub fn wanted(want: &str, value: &DeValue<'_>) -> String {
    format!("wanted {want}, found {}", value.type_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: PartialEq + std::fmt::Debug>(
        read: fn(&DeValue<'_>) -> Result<T, String>,
        text: &str,
        want: Result<T, &str>,
    ) {
        let value = DeValue::parse(text).expect("a value");
        assert_eq!(read(value.get_ref()), want.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn times_and_sizes_are_read_as_people_write_them() {
        check(duration, "\"10ms\"", Ok(10_000_000));
        check(duration, "\"7d\"", Ok(7 * 86_400_000_000_000));
        check(duration, "10", Err("wanted a time such as \"10ms\" or \"7d\", found integer"));
        check(size, "\"64KiB\"", Ok(65_536));
        check(size, "1_000", Ok(1000));
        check(
            size,
            "\"1MB\"",
            Err("\"1MB\": wanted a size such as \"64KiB\", \"1MiB\" or a number of bytes"),
        );
    }

    #[test]
    fn nothing_and_less_are_refused() {
        check(count, "0", Err("0: a whole number from 1 on"));
        check(count, "-1", Err("-1: a whole number from 1 on"));
        assert!(duration(DeValue::parse("\"0s\"").expect("a value").get_ref()).is_err());
        assert!(share(DeValue::parse("\"0%\"").expect("a value").get_ref()).is_err());
        assert!(share(DeValue::parse("\"nan%\"").expect("a value").get_ref()).is_err());
    }

    #[test]
    fn a_part_of_the_machine_is_a_percentage() {
        check(share, "\"0.5%\"", Ok(0.005));
        check(share, "0.5", Err("wanted a part of the machine such as \"0.5%\", found float"));
    }

    #[test]
    fn people_are_users_and_groups() {
        let want = vec![Who::User(0), Who::Group(0), Who::User(1234), Who::Everybody];
        check(people, "[\"root\", \"@root\", 1234, \"*\"]", Ok(want));
        check(
            people,
            "[\"no-such-user-here\"]",
            Err("there is no user \"no-such-user-here\" here"),
        );
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        for bytes in [1, 1000, 1024, 1 << 20, 3 << 30] {
            check(size, &written_size(bytes), Ok(bytes));
        }
        for ns in [1, 10_000_000, 90_000_000_000] {
            check(duration, &written_duration(ns), Ok(ns));
        }
    }
}
