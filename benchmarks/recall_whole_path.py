"""How much of the evidence for a question is in the request that the model gets.

Each dialogue is played through `TokenMemoryChatHistory` turn by turn, at a window of 8,000 tokens,
with recall and the extractive summarizer. Then each question is asked by `with_token_memory`, as
the next thing that the user says. The model fails once it has seen the request, so the question is
not stored and no later question finds it. Evidence counts if the request contains its text or, of a
long message, one part of 256 tokens.

The second row is the same without recall: what the running summary and the newest messages hold.
For comparison, each dialogue is played through `trim_messages`, which keeps the newest messages
within the same budget, and through LangChain's SummarizationMiddleware and LangMem as `price.py`
calls them. None of them looks at the question, so its request is the last one before it. Their
summaries are written by a model that cites the lines with the most literals: no language model is
here.

`share` is the mean share of a question's evidence; `any` and `all` are the questions for which some
or all of the evidence is there.

Neither the data (see `_talks.py`) nor the model is part of this project.

Run: python benchmarks/recall_whole_path.py DATA ... [--embeddings none|hashing|minilm]
     [--cache FILE] [--window 8000] [--dialogues 10]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from typing import Any

from _models import MiniLM
from _price_citing import CitingModel
from _price_systems import SYSTEMS, missing_package
from _talks import Dialogue, Question, read_dialogues
from langchain_core.embeddings import Embeddings
from langchain_core.messages import BaseMessage, HumanMessage, trim_messages
from langchain_core.runnables import RunnableLambda
from recall_talks import model_named

from langchain_tokenmem import (
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptStore,
    with_token_memory,
)
from langchain_tokenmem.cli.measures import reference_counter
from langchain_tokenmem.core.messages import marked, text_of
from langchain_tokenmem.recall import ChromaIndex
from langchain_tokenmem.recall.text_parts import (
    PASSAGE_TOKENS,
    parts_of,
    rough_tokens,
    sentences_of,
)
from langchain_tokenmem.tokens.counters import counter_for

SUMMARIZING = ("LangChain", "LangChain 80-30", "LangMem")
"""Systems of `price.py` that are compared, where they are installed."""

ALONE = "chat history without recall"


class SeenError(Exception):
    """The model has seen its request."""


def dated(dialogue: Dialogue) -> list[BaseMessage]:
    """Return the messages of a dialogue with the time of their sitting."""
    return [
        marked(message, created_at=line.said_at.isoformat())
        for message, line in zip(dialogue.messages(), dialogue.lines, strict=True)
    ]


def play(dialogue: Dialogue, memory: TokenMemory, store: TranscriptStore) -> None:
    """Let a dialogue happen in the chat history: a view after each thing that the human says."""
    history = TokenMemoryChatHistory(dialogue.name, memory=memory, store=store)
    for message in dated(dialogue):
        history.add_messages([message])
        if message.type == "human":
            history.view()


def requests(
    dialogue: Dialogue, memory: TokenMemory, store: TranscriptStore
) -> Iterator[tuple[Question, list[BaseMessage]]]:
    """Ask each question; yield it with the request that reached the model."""
    seen: list[list[BaseMessage]] = []

    def model(messages: list[BaseMessage]) -> str:
        seen.append(messages)
        raise SeenError

    chain = with_token_memory(RunnableLambda(model), memory, store)
    before = store.state(dialogue.name)
    count = store.count(dialogue.name)
    for question in dialogue.questions:
        try:
            chain.invoke(question.text, {"configurable": {"session_id": dialogue.name}})
        except SeenError:
            yield question, seen.pop()
        # What the failed turn has left in the state must not help or hinder the next question.
        after = store.state(dialogue.name)
        if after.version != before.version and before.state is not None:
            store.save_state(dialogue.name, before.state, expected=after.version)
            before = store.state(dialogue.name)
        if store.count(dialogue.name) != count:
            raise SystemExit("A question was stored: the next one would find it.")


def share_in(question: Question, dialogue: Dialogue, request: Sequence[BaseMessage]) -> float:
    """Return how much of a question's evidence a request holds, as text or as a passage of it."""
    sent = _flat("\n".join(map(text_of, request)))
    texts = [line.text for line in dialogue.lines if line.id in question.evidence]
    return sum(any(_flat(one) in sent for one in _passages(text)) for text in texts) / len(texts)


def _passages(text: str) -> Iterator[str]:
    """Yield a short text whole, and of a long one every run of sentences of `PASSAGE_TOKENS`."""
    sentences = sentences_of(text) if len(parts_of(text)) > 1 else [text]
    for start in range(len(sentences)):
        run = accumulate(sentences[start:])
        yield next((one for one in run if rough_tokens(one) >= PASSAGE_TOKENS), text)


def _flat(text: str) -> str:
    """Return a text without its line breaks: lines are indented in a block."""
    return " ".join(text.split())


def trimmed(dialogue: Dialogue, question: Question, limit: int) -> list[BaseMessage]:
    """Return what LangChain's `trim_messages` sends on the same budget."""
    counter = counter_for(None)
    return trim_messages(
        [*dialogue.messages(), HumanMessage(question.text)],
        max_tokens=limit,
        token_counter=lambda messages: counter.count(messages).tokens,
        strategy="last",
    )


def summarized(dialogue: Dialogue, name: str, window: int) -> list[BaseMessage]:
    """Return the last request of a system of `price.py` to which the dialogue happened."""
    profile: Any = {"max_input_tokens": window}
    ask = SYSTEMS[name](window, CitingModel(counter=reference_counter(), profile=profile))
    messages = dated(dialogue)
    for place, message in enumerate(messages, 1):
        if message.type == "human":
            ask(messages[:place])
    return ask(messages)


def line_of(name: str, rows: Sequence[tuple[str, float]]) -> str:
    """Return a line of the table; the kinds show their mean share."""
    shares = [share for _, share in rows]
    kinds = [[share for kind, share in rows if kind == each] for each in kinds_of(rows)]
    return (
        f"{name:34} {len(rows):5} {_percent(shares):6.1f} "
        f"{_percent([share > 0 for share in shares]):6.1f} "
        f"{_percent([share == 1 for share in shares]):6.1f}  "
        + " ".join(f"{_percent(kind):13.1f}" for kind in kinds)
    )


def kinds_of(rows: Sequence[tuple[str, float]]) -> list[str]:
    """Return the kinds of questions, in order."""
    return sorted({kind for kind, _ in rows})


def _percent(values: Sequence[float]) -> float:
    return 100 * sum(values) / len(values) if values else 0.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", type=Path, help="talks, .json or .json.gz")
    parser.add_argument("--embeddings", choices=("none", "hashing", "minilm"), default="none")
    parser.add_argument("--cache", type=Path, help=".npz that keeps vectors between runs")
    parser.add_argument("--window", type=int, default=8_000)
    parser.add_argument("--dialogues", type=int, default=10)
    options = parser.parse_args()
    if not options.data:
        print("It needs DATA, talks with questions: none are given, none are read.")
        return
    model = model_named(options.embeddings, options.cache)
    budget = TokenBudget(context_window=options.window)
    print(f"limit {budget.limit:,}, recall share {budget.recall_tokens:,} tokens")
    for path in options.data:
        compare(path.name, read_dialogues(path)[: options.dialogues], budget, model)
    if isinstance(model, MiniLM):
        model.keep()


def compare(
    name: str, dialogues: Sequence[Dialogue], budget: TokenBudget, model: Embeddings | None
) -> None:
    """Print the table of one set."""
    ours: list[tuple[str, float]] = []
    there = [name for name in SUMMARIZING if not missing_package(name)]
    systems = (ALONE, "trim_messages", *there)
    theirs: dict[str, list[tuple[str, float]]] = {name: [] for name in systems}
    used: list[int] = []
    started = time.perf_counter()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        store = stack.enter_context(TranscriptStore(f"sqlite:///{folder}/memory.db"))
        chroma = ChromaIndex(Path(folder) / "chroma", embeddings=model) if model else None
        recall = stack.enter_context(Recall(store, chroma))
        memory, alone = TokenMemory(budget, recall=recall), TokenMemory(budget)
        for dialogue in dialogues:
            play(dialogue, memory, store)
            recall.index()
            last = {name: summarized(dialogue, name, budget.context_window) for name in there}
            with TranscriptStore("sqlite://") as other:
                play(dialogue, alone, other)
                history = TokenMemoryChatHistory(dialogue.name, memory=alone, store=other)
                last[ALONE] = history.view().messages
            for question, request in requests(dialogue, memory, store):
                ours.append((question.kind, share_in(question, dialogue, request)))
                used.append(memory.count(request).tokens)
                last["trim_messages"] = trimmed(dialogue, question, budget.limit)
                for system, kept in last.items():
                    theirs[system].append((question.kind, share_in(question, dialogue, kept)))
    kinds = " ".join(f"{kind:>13}" for kind in kinds_of(ours))
    print(f"{name:34} {'n':>5} {'share':>6} {'any':>6} {'all':>6}  {kinds}")
    print(line_of("  chat history with recall", ours))
    for system, rows in theirs.items():
        print(line_of(f"  {system}", rows))
    print(
        f"  requests of {sum(used) / len(used):,.0f} tokens on average, {max(used):,} at most; "
        f"{time.perf_counter() - started:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
