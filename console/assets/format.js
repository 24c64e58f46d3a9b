// Numbers as people read them.

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(n) {
  let unit = 0;
  while (Math.round(n) >= 1024 && unit < units.length - 1) { n /= 1024; unit++; }
  return `${unit === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[unit]}`;
}

// count groups digits, and shortens from a million on.
export function count(n) {
  if (n >= 1e12) return n.toExponential(2);
  for (const [size, suffix] of [[1e9, " G"], [1e6, " M"]]) if (n >= size) return (n / size).toFixed(2) + suffix;
  return Math.round(n).toLocaleString("en");
}

// rate is a number of events a second.
export function rate(n) {
  return n === 0 ? "0" : n < 10 ? n.toFixed(1) : count(n);
}

// duration is that of nanoseconds.
export function duration(ns) {
  if (ns < 999.5) return `${Math.round(ns)} ns`;
  for (const [size, suffix, next] of [[1e3, "µs", 1e6], [1e6, "ms", 1e9], [1e9, "s", 12e10], [6e10, "min", 72e11], [36e11, "h", 1728e11], [864e11, "days", Infinity]]) {
    const n = ns / size;
    if (Math.round(n) * size < next) return `${n < 10 ? n.toFixed(2) : n < 100 ? n.toFixed(1) : Math.round(n)} ${suffix}`;
  }
}

// percent is a part of 1, with two digits that matter.
export function percent(part) {
  const n = part * 100;
  if (!Number.isFinite(n)) return "unknown";
  return `${n === 0 ? "0" : n >= 99.95 ? "100" : n >= 10 ? n.toFixed(1) : n >= 0.001 ? n.toPrecision(2) : n.toExponential(1)} %`;
}

export function counted(n, one, many = one + "s") {
  return `${count(n)} ${n === 1 ? one : many}`;
}
