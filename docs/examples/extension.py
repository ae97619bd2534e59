#!/usr/bin/env python3
"""An extension of the monitor that needs nothing but the Python standard library.

    extension.py [SOCKET]

Provides `demo_add`, which adds numbers, and `demo_files`, which counts the open files of a process
of the requesting user. Runs until it is interrupted or the daemon ends.
"""

import os
import re
import sys

from omis import Tool

SERVICES = [
    ("demo_add", "integer* numbers", "Adds numbers."),
    ("demo_files", "integer pid", "Counts the open files of a process."),
]
OK, RANGE, GONE, PERMISSION = 0, 105, 301, 400
CALLED = re.compile(r'extension_called\(0,(\d+),"(\w+)",(\d+),\[(.*)\]\)$')


def serve(name, user, numbers):
    """Returns the status and the results of a service."""
    if name == "demo_add":
        return OK, [sum(numbers)]
    if len(numbers) != 1:
        return RANGE, []
    folder = f"/proc/{numbers[0]}/fd"
    try:
        # This process may have more rights than the requesting user.
        if user not in (0, os.stat(folder).st_uid):
            return PERMISSION, []
        return OK, [len(os.listdir(folder))]
    except OSError:
        return GONE, []


def main():
    tool = Tool(*sys.argv[1:])
    words = ",".join(f'"{word}"' for service in SERVICES for word in service)
    reply = tool.ask(f'1 [] extension_register("demo_",[{words}])')
    print(reply, flush=True)
    while "(0)" in reply:
        call, name, user, args = CALLED.search(tool.occurrence()).groups()
        try:
            status, results = serve(name, int(user), [int(it) for it in args.split(",") if it])
        except ValueError:
            status, results = RANGE, []
        tool.ask(f"2 [] extension_reply({call},{status},{results})")


if __name__ == "__main__":
    try:
        main()
    except (OSError, KeyboardInterrupt) as error:
        sys.exit(str(error) or 130)
