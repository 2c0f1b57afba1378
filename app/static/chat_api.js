// Calls the routes of one chat, as the visitor whose browser this is.
//
// Law of this file: in a page of its own the browser's cookie says who the visitor is, and no script sees it. Inside a
// frame of another site cookies may be blocked, so there a signed token travels in a header, kept for the site
// that shows the frame. A message has a key of its own, by which the server knows it again: one whose answer was lost is
// sent once more, and answered once.

const HEADER = "X-Studio-Visitor";
const KEY = "Idempotency-Key";
const TRIES = 3;
const PROTOCOL = { "X-Studio-Stream-Protocol": "agent-events-v1" };

/** What the server said no to. `code` is its stable code; `retry` seconds. */
export class Refused extends Error {
  constructor(status, body, headers) {
    super(body?.error?.message ?? "The server does not answer as it should. Try again later.");
    this.status = status;
    this.code = body?.error?.code ?? "";
    this.details = body?.error?.details ?? [];
    this.retry = Number(headers.get("Retry-After")) || 0;
  }
}

/** What a browser may or may not keep for us. */
export class Kept {
  constructor(name) {
    this.name = name;
    this.here = null;
  }

  get() {
    try {
      return localStorage.getItem(this.name) ?? this.here;
    } catch {
      return this.here;
    }
  }

  set(value) {
    this.here = value;
    try {
      if (value === null) localStorage.removeItem(this.name);
      else localStorage.setItem(this.name, value);
    } catch {
      // for as long as the page is open, then
    }
  }
}

/** A key that nobody guesses, also on a page that came over plain HTTP. */
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Whether nobody can say what became of a request: no answer of the server came back, or none yet. */
function isLost(problem) {
  if (!(problem instanceof Refused)) return true;
  return problem.code === "idempotency_pending" || (!problem.code && [502, 504].includes(problem.status));
}

/** Whether this browser keeps nothing by which it could be known again. */
function isNobody(problem) {
  if (!(problem instanceof Refused) || problem.code !== "not_supported") return false;
  return problem.details.some(({ path }) => path === KEY);
}

export class Api {
  constructor(slug) {
    this.base = new URL(`../api/chat/${slug}`, location.href).href;
    this.token = window.top === window ? null : new Kept(`studio-visitor:${slug}`);
    this.unanswered = null;
  }

  async call(method, path, { body, headers, signal } = {}) {
    const sent = { ...headers };
    if (body !== undefined) sent["Content-Type"] = "application/json";
    if (this.token) sent[HEADER] = this.token.get() ?? "";
    const answer = await fetch(this.base + path, {
      method,
      signal,
      headers: sent,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
    });
    const token = answer.headers.get(HEADER);
    if (this.token && token !== null) this.token.set(token || null);
    if (answer.ok) return answer;
    throw new Refused(answer.status, await answer.json().catch(() => null), answer.headers);
  }

  async json(method, path, more) {
    const answer = await this.call(method, path, more);
    return answer.status === 204 ? null : answer.json();
  }

  config() {
    return this.json("GET", "");
  }

  /** Say something. What was said before and never answered, word for word, is the same message. */
  async say(body, signal) {
    const text = JSON.stringify(body);
    if (this.unanswered?.text !== text) this.unanswered = { text, key: newKey() };
    const headers = { ...PROTOCOL, [KEY]: this.unanswered.key };
    for (let tries = 1; ; tries += 1) {
      try {
        const answer = await this.call("POST", "", { body, signal, headers });
        this.unanswered = null;
        return answer;
      } catch (problem) {
        if (signal.aborted) throw problem;
        if (headers[KEY] && isNobody(problem)) {
          delete headers[KEY];
          continue;
        }
        if (!isLost(problem)) this.unanswered = null;
        if (!headers[KEY] || tries >= TRIES || !isLost(problem)) throw problem;
      }
      await new Promise((done) => setTimeout(done, 500 * tries));
    }
  }

  /** The rest of a run, or all of it. */
  follow(run, last, signal) {
    const headers = last ? { "Last-Event-ID": last } : {};
    return this.call("GET", `/runs/${run}/events`, { headers, signal });
  }

  run(run) {
    return this.json("GET", `/runs/${run}`);
  }

  stop(run) {
    return this.json("POST", `/runs/${run}/cancel`, { body: {} });
  }

  decide(run, body, signal) {
    return this.call("POST", `/runs/${run}/resume`, { body, signal, headers: PROTOCOL });
  }

  said(conversation, cursor) {
    const query = cursor ? `?cursor=${encodeURIComponent(cursor)}` : "";
    return this.json("GET", `/conversations/${encodeURIComponent(conversation)}${query}`);
  }

  password(password) {
    return this.json("POST", "/session", { body: { password } });
  }

  leave() {
    return this.json("DELETE", "/session", {});
  }

  code(email) {
    return this.json("POST", "/otp", { body: { email } });
  }

  redeem(email, otp) {
    return this.json("PUT", "/otp", { body: { email, otp } });
  }
}
