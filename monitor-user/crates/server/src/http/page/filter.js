// The filter: a condition that the daemon evaluates. In: the typed text. Out: the keys of matching
// processes, whenever they change, or the position and message of an error in the text.

import { listen } from "/events.js";

const PAUSE = 150;

export class Filter {
  /** `changed()` when the matches change; `wrong(text, at, why)` for an error in the text. */
  constructor(changed, wrong) {
    this.changed = changed;
    this.wrong = wrong;
    this.keys = null;
    // Ends the stream of the active condition, and of the one that is being checked.
    this.active = () => {};
    this.pending = () => {};
  }

  /** Whether a row matches. Without a condition, all rows match. */
  fits(row) { return !this.keys || this.keys.has(row.key); }

  /** Sets the text. The previous condition stays active until the daemon has answered. */
  set(text) {
    clearTimeout(this.later);
    this.pending();
    if (text.trim()) {
      this.later = setTimeout(() => this.ask(text), PAUSE);
      return;
    }
    this.active();
    this.keys = null;
    this.wrong("", 0, "");
    this.changed();
  }

  ask(text) {
    const stop = listen(`/fits?filter=${encodeURIComponent(text)}`, (event, data) => {
      if (event === "wrong") {
        stop();
        this.wrong(text, data.at, data.message);
        return;
      }
      if (this.active !== stop) {
      this.active();
      [this.active, this.pending] = [stop, () => {}];
        this.wrong("", 0, "");
      }
      this.keys = new Set(data.map(([pid, start]) => `${pid}:${start}`));
      this.changed();
    });
    this.pending = stop;
  }
}
