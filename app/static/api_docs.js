// The page of the API is whole without this: here it is filtered, what an address points to is opened, and requests
// are sent. A key is read from its field when a request is sent and is kept nowhere else. All that comes back is text.

const search = document.getElementById("search");
const key = document.getElementById("key");
const count = document.getElementById("count");
const entries = [...document.querySelectorAll(".operation, .schema")];
const texts = new Map(entries.map((entry) => [entry, entry.textContent.toLowerCase().replace(/\s+/g, " ")]));
const links = new Map([...document.querySelectorAll("nav [data-of]")].map((item) => [item.dataset.of, item]));
/** Characters of an answer that are shown; a stream may have no end. */
const MOST_SHOWN = 200_000;

document.documentElement.classList.add("scripted");
if (matchMedia("(max-width: 60rem)").matches) document.querySelector("nav details").open = false;

// -- search and addresses

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const [entry, text] of texts) {
    const fits = words.every((word) => text.includes(word));
    entry.hidden = !fits;
    const link = links.get(entry.id);
    if (link) link.hidden = !fits;
    if (fits && entry.classList.contains("operation")) shown += 1;
  }
  for (const group of document.querySelectorAll("[data-group], #schemas")) {
    const parts = [...group.querySelectorAll(".operation, .schema, [data-of]")];
    group.hidden = parts.every((part) => part.hidden);
  }
  count.textContent = words.length ? `${shown} ${shown === 1 ? "route" : "routes"}` : "";
}

/** Open what the address names, also when a search had hidden it. */
function reveal() {
  const wanted = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!wanted) return;
  if (wanted.hidden || wanted.closest("[hidden]")) {
    search.value = "";
    filter();
  }
  if (wanted.tagName === "DETAILS") wanted.open = true;
  wanted.scrollIntoView();
}

search.addEventListener("input", filter);
document.getElementById("tools").addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", reveal);
reveal();

// -- trying

/** What the fields of a form say: [address, options of fetch]. */
function asked(form) {
  const { method, path } = form.closest(".operation").dataset;
  let address = path;
  const query = new URLSearchParams();
  const headers = new Headers();
  const options = { method, headers, credentials: "omit", cache: "no-store" };
  for (const field of form.querySelectorAll("[data-in]")) {
    const { in: place, name, media } = field.dataset;
    const value = field.value;
    if (place === "path") address = address.replace(`{${name}}`, encodeURIComponent(value));
    else if (place === "body" && value.trim()) {
      options.body = value;
      headers.set("Content-Type", media);
    } else if (value !== "" && place === "query") query.set(name, value);
    else if (value !== "" && place === "header") headers.set(name, value);
  }
  if (key.value) headers.set("X-API-Key", key.value);
  const asking = query.toString();
  // The page lies one level below the root, which need not be that of the host.
  return [new URL(`../${address.slice(1)}${asking && `?${asking}`}`, location.href), options];
}

/** The body of an answer as it comes in. */
async function read(answer, got) {
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    text += done ? decoder.decode() : decoder.decode(value, { stream: true });
    got.textContent = text.slice(0, MOST_SHOWN);
    got.hidden = !text;
    if (text.length > MOST_SHOWN) {
      await reader.cancel();
      return `${text.slice(0, MOST_SHOWN)}\n… (more was not read)`;
    }
    if (done) return text;
  }
}

function pretty(text, type) {
  if (!type.includes("json")) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function send(form) {
  const outcome = form.querySelector(".outcome");
  const got = form.querySelector(".got");
  const stop = form.querySelector(".stop");
  const cancel = new AbortController();
  const begun = performance.now();
  const since = () => `${Math.round(performance.now() - begun)} ms`;
  stop.onclick = () => cancel.abort();
  stop.hidden = false;
  got.textContent = "";
  got.hidden = true;
  outcome.textContent = "Sent …";
  try {
    const [address, options] = asked(form);
    const answer = await fetch(address, { ...options, signal: cancel.signal });
    const type = answer.headers.get("Content-Type") ?? "";
    outcome.textContent = `${answer.status} · ${type || "no body"} · first byte after ${since()}`;
    const text = answer.body ? await read(answer, got) : "";
    got.textContent = pretty(text, type);
    outcome.textContent = `${answer.status} · ${type || "no body"} · ${since()}`;
  } catch (problem) {
    outcome.textContent = cancel.signal.aborted ? `Stopped after ${since()}` : `Not sent: ${problem.message}`;
  } finally {
    stop.hidden = true;
  }
}

for (const form of document.querySelectorAll(".try")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
}
