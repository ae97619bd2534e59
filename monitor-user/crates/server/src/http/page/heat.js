// A heat map of latencies: time from left to right, durations upwards, stronger colours for higher
// counts. In: the counts of each bucket, once a second. Out: a canvas, and a caption with the count
// of the cell under the pointer.

import { span, count } from "/units.js";

const SECONDS = 120;
const ROWS = 28;
/** The row of a duration: one for each power of two from a microsecond on. */
const rowOf = (ns) => Math.max(0, Math.min(ROWS - 1, Math.floor(Math.log2(Math.max(1, ns) / 1024)) + 1));

export class Heat {
  constructor(title) {
    this.element = document.createElement("figure");
    this.element.className = "card";
    this.element.innerHTML = "<h2></h2><canvas width=\"900\" height=\"252\" role=\"img\"></canvas><figcaption class=\"dim\"></figcaption>";
    this.element.style.margin = "0";
    this.element.querySelector("h2").textContent = title;
    this.canvas = this.element.querySelector("canvas");
    this.canvas.ariaLabel = title;
    this.caption = this.element.querySelector("figcaption");
    this.before = null;
    this.columns = [];
    this.canvas.addEventListener("pointermove", (it) => this.point(it));
  }

  /** Takes pairs of the upper end of a bucket and its count since the monitor started; without
   * them nothing is counted, which is not zero, and `why` says so. */
  take(pairs, why) {
    this.why = pairs ? undefined : why;
    if (!pairs) {
      if (this.columns.length) this.columns.push([]);
      if (this.columns.length > SECONDS) this.columns.shift();
      this.before = null;
      this.draw();
      return;
    }
    const now = new Map(pairs);
    const column = new Array(ROWS).fill(0);
    for (const [ns, held] of now) column[rowOf(ns)] += Math.max(0, held - (this.before?.get(ns) ?? 0));
    if (this.before) {
      this.columns.push(column);
      if (this.columns.length > SECONDS) this.columns.shift();
    }
    this.before = now;
    this.draw();
  }

  draw() {
    const style = getComputedStyle(document.documentElement);
    const context = this.canvas.getContext("2d");
    const { width, height } = this.canvas;
    const [left, cell, tall] = [60, (width - 60) / SECONDS, height / ROWS];
    context.clearRect(0, 0, width, height);
    const most = Math.max(1, ...this.columns.flat());
    const hot = style.getPropertyValue("--hot");
    this.columns.forEach((column, at) => column.forEach((held, row) => {
      if (!held) return;
      context.fillStyle = `rgba(${hot}, ${0.15 + 0.85 * Math.log1p(held) / Math.log1p(most)})`;
      context.fillRect(left + (SECONDS - this.columns.length + at) * cell, height - (row + 1) * tall, Math.ceil(cell), tall - 1);
    }));
    context.fillStyle = style.getPropertyValue("--dim");
    context.font = "11px system-ui";
    for (let row = 0; row < ROWS; row += 4) context.fillText(`≤ ${span(1024 * 2 ** row)}`, 0, height - row * tall - 2);
    const last = this.columns.at(-1);
    if (!this.pointed) {
      const held = last?.reduce((sum, it) => sum + it, 0) ?? 0;
      this.caption.textContent = this.why ?? (last ? `${count(held)} in the last second; largest count of a cell: ${count(most)}` : "measuring");
    }
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width * this.canvas.width - 60) / ((this.canvas.width - 60) / SECONDS);
    const row = ROWS - 1 - Math.floor((event.clientY - box.top) / box.height * ROWS);
    const at = Math.floor(x) - (SECONDS - this.columns.length);
    const held = this.columns[at]?.[row];
    this.pointed = held !== undefined;
    if (this.pointed) this.caption.textContent = `${count(held)} took up to ${span(1024 * 2 ** row)}, ${this.columns.length - at} s ago`;
  }
}
