// Formats numbers with units. In: a number or null. Out: a short text; "–" if absent, which is not
// zero.

const ABSENT = "–";

function scaled(number, base, units) {
  let at = 0;
  while (Math.abs(number) >= base && at < units.length - 1) { number /= base; at++; }
  const digits = number !== 0 && Math.abs(number) < 10 && (at > 0 || number % 1) ? 1 : 0;
  return `${number.toFixed(digits)} ${units[at]}`;
}

const present = (write) => (value) => value === null || value === undefined ? ABSENT : write(value);

export const bytes = present((it) => scaled(it, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]));
export const rate = present((it) => `${bytes(it)}/s`);
export const percent = present((it) => `${it < 10 ? it.toFixed(1) : it.toFixed(0)} %`);
export const count = present((it) => it.toLocaleString("en"));
export const plain = present(String);
export const each = present((it) => `${scaled(it, 1000, ["", "k", "M", "G"]).trim()}/s`);

/** A duration in nanoseconds. */
export const span = present((ns) => {
  if (ns < 1e3) return `${ns.toFixed(0)} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toFixed(ns < 1e4 ? 1 : 0)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(ns < 1e7 ? 1 : 0)} ms`;
  const s = ns / 1e9;
  if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
});

/** The value of a field, formatted by the unit at the end of its name. */
export function field(name, value) {
  if (value === null || value === undefined) return ABSENT;
  if (typeof value !== "number") return String(value);
  if (name.endsWith("_ns")) return span(value);
  if (name.endsWith("_percent")) return percent(value);
  if (name.endsWith("_bytes_per_s")) return rate(value);
  if (name.endsWith("_per_s")) return each(value);
  if (name.endsWith("_bytes")) return bytes(value);
  if (["pid", "ppid", "uid", "gid", "cgroup_id", "exec_id", "ns_pid", "tid"].includes(name)) return String(value);
  return count(value);
}
