// Draws the Markdown that models write as elements of a page.
//
// Law of this file: text becomes text nodes, never markup: there is no innerHTML here, and an element is only made by
// a name that stands in this file. A link leads to http, https or mailto, else it stays text. Nothing is fetched: an
// image becomes a link. Any text at all is drawn, in time linear in its length.

const SAFE = /^(?:https?:\/\/|mailto:)[^\s\u0000-\u001f]+$/i;
// Each can match a line in one way alone: where two can take the same blanks, a long line takes for ever to refuse.
const FENCE = /^( {0,3})(`{3,}(?!`)|~{3,}(?!~))(?=[^`]*$)\s*([\w+#.-]*)/;
const HEADING = /^ {0,3}(#{1,6})(?:\s|$)/;
const RULE = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const ITEM = /^( {0,9})([-*+]|\d{1,9}[.)])(?:\s+(\S[^]*)?)?$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const ALIGNS = /^ {0,3}\|?(?:\s*:?-+:?\s*\|)*\s*:?-+:?\s*\|?$/;
/** How deep quotes and lists may lie in one another, and how deep words may be marked; deeper they are text. */
const DEEPEST = 8;

/** An element with what is inside: nodes and texts, or lists of them, which may be too long to be arguments. */
function make(name, ...inside) {
  return filled(document.createElement(name), inside.flat());
}

function filled(element, nodes) {
  for (const node of nodes) element.append(node);
  return element;
}

// -- words ---------------------------------------------------------------------------------------------------------

/** What may begin something inside of a line; all else is taken over in one piece. */
const PLAIN = /[^\\`*_~[!<h\n]+/y;
const WORD = /[\p{L}\p{N}_]/u;
const CODE = /(`+)(?!`)/y;
const LINK = /!?\[((?:[^\[\]\\\n]|\\.){0,1000})\]\(\s{0,4}<?([^\s<>()]{1,2000}(?:\([^\s<>()]{0,500}\)[^\s<>()]{0,500})?)>?(?:\s{1,4}"[^"\n]{0,500}")?\s{0,4}\)/y;
const BARE = /https?:\/\/[^\s<>"'`\\]{1,2000}/y;
const ANGLE = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/y;
const MARKS = [
  ["**", "strong"],
  ["__", "strong"],
  ["~~", "del"],
  ["*", "em"],
  ["_", "em"],
];

function at(pattern, text, place) {
  pattern.lastIndex = place;
  return pattern.exec(text);
}

function linked(address, inside) {
  if (!SAFE.test(address)) return null;
  const element = make("a", inside);
  element.href = address;
  element.target = "_blank";
  element.rel = "noopener noreferrer nofollow ugc";
  return element;
}

/** Where what `mark` opens at `place` ends; -1: nowhere. `none` keeps what was looked for in vain. */
function closing(text, place, mark, none) {
  if (none.has(mark) && none.get(mark) <= place) return -1;
  if (/\s/.test(text[place + mark.length] ?? " ")) return -1;
  if (mark[0] === "_" && WORD.test(text[place - 1] ?? " ")) return -1;
  let end = place + mark.length;
  for (;;) {
    end = text.indexOf(mark, end);
    if (end < 0) {
      none.set(mark, place);
      return -1;
    }
    const after = text[end + mark.length] ?? " ";
    const single = mark.length > 1 || (after !== mark && text[end - 1] !== mark);
    const whole = mark[0] !== "_" || !WORD.test(after);
    if (single && whole && !/\s/.test(text[end - 1]) && end > place + mark.length) return end;
    end += mark.length;
  }
}

/** One thing that begins at `place`: [its node, where it ends]; null: what is there is text. */
function special(text, place, depth, none) {
  const sign = text[place];
  if (sign === "\n") return [make("br"), place + 1];
  if (sign === "\\" && /[!-/:-@[-`{-~]/.test(text[place + 1] ?? "")) return [text[place + 1], place + 2];
  if (sign === "`") {
    const ticks = at(CODE, text, place)[1];
    const end = none.has(ticks) ? -1 : text.indexOf(ticks, place + ticks.length);
    if (end < 0) {
      none.set(ticks, place);
      return [ticks, place + ticks.length];
    }
    return [make("code", text.slice(place + ticks.length, end)), end + ticks.length];
  }
  if (sign === "[" || sign === "!") {
    const found = at(LINK, text, place);
    const link = found && linked(found[2], depth > 0 ? words(found[1], depth - 1) : [found[1]]);
    return link ? [link, LINK.lastIndex] : null;
  }
  if (sign === "<" || sign === "h") {
    if (sign === "h" && WORD.test(text[place - 1] ?? " ")) return null;
    const found = at(sign === "<" ? ANGLE : BARE, text, place);
    if (!found) return null;
    const address = sign === "<" ? found[1] : found[0].replace(/[.,;:!?)\]*_~]+$/, "");
    const link = linked(address, [address]);
    return link ? [link, sign === "<" ? ANGLE.lastIndex : place + address.length] : null;
  }
  if (depth <= 0) return null;
  for (const [mark, name] of MARKS) {
    if (!text.startsWith(mark, place)) continue;
    const end = closing(text, place, mark, none);
    if (end >= 0) return [make(name, words(text.slice(place + mark.length, end), depth - 1)), end + mark.length];
  }
  return null;
}

/** The nodes of a text without blocks. */
function words(text, depth = DEEPEST) {
  const nodes = [];
  const none = new Map();
  let plain = "";
  let place = 0;
  const put = (node) => {
    if (typeof node === "string") {
      plain += node;
      return;
    }
    if (plain) nodes.push(plain);
    plain = "";
    nodes.push(node);
  };
  while (place < text.length) {
    const run = at(PLAIN, text, place);
    if (run) {
      plain += run[0];
      place = PLAIN.lastIndex;
      continue;
    }
    const found = special(text, place, depth, none);
    put(found ? found[0] : text[place]);
    place = found ? found[1] : place + 1;
  }
  if (plain) nodes.push(plain);
  return nodes;
}

// -- blocks --------------------------------------------------------------------------------------------------------

function cells(line) {
  const inside = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inside.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function table(head, aligns, rows) {
  const sides = cells(aligns).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "mid" : "end") : ""));
  const draw = (name, line) =>
    make(
      "tr",
      cells(line)
        .slice(0, sides.length)
        .map((cell, column) => {
          const element = make(name, words(cell));
          if (sides[column]) element.className = sides[column];
          return element;
        }),
    );
  const whole = make("table", make("thead", draw("th", head)), make("tbody", rows.map((row) => draw("td", row))));
  const box = make("div", whole);
  box.className = "wide";
  box.tabIndex = 0;
  return box;
}

function fenced(lines, place, found) {
  const [, indent, fence, language] = found;
  const end = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}\\s*$`);
  const inside = [];
  let next = place + 1;
  while (next < lines.length && !end.test(lines[next])) {
    inside.push(lines[next].startsWith(indent) ? lines[next].slice(indent.length) : lines[next]);
    next += 1;
  }
  const code = make("code", inside.join("\n"));
  if (language) code.dataset.language = language;
  const box = make("pre", code);
  box.tabIndex = 0;
  return [box, next + 1];
}

/** One list: [its element, where it ends]. */
function list(lines, place, depth) {
  const first = ITEM.exec(lines[place]);
  const ordered = /\d/.test(first[2]);
  const items = [];
  let next = place;
  while (next < lines.length) {
    const found = ITEM.exec(lines[next]);
    if (!found || /\d/.test(found[2]) !== ordered || found[1].length > first[1].length + 1 || RULE.test(lines[next])) break;
    const indent = found[1].length + found[2].length + 1;
    const inside = [found[3] ?? ""];
    next += 1;
    while (next < lines.length) {
      const line = lines[next];
      const lead = /^ */.exec(line)[0].length;
      const blank = !line.trim();
      if (blank && /^ */.exec(lines[next + 1] ?? "")[0].length < Math.min(indent, 2)) break;
      if (!blank && lead < Math.min(indent, first[1].length + 2) && (ITEM.test(line) || !lines[next - 1].trim() || begins(line))) break;
      inside.push(line.slice(Math.min(lead, indent)));
      next += 1;
    }
    items.push(make("li", depth > 0 ? blocks(inside, depth - 1, true) : inside.join("\n")));
    while (next < lines.length && !lines[next].trim() && ITEM.test(lines[next + 1] ?? "")) next += 1;
  }
  const element = make(ordered ? "ol" : "ul", items);
  if (ordered && parseInt(first[2], 10) !== 1) element.start = parseInt(first[2], 10);
  return [element, next];
}

/** What a heading says, without the signs that may close it. */
function titled(line, [begin]) {
  const text = line.slice(begin.length).trim();
  let end = text.length;
  while (text[end - 1] === "#") end -= 1;
  return end === 0 || /\s/.test(text[end - 1]) ? text.slice(0, end).trimEnd() : text;
}

/** Whether a line begins a block by itself, so that it ends a paragraph. */
function begins(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line);
}

function block(lines, place, depth) {
  const line = lines[place];
  let found = FENCE.exec(line);
  if (found) return fenced(lines, place, found);
  found = HEADING.exec(line);
  // A page has its own heading: what a model calls one begins below it.
  if (found) return [make(`h${Math.min(found[1].length + 1, 6)}`, words(titled(line, found))), place + 1];
  if (RULE.test(line)) return [make("hr"), place + 1];
  if (depth > 0 && QUOTE.test(line)) {
    const inside = [];
    let next = place;
    while (next < lines.length && (found = QUOTE.exec(lines[next]))) {
      inside.push(found[1]);
      next += 1;
    }
    return [make("blockquote", blocks(inside, depth - 1)), next];
  }
  if (depth > 0 && ITEM.test(line)) return list(lines, place, depth);
  if (line.includes("|") && ALIGNS.test((lines[place + 1] ?? "").trimEnd()) && cells(lines[place + 1]).length === cells(line).length) {
    let next = place + 2;
    while (next < lines.length && lines[next].includes("|")) next += 1;
    return [table(line, lines[place + 1], lines.slice(place + 2, next)), next];
  }
  let next = place + 1;
  while (next < lines.length && lines[next].trim() && !begins(lines[next]) && !ITEM.test(lines[next])) next += 1;
  return [make("p", words(lines.slice(place, next).join("\n").trim())), next];
}

function blocks(lines, depth, tight = false) {
  const elements = [];
  let place = 0;
  while (place < lines.length) {
    if (!lines[place].trim()) {
      place += 1;
      continue;
    }
    const [element, next] = block(lines, place, depth);
    elements.push(element);
    place = next;
  }
  // "- one" is no paragraph in a list.
  return tight && elements[0]?.tagName === "P" ? [...elements[0].childNodes, ...elements.slice(1)] : elements;
}

/** The elements of a whole text. */
export function draw(text) {
  return blocks(text.replaceAll("\r\n", "\n").replaceAll("\t", "    ").split("\n"), DEEPEST);
}

/** A text that grows: what cannot change any more is drawn once.
 *
 * A blank line outside of a fence ends what was before it, unless a list goes on after it: so all but what follows the
 * last such line is kept as it is.
 */
export class Growing {
  constructor(element) {
    this.element = element;
    this.reset();
  }

  reset() {
    this.text = "";
    this.settled = 0;
    this.kept = 0;
    this.element.replaceChildren();
  }

  /** Make it show `text`, which begins as what it shows. */
  show(text) {
    this.text = text;
    const end = this.boundary();
    const children = this.element.childNodes;
    while (children.length > this.kept) this.element.lastChild.remove();
    if (end > this.settled) {
      filled(this.element, draw(text.slice(this.settled, end)));
      this.settled = end;
      this.kept = children.length;
    }
    filled(this.element, draw(text.slice(this.settled)));
  }

  boundary() {
    let place = this.settled;
    let found = this.settled;
    let fence = null;
    let loose = false;
    let blank = true;
    while (place < this.text.length) {
      const stop = this.text.indexOf("\n", place);
      if (stop < 0) break;
      const line = this.text.slice(place, stop).replaceAll("\t", "    ");
      const mark = FENCE.exec(line);
      if (fence) {
        if (line.trim().startsWith(fence) && !line.trim().replaceAll(fence[0], "")) fence = null;
      } else if (mark) fence = mark[2];
      else if (!line.trim()) {
        if (!loose) found = stop + 1;
      } else loose = ITEM.test(line) || /^ {2,}/.test(line) || (loose && !blank && !begins(line));
      blank = !line.trim();
      place = stop + 1;
    }
    return found;
  }
}
