//! One line for each bar.

/// What a value must be.
#[derive(Clone, Copy)]
pub enum Bar {
    /// At most this.
    AtMost(f64),
    /// Only printed.
    None,
}

/// Prints what was measured, the bar, and whether it holds.
pub fn line(what: &str, value: f64, unit: &str, bar: Bar) {
    let verdict = match bar {
        Bar::AtMost(bar) if value <= bar => format!("<= {bar}  ok"),
        Bar::AtMost(bar) => format!("<= {bar}  MISSED"),
        Bar::None => String::new(),
    };
    println!("  {what:<58} {value:>9.3} {unit:<6} {verdict}");
}
