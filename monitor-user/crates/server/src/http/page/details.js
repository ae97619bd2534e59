// The details of one process: its history and all its fields. In: its row, and a feed of its own
// while the panel is open. Out: the panel beside the table; Escape closes it.

import { plot } from "/charts.js";
import { listen, once } from "/events.js";
import { HISTORY } from "/store.js";
import * as units from "/units.js";

const PLOTS = [
  { title: "CPU", top: 1, series: [{ label: "CPU", colour: "blue", write: units.percent, at: 1 }] },
  { title: "Resident memory", series: [{ label: "memory", colour: "green", write: units.bytes, at: 2 }] },
  {
    title: "Storage", top: 1024,
    series: [{ label: "read", colour: "blue", write: units.rate, at: 3 }, { label: "write", colour: "orange", write: units.rate, at: 4 }],
  },
];

export class Details {
  constructor(store) {
    this.store = store;
    this.place = document.getElementById("details");
    this.plots = [];
  }

  open(key) {
    const row = this.store.rows.get(key);
    if (!row) return;
    this.close();
    this.key = key;
    this.store.watch(row);
    this.place.hidden = false;
    this.place.innerHTML = `
      <header><h2></h2><span class="grow"></span><button type="button" title="Escape">close</button></header>
      <p class="dim" role="status"></p><div class="plots"></div><p class="dim past"></p>
      <div class="card"><h2>All fields</h2><dl></dl></div>`;
    const name = row.values[this.store.column("comm")];
    this.place.querySelector("h2").textContent = `${name}, process ${row.values[0]}`;
    this.place.querySelector("button").addEventListener("click", () => this.close());
    this.plots = PLOTS.map((it) => this.plot(it));
    this.before = null;
    const [pid, start] = row.values;
    once(`/history?pid=${pid}&start=${start}`).then((it) => this.remember(key, it), () => {});
    this.stop = listen(`/process?pid=${row.values[0]}`, (event, sample) => this.receive(event, sample), (text) => this.say(text));
    this.show();
  }

  /** Opens the same process again, after a seek. */
  again() { if (this.key) this.open(this.key); }

  plot({ title, series, top }) {
    const card = document.createElement("div");
    card.className = "card";
    card.innerHTML = "<h2></h2><div></div>";
    card.firstChild.textContent = title;
    this.place.querySelector(".plots").append(card);
    const drawn = plot(card.lastChild, { height: 100, series, top, seconds: HISTORY });
    return { drawn, at: series.map((it) => it.at) };
  }

  say(text) { this.place.querySelector("[role=status]").textContent = text; }

  /** Updates the plots with each change of the table. */
  show() {
    const row = this.key && this.store.rows.get(this.key);
    if (!row) return;
    const past = this.store.past(row);
    // The history of the daemon, up to where the page's own begins.
    const end = past[0][0] ?? Infinity;
    const kept = this.before?.t.filter((it) => it < end - 0.5).length ?? 0;
    const before = (at) => (kept ? (at ? this.before.values[at - 1] : this.before.t).slice(0, kept) : []);
    for (const { drawn, at } of this.plots) drawn.show([0, ...at].map((it) => [...before(it), ...past[it]]));
  }

  /** Adds the history from before the page was opened, or says why there is none. */
  remember(key, history) {
    if (key !== this.key || !history) return;
    this.before = history.t.length ? history : null;
    const note = this.place.querySelector(".past");
    note.textContent = history.why ? `no earlier history: ${history.why}` : "";
    note.dataset.kept = String(history.t.length);
    this.show();
  }

  receive(event, sample) {
    if (event === "refused") { this.say(sample.message ?? "the process does not exist"); return; }
    const process = sample?.processes?.find((it) => `${it.pid}:${it.start_time_ns}` === this.key);
    if (!process) { this.say("the process has ended"); this.stop?.(); return; }
    this.say(process.ended ? "the process has ended; these are its final values" : "");
    // Nothing follows the last event: a reconnect would replace the text by a refusal.
    if (event === "last") this.stop?.();
    const list = this.place.querySelector("dl");
    const pairs = Object.entries(process).filter(([, value]) => typeof value !== "object");
    list.replaceChildren(...pairs.flatMap(([name, value]) => {
      const [term, text] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = name;
      text.textContent = units.field(name, value);
      return [term, text];
    }));
  }

  close() {
    this.stop?.();
    this.plots.forEach((it) => it.drawn.end());
    [this.key, this.stop, this.plots] = [null, null, []];
    this.place.hidden = true;
    this.place.replaceChildren();
  }
}
