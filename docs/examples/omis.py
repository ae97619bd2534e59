#!/usr/bin/env python3
"""A tool of the request language, with nothing but Python's own library.

    omis.py [SOCKET] REQUEST…

Sends the requests one after the other, prints the reply to each, and then the replies at events
until it is interrupted. Exits at once if no request has an event.
"""

import os
import re
import socket
import sys

DEFAULT = "/run/monitor/monitor.sock"


class Tool:
    """A session: requests in, replies out. Replies at events are queued until they are read."""

    def __init__(self, path=None):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path or os.environ.get("MONITOR_SOCKET") or DEFAULT)
        self.lines = self.socket.makefile("r", encoding="ascii")
        self.occurrences = []

    def ask(self, request):
        """Sends a request and waits for its reply, as OMIS_request_block does."""
        self.socket.sendall(request.encode() + b"\n")
        number = self._number(request)
        while True:
            reply = self._read()
            if self._number(reply) == number or " error(" in reply:
                return reply
            self.occurrences.append(reply)

    def occurrence(self):
        """Waits for the next reply at an event."""
        return self.occurrences.pop(0) if self.occurrences else self._read()

    def _read(self):
        line = self.lines.readline()
        if not line:
            raise ConnectionError("the daemon has closed the connection")
        return line.rstrip("\n")

    @staticmethod
    def _number(line):
        found = re.match(r"\s*(\d+)", line)
        return int(found.group(1)) if found else 0


def main():
    words = sys.argv[1:]
    path = words.pop(0) if words and words[0].startswith("/") else None
    tool = Tool(path)
    for request in words:
        print(tool.ask(request), flush=True)
    while any(":" in request for request in words):
        print(tool.occurrence(), flush=True)


if __name__ == "__main__":
    try:
        main()
    except (OSError, KeyboardInterrupt) as error:
        sys.exit(str(error) or 130)
