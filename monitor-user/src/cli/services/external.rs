//! Services that tools have registered at the daemon, beside the built-in ones.
//!
//! In: the socket of a daemon. Out: name, parameters and help of each; nothing without a daemon.

use monitor_client::tool::Tool;
use monitor_omis::{Value, parse};
use std::path::Path;

/// Requests name, parameters and help of each external service.
pub fn external_services(socket: Option<&Path>) -> Vec<[String; 3]> {
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

/// The services as text, one per line; empty if there are none.
pub fn overview(all: &[[String; 3]]) -> String {
    let line = |[name, takes, help]: &[String; 3]| format!("  {name}({takes})  {help}\n");
    let lines: String = all.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("External services\n{lines}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_external_services_nothing_is_printed() {
        assert_eq!(overview(&[]), "");
        let service = ["d_add", "integer a", "Adds."].map(str::to_owned);
        assert_eq!(overview(&[service]), "External services\n  d_add(integer a)  Adds.\n\n");
    }
}
