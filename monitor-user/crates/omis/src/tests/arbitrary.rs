//! Strategies of proptest that generate arbitrary requests and replies, for tests only.

use crate::{
    Answer, Arg, Basic, Binary, BytePos, Expr, Float, Int, Name, Node, NodeRef, Reply, Request,
    RequestId, Stage, Status, Text, Token, Value, Var, token::TokenKind,
};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection::vec, num::f64, option};

/// Generates a request; variables occur only in the actions of an event.
pub fn request() -> impl Strategy<Value = Request> {
    let at_once = vec(stage(value().prop_map(Expr::Value).boxed(), number().boxed()), 1..4)
        .prop_map(|stages| Request { event: None, stages });
    let event = basic(value().prop_map(Expr::Value).boxed(), number().boxed());
    let stages = vec(stage(expr().boxed(), node_ref().boxed()), 1..4);
    let later = (event, stages).prop_map(|(event, stages)| Request { event: Some(event), stages });
    prop_oneof![at_once, later]
}

/// Generates a reply.
pub fn reply() -> impl Strategy<Value = Reply> {
    vec(answer(), 1..4).prop_map(Reply)
}

fn answer() -> impl Strategy<Value = Answer> {
    let nodes = proptest::collection::btree_set(any::<u32>().prop_map(Node), 0..4);
    (id(), nodes, name(), any::<i32>(), vec(value(), 0..4)).prop_map(
        |(id, nodes, service, status, results)| {
            let nodes = nodes.into_iter().collect();
            Answer { id, nodes, service, status: Status(status), results }
        },
    )
}

type Any<T> = proptest::strategy::BoxedStrategy<T>;

fn stage(expr: Any<Expr>, node: Any<NodeRef>) -> impl Strategy<Value = Stage> {
    vec(basic(expr, node), 1..4).prop_map(Stage)
}

fn basic(expr: Any<Expr>, node: Any<NodeRef>) -> impl Strategy<Value = Basic> {
    let args = vec(expr.prop_map(Arg::from), 0..4);
    (option::of(id()), option::of(vec(node, 0..4)), name(), args).prop_map(
        |(id, nodes, service, args)| Basic { id, nodes, service, args, pos: BytePos::default() },
    )
}

fn expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![value().prop_map(Expr::Value), var().prop_map(Expr::Var)];
    leaf.prop_recursive(2, 12, 4, |inner| vec(inner, 0..4).prop_map(Expr::list))
}

fn value() -> impl Strategy<Value = Value> {
    let bytes = || vec(any::<u8>(), 0..12);
    let leaf = prop_oneof![
        int().prop_map(Value::Integer),
        f64::ANY.prop_map(|number| Value::Float(Float(number))),
        bytes().prop_map(|bytes| Value::Text(Text::from(bytes))),
        bytes().prop_map(|bytes| Value::Binary(Binary::from(bytes))),
        token().prop_map(Value::Token),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| vec(inner, 0..5).prop_map(Value::List))
}

fn int() -> impl Strategy<Value = Int> {
    let edge = prop_oneof![Just(Int::MIN), Just(Int::MAX), Just(Int::from(0))];
    prop_oneof![
        any::<i64>().prop_map(Int::from),
        any::<u64>().prop_map(Int::from),
        any::<i8>().prop_map(Int::from),
        edge,
    ]
}

fn token() -> impl Strategy<Value = Token> {
    let of_node = any::<u32>().prop_map(|node| Token::for_node(Node(node)));
    let kind = prop_oneof![Just(TokenKind::Process), Just(TokenKind::Thread)];
    let other = (kind, option::of(any::<u32>().prop_map(Node)), any::<u64>())
        .prop_map(|(kind, node, serial)| Token { kind, node, serial });
    prop_oneof![of_node, other]
}

fn var() -> impl Strategy<Value = Var> {
    prop_oneof![any::<u32>().prop_map(Var::Position), name().prop_map(Var::Named)]
}

fn number() -> impl Strategy<Value = NodeRef> {
    any::<u32>().prop_map(|node| NodeRef::Number(Node(node)))
}

fn node_ref() -> impl Strategy<Value = NodeRef> {
    prop_oneof![number(), var().prop_map(|var| NodeRef::Var(var, BytePos::default()))]
}

fn id() -> impl Strategy<Value = RequestId> {
    int().prop_map(RequestId)
}

fn name() -> impl Strategy<Value = Name> {
    "[a-zA-Z_][a-zA-Z0-9_]{0,12}"
        .prop_map(|text| Name::new(&text).expect("the pattern yields identifiers"))
}
