// The ranks of the job that is open. In: the events of /ranks, one in two seconds while the panel
// is open. Out: what is compared, a table with a row for each rank, and plots of the selected one.
// The last minutes are kept while the job is open; a rank of a node without a reply has a gap.

import { plot } from "/charts.js";
import { listen } from "/events.js";
import * as units from "/units.js";

/** How much of the past is kept, in seconds. */
const HISTORY = 300;
/** Most numbers of ranks in a line. */
const LISTED = 12;
/** The drawing in the row of a rank, and its column; the largest value of its scale is not less. */
const TREND = { width: 140, height: 18 };
const [TREND_AT, TREND_TOP] = [5, 10];
/** Quantities in which a rank may be far from the others, as the columns name them. */
const FAR = { cpu: "CPU", delay: "waiting" };

const PLOTS = [
  { title: "CPU", top: 1, series: [{ label: "CPU", colour: "blue", write: units.percent }] },
  { title: "resident memory", series: [{ label: "memory", colour: "green", write: units.bytes }] },
];
const HEADS = [
  ["rank", ""], ["node", ""], ["pid", "", "the process that the runtime started"], ["state", "", "as ps prints it"],
  ["CPU", "number", "of one processor, since the reply before"], ["CPU, last 5 min", "", "of all ranks with the same scale"],
  ["waiting", "number", "ready to run, without a CPU"], ["memory", "number", "resident"], ["CPU time", "number"],
  ["compared", "", "slowest: the least CPU time; !: far from the median of the ranks; missing: the node did not reply"], ["program", ""],
];

const listed = (all) => all.slice(0, LISTED).join(", ") + (all.length > LISTED ? ` and ${all.length - LISTED} more` : "");
const ranks = (n) => `${units.count(n)} ${n === 1 ? "rank" : "ranks"}`;

export class Ranks {
  constructor() {
    this.element = document.createElement("section");
    this.element.className = "ranks";
    this.element.ariaLabel = "ranks of the job";
    this.element.innerHTML = `<h2>Ranks</h2><p class="dim" role="status"></p><ul></ul>
      <div class="plots"></div><div class="scroll"><table><thead><tr></tr></thead><tbody></tbody></table></div>`;
    [this.said, this.facts, this.place, this.table] = ["p", "ul", ".plots", "table"].map((it) => this.element.querySelector(it));
    this.table.tHead.rows[0].append(...HEADS.map(([text, of, title]) =>
      Object.assign(document.createElement("th"), { textContent: text, className: of, title: title ?? "" })));
    this.plots = [];
    this.forget();
  }

  /** Begins to show the ranks of a job, or goes on with those of the same job. */
  open(job) {
    this.close();
    const user = job.uid === undefined ? "" : `&uid=${job.uid}`;
    const query = `job=${encodeURIComponent(job.name)}${user}`;
    if (query !== this.query) this.forget();
    this.query = query;
    if (!this.rows.size) this.say("reading");
    this.stop = listen(`/ranks?${query}`, (event, data) => {
      if (event === "ranks") this.show(data);
      if (event === "refused") this.say(data.message);
    }, (text, state) => { if (state === "waiting") this.say(text); });
  }

  close() { this.stop?.(); this.stop = undefined; }

  /** Drops what is kept of a job. */
  forget() {
    this.close();
    this.plots.forEach((it) => it.end());
    [this.query, this.plots, this.times, this.rows, this.ended, this.selected] = [undefined, [], [], new Map(), [], undefined];
    this.place.replaceChildren();
    this.table.tBodies[0].replaceChildren();
    this.table.hidden = true;
    this.facts.replaceChildren();
    this.say("");
  }

  say(text) { this.said.textContent = text; this.said.hidden = !text; }

  show(data) {
    const missing = data.missing.map((it) => `${it.nodes}: ${it.why}`);
    if (!data.ranks.length) {
      const none = data.is_listed ? "none of its processes is a rank that may be seen here" : "no current record has this job";
      this.say(this.rows.size ? "the job has ended; these are the last values" : missing.length ? "" : none);
      // What was compared remains, as the values do.
      if (!this.rows.size) this.list(missing);
      return;
    }
    const several = data.jobs.length > 1;
    this.say("");
    this.remember(data, several);
    this.list([
      ...data.jobs.map((it) => this.compared(it, several)),
      ...missing.map((it) => `${it}; ranks there have no values, and are not compared`),
      data.other_ranks ? `${ranks(data.other_ranks)} with more CPU time are not shown` : "",
      data.other_nodes ? `${units.count(data.other_nodes)} more nodes are not read` : "",
      this.ended.length ? `ended meanwhile: ${listed(this.ended)}` : "",
      ...data.notes,
    ].filter(Boolean));
    const slowest = new Set(data.jobs.filter((it) => it.slowest).map((it) => `${it.id}:${it.slowest[0]}`));
    this.table.hidden = false;
    [...this.rows.values()].forEach((row, at) => this.fill(row, at, slowest.has(row.id)));
    if (!this.rows.has(this.selected)) this.selected = this.rows.keys().next().value;
    this.draw();
  }

  list(texts) {
    this.facts.replaceChildren(...texts.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  }

  compared(job, several) {
    const parts = [ranks(job.n_ranks)];
    if (job.slowest) parts.push(`slowest: rank ${job.slowest[0]} on ${job.slowest[1]}, which has the least CPU time`);
    if (typeof job.imbalance_percent === "number") parts.push(`imbalance of the CPU time ${units.percent(job.imbalance_percent)}`);
    return (several ? `${job.id}: ` : "") + parts.join("; ");
  }

  /** Takes the values of all ranks, in the order of the event. */
  remember(data, several) {
    const now = data.unix_ns / 1e9;
    // An event that is sent again, after a reconnect, has nothing new.
    const isNew = now > (this.times.at(-1) ?? 0);
    if (isNew) this.times.push(now);
    const before = this.rows;
    this.rows = new Map();
    for (const it of data.ranks) {
      const [id, key] = [`${it.job}:${it.rank}`, `${it.job}:${it.rank}:${it.node}`];
      const row = before.get(key) ?? this.row(key, id, this.times.length - (isNew ? 1 : 0));
      before.delete(key);
      [row.last, row.name] = [it, several ? id : String(it.rank)];
      if (isNew) {
        row.past[0].push(it.cpu_percent ?? null);
        row.past[1].push(it.rss_bytes ?? null);
      }
      this.rows.set(key, row);
    }
    // With more ranks than rows, one that is not shown may have more CPU time.
    const went = [...before.values()];
    went.forEach((it) => it.element.remove());
    if (!data.other_ranks) this.ended.push(...went.map((it) => it.name));
    while (this.times[0] < now - HISTORY) {
      this.times.shift();
      for (const row of this.rows.values()) row.past.forEach((it) => it.shift());
    }
  }

  /** A row that has no values at the earlier times. */
  row(key, id, gaps) {
    const element = document.createElement("tr");
    HEADS.forEach(([, of]) => { element.insertCell().className = of; });
    const button = Object.assign(document.createElement("button"), { type: "button", title: "show its history" });
    button.addEventListener("click", () => { this.selected = key; this.draw(); });
    element.cells[0].append(button);
    const trend = Object.assign(document.createElement("canvas"), { ...TREND, role: "img" });
    element.cells[TREND_AT].append(trend);
    return { id, element, button, trend, past: [new Array(gaps).fill(null), new Array(gaps).fill(null)] };
  }

  fill(row, at, isSlowest) {
    const { last, element } = row;
    const body = this.table.tBodies[0];
    if (body.rows[at] !== element) body.insertBefore(element, body.rows[at] ?? null);
    element.className = last.missing ? "dim" : "";
    const [by, far] = last.straggles_by ?? [];
    const compared = [last.missing ? "missing" : "", isSlowest ? "slowest" : "", by ? `! ${FAR[by] ?? by} ${far < 0 ? "−" : "+"}${units.percent(Math.abs(far))}` : ""];
    const texts = [
      null, last.node, String(last.pid), units.plain(last.state), units.percent(last.cpu_percent), null,
      units.percent(last.run_delay_percent), units.bytes(last.rss_bytes), units.span(last.cpu_ns), compared.filter(Boolean).join(", "), last.program,
    ];
    row.button.textContent = row.name;
    texts.forEach((text, column) => {
      const cell = element.cells[column];
      if (text !== null && cell.textContent !== text) cell.textContent = text;
    });
  }

  /** Draws the trend of each rank, and the plots of the selected one. */
  draw() {
    const top = [...this.rows.values()].reduce((most, it) => it.past[0].reduce((one, other) => Math.max(one, other ?? 0), most), TREND_TOP);
    this.table.tHead.rows[0].cells[TREND_AT].textContent = `${HEADS[TREND_AT][0]}, 0 to ${units.percent(top)}`;
    for (const [key, row] of this.rows) {
      row.element.ariaSelected = String(key === this.selected);
      this.trend(row, top);
    }
    const row = this.rows.get(this.selected);
    if (!row) return;
    if (!this.plots.length) this.plots = PLOTS.map((it) => this.plot(it));
    PLOTS.forEach((it, at) => {
      this.place.children[at].firstChild.textContent = `Rank ${row.name} on ${row.last.node}: ${it.title}, last 5 min`;
      this.plots[at].show([this.times, row.past[at]]);
    });
  }

  plot({ series, top }) {
    const card = document.createElement("div");
    card.className = "card";
    card.innerHTML = "<h2></h2><div></div>";
    this.place.append(card);
    return plot(card.lastChild, { height: 110, series, top, seconds: HISTORY });
  }

  trend(row, top) {
    const context = row.trend.getContext("2d");
    const { width, height } = TREND;
    const end = this.times.at(-1);
    context.clearRect(0, 0, width, height);
    context.strokeStyle = getComputedStyle(row.element).getPropertyValue("--blue").trim();
    context.lineWidth = 1.5;
    context.beginPath();
    let isDrawn = false;
    row.past[0].forEach((value, at) => {
      if (value === null) { isDrawn = false; return; }
      const x = width * (1 - (end - this.times[at]) / HISTORY);
      const y = height - 1 - (height - 2) * value / top;
      if (isDrawn) context.lineTo(x, y); else context.moveTo(x - 1, y), context.lineTo(x, y);
      isDrawn = true;
    });
    context.stroke();
    const known = row.past[0].filter((it) => it !== null);
    row.trend.ariaLabel = known.length ? `CPU of rank ${row.name}: ${units.percent(Math.min(...known))} to ${units.percent(Math.max(...known))}` : "no values yet";
  }
}
