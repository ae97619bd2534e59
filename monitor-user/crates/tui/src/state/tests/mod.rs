//! The effects of keys, mouse and updates on the state.

pub mod fixture;

use super::*;
use crate::process_action::ActionKind;
use crossterm::event::KeyCode::{
    self, Backspace, Char, Down, End, Enter, Esc, Home, Tab as TabKey, Up,
};
use fixture::{Fixture, rules};

const SIZE: (u16, u16) = (80, 24);

#[track_caller]
fn names(fixture: &Fixture, want: &str) {
    assert_eq!(fixture.names(), want);
}

#[test]
fn the_busiest_processes_come_first_and_a_key_reverses_the_order() {
    let mut fixture = Fixture::after(2, SIZE);
    names(&fixture, "mpi_solver mpi_solver mpirun systemd sshd bash");
    assert_eq!(fixture.state.rows[0].source, RowSource::Process(4));
    let _ = fixture.types("r");
    names(&fixture, "bash sshd systemd mpirun mpi_solver mpi_solver");
}

#[test]
fn new_and_ended_processes_are_marked_for_one_reading() {
    let mut fixture = Fixture::after(3, SIZE);
    let marks = |fixture: &Fixture| {
        let rows = fixture.state.rows.iter().filter(|row| row.mark != RowMark::None);
        rows.map(|row| (row.source, row.mark)).collect::<Vec<_>>().len()
    };
    assert_eq!(marks(&fixture), 3, "make is new, true started and ended, sshd ended");
    let counts = row::counts(&fixture.state.update.rates);
    assert_eq!((counts.living, counts.came, counts.went), (6, 1, 2));
    fixture.read(1);
    assert_eq!(marks(&fixture), 0);
}

#[test]
fn the_cursor_stays_on_its_process() {
    let mut fixture = Fixture::after(2, SIZE);
    let _ = fixture.press(&[Down, Down]);
    assert_eq!(fixture.state.selected().map(|it| it.id.pid.0), Some(300));
    let _ = fixture.types("r");
    assert_eq!(fixture.state.selected().map(|it| it.id.pid.0), Some(300));
    let _ = fixture.press(&[End]);
    assert_eq!(fixture.state.cursor.index, 5);
    let _ = fixture.press(&[Home, Up]);
    assert_eq!(fixture.state.cursor.index, 0);
}

#[test]
fn the_cursor_keeps_its_index_when_its_process_ends() {
    let mut fixture = Fixture::after(3, SIZE);
    let index_of = |fixture: &Fixture| {
        let gone = |row: &ScreenRow| {
            matches!(row.source, RowSource::Process(at)
            if fixture.state.update.rates.sample.processes[at].id.pid.0 == 100)
        };
        fixture.state.rows.iter().position(gone)
    };
    let at = index_of(&fixture).expect("it has just ended");
    fixture.state.select(at);
    fixture.read(1);
    assert_eq!(index_of(&fixture), None);
    assert_eq!(fixture.state.cursor.index, at.min(fixture.state.rows.len() - 1));
    assert!(fixture.state.selected().is_some_and(|it| it.id.pid.0 != 100));
}

#[test]
fn a_low_screen_scrolls_with_the_cursor() {
    let mut fixture = Fixture::after(2, (80, 10));
    let page = usize::from(fixture.state.areas().expect("it fits").rows.height);
    assert!(page < fixture.state.rows.len());
    let _ = fixture.press(&[End]);
    assert_eq!(fixture.state.cursor.top, fixture.state.rows.len() - page);
    let _ = fixture.press(&[Home]);
    assert_eq!(fixture.state.cursor.top, 0);
}

#[test]
fn a_condition_applies_while_it_is_typed_and_esc_restores_the_previous_one() {
    let mut fixture = Fixture::after(2, SIZE);
    let _ = fixture.types("/cpu > 50");
    names(&fixture, "mpi_solver mpi_solver");
    let _ = fixture.types(" and x");
    names(&fixture, "");
    let _ = fixture.press(&[Esc]);
    names(&fixture, "mpi_solver mpi_solver mpirun systemd sshd bash");
}

#[test]
fn the_cursor_returns_to_its_place_when_a_condition_is_dropped() {
    let mut fixture = Fixture::after(2, (80, 10));
    let _ = fixture.press(&[End]);
    let before = fixture.state.cursor.clone();
    let leave: [&[KeyCode]; 3] = [&[Esc], &[Enter, Esc], &[Backspace; 12]];
    for keys in leave {
        let _ = fixture.types("/nothing has");
        names(&fixture, "");
        let _ = fixture.press(keys);
        let _ = fixture.press(if keys.len() > 2 { &[Enter] } else { &[] });
        assert_eq!(fixture.state.view.condition, None);
        assert_eq!(fixture.state.cursor, before, "{keys:?}");
    }
    // What was selected meanwhile stays selected.
    let _ = fixture.types("/solver");
    let _ = fixture.press(&[Enter, Down, Esc]);
    assert_eq!(fixture.state.selected().map(|it| it.id.pid.0), Some(302));
}

#[test]
fn an_invalid_condition_changes_nothing_and_cannot_be_confirmed() {
    let mut fixture = Fixture::after(2, SIZE);
    let _ = fixture.types("/comm ~ ssh");
    names(&fixture, "sshd");
    let _ = fixture.types(" or cpuu >");
    names(&fixture, "sshd");
    let _ = fixture.press(&[Enter]);
    let Panel::Prompt(prompt) = &fixture.state.panel else { panic!("expected a prompt") };
    assert_eq!(prompt.fault().map(|fault| fault.at), Some(14));
    let _ = fixture.press(&[Backspace; 10]);
    let _ = fixture.press(&[Enter]);
    assert_eq!(fixture.state.panel, Panel::None);
    let _ = fixture.press(&[Esc]);
    assert_eq!(fixture.state.view.condition, None);
}

#[test]
fn a_tree_lists_children_after_their_parents() {
    let mut fixture = Fixture::after(2, SIZE);
    let _ = fixture.types("t");
    names(&fixture, "systemd sshd bash mpirun mpi_solver mpi_solver");
    let depths: Vec<_> = fixture.state.rows.iter().map(|row| row.tree.depth).collect();
    assert_eq!(depths, [0, 1, 2, 3, 4, 4]);
    let _ = fixture.types("/mpirun");
    names(&fixture, "systemd sshd bash mpirun");
}

#[test]
fn groups_can_be_opened() {
    let mut fixture = Fixture::after(2, SIZE);
    let _ = fixture.types("guser");
    let _ = fixture.press(&[Enter]);
    fixture.read(2);
    names(&fixture, "hpc root");
    let _ = fixture.press(&[Enter]);
    assert_eq!(fixture.state.view.condition.as_ref().map(|it| &*it.text), Some("user = \"hpc\""));
    fixture.read(2);
    names(&fixture, "mpi_solver mpi_solver mpirun bash make");
}

#[test]
fn only_selected_columns_are_read() {
    let mut fixture = Fixture::after(1, SIZE);
    let before = fixture.state.view_query();
    assert!(!before.fields.contains(&ProcessField::Pss));
    let _ = fixture.types("cpss_bytes ");
    let _ = fixture.press(&[Esc]);
    assert!(fixture.state.columns().contains(&ProcessField::Pss));
    assert!(fixture.state.view_query().fields.contains(&ProcessField::Pss));
    assert_eq!(fixture.state.columns().last(), Some(&ProcessField::Comm));
    let _ = fixture.types("cpss_bytes ");
    assert!(!fixture.state.columns().contains(&ProcessField::Pss));
}

#[test]
fn an_action_needs_a_confirmation() {
    let mut fixture = Fixture::after(2, SIZE);
    let _ = fixture.press(&[Down]);
    assert_eq!(fixture.types("kterm"), None);
    assert_eq!(fixture.press(&[Enter]), None);
    let Panel::Confirm(act) = &fixture.state.panel else { panic!("expected a confirmation") };
    assert_eq!(act.question(), "send SIGTERM to process 302 (mpi_solver)");
    assert_eq!(fixture.press(&[Enter]), None, "Enter does not confirm");
    assert_eq!(fixture.state.message.as_deref(), Some("nothing was done"));
    let _ = fixture.types("x");
    let Some(Effect::Act(act)) = fixture.types("y") else { panic!("expected an action") };
    assert_eq!((act.id.pid.0, act.kind), (302, ActionKind::Signal(19)));
}

#[test]
fn a_nice_value_is_typed_and_confirmed() {
    let mut fixture = Fixture::after(2, SIZE);
    let _ = fixture.press(&[Down, Up]);
    let _ = fixture.types("n");
    let Panel::Prompt(prompt) = &fixture.state.panel else { panic!("expected a prompt") };
    assert_eq!(prompt.text, "5", "the current value");
    let _ = fixture.press(&[Backspace]);
    let _ = fixture.types("19");
    let _ = fixture.press(&[Enter]);
    let Some(Effect::Act(act)) = fixture.types("y") else { panic!("expected an action") };
    assert_eq!((act.id.pid.0, act.kind), (301, ActionKind::Nice(19)));
}

#[test]
fn a_rule_is_typed_shown_in_the_details_and_removed_from_a_list() {
    let mut fixture = Fixture::after(2, SIZE);
    let _ = fixture.press(&[Down]);
    assert_eq!(fixture.types("W"), None);
    assert!(
        fixture.state.message.as_deref().is_some_and(|it| it.starts_with("nothing is watched"))
    );
    let _ = fixture.types("wMPI_Send");
    let Some(Effect::Rule(RuleRequest::Start { id, event, .. })) = fixture.press(&[Enter]) else {
        panic!("expected a rule request")
    };
    assert_eq!((id.pid.0, event.as_str()), (302, "call MPI_Send"));
    assert_eq!(fixture.state.tab, Some(Tab::Rules));
    let _ = fixture.state.handle(ScreenInput::Feed(FeedEvent::Rules(rules())));
    let _ = fixture.types("Wsignal");
    assert_eq!(fixture.press(&[Enter]), Some(Effect::Rule(RuleRequest::Remove(2))));
}

#[test]
fn ended_processes_and_groups_have_no_actions() {
    let mut fixture = Fixture::after(3, SIZE);
    let gone = fixture.state.rows.iter().position(|row| row.mark == RowMark::Gone).expect("one");
    fixture.state.select(gone);
    let _ = fixture.types("k");
    assert_eq!(fixture.state.panel, Panel::None);
    assert_eq!(fixture.state.message.as_deref(), Some("this process has ended"));
    let _ = fixture.types("guser");
    let _ = fixture.press(&[Enter]);
    fixture.read(1);
    let _ = fixture.types("x");
    assert!(fixture.state.message.as_deref().is_some_and(|it| it.starts_with("a group")));
}

#[test]
fn a_frozen_screen_keeps_its_sample_and_reads_nothing() {
    let mut fixture = Fixture::after(2, SIZE);
    let at = fixture.state.update.rates.sample.at;
    let _ = fixture.types(" ");
    assert!(fixture.state.view_query().frozen);
    fixture.read(1);
    assert_eq!(fixture.state.update.rates.sample.at, at);
    let _ = fixture.types(" ");
    fixture.read(1);
    assert_ne!(fixture.state.update.rates.sample.at, at);
}

#[test]
fn details_follow_their_process_and_the_query_names_the_page() {
    let mut fixture = Fixture::after(2, SIZE);
    let _ = fixture.press(&[Down, Enter]);
    let focus = fixture.state.view_query().focus.map(|(id, tab)| (id.pid.0, tab));
    assert_eq!(focus, Some((302, Tab::Overview)));
    let _ = fixture.press(&[TabKey, TabKey, TabKey, TabKey]);
    assert_eq!(fixture.state.tab, Some(Tab::Threads));
    assert!(fixture.state.view_query().threads());
    let _ = fixture.press(&[TabKey]);
    assert_eq!(fixture.state.tab, Some(Tab::Rules));
    let _ = fixture.press(&[TabKey]);
    assert_eq!(fixture.state.tab, Some(Tab::Overview));
    let _ = fixture.press(&[Esc]);
    assert_eq!(fixture.state.view_query().focus, None);
}

#[test]
fn the_period_has_limits() {
    let mut fixture = Fixture::new(80, 24);
    let _ = fixture.types("----------");
    assert_eq!(fixture.state.view_query().every, PERIODS[1]);
    let _ = fixture.types("++++++++++++");
    assert_eq!(fixture.state.view_query().every, PERIODS[0]);
}

#[test]
fn too_small_a_terminal_recovers() {
    let mut fixture = Fixture::after(2, SIZE);
    let _ = fixture.state.handle(ScreenInput::Resize(Size { width: 20, height: 4 }));
    assert_eq!(fixture.state.areas(), None);
    let _ = fixture.press(&[Down, Char('s'), Esc]);
    let _ = fixture.state.handle(ScreenInput::Resize(Size { width: 80, height: 24 }));
    assert!(fixture.state.areas().is_some() && fixture.state.cursor.index == 1);
}

#[test]
fn a_click_selects_a_row_sorts_and_presses_keys() {
    let mut fixture = Fixture::after(2, SIZE);
    let areas = fixture.state.areas().expect("it fits");
    let _ = fixture.click(5, areas.rows.y + 2);
    assert_eq!(fixture.state.selected().map(|it| it.id.pid.0), Some(300));
    let _ = fixture.click(5, areas.rows.y + 2);
    assert_eq!(fixture.state.tab, Some(Tab::Overview));
    let _ = fixture.click(5, areas.titles.y);
    assert_eq!(fixture.state.view.order.field, ProcessField::Pid);
    let _ = fixture.click(1, areas.foot.y);
    assert_eq!(fixture.state.panel, Panel::Help(0));
    let _ = fixture.click(1, 1);
    assert_eq!(fixture.state.panel, Panel::None);
}

#[test]
fn a_plain_list_needs_only_the_first_rows() {
    let mut fixture = Fixture::after(1, SIZE);
    assert_eq!(fixture.state.view_query().top, Some(512));
    let _ = fixture.types("t");
    assert_eq!(fixture.state.view_query().top, None);
}
