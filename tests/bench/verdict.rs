//! Prints measured values with their limits.

/// The limit of a value.
#[derive(Clone, Copy)]
pub enum Bar {
    /// At most this.
    AtMost(f64),
    /// Neither less nor more than these.
    Between(f64, f64),
    /// No limit.
    None,
}

/// Prints a value, its limit, and whether it holds.
pub fn line(what: &str, value: f64, unit: &str, bar: Bar) {
    let verdict = match bar {
        Bar::AtMost(bar) if value <= bar => format!("<= {bar}  ok"),
        Bar::AtMost(bar) => format!("<= {bar}  MISSED"),
        Bar::Between(least, most) if (least..=most).contains(&value) => {
            format!("{least:.3} to {most}  ok")
        }
        Bar::Between(least, most) => format!("{least:.3} to {most}  MISSED"),
        Bar::None => String::new(),
    };
    println!("  {what:<58} {value:>9.3} {unit:<6} {verdict}");
}
