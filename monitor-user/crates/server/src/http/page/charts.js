// Time series with uPlot, in the colours of the page. In: an element, series, data. Out: a plot
// that accepts new data.

import { bytes, rate } from "/units.js";

// Ticks of byte axes are powers of two: 1,000,000 bytes would be 977 KiB.
const DOUBLED = Array.from({ length: 60 }, (_, power) => 2 ** power);

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** The range of the last `seconds`, up to the newest value. */
function lately(last, seconds) {
  const end = last ?? Date.now() / 1000;
  return [end - seconds, end];
}

/** Draws a plot; `series`: label, colour, format function and column. */
export function plot(inside, { height, series, top, seconds, legend = true }) {
  const axis = { stroke: () => colour("dim"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  const write = series[0].write;
  const options = {
    width: Math.max(120, inside.clientWidth), height, cursor: { y: false }, legend: { show: legend },
    scales: { x: { range: (_, low, high) => lately(high, seconds) }, y: { range: (_, low, high) => [0, Math.max(high ?? 0, top ?? 0) || 1] } },
    axes: [{ ...axis, size: 22 }, { ...axis, size: 64, incrs: [bytes, rate].includes(write) ? DOUBLED : undefined, values: (_, ticks) => ticks.map(write) }],
    series: [{ value: "{HH}:{mm}:{ss}" }, ...series.map((it) => ({
      label: it.label, stroke: () => colour(it.colour), width: 1.5, points: { show: false },
      value: (_, value) => it.write(value),
    }))],
  };
  const drawn = new uPlot(options, [[], ...series.map(() => [])], inside);
  const resized = new ResizeObserver(() => {
    if (inside.clientWidth > 0) drawn.setSize({ width: inside.clientWidth, height });
  });
  resized.observe(inside);
  return {
    show: (data) => drawn.setData(data),
    end: () => { resized.disconnect(); drawn.destroy(); },
  };
}
