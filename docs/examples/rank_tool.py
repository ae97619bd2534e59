#!/usr/bin/env python3
"""Shows the CPU time of each rank of a parallel job, and the functions that it is in.

    rank_tool.py [JOB]                                  beside the first job, or the one named
    monitor job attach JOB --daemon ./rank_tool.py      as a daemon beside each rank
"""

import os
import sys

from omis import Refused, Tool


def job_beside(tool, words):
    """The job, and the process of its program where this is the daemon of one rank."""
    env = os.environ
    if "MONITOR_JOB_RANK" in env:
        return f"{env['MONITOR_JOB_ID']}:{env['MONITOR_JOB_RANK']}", int(env["MONITOR_JOB_PID"])
    (jobs,) = tool.results("job_list()")
    if not words and not jobs:
        sys.exit("no parallel job is visible on this node")
    return (words or jobs)[0], None


def show(tool, rank, pid, state, cpu):
    (frames,) = tool.results(f"stack_names({pid})")
    names = [name or hex(pc) for pc, name in zip(frames[0::3], frames[2::3])]
    print(f"rank {rank}: process {pid} {state} {cpu:.2f} s in {' < '.join(names)}", flush=True)


def main(words):
    tool = Tool()
    job, program = job_beside(tool, words)
    *_, table = tool.results(f'job_info("{job}")')
    rows = [table[at : at + 8] for at in range(0, len(table), 8)]
    ranks = [(rank, program or pid, state, cpu) for rank, _, pid, _, state, cpu, *_ in rows]
    tool.results(f"attach({[pid for _, pid, *_ in ranks]})")
    tool.results(f'job_hold("{job}")')  # All ranks at one moment; a lost connection releases them.
    try:
        for rank in ranks:
            show(tool, *rank)
    finally:
        tool.results(f'job_release("{job}")')


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, Refused) as error:
        sys.exit(f"rank_tool: {error}")
