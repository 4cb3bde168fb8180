"""An MCP server made with the official Python package."""

import asyncio
from typing import Any

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("friendly")


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def wait(seconds: float) -> str:
    """Waits for a while."""
    await asyncio.sleep(seconds)
    return "waited"


@server.tool()
def fail() -> Any:
    """Fails."""
    raise ValueError("it failed")


server.run()
