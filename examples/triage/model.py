"""A stand-in for a language model that speaks the wire format of OpenAI: whoever has no key can try a skill.

It says on its first line where it listens. What is on fire is urgent to it, and nothing else is. Whoever talks
with it is told what was said. Where it is offered tools, it takes two of them in each turn, others in the next, before it answers, and at length. To the same
conversation it always says the same, in one piece or word by word.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = 200


def judged(messages):
    ticket = messages[-1]["content"]
    if not isinstance(ticket, str):
        ticket = "".join(part.get("text", "") for part in ticket)
    first = ticket.split("\n\n")[0]
    urgent = any(word in first.lower() for word in ("down", "fire", "lost"))
    text = first.split("\n", 1)[-1]
    return json.dumps({"priority": "high" if urgent else "normal", "summary": text[:500]})


def replied(messages):
    asked = [message["content"] for message in messages if message["role"] == "user"]
    said = [text if isinstance(text, str) else "".join(part.get("text", "") for part in text) for text in asked]
    return f"That is {len(said)} of your messages so far: " + "; ".join(said)


def used(tool, identity, about):
    arguments = json.dumps({"about": about, "call": identity})
    return {"id": identity, "type": "function", "function": {"name": tool, "arguments": arguments}}


def talked(messages, tools):
    asked = [message["content"] for message in messages if message["role"] == "user"]
    turn = len(asked)
    if messages[-1]["role"] == "user":
        taken = [tools[(2 * turn - 2 + n) % len(tools)]["function"]["name"] for n in (0, 1)]
        calls = [used(tool, f"{turn}.{n}", asked[-1]) for n, tool in enumerate(taken)]
        return "Let me see.", calls
    told = "; ".join(message["content"] for message in messages if message["role"] == "tool")
    return " ".join(f"{turn}.{n}" for n in range(WORDS)) + f" {told}", []


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        request = json.loads(body)
        messages = request["messages"]
        if self.path != "/v1/chat/completions" or messages[0]["role"] != "system":
            error = {"error": {"message": "expected a system prompt", "type": "invalid"}}
            self.answer(400, "application/json", json.dumps(error))
            return
        tools = request.get("tools")
        if tools:
            text, calls = talked(messages, tools)
        elif "response_format" in request:
            text, calls = judged(messages), []
        else:
            text, calls = replied(messages), []
        usage = {
            "prompt_tokens": len(body) // 4,
            "completion_tokens": len(text) // 4,
            "total_tokens": (len(body) + len(text)) // 4,
        }
        reason = "tool_calls" if calls else "stop"
        if request.get("stream"):
            self.answer(200, "text/event-stream", self.pieces(request, text, calls, reason, usage))
            return
        message = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": reason}
        whole = self.part(request, "chat.completion", [choice], usage)
        self.answer(200, "application/json", whole)

    def pieces(self, request, text, calls, reason, usage):
        deltas = [{"content": word} for word in text.replace(" ", " \0").split("\0")]
        deltas += [{"tool_calls": [{"index": n, **call}]} for n, call in enumerate(calls)]
        choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
        choices.append([{"index": 0, "delta": {}, "finish_reason": reason}])
        kind = "chat.completion.chunk"
        parts = [self.part(request, kind, choice, None) for choice in choices]
        parts += [self.part(request, kind, [], usage), "[DONE]"]
        return "".join(f"data: {part}\n\n" for part in parts)

    def part(self, request, kind, choices, usage):
        head = {"id": "chatcmpl-1", "object": kind, "created": 0, "model": request["model"]}
        return json.dumps({**head, "choices": choices, "usage": usage})

    def answer(self, status, kind, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        # Whoever asks may be gone before the end, which is nobody's fault.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


server = Server(("127.0.0.1", 0), Model)
print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
server.serve_forever()
