// Draws messages: what a visitor said, and what is told of the answer.
//
// Law of this file: every text of a visitor, a model or a tool becomes a text node, or goes through markdown.js.

import { values } from "./event_stream.js";
import { Growing } from "./markdown.js";

const TOOL_WORDS = { running: "is used", success: "was used", error: "failed", cancelled: "was stopped" };

const EMPTY = "The answer is empty.";

export function make(name, kind, ...inside) {
  const element = document.createElement(name);
  if (kind) element.className = kind;
  element.append(...inside);
  return element;
}

/** Whether the reader looks at the end, so that what is added may move the page. */
function atEnd() {
  const page = document.scrollingElement;
  return page.scrollHeight - page.scrollTop - page.clientHeight < 80;
}

function toEnd() {
  document.scrollingElement.scrollTop = document.scrollingElement.scrollHeight;
}

/** What the visitor said. */
export function asked(text, files = []) {
  const inside = text ? [make("div", "words", text)] : [];
  if (files.length) inside.push(make("ul", "names", ...files.map((file) => make("li", "", file.name))));
  return make("section", "message asked", make("h2", "unseen", "You"), ...inside);
}

/** An answer that grows as it is told. */
export class Answer {
  constructor(welcome = false) {
    this.thoughts = make("pre", "thoughts");
    this.thinking = make("details", "thinking", make("summary", "", "Thinking"), this.thoughts);
    this.thinking.hidden = true;
    this.tools = make("ul", "tools");
    this.tools.hidden = true;
    this.body = make("div", "text");
    this.more = make("div", "more");
    this.asks = make("div", "asks");
    this.foot = make("p", "foot");
    this.foot.hidden = true;
    this.element = make(
      "section",
      "message answer",
      make("h2", "unseen", welcome ? "Welcome" : "Answer"),
      this.thinking,
      this.tools,
      this.body,
      this.more,
      this.asks,
      this.foot,
    );
    this.growing = new Map();
    this.due = 0;
    this.cost = 0;
    this.told = null;
  }

  /** Show how it stands; at most once in a frame of the screen, and what is long less often, so that the page is free. */
  show(told) {
    const first = !this.told;
    this.told = told;
    if (first) return this.draw();
    if (this.due) return;
    const soon = () =>
      requestAnimationFrame(() => {
        this.due = 0;
        this.draw();
      });
    this.due = setTimeout(soon, this.cost < 10 ? 0 : 3 * this.cost);
  }

  draw() {
    const told = this.told;
    if (!told) return;
    const began = performance.now();
    const follow = atEnd();
    this.drawTexts(told);
    this.drawAside(told);
    if (told.state !== "paused") this.asks.replaceChildren();
    this.element.classList.toggle("working", told.state === "working");
    this.element.setAttribute("aria-busy", String(told.state === "working"));
    if (follow) toEnd();
    this.cost = performance.now() - began;
  }

  drawTexts(told) {
    for (const [block, grown] of this.growing) {
      if (told.texts.get(block)) continue;
      grown.element.remove();
      this.growing.delete(block);
    }
    for (const [block, text] of told.texts) {
      if (!text) continue;
      let grown = this.growing.get(block);
      if (!grown) {
        grown = new Growing(make("div", "block"));
        this.growing.set(block, grown);
        this.body.append(grown.element);
      }
      if (!text.startsWith(grown.text)) grown.reset();
      if (grown.text !== text) grown.show(text);
    }
  }

  drawAside(told) {
    const thoughts = [...told.thinking.values()].join("\n\n");
    this.thinking.hidden = !thoughts;
    if (this.thoughts.textContent !== thoughts) this.thoughts.textContent = thoughts;
    this.tools.hidden = !told.tools.size;
    this.tools.replaceChildren(
      ...[...told.tools.values()].map((tool) =>
        make("li", tool.status, make("code", "", tool.name), ` ${TOOL_WORDS[tool.status] ?? ""}`),
      ),
    );
    this.more.replaceChildren(
      ...told.values().map(([name, value]) =>
        make(
          "div",
          "value",
          make("p", "label", name),
          make("pre", "", typeof value === "string" ? value : JSON.stringify(value, null, 2)),
        ),
      ),
    );
    if (told.error) this.say(told.error.message, "bad");
    else if (told.state === "done" && !told.text() && !told.values().length) this.say(EMPTY);
  }

  /** A line below it. */
  say(text, kind = "") {
    this.foot.textContent = text;
    this.foot.className = `foot ${kind}`;
    this.foot.hidden = !text;
  }

  /** Something to decide below it: `decide(body)` is called with the answer. */
  ask(pause, decide) {
    const { review } = pause;
    const draft = typeof review.draft === "string" ? review.draft : "";
    const form = make("form", "review", make("h3", "", review.prompt || "A decision is needed"));
    if (!pause.yours) {
      form.append(make("p", "", "Somebody else has to decide before this goes on."));
      this.asks.append(form);
      return;
    }
    const text = make("textarea");
    text.value = draft;
    text.rows = Math.min(12, draft.split("\n").length + 1);
    text.setAttribute("aria-label", "The text to decide about; it can be changed");
    const send = (decision) => () => {
      form.querySelectorAll("button").forEach((button) => (button.disabled = true));
      const changed = decision === "approve" && text.value !== draft;
      decide({ pauseId: pause.pauseId, decision: changed ? "edit" : decision, ...(changed && { text: text.value }) });
    };
    const yes = make("button", "main", "Approve");
    const no = make("button", "", "Reject");
    for (const [button, decision] of [
      [yes, "approve"],
      [no, "reject"],
    ]) {
      button.type = "button";
      button.addEventListener("click", send(decision));
    }
    if (draft) form.append(text);
    form.append(make("div", "row", yes, no));
    this.asks.append(form);
  }

  /** What was decided has not been taken. */
  askAgain() {
    this.asks.querySelectorAll("button").forEach((button) => (button.disabled = false));
  }
}

/** An answer that is complete, from what was kept of it. */
export function complete(item) {
  const answer = new Answer();
  for (const [place, { text }] of item.answers.entries()) {
    const grown = new Growing(make("div", "block"));
    answer.growing.set(String(place), grown);
    answer.body.append(grown.element);
    grown.show(text);
  }
  const rest = values(item.output);
  answer.more.append(
    ...rest.map(([name, value]) =>
      make(
        "div",
        "value",
        make("p", "label", name),
        make("pre", "", typeof value === "string" ? value : JSON.stringify(value, null, 2)),
      ),
    ),
  );
  if (item.error) answer.say(item.error.message, "bad");
  else if (!item.answers.length && !rest.length) answer.say(EMPTY);
  return answer;
}

/** The welcome message. */
export function welcome(text) {
  const answer = new Answer(true);
  const grown = new Growing(make("div", "block"));
  answer.body.append(grown.element);
  grown.show(text);
  return answer.element;
}

export { toEnd };
