//! The name of a place in the code, as stacks and profiles print it.

use super::CodePlace;
use std::sync::Arc;

/// The function, and its line if it was looked up; a place in a file without symbols is that of
/// the call. Places with one name are one place.
pub fn place_name(place: &CodePlace) -> Arc<str> {
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    match (&place.function, &place.file, &place.line) {
        (Some(function), _, Some(line)) => format!("{function} at {}", last(line)).into(),
        (Some(function), _, None) => (&**function).into(),
        (None, Some(file), _) => format!("{}+{:#x}", last(file), place.address).into(),
        (None, None, _) => format!("{:#x}", place.address).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(function: Option<&str>, file: Option<&str>, line: Option<&str>, want: &str) {
        let [function, file, line] = [function, file, line].map(|it| it.map(Into::into));
        assert_eq!(&*place_name(&CodePlace { function, file, address: 0x1f, line }), want);
    }

    #[test]
    fn a_place_has_the_best_name_that_is_known() {
        check(Some("f"), Some("/lib/a.so"), Some("/src/a.c:7"), "f at a.c:7");
        check(Some("f"), Some("/lib/a.so"), None, "f");
        check(None, Some("/lib/a.so"), None, "a.so+0x1f");
        check(None, None, None, "0x1f");
    }
}
