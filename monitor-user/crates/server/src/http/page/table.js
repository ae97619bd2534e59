// The table of processes: sorted, filtered, with only the visible rows in the document. In: the
// store. Out: rows, the selected process. Keys: arrows, Page, Home and End select; Enter opens.

import * as units from "/units.js";
import { Filter } from "/filter.js";

const ROW = 20;
const COLUMNS = [
  { name: "pid", title: "PID", write: units.plain, number: true, up: true },
  { name: "user", title: "User", write: units.plain, up: true },
  { name: "state", title: "S", write: units.plain, up: true },
  { name: "threads", title: "Threads", write: units.count, number: true },
  { name: "cpu_percent", title: "CPU %", write: units.percent, number: true },
  { name: "run_delay_percent", title: "Delay %", write: units.percent, number: true },
  { name: "cpu_ns", title: "CPU time", write: units.span, number: true },
  { name: "rss_bytes", title: "Memory", write: units.bytes, number: true },
  { name: "read_bytes_per_s", title: "Read", write: units.rate, number: true },
  { name: "written_bytes_per_s", title: "Write", write: units.rate, number: true },
  { name: "tcp_received_bytes_per_s", title: "TCP in", write: units.rate, number: true },
  { name: "tcp_sent_bytes_per_s", title: "TCP out", write: units.rate, number: true },
  { name: "comm", title: "Command", write: units.plain, up: true, wide: true },
];

export class Table {
  constructor(store, chosen) {
    this.store = store;
    this.chosen = chosen;
    this.scroll = document.getElementById("scroll");
    this.head = this.scroll.querySelector("thead");
    this.body = this.scroll.querySelector("tbody");
    this.words = document.getElementById("words");
    this.sort = JSON.parse(localStorage.getItem("sort") ?? "null") ?? { name: "cpu_percent", up: false };
    this.key = null;
    this.list = [];
    this.condition = new Filter(() => this.update(), (text, at, why) => this.mistake(text, at, why));
    this.heading();
    this.words.addEventListener("input", () => this.filter());
    document.getElementById("filter").addEventListener("submit", (it) => it.preventDefault());
    this.scroll.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.scroll);
    this.scroll.addEventListener("keydown", (it) => this.pressed(it));
    this.body.addEventListener("click", (it) => {
      const key = it.target.closest("tr")?.dataset.key;
      if (key) { this.choose(key); this.chosen(key); }
    });
  }

  heading() {
    const row = document.createElement("tr");
    for (const column of COLUMNS) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.dataset.name = column.name;
      if (column.number) cell.className = "number";
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = column.title;
      button.addEventListener("click", () => this.order(column));
      cell.append(button);
      row.append(cell);
    }
    this.head.append(row);
    this.marked();
  }

  order(column) {
    const again = this.sort.name === column.name;
    this.sort = { name: column.name, up: again ? !this.sort.up : Boolean(column.up) };
    localStorage.setItem("sort", JSON.stringify(this.sort));
    this.marked();
    this.update();
  }

  marked() {
    for (const cell of this.head.querySelectorAll("th")) {
      if (cell.dataset.name === this.sort.name) cell.ariaSort = this.sort.up ? "ascending" : "descending";
      else cell.removeAttribute("aria-sort");
    }
  }

  filter() { this.condition.set(this.words.value); }

  /** Shows an error below its position. The previous condition stays active. */
  mistake(text, at, why) {
    const wrong = document.getElementById("wrong");
    wrong.textContent = why ? `${text}\n${" ".repeat(at)}^ ${why}` : "";
  }

  /** Selects and sorts the rows of the store again. */
  update() {
    const { store, sort } = this;
    const places = new Map(store.columns.map((name, at) => [name, at]));
    const at = places.get(sort.name);
    const list = [...store.rows.values()].filter((row) => this.condition.fits(row));
    const side = sort.up ? 1 : -1;
    const compare = (a, b) => {
      const [x, y] = [a.values[at] ?? null, b.values[at] ?? null];
      // Absent values come last in both directions.
      if (x === null || y === null) return (x === null) - (y === null) || a.values[0] - b.values[0];
      if (x === y) return a.values[0] - b.values[0];
      return (x < y ? -1 : 1) * side;
    };
    this.list = list.sort(compare);
    this.places = places;
    const all = store.rows.size;
    document.getElementById("count").textContent =
      `${list.length === all ? "" : `${units.count(list.length)} of `}${units.count(all)} ${all === 1 ? "process" : "processes"}`;
    this.scroll.setAttribute("aria-rowcount", String(list.length));
    this.draw();
  }

  draw() {
    if (!this.places) return;
    const { list, scroll } = this;
    const first = Math.max(0, Math.min(Math.floor(scroll.scrollTop / ROW) - 5, list.length - 1));
    const last = Math.min(list.length, first + Math.ceil(scroll.clientHeight / ROW) + 12);
    const rows = [space(first)];
    for (let at = first; at < last; at++) rows.push(this.row(list[at], at));
    rows.push(space(list.length - last));
    this.body.replaceChildren(...rows);
  }

  row(row, at) {
    const line = document.createElement("tr");
    line.dataset.key = row.key;
    line.setAttribute("aria-rowindex", String(at + 1));
    line.ariaSelected = String(row.key === this.key);
    if (row.values[this.places.get("ended")]) line.className = "ended";
    else if (row.fresh) line.className = "fresh";
    for (const column of COLUMNS) {
      const cell = document.createElement("td");
      cell.dataset.name = column.name;
      const value = row.values[this.places.get(column.name)];
      cell.textContent = column.write(value);
      if (column.number) cell.className = value === null || value === undefined ? "number absent" : "number";
      if (column.wide) {
        cell.className = "wide";
        const whole = row.values[this.places.get("cmdline")];
        if (whole) { cell.title = whole; cell.textContent = whole; }
      }
      line.append(cell);
    }
    return line;
  }

  choose(key) {
    this.key = key;
    const at = this.list.findIndex((row) => row.key === key);
    if (at >= 0) {
      const top = at * ROW;
      const { scrollTop, clientHeight } = this.scroll;
      if (top < scrollTop) this.scroll.scrollTop = top;
      else if (top + 3 * ROW > scrollTop + clientHeight) this.scroll.scrollTop = top + 3 * ROW - clientHeight;
    }
    this.draw();
  }

  pressed(event) {
    const at = this.list.findIndex((row) => row.key === this.key);
    const page = Math.max(1, Math.floor(this.scroll.clientHeight / ROW) - 2);
    const to = {
      ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page,
      Home: 0, End: this.list.length - 1,
    }[event.key];
    if (event.key === "Enter" && at >= 0) this.chosen(this.key);
    if (to === undefined || !this.list.length) return;
    event.preventDefault();
    this.choose(this.list[Math.max(0, Math.min(to, this.list.length - 1))].key);
  }
}

function space(rows) {
  const line = document.createElement("tr");
  line.ariaHidden = "true";
  line.style.height = `${rows * ROW}px`;
  return line;
}
