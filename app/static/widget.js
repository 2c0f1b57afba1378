// Puts a chat on a page of another site, behind a button:
//   <script src="https://studio.example.org/static/widget.js" data-chat="help" defer></script>
// data-label: what the button says to those who cannot see it. data-open: it is open at first.
//
// Law of this file: it runs in somebody else's page, so it makes one element with a shadow of its own, takes no name
// there, reads nothing of the page and is told nothing by the frame.
{
  const script = document.currentScript;
  const slug = script?.dataset.chat ?? "";
  if (/^[a-z0-9-]{1,100}$/.test(slug)) {
    const address = new URL(`../chat/${slug}`, script.src).href;
    const label = script.dataset.label ?? "Chat";
    const host = document.createElement("div");
    const shadow = host.attachShadow({ mode: "closed" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(`
      :host { all: initial; position: fixed; right: 1rem; bottom: 1rem; z-index: 2147483000; color-scheme: light dark; }
      button { position: absolute; right: 0; bottom: 0; width: 3.5rem; height: 3.5rem; border: 0; border-radius: 50%;
        background: #1f5fbf; color: #fff; cursor: pointer; box-shadow: 0 2px 10px #0005; }
      button:focus-visible { outline: 3px solid #1f5fbf; outline-offset: 2px; box-shadow: 0 0 0 6px #fff; }
      svg { width: 1.6rem; height: 1.6rem; }
      iframe { position: fixed; right: 1rem; bottom: 5.25rem; width: min(25rem, calc(100vw - 2rem));
        height: min(38rem, calc(100vh - 6.5rem)); border: 1px solid #8885; border-radius: .75rem;
        background: Canvas; box-shadow: 0 4px 24px #0004; }
      iframe[hidden] { display: none; }
      @media (max-width: 30rem) {
        /* A frame does not fill its inset by itself: an automatic height would be 150 pixels. */
        iframe { inset: 0 0 auto; width: 100%; height: calc(100% - 5.25rem); box-sizing: border-box; border-radius: 0;
          border-width: 0 0 1px; }
      }`);
    shadow.adoptedStyleSheets = [sheet];
    const button = document.createElement("button");
    button.type = "button";
    const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    drawing.setAttribute("viewBox", "0 0 24 24");
    drawing.setAttribute("aria-hidden", "true");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
    line.setAttribute("fill", "none");
    line.setAttribute("stroke", "currentColor");
    line.setAttribute("stroke-width", "2");
    line.setAttribute("stroke-linejoin", "round");
    drawing.append(line);
    button.append(drawing);
    let frame = null;
    const show = (open) => {
      if (open && !frame) {
        // Only now: a page pays for the chat when somebody wants it.
        frame = document.createElement("iframe");
        frame.src = address;
        frame.title = label;
        frame.allow = "clipboard-write";
        shadow.append(frame);
      }
      if (frame) frame.hidden = !open;
      button.setAttribute("aria-expanded", String(open));
      button.setAttribute("aria-label", open ? `Close: ${label}` : label);
      line.setAttribute("d", open ? "M6 6l12 12M18 6L6 18" : "M4 5h16v11H10l-5 4v-4H4z");
    };
    button.addEventListener("click", () => show(!frame || frame.hidden));
    host.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        show(false);
        button.focus();
      }
    });
    shadow.append(button);
    show("open" in script.dataset);
    (document.body ?? document.documentElement).append(host);
  } else {
    console.error('studio widget: data-chat must name a chat, as in data-chat="help"');
  }
}
