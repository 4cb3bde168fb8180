"""Stands between a daemon and whatever carries an execution out.

`worker.py bridge SOCKET` hands each frame to a test, as a line, and takes the test's lines for frames. `worker.py mute
PROGRAM ARGUMENT...` is that worker but for its last frame, which nobody gets.
"""

import socket
import struct
import subprocess
import sys
import threading


def read_frame(stream):
    head = stream.read(4)
    if len(head) < 4:
        return None
    (length,) = struct.unpack(">I", head)
    return stream.read(length)


def write_frame(stream, frame):
    stream.write(struct.pack(">I", len(frame)) + frame)
    stream.flush()


def bridge(path):
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(path)
    lines = peer.makefile("rwb")

    def out():
        for line in lines:
            write_frame(sys.stdout.buffer, line.strip())

    threading.Thread(target=out, daemon=True).start()
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        lines.write(frame + b"\n")
        lines.flush()


def mute(command):
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def pass_on():
        while (frame := read_frame(sys.stdin.buffer)) is not None:
            write_frame(worker.stdin, frame)
        worker.stdin.close()

    threading.Thread(target=pass_on, daemon=True).start()
    while (frame := read_frame(worker.stdout)) is not None:
        if not frame.startswith(b'{"ended"'):
            write_frame(sys.stdout.buffer, frame)
    worker.wait()


if sys.argv[1] == "bridge":
    bridge(sys.argv[2])
else:
    mute(sys.argv[2:])
