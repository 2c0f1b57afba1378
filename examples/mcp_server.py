"""A small MCP server, written with the official SDK: notes that can be searched and added to.

Named in ``mcp_servers.json``, used by ``mcp.yaml``. It keeps its notes for as long as it runs.
"""

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("notes")
NOTES = [
    "The library is open from nine to five, on Thursdays until eight.",
    "Books are lent for four weeks and may be renewed twice.",
    "The reading room on the second floor is closed for repairs.",
]


def _words(text: str) -> set[str]:
    return {word.strip(".,;:!?").lower() for word in text.split() if len(word) > 3}


@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
def find_notes(words: str) -> str:
    """The notes that have one of the words; those of up to three letters do not count."""
    found = [note for note in NOTES if _words(words) & _words(note)]
    return "\n".join(found) or "No note has any of these words."


@server.tool(structured_output=False)
def add_note(text: str) -> str:
    """Keep one more note."""
    NOTES.append(text)
    return f"There are {len(NOTES)} notes now."


if __name__ == "__main__":
    server.run("stdio")
