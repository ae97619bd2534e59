// The table of processes, and the recent history of each. In: messages of the feed. Out: rows, and
// a callback for each change. A process is identified by pid and start time, so a reused pid is a
// new process.

export const HISTORY = 300;

export class Store {
  constructor() {
    this.columns = [];
    this.rows = new Map();
    this.head = { t: null, stats: null, notes: [] };
    this.times = [];
    this.changed = () => {};
  }

  column(name) { return this.columns.indexOf(name); }

  whole(message) {
    this.columns = message.columns;
    const before = this.rows;
    this.rows = new Map();
    for (const values of message.rows) {
      const key = `${values[0]}:${values[1]}`;
      this.rows.set(key, { key, values, past: before.get(key)?.past, fresh: false });
    }
    this.take(message);
  }

  change(message) {
    for (const row of this.rows.values()) row.fresh = false;
    for (const [pid, start] of message.gone) this.rows.delete(`${pid}:${start}`);
    for (const values of message.new) {
      const key = `${values[0]}:${values[1]}`;
      this.rows.set(key, { key, values, past: undefined, fresh: true });
    }
    for (const set of message.set) {
      const row = this.rows.get(`${set[0]}:${set[1]}`);
      for (let at = 2; row && at < set.length; at += 2) row.values[set[at]] = set[at + 1];
    }
    this.take(message);
  }

  take(message) {
    this.head = message;
    if (message.t) {
      this.times.push(message.t / 1e9);
      if (this.times.length > HISTORY) this.times.shift();
      this.remember();
    }
    this.changed();
  }

  /** Records the plotted values of a process from its first CPU use, or from when it is opened. */
  remember() {
    const at = ["cpu_percent", "rss_bytes", "read_bytes_per_s", "written_bytes_per_s"].map((it) => this.column(it));
    for (const row of this.rows.values()) {
      if (!row.past && !(row.values[at[0]] > 0)) continue;
      row.past ??= at.map(() => []);
      at.forEach((column, place) => {
        const past = row.past[place];
        past.push(row.values[column]);
        if (past.length > HISTORY) past.shift();
      });
    }
  }

  /** Times and values of the recorded history of a process. */
  past(row) {
    const length = row.past?.[0].length ?? 0;
    return [this.times.slice(this.times.length - length), ...(row.past ?? [[], [], [], []])];
  }

  /** Drops the histories after a seek. */
  forget() {
    this.times = [];
    for (const row of this.rows.values()) row.past = row.past && [[], [], [], []];
  }

  watch(row) { row.past ??= [[], [], [], []]; }
}
