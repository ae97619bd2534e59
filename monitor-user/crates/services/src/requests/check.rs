//! The static check of a request: services exist, classes are in the right places, parameters and
//! variables fit.
//!
//! In: the registry and a request. Out: nothing, or the first fault with its position. Objects,
//! nodes and rights are checked on the nodes that execute the request.

use crate::{Class, Registry, ServiceSpec};
use monitor_omis::value::{COMMON_VARIABLES, Var};
use monitor_omis::{Basic, Fault, Request, Status, param_type};

/// Checks a request.
///
/// # Errors
/// The first fault.
pub fn check(registry: &Registry, request: &Request) -> Result<(), Fault> {
    let event = match &request.event {
        Some(event) => Some(event_spec(registry, event)?),
        None => None,
    };
    request.actions().try_for_each(|action| check_action(registry, action, event))
}

/// The specification of a service.
///
/// # Errors
/// A fault that suggests the most similar name.
pub fn spec(registry: &Registry, basic: &Basic) -> Result<&'static ServiceSpec, Fault> {
    registry.spec(basic.service.as_str()).ok_or_else(|| {
        let found = format!("`{}`", basic.service);
        let nearest = registry.nearest(basic.service.as_str()).unwrap_or("print");
        let expected = format!("a service such as `{nearest}`; see monitor services");
        basic.fault(Status::UNKNOWN_SERVICE, found, expected)
    })
}

fn event_spec(registry: &Registry, event: &Basic) -> Result<&'static ServiceSpec, Fault> {
    let row = spec(registry, event)?;
    if row.class() != Class::Event {
        let found = format!("`{}`, which is not an event", row.name);
        return Err(event.fault(Status::CLASS, found, "an event before the `:`".to_owned()));
    }
    check_params(row, event).map(|()| row)
}

fn check_action(
    registry: &Registry,
    action: &Basic,
    event: Option<&ServiceSpec>,
) -> Result<(), Fault> {
    let row = spec(registry, action)?;
    if row.class() == Class::Event {
        let found = format!("the event `{}`", row.name);
        let expected = "an action; an event comes once, before a `:`".to_owned();
        return Err(action.fault(Status::CLASS, found, expected));
    }
    check_params(row, action)?;
    let mut variables = action.variables();
    // A line without an event has none, but the body of a service that the tool has defined may.
    let unbound = variables.find(|(var, _)| event.is_none_or(|event| !binds(event, var)));
    unbound.map_or(Ok(()), |(var, pos)| {
        Err(Fault {
            status: Status::UNBOUND_VAR,
            at: pos.0,
            id: action.id,
            service: Some(action.service.clone()),
            found: format!("`{var}`"),
            expected: variables_of(event).into(),
        })
    })
}

fn check_params(row: &ServiceSpec, basic: &Basic) -> Result<(), Fault> {
    param_type::arrange(row.params, &basic.args).map(drop).map_err(|mismatch| mismatch.fault(basic))
}

/// Whether the event gives the variable a value.
fn binds(event: &ServiceSpec, var: &Var) -> bool {
    match var {
        Var::Position(number) => {
            let n_params = u32::try_from(event.results.len()).unwrap_or(u32::MAX);
            *number <= n_params || event.is_variadic()
        }
        Var::Named(name) => COMMON_VARIABLES.contains(&name.as_str()),
    }
}

fn variables_of(event: Option<&ServiceSpec>) -> String {
    let Some(event) = event else { return "a value; there is no event to take it from".to_owned() };
    let variables = (1..).zip(event.results).map(|(place, it)| format!("`${place}` {}", it.name));
    let variables: Vec<String> = ["`$0` node".to_owned()].into_iter().chain(variables).collect();
    format!("a variable of `{}`: {}", event.name, variables.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_omis::{Dialect, parse};

    #[track_caller]
    fn refused(line: &str, status: i32, at: i32, want: &str) {
        let request = parse::request(line.as_bytes(), Dialect::Extended).unwrap();
        let fault = check(&Registry::built_in(), &request).unwrap_err();
        assert_eq!((fault.status.0, fault.to_string().as_str()), (status, want));
        assert_eq!(usize::try_from(at), Ok(fault.at));
    }

    #[test]
    fn a_service_must_exist_and_be_in_the_place_of_its_class() {
        let want = "found `prnt`, expected a service such as `print`; see monitor services";
        refused("10 [0] prnt(1)", 102, 7, want);
        let want = "found `print`, which is not an event, expected an event before the `:`";
        refused("10 [0] print(1): 11 [0] print(1)", 106, 7, want);
        let want = "found the event `new_node`, expected an action; an event comes once, before a \
        `:`";
        refused("10 [0] new_node()", 106, 7, want);
    }

    #[test]
    fn parameters_and_variables_must_fit() {
        let want = "found no parameter, expected 1: (integer request_id)";
        refused("10 [0] enable()", 103, 7, want);
        let want = "found `$2`, expected a variable of `new_node`: `$0` node, `$1` node_number";
        refused("10 [0] new_node(): 11 [0] print([$2])", 107, 32, want);
    }
}
