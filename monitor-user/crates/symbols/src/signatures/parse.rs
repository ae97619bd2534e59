//! The text of a description to its items.
//!
//! In: a text. Out: its declarations, with unresolved names, or the line of the first error. Uses
//! winnow, like the request language.

use super::call::Direction;
use winnow::combinator::{
    alt, cut_err, delimited, eof, opt, preceded, repeat, separated, terminated,
};
use winnow::error::{ContextError, ErrMode, StrContext, StrContextValue};
use winnow::token::{literal, one_of, take_till, take_until, take_while};
use winnow::{ModalResult, Parser};

type ParseError = ErrMode<ContextError>;

/// Most steps to a member.
const MOST_STEPS: usize = 3;
/// Most bytes of a description.
const LONGEST: usize = 1 << 20;

/// One declaration of a description.
#[derive(Clone, Debug)]
pub enum Declaration {
    /// The library of the following functions: names of its files, and a name that only it defines.
    Library(Vec<String>, Option<String>),
    /// Another name of a type.
    Alias(TypeName, String),
    /// A type whose values have names.
    Names { name: String, base: Option<TypeName>, are_flags: bool, rows: Vec<ParsedValueName> },
    /// A structure: its members and where they are.
    Record(String, Vec<ParsedMember>),
    /// A function.
    Function(Prototype),
}

/// A member of a structure: the steps to it, and the number to subtract from its value.
#[derive(Clone, Debug)]
pub struct ParsedMember {
    pub kind: TypeName,
    pub name: String,
    pub offsets: Vec<u64>,
    pub less: Option<u64>,
}

/// A type by its words, and how many stars follow.
#[derive(Clone, Debug)]
pub struct TypeName {
    /// Such as `unsigned int`, without `const`, `struct` and `enum`.
    pub name: String,
    /// Pointers to it.
    pub stars: usize,
    /// Whether it is `const`.
    pub is_const: bool,
}

/// A name of a value.
#[derive(Clone, Debug)]
pub struct ParsedValueName {
    pub name: String,
    pub number: Result<u64, String>,
    pub mask: Option<u64>,
}

/// A prototype.
#[derive(Clone, Debug)]
pub struct Prototype {
    pub result: TypeName,
    pub name: String,
    pub parameters: Vec<ParsedParameter>,
    pub fails: Option<u64>,
}

/// A parameter of a prototype.
#[derive(Clone, Debug)]
pub struct ParsedParameter {
    pub way: Option<Direction>,
    pub kind: TypeName,
    pub name: Option<String>,
    /// The words between the brackets behind it.
    pub length: Option<String>,
}

/// The declarations of a text, in order.
pub fn items(text: &str) -> Result<Vec<Declaration>, String> {
    if text.len() > LONGEST {
        return Err(format!("at most {LONGEST} bytes are read"));
    }
    let all = preceded(space, terminated(repeat(0.., item), eof_or("a declaration")));
    let mut all = all;
    all.parse(text).map_err(|error| {
        let line = 1 + text[..error.offset()].matches('\n').count();
        let found: String = text[error.offset()..].chars().take_while(|it| *it != '\n').collect();
        let wanted = error.inner().to_string().replace('\n', ", ");
        format!("line {line}: found `{}`; {wanted}", found.trim())
    })
}

fn eof_or<'i>(expected: &'static str) -> impl Parser<&'i str, (), ParseError> {
    eof.void().context(wanted(expected))
}

fn wanted(what: &'static str) -> StrContext {
    StrContext::Expected(StrContextValue::Description(what))
}

fn item(input: &mut &str) -> ModalResult<Declaration> {
    alt((
        preceded(word("library"), cut_err(library)),
        preceded(word("typedef"), cut_err(alias)),
        preceded(word("enum"), names(false)),
        preceded(word("flags"), cut_err(names(true))),
        preceded(word("struct"), record),
        function.map(Declaration::Function),
    ))
    .parse_next(input)
}

fn library(input: &mut &str) -> ModalResult<Declaration> {
    let files = separated(1.., quoted, sign(',')).parse_next(input)?;
    let mark = opt(preceded(word("with"), cut_err(name))).parse_next(input)?;
    end(input)?;
    Ok(Declaration::Library(files, mark))
}

fn alias(input: &mut &str) -> ModalResult<Declaration> {
    let it = (kind, name).map(|(kind, name)| Declaration::Alias(kind, name)).parse_next(input)?;
    end(input)?;
    Ok(it)
}

fn names<'i>(are_flags: bool) -> impl Parser<&'i str, Declaration, ParseError> {
    move |input: &mut &'i str| {
        let name = name.parse_next(input)?;
        let base = opt(preceded(sign(':'), cut_err(kind))).parse_next(input)?;
        // Without a brace it is a function that returns the type.
        sign('{').parse_next(input)?;
        let rows = cut_err(terminated(separated(0.., row, sign(',')), opt(sign(','))))
            .parse_next(input)?;
        closed(input)?;
        Ok(Declaration::Names { name, base, are_flags, rows })
    }
}

fn row(input: &mut &str) -> ModalResult<ParsedValueName> {
    let name = name.parse_next(input)?;
    cut_err(sign('=')).parse_next(input)?;
    let address = preceded(sign('&'), name_of_symbol).map(Err);
    let number = alt((number.map(Ok), address)).context(wanted("a number or `&` and a name"));
    let number = cut_err(number).parse_next(input)?;
    let mask = opt(preceded(sign('&'), cut_err(self::number))).parse_next(input)?;
    Ok(ParsedValueName { name, number, mask })
}

fn record(input: &mut &str) -> ModalResult<Declaration> {
    let name = name.parse_next(input)?;
    sign('{').parse_next(input)?;
    let arrow = || (literal("->"), space);
    let steps = preceded(cut_err(sign('@')), separated(1..=MOST_STEPS, number, arrow()));
    let less = opt(preceded(sign('-'), cut_err(number)));
    let member = (kind, self::name, steps, less, cut_err(sign(';')));
    let member = member.map(|(kind, name, steps, less, ())| ParsedMember {
        kind,
        name,
        offsets: steps,
        less,
    });
    let members = repeat(0.., member).parse_next(input)?;
    closed(input)?;
    Ok(Declaration::Record(name, members))
}

fn function(input: &mut &str) -> ModalResult<Prototype> {
    let (result, name) = (kind, cut_err(name)).parse_next(input)?;
    cut_err(sign('(')).parse_next(input)?;
    let none = (word("void"), sign(')')).map(|_| Vec::new());
    let rest = opt(preceded(opt(sign(',')), (literal("..."), space)));
    let some = terminated(separated(0.., parameter, sign(',')), (rest, cut_err(sign(')'))));
    let parameters = alt((none, some)).parse_next(input)?;
    let fails = opt(preceded(word("fails"), cut_err(number))).parse_next(input)?;
    end(input)?;
    Ok(Prototype { result, name, parameters, fails })
}

fn parameter(input: &mut &str) -> ModalResult<ParsedParameter> {
    let way = alt((
        word("inout").value(Direction::InOut),
        word("in").value(Direction::In),
        word("out").value(Direction::Out),
    ));
    let way = opt(way).parse_next(input)?;
    let (kind, name) = (kind, opt(name)).parse_next(input)?;
    let inside = take_till(1.., [']', '\n']).map(str::to_owned);
    let length = opt(delimited('[', cut_err(inside), cut_err(sign(']')))).parse_next(input)?;
    Ok(ParsedParameter { way, kind, name, length })
}

fn kind(input: &mut &str) -> ModalResult<TypeName> {
    let (mut words, mut is_const) = (Vec::new(), false);
    loop {
        let mut qualifier =
            opt(alt((word("const"), word("struct"), word("enum"), word("volatile"))));
        if let Some(qualifier) = qualifier.parse_next(input)? {
            is_const |= qualifier == "const";
            continue;
        }
        let base = alt((
            alt((word("unsigned"), word("signed"), word("long"), word("short"), word("int"))),
            alt((word("char"), word("float"), word("double"), word("void"))),
        ));
        match opt(base).parse_next(input)? {
            Some(base) => words.push(base.to_owned()),
            // The name of a declared type can only come first; the name of the parameter follows.
            None if words.is_empty() => {
                words.push(name.context(wanted("a type")).parse_next(input)?)
            }
            None => break,
        }
        let is_named = !BASE.contains(&words[words.len() - 1].as_str());
        if is_named {
            break;
        }
    }
    let after = opt(word("const")).parse_next(input)?;
    let stars: Vec<()> = repeat(0.., (sign('*'), opt(word("const"))).void()).parse_next(input)?;
    Ok(TypeName {
        name: words.join(" "),
        stars: stars.len(),
        is_const: is_const || after.is_some(),
    })
}

/// Words that types of C are made of.
const BASE: &[&str] =
    &["unsigned", "signed", "long", "short", "int", "char", "float", "double", "void"];

fn end(input: &mut &str) -> ModalResult<()> {
    cut_err(sign(';')).parse_next(input)
}

fn closed(input: &mut &str) -> ModalResult<()> {
    cut_err(sign('}')).parse_next(input)?;
    end(input)
}

/// A whole word that is this one.
fn word<'i>(it: &'static str) -> impl Parser<&'i str, &'i str, ParseError> {
    terminated(identifier.verify(move |found: &str| found == it), space)
        .context(StrContext::Expected(StrContextValue::StringLiteral(it)))
}

fn name(input: &mut &str) -> ModalResult<String> {
    terminated(identifier, space).map(str::to_owned).context(wanted("a name")).parse_next(input)
}

/// A name as linkers know it.
fn name_of_symbol(input: &mut &str) -> ModalResult<String> {
    name.context(wanted("the name of a variable")).parse_next(input)
}

fn identifier<'i>(input: &mut &'i str) -> ModalResult<&'i str> {
    let letters = ('a'..='z', 'A'..='Z', '_');
    (one_of(letters), take_while(0.., ('a'..='z', 'A'..='Z', '_', '0'..='9')))
        .take()
        .parse_next(input)
}

fn quoted(input: &mut &str) -> ModalResult<String> {
    delimited('"', take_till(1.., ['"', '\n']), ('"', space))
        .map(|it: &str| it.to_owned())
        .context(wanted("the name of a file in quotes"))
        .parse_next(input)
}

/// A number of C: decimal, hexadecimal or octal, also below zero.
fn number(input: &mut &str) -> ModalResult<u64> {
    let digits = take_while(1.., |letter: char| letter.is_ascii_alphanumeric());
    (opt('-'), digits)
        .verify_map(|(minus, digits): (Option<char>, &str)| {
            let (digits, radix) = match digits.strip_prefix("0x") {
                Some(digits) => (digits, 16),
                None if digits.len() > 1 && digits.starts_with('0') => (digits, 8),
                None => (digits, 10),
            };
            let number = u64::from_str_radix(digits, radix).ok()?;
            Some(if minus.is_some() { number.wrapping_neg() } else { number })
        })
        .context(wanted("a number"))
        .parse_next(input)
        .and_then(|number| space(input).map(|()| number))
}

fn sign<'i>(it: char) -> impl Parser<&'i str, (), ParseError> {
    (it, space).void().context(StrContext::Expected(StrContextValue::CharLiteral(it)))
}

/// White space and comments.
fn space(input: &mut &str) -> ModalResult<()> {
    let comment = alt((
        (literal("//"), take_till(0.., '\n')).void(),
        (literal("/*"), cut_err(take_until(0.., "*/")), literal("*/")).void(),
    ));
    let white = take_while(1.., (' ', '\t'..='\r')).void();
    repeat(0.., alt((white, comment))).parse_next(input)
}
