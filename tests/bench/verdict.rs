//! Prints measured values with their limits.

/// The limit of a value.
#[derive(Clone, Copy)]
pub enum Bar {
    /// At most this.
    AtMost(f64),
    /// No limit.
    None,
}

/// Prints a value, its limit, and whether it holds.
pub fn line(what: &str, value: f64, unit: &str, bar: Bar) {
    let verdict = match bar {
        Bar::AtMost(bar) if value <= bar => format!("<= {bar}  ok"),
        Bar::AtMost(bar) => format!("<= {bar}  MISSED"),
        Bar::None => String::new(),
    };
    println!("  {what:<58} {value:>9.3} {unit:<6} {verdict}");
}
