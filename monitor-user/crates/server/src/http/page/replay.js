// The playback bar of a recording: position, seeking, speed. In: events with the position. Out:
// seek requests; the keys are those of `monitor top`.

import { token } from "/events.js";

const SPEEDS = [0.5, 1, 2, 5, 10, 60];
const KEYS = { "[": { by: -10 }, "]": { by: 10 }, "{": { by: -100 }, "}": { by: 100 }, " ": { pause: true } };

export class Replay {
  /** Calls `moved()` after a seek, when earlier values are no history of what follows. */
  constructor(moved) {
    this.moved = moved;
    this.place = document.getElementById("replay");
    this.speed = 1;
    this.place.innerHTML = `
      <button type="button" data-by="-10" title="10 seconds back: [">−10 s</button>
      <button type="button" id="pause" title="Space">pause</button>
      <button type="button" data-by="10" title="10 seconds forward: ]">+10 s</button>
      <input type="range" aria-label="time in the recording">
      <output></output>
      <select aria-label="speed"></select>`;
    [this.range, this.output] = [this.place.querySelector("input"), this.place.querySelector("output")];
    const select = this.place.querySelector("select");
    select.append(...SPEEDS.map((it) => new Option(`${it} ×`, it, it === 1, it === 1)));
    select.addEventListener("change", () => this.say({ speed: this.speed = Number(select.value) }));
    this.range.addEventListener("change", () => this.say({ to: this.range.value * 1e6 }));
    this.range.addEventListener("pointerdown", () => { this.held = true; });
    this.range.addEventListener("pointerup", () => { this.held = false; });
    for (const it of this.place.querySelectorAll("[data-by]")) it.addEventListener("click", () => this.key({ by: Number(it.dataset.by) }));
    document.getElementById("pause").addEventListener("click", () => this.key({ pause: true }));
  }

  show(place) {
    this.place.hidden = false;
    if (this.now && this.now.turned !== place.turned) this.moved();
    this.now = place;
    Object.assign(this.range, { min: place.first_ms, max: place.last_ms, step: 1 });
    if (!this.held) this.range.value = place.at_ms;
    const end = place.at_ms >= place.last_ms ? ", end" : "";
    this.output.textContent = `${new Date(place.at_ms).toLocaleString()}${end}`;
    document.getElementById("pause").textContent = place.speed ? "pause" : "play";
  }

  /** Handles a key, and returns whether it belongs to this bar. */
  pressed(key) {
    if (!this.now || !KEYS[key]) return false;
    this.key(KEYS[key]);
    return true;
  }

  key({ by, pause }) {
    if (pause) this.say({ speed: this.now.speed ? 0 : this.speed });
    else this.say({ by: by * 1e9 });
  }

  say(query) {
    fetch(`/seek?${new URLSearchParams(query)}`, { method: "POST", headers: { Authorization: `Bearer ${token()}` } }).catch(() => {});
  }
}
