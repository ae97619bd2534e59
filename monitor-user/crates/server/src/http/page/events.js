// Server-sent events by fetch, because an EventSource cannot send the token in a header, and a URL
// must not contain it. In: a path and a callback for events. Reconnects when the daemon is back.

const TOKEN = "monitor-token";

export function token() { return sessionStorage.getItem(TOKEN); }

export function keep(text) {
  if (text) sessionStorage.setItem(TOKEN, text); else sessionStorage.removeItem(TOKEN);
}

/** Calls `receive(event, data)` for each event; `state(text, "live" | "waiting")` for changes. */
export function listen(path, receive, state = () => {}) {
  const control = new AbortController();
  (async () => {
    for (let pause = 500; !control.signal.aborted; pause = Math.min(pause * 2, 10000)) {
      try {
        const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
        const answer = await fetch(path, { headers, signal: control.signal, cache: "no-store" });
        if (!answer.ok) {
          state((await answer.text()).trim(), "waiting");
          if (answer.status === 400) return;
          // The token belongs to an earlier daemon: continue with limited access.
          if (answer.status === 401 && token()) keep(null);
        } else {
          pause = 500;
          await read(answer.body.getReader(), receive);
          if (!control.signal.aborted) state("the daemon has stopped; reconnecting", "waiting");
        }
      } catch (why) {
        if (!control.signal.aborted) state("the daemon does not answer; reconnecting", "waiting");
      }
      await new Promise((go) => setTimeout(go, pause));
    }
  })();
  return () => control.abort();
}

/** Fetches JSON; null if the request is refused. */
export async function once(path) {
  const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
  const answer = await fetch(path, { headers, cache: "no-store" });
  return answer.ok ? answer.json() : null;
}

async function read(reader, receive) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const [event, data] = text.slice(0, end).split("\n");
      receive(event.slice("event: ".length), JSON.parse(data.slice("data: ".length)));
    }
  }
}
