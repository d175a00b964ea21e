"""Cost of reading working notes: time of a message, in microseconds.

    python benchmarks/notes_cost.py recordings.jsonl.gz

Each conversation is read as an application does it: at every message of the user, and behind every
result, what is new since. The fastest of the rounds counts: a busy machine only adds.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Sequence
from pathlib import Path

from _price_recordings import read_recordings
from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import groups, role_of
from langchain_tokenmem.core.working_notes.mode_profiles import LIMITS, new_modes_state
from langchain_tokenmem.core.working_notes.reading import read_groups
from langchain_tokenmem.core.working_notes.tool_kinds import TurnMemorySettings

_SETTINGS = TurnMemorySettings()


def groups_in(path: Path) -> list[list[Sequence[BaseMessage]]]:
    """Return the groups of each conversation of a file."""
    found: list[list[Sequence[BaseMessage]]] = []
    for recording in read_recordings(path):
        spoken = [one for one in recording.messages() if role_of(one) != "system"]
        found.append([group.messages for group in groups(spoken)])
    return found


def read(conversation: Sequence[Sequence[BaseMessage]], *, in_steps: bool) -> None:
    """Read a conversation, all at once or group by group."""
    state = new_modes_state("code")
    ends = range(1, len(conversation) + 1) if in_steps else (len(conversation),)
    for end in ends:
        state = read_groups(state, conversation[:end], _SETTINGS, LIMITS)


def measured(conversations: Sequence[Sequence[Sequence[BaseMessage]]], *, in_steps: bool) -> float:
    """Return the seconds of the processor that one round takes."""
    gc.collect()
    gc.disable()
    started = time.process_time()
    for conversation in conversations:
        read(conversation, in_steps=in_steps)
    spent = time.process_time() - started
    gc.enable()
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", type=Path, nargs="+", help="recordings, JSON Lines")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    for path in args.paths:
        conversations = groups_in(path)
        messages = sum(len(group) for one in conversations for group in one)
        for in_steps in (False, True):
            best = min(measured(conversations, in_steps=in_steps) for _ in range(args.rounds))
            way = "group by group" if in_steps else "all at once"
            print(f"{path.name}: {messages:,} messages, {way}: {best / messages * 1e6:.0f} µs each")


if __name__ == "__main__":
    main()
