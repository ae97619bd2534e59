//! Parsers of single arguments: a name out of a list, an interval. They check syntax only.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::time::Duration;

/// A parser of names that shell completions list too. It accepts exactly the `valid` names.
pub fn names<T>(valid: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: std::str::FromStr<Err = monitor_model::name::UnknownName> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(valid).try_map(|name| name.parse::<T>())
}

/// Parses an interval with its unit. Fails below 1 ms or without a unit.
pub fn interval(text: &str) -> Result<Duration, String> {
    const MIN: Duration = Duration::from_millis(1);
    match humantime::parse_duration(text) {
        Ok(time) if time >= MIN => Ok(time),
        Ok(_) => Err("the minimum is 1ms".into()),
        // A bare number lacks its unit, and humantime says so; anything else is no time.
        Err(error) if text.parse::<f64>().is_ok() => Err(error.to_string()),
        Err(_) => Err("expected a time such as 100ms, 1s or 2m".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_need_a_unit_and_at_least_1ms() {
        assert_eq!(interval("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(interval("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(interval("0s"), Err("the minimum is 1ms".into()));
        assert!(interval("1").is_err_and(|why| why.contains("unit")));
    }
}
