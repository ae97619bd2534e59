// The filter: words and conditions, all of which a process must fit. In: a text. Out: a function of
// a process, or where the text is wrong and why.

const NAMES = {
  pid: "pid", ppid: "ppid", user: "user", comm: "comm", cmd: "cmdline", cmdline: "cmdline",
  state: "state", threads: "threads", nice: "nice", cpu: "cpu_percent", delay: "run_delay_percent",
  time: "cpu_ns", rss: "rss_bytes", read: "read_bytes_per_s", write: "written_bytes_per_s",
  rx: "tcp_received_bytes_per_s", tx: "tcp_sent_bytes_per_s",
};
const SCALE = { "": 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3, t: 1024 ** 4 };

export class Wrong extends Error {
  constructor(at, why) { super(why); this.at = at; }
}

/** A function of a getter `value(field)`. */
export function parse(text) {
  const parts = [];
  for (const found of text.matchAll(/\S+/g)) parts.push(part(found[0], found.index));
  return (value) => parts.every((it) => it(value));
}

function part(word, at) {
  const not = word.startsWith("!") ? 1 : 0;
  const found = /^([a-z]+)(<=|>=|!=|=|<|>|~)(.*)$/i.exec(word.slice(not));
  const test = found ? condition(found, at + not) : text(word.slice(not), at + not);
  return not ? (value) => !test(value) : test;
}

function text(word, at) {
  if (!word) throw new Wrong(at, "a word or a condition is wanted");
  const want = word.toLowerCase();
  const has = (it) => it !== null && it !== undefined && String(it).toLowerCase().includes(want);
  return (value) => has(value("comm")) || has(value("cmdline")) || has(value("user")) || String(value("pid")) === want;
}

function condition([, name, sign, want], at) {
  const field = NAMES[name.toLowerCase()];
  if (!field) throw new Wrong(at, `there is no field "${name}": ${Object.keys(NAMES).join(", ")}`);
  const after = at + name.length + sign.length;
  if (!want) throw new Wrong(after, "a value is wanted");
  if (sign === "~") {
    let pattern;
    try { pattern = new RegExp(want, "i"); } catch (why) { throw new Wrong(after, why.message); }
    return (value) => pattern.test(value(field) ?? "");
  }
  if (sign === "=" || sign === "!=") {
    return (value) => (String(value(field) ?? "").toLowerCase() === want.toLowerCase()) === (sign === "=");
  }
  const number = /^(-?[0-9.]+)([kmgt]?)$/i.exec(want);
  if (!number || Number.isNaN(Number(number[1]))) throw new Wrong(after, "a number is wanted, such as 5 or 100M");
  const limit = Number(number[1]) * SCALE[number[2].toLowerCase()] * (field === "cpu_ns" ? 1e9 : 1);
  const compare = { "<": (a) => a < limit, ">": (a) => a > limit, "<=": (a) => a <= limit, ">=": (a) => a >= limit }[sign];
  return (value) => value(field) !== null && value(field) !== undefined && compare(value(field));
}
