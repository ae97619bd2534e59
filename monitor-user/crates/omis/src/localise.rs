//! A request without a node list goes where its objects are, to each node with its own part.
//!
//! In: the parameters, and who knows where an object is by now. Out: the parameters for each node.
//! The first parameter names the objects: `migrate_process(p_1_7,n_2)` goes to node 1.

use super::request::Node;
use super::token::Token;
use super::value::Value;
use std::collections::BTreeMap;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// To all nodes as it is: it names no object, which means all of them.
    Everywhere,
    /// To these nodes, each with the parameters for it.
    Parts {
        /// The parameters by node.
        parts: BTreeMap<Node, Vec<Value>>,
        /// Objects that are nowhere.
        lost: Vec<Token>,
    },
}

/// Finds out where a request goes. `home` knows where the object of a token is.
pub fn localise(args: &[Value], home: &dyn Fn(&Token) -> Option<Node>) -> Located {
    let Some((first, others)) = args.split_first() else { return Located::Everywhere };
    let Some(tokens) = tokens(first) else { return Located::Everywhere };
    let mut lists: BTreeMap<Node, Vec<Value>> = BTreeMap::new();
    let mut lost = Vec::new();
    for token in &tokens {
        match home(token) {
            Some(node) => lists.entry(node).or_default().push(Value::Token(*token)),
            None => lost.push(*token),
        }
    }
    let whole = |mut objects: Vec<Value>| {
        let own = if first.list().is_some() { Value::List(objects) } else { objects.remove(0) };
        [own].into_iter().chain(others.iter().cloned()).collect()
    };
    let parts = lists.into_iter().map(|(node, objects)| (node, whole(objects))).collect();
    Located::Parts { parts, lost }
}

/// The objects that a parameter names; none if it names something else.
fn tokens(value: &Value) -> Option<Vec<Token>> {
    let token = |value: &Value| match value {
        Value::Token(token) => Some(*token),
        _ => None,
    };
    match value {
        Value::List(items) if items.is_empty() => None,
        Value::List(items) => items.iter().map(token).collect(),
        _ => token(value).map(|token| vec![token]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::dialect::Dialect;
    use super::super::parse;
    use super::super::value::Expr;
    use super::*;

    /// The parts as text. Everything with the serial number 9 has moved to node 5.
    #[track_caller]
    fn check(line: &str, want: &str) {
        let request = parse::request(line.as_bytes(), Dialect::Extended).unwrap();
        let args = request.actions().next().unwrap().args.iter();
        let args: Vec<Value> = args
            .map(|arg| match &arg.expr {
                Expr::Value(value) => value.clone(),
                other => panic!("{other} is no value"),
            })
            .collect();
        let home = |token: &Token| {
            if token.serial == 9 { Some(Node(5)) } else { token.named_node() }
        };
        let got = match localise(&args, &home) {
            Located::Everywhere => "everywhere".to_owned(),
            Located::Parts { parts, lost } => {
                let list = |args: Vec<Value>| Value::List(args).to_string();
                let parts =
                    parts.into_iter().map(|(Node(node), args)| format!("{node}{}", list(args)));
                let lost = lost.iter().map(|token| format!("lost {token}"));
                Vec::from_iter(parts.chain(lost)).join(" ")
            }
        };
        assert_eq!(got, want);
    }

    #[test]
    fn each_node_gets_its_own_objects() {
        check("kill([p_1_7,p_2_3,p_1_8],15)", "1[[p_1_7,p_1_8],15] 2[[p_2_3],15]");
        check("node_info([n_4,n_3],1)", "3[[n_3],1] 4[[n_4],1]");
        check("goto(p_1_7,4096)", "1[p_1_7,4096]");
    }

    #[test]
    fn an_object_is_where_it_is_and_not_where_it_was() {
        check("stop([p_1_9,p_1_7])", "1[[p_1_7]] 5[[p_1_9]]");
        check("stop([p_3,p_1_7])", "1[[p_1_7]] lost p_3");
    }

    #[test]
    fn only_the_first_parameter_says_where() {
        check("migrate_process(p_1_7,n_2)", "1[p_1_7,n_2]");
    }

    #[test]
    fn no_object_is_every_object() {
        check("stop([])", "everywhere");
        check("number_of_nodes()", "everywhere");
        check("print(1,p_1_7)", "everywhere");
    }
}
