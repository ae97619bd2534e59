#!/usr/bin/env python3
"""Shows where the ranks of a parallel job are, and runs a command beside one rank of each place.

    where_tool.py JOB [COMMAND]
    where_tool.py JOB 'gdb --batch -ex bt -p $MONITOR_JOB_PID'
"""

import json
import os
import sys
import tempfile
import time

from omis import Refused, Tool


def run_beside(tool, rank, command):
    """What the command writes that the service runs beside a rank, as the user of this tool."""
    with tempfile.NamedTemporaryFile("r") as out:
        tool.results(f'start_options("",[],["","{out.name}","{out.name}"])')
        daemons, _ = tool.results(f'job_attach("{rank}",{json.dumps(command)},"process")')
        while any(os.path.exists(f"/proc/{pid}") for pid in daemons[1::2]):
            time.sleep(0.05)
        return out.read()


def main(job, command=None):
    tool = Tool()
    classes, _, missing, *_ = tool.results(f'job_stacks("{job}","first")')
    for at in range(0, len(classes), 4):
        ranks, rank, _, path = classes[at : at + 4]
        path = path[path.index("main") :] if "main" in path else path
        print(f"ranks {ranks}: {' > '.join(path)}", flush=True)
        if command:
            print(run_beside(tool, f"{job.split(':')[0]}:{rank}", command), end="", flush=True)
    for at in range(0, len(missing), 4):
        print("rank {}, process {}: {} {}".format(*missing[at : at + 4]), file=sys.stderr)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except (OSError, Refused) as error:
        sys.exit(f"where_tool: {error}")
