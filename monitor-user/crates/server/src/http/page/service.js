// The daemon's own status: the state of each capability, its cost, monitors and rules. In: the
// answers to status, probes, list and rules. Out: tables.

import * as units from "/units.js";

function table(title, heads, rows, empty) {
  const card = document.createElement("div");
  card.className = "scroll";
  const name = document.createElement("h2");
  name.textContent = title;
  card.append(name);
  if (!rows.length) {
    const text = document.createElement("p");
    text.className = "dim";
    text.textContent = empty ?? "none";
    card.append(text);
    return card;
  }
  const drawn = document.createElement("table");
  const line = (tag, cells) => {
    const row = document.createElement("tr");
    for (const cell of cells) {
      const element = document.createElement(tag);
      element.textContent = cell?.text ?? cell ?? "";
      if (cell?.of) element.className = cell.of;
      row.append(element);
    }
    return row;
  };
  const [head, body] = [drawn.createTHead(), drawn.createTBody()];
  if (heads.length) head.append(line("th", heads));
  rows.forEach((it) => body.append(line("td", it)));
  card.append(drawn);
  return card;
}

const SHADE = { active: "good", exact: "good", fallback: "", off: "dim", no: "bad", failed: "bad" };
const listed = (counts) => Object.entries(counts ?? {}).map(([kind, n]) => `${units.count(n)} ${kind}`).join(", ") || "none";

export class Service {
  constructor() {
    this.cost = document.createElement("div");
    this.probes = document.createElement("div");
    const place = document.getElementById("service");
    place.classList.add("panel");
    place.append(this.cost, this.probes);
    this.monitors = document.getElementById("monitors");
    this.monitors.classList.add("panel");
    this.listed = document.createElement("div");
    this.ruled = document.createElement("div");
    this.monitors.append(this.listed, this.ruled);
  }

  status(own) {
    const share = (it) => units.percent(it * 100).replace(" %", "");
    const used = own.budget.used === undefined ? "not measured yet" : `${(own.budget.used * 100).toFixed(2)} % used`;
    const since = this.before && (own.cpu_ns - this.before.cpu_ns) / (own.uptime_ns - this.before.uptime_ns) * 100;
    this.before = own;
    this.cost.replaceChildren(table("Own cost", [], [
      ["version", own.version],
      ["up", units.span(own.uptime_ns)],
      ["CPU, own", since === undefined ? units.span(own.cpu_ns) : `${units.span(own.cpu_ns)}, now ${since.toFixed(2)} % of one CPU`],
      ["CPU, hooks", `${own.bpf_run_estimated ? "about " : ""}${units.span(own.bpf_run_ns)}`],
      ["budget", `${used}; at most ${share(own.budget.share)} % of the machine`],
      ["given up", { text: own.budget.shed.join(", ") || "none", of: own.budget.shed.length ? "bad" : "" }],
      ["memory", `${units.bytes(own.rss_bytes)}, BPF maps ${units.bytes(own.map_bytes)}`],
      ["readings, samples", `${units.count(own.readings)}, ${units.count(own.samples)}`],
      ["delay of samples", own.samples === 0 ? "no sample yet" : `median ${units.span(own.late_p50_ns)}, 99 % ${units.span(own.late_p99_ns)}, maximum ${units.span(own.late_max_ns)}`],
      ["connections, monitors", `${units.count(own.connections)}, ${units.count(own.monitors)}`],
      ["dropped samples", { text: units.count(own.dropped), of: own.dropped ? "bad" : "" }],
      ["lost records", { text: listed(own.lost), of: Object.keys(own.lost ?? {}).length ? "bad" : "" }],
      ["refused", listed(own.refused)],
      ["HTTP", own.http ? `${units.count(own.http.connections)} connections, ${units.count(own.http.requests)} requests; refused ${listed(own.http.refused)}` : "–"],
    ]));
  }

  examined(found) {
    this.probes.replaceChildren(
      table("Probes", ["capability", "state", "hooks", "events", "cost per event", "lost", "maps", "reason and remedy"],
        found.capabilities.map((it) => [
          it.name, { text: it.state, of: SHADE[it.state] ?? "" }, it.hooks.join(", "), units.count(it.events),
          { text: it.ns_per_event === undefined ? "–" : `${it.estimated ? "about " : ""}${units.span(it.ns_per_event)}`, of: "whole" },
          { text: units.count(it.lost), of: it.lost ? "bad" : "" }, { text: units.bytes(it.map_bytes), of: "whole" }, [it.why, it.fix].filter(Boolean).join("; "),
        ])),
      table("This machine", ["check", "found", "prevents", "remedy"], found.host.map((it) => [it.name, it.value, it.blocks, it.fix])),
    );
  }

  list(all) {
    this.listed.replaceChildren(table("Monitors", ["name", "user", "requestor", "period", "samples", "missed", "kept events"],
      all.map((it) => [it.id, units.plain(it.uid), units.plain(it.requestor), units.span(it.period_ns), units.count(it.samples), units.count(it.missed), units.count(it.kept)]),
      "none visible"));
  }

  rules(all) {
    this.ruled.replaceChildren(table("Rules", ["session", "user", "requestor", "event", "actions", "level", "state", "occurrences"],
      all.map((it) => [units.plain(it.session), units.plain(it.uid), units.plain(it.requestor), it.event, it.actions, it.level,
        it.enabled ? "enabled" : { text: "disabled", of: "dim" }, { text: units.count(it.occurrences), of: "number" }]),
      "none visible"));
  }
}
