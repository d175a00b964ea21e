"""Share of planted literals that survives many summaries, by a model and without one.

Eight literals (path, UUID, price, date, name, version, negated constraint, error code) stand in
natural sentences at random places of the first half of a conversation, between small talk and long
logs. It is summarized ten times, each time into the summary before, within `--max-tokens`:

- by a scripted model that does what the prompt asks for, through `ModelSummarizer` with a window so
  small that batches go through intermediate notes: measures the machinery, not a model's judgement;
- by the extractive summarizer, which decides for itself what matters.

With `--logs FILE...` eight facts of twenty kinds (`tests/summarize/planted_facts.py`; English and
German; told by the user, the model or the output of a tool) are planted into the first half of each
recorded run. One extractive entry is written about the whole run, and a log of entries about its
ten parts.

A third table has three constraints of the user in the first request of a conversation, which is
pinned: it counts the seeds in which each stands word for word in the view after five summaries.

Run: python benchmarks/summary_survival.py [--seeds 50] [--window 3000] [--writer-window 4096]
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from _price_recordings import read_recordings

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.errors import SummaryError
from langchain_tokenmem.summarize.base import Summarizer, Summary, SummaryRequest
from langchain_tokenmem.summarize.extractive import ExtractiveSummarizer
from langchain_tokenmem.summarize.model import ModelSummarizer
from langchain_tokenmem.tokens.resolve import counter_for
from tests.summarize.models import Scripted, parts_of
from tests.summarize.survival import KINDS, Survival, measure, plant, plant_in_run, roll, roll_log

SUMMARIES = 10
PINNED_SUMMARIES = 5
EXTRACTIVE_MEAN = 7.0
LOGS_MEAN = 7.2
_LONG_RUN = 30
"""Messages from which facts are planted into a recorded run."""

_LOG = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d |calls \w+\(")
_SPEAKER = re.compile(r"(?:User|Assistant|Tool result[^:]*): ")
_LITERALS = re.compile(
    r"""
    \b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b         # ids
    | \d{4}-\d\d-\d\d | \d{1,2}\ [A-Z][a-z]+\ \d{4} | [A-Z][a-z]+\ \d{1,2},\ \d{4}  # dates
    | [$€£]\d[\d,.]*\d | \d[\d,.]*\ EUR\b                   # prices
    | /?\b\w+(?:/[\w.-]*\w)+                                # paths
    | \bv?\d+(?:\.\d+)+\b                                   # versions
    | \b[A-Z]{2,}[A-Z_]*(?:[\ -]\d+)?\b | \bE\d+\b          # error codes
    | [A-Z][a-z]+\ [A-Z][a-z]+                              # names
    """,
    re.VERBOSE,
)
_NEGATED = re.compile(r"[^.,;:\n]*\b(?:never|not|no)\b[^.,;:\n]*")
_NUMBER = re.compile(r"(?<![\w.-])\d+(?![\w-]|\.\d)")
_CONSTRAINTS = (
    "never deploy to {} on a Friday",
    "do not touch the {} schema",
    "the {} backups must not leave the building",
    "only Ada may approve a release of {}",
    "no new dependencies in the {} module",
)
_AREAS = ("billing", "payroll", "search", "inventory", "ledger", "archive", "checkout")


def literals_of(line: str) -> Iterator[str]:
    """Yield what a careful writer carries over from one line of talk."""
    said = _SPEAKER.sub("", line)
    yield from (clause.strip() for clause in _NEGATED.findall(said))
    yield from _LITERALS.findall(said)


def faithful_notes(messages: list[BaseMessage]) -> str:
    """Write notes as the prompt asks for: earlier notes kept, every literal, no raw logs."""
    prior, said = parts_of(messages)
    words = int(re.findall(r"at most (\d+) words", str(messages[-1].content))[-1])
    kept: dict[str, None] = {}
    numbers: dict[str, None] = {}
    for line in f"{prior}\n{said}".splitlines():
        if line.startswith("- Numbers: "):
            numbers |= dict.fromkeys(line.removeprefix("- Numbers: ").split(", "))
        elif line.startswith("- "):
            kept[line[2:]] = None
        elif not _LOG.match(_SPEAKER.sub("", line).strip()) and not line.startswith("#"):
            kept |= dict.fromkeys(literals_of(line))
            numbers |= dict.fromkeys(_NUMBER.findall(_LITERALS.sub("", line)))
    lines = [f"- {one}" for one in kept]
    room = words - sum(len(line.split()) for line in lines) - 10
    listed = ", ".join(list(numbers)[: max(0, room)])
    return "\n".join(
        ["## Goal", "The user works on it.", "## Done", *lines, f"- Numbers: {listed}"]
    )


class NoFallback(ExtractiveSummarizer):
    """Makes a refused answer an error: what survives is the model's merit alone."""

    def summarize(self, request: SummaryRequest) -> Summary:
        raise SummaryError(f"{len(request.messages)} messages: the model's notes were refused")


def faithful_writer(window: int) -> ModelSummarizer:
    """Return a summarizer over a scripted model that does what it is asked."""
    model = Scripted(answer=faithful_notes, name_="faithful")
    return ModelSummarizer(model, window=window, fallback=NoFallback())


def survival_of(
    summarizer: Summarizer,
    seeds: int,
    *,
    max_tokens: int = 400,
    count_text: Callable[[str], int] | None = None,
) -> Survival:
    """Return which literals are left after ten summaries, counted with tiktoken by default."""
    return measure(
        summarizer,
        seeds=range(seeds),
        rounds=SUMMARIES,
        max_tokens=max_tokens,
        count_text=count_text or counter_for(None).text,
        rolled=roll_log if isinstance(summarizer, ExtractiveSummarizer) else roll,
    )


def pinned_survival(seed: int, window: int) -> tuple[list[str], str]:
    """Return the constraints of a first request, and the view's messages after five summaries."""
    rng = random.Random(seed)
    forms, areas = rng.sample(_CONSTRAINTS, 3), rng.sample(_AREAS, 3)
    constraints = [form.format(area) for form, area in zip(forms, areas, strict=True)]
    talk = chain.from_iterable(plant(seed, rounds=40).rounds)
    first = HumanMessage(f"Help me with the migration. Mind: {'; '.join(constraints)}.", id="first")
    messages: list[BaseMessage] = [first, AIMessage("Understood.", id="a")]
    memory = TokenMemory(TokenBudget(context_window=window))
    state = memory.compact(messages)
    for number, message in enumerate(talk):
        messages.append(message.model_copy(update={"id": f"m{number}"}))
        if isinstance(message, HumanMessage):
            state = memory.compact(messages, state)
        if state["totals"]["summaries"] >= PINNED_SUMMARIES:
            break
    assert state["totals"]["summaries"] >= PINNED_SUMMARIES, "the talk is too short"
    view = memory.view(messages, state)
    assert view.usage.input_tokens <= memory.budget.limit
    return constraints, "\n".join(str(m.content) for m in view.messages if m.type == "human")


def planted_logs(files: list[Path], max_tokens: int) -> Survival:
    """Print and return which facts planted into recorded runs one extractive entry keeps."""
    found = [run for file in files for run in read_recordings(file)]
    runs = [run for run in found if len(run.recorded) >= _LONG_RUN]
    whole, log = Survival(), Survival()
    started, count = time.perf_counter(), counter_for(None).text
    summarizer = ExtractiveSummarizer()
    for seed, run in enumerate(runs):
        planted = plant_in_run(run.messages(), seed)
        batch = list(chain.from_iterable(planted.rounds))
        request = SummaryRequest(batch, max_tokens=max_tokens, count_text=count)
        whole.add(planted, summarizer.summarize(request).text)
        logs = roll_log(summarizer, planted.rounds, max_tokens=max_tokens, count_text=count)
        log.add(planted, logs[-1])
    seconds = time.perf_counter() - started
    report("facts in runs of agents, one extractive entry", whole, seconds, 1)
    report("facts in runs of agents, a log of extractive entries", log, seconds)
    return whole


def report(name: str, survival: Survival, seconds: float, summaries: int = SUMMARIES) -> None:
    """Print one table."""
    alive = survival.alive
    worst = min(alive, key=lambda kind: sum(alive[kind]) / len(alive[kind]))
    print(f"\n{name}, {summaries} summaries, {len(survival.totals)} seeds, {seconds:.0f} s")
    print(survival.table())
    print(f"worst kind: {worst} ({sum(alive[worst])}/{len(alive[worst])})")


def main() -> None:
    """Print the tables; a broken promise ends with an error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--max-tokens", type=int, default=400, help="of each summary")
    parser.add_argument("--window", type=int, default=3_000, help="of the pinned conversation")
    parser.add_argument("--logs", type=Path, nargs="*", default=[], help="recorded runs")
    parser.add_argument("--writer-window", type=int, default=4_096, help="of the scripted model")
    options = parser.parse_args()
    writers: dict[str, Summarizer] = {
        "faithful scripted model": faithful_writer(options.writer_window),
        "extractive": ExtractiveSummarizer(),
    }
    found: dict[str, Survival] = {}
    for name, writer in writers.items():
        started = time.perf_counter()
        found[name] = survival_of(writer, options.seeds, max_tokens=options.max_tokens)
        report(name, found[name], time.perf_counter() - started)
    kept = planted_logs(options.logs, options.max_tokens) if options.logs else None
    whole = 0
    for seed in range(options.seeds):
        constraints, shown = pinned_survival(seed, options.window)
        whole += all(constraint in shown for constraint in constraints)
    print(f"\nconstraints of the pinned first request, {PINNED_SUMMARIES} summaries", end=" ")
    print(f"at a window of {options.window:,}: {whole}/{options.seeds}")
    faithful, extractive = found.values()
    promised = [
        ("the faithful model keeps all", min(faithful.totals) == len(KINDS)),
        (f"the extractive mean is at least {EXTRACTIVE_MEAN}", extractive.mean >= EXTRACTIVE_MEAN),
        (
            f"at least {LOGS_MEAN} facts of a run of an agent are kept",
            kept is None or kept.mean >= LOGS_MEAN,
        ),
        ("pinned constraints stand word for word", whole == options.seeds),
    ]
    broken = [promise for promise, is_kept in promised if not is_kept]
    if broken:
        raise SystemExit(f"broken: {'; '.join(broken)}")


if __name__ == "__main__":
    main()
