"""An MCP server over standard input and output that behaves in every way but well.

`hostile.py HOW JOURNAL`: HOW is what it does at its start and when it is asked for its tools; which tool
is called says what it does then. JOURNAL is a file that gets every line it reads, and `started`.
"""

import json
import os
import subprocess
import sys

HOW, JOURNAL = sys.argv[1], sys.argv[2]
TOOLS = [
    "echo", "die", "hang", "garbage", "long", "values", "refuse", "ask", "change", "leak", "close",
    "orphan", "wrong", "flood",
]


def note(line):
    with open(JOURNAL, "a", encoding="utf-8") as journal:
        journal.write(line + "\n")


def write(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def send(**message):
    write(json.dumps({"jsonrpc": "2.0", **message}))


def text(content):
    return {"content": [{"type": "text", "text": content}]}


def listed(name, **more):
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def tools(cursor):
    if HOW == "many":
        first = int(cursor or 0)
        page = [listed(f"tool_{n}", description="x" * 5000) for n in range(first, first + 100)]
        more = {"nextCursor": str(first + 100)} if first < 900 else {}
        return {"tools": page, **more}
    if HOW == "endless":
        return {"tools": [listed(f"tool_{cursor or 0}")], "nextCursor": str(int(cursor or 0) + 1)}
    if HOW == "empty-pages":
        return {"tools": [], "nextCursor": "again"}
    if HOW == "names":
        names = ["good", "good", "b d", "", "ba*d", "x" * 200]
        broken = listed("broken", inputSchema={"type": "what"})
        return {"tools": [listed(name) for name in names] + [broken]}
    if HOW == "no-list":
        return {"tools": "none"}
    return {"tools": [listed(name) for name in TOOLS]}


def call(identity, name, arguments):
    if name == "echo":
        send(id=identity, result=text(json.dumps(arguments)))
    elif name == "die":
        os._exit(3)
    elif name == "garbage":
        write("this is no message, and hunter2-hidden is in it")
    elif name == "long":
        write("x" * (20 * 1024 * 1024))
    elif name == "values":
        write("[" + "0," * 1_000_000 + "0]")
    elif name == "refuse":
        send(id=identity, error={"code": -32050, "message": "no, for hunter2-hidden"})
    elif name == "ask":
        TOOLS.append("asked")
        PENDING.append(identity)
        send(id="ask", method="sampling/createMessage", params={
            "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
            "maxTokens": 10,
        })
    elif name == "change":
        TOOLS.append("changed")
        send(method="notifications/tools/list_changed")
        send(id=identity, result=text("changed"))
    elif name == "leak":
        names = sorted(os.environ)
        sys.stderr.write("the key is hunter2-hidden\n")
        sys.stderr.flush()
        send(id=identity, result=text(json.dumps([names, os.environ.get("KEY"), os.getcwd()])))
    elif name == "close":
        os.close(1)
    elif name == "orphan":
        # It shares standard output, so that its end is not seen when this process ends.
        child = subprocess.Popen(["sleep", "600"])
        note(f"orphan {child.pid}")
        os._exit(4)
    elif name == "wrong":
        send(id=identity, result=["no result"])
    elif name == "flood":
        for number in range(100_000):
            send(id=number, method="ping")


PENDING = []
note(f"started {os.getpid()}")
if HOW == "dead":
    sys.exit(7)
if HOW == "noise":
    write("Welcome to the server!")
if HOW == "chatty":
    for _ in range(20_000):
        sys.stderr.write("x" * 100 + "\n")
for line in sys.stdin:
    note(line.rstrip("\n"))
    message = json.loads(line)
    method, identity = message.get("method"), message.get("id")
    if HOW == "mute":
        continue
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        send(id=identity, result={
            "protocolVersion": version,
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "hostile", "version": "0"},
        })
    elif method == "tools/list":
        send(id=identity, result=tools((message.get("params") or {}).get("cursor")))
    elif method == "tools/call":
        call(identity, message["params"]["name"], message["params"].get("arguments"))
    elif identity == "ask":
        send(id=PENDING.pop(), result=text(json.dumps(message.get("error"))))
    elif method is not None and identity is not None:
        send(id=identity, error={"code": -32601, "message": "no such method"})
if HOW == "stays":
    # It goes on although nobody can say anything to it.
    subprocess.run(["sleep", "600"], check=False)
