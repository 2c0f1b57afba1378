// The page of a chat: lets a visitor in, sends what he says, shows what is answered, finds back after a reload.
//
// Law of this file: a message that was taken is followed to its end, whatever becomes of the connection; what is lost
// on the way is asked for again, and nothing is sent twice.

import { Api, Kept, Refused } from "./chat_api.js";
import { frames, Told } from "./event_stream.js";
import { Answer, asked, complete, make, toEnd, welcome } from "./chat_view.js";

const MOST_FILES = 15;
const MOST_BYTES = 50 * 1024 * 1024;
const TRIES = 6;
const PAUSED_MS = 5000;
const LOST = "The server cannot be reached. Try again.";
/** What programs are told otherwise. */
const WORDS = {
  thread_busy: "The last message is still being answered. Wait for it, or load the page again to follow it.",
  thread_paused: "Something has to be decided before this conversation goes on. Load the page again to see it.",
};

const $ = (id) => document.getElementById(id);
const slug = document.body.dataset.slug;
const api = new Api(slug);
const conversation = new Kept(`studio-conversation:${slug}`);
const later = (ms) => new Promise((done) => setTimeout(done, ms));
let config = null;
let files = [];
let run = null;
let reading = null;
let sending = null;
let wake = () => {};

// -- what is shown -------------------------------------------------------------------------------------------------

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

function only(shown) {
  for (const gate of document.querySelectorAll(".gate")) gate.hidden = gate.id !== shown;
  $("say").hidden = shown !== null;
  $("messages").hidden = shown !== null;
  if (shown) $(shown).querySelector("input, a")?.focus();
}

function busy(is) {
  $("stop").hidden = !is;
  $("send").hidden = is;
  $("anew").disabled = is;
}

function put(element) {
  $("messages").append(element);
  toEnd();
}

/** Look as the chat's owner wants it. Colours are set by the object model, which the page's policy allows. */
function dress() {
  const look = config.customization ?? {};
  document.title = config.title;
  $("title").textContent = config.title;
  $("description").textContent = config.description ?? "";
  $("description").hidden = !config.description;
  const style = document.documentElement.style;
  if (look.primaryColor) {
    document.documentElement.classList.add("branded");
    style.setProperty("--brand", look.primaryColor);
    style.setProperty("--main", look.primaryColor);
    style.setProperty("--on", readable(look.primaryColor));
  }
  if (look.backgroundColor) {
    style.setProperty("--bar", look.backgroundColor);
    style.setProperty("--on-bar", readable(look.backgroundColor));
  }
  const picture = look.logoUrl ?? look.imageUrl;
  if (picture) $("logo").src = picture;
  $("logo").hidden = !picture;
  if (typeof look.placeholder === "string") $("text").placeholder = look.placeholder;
  $("attach").hidden = !config.files;
  $("leave").hidden = config.authType === "public";
}

/** Black or white: what can be read on a colour. */
function readable(colour) {
  const hex = colour.length === 4 ? [...colour.slice(1)].map((digit) => digit + digit).join("") : colour.slice(1);
  const [red, green, blue] = [0, 2, 4].map((place) => {
    const part = parseInt(hex.slice(place, place + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000" : "#fff";
}

// -- one answer ----------------------------------------------------------------------------------------------------

/** Follow a run to its end, from `answer` on. */
async function follow(first, told, view) {
  reading = new AbortController();
  busy(true);
  let answer = first;
  try {
    for (let tries = 0; ; tries += 1) {
      const before = told.last;
      try {
        answer ??= await api.follow(run, told.last, reading.signal);
        if (answer.status === 204 || (await read(answer, told, view))) break;
      } catch (problem) {
        if (problem instanceof Refused && problem.status < 500) throw problem;
        if (tries >= TRIES) throw problem;
      }
      answer = null;
      if (told.last === null) Object.assign(told, new Told());
      else if (told.last !== before) tries = 0; // it got on: what is lost now is lost for the first time
      await later(Math.min(500 * 2 ** tries, 8000));
    }
    await ended(told, view);
  } catch (problem) {
    if (asksIn(problem)) return gate(problem);
    told.state = "failed";
    view.show(told);
    view.say(problem instanceof Refused ? problem.message : "The connection was lost. Load the page again.", "bad");
  } finally {
    busy(false);
  }
}

/** Read frames until the last one; false when the connection has gone before. */
async function read(answer, told, view) {
  for await (const frame of frames(answer)) {
    const last = told.take(frame);
    view.show(told);
    if (last) return true;
  }
  return false;
}

async function ended(told, view) {
  const state = told.state === "done" || told.state === "failed" ? null : await api.run(run);
  if (state?.status === "paused") return waits(state, told, view);
  if (told.state === "working") told.state = state?.error ? "failed" : "done";
  if (state?.error) told.error = state.error;
  view.draw();
  $("live").textContent = told.error ? told.error.message : `Answer: ${told.text().slice(0, 500)}`;
}

/** Something has to be decided: by the visitor, or by others, which is waited for. */
async function waits(state, told, view) {
  let decision = null;
  let answer = null;
  told.state = "paused";
  view.draw();
  view.asks.replaceChildren();
  $("live").textContent = "A decision is needed.";
  for (const pause of state.pauses ?? []) {
    view.ask(pause, (body) => {
      decision = body;
      wake();
    });
  }
  for (let now = state; now.status === "paused" && !answer; now = answer ? now : await standing(now)) {
    if (!decision) await Promise.race([new Promise((done) => (wake = done)), later(PAUSED_MS)]);
    if (!decision) continue;
    const body = decision;
    decision = null;
    view.say("");
    answer = await api.decide(run, body).catch((problem) => {
      view.say(problem instanceof Refused ? problem.message : LOST, "bad");
      view.askAgain();
    });
  }
  told.state = "working";
  view.draw();
  await follow(answer, told, view);
}

/** How the run stands; as before, while that cannot be known. */
async function standing(before) {
  try {
    return await api.run(run);
  } catch (problem) {
    if (problem instanceof Refused && problem.status < 500) throw problem;
    return before;
  }
}

// -- what the visitor does -----------------------------------------------------------------------------------------

async function say() {
  const text = $("text").value;
  if (!$("stop").hidden || (!text.trim() && !files.length)) return;
  notice("");
  busy(true);
  run = null;
  sending = new AbortController();
  const name = conversation.get();
  let answer;
  try {
    const sent = { input: text, ...(files.length && { files: await Promise.all(files.map(packed)) }) };
    if (name) sent.conversationId = name;
    answer = await api.say(sent, sending.signal);
  } catch (problem) {
    busy(false);
    return sending.signal.aborted ? undefined : refused(problem);
  }
  run = answer.headers.get("X-Run-Id");
  if (!name) conversation.set(answer.headers.get("X-Conversation-Id"));
  put(asked(text, files));
  $("text").value = "";
  grow();
  files = [];
  listFiles();
  $("anew").hidden = false;
  const view = new Answer();
  const told = new Told();
  put(view.element);
  view.show(told);
  await follow(answer, told, view);
  $("text").focus();
}

function refused(problem) {
  if (problem instanceof DOMException && problem.name === "NotReadableError") {
    return notice("A file cannot be read. Leave it out, or choose it once more.");
  }
  if (!(problem instanceof Refused)) return notice(LOST);
  if (asksIn(problem)) return gate(problem);
  const wait = problem.status === 429 && problem.retry ? ` Try again in ${words(problem.retry)}.` : "";
  return notice(`${WORDS[problem.code] ?? plain(problem)}${wait}`);
}

/** What is wrong, with the names of files where programs are told their places. */
function plain({ message, details }) {
  const named = details.map(({ path, message: said }) => {
    const file = files[/^files\[(\d+)\]/.exec(path)?.[1]];
    return file && `“${file.name}” ${said}.`;
  });
  return named.length && named.every(Boolean) ? named.join(" ") : message;
}

function words(seconds) {
  if (seconds < 90) return `${seconds} seconds`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} minutes` : `${Math.round(minutes / 60)} hours`;
}

function packed(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done({ name: file.name, type: file.type || undefined, data: reader.result });
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}

function listFiles() {
  $("files").hidden = !files.length;
  $("files").replaceChildren(
    ...files.map((file) => {
      const drop = make("button", "", "×");
      drop.type = "button";
      drop.setAttribute("aria-label", `Leave out ${file.name}`);
      drop.addEventListener("click", () => {
        files = files.filter((other) => other !== file);
        listFiles();
      });
      return make("li", "", make("span", "", file.name), drop);
    }),
  );
}

function grow() {
  const field = $("text");
  field.rows = Math.min(8, field.value.split("\n").length);
}

// -- getting in ----------------------------------------------------------------------------------------------------

let email = "";

function asksIn(problem) {
  return problem instanceof Refused && problem.code.startsWith("auth_required_");
}

/** Ask the visitor in. What was shown goes: who comes in now may be somebody else. */
function gate(problem) {
  $("messages").replaceChildren();
  const kind = problem.code.slice("auth_required_".length);
  if (kind === "sso") {
    const link = $("sso-link");
    link.href = `${api.base}/sso`;
    if (window.top !== window) {
      // Where cookies of a frame are blocked, a sign-in inside of it would be forgotten.
      link.href = location.href;
      link.target = "_blank";
      link.rel = "noopener";
      link.textContent = "Open this chat in a window of its own";
    }
  }
  only(kind);
}

function form(id, act) {
  const element = $(id);
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    const said = element.querySelector(".problem");
    const button = element.querySelector("button.main");
    button.disabled = true;
    said.hidden = true;
    said.textContent = ""; // the field is described by it, hidden or not
    try {
      await act();
    } catch (problem) {
      const wait = problem.retry ? ` Try again in ${words(problem.retry)}.` : "";
      said.textContent = `${gateWords(problem)}${wait}`;
      said.hidden = false;
    } finally {
      button.disabled = false;
    }
  });
}

function gateWords(problem) {
  if (!(problem instanceof Refused)) return LOST;
  if (problem.code === "auth_required_password") return "This password is wrong.";
  if (problem.code === "auth_required_email") return "This code is wrong, or no longer of use.";
  return problem.message;
}

form("password", async () => {
  await api.password($("password-text").value);
  $("password-text").value = "";
  await enter();
});
form("email", async () => {
  email = $("email-text").value.trim();
  const { validMs } = await api.code(email);
  const time = Math.round(validMs / 60000);
  $("code-hint").textContent = `If ${email} may get in, a code is on its way. It is good for ${time} minutes.`;
  only("code");
});
form("code", async () => {
  await api.redeem(email, $("code-text").value.replaceAll(" ", ""));
  $("code-text").value = "";
  await enter();
});
$("another").addEventListener("click", () => only("email"));

// -- from the beginning --------------------------------------------------------------------------------------------

async function enter() {
  try {
    config = await api.config();
  } catch (problem) {
    if (asksIn(problem)) return gate(problem);
    only("none");
    return notice(problem instanceof Refused ? problem.message : "The server cannot be reached. Load the page again.");
  }
  dress();
  only(null);
  if (!$("messages").childElementCount) await recall();
  $("text").focus();
}

/** Show what was said before, and follow what is being answered. */
async function recall() {
  if (config.welcomeMessage) put(welcome(config.welcomeMessage));
  const name = conversation.get();
  if (!name) return;
  let items = [];
  try {
    items = (await api.said(name)).items.reverse();
  } catch (problem) {
    if (problem.status === 404) conversation.set(null);
    else refused(problem);
    return;
  }
  for (const item of items) {
    put(asked(item.input, item.files));
    if (item.endedAt) put(complete(item).element);
  }
  $("anew").hidden = !items.length;
  const open = items.at(-1);
  if (!open || open.endedAt) return;
  run = open.runId;
  const view = new Answer();
  const told = new Told();
  put(view.element);
  view.show(told);
  follow(null, told, view);
}

$("say").addEventListener("submit", (event) => {
  event.preventDefault();
  say();
});
$("text").addEventListener("input", grow);
$("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  say();
});
$("stop").addEventListener("click", () => (run ? api.stop(run).then(() => wake(), refused) : sending.abort()));
$("anew").addEventListener("click", () => {
  conversation.set(null);
  run = null;
  $("messages").replaceChildren();
  $("anew").hidden = true;
  notice("");
  if (config.welcomeMessage) put(welcome(config.welcomeMessage));
  $("text").focus();
});
$("leave").addEventListener("click", async () => {
  try {
    await api.leave();
  } catch (problem) {
    return refused(problem);
  }
  conversation.set(null);
  location.reload();
});
$("file").addEventListener("change", () => {
  const chosen = [...files, ...$("file").files];
  $("file").value = "";
  const bytes = chosen.reduce((sum, file) => sum + file.size, 0);
  if (chosen.length > MOST_FILES || bytes > MOST_BYTES) return notice("At most 15 files, 50 MiB together.");
  notice("");
  files = chosen;
  listFiles();
});

enter();
