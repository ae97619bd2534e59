// Server-sent events by fetch, because an EventSource cannot carry the token in a header and an
// address must not. In: a path and what to do for each event. Begins again when the service does.

const TOKEN = "monitor-token";

export function token() { return sessionStorage.getItem(TOKEN); }

export function keep(text) {
  if (text) sessionStorage.setItem(TOKEN, text); else sessionStorage.removeItem(TOKEN);
}

/** `heard(event, data)` for each; `state(text, "live" | "waiting")` when that changes. */
export function listen(path, heard, state = () => {}) {
  const control = new AbortController();
  (async () => {
    for (let pause = 500; !control.signal.aborted; pause = Math.min(pause * 2, 10000)) {
      try {
        const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
        const answer = await fetch(path, { headers, signal: control.signal, cache: "no-store" });
        if (!answer.ok) {
          state((await answer.text()).trim(), "waiting");
          if (answer.status === 400) return;
          // A token of a service that has ended: what anybody may see is better than nothing.
          if (answer.status === 401 && token()) keep(null);
        } else {
          pause = 500;
          await read(answer.body.getReader(), heard);
          state("the service has ended; waiting for it", "waiting");
        }
      } catch (why) {
        if (!control.signal.aborted) state("the service does not answer; waiting for it", "waiting");
      }
      await new Promise((go) => setTimeout(go, pause));
    }
  })();
  return () => control.abort();
}

/** What a path gives as JSON; nothing, where it gives none. */
export async function once(path) {
  const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
  const answer = await fetch(path, { headers, cache: "no-store" });
  return answer.ok ? answer.json() : null;
}

async function read(reader, heard) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const [event, data] = text.slice(0, end).split("\n");
      heard(event.slice("event: ".length), JSON.parse(data.slice("data: ".length)));
    }
  }
}
