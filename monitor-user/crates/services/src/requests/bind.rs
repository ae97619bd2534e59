//! What can be said of a request before it is sent anywhere: are its services there, does each
//! stand where its class belongs, do parameters and variables fit?
//!
//! In: the registry and a request. Out: nothing, or the first fault with its place. Objects, nodes
//! and rights are looked up where the request goes.

use crate::{Class, Registry, Row};
use monitor_omis::value::{ALWAYS, Var};
use monitor_omis::{Basic, Fault, Request, Status, kind};

/// Checks a request.
pub fn check(registry: &Registry, request: &Request) -> Result<(), Fault> {
    let event = match &request.event {
        Some(event) => Some(event_row(registry, event)?),
        None => None,
    };
    request.actions().try_for_each(|action| check_action(registry, action, event))
}

/// The row of a service.
pub fn row(registry: &Registry, basic: &Basic) -> Result<&'static Row, Fault> {
    registry.row(basic.service.as_str()).ok_or_else(|| {
        let found = format!("`{}`", basic.service);
        let nearest = registry.nearest(basic.service.as_str()).unwrap_or("print");
        let expected = format!("a service such as `{nearest}`; see monitor services");
        basic.fault(Status::UNKNOWN_SERVICE, found, expected)
    })
}

fn event_row(registry: &Registry, event: &Basic) -> Result<&'static Row, Fault> {
    let row = row(registry, event)?;
    if row.class() != Class::Event {
        let found = format!("`{}`, which is no event", row.name);
        return Err(event.fault(Status::CLASS, found, "an event before the `:`".to_owned()));
    }
    fits(row, event).map(|()| row)
}

fn check_action(registry: &Registry, action: &Basic, event: Option<&Row>) -> Result<(), Fault> {
    let row = row(registry, action)?;
    if row.class() == Class::Event {
        let found = format!("the event `{}`", row.name);
        let expected = "an action; an event stands before a `:`, and once".to_owned();
        return Err(action.fault(Status::CLASS, found, expected));
    }
    fits(row, action)?;
    let mut variables = action.variables();
    let unbound = variables.find(|(var, _)| event.is_some_and(|event| !tells(event, var)));
    unbound.map_or(Ok(()), |(var, spot)| {
        Err(Fault {
            status: Status::UNBOUND_VAR,
            at: spot.0,
            id: action.id,
            found: format!("`{var}`"),
            expected: told_by(event).into(),
        })
    })
}

fn fits(row: &Row, basic: &Basic) -> Result<(), Fault> {
    kind::arrange(row.takes, &basic.args).map(drop).map_err(|misfit| misfit.fault(basic))
}

/// Whether an occurrence gives a value to the variable.
fn tells(event: &Row, var: &Var) -> bool {
    match var {
        Var::Position(number) => {
            let n_told = u32::try_from(event.gives.len()).unwrap_or(u32::MAX);
            *number <= n_told || event.is_variadic()
        }
        Var::Named(name) => ALWAYS.contains(&name.as_str()),
    }
}

fn told_by(event: Option<&Row>) -> String {
    let Some(event) = event else { return "a value".to_owned() };
    let told = (1..).zip(event.gives).map(|(place, it)| format!("`${place}` {}", it.name));
    let told: Vec<String> = ["`$0` node".to_owned()].into_iter().chain(told).collect();
    format!("what `{}` tells: {}", event.name, told.join(", "))
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
    fn a_service_must_be_there_and_stand_where_it_belongs() {
        let want = "found `prnt`, expected a service such as `print`; see monitor services";
        refused("10 [0] prnt(1)", 102, 7, want);
        let want = "found `print`, which is no event, expected an event before the `:`";
        refused("10 [0] print(1): 11 [0] print(1)", 106, 7, want);
        let want = "found the event `new_node`, expected an action; an event stands before a `:`, \
                    and once";
        refused("10 [0] new_node()", 106, 7, want);
    }

    #[test]
    fn parameters_and_variables_must_fit() {
        let want = "found no parameter, expected 1: (integer request_id)";
        refused("10 [0] enable()", 103, 7, want);
        let want = "found `$2`, expected what `new_node` tells: `$0` node, `$1` node_number";
        refused("10 [0] new_node(): 11 [0] print([$2])", 107, 32, want);
    }
}
