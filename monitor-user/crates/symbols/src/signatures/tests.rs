//! Descriptions: ours are read, wrong ones say where, and values are shown as C would write them.

use super::call::{ArgLocation, DerefPath, ValueType};
use super::{traced_values::ValueSource, *};
use monitor_model::name::matches_pattern;

fn described(text: &str) -> Result<Signatures, String> {
    let mut it = Signatures::default();
    it.add(Path::new("test.calls"), text).map(|()| it).map_err(|error| error.to_string())
}

fn call(it: &Signatures, file: &str, name: &str) -> Arc<Signature> {
    it.call(file, name, |_| false).unwrap_or_else(|| panic!("no {name} in {file}"))
}

#[track_caller]
fn check(text: &str, want: &str) {
    let error = described(text).map(|_| ()).unwrap_err();
    assert!(error.contains(want), "{error}");
}

fn names(values: &[traced_values::TracedValue]) -> Vec<&str> {
    values.iter().map(|it| it.name.as_str()).collect()
}

#[test]
fn what_we_ship_is_understood() {
    let all = Signatures::shipped();
    let n_calls: usize = all.libraries.iter().map(|it| it.calls.len()).sum();
    assert!(n_calls > 400, "{n_calls}");
}

#[test]
fn a_call_has_inputs_and_then_outputs() {
    let all = Signatures::shipped();
    let send = call(&all, "libpvm3.so.3.4.6", "pvm_send");
    assert_eq!(names(&send.inputs()), ["tid", "msgtag"]);
    assert_eq!(names(&send.outputs()), ["result"]);
    let info = call(&all, "libpvm3.so.3.4.6", "pvm_bufinfo");
    assert_eq!(names(&info.inputs()), ["bufid"]);
    assert_eq!(names(&info.outputs()), ["result", "bytes", "msgtag", "tid"]);
    let open = call(&all, "libc.so.6", "open");
    assert_eq!(names(&open.outputs()), ["result", "errno"]);
}

#[test]
fn two_libraries_of_one_interface_have_their_own_signatures() {
    let all = Signatures::shipped();
    let offsets = |file: &str| {
        let receive = call(&all, file, "MPI_Recv");
        let status = receive.outputs().into_iter().filter(|it| it.name.starts_with("status."));
        status.map(|it| (it.name, it.source)).collect::<Vec<_>>()
    };
    let at = |name: &str, offset| {
        (format!("status.{name}"), ValueSource::Pointee(6, DerefPath::at(offset)))
    };
    let own = [at("MPI_SOURCE", 0), at("MPI_TAG", 4), at("MPI_ERROR", 8)];
    assert_eq!(offsets("libmpi.so.40.30.4"), own);
    let other = [at("MPI_SOURCE", 8), at("MPI_TAG", 12), at("MPI_ERROR", 16)];
    assert_eq!(offsets("libmpich.so.12.2.0"), other);
    assert_eq!(offsets("libmpi.so.12"), other);
}

#[test]
fn a_library_inside_a_program_is_known_by_its_mark() {
    let all = Signatures::shipped();
    assert!(all.call("a.out", "pvm_send", |_| false).is_none());
    assert!(all.call("a.out", "pvm_send", |name| name == "pvmmytid").is_some());
    let receive = all.call("a.out", "MPI_Recv", |name| name == "MPIR_Process").unwrap();
    let source = &receive.outputs()[2].source;
    assert!(matches!(source, ValueSource::Pointee(6, it) if *it == DerefPath::at(8)));
}

#[test]
fn arguments_sit_where_the_calling_convention_puts_them() {
    let all = described(
        "library \"l\"; int f(int a, double x, long b, int c, int d, int e, int g, int h, \
         float y, int i);",
    );
    let locations = call(&all.unwrap(), "l", "f").arg_locations();
    let register = [0, 1, 2, 3, 4, 5].map(ArgLocation::Register);
    let [a, b, c, d, e, g] = register;
    let x = ArgLocation::OutOfReach;
    assert_eq!(locations, [a, x, b, c, d, e, g, ArgLocation::Stack(8), x, ArgLocation::Stack(16)]);
}

#[test]
fn a_member_may_be_behind_further_pointers() {
    let text = "library \"l\"; struct far { int it @ 8 -> 0 -> 4 - 14; }; void f(in far *x);";
    let values = call(&described(text).unwrap(), "l", "f").inputs();
    let reach = DerefPath { offset: 8, next: [Some(0), Some(4)] };
    assert_eq!((values[0].source, values[0].subtract), (ValueSource::Pointee(0, reach), 14));
    check("library \"l\"; struct far { int it @ 1 -> 2 -> 3 -> 4; };", "line 1: found `> 4; };`");
}

#[test]
fn descriptions_of_users_have_precedence() {
    let mut all = Signatures::shipped();
    all.add(Path::new("own.calls"), "library \"libc.so*\"; int open(long other);").unwrap();
    assert_eq!(names(&call(&all, "libc.so.6", "open").inputs()), ["other"]);
    assert_eq!(names(&call(&all, "libc.so.6", "close").inputs()), ["fd"]);
}

#[test]
fn a_value_is_shown_by_its_names() {
    let all = Signatures::shipped();
    let open = call(&all, "libc.so.6", "open").inputs();
    let shown = |flags| open[1].shown(flags, None);
    assert_eq!(shown(0), "O_RDONLY");
    assert_eq!(shown(0o102), "O_RDWR|O_CREAT");
    assert_eq!(shown(0x8000_0001), "O_WRONLY|0x80000000");
    let seek = call(&all, "libc.so.6", "lseek").inputs();
    assert_eq!((seek[2].shown(1, None), seek[2].shown(77, None)), ("SEEK_CUR".into(), "77".into()));
    let send = call(&all, "libpvm3.so.3", "pvm_send").outputs();
    // The upper half of the register is whatever was there.
    assert_eq!(send[0].shown(0xdead_beef_ffff_fffe, None), "PvmBadParam");
    assert_eq!(open[0].shown(0x7fff_0000, None), "0x7fff0000");
    assert_eq!(open[0].shown(9, Some(b"/a \"b\"\n\x01\xff")), r#""/a \"b\"\n\001\377""#);
}

#[test]
fn a_handle_has_the_name_of_the_variable_that_it_points_to() {
    let all = Signatures::shipped();
    let send = call(&all, "libmpi.so.40", "MPI_Send").inputs();
    let ValueType::Named(names, width) = &send[5].kind else { panic!("{:?}", send[5]) };
    let addresses = [("ompi_mpi_comm_world".to_owned(), 0x5000)].into();
    assert_eq!(names.address_name(0x5000, &addresses), Some("MPI_COMM_WORLD"));
    assert_eq!(names.address_name(0x6000, &addresses), None);
    assert!(names.variables().any(|it| it == "ompi_mpi_comm_world"));
    assert_eq!(names.name(0x5000, width.bits()), None);
}

#[test]
fn a_buffer_knows_its_length() {
    use super::call::BufferLength;
    let all = Signatures::shipped();
    let write = call(&all, "libc.so.6", "write");
    assert_eq!(write.inputs()[1].length, Some(BufferLength::Parameter(2, None)));
    assert_eq!(call(&all, "libc.so.6", "read").outputs()[2].length, Some(BufferLength::Result));
    let own =
        described("library \"l\"; int f(out char a[*n], inout int *n, char b[n * m], int m);");
    let own = call(&own.unwrap(), "l", "f");
    assert_eq!(own.parameters[0].length, Some(BufferLength::Pointee(1)));
    assert_eq!(own.parameters[2].length, Some(BufferLength::Parameter(1, Some(3))));
}

#[test]
fn an_error_names_its_line() {
    check("library \"l\";\nint f(int a", "line 2");
    check("library \"l\";\nint f(nonesuch a);", "unknown type nonesuch");
    check("int f(void);", "no `library` precedes f");
    check("library \"l\";\nint f(void);\nint f(void);", "declared twice");
    check("library \"l\"; struct s { int a @ 0; };\nvoid f(s it);", "behind a pointer");
    check("library \"l\"; void f(char a[size]);", "no parameter size");
    check("library l;", "line 1: found `l;`; ");
    check("enum e { A = };", "a number");
    check("/* never closed", "line 1");
}

#[test]
fn no_text_makes_us_panic() {
    let whole = shipped::FILES[0].1;
    for length in (0..whole.len()).step_by(97) {
        let _ = described(&whole[..length]);
        let mut spoiled = whole[..length].to_owned();
        spoiled.push_str("}{;*((@ 99999999999999999999");
        let _ = described(&spoiled);
    }
}

#[test]
fn a_star_stands_for_any_letters() {
    for (pattern, text, want) in [
        ("libc.so*", "libc.so.6", true),
        ("libc-*.so", "libc-2.31.so", true),
        ("libc.so*", "libcrypt.so.1", false),
        ("*", "", true),
        ("a*b*c", "a1b2b3c", true),
        ("a*b", "a1", false),
    ] {
        assert_eq!(matches_pattern(pattern.as_bytes(), text.as_bytes()), want, "{pattern} {text}");
    }
}
