// Makes the filters of /capabilities take effect as they change. Every state has an address, the server makes the
// table of an address, and this only puts the new one in place; without it the form and the links do the same.

const form = document.getElementById("filters");
const QUIET_MS = 150;
let timer = 0;
let asked = null;

/** The address of what the form says, without what it leaves open. */
function address() {
  const parameters = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (value.trim()) parameters.set(name, value.trim());
  }
  const query = parameters.toString();
  return query ? `?${query}` : location.pathname;
}

/** Make the form say what the address says. */
function fill() {
  const parameters = new URLSearchParams(location.search);
  for (const field of form.elements) {
    if (!field.name || field === document.activeElement) continue;
    field.value = parameters.get(field.name) ?? "";
  }
}

/** Put the table of `url` in place of the one that is there. */
async function show(url) {
  asked?.abort();
  const mine = (asked = new AbortController());
  const old = document.getElementById("results");
  const focused = document.activeElement?.dataset.live;
  old.setAttribute("aria-busy", "true");
  let page;
  try {
    const answer = await fetch(url, { signal: mine.signal });
    if (!answer.ok) throw new Error(answer.statusText);
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch (problem) {
    if (mine === asked) location.assign(url); // the browser says what is wrong
    return;
  }
  if (mine !== asked) return;
  // The element stays, so that what watches it (the focus, a screen reader) stays with it.
  old.replaceChildren(...page.getElementById("results").childNodes);
  old.removeAttribute("aria-busy");
  if (focused) old.querySelector(`[data-live="${focused}"]`)?.focus();
}

function go(url, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", url);
  fill();
  return show(url);
}

form.addEventListener("input", (event) => {
  clearTimeout(timer);
  const typing = event.target.type === "search";
  timer = setTimeout(() => go(address(), { replace: typing }), typing ? QUIET_MS : 0);
});

form.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  go(address());
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-live], #clear");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const turned = ["before", "after"].includes(link.dataset.live);
  go(link.href).then(() => turned && document.getElementById("results").scrollIntoView());
});

addEventListener("popstate", () => {
  fill();
  show(location.href);
});

document.documentElement.classList.add("scripted");
