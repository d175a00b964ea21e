"""Quality of running summaries: covered messages with a line, and lines that are shreds.

Recorded agents are played as in `price.py`. Looked at is the summary in the last request of a run:

- **users**, **answers**: covered messages of the user, and answers of the assistant without tool
  calls, with eight consecutive words (all, if fewer) in the summary. Messages that the last
  request holds itself do not count.
- **shreds**: lines with an ellipsis that falls on no boundary of a sentence or line of its source,
  one at the end of the line aside; and lines of three words or fewer that are no whole message and
  hold no identifier.

Run: python benchmarks/log_quality.py FILE... [--windows 4000,8000] [--sample 20] [--show 3]
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from _price_citing import CitingModel
from _price_recordings import Recording, read_recordings, sampled
from _price_systems import SYSTEMS, missing_package, without_summary
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem.cli.measures import find_literals, reference_counter, text_of
from langchain_tokenmem.cli.replay import lengths_at_calls

RUN = 8
"""Words in a row by which a message is known in a summary."""

FEW_WORDS = 3

SHOWN = ("ours", "ours, model", "LangChain 80-30", "LangMem")

_WORD = re.compile(r"\w+")
_FENCED = re.compile(r"<conversation_summary\b[^>]*>\n(.*?)\n</conversation_summary>", re.DOTALL)
_ELLIPSIS = re.compile(r"…(?!/)|\.\.\.")  # "…/" is short for the folders of a path
_MARK = re.compile(r"^\s*(?:\[[0-9a-f]{6,}\]\s*|[-*•]\s+|User:\s|Assistant:\s|Found:\s)+")


def words(text: str) -> list[str]:
    """Return the words of a text, in small letters."""
    return [word.lower() for word in _WORD.findall(text)]


def summary_of(request: Sequence[BaseMessage]) -> str:
    """Return the text of the running summary in a request of any system; empty for none."""
    found = []
    for message in request:
        text = text_of(message)
        fenced = _FENCED.findall(text)
        if fenced:
            found += fenced
        elif text.strip() and not without_summary(message).strip():
            found.append(text)
    return "\n".join(found)


def is_in(text: str, summary: str) -> bool:
    """Return whether a summary (`words` joined by spaces) has a run of a message's words."""
    own = words(text)
    length = min(RUN, len(own))
    starts = range(len(own) - length + 1)
    return any(f" {' '.join(own[at : at + length])} " in summary for at in starts)


def is_shred(line: str, sources: str, whole: set[str]) -> bool:
    """Return whether a line of a summary is a shred.

    Args:
        line: The line.
        sources: The text of the history: words between spaces, boundaries as `|`.
        whole: The words of each message, joined.
    """
    text = _MARK.sub("", line).strip()
    for match in _ELLIPSIS.finditer(text):
        if match.end() >= len(text.rstrip(" )]\"'`.")):
            continue
        before, behind = words(text[: match.start()])[-2:], words(text[match.end() :])[:2]
        ends = not before or f" {' '.join(before)} |" in sources
        begins = not behind or f"| {' '.join(behind)} " in sources
        if not (ends and begins):
            return True
    few = words(text)
    is_bare = len(few) <= FEW_WORDS and " ".join(few) not in whole
    return bool(few) and is_bare and not any(find_literals(text))


def marked_sources(messages: Sequence[BaseMessage]) -> str:
    """Return all words of messages, with `|` where a sentence or a line ends."""
    pieces = []
    for message in messages:
        texts = [text_of(message)]
        if isinstance(message, AIMessage):
            texts += [str(value) for call in message.tool_calls for value in call["args"].values()]
        for text in texts:
            pieces += re.split(r"(?<=[.!?…])[\"')\]*_`]*\s|\n|\\n", text)
    return "| " + " | ".join(" ".join(words(piece)) for piece in pieces) + " |"


def played(
    recording: Recording, windows: Sequence[int], names: Sequence[str]
) -> list[tuple[int, str, Counter[str], str]]:
    """Return the counts of a run and the summary in its last request, by window and system."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    messages, found = recording.messages(), []
    places = list(lengths_at_calls(messages))
    for window in windows:
        for name in names:
            model = CitingModel(counter=reference_counter(), profile={"max_input_tokens": window})
            ask = SYSTEMS[name](window, model)
            request: Sequence[BaseMessage] = ()
            try:
                for place in places:
                    request = ask(messages[:place])
            except Exception as error:  # noqa: BLE001  # other systems crash; it is counted
                found.append((window, name, Counter(crashes=1), str(error)))
                continue
            history = messages[: places[-1]]
            found.append((window, name, *measured(history, request)))
    return found


def measured(
    history: Sequence[BaseMessage], request: Sequence[BaseMessage]
) -> tuple[Counter[str], str]:
    """Return the counts of one request, and its summary."""
    summary, counts = summary_of(request), Counter(runs=1)
    if not summary.strip():
        return counts, ""
    held = " | ".join(" ".join(words(without_summary(message))) for message in request)
    found_words = f" {' '.join(words(summary))} "
    for message in history:
        own = " ".join(words(text_of(message)))
        if not own or own in held:
            continue
        if isinstance(message, HumanMessage):
            counts["users"] += 1
            counts["users found"] += is_in(text_of(message), found_words)
        elif isinstance(message, AIMessage) and not (
            message.tool_calls or message.invalid_tool_calls
        ):
            counts["answers"] += 1
            counts["answers found"] += is_in(text_of(message), found_words)
    sources = marked_sources(history)
    whole = {" ".join(words(text_of(message))) for message in history}
    lines = [line for line in summary.splitlines() if line.strip()]
    counts["lines"] = len(lines)
    counts["shreds"] = sum(is_shred(line, sources, whole) for line in lines)
    counts["with a summary"] = 1
    return counts, summary


def table(found: Sequence[tuple[int, str, Counter[str], str]]) -> Iterator[str]:
    """Yield the rows of the report."""
    heads = "".join(f"{head:>17}" for head in ("users found", "answers found", "shreds"))
    yield f"{'window':>7} {'system':16} {'runs':>5}{heads}"
    keys = list(dict.fromkeys((window, name) for window, name, _, _ in found))
    for window, name in sorted(keys):
        total: Counter[str] = Counter()
        for at, system, counts, _ in found:
            if (at, system) == (window, name):
                total += counts
        cells = [
            f"{total[part]:4}/{total[of]:4} {100 * total[part] / (total[of] or 1):5.1f}%"
            for part, of in (
                ("users found", "users"),
                ("answers found", "answers"),
                ("shreds", "lines"),
            )
        ]
        yield f"{window:7,} {name:16} {total['with a summary']:5} " + " ".join(cells)


def main() -> None:
    """Play the recordings and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="JSON Lines, .gz too")
    parser.add_argument("--windows", default="4000,8000", help="tokens, by commas")
    parser.add_argument("--systems", default=";".join(SHOWN), help="names by semicolons")
    parser.add_argument("--sample", type=int, help="recordings of each file; default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--show", type=int, default=0, help="summaries to print")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if not options.files:  # `make bench` names none
        print("Give files of recordings; none is part of this project.")
        return
    names = [name for name in options.systems.split(";") if not missing_package(name)]
    windows = [int(one) for one in options.windows.split(",")]
    recordings = [
        recording
        for path in options.files
        for recording in sampled(read_recordings(path), options.sample, options.seed)
    ]
    with ProcessPoolExecutor(options.workers) as pool:
        runs = list(pool.map(partial(played, windows=windows, names=names), recordings))
    found = [one for run in runs for one in run]
    print("\n".join(table(found)))
    shown = [
        (r.name, one) for r, run in zip(recordings, runs, strict=True) for one in run if one[3]
    ]
    for name, (window, system, _, summary) in shown[:: max(1, len(shown) // (options.show or 1))][
        : options.show
    ]:
        print(f"\n--- {name}, {system}, window {window:,}\n{summary}")


if __name__ == "__main__":
    main()
