"""An MCP server over standard input and output whose effects can be counted: `counting.py EFFECTS [MOMENT N]`.

The effect of a call is one line that is appended to the file EFFECTS and synced: the tool's name and the
arguments, as JSON. With MOMENT, `before` or `after`, it kills the process that started it in the N-th call
that it gets: before the effect, or after the effect and before the answer; the tool `fatal` always does the
latter. While it lives it holds a shared
lock on EFFECTS, so that whoever gets an exclusive one knows that no effect is still to come.
"""

import fcntl
import json
import os
import signal
import sys

EFFECTS = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
fcntl.flock(EFFECTS, fcntl.LOCK_SH)
MOMENT, NUMBER = (sys.argv[2], int(sys.argv[3])) if len(sys.argv) > 2 else ("", 0)
STARTED_BY = os.getppid()
# What a repetition of each tool would do, as its annotations say.
TOOLS = {
    "fatal": {"readOnlyHint": True},
    "idempotent": {"idempotentHint": True},
    "read": {"readOnlyHint": True},
    "search": {"readOnlyHint": True},
    "set_priority": {"idempotentHint": False},
    "write": {"idempotentHint": False},
}


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def end_the_caller(name, moment, number):
    if (moment, number) == (MOMENT, NUMBER) or (name, moment) == ("fatal", "after"):
        os.kill(STARTED_BY, signal.SIGKILL)
        # Nobody is left to be answered.
        os._exit(0)


def call(number, name, arguments):
    text = json.dumps({"tool": name, "arguments": arguments}, sort_keys=True)
    end_the_caller(name, "before", number)
    os.write(EFFECTS, f"{text}\n".encode())
    os.fsync(EFFECTS)
    end_the_caller(name, "after", number)
    return {"content": [{"type": "text", "text": f"did {text}"}]}


def listed(name, annotations):
    schema = {"type": "object"}
    return {"name": name, "description": name, "inputSchema": schema, "annotations": annotations}


calls = 0
for line in sys.stdin:
    message = json.loads(line)
    method, identity = message.get("method"), message.get("id")
    if method == "initialize":
        send(id=identity, result={
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "counting", "version": "0"},
        })
    elif method == "tools/list":
        send(id=identity, result={"tools": [listed(*tool) for tool in TOOLS.items()]})
    elif method == "tools/call":
        calls += 1
        params = message["params"]
        send(id=identity, result=call(calls, params["name"], params.get("arguments")))
    elif method is not None and identity is not None:
        send(id=identity, error={"code": -32601, "message": "no such method"})
