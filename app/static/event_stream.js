// Reads agent events: frames of an answer as they come, and what they say of a message.
//
// Law of this file: pure but for reading. It knows the frames of `agent-events-v1` and nothing of a page.

/** The frames of an answer: `{id, data}`, comments left out. */
export async function* frames(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      let end;
      while ((end = rest.indexOf("\n\n")) >= 0) {
        const lines = rest.slice(0, end).split("\n");
        rest = rest.slice(end + 2);
        const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
        const data = field("data");
        if (data !== undefined) yield { id: field("id"), data: JSON.parse(data) };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** One message as the frames tell it. `state`: working, done, paused, failed; `cut`: its connection has gone. */
export class Told {
  constructor() {
    this.texts = new Map();
    this.thinking = new Map();
    this.tools = new Map();
    this.lost = new Set();
    this.state = "working";
    this.last = null;
    this.final = null;
    this.error = null;
  }

  /** Take one frame; true when it was the last. */
  take({ id, data }) {
    if (id) this.last = id;
    if (data === "[DONE]") return true;
    switch (data.event) {
      case undefined:
        this.texts.set(data.blockId, (this.texts.get(data.blockId) ?? "") + data.chunk);
        break;
      case "chunk_reset":
        this.texts.delete(data.blockId);
        break;
      case "thinking":
        this.thinking.set(data.blockId, (this.thinking.get(data.blockId) ?? "") + data.data);
        break;
      case "tool":
        this.tools.set(`${data.blockId} ${data.id}`, {
          name: data.name,
          status: data.phase === "start" ? "running" : data.status,
        });
        break;
      case "gap": // what stands follows
        this.texts.clear();
        this.thinking.clear();
        break;
      case "stream_error":
        this.lost.add(data.blockId);
        break;
      case "final":
        this.final = data.data;
        this.state = data.data.status === "paused" ? "paused" : "done";
        break;
      case "error":
        this.error = { code: data.code, message: data.error };
        this.state = "failed";
        break;
      default: // what we do not know changes nothing
    }
    return false;
  }

  /** Everything that stands, block by block. */
  text() {
    return [...this.texts.values()].filter(Boolean).join("\n\n");
  }

  /** Values that were selected and are no text of a block. */
  values() {
    return values(this.final?.output);
  }
}

/** What an output holds, `[name, value]`, but for what is empty. */
export function values(output) {
  if (!output || typeof output !== "object") return [];
  const all = Object.values(output).flatMap((paths) => (paths && typeof paths === "object" ? Object.entries(paths) : []));
  return all.filter(([, value]) => value !== "" && value !== null);
}
