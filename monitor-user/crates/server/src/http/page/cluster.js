// The panel of a gateway: all nodes, jobs and users of its cluster. In: a roll-up a second while
// the panel is open. Out: a map of nodes, tables of jobs and users, and for one job its nodes and
// its ranks.

import { listen } from "/events.js";
import { NodeMap, VALUES, mark } from "/nodemap.js";
import { Ranks } from "/ranks.js";
import * as units from "/units.js";

const MOST = 200;
const USAGE = [
  ["processes", (it) => units.count(it.processes)], ["CPU", (it) => units.percent(it.cpu_percent)],
  ["memory", (it) => units.bytes(it.rss_bytes)],
  ["reads", (it) => units.rate(it.read_bytes_per_s)], ["writes", (it) => units.rate(it.written_bytes_per_s)],
];

/** A table whose rows remain while their key does, so that a selected one keeps the focus. */
class Rows {
  constructor(title, texts, press) {
    this.element = document.createElement("div");
    this.element.className = "scroll";
    this.element.innerHTML = "<h2></h2><p class=\"dim\"></p><table><thead><tr></tr></thead><tbody></tbody></table>";
    [this.title, this.empty, this.table] = this.element.children;
    this.title.textContent = title;
    this.heads = [...texts, ...USAGE.map((it) => it[0])];
    this.table.tHead.rows[0].append(...this.heads.map((it, at) => {
      const head = document.createElement("th");
      head.textContent = it;
      if (at >= texts.length) head.className = "number";
      return head;
    }));
    this.texts = texts.length;
    this.press = press;
    this.rows = new Map();
  }

  show(list, key, texts, empty) {
    const [body, shown] = [this.table.tBodies[0], list.slice(0, MOST)];
    this.empty.textContent = list.length ? empty ?? "" : empty || "none";
    this.empty.hidden = !this.empty.textContent;
    this.table.hidden = !list.length;
    const keys = new Set(shown.map(key));
    for (const [name, row] of this.rows) if (!keys.has(name)) { row.remove(); this.rows.delete(name); }
    shown.forEach((it, at) => {
      let row = this.rows.get(key(it));
      if (!row) { row = this.row(); this.rows.set(key(it), row); }
      if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] ?? null);
      [...texts(it), ...USAGE.map(([, write]) => write(it))].forEach((text, column) => {
        const place = column === 0 && this.press ? row.cells[0].firstChild : row.cells[column];
        if (place.textContent !== text) place.textContent = text;
      });
      if (this.press) row.cells[0].firstChild.onclick = () => this.press(it);
    });
  }

  row() {
    const row = document.createElement("tr");
    this.heads.forEach((_, at) => { row.insertCell().className = at >= this.texts ? "number" : ""; });
    if (this.press) {
      const button = document.createElement("button");
      button.type = "button";
      row.cells[0].append(button);
    }
    return row;
  }
}

export class Cluster {
  constructor() {
    this.place = document.getElementById("cluster");
    this.place.className = "panel";
    this.place.innerHTML = `
      <div class="choice"><strong></strong> <span class="grow"></span>
        <label>colour by <select>${Object.entries(VALUES).map(([key, it]) => `<option value="${key}">${it.name}</option>`).join("")}</select></label>
        <span class="scale" aria-hidden="true"><i></i> 0 to <output></output></span></div>
      <p class="dim" role="status" hidden></p>`;
    [this.summary, this.choice, this.scale] = ["strong", "select", ".scale"].map((it) => this.place.querySelector(it));
    this.said = this.place.querySelector("p");
    this.choice.value = localStorage.getItem("node-value") in VALUES ? localStorage.getItem("node-value") : "cpu";
    this.choice.addEventListener("change", () => {
      localStorage.setItem("node-value", this.choice.value);
      if (this.last) this.show(this.last);
    });
    this.map = new NodeMap();
    this.job = document.createElement("section");
    this.job.className = "card job";
    this.job.ariaLabel = "one job, its nodes and its ranks";
    this.job.hidden = true;
    this.jobs = new Rows("Jobs", ["job", "user", "nodes"], (job) => this.choose(job));
    this.users = new Rows("Users", ["user", "nodes"]);
    this.place.append(this.map.element, this.job, this.jobs.element, this.users.element);
    this.onNode = new Rows("", ["node"]);
    const back = document.createElement("button");
    back.type = "button";
    back.textContent = "close";
    back.addEventListener("click", () => this.choose(undefined));
    this.ranks = new Ranks();
    this.job.append(back, this.onNode.element, this.ranks.element);
  }

  /** Begins to show; the roll-ups of all nodes are read only meanwhile. */
  open() {
    this.close();
    const query = this.chosen ? `?job=${encodeURIComponent(this.chosen.name)}` : "";
    this.stop = listen(`/cluster${query}`, (event, data) => {
      if (event === "rollup") this.show(data);
      if (event === "refused") this.say(data.message);
    }, (text, state) => { if (state === "waiting") this.say(text); });
    if (this.chosen) this.ranks.open(this.chosen); else this.ranks.forget();
  }

  close() { this.stop?.(); this.stop = undefined; this.ranks.close(); }

  choose(job) {
    this.chosen = job && { name: job.name, uid: job.uid };
    this.job.hidden = !job;
    if (job) { this.job.querySelector("h2").textContent = `${job.name}, on its nodes`; this.onNode.show([], String, () => [], "reading"); }
    this.open();
  }

  say(text) { this.said.textContent = text; this.said.hidden = !text; }

  show(all) {
    this.last = all;
    this.say(all.is_limited ? "Jobs and users are shown with the token, or those of your own." : "");
    const counted = new Map();
    for (const it of all.nodes) counted.set(mark(it) ?? "up", (counted.get(mark(it) ?? "up") ?? 0) + 1);
    const states = [...counted].map(([state, n]) => `${units.count(n)} ${state === "?" ? "without a record" : state === "!" ? "unreadable" : state}`);
    this.summary.textContent = `${units.count(all.nodes.length)} nodes: ${states.join(", ")}`;
    const value = VALUES[this.choice.value];
    this.scale.hidden = this.choice.value === "state";
    this.scale.querySelector("output").textContent = value.write(value.top);
    this.map.show(all.nodes, this.choice.value);
    const left = (n, rows) => [n ? `${units.count(n)} more that nodes had no room for` : "", rows.length > MOST ? `the first ${MOST} of ${units.count(rows.length)}` : ""].filter(Boolean).join("; ");
    this.jobs.show(all.jobs, (it) => `${it.name}:${it.uid}`, (it) => [it.name, it.user ?? units.plain(it.uid), `${it.nodes} (${it.n_nodes})`], left(all.other_jobs, all.jobs));
    this.users.show(all.users, (it) => it.name, (it) => [it.name, units.count(it.n_nodes)], left(all.other_users, all.users));
    if (!this.chosen) return;
    const job = all.jobs.find((it) => it.name === this.chosen.name && it.uid === this.chosen.uid);
    this.onNode.show(job?.by_node ?? [], (it) => it.node, (it) => [it.node], job ? "" : "no current record has this job");
  }
}
