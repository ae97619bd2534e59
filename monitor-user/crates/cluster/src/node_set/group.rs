//! Groups in the text of a set: `@gpu`, `@rack:r[1-3]`, `@rack:*`.
//!
//! In: a text, and a lookup that knows the texts of groups. Out: the same text with the nodes of
//! each group in parentheses. `@*` remains, because only the service knows the members; in the text
//! of a group it is all nodes of that source, as in ClusterShell. Reads no file.

use super::expand::{ALL, ENDS, check_literal, end_of_pattern, has_wildcard, of_pattern};
use super::{NodeSetError, expand, fold};
use std::collections::BTreeSet;

/// Groups whose texts have groups, at most.
const MAX_DEPTH: usize = 16;

/// What knows groups.
pub trait GroupLookup {
    /// The text of a group of a source, or of the default one: a set, which may have groups. The
    /// group `*` is all nodes of the source.
    ///
    /// # Errors
    /// Why there is no such group.
    fn text(&self, source: Option<&str>, group: &str) -> Result<String, String>;
}

/// The text of a set in which each group other than `@*` is its nodes, in parentheses.
///
/// # Errors
/// A group is not known, is within itself, or its text is no set.
pub fn resolve_groups(text: &str, lookup: &impl GroupLookup) -> Result<String, NodeSetError> {
    Resolver { lookup }.resolve(text, Scope { source: None, depth: 0 })
}

/// Where a text is from.
#[derive(Clone, Copy)]
struct Scope<'s> {
    /// The source of the group that has the text.
    source: Option<&'s str>,
    /// Number of groups that it is in.
    depth: usize,
}

struct Resolver<'l, L> {
    lookup: &'l L,
}

impl<L: GroupLookup> Resolver<'_, L> {
    fn resolve(&self, text: &str, scope: Scope<'_>) -> Result<String, NodeSetError> {
        let (mut resolved, mut rest) = (String::new(), text);
        loop {
            let (pattern, after) = rest.split_at(end_of_pattern(rest, ENDS)?);
            let is_group = pattern.trim_start().starts_with('@');
            if is_group && (pattern.trim() != ALL || scope.depth > 0) {
                let nodes = self.nodes(pattern.trim(), scope)?;
                resolved += &format!("({})", fold(nodes.iter().map(String::as_str)));
            } else {
                resolved += pattern;
            }
            let Some(end) = after.chars().next() else { return Ok(resolved) };
            resolved.push(end);
            rest = &after[end.len_utf8()..];
        }
    }

    /// The nodes of all groups of a pattern, such as `@rack:r[1-3]`.
    fn nodes(&self, pattern: &str, scope: Scope<'_>) -> Result<BTreeSet<String>, NodeSetError> {
        let failed = |why| NodeSetError::Lookup { group: pattern.to_owned(), why };
        if scope.depth == MAX_DEPTH {
            return Err(failed(format!("it is in itself, or in more than {MAX_DEPTH} groups")));
        }
        let written = pattern.strip_prefix('@').unwrap_or(pattern);
        if written.is_empty() {
            return Err(failed("a name follows @, such as @gpu or @rack:r1".to_owned()));
        }
        let mut nodes = BTreeSet::new();
        for name in of_pattern(written, check_group_literal)? {
            let (source, group) = match name.split_once(':') {
                Some((source, group)) => (Some(source).filter(|it| !it.is_empty()), group),
                None => (scope.source, name.as_str()),
            };
            let text = self.lookup.text(source, group).map_err(failed)?;
            if !text.trim().is_empty() {
                let scope = Scope { source, depth: scope.depth + 1 };
                // Wildcards match all nodes of the source.
                let all = match has_wildcard(&text.replace(ALL, "")) {
                    true => self.nodes(ALL, scope)?,
                    false => BTreeSet::new(),
                };
                nodes.extend(expand(&self.resolve(&text, scope)?, &all)?);
            }
        }
        Ok(nodes)
    }
}

/// A group has the letters of a node, or is `*`.
fn check_group_literal(pattern: &str, literal: &str) -> Result<(), NodeSetError> {
    let is_all = pattern == "*" || pattern.ends_with(":*");
    let literal = if is_all { literal.strip_suffix('*').unwrap_or(literal) } else { literal };
    check_literal(pattern, literal)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl GroupLookup for Fixed {
        fn text(&self, source: Option<&str>, group: &str) -> Result<String, String> {
            let text = match (source, group) {
                (None, "gpu") => "n[1-3],m7",
                (None, "gpu1") => "n[1-9]!@gpu",
                (None, "none") => "",
                (None, "loop") => "n1,@loop",
                (None, "wrong") => "n[1",
                (Some("rack"), "first") => "?1,m*",
                (Some("endless"), "a" | "*") => "n*",
                (Some("rack"), "r1") => "n1",
                (Some("rack"), "r2") => "@r1,n2",
                (Some("rack"), "*") => "n[1-2]",
                (Some("rack"), "most") => "@*!@r1",
                _ => return Err("is not known".to_owned()),
            };
            Ok(text.to_owned())
        }
    }

    #[track_caller]
    fn check(text: &str, want: &str) {
        let resolved = resolve_groups(text, &Fixed).map_err(|error| error.to_string());
        assert_eq!(resolved.unwrap_or_else(|error| error), want, "{text}");
    }

    #[test]
    fn each_group_is_its_nodes() {
        check("n[1-2],m", "n[1-2],m");
        check("@gpu", "(m7,n[1-3])");
        check("@gpu1", "(n[4-9])");
        check("n[1-2] & @gpu ! n1", "n[1-2] &(m7,n[1-3])! n1");
        check("@rack:r[1-2]^@none", "(n[1-2])^()");
        check("@rack:*,@rack:most", "(n[1-2]),(n2)");
        check("@*!@gpu", "@*!(m7,n[1-3])");
        check("(@gpu,n9)&n1", "((m7,n[1-3]),n9)&n1");
        // The service knows the nodes that wildcards match; those of a group are of its source.
        check("n*!@gpu", "n*!(m7,n[1-3])");
        check("@rack:first", "(n1)");
    }

    #[test]
    fn a_group_that_is_none_is_named() {
        check("@gpv", "group \"@gpv\": is not known");
        check("@", "group \"@\": a name follows @, such as @gpu or @rack:r1");
        check("@endless:a", "group \"@*\": it is in itself, or in more than 16 groups");
        check("@loop", "group \"@loop\": it is in itself, or in more than 16 groups");
        check("@wrong", "\"n[1\": a bracket is not closed, or closes none");
        check("@g;u", "\"g;u\": ';' is in no name of a node");
        check("@g*", "\"g*\": '*' is in no name of a node");
    }
}
