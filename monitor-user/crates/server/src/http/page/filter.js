// The filter: a condition that the service decides, as it does for every other tool. In: what is
// typed. Out: the keys of those who fit, as that changes, or where the text is wrong and why.

import { listen } from "/events.js";

const PAUSE = 150;

export class Filter {
  /** `changed()` when others fit; `wrong(text, at, why)` for a text that makes no sense. */
  constructor(changed, wrong) {
    this.changed = changed;
    this.wrong = wrong;
    this.keys = null;
    // The stream of the condition that holds, and of the one that is asked about.
    this.holds = () => {};
    this.asked = () => {};
  }

  /** Of a row; everybody fits no condition. */
  fits(row) { return !this.keys || this.keys.has(row.key); }

  /** Another text. What held before holds until the service has answered. */
  set(text) {
    clearTimeout(this.later);
    this.asked();
    if (text.trim()) {
      this.later = setTimeout(() => this.ask(text), PAUSE);
      return;
    }
    this.holds();
    this.keys = null;
    this.wrong("", 0, "");
    this.changed();
  }

  ask(text) {
    const stop = listen(`/fits?filter=${encodeURIComponent(text)}`, (event, told) => {
      if (event === "wrong") {
        stop();
        this.wrong(text, told.at, told.message);
        return;
      }
      if (this.holds !== stop) {
        this.holds();
        [this.holds, this.asked] = [stop, () => {}];
        this.wrong("", 0, "");
      }
      this.keys = new Set(told.map(([pid, start]) => `${pid}:${start}`));
      this.changed();
    });
    this.asked = stop;
  }
}
