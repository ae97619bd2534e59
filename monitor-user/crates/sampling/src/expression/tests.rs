//! Conditions as people write them, right and wrong.

use super::*;
use monitor_model::Category;
use proptest::prelude::*;

fn solver() -> Process {
    let mut it = Process::default();
    it.comm[..10].copy_from_slice(b"mpi_solver");
    it.row.set(ProcessField::Pid, 4242);
    it.row.set_float(ProcessField::CpuPercent, 45.5);
    it.row.set(ProcessField::Rss, 512 << 20);
    it.row.set(ProcessField::CpuTime, 90_000_000_000);
    it.row.set(ProcessField::State, u64::from(b'R'));
    it.row.set_signed(ProcessField::Nice, -5);
    it.text.user = Some("hpc".into());
    it
}

#[track_caller]
fn check(text: &str, want: bool) {
    let expression = parse(text).expect("it makes sense");
    assert_eq!(expression.admits(&solver()), want, "{expression:?}");
}

#[track_caller]
fn wrong(text: &str, at: usize, message: &str) {
    let fault = parse(text).expect_err("it makes no sense");
    assert_eq!((fault.at, fault.message.as_str()), (at, message));
}

#[test]
fn numbers_are_compared_in_the_units_of_the_screen() {
    for text in ["cpu > 10", "cpu_percent>=45.5%", "rss = 512M", "mem<1g", "time > 1m", "nice<0"] {
        check(text, true);
    }
    for text in ["cpu < 10", "rss != 512M", "time > 2h", "pid = 1"] {
        check(text, false);
    }
}

#[test]
fn texts_are_compared_whole_or_by_a_part() {
    for text in ["comm ~ MPI", "comm ~ 'm*ver'", "user = hpc", "state = R", "comm !~ ssh"] {
        check(text, true);
    }
    for text in ["comm = mpi", "user != hpc", "state ~ z"] {
        check(text, false);
    }
}

#[test]
fn a_user_without_a_name_is_a_number() {
    let mut process = Process::default();
    process.row.set(ProcessField::Uid, 1000);
    assert!(parse("user = 1000").expect("it makes sense").admits(&process));
}

#[test]
fn a_word_alone_is_looked_for_in_the_name() {
    check("solver", true);
    check("\"mpi_\" and not sshd", true);
    check("cpu", false);
}

#[test]
fn or_binds_less_than_and_and_brackets_bind_most() {
    check("cpu > 10 or cpu < 5 and sshd", true);
    check("(cpu > 10 or cpu < 5) and sshd", false);
    check("! sshd && (solver || rss > 1T)", true);
}

#[test]
fn what_is_absent_fits_no_comparison() {
    check("pss_bytes < 1T", false);
    check("not pss_bytes < 1T", true);
    check("cgroup ~ a", false);
}

#[test]
fn an_error_has_its_position() {
    wrong("cpu > 10 and cpuu > 1", 13, "unknown field \"cpuu\"; did you mean \"cpu\"?");
    wrong("cpu >", 5, "a value is missing after >");
    wrong("(cpu > 1", 8, "the bracket is not closed: `)` is missing");
    wrong("cpu > 1)", 7, "a bracket that was not opened");
    wrong("cpu > 1 sshd", 8, "`and` or `or` is missing before this");
    wrong("comm > x", 5, "a text is compared by = != ~ or !~");
    wrong("cpu ~ 1", 4, "a number is compared by = != < <= > or >=");
    wrong("rss > 1X", 6, "\"1X\": rss_bytes is compared with a size such as 512K or 1.5G");
    wrong("time > 5", 7, "\"5\": cpu_ns is compared with a time such as 20ms, 5s or 2h");
    wrong("comm ~ \"x", 7, "a quote without its end");
    wrong("", 0, "a condition is missing, such as cpu > 10 or a word of the name");
    wrong("a and", 5, "a condition is missing, such as cpu > 10 or a word of the name");
}

#[test]
fn it_lists_the_fields_that_must_be_read() {
    let fields = parse("cpu > 1 or user = x and word").expect("it makes sense").fields();
    let want =
        [ProcessField::CpuPercent, ProcessField::User, ProcessField::Comm, ProcessField::Cmdline];
    assert_eq!(fields, want);
}

#[test]
fn every_field_can_be_named() {
    for field in ProcessField::all() {
        let name = field.field().name;
        let values = ["1", "1s", "x", "yes"];
        let reads = |value: &&str| parse(&format!("{name} = {value}")).is_ok();
        assert!(values.iter().any(reads), "{name}");
    }
}

#[test]
fn brackets_in_each_other_have_an_end() {
    let deep = "(".repeat(400) + "a" + &")".repeat(400);
    assert!(parse(&deep).is_err_and(|it| it.at == 32));
    assert!(parse(&"not ".repeat(200)).is_err());
    assert!(parse(&"x".repeat(LONGEST + 1)).is_err());
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_within_it(text in "\\PC{0,60}") {
        if let Err(fault) = parse(&text) {
            prop_assert!(fault.at <= text.len() && text.is_char_boundary(fault.at));
        }
    }
}
