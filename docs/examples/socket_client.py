#!/usr/bin/env python3
"""Query the daemon of this node with nothing but the Python standard library.

    socket_client.py [SOCKET [COUNT]]

Prints the service, then COUNT times, every tenth of a second, the process that used most CPU.
"""

import json
import socket
import sys


class Monitor:
    """A connection: calls in, results out; events are queued until they are read."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.lines = self.socket.makefile("rb")
        self.tag = 0
        self.events = []

    def call(self, method, **params):
        self.tag += 1
        call = {"jsonrpc": "2.0", "id": self.tag, "method": method, "params": params}
        self.socket.sendall(json.dumps(call).encode() + b"\n")
        while True:
            message = self._read()
            if message.get("id") != self.tag:
                self.events.append(message["params"])
            elif "error" in message:
                raise RuntimeError(message["error"]["message"])
            else:
                return message["result"]

    def event(self):
        return self.events.pop(0) if self.events else self._read()["params"]

    def _read(self):
        line = self.lines.readline()
        if not line:
            raise ConnectionError("the daemon has closed the connection")
        return json.loads(line)


def show(event):
    if event["dropped"] or event["missed"]:
        print(f"dropped {event['dropped']}, missed {event['missed']}", file=sys.stderr)
    for process in event["sample"]["processes"]:
        print(process["pid"], process["comm"], process.get("cpu_percent", "-"))


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "/run/monitor/monitor.sock"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    monitor = Monitor(path)
    hello = monitor.call("hello")
    print(f"{hello['node']}: {hello['service']} {hello['version']}")
    event = monitor.call(
        "monitor",
        part="proc",
        fields=["comm", "cpu_percent"],
        sort="cpu_percent",
        top=1,
        every_ns=100_000_000,
        count=count,
    )
    show(event)
    while "ended" not in event:
        event = monitor.event()
        if "sample" in event:
            show(event)


main()
