"""A ticket system as an MCP server, with a file in place of a database: `tickets.py FILE`."""

import json
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

FILE = Path(sys.argv[1])
PAST = {
    "Checkout is down for everyone": "high",
    "Typo on the help page": "low",
    "Export takes an hour": "normal",
}

server = MCPServer("tickets")


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def search(query: str) -> str:
    """Finds tickets from before that share a word with the query."""
    words = set(query.lower().split())
    found = [
        f"{title} ({priority})"
        for title, priority in PAST.items()
        if words & set(title.lower().split())
    ]
    return "\n".join(found)


@server.tool(annotations=ToolAnnotations(readOnlyHint=False, idempotentHint=False))
def set_priority(id: str, priority: str) -> str:
    """Gives a ticket a priority."""
    if priority not in ("low", "normal", "high"):
        raise ValueError(f"priority is {priority!r}")
    with FILE.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": id, "priority": priority}) + "\n")
    return f"{id} is {priority} now"


server.run()
