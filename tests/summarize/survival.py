"""Planted literals in natural talk: how many are left after many summarizations.

Used by the tests here and by the benchmark of the promise "7 of 8 survive 10 summarizations".
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_tokenmem.core.messages import groups, text_of
from langchain_tokenmem.summarize.base import Summarizer, SummaryRequest
from tests.summarize.planted_facts import Fact, as_assistant, as_user, make_facts

ONLY_USERS = frozenset({"forbidden", "only", "preference"})
"""Kinds of facts that only a user tells."""
_IN_A_MESSAGE = 0.3
KINDS = ("path", "uuid", "price", "date", "name", "version", "constraint", "error")

_SENTENCES = {
    "path": (
        "The parser that keeps tripping us up lives in {}, next to the old one.",
        "I moved the retry logic over to {} yesterday evening.",
        "Have a look at {} before you change anything else.",
    ),
    "uuid": (
        "The tenant that complained is {}, in case support asks again.",
        "Their order shows up as {} in the back office.",
        "Note that the run we compare against has the id {}.",
    ),
    "price": (
        "Finance signed off on {} for the whole migration, not a cent more.",
        "The vendor now asks for {} per seat, which is less than last year.",
        "We ended up paying {} for the extra storage.",
    ),
    "date": (
        "The contract with the hosting company runs out on {}.",
        "We promised the customer a working demo by {}.",
        "The outage that started all this happened on {}, in the middle of a release.",
    ),
    "name": (
        "It was {} who wrote the first version, so ask there when in doubt.",
        "Our contact at the bank is {}, usually reachable in the morning.",
        "I talked to {} about the rollout and there were no objections.",
    ),
    "version": (
        "Production is still on {} of the broker, staging is ahead of it.",
        "We have to stay with {} until the driver is patched.",
        "The regression came in with {}, as far as I can tell.",
    ),
    "constraint": (
        "One more thing: {}, the auditors look at that first.",
        "Whatever else you do, {}.",
        "Please remember that from now on: {}.",
    ),
    "error": (
        "The job died with {} again after about an hour.",
        "Users on the old client see {} when they log in.",
        "What I get back from the gateway is {}, without any details.",
    ),
}
_CONSTRAINTS = (
    "never deploy to {} on a Friday",
    "do not send e-mails to the {} list",
    "do not touch the {} schema",
    "never restart the {} service during office hours",
    "no new dependencies in the {} module",
    "the {} backups must not leave the building",
)
_FIRST = ("Priya", "Tomasz", "Ingrid", "Mateo", "Yuki", "Oluwaseun", "Chloe", "Dmitri", "Leila")
_LAST = ("Raman", "Kowalski", "Lindqvist", "Fernandez", "Tanaka", "Adeyemi", "Martin", "Volkov")
_AREAS = ("billing", "payroll", "search", "inventory", "ledger", "archive", "checkout", "reporting")
_SMALL = (
    "Hi there, hope the week is treating you well!",
    "Thanks a lot, that was helpful.",
    "Good morning! Back at it again.",
    "Great, sounds good.",
)
_TALK = (
    "I was wondering how the other team usually approaches this kind of question.",
    "The whole thing feels slower than it did when we began, honestly.",
    "It would be nice to have a clearer picture of what happens behind the scenes.",
    "My colleague thinks that the layout could be simpler, but I am not convinced.",
    "We talked about it over lunch and everybody had a different opinion.",
    "Could you walk me through the general idea again, in plain words?",
    "I guess the main point is that people find the current screens confusing.",
    "There was a long discussion in the meeting about how to name these things.",
    "The weather made half of the office stay at home, so progress was modest.",
)
_ANSWERS = (
    "The general idea is that each request passes through a queue before anything is stored.",
    "There are several ways to look at it, and the simplest is usually the most robust one.",
    "I would start with a small experiment and compare the results after {n} runs.",
    "A cache helps here because the same values are asked for about {n} times per minute.",
    "In most systems of this kind the bottleneck is the network and rarely the processor.",
    "You can think of it as a pipeline with {n} stages that hand work to each other.",
)


@dataclass(frozen=True)
class Planted:
    """A conversation with eight literals in it.

    Attributes:
        rounds: The messages of each summarization.
        literals: What must survive verbatim, by kind.
    """

    rounds: list[list[BaseMessage]]
    literals: dict[str, tuple[str, ...]]


@dataclass
class Survival:
    """How many planted literals were left, by kind, over all seeds."""

    alive: dict[str, list[bool]] = field(default_factory=dict)
    totals: list[int] = field(default_factory=list)

    def add(self, planted: Planted, text: str) -> None:
        """Count what of one conversation is left in a text."""
        kept = {kind: all(one in text for one in own) for kind, own in planted.literals.items()}
        self.totals.append(sum(kept.values()))
        for kind, is_kept in kept.items():
            self.alive.setdefault(kind, []).append(is_kept)

    @property
    def mean(self) -> float:
        return sum(self.totals) / len(self.totals)

    def table(self) -> str:
        rows = [f"{kind:<12}{sum(hits) / len(hits):>7.0%}" for kind, hits in self.alive.items()]
        return "\n".join([*rows, f"mean {self.mean:.2f} of 8, worst seed {min(self.totals)} of 8"])


def make_literals(rng: random.Random) -> dict[str, str]:
    """Return one new literal of each kind."""
    area, other = rng.sample(_AREAS, 2)
    day, month = rng.randint(1, 28), rng.randint(1, 12)
    month_name = ("March", "April", "June", "July", "October", "December")[month % 6]
    amount = rng.randint(1_000, 99_999)
    return {
        "path": rng.choice(
            (f"src/{area}/{other}_worker.py", f"/etc/{area}/{other}.yaml", f"{area}/{other}.ts")
        ),
        "uuid": str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        "price": rng.choice(
            (f"${amount:,}.50", f"€{amount:,}", f"{amount} EUR", f"£{amount / 100}")
        ),
        "date": rng.choice(
            (f"2025-{month:02}-{day:02}", f"{day} {month_name} 2025", f"{month_name} {day}, 2025")
        ),
        "name": f"{rng.choice(_FIRST)} {rng.choice(_LAST)}",
        "version": f"v{rng.randint(1, 9)}.{rng.randint(0, 30)}.{rng.randint(0, 9)}",
        "constraint": rng.choice(_CONSTRAINTS).format(area),
        "error": rng.choice(
            (f"E{rng.randint(1000, 9999)}", f"ERR_{other.upper()}_LOCKED", "HTTP 507", "ORA-01555")
        ),
    }


def plant(seed: int, *, rounds: int = 10, turns: int = 6, noise: bool = True) -> Planted:
    """Make a conversation with one literal of each kind at a random place of its first half.

    Args:
        seed: Decides everything.
        rounds: How many summarizations it is cut into.
        turns: Turns of each.
        noise: Whether tool calls with long logs and identifiers of their own are mixed in.
    """
    rng = random.Random(seed)
    literals = make_literals(rng)
    batches = [_turns(rng, turns, noise=noise) for _ in range(rounds)]
    for kind, literal in literals.items():
        batch = batches[rng.randrange(max(1, rounds // 2))]
        by_user = kind == "constraint" or rng.random() < 0.7
        role = HumanMessage if by_user else AIMessage
        places = [i for i, message in enumerate(batch) if type(message) is role and message.content]
        at = rng.choice(places)
        sentences = str(batch[at].content).split("\n")
        sentences.insert(
            rng.randint(0, len(sentences)), rng.choice(_SENTENCES[kind]).format(literal)
        )
        batch[at] = role("\n".join(sentences).replace("\n", " "))
    return Planted(batches, {kind: (literal,) for kind, literal in literals.items()})


def plant_in_run(
    messages: Sequence[BaseMessage],
    seed: int,
    *,
    rounds: int = 10,
    by_user: float = 0.6,
    by_tool: float = 0.15,
) -> Planted:
    """Plant eight facts of different kinds into the first half of a recorded run.

    A user tells a fact in a message of its own or inside of one that is there, a model in the words
    beside its calls or in a paragraph of its own, a tool on a line of its output.

    Args:
        messages: The run; its system messages are left out.
        seed: Decides everything.
        rounds: How many parts it is cut into.
        by_user: Share of the facts that the user says.
        by_tool: Share of the facts that stand in the output of a tool, where tools say such things;
            the others stand in words of the model.
    """
    rng = random.Random(seed)
    runs = [group.messages for group in groups([m for m in messages if m.type != "system"])]
    facts = make_facts(rng)
    size = -(-len(runs) // rounds)
    parts = [runs[at : at + size] for at in range(0, len(runs), size)]
    batches = [[message for run in part for message in run] for part in parts]
    for fact in facts:
        batch = batches[rng.randrange(max(1, len(parts) // 2))]
        drawn = rng.random()
        if fact.shown and drawn < by_tool and _planted_in_result(batch, fact, rng):
            continue
        if drawn < 1 - by_user and _planted_in_answer(batch, fact, rng):
            continue
        _plant_as_user(batch, fact, rng)
    return Planted(batches, {fact.kind: fact.literals for fact in facts})


def _planted_in_result(batch: list[BaseMessage], fact: Fact, rng: random.Random) -> bool:
    """Put a fact on a line of a tool's output; false where there is none."""
    places = [at for at, one in enumerate(batch) if isinstance(one, ToolMessage)]
    if not places:
        return False
    at = rng.choice(places)
    lines = text_of(batch[at]).split("\n")
    lines.insert(rng.randint(0, min(20, len(lines))), rng.choice(fact.shown))
    batch[at] = batch[at].model_copy(update={"content": "\n".join(lines)})
    return True


def _planted_in_answer(batch: list[BaseMessage], fact: Fact, rng: random.Random) -> bool:
    """Put a fact behind what the model says; false where a user must say it."""
    places = [at for at, one in enumerate(batch) if type(one) is AIMessage]
    if not places or fact.kind in ONLY_USERS:
        return False
    at = rng.choice(places)
    said = f"{text_of(batch[at])}{rng.choice((' ', chr(10) * 2))}{as_assistant(fact, rng)}".strip()
    batch[at] = batch[at].model_copy(update={"content": said})
    return True


def _plant_as_user(batch: list[BaseMessage], fact: Fact, rng: random.Random) -> None:
    """Let the user say a fact: in a message that is there, or in one of its own."""
    said = [at for at, one in enumerate(batch) if type(one) is HumanMessage]
    if said and rng.random() < _IN_A_MESSAGE:
        at = rng.choice(said)
        text = f"{text_of(batch[at])}\n\n{as_user(fact, rng)}"
        batch[at] = batch[at].model_copy(update={"content": text})
        return
    # never between a call and its result
    places = [at for at, one in enumerate(batch) if not isinstance(one, ToolMessage)]
    batch.insert(rng.choice([0, *places]), HumanMessage(as_user(fact, rng)))


def _turns(rng: random.Random, turns: int, *, noise: bool) -> list[BaseMessage]:
    messages: list[BaseMessage] = []
    for turn in range(turns):
        said = [*rng.sample(_SMALL, 1), *rng.sample(_TALK, rng.randint(1, 4))]
        messages.append(HumanMessage("\n".join(said)))
        if noise and rng.random() < 0.5:
            call_id = f"call_{rng.getrandbits(32):08x}"
            args = {"command": f"grep -rn {rng.choice(_AREAS)} . | head -{rng.randint(5, 90)}"}
            call = {"id": call_id, "name": "bash", "args": args, "type": "tool_call"}
            messages.append(AIMessage("", tool_calls=[call]))
            log = "\n".join(
                f"2025-02-{rng.randint(1, 28):02} 10:{rng.randint(10, 59)}:07 INFO worker-"
                f"{rng.getrandbits(40):010x} handled {rng.randint(1, 9999)} rows in {turn} ms"
                for _ in range(rng.randint(3, 40))
            )
            messages.append(ToolMessage(log, tool_call_id=call_id))
        said = [
            line.format(n=rng.randint(2, 90)) for line in rng.sample(_ANSWERS, rng.randint(1, 4))
        ]
        messages.append(AIMessage("\n".join(said)))
    return messages


def roll(
    summarizer: Summarizer,
    batches: Sequence[Sequence[BaseMessage]],
    *,
    max_tokens: int,
    count_text: Callable[[str], int],
) -> list[str]:
    """Return the running summary after each batch, each one written into the one before."""
    summaries: list[str] = []
    for batch in batches:
        prior = summaries[-1] if summaries else None
        request = SummaryRequest(batch, max_tokens=max_tokens, count_text=count_text, prior=prior)
        summaries.append(summarizer.summarize(request).text)
    return summaries


def roll_log(
    summarizer: Summarizer,
    batches: Sequence[Sequence[BaseMessage]],
    *,
    max_tokens: int,
    count_text: Callable[[str], int],
) -> list[str]:
    """Return the log of entries after each batch, as one text of at most `max_tokens`.

    An entry has at most a quarter of the room; where all together have too much, all but the newest
    are condensed into one of half of the room.
    """
    entries: list[str] = []
    logs: list[str] = []
    for batch in batches:
        request = SummaryRequest(
            batch,
            max_tokens=max_tokens // 4,
            count_text=count_text,
            prior="\n\n".join(entries) or None,
        )
        entries.append(summarizer.summarize(request).text)
        if count_text("\n\n".join(entries)) > max_tokens:
            notes = [HumanMessage(text, name="earlier_notes") for text in entries[:-1]]
            condensing = SummaryRequest(
                notes, max_tokens=max_tokens // 2, count_text=count_text, condenses=True
            )
            entries = [summarizer.summarize(condensing).text, entries[-1]]
        logs.append("\n\n".join(entries))
    return logs


def measure(
    summarizer: Summarizer,
    *,
    seeds: Sequence[int],
    max_tokens: int,
    count_text: Callable[[str], int],
    rounds: int = 10,
    noise: bool = True,
    planted_by: Callable[..., Planted] = plant,
    rolled: Callable[..., list[str]] = roll,
) -> Survival:
    """Count which planted literals are left after the last round, for each seed."""
    survival = Survival()
    for seed in seeds:
        planted = planted_by(seed, rounds=rounds, noise=noise)
        last = rolled(summarizer, planted.rounds, max_tokens=max_tokens, count_text=count_text)[-1]
        survival.add(planted, last)
    return survival
