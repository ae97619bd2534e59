//! Routes a request without a node list to the nodes of its objects, to each node its own part.
//!
//! In: the parameters, and a function that returns the node of an object. Out: the parameters for
//! each node. Sends nothing.
//! The first parameter names the objects: `migrate_process(p_1_7,n_2)` is sent to node 1.

use super::{Node, Token, Value};
use std::collections::BTreeMap;

/// The nodes that a request is sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// All nodes, with the same parameters: the request names no object, which means all.
    AllNodes,
    /// Some nodes, each with its own parameters.
    Parts {
        /// The parameters by node.
        parts: BTreeMap<Node, Vec<Value>>,
        /// Objects whose node is unknown.
        lost: Vec<Token>,
    },
}

/// Returns the nodes for a request. `node_of` returns the current node of the object of a token.
pub fn route(args: &[Value], node_of: &dyn Fn(&Token) -> Option<Node>) -> Route {
    let Some((first, others)) = args.split_first() else { return Route::AllNodes };
    let Some(tokens) = tokens(first) else { return Route::AllNodes };
    let mut lists: BTreeMap<Node, Vec<Value>> = BTreeMap::new();
    let mut lost = Vec::new();
    for token in &tokens {
        match node_of(token) {
            Some(node) => lists.entry(node).or_default().push(Value::Token(*token)),
            None => lost.push(*token),
        }
    }
    let whole = |mut objects: Vec<Value>| {
        let own = if first.list().is_some() { Value::List(objects) } else { objects.remove(0) };
        [own].into_iter().chain(others.iter().cloned()).collect()
    };
    let parts = lists.into_iter().map(|(node, objects)| (node, whole(objects))).collect();
    Route::Parts { parts, lost }
}

/// Returns the objects that a parameter names; `None` if it has anything but tokens.
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

    /// Compares the parts as text. Objects with serial number 9 have moved to node 5.
    #[track_caller]
    fn check(line: &str, want: &str) {
        let request = parse::request(line.as_bytes(), Dialect::Extended).unwrap();
        let args = request.actions().next().unwrap().args.iter();
        let args: Vec<Value> = args
            .map(|arg| match &arg.expr {
                Expr::Value(value) => value.clone(),
                other => panic!("{other} is not a value"),
            })
            .collect();
        let node_of = |token: &Token| {
            if token.serial == 9 { Some(Node(5)) } else { token.named_node() }
        };
        let got = match route(&args, &node_of) {
            Route::AllNodes => "everywhere".to_owned(),
            Route::Parts { parts, lost } => {
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
    fn a_request_follows_an_object_that_has_moved() {
        check("stop([p_1_9,p_1_7])", "1[[p_1_7]] 5[[p_1_9]]");
        check("stop([p_3,p_1_7])", "1[[p_1_7]] lost p_3");
    }

    #[test]
    fn only_the_first_parameter_routes() {
        check("migrate_process(p_1_7,n_2)", "1[p_1_7,n_2]");
    }

    #[test]
    fn a_request_without_objects_goes_to_all_nodes() {
        check("stop([])", "everywhere");
        check("number_of_nodes()", "everywhere");
        check("print(1,p_1_7)", "everywhere");
    }
}
