//! How single words are read: names out of a list, and times.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::time::Duration;

/// A parser of names that completions know too. The texts are the valid ones, so it cannot fail.
pub fn names<T>(valid: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: std::str::FromStr<Err = monitor_model::name::Unknown> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(valid).try_map(|name| name.parse::<T>())
}

/// A time between readings, with its unit.
pub fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(1);
    match humantime::parse_duration(text) {
        Ok(time) if time >= LEAST => Ok(time),
        Ok(_) => Err("the shortest is 1ms".into()),
        // A number alone lacks its unit, and is told so; anything else is no time at all.
        Err(error) if text.parse::<f64>().is_ok() => Err(error.to_string()),
        Err(_) => Err("write a time such as 100ms, 1s or 2m".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(interval("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(interval("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(interval("0s"), Err("the shortest is 1ms".into()));
        assert!(interval("1").is_err_and(|why| why.contains("unit")));
    }
}
