"""Who may see what, where: by reader and output the classes of marks that may be in it.

Law of this room: this is what the contract says, written down a second time and by hand; nothing here asks the program.
Whatever is not in a row must not be there. Redacted personal data (``P``) and secrets (``s``) are in no row.
"""

from __future__ import annotations

from collections.abc import Mapping

#: What a key may know of a run of its own, once it is over: arguments and results, names and models, never a prompt.
_RUN = "wnmarxeqil"

#: By reader and output. ``t`` is added where thinking was asked for and may be had.
MAY: Mapping[tuple[str, str], str] = {
    # A visitor of a chat.
    ("visitor", "live"): "wg",
    ("visitor", "text"): "w",
    ("visitor", "json"): "w",
    ("visitor", "run"): "wqi",
    ("visitor", "conversation"): "wqil",
    ("visitor", "page"): "h",
    ("visitor", "gate"): "",
    ("visitor", "letter"): "",
    ("visitor", "token"): "u",
    ("other visitor", "any"): "",
    # Somebody without a key, of a public workflow.
    ("nobody", "live"): "wg",
    ("nobody", "text"): "w",
    ("nobody", "json"): "w",
    ("nobody", "runs"): "wqg",
    ("nobody", "graph"): "wq",
    ("nobody", "topology"): "",
    ("nobody", "open"): "",
    ("nobody", "models"): "mz",
    # Whoever sent it may read it again; it is nowhere else.
    ("sender", "refused"): "b",
    # The key that started the run.
    ("own", "live"): _RUN + "g",
    ("own", "text"): _RUN,
    ("own", "json"): _RUN,
    ("own", "runs"): _RUN + "g",
    ("own", "graph"): _RUN,
    ("own", "topology"): "n",
    ("own", "record"): _RUN + "g",
    ("own", "list"): _RUN,
    ("own", "decisions"): "qwarnd",
    ("own", "memory"): "wip",
    ("own", "files"): "fl",
    # Another key with the same scope.
    ("stranger", "any"): "",
    # A key that may read everything.
    ("read", "record"): _RUN + "gv",
    ("read", "list"): _RUN + "v",
    ("read", "live"): _RUN + "g",
    ("read", "text"): _RUN,
    ("read", "runs"): _RUN + "g",
    ("read", "graph"): _RUN,
    ("read", "decisions"): "qwarnd",
    ("read", "memory"): "wip",
    ("read", "document"): "nmpdcarqwezxi",
    # A key that may do everything.
    ("admin", "builder"): "nmpdcarwgqiextl",
    ("admin", "audit"): "n",
    ("admin", "chat"): "hu",
    # Whoever has the link to a decision.
    ("link", "decide"): "qwarn",
    # Operators.
    ("operator", "log"): "nme",
    ("operator", "metrics"): "nm",
    ("operator", "spans"): "nm",
    ("operator", "spans with content"): "nmpdargwqixel",
    ("operator", "chats"): "hu",
    ("operator", "files"): "fl",
    ("operator", "rows"): "nmarxewgqivpdl",
    ("operator", "kept rows"): "nmarxewgqivpdtcl",
}
