//! Which notes of a shared reading concern a view: others may have requested more.
//!
//! In: a plan and a note. Out: whether the view shows it. Changes no note.

use crate::{expression::Expression, plan::Plan};
use monitor_model::{Category as _, Note, NoteAbout, ProcessField, Role};

/// Whether a note concerns what a plan requests.
pub fn concerns(plan: &Plan, note: &Note) -> bool {
    match note.about {
        NoteAbout::Anything => true,
        NoteAbout::Processes => plan.read_spec.processes,
        NoteAbout::Fields(fields) => {
            plan.read_spec.processes && fields.iter().any(|field| needs(plan, *field))
        }
        NoteAbout::Capabilities(all) => all.iter().any(|it| plan.capabilities.contains(it)),
    }
}

/// Whether a plan shows, compares or sorts by a field or a rate of it.
fn needs(plan: &Plan, field: ProcessField) -> bool {
    let is_of_field = |it: ProcessField| {
        it == field || matches!(it.field().role, Role::RateOf(of) if of == field.index())
    };
    let compared = plan.condition.iter().flat_map(Expression::fields);
    let sorted = plan.order.map(|it| it.field);
    plan.layout.processes.iter().copied().chain(compared).chain(sorted).any(is_of_field)
        || plan.read_spec.wants(field)
}
