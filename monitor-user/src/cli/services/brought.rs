//! Services that tools bring to the daemon at the moment, beside those that are built in.
//!
//! In: which daemon. Out: a line for each. Where no daemon is, nobody has brought anything.

use monitor_client::tool::Tool;
use monitor_omis::{Value, parse};
use std::path::Path;

/// Name, parameters and help of each.
pub fn brought(socket: Option<&Path>) -> Vec<[String; 3]> {
    let tool = socket.map_or_else(Tool::connect, Tool::connect_to);
    let reply = tool.ok().and_then(|it| it.request_block("1 [] extension_services()").ok());
    let reply = reply.and_then(|line| parse::reply(line.as_bytes()).ok());
    let answer = reply.and_then(|reply| reply.0.into_iter().next());
    let list = answer.and_then(|answer| answer.results.into_iter().next());
    let text = |value: &Value| value.text().map(|it| it.to_str_lossy().into_owned());
    let words: Vec<String> =
        list.iter().filter_map(Value::list).flatten().filter_map(text).collect();
    words.as_chunks::<3>().0.to_vec()
}

/// The same as people read it; nothing, if there is none.
pub fn overview(all: &[[String; 3]]) -> String {
    let line = |[name, takes, help]: &[String; 3]| format!("  {name}({takes})  {help}\n");
    let lines: String = all.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("Brought by tools\n{lines}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_brought_is_not_told() {
        assert_eq!(overview(&[]), "");
        let it = ["d_add", "integer a", "Adds."].map(str::to_owned);
        assert_eq!(overview(&[it]), "Brought by tools\n  d_add(integer a)  Adds.\n\n");
    }
}
