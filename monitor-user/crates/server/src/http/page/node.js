// The cards of the node: processors, memory, pressure, disks, interfaces. In: the head of each
// message. Out: cards. A missing value has no line.

import { plot } from "/charts.js";
import * as units from "/units.js";

const KEPT = 120;

export class Node {
  constructor() {
    this.place = document.getElementById("node");
    this.place.innerHTML = `
      <div class="card"><h2>Processors</h2><div class="bars"></div><dl data-card="cpu"></dl></div>
      <div class="card chart"><h2>CPU <span class="blue">user</span> <span class="orange">kernel</span></h2><div class="plot"></div></div>
      <div class="card"><h2>Memory</h2><dl data-card="memory"></dl></div>
      <div class="card"><h2>Pressure (PSI)</h2><dl data-card="pressure"></dl></div>
      <div class="card"><h2>Disks and interfaces</h2><dl data-card="devices"></dl></div>`;
    this.bars = this.place.querySelector(".bars");
    this.data = [[], [], []];
  }

  /** Drops the history after a seek. */
  forget() { this.data = [[], [], []]; }

  /** Adds the history from before the page was opened. */
  remember(history) {
    if (!history?.t.length) return;
    const end = this.data[0][0] ?? Infinity;
    const kept = history.t.filter((it) => it < end - 0.5).length;
    const before = [history.t, ...history.values].map((it) => it.slice(0, kept));
    this.data = this.data.map((it, at) => [...before[at], ...it].slice(-KEPT));
  }

  show(head) {
    const stats = head.stats;
    if (!stats) return;
    this.processors(stats, head);
    this.lines("cpu", [
      ["load 1/5/15 min", [stats.load1, stats.load5, stats.load15].map((it) => it?.toFixed(1) ?? "–").join(" ")],
      ["tasks running", units.count(stats.tasks_running)],
      ["context switches", units.each(stats.context_switches_per_s)],
      ["up", units.span(stats.uptime_ns)],
    ]);
    const known = stats.mem_available_bytes !== undefined && stats.mem_total_bytes > 0;
    const used = known ? stats.mem_total_bytes - stats.mem_available_bytes : undefined;
    this.lines("memory", [
      ["used", known ? `${units.bytes(used)}, ${units.percent(100 * used / stats.mem_total_bytes)}` : undefined],
      ["available", units.bytes(stats.mem_available_bytes)],
      ["total", units.bytes(stats.mem_total_bytes)],
      ["swap used", stats.swap_total_bytes ? units.bytes(stats.swap_total_bytes - stats.swap_free_bytes) : "none"],
    ]);
    const pressure = [["CPU", stats.psi_cpu_some_percent], ["memory", stats.psi_memory_some_percent], ["I/O", stats.psi_io_some_percent]];
    const isKnown = pressure.some(([, it]) => it !== undefined);
    this.lines("pressure", isKnown ? pressure.map(([name, it]) => [name, units.percent(it === undefined ? it : Math.min(it, 100))]) : [["", "not provided by the kernel"]]);
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
      const busy = cpu.idle_percent === undefined ? 0 : Math.max(0, 100 - cpu.idle_percent);
      bar.value = busy;
      bar.title = `processor ${cpu.cpu}: ${units.percent(busy)} busy`;
      bar.ariaLabel = bar.title;
    });
    if (stats.cpu_user_percent === undefined) return;
    this.chart ??= plot(this.place.querySelector(".plot"), {
      height: 120, seconds: KEPT, legend: false, top: 100 * Math.max(1, cpus.length),
      series: [{ label: "user", colour: "blue", write: units.percent }, { label: "kernel", colour: "orange", write: units.percent }],
    });
    [head.t / 1e9, stats.cpu_user_percent, stats.cpu_system_percent].forEach((it, at) => {
      this.data[at].push(it);
      if (this.data[at].length > KEPT) this.data[at].shift();
    });
    this.chart.show(this.data);
  }

  devices(stats) {
    const sum = (list, name) => (list ?? []).reduce((all, it) => all + (it[name] ?? 0), 0);
    const busiest = [...(stats.disks ?? [])].sort((a, b) => (b.busy_percent ?? 0) - (a.busy_percent ?? 0))[0];
    const nets = (stats.nets ?? []).filter((it) => it.interface !== "lo");
    this.lines("devices", [
      ["busiest disk", busiest ? `${busiest.device} ${units.percent(busiest.busy_percent)}` : undefined],
      ["its reads", busiest ? units.rate(busiest.read_bytes_per_s) : undefined],
      ["its writes", busiest ? units.rate(busiest.written_bytes_per_s) : undefined],
      ["received", units.rate(sum(nets, "received_bytes_per_s"))],
      ["sent", units.rate(sum(nets, "sent_bytes_per_s"))],
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
