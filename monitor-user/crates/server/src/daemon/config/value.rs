//! Values of the configuration: `"10ms"`, `"1MiB"`, `"0.5%"`, `["@staff"]`.
//!
//! In: a value of the file. Out: a number or a list, or what was expected. Names of users and
//! groups are looked up here, so that an unknown one is reported with its line.

use crate::files::{ChildAddress, NodeAddress, check_name, parse_children, parse_nodes};
use crate::{http::push, policy::Grantee};
use monitor_sys::users;
use std::path::{Path, PathBuf};
use std::{net::SocketAddr, time::Duration};
use toml::de::DeValue;

/// Units of sizes, and their bytes.
const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1)];

/// Parses a text.
pub fn text<'a>(value: &'a DeValue<'_>) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| expected("a text in quotes", value))
}

/// Parses `true` or `false`.
pub fn boolean(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| expected("true or false", value))
}

/// Parses a list of texts.
pub fn texts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    const WANT: &str = "a list such as [\"a\", \"b\"]";
    let list = value.as_array().ok_or_else(|| expected(WANT, value))?;
    list.iter().map(|it| text(it.get_ref()).map(str::to_owned)).collect()
}

/// Writes a list of texts as TOML.
pub fn texts_to_toml<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    format!("{:?}", texts.collect::<Vec<_>>())
}

/// Parses a path; `None` if the text is empty.
pub fn path(value: &DeValue<'_>) -> Result<Option<PathBuf>, String> {
    let text = text(value)?;
    Ok((!text.is_empty()).then(|| text.into()))
}

/// Parses an address with a port; `None` if the text is empty.
pub fn address(value: &DeValue<'_>) -> Result<Option<SocketAddr>, String> {
    let text = text(value)?;
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = |_| format!("{text:?}: an address and a port, such as \"127.0.0.1:9464\"");
    text.parse().map(Some).map_err(wrong)
}

/// Writes an address as TOML.
pub fn address_to_toml(address: Option<SocketAddr>) -> String {
    let text = address.map(|it| it.to_string());
    format!("{:?}", text.unwrap_or_default())
}

/// Parses the URL of a collector; `None` if the text is empty.
pub fn endpoint(value: &DeValue<'_>) -> Result<Option<String>, String> {
    let text = text(value)?;
    if text.is_empty() {
        return Ok(None);
    }
    push::check_endpoint(text).map(|()| Some(text.to_owned()))
}

/// Parses a list of other nodes: `"NAME=ADDRESS"` each.
pub fn nodes(value: &DeValue<'_>) -> Result<Vec<NodeAddress>, String> {
    const WANT: &str = "a list such as [\"n1=/run/n1.9p\"]";
    let nodes = texts(value).map_err(|_| expected(WANT, value))?;
    parse_nodes(nodes.iter().map(String::as_str))
}

/// Writes a list of other nodes as TOML.
pub fn nodes_to_toml(nodes: &[NodeAddress]) -> String {
    let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
    texts_to_toml(nodes.iter().map(String::as_str))
}

/// Parses a list of children of an aggregator: `"NAME=ADDRESS"` each, with ` node` or ` agg`.
pub fn children(value: &DeValue<'_>) -> Result<Vec<ChildAddress>, String> {
    const WANT: &str = "a list such as [\"n1=/run/n1.9p\"]";
    let children = texts(value).map_err(|_| expected(WANT, value))?;
    parse_children(children.iter().map(String::as_str))
}

/// Writes a list of children as TOML.
pub fn children_to_toml(children: &[ChildAddress]) -> String {
    let children: Vec<_> = children.iter().map(ToString::to_string).collect();
    texts_to_toml(children.iter().map(String::as_str))
}

/// Parses the name of a node; empty for that of the host.
pub fn node_name(value: &DeValue<'_>) -> Result<String, String> {
    let name = text(value)?;
    if !name.is_empty() {
        check_name(name)?;
    }
    Ok(name.to_owned())
}

/// Writes a path as TOML.
pub fn path_to_toml(path: Option<&Path>) -> String {
    format!("{:?}", path.unwrap_or(Path::new("")))
}

/// Parses a duration, in nanoseconds.
pub fn duration(value: &DeValue<'_>) -> Result<u64, String> {
    const WANT: &str = "a time such as \"10ms\" or \"7d\"";
    let text = value.as_str().ok_or_else(|| expected(WANT, value))?;
    let wrong = |_| format!("{text:?}: expected {WANT}; units are ns, us, ms, s, m, h and d");
    let time = humantime::parse_duration(text).map_err(wrong)?;
    match u64::try_from(time.as_nanos()) {
        Ok(ns @ 1..) => Ok(ns),
        _ => Err(format!("{text:?}: expected a time longer than 0 and shorter than 580 years")),
    }
}

/// Parses a count, at least 1.
pub fn count(value: &DeValue<'_>) -> Result<usize, String> {
    const WANT: &str = "a whole number of at least 1";
    let number = integer(value).ok_or_else(|| expected(WANT, value))?;
    usize::try_from(number)
        .ok()
        .filter(|&n| n > 0)
        .ok_or_else(|| format!("{number}: expected {WANT}"))
}

/// Parses a size in bytes: `"64KiB"` or a number.
pub fn size(value: &DeValue<'_>) -> Result<usize, String> {
    const WANT: &str = "a size such as \"64KiB\", \"1MiB\" or a number of bytes";
    let Some(text) = value.as_str() else {
        return count(value).map_err(|_| expected(WANT, value));
    };
    let bytes = || {
        let (unit, scale) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
        let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        usize::try_from(number.checked_mul(*scale)?).ok().filter(|&n| n > 0)
    };
    bytes().ok_or_else(|| format!("{text:?}: expected {WANT}"))
}

/// Parses a share, such as `"0.5%"`.
pub fn share(value: &DeValue<'_>) -> Result<f64, String> {
    const WANT: &str = "a share of the machine such as \"0.5%\"";
    let text = value.as_str().ok_or_else(|| expected(WANT, value))?;
    let number = text.strip_suffix('%').and_then(|it| it.trim().parse::<f64>().ok());
    let within = number.filter(|it| *it > 0.0 && *it <= 100.0);
    within.map(|it| it / 100.0).ok_or_else(|| format!("{text:?}: expected {WANT}, up to \"100%\""))
}

/// Parses users, and groups with a leading `@`, by name or number; `"*"` is all users.
pub fn users(value: &DeValue<'_>) -> Result<Vec<Grantee>, String> {
    const WANT: &str = "a list such as [\"alice\", \"@staff\", 1000]";
    let list = value.as_array().ok_or_else(|| expected(WANT, value))?;
    list.iter().map(|it| user(it.get_ref(), WANT)).collect()
}

fn user(value: &DeValue<'_>, want: &str) -> Result<Grantee, String> {
    if let Some(number) = integer(value) {
        let uid = u32::try_from(number).map_err(|_| format!("{number} is not a user id"))?;
        return Ok(Grantee::User(uid));
    }
    let name = value.as_str().ok_or_else(|| expected(want, value))?;
    match name.strip_prefix('@') {
        _ if name == "*" => Ok(Grantee::AllUsers),
        Some(group) => users::gid(group).map(Grantee::Group),
        None => users::uid(name).map(Grantee::User),
    }
}

/// Writes users and groups as a TOML list.
pub fn users_to_toml(grantees: &[Grantee]) -> String {
    let all: Vec<_> = grantees.iter().map(|grantee| format!("\"{grantee}\"")).collect();
    format!("[{}]", all.join(", "))
}

/// Writes a duration as TOML.
pub fn duration_to_toml(ns: u64) -> String {
    format!("\"{}\"", humantime::format_duration(Duration::from_nanos(ns)))
}

/// Writes a size as TOML, in the largest unit that is exact.
pub fn size_to_toml(bytes: usize) -> String {
    let bytes = bytes as u64;
    let fits = |&&(_, scale): &&(&str, u64)| bytes.is_multiple_of(scale) && bytes >= scale;
    let unit = UNITS[..3].iter().rev().find(fits).unwrap_or(&UNITS[3]);
    format!("\"{}{}\"", bytes / unit.1, unit.0)
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// Says what was expected, and what was found.
pub fn expected(want: &str, value: &DeValue<'_>) -> String {
    format!("expected {want}, found {}", value.type_str())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Compares what a text is read as.
    #[track_caller]
    pub fn check<T: PartialEq + std::fmt::Debug>(
        read: fn(&DeValue<'_>) -> Result<T, String>,
        text: &str,
        want: Result<T, &str>,
    ) {
        let value = DeValue::parse(text).expect("a value");
        assert_eq!(read(value.get_ref()), want.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn times_and_sizes_have_units() {
        check(duration, "\"10ms\"", Ok(10_000_000));
        check(duration, "\"7d\"", Ok(7 * 86_400_000_000_000));
        check(duration, "10", Err("expected a time such as \"10ms\" or \"7d\", found integer"));
        check(size, "\"64KiB\"", Ok(65_536));
        check(size, "1_000", Ok(1000));
        check(
            size,
            "\"1MB\"",
            Err("\"1MB\": expected a size such as \"64KiB\", \"1MiB\" or a number of bytes"),
        );
    }

    #[test]
    fn zero_and_negative_values_are_refused() {
        check(count, "0", Err("0: expected a whole number of at least 1"));
        check(count, "-1", Err("-1: expected a whole number of at least 1"));
        assert!(duration(DeValue::parse("\"0s\"").expect("a value").get_ref()).is_err());
        assert!(share(DeValue::parse("\"0%\"").expect("a value").get_ref()).is_err());
        assert!(share(DeValue::parse("\"nan%\"").expect("a value").get_ref()).is_err());
    }

    #[test]
    fn a_share_of_the_machine_is_a_percentage() {
        check(share, "\"0.5%\"", Ok(0.005));
        check(share, "0.5", Err("expected a share of the machine such as \"0.5%\", found float"));
    }

    #[test]
    fn a_list_of_nodes_has_names_and_addresses() {
        let two = "[\"a=/run/a\", \"b=/run/b\"]";
        let value = DeValue::parse(two).expect("a value");
        assert_eq!(nodes(value.get_ref()).map(|it| nodes_to_toml(&it)), Ok(two.to_owned()));
        check(nodes, "[]", Ok(Vec::new()));
        let twice = Err("\"a\" is there twice");
        check(nodes, "[\"a=/run/a\", \"a=/run/b\"]", twice);
        check(nodes, "5", Err("expected a list such as [\"n1=/run/n1.9p\"], found integer"));
    }

    #[test]
    fn a_grant_names_users_and_groups() {
        let want =
            vec![Grantee::User(0), Grantee::Group(0), Grantee::User(1234), Grantee::AllUsers];
        check(users, "[\"root\", \"@root\", 1234, \"*\"]", Ok(want));
        check(users, "[\"no-such-user-here\"]", Err("no user \"no-such-user-here\" on this host"));
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        for bytes in [1, 1000, 1024, 1 << 20, 3 << 30] {
            check(size, &size_to_toml(bytes), Ok(bytes));
        }
        for ns in [1, 10_000_000, 90_000_000_000] {
            check(duration, &duration_to_toml(ns), Ok(ns));
        }
    }
}
