// The page: connects the feed, the table, the details and the panels. In: events of the daemon and
// keys. `/` filters, Escape closes, 1 to 5 select a panel.

import { Cluster } from "/cluster.js";
import { Details } from "/details.js";
import { keep, listen, once, token } from "/events.js";
import { Heat } from "/heat.js";
import { Node } from "/node.js";
import { Replay } from "/replay.js";
import { Service } from "/service.js";
import { Store } from "/store.js";
import { Table } from "/table.js";

const by = (id) => document.getElementById(id);

function themed(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

themed(localStorage.getItem("theme"));
// Canvases keep their colours until they are drawn again.
const again = () => { store.changed(); latency.drawn.forEach((it) => it.heat.draw()); };
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
by("theme").addEventListener("click", () => {
  const next = { null: "dark", dark: "light", light: null }[localStorage.getItem("theme")];
  if (next) localStorage.setItem("theme", next); else localStorage.removeItem("theme");
  themed(next);
  again();
});

// The fragment of a URL is not sent to the server. Remove it from the address bar as well.
const given = /^#token=(\w+)$/.exec(location.hash);
if (given) {
  keep(given[1]);
  history.replaceState(null, "", location.pathname);
}

const store = new Store();
const details = new Details(store);
const table = new Table(store, (key) => details.open(key));
const [node, service, cluster] = [new Node(), new Service(), new Cluster()];
const replay = new Replay(() => { store.forget(); details.again(); begun(); });
const feed = {
  whole: (it) => store.whole(it), change: (it) => store.change(it),
  status: (it) => { service.status(it); by("tab-cluster").hidden = !it.gateway; }, probes: (it) => service.examined(it), list: (it) => service.list(it),
  rules: (it) => service.rules(it), place: (it) => replay.show(it),
  refused: (it) => said(it.message, "waiting"),
};

function said(text, state) {
  by("state").textContent = text;
  by("state").dataset.state = state;
}

store.changed = () => {
  const { head } = store;
  if (!head.t) return;
  said(`${replay.now ? "recorded" : "live"}, ${new Date(head.t / 1e6).toLocaleTimeString()}`, "live");
  by("name").textContent = head.node;
  by("backend").textContent = head.backend;
  by("access").hidden = Boolean(token());
  document.title = `${head.node} · monitor`;
  by("notes").replaceChildren(...head.notes.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  node.show(head);
  table.update();
  details.show();
};

/** Loads the history of the node from the daemon. */
function begun() {
  node.forget();
  once("/history").then((it) => node.remember(it), () => {});
}

let stop = () => {};
function begin() {
  stop();
  begun();
  stop = listen("/feed", (event, data) => feed[event]?.(data), said);
}
begin();

by("token").addEventListener("click", () => by("ask").showModal());
by("ask").addEventListener("close", () => {
  if (by("ask").returnValue !== "yes") return;
  keep(by("secret").value.trim());
  by("secret").value = "";
  begin();
});

const latency = {
  maps: [
    { of: "block", name: "block_read", title: "Block reads, from submission to completion" },
    { of: "block", name: "block_write", title: "Block writes, from submission to completion" },
    { of: "run-queue", name: "run_queue", title: "Run-queue delay" },
  ],
  stops: [],
  drawn: [],
  open() {
    const place = by("latency");
    place.className = "panel";
    const text = document.createElement("p");
    text.className = "dim";
    text.textContent = "Measured while this panel is open, by hooks that run for each block request and each context switch.";
    const drawn = this.maps.map((it) => ({ ...it, heat: new Heat(it.title) }));
    this.drawn = drawn;
    place.replaceChildren(text, ...drawn.map((it) => it.heat.element));
    this.stops = ["block", "run-queue"].map((of) => listen(`/latency?of=${of}`, (event, sample) => {
      if (event === "refused") text.textContent = sample.message;
      if (!sample.histograms) return;
      const note = sample.notes.find((it) => it.startsWith(`no ${of}`) || it.includes(`, ${of}`));
      const why = note ?? (replay.now ? "not in the recording" : "none counted yet");
      for (const it of drawn.filter((map) => map.of === of)) it.heat.take(sample.histograms[it.name], why);
    }, (why) => { text.textContent = why; }));
  },
  close() { this.stops.forEach((stop) => stop()); [this.stops, this.drawn] = [[], []]; },
};

const tabs = [...document.querySelectorAll("[role=tab]")];
function choose(tab) {
  latency.close();
  cluster.close();
  for (const it of tabs) {
    it.ariaSelected = String(it === tab);
    it.tabIndex = it === tab ? 0 : -1;
    by(it.getAttribute("aria-controls")).hidden = it !== tab;
  }
  if (tab.id === "tab-latency") latency.open();
  if (tab.id === "tab-cluster") cluster.open();
}
tabs.forEach((tab, at) => {
  tab.tabIndex = at ? -1 : 0;
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (it) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[it.key];
    if (!step) return;
    const open = tabs.filter((tab) => !tab.hidden);
    const next = open[(open.indexOf(tab) + step + open.length) % open.length];
    choose(next);
    next.focus();
  });
});

document.addEventListener("keydown", (it) => {
  if (it.key === "Escape" && !by("ask").open) {
    if (details.key) details.close(); else by("words").value && (by("words").value = "", table.filter());
    by("scroll").focus();
  }
  if (it.target instanceof HTMLInputElement || it.ctrlKey || it.metaKey || it.altKey) return;
  if (replay.pressed(it.key)) it.preventDefault();
  if (it.key === "/") { it.preventDefault(); choose(tabs[0]); by("words").focus(); }
  const tab = tabs[Number(it.key) - 1];
  if (tab && !tab.hidden) { choose(tab); tab.focus(); }
});
