//! What many nodes have written, equal texts once below the names of their nodes, as `clush -b`
//! prints it.
//!
//! In: nodes with what each has written. Out: groups of nodes, and the lines above the text of one.

use monitor_cluster::node_set::fold;
use monitor_format::human;

/// The line above and below the names of nodes.
const RULE: &str = "---------------";

/// A text with the nodes that have written it.
#[derive(Debug, PartialEq, Eq)]
pub struct NodeBlock<'a, T> {
    /// The text.
    pub text: T,
    /// The nodes, in the order in which they came.
    pub nodes: Vec<&'a str>,
}

/// The texts, in the order of the first node of each.
pub fn blocks<'a, T: PartialEq>(
    texts: impl IntoIterator<Item = (&'a str, T)>,
) -> Vec<NodeBlock<'a, T>> {
    let mut blocks: Vec<NodeBlock<'a, T>> = Vec::new();
    for (node, text) in texts {
        match blocks.iter_mut().find(|it| it.text == text) {
            Some(block) => block.nodes.push(node),
            None => blocks.push(NodeBlock { text, nodes: vec![node] }),
        }
    }
    blocks
}

impl<T> NodeBlock<'_, T> {
    /// The names of the nodes, folded.
    pub fn set(&self) -> String {
        fold(self.nodes.iter().copied())
    }

    /// The lines above the text: the nodes, and how many there are.
    pub fn heading(&self) -> String {
        let set = human::escaped_text(&self.set());
        let count = match self.nodes.len() {
            1 => String::new(),
            n_nodes => format!(" ({n_nodes})"),
        };
        format!("{RULE}\n{set}{count}\n{RULE}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_heading() {
        let found = blocks([("n1", "a"), ("n2", "b"), ("n3", "a")]);
        let texts: Vec<_> = found.iter().map(|it| (it.text, it.heading())).collect();
        let want = [
            ("a", format!("{RULE}\nn[1,3] (2)\n{RULE}\n")),
            ("b", format!("{RULE}\nn2\n{RULE}\n")),
        ];
        assert_eq!(texts, want);
    }
}
