// A map of the nodes of a cluster: a cell for each, in the order of names, with a stronger colour
// for a higher value. In: nodes of a roll-up, and which value is shown. Out: cells that arrow keys
// and the pointer select, and a line with all values of the selected one. State is written as well
// as coloured: a node without a current record has a mark and no value.

import * as units from "/units.js";

const MARKS = { late: "late", none: "?", unreadable: "!", draining: "drains", left: "left", dead: "dead" };
/** Up to this number of nodes, cells have names; up to the second, values. */
const [NAMED, WITH_VALUE] = [96, 600];

const used = (it) => it.mem_available_bytes === undefined || !it.mem_total_bytes ? undefined
  : 100 * (1 - it.mem_available_bytes / it.mem_total_bytes);
const busy = (it) => it.cpu_busy_percent === undefined || !it.online_cpus ? undefined : it.cpu_busy_percent / it.online_cpus;
const load = (it) => it.load1 === undefined || !it.online_cpus ? undefined : it.load1 / it.online_cpus;

/** Values: of the totals of a node, how they are written, and what has the strongest colour. */
export const VALUES = {
  state: { name: "state", of: () => undefined, write: units.plain, top: 1 },
  load: { name: "load for each processor", of: load, write: (it) => it.toFixed(2), top: 1 },
  cpu: { name: "CPU", of: busy, write: units.percent, top: 100 },
  memory: { name: "memory in use", of: used, write: units.percent, top: 100 },
};

/** The word for a node that has no current value; undefined for one that has. */
export const mark = (node) => MARKS[node.state] ?? MARKS[node.record];

export class NodeMap {
  constructor(choose = () => {}) {
    this.element = document.createElement("figure");
    this.element.className = "card nodes";
    this.grid = document.createElement("div");
    this.grid.className = "nodemap";
    this.grid.role = "listbox";
    this.grid.ariaLabel = "nodes; arrow keys select one";
    this.caption = document.createElement("figcaption");
    this.caption.className = "dim";
    this.caption.role = "status";
    this.element.append(this.grid, this.caption);
    this.cells = new Map();
    this.choose = choose;
    this.grid.addEventListener("keydown", (it) => this.pressed(it));
    this.grid.addEventListener("focusin", (it) => this.select(it.target.dataset.node));
    this.grid.addEventListener("pointerover", (it) => it.target.dataset.node && this.point(it.target.dataset.node));
    this.grid.addEventListener("pointerleave", () => this.point(this.selected));
    this.grid.addEventListener("click", (it) => it.target.dataset.node && it.target.focus());
  }

  show(nodes, value) {
    this.nodes = new Map(nodes.map((it) => [it.node, it]));
    this.value = VALUES[value];
    for (const [name, cell] of this.cells) {
      if (!this.nodes.has(name)) { cell.remove(); this.cells.delete(name); }
    }
    this.grid.dataset.size = nodes.length <= NAMED ? "named" : nodes.length <= WITH_VALUE ? "value" : "plain";
    nodes.forEach((node, at) => this.cell(node, at));
    if (!this.cells.has(this.selected)) this.selected = nodes[0]?.node;
    for (const [name, cell] of this.cells) {
      cell.tabIndex = name === this.selected ? 0 : -1;
      cell.ariaSelected = String(name === this.selected);
    }
    this.describe();
  }

  cell(node, at) {
    let cell = this.cells.get(node.node);
    if (!cell) {
      cell = document.createElement("div");
      cell.role = "option";
      cell.dataset.node = node.node;
      cell.append(document.createElement("span"), document.createElement("b"));
      this.cells.set(node.node, cell);
    }
    if (this.grid.children[at] !== cell) this.grid.insertBefore(cell, this.grid.children[at] ?? null);
    const without = mark(node);
    const value = without ? undefined : this.value.of(node.totals ?? {});
    const text = without ?? (value === undefined ? (this.value === VALUES.state ? "up" : "–") : this.value.write(value));
    cell.dataset.state = without ? (node.state === "dead" ? "dead" : "late") : "up";
    const share = value === undefined ? 0 : Math.min(1, value / this.value.top);
    cell.style.setProperty("--share", value === undefined ? "0" : (0.08 + 0.92 * share).toFixed(3));
    // Where the text has the contrast of its colour reversed, which differs between themes.
    cell.dataset.level = share > 0.78 ? "high" : share > 0.5 ? "mid" : "low";
    const [name, shown] = cell.children;
    name.textContent = node.node;
    shown.textContent = text;
    cell.title = `${node.node}: ${text}`;
    cell.ariaLabel = cell.title;
  }

  select(name) {
    if (!name) return;
    this.selected = name;
    this.pointed = undefined;
    for (const [other, cell] of this.cells) {
      cell.tabIndex = other === name ? 0 : -1;
      cell.ariaSelected = String(other === name);
    }
    this.describe();
    this.choose(name);
  }

  point(name) { this.pointed = name; this.describe(); }

  describe() {
    const node = this.nodes?.get(this.pointed ?? this.selected);
    if (!node) { this.caption.textContent = "no node"; return; }
    const it = node.totals ?? {};
    const age = node.age_ns === undefined ? "no record yet" : `record ${units.span(node.age_ns)} old`;
    this.caption.textContent = [
      `${node.node}: ${mark(node) ?? "up"}, ${age}`,
      `CPU ${units.percent(busy(it))} of ${units.count(it.online_cpus)} processors`,
      `load ${it.load1 === undefined ? "–" : it.load1.toFixed(2)}`,
      `memory ${units.percent(used(it))} of ${units.bytes(it.mem_total_bytes)}`,
      `${units.count(it.processes)} processes, ${units.count(node.jobs)} jobs, ${units.count(node.users)} users`,
      node.lost ? `${units.count(node.lost)} records lost` : "",
      it.lost_records ? `${units.count(it.lost_records)} kernel records lost there` : "",
    ].filter(Boolean).join(" · ");
  }

  pressed(event) {
    const names = [...this.nodes.keys()];
    const wide = getComputedStyle(this.grid).gridTemplateColumns.split(" ").length;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide, ArrowUp: -wide, Home: -names.length, End: names.length }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = names.indexOf(this.selected) + step;
    this.cells.get(names[Math.max(0, Math.min(names.length - 1, at))])?.focus();
  }
}
