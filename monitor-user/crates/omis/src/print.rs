//! Prints requests and replies in canonical form: equal data gives identical bytes.
//!
//! No commas around the node list, no spaces inside brackets, decimal integers, the shortest
//! floats that parse to the same number, strings in ASCII.
//! For a strict session, extensions are replaced by their closest OMIS 1.0 form.

use super::{Answer, Basic, Dialect, Expr, Node, NodeRef, Reply, Request, Stage, Value, Var};
use std::fmt::{Display, Formatter, Result, Write as _};

/// Returns the line of a reply, without a line break.
pub fn reply(reply: &Reply, dialect: Dialect) -> String {
    let mut printer = Printer { out: String::new(), dialect };
    printer.reply(reply);
    printer.out
}

/// Returns the line of a request, without a line break.
pub fn request(request: &Request) -> String {
    let mut printer = Printer { out: String::new(), dialect: Dialect::Extended };
    printer.request(request);
    printer.out
}

struct Printer {
    out: String,
    dialect: Dialect,
}

impl Printer {
    fn request(&mut self, request: &Request) {
        if let Some(event) = &request.event {
            self.basic(event);
            self.out.push_str(": ");
        }
        self.separated("; ", &request.stages, Self::stage);
    }

    fn stage(&mut self, stage: &Stage) {
        self.separated(", ", &stage.0, Self::basic);
    }

    fn basic(&mut self, basic: &Basic) {
        if let Some(id) = basic.id {
            self.put(id.0);
            self.out.push(' ');
        }
        if let Some(nodes) = &basic.nodes {
            self.out.push('[');
            self.separated(",", nodes, Self::node_ref);
            self.out.push_str("] ");
        }
        self.out.push_str(basic.service.as_str());
        self.out.push('(');
        self.separated(",", &basic.args, |printer, arg| printer.expr(&arg.expr));
        self.out.push(')');
    }

    fn reply(&mut self, reply: &Reply) {
        self.separated("; ", &reply.0, Self::answer);
    }

    fn answer(&mut self, answer: &Answer) {
        self.put(answer.id.0);
        self.out.push_str(" [");
        self.separated(",", &answer.nodes, |printer, Node(node)| printer.put(node));
        self.out.push_str("] ");
        self.out.push_str(answer.service.as_str());
        self.out.push('(');
        self.put(answer.status.0);
        for result in &answer.results {
            self.out.push(',');
            self.value(result);
        }
        self.out.push(')');
    }

    fn node_ref(&mut self, node: &NodeRef) {
        match node {
            NodeRef::Number(Node(node)) => self.put(node),
            NodeRef::Var(var, _) => self.var(var),
        }
    }

    fn var(&mut self, var: &Var) {
        self.out.push('$');
        match var {
            Var::Position(number) => self.put(number),
            Var::Named(name) => self.out.push_str(name.as_str()),
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Value(value) => self.value(value),
            Expr::Var(var) => self.var(var),
            Expr::List(items) => self.list(items, Self::expr),
        }
    }

    fn value(&mut self, value: &Value) {
        let is_strict = self.dialect == Dialect::Strict;
        match value {
            Value::Integer(number) => self.put(number),
            Value::Float(number) if is_strict && !number.0.is_finite() => {
                self.string(number.to_string().as_bytes());
            }
            Value::Float(number) => self.put(number),
            Value::Text(text) => self.string(text.as_bytes()),
            Value::Binary(bytes) if is_strict => {
                self.list(bytes.as_bytes(), |printer, byte| printer.put(byte));
            }
            Value::Binary(bytes) => self.binary(bytes.as_bytes()),
            // In OMIS 1.0 an object is named by its bare number, which is the serial number.
            Value::Token(token) if is_strict => self.put(token.serial),
            Value::Token(token) => self.put(token),
            Value::List(items) => self.list(items, Self::value),
        }
    }

    fn list<T>(&mut self, items: &[T], item: impl FnMut(&mut Self, &T)) {
        self.out.push('[');
        self.separated(",", items, item);
        self.out.push(']');
    }

    fn binary(&mut self, bytes: &[u8]) {
        let _ = write!(self.out, "#{}:", bytes.len());
        for byte in bytes {
            let _ = write!(self.out, "{byte:02x}");
        }
    }

    /// Bytes outside printable ASCII are written as three octal digits, since a digit may follow.
    fn string(&mut self, bytes: &[u8]) {
        self.out.push('"');
        for byte in bytes {
            match byte {
                b'"' => self.out.push_str("\\\""),
                b'\\' => self.out.push_str("\\\\"),
                b'\n' => self.out.push_str("\\n"),
                b'\t' => self.out.push_str("\\t"),
                b'\r' => self.out.push_str("\\r"),
                b' '..=b'~' => self.out.push(char::from(*byte)),
                _ => {
                    let _ = write!(self.out, "\\{byte:03o}");
                }
            }
        }
        self.out.push('"');
    }

    fn separated<T>(&mut self, separator: &str, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        for (index, value) in items.iter().enumerate() {
            if index > 0 {
                self.out.push_str(separator);
            }
            item(self, value);
        }
    }

    /// Appends a value. Writing to a `String` cannot fail.
    fn put(&mut self, value: impl Display) {
        let _ = write!(self.out, "{value}");
    }
}

macro_rules! display {
    ($($kind:ty, $print:ident;)*) => {
        $(impl Display for $kind {
            fn fmt(&self, f: &mut Formatter<'_>) -> Result {
                let mut printer = Printer { out: String::new(), dialect: Dialect::Extended };
                printer.$print(self);
                f.write_str(&printer.out)
            }
        })*
    };
}

display! {
    Request, request;
    Basic, basic;
    Reply, reply;
    Answer, answer;
    Value, value;
    Expr, expr;
    Var, var;
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[track_caller]
    fn check_strict(line: &str, want: &str) {
        assert_eq!(reply(&parse::reply(line.as_bytes()).unwrap(), Dialect::Strict), want);
    }

    #[test]
    fn a_strict_session_gets_no_extensions() {
        check_strict("1 [0] f(0,nan,-inf,1.0)", r#"1 [0] f(0,"nan","-inf",1.0)"#);
        check_strict("1 [0] f(0,#3:0001ff)", "1 [0] f(0,[0,1,255])");
        check_strict("1 [0] f(0,[n_3,p_3_7])", "1 [0] f(0,[3,7])");
    }

    #[test]
    fn a_string_is_printed_in_ascii() {
        let text = Value::Text(b"a\"\\\n\t\r\x01\x7f\xff7~".to_vec().into());
        assert_eq!(text.to_string(), r#""a\"\\\n\t\r\001\177\3777~""#);
    }
}
