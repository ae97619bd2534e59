#!/usr/bin/env python3
"""A tool of the request language, with nothing but Python's own library.

    omis.py [SOCKET] REQUEST…

Sends the requests one after the other, prints the reply to each, and then the replies at events
until it is interrupted. Exits at once if no request has an event.
"""

import ast
import os
import re
import socket
import sys

SYSTEM = "/run/monitor/monitor.sock"
FAILED = 100  # The first status of a request that was not carried out.


class Refused(Exception):
    """The reply to a request that was not carried out."""


class Tool:
    """A session: requests in, replies out. Replies at events are queued until they are read."""

    def __init__(self, path=None):
        self.socket = self._connect(path or os.environ.get("MONITOR_SOCKET"))
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

    def results(self, service):
        """Requests one service on this node, and returns its results without the status.

        A list is a list, and a string has a character for each byte. A status from 100 on raises
        `Refused`.
        """
        reply = self.ask(f"1 [0] {service}")
        values = reply[reply.index("(") + 1 : reply.rindex(")")]
        status, *results = ast.literal_eval(f"[{values}]")
        if status >= FAILED:
            raise Refused(reply)
        return results

    def occurrence(self):
        """Waits for the next reply at an event."""
        return self.occurrences.pop(0) if self.occurrences else self._read()

    def _read(self):
        line = self.lines.readline()
        if not line:
            raise ConnectionError("the daemon has closed the connection")
        return line.rstrip("\n")

    @staticmethod
    def _connect(named):
        """Connects to the socket that is named, else to the system's, else to the user's."""
        paths = [named or SYSTEM]
        if not named and os.geteuid() != 0 and "XDG_RUNTIME_DIR" in os.environ:
            paths.append(os.path.join(os.environ["XDG_RUNTIME_DIR"], "monitor/monitor.sock"))
        for path in paths:
            stream = socket.socket(socket.AF_UNIX)
            try:
                stream.connect(path)
                return stream
            except OSError as error:
                stream.close()
                why = error.strerror
        raise ConnectionError(f"no daemon answers at {' or '.join(paths)}: {why}")

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
