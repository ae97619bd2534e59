//! A PMIx sample as text: one line per key, indented below its container.
//!
//! In: the JSON of a sample, and its notes. Out: text, or `None` if it is no PMIx sample.

use super::{Viewport, grid, human, notes};
use serde_json::Value;
use std::fmt::Write;

/// Spaces per container level.
const INDENT: usize = 2;

/// Formats a sample, with its notes below.
pub fn text(json: &str, notes: &[String], room: Viewport) -> Option<String> {
    // The JSON format of the monitor is an object and may be long: do not parse it.
    let array = json.strip_prefix('[').map(|_| serde_json::from_str(json));
    let Some(Ok(Value::Array(all))) = array else { return None };
    let mut out = String::new();
    pairs(&all, 0, room, &mut out);
    out.push_str(&notes::note_paragraphs(notes, room.columns));
    Some(out)
}

fn pairs(all: &[Value], depth: usize, room: Viewport, out: &mut String) {
    for (key, value) in all.iter().filter_map(Value::as_object).flatten() {
        let mut line = " ".repeat(depth * INDENT);
        human::escaped(key, &mut line);
        let inside = value.as_array();
        if inside.is_none() {
            line.push(' ');
            human::escaped(&shown(value), &mut line);
        }
        grid::cut(&line, room.columns, out);
        out.push('\n');
        pairs(inside.map(Vec::as_slice).unwrap_or_default(), depth + 1, room, out);
    }
}

/// Formats a value: text without quotes, members of an object side by side.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let mut out = String::new();
            for (key, value) in members {
                let space = if out.is_empty() { "" } else { " " };
                // Writing to a `String` cannot fail.
                let _ = write!(out, "{space}{key}={}", shown(value));
            }
            out
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Viewport = Viewport { columns: 40, lines: None };

    #[test]
    fn a_key_is_below_its_container() {
        let json = r#"[{"pmix.proc.res":[{"pmix.procid":{"nspace":"job","rank":3}},
            {"pmix.cmd.line":"a \u001b[2J, and so on until it is too long"}]},
            {"pmix.node.res":[{"pmix.net.res":[{"pmix.net.rcb":7}]}]}]"#;
        let want = "pmix.proc.res\n  pmix.procid nspace=job rank=3\n\
                    \x20 pmix.cmd.line a \\u{1b}[2J, and so on …\n\
                    pmix.node.res\n  pmix.net.res\n    pmix.net.rcb 7\nnote: it is read\n";
        let notes = ["it is read".to_owned()];
        assert_eq!(text(json, &notes, ROOM).as_deref(), Some(want));
    }

    #[test]
    fn other_samples_are_refused() {
        assert_eq!(text(r#"{"processes":[]}"#, &[], ROOM), None);
    }
}
