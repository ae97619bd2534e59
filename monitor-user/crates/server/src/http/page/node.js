// The cards of the node: processors, memory, pressure, disks, interfaces. In: the head of each
// message. Out: cards. A missing value has no line.

import { plot } from "/charts.js";
import * as units from "/units.js";

const KEPT = 120;

const INTERRUPTS = ["cpu_irq_percent", "cpu_softirq_percent"];
const PARTS = [
  { label: "user", colour: "blue", fields: ["cpu_user_percent"] },
  { label: "nice", colour: "green", fields: ["cpu_nice_percent"] },
  { label: "kernel", colour: "orange", fields: ["cpu_system_percent"] },
  { label: "interrupts", colour: "red", fields: INTERRUPTS },
];

/** The sum of fields; null if one is absent. */
const sum = (stats, fields) => fields.reduce((all, it) => all === null || stats[it] === undefined ? null : all + stats[it], 0);
const known = (it) => it === undefined ? undefined : units.percent(it);
const both = (one, other) => one === undefined && other === undefined ? undefined : `${units.percent(one)}, ${units.percent(other)}`;

export class Node {
  constructor() {
    this.place = document.getElementById("node");
    this.place.innerHTML = `
      <div class="card"><h2>Processors</h2><div class="bars"></div><dl data-card="cpu"></dl></div>
      <div class="card chart"><h2>CPU <span class="blue">user</span> <span class="green">nice</span> <span class="orange">kernel</span> <span class="red">interrupts</span></h2><div class="plot"></div></div>
      <div class="card"><h2>Memory</h2><dl data-card="memory"></dl></div>
      <div class="card"><h2>Pressure (PSI)</h2><dl data-card="pressure"></dl></div>
      <div class="card"><h2>Disks and interfaces</h2><dl data-card="devices"></dl></div>`;
    this.bars = this.place.querySelector(".bars");
    this.forget();
  }

  /** Drops the history after a seek. */
  forget() { this.data = [[], ...PARTS.map(() => [])]; }

  /** Adds the history from before the page was opened. */
  remember(history) {
    if (!history?.t.length) return;
    const end = this.data[0][0] ?? Infinity;
    const kept = history.t.filter((it) => it < end - 0.5).length;
    const at = (row) => Object.fromEntries(history.columns.map((name, column) => [name, history.values[column][row] ?? undefined]));
    const rows = Array.from({ length: kept }, (_, row) => at(row));
    const before = [history.t.slice(0, kept), ...PARTS.map((part) => rows.map((it) => sum(it, part.fields)))];
    this.data = this.data.map((it, at) => [...before[at], ...it].slice(-KEPT));
  }

  show(head) {
    const stats = head.stats;
    if (!stats) return;
    this.processors(stats, head);
    this.lines("cpu", [
      ["busy", stats.cpu_busy_percent === undefined ? undefined : units.percent(stats.cpu_busy_percent) + (stats.cpu_busy_sampled ? ", sampled" : "")],
      ["of it user, nice", both(stats.cpu_user_percent, stats.cpu_nice_percent)],
      ["kernel, interrupts", both(stats.cpu_system_percent, sum(stats, INTERRUPTS))],
      ["no visible process", known(stats.cpu_unattributed_percent)],
      ["stolen", known(stats.cpu_steal_percent)],
      ["idle, I/O wait", both(stats.cpu_idle_percent, stats.cpu_iowait_percent)],
      ["load 1/5/15 min", [stats.load1, stats.load5, stats.load15].map((it) => it?.toFixed(1) ?? "–").join(" ")],
      ["tasks running", units.count(stats.tasks_running)],
      ["context switches", units.each(stats.context_switches_per_s)],
      ["up", units.span(stats.uptime_ns)],
    ]);
    const isRead = stats.mem_available_bytes !== undefined && stats.mem_total_bytes > 0;
    const used = isRead ? stats.mem_total_bytes - stats.mem_available_bytes : undefined;
    this.lines("memory", [
      ["used", isRead ? `${units.bytes(used)}, ${units.percent(100 * used / stats.mem_total_bytes)}` : undefined],
      ["available", units.bytes(stats.mem_available_bytes)],
      ["total", units.bytes(stats.mem_total_bytes)],
      ["swap used", stats.swap_total_bytes === undefined ? undefined : stats.swap_total_bytes ? units.bytes(stats.swap_total_bytes - stats.swap_free_bytes) : "none"],
    ]);
    const pressure = [
      ["some task waits for a CPU", stats.psi_cpu_some_percent],
      ["for memory", stats.psi_memory_some_percent], ["for I/O", stats.psi_io_some_percent],
      ["all tasks wait for memory", stats.psi_memory_full_percent], ["for I/O", stats.psi_io_full_percent],
    ];
    const isKnown = pressure.some(([, it]) => it !== undefined);
    this.lines("pressure", isKnown ? pressure.map(([name, it]) => [name, units.percent(it)]) : [["", "not provided by the kernel"]]);
    this.devices(stats);
  }

  processors(stats, head) {
    const cpus = stats.cpus instanceof Array ? stats.cpus : [];
    while (this.bars.childElementCount > cpus.length) this.bars.lastChild.remove();
    cpus.forEach((cpu, at) => {
      let bar = this.bars.children[at];
      if (!bar) {
        bar = document.createElement("meter");
        Object.assign(bar, { min: 0, max: 100, high: 90 });
        this.bars.append(bar);
      }
      const busy = cpu.idle_percent === undefined ? undefined : Math.max(0, 100 - cpu.idle_percent);
      bar.value = busy ?? 0;
      bar.classList.toggle("unknown", busy === undefined);
      bar.title = `processor ${cpu.cpu}: ${units.percent(busy)} busy`;
      bar.ariaLabel = bar.title;
    });
    if (stats.cpu_user_percent === undefined) return;
    this.chart ??= plot(this.place.querySelector(".plot"), {
      height: 120, seconds: KEPT, legend: false, top: 100 * Math.max(1, cpus.length),
      series: PARTS.map((it) => ({ label: it.label, colour: it.colour, write: units.percent })),
    });
    [head.t / 1e9, ...PARTS.map((it) => sum(stats, it.fields))].forEach((it, at) => {
      this.data[at].push(it);
      if (this.data[at].length > KEPT) this.data[at].shift();
    });
    this.chart.show(this.data);
  }

  devices(stats) {
    const total = (list, name) => list.map((it) => it[name]).filter((it) => it !== undefined).reduce((all, it) => (all ?? 0) + it, undefined);
    const busiest = [...(stats.disks ?? [])].sort((a, b) => (b.busy_percent ?? 0) - (a.busy_percent ?? 0))[0];
    const nets = (stats.nets ?? []).filter((it) => it.interface !== "lo");
    this.lines("devices", [
      ["busiest disk", busiest ? `${busiest.device} ${units.percent(busiest.busy_percent)}` : undefined],
      ["its reads", busiest ? units.rate(busiest.read_bytes_per_s) : undefined],
      ["its writes", busiest ? units.rate(busiest.written_bytes_per_s) : undefined],
      ["received", units.rate(total(nets, "received_bytes_per_s"))],
      ["sent", units.rate(total(nets, "sent_bytes_per_s"))],
    ]);
  }

  lines(card, pairs) {
    const list = this.place.querySelector(`[data-card="${card}"]`);
    list.replaceChildren(...pairs.filter(([, value]) => value !== undefined).flatMap(([name, value]) => {
      const [term, text] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = name;
      text.textContent = value;
      return [term, text];
    }));
  }
}
