//! Names of events of PMIx.

use monitor_pmix::status::DEBUGGER_RELEASE;

/// Names of events.
const EVENTS: [(&str, i32); 4] = [
    ("debugger-release", DEBUGGER_RELEASE),
    ("job-end", -145),
    ("proc-terminated", -201),
    ("node-down", -231),
];

/// Parses the name or the number of an event.
///
/// # Errors
/// If it is none.
pub fn event_code(text: &str) -> Result<i32, String> {
    let named = EVENTS.iter().find(|(name, _)| *name == text).map(|(_, code)| *code);
    let names = || EVENTS.map(|(name, _)| name).join(", ");
    named.or_else(|| text.parse().ok()).ok_or_else(|| {
        format!("{text:?} is no event: write its number (pmix_status_t), or one of {}", names())
    })
}

#[cfg(test)]
mod tests {
    use super::event_code;

    #[test]
    fn an_event_has_a_name_or_a_number() {
        assert_eq!(event_code("debugger-release"), Ok(-3));
        assert_eq!(event_code("-3001"), Ok(-3001));
        assert!(event_code("release").unwrap_err().contains("debugger-release"));
    }
}
