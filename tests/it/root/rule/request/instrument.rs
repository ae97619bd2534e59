//! Instruments that the kernel updates: they show exactly what the process did.

use super::Tooled;
use crate::root::privilege::granted;
use monitor_ebpf::abi::rule::trace::ROWS;

impl Tooled {
    /// A request for calls, all of whose actions are run in the kernel.
    #[track_caller]
    fn runs_in_kernel(&mut self, id: u32, actions: &str) {
        let begun = self.begun();
        self.waits(id, &begun, actions);
        self.is_in_kernel(id);
    }

    #[track_caller]
    fn is_in_kernel(&mut self, id: u32) {
        let want = "9 [0] request_level(0,[\"kernel\"])";
        self.says(&format!("9 [0] request_level({id})"), want);
    }
}

#[test]
fn root_23_calls_are_a_histogram_of_23_made_in_the_kernel() {
    if !granted("root_23_calls_are_a_histogram_of_23_made_in_the_kernel") {
        return;
    }
    let mut tool = Tooled::new();
    tool.says("2 [0] cnt_create(\"h\",\"histogram\",\"\")", "2 [0] cnt_create(0)");
    tool.runs_in_kernel(10, "11 [0] cnt_record(\"h\",$2)");
    tool.calls("range(1, 24)");
    let read = "8 [0] cnt_read(\"h\",1212)";
    tool.says(read, "8 [0] cnt_read(0,[\"h\",23,276,1,23,[12,21,23,23],0])");
    // Large numbers are within a hundredth, and negative ones are in no size.
    tool.says("7 [0] cnt_reset(\"h\")", "7 [0] cnt_reset(0)");
    tool.calls("[2000000000] * 22 + [1000, -1, -7]");
    let most = 2_000_000_000_u64;
    let sum = 22 * most + 1000;
    let want =
        format!("8 [0] cnt_read(0,[\"h\",23,{sum},1000,{most},[{most},{most},{most},{most}],2])");
    tool.says(read, &want);
    // What the tool records itself is added.
    tool.says("4 [0] cnt_record(\"h\",5,6)", "4 [0] cnt_record(0)");
    tool.says("8 [0] cnt_read(\"h\",20)", "8 [0] cnt_read(0,[\"h\",25,5])");
    assert_eq!(tool.next_lines(0), [""; 0]);
}

#[test]
fn root_the_integral_of_a_gauge_is_within_the_bounds_measured_by_the_process() {
    if !granted("root_the_integral_of_a_gauge_is_within_the_bounds_measured_by_the_process") {
        return;
    }
    let mut tool = Tooled::new();
    let made = "2 [0] cnt_create(\"q\",\"integrator\",\"\"); 3 [0] cnt_set(\"q\",7)";
    tool.says(made, "2 [0] cnt_create(0); 3 [0] cnt_set(0)");
    tool.runs_in_kernel(10, "11 [0] cnt_set(\"q\",$2)");
    tool.says("4 [0] cnt_reset(\"q\")", "4 [0] cnt_reset(0)");
    tool.says("8 [0] cnt_read(\"q\",308)", "8 [0] cnt_read(0,[\"q\",0,7,7,7])");
    tool.says("3 [0] cnt_set(\"q\",0)", "3 [0] cnt_set(0)");
    tool.says("4 [0] cnt_reset(\"q\")", "4 [0] cnt_reset(0)");
    // Each change is between two readings of its clock; at last nothing is added any more.
    let _ = tool.script(
        "import time\n\
         def t(): return time.clock_gettime_ns(time.CLOCK_BOOTTIME)\n\
         def at(n):\n b = t(); l.fdatasync(n); return b, t(), n\n\
         s = [at(0)]\n\
         for n in range(23): time.sleep(.002); s.append(at(n * n * 1000000 - 40000000))\n\
         s.append(at(0)); p = list(zip(s, s[1:]))\n\
         least = sum(min(n * (y - a), n * (z - b)) for (b, a, n), (y, z, _) in p)\n\
         most = sum(max(n * (y - a), n * (z - b)) for (b, a, n), (y, z, _) in p)\n\
         it = 0",
    );
    let read = tool.asks("8 [0] cnt_read(\"q\",316)");
    let numbers: Vec<f64> = read.split(['[', ']', ',']).filter_map(|it| it.parse().ok()).collect();
    let [_, count, area, least, most, level] = numbers[..] else { panic!("{read}") };
    assert_eq!((count, least, most, level), (25.0, -40_000_000.0, 444_000_000.0, 0.0), "{read}");
    let mut bound = |name: &str| {
        let minus = tool.target.run(&format!("it = int({name} < 0)"));
        let size = tool.target.run(&format!("it = abs({name})")) as f64 / 1e9;
        if minus == 1 { -size } else { size }
    };
    let (least, most) = (bound("least"), bound("most"));
    assert!(least <= area && area <= most, "{least} <= {area} <= {most}");
}

#[test]
fn root_a_gauge_has_one_value_for_changes_by_kernel_and_tool() {
    if !granted("root_a_gauge_has_one_value_for_changes_by_kernel_and_tool") {
        return;
    }
    let mut tool = Tooled::new();
    let made = "2 [0] cnt_create(\"q\",\"integrator\",\"\"); 3 [0] cnt_set(\"q\",4)";
    tool.says(made, "2 [0] cnt_create(0); 3 [0] cnt_set(0)");
    tool.runs_in_kernel(10, "11 [0] cnt_add(\"q\",$2)");
    // Threads on all processors, up and down.
    let _ = tool.script(
        "import threading\n\
         def f(): [l.fdatasync(n) for n in [2, 3, -5] * 230]\n\
         t = [threading.Thread(target=f) for n in range(4)]\n\
         [x.start() for x in t]; [x.join() for x in t]; it = 0",
    );
    tool.says("8 [0] cnt_read(\"q\",260)", "8 [0] cnt_read(0,[\"q\",2761,4])");
    tool.says("4 [0] cnt_add(\"q\",100)", "4 [0] cnt_add(0)");
    tool.calls("[-1]");
    tool.says("8 [0] cnt_read(\"q\",292)", "8 [0] cnt_read(0,[\"q\",2763,104,103])");
    tool.says("4 [0] cnt_set(\"q\",50)", "4 [0] cnt_set(0)");
    tool.calls("[-10]");
    tool.says("4 [0] cnt_reset(\"q\")", "4 [0] cnt_reset(0)");
    tool.calls("[1]");
    tool.says("8 [0] cnt_read(\"q\",308)", "8 [0] cnt_read(0,[\"q\",1,40,41,41])");
}

#[test]
fn root_a_trace_has_its_records_in_order_and_counts_what_it_has_no_room_for() {
    const TEST: &str = "root_a_trace_has_its_records_in_order_and_counts_what_it_has_no_room_for";
    if !granted(TEST) {
        return;
    }
    let mut tool = Tooled::new();
    tool.says("2 [0] cnt_create(\"r\",\"trace\",\"\")", "2 [0] cnt_create(0)");
    tool.runs_in_kernel(10, "11 [0] cnt_record(\"r\",$2,7)");
    tool.calls("range(23)");
    let (lost, records) = tool.records(100);
    assert_eq!(lost, 0);
    let values: Vec<_> = records.iter().map(|it| (it[1], it[2])).collect();
    assert_eq!(values, (0..23).map(|n| (n, 7)).collect::<Vec<_>>());
    assert!(records.is_sorted_by_key(|it| it[0]), "{records:?}");
    // More records than rows, and no read meanwhile.
    let rows = i64::from(ROWS);
    tool.calls(&format!("range({})", rows + 1000));
    tool.says("4 [0] cnt_record(\"r\",-1)", "4 [0] cnt_record(0)");
    let (lost, records) = tool.records(16_384);
    assert_eq!((lost, records.len()), (1000, 23 + ROWS as usize + 1));
    let values: Vec<_> = records[23..].iter().map(|it| it[1]).collect();
    assert_eq!(values, (1000..rows + 1000).chain([-1]).collect::<Vec<_>>());
    let all = format!("8 [0] cnt_read(0,[\"r\",{},1000])", 23 + rows + 1001);
    tool.says("8 [0] cnt_read(\"r\",1028)", &all);
}

#[test]
fn root_a_signal_of_a_list_reaches_the_process_at_the_call() {
    if !granted("root_a_signal_of_a_list_reaches_the_process_at_the_call") {
        return;
    }
    let mut tool = Tooled::new();
    tool.runs_in_kernel(10, "11 [0] kill($proc,40)");
    let _ = tool.target.run("seen = []; _ = signal.signal(40, lambda *_: seen.append(0)); it = 0");
    tool.calls("range(23)");
    assert_eq!(tool.target.run("it = len(seen)"), 23);
    tool.says("6 [0] delete(10)", "6 [0] delete(0)");
    // Of a child, too, which is not named.
    tool.waits(20, "start_lib_call([],\"fdatasync\")", "21 [0] kill([$1],9)");
    tool.is_in_kernel(20);
    // It does not come to leave by itself.
    let _ = tool.target.run(
        "r, w = os.pipe(); \
         pid = os.fork() or (os.read(r, 1), l.fdatasync(0), os._exit(3)); it = pid",
    );
    tool.poll();
    let _ = tool.target.run("it = os.write(w, b'x')");
    assert_eq!(tool.target.run("it = os.waitpid(pid, 0)[1]"), 9);
}

impl Tooled {
    /// Lets the target run several lines.
    fn script(&mut self, lines: &str) -> u64 {
        self.target.run(&format!("exec({lines:?})"))
    }

    /// The number of lost records of the trace, and the last `most` records.
    fn records(&mut self, most: u32) -> (i64, Vec<Vec<i64>>) {
        let reply = self.asks(&format!("8 [0] cnt_records(\"r\",{most})"));
        let inner = reply.strip_prefix("8 [0] cnt_records(0,").unwrap().strip_suffix(')').unwrap();
        let (lost, records) = inner.split_once(',').unwrap();
        let records = records.trim_matches(['[', ']']).split("],[");
        let numbers = |it: &str| it.split(',').map(|it| it.parse().unwrap()).collect();
        (lost.parse().unwrap(), records.map(numbers).collect())
    }
}
