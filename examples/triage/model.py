"""A stand-in for a language model that speaks the wire format of OpenAI: whoever has no key can try a skill.

It says on its first line where it listens. What is on fire is urgent to it, and nothing else is.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def judged(messages):
    ticket = messages[-1]["content"]
    if not isinstance(ticket, str):
        ticket = "".join(part.get("text", "") for part in ticket)
    first = ticket.split("\n\n")[0]
    urgent = any(word in first.lower() for word in ("down", "fire", "lost"))
    text = first.split("\n", 1)[-1]
    return {"priority": "high" if urgent else "normal", "summary": text[:500]}


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        request = json.loads(body)
        if self.path != "/v1/chat/completions" or request["messages"][0]["role"] != "system":
            self.answer(400, {"error": {"message": "expected a system prompt", "type": "invalid"}})
            return
        content = json.dumps(judged(request["messages"]))
        self.answer(
            200,
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 0,
                "model": request["model"],
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": content},
                        "finish_reason": "stop",
                    }
                ],
                "usage": {
                    "prompt_tokens": len(body) // 4,
                    "completion_tokens": len(content) // 4,
                    "total_tokens": (len(body) + len(content)) // 4,
                },
            },
        )

    def answer(self, status, value):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
server.serve_forever()
