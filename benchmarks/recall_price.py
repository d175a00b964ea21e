"""What recall adds to the price of a conversation, and what it would add if it showed every hit.

Each dialogue is played through `with_token_memory`, turn by turn: the first speaker asks, the
second is the scripted model. Most of these turns need nothing from earlier ones, so this is the
price of recall where it helps least. Per turn: tokens of the request; its price, where what the
request before began with costs a tenth (a provider's cache); tokens of recalled blocks in it; and
how many requests changed the beginning of the one before (a fold).

Then the labelled questions of the dialogue are asked at its end: the share of their evidence in a
block, and the block's tokens, with every hit that fits and with those that are worth their tokens.

Neither the data (see `_talks.py`) nor the model is part of this project.

Run: python benchmarks/recall_price.py DATA ... [--windows 8000,32000] [--dialogues 2]
     [--embeddings none|hashing|minilm] [--cache FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from _models import MiniLM
from _talks import Dialogue, play_in, read_dialogues
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from recall_talks import model_named

from langchain_tokenmem import (
    Recall,
    TokenBudget,
    TokenMemory,
    TranscriptStore,
    with_token_memory,
)
from langchain_tokenmem.cli.measures import reference_counter
from langchain_tokenmem.core.inserted_text import block_of
from langchain_tokenmem.core.messages import text_of
from langchain_tokenmem.memory.recalled_blocks import MAX_HITS, worth_their_tokens

CACHED = 0.1
"""Price of a token that a provider's cache holds, beside one that it reads."""


def turns_of(dialogue: Dialogue) -> Iterator[tuple[str, str]]:
    """Yield what the first speaker says, and what the second answers."""
    texts: list[list[str]] = [[], []]
    for line in dialogue.lines:
        who = int(line.speaker != dialogue.speakers[0])
        if who == 0 and texts[1]:
            yield "\n".join(texts[0]), "\n".join(texts[1])
            texts = [[], []]
        if who == 0 or texts[0]:
            texts[who].append(line.text)


def requests_of(
    dialogue: Dialogue, window: int, embeddings: Embeddings | None, *, recalls: bool
) -> list[list[BaseMessage]]:
    """Return the requests of a whole dialogue."""
    turns, requests = [*turns_of(dialogue)], []

    def answer(prompted: PromptValue) -> AIMessage:
        requests.append(prompted.to_messages())
        return AIMessage(turns[len(requests) - 1][1])

    prompt = ChatPromptTemplate.from_messages(
        [MessagesPlaceholder("history"), ("human", "{input}")]
    )
    model = RunnableLambda(answer)
    with TranscriptStore("sqlite://", shared=True) as store:
        recall = Recall(store, embeddings=embeddings) if recalls else None
        memory = TokenMemory(window, recall=recall)
        chain = with_token_memory(
            prompt | model,
            memory,
            store,
            input_messages_key="input",
            history_messages_key="history",
        )
        for question, _ in turns:
            chain.invoke({"input": question}, {"configurable": {"session_id": dialogue.name}})
    return requests


def measured(requests: Sequence[Sequence[BaseMessage]]) -> list[float]:
    """Return tokens, price and recalled tokens of a request on average, and the changes."""
    counter = reference_counter()
    rows: list[tuple[int, float, int]] = []
    before: list[str] = []
    changes = 0
    for request in requests:
        texts = [f"{message.type} {text_of(message)}" for message in request]
        sizes = [counter.message(message) for message in request]
        pairs = enumerate(zip(before, texts, strict=False))
        same = next((at for at, (one, two) in pairs if one != two), min(len(before), len(texts)))
        changes += same < len(before)
        blocks = (text for text in texts if "<recalled_messages" in text)
        price = sum(sizes) - (1 - CACHED) * sum(sizes[:same])
        rows.append((sum(sizes), price, sum(map(counter.text, blocks))))
        before = texts
    return [*means(rows), changes]


def evidence_in_blocks(
    dialogue: Dialogue, window: int, embeddings: Embeddings | None
) -> tuple[list[float], list[float]]:
    """Return the mean evidence and tokens of blocks: with every hit, and as they are sent."""
    count, room = reference_counter().text, TokenBudget(context_window=window).recall_tokens
    every: list[tuple[float, int]] = []
    sent: list[tuple[float, int]] = []
    with TranscriptStore("sqlite://") as store, Recall(store, embeddings=embeddings) as recall:
        name = dialogue.name
        play_in(store, dialogue, name, name)
        recall.index()
        for question in dialogue.questions:
            hits = recall.search(question.text, session_id=name, user_id=name, k=MAX_HITS)
            for rows, chosen in ((every, hits), (sent, worth_their_tokens(question.text, hits))):
                block = block_of(chosen, room, count)
                share = len(question.evidence.intersection(block["ids"])) / len(question.evidence)
                rows.append((100 * share, count(block["text"])))
    return means(every), means(sent)


def means(rows: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of each column."""
    return [fmean(column) for column in zip(*rows, strict=True)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", type=Path, help="talks, .json or .json.gz")
    parser.add_argument("--windows", default="8000,32000")
    parser.add_argument("--dialogues", type=int, default=2)
    parser.add_argument("--embeddings", choices=("none", "hashing", "minilm"), default="none")
    parser.add_argument("--cache", type=Path, help=".npz that keeps vectors between runs")
    options = parser.parse_args()
    if not options.data:
        print("It needs DATA, talks with questions: none are given, none are read.")
        return
    model = model_named(options.embeddings, options.cache)
    print(
        f"{'':24}{'window':>7} {'recall':>6} {'tokens':>7} {'price':>7} {'recalled':>8} changes"
        "  questions: every hit  as sent"
    )
    for path in options.data:
        for dialogue in read_dialogues(path)[: options.dialogues]:
            for window in map(int, options.windows.split(",")):
                for recalls in (False, True):
                    found = measured(requests_of(dialogue, window, model, recalls=recalls))
                    row = f"{dialogue.name:24}{window:7} {'on' if recalls else 'off':>6} "
                    row += "{:7.0f} {:7.0f} {:8.0f} {:7}".format(*found)
                    if recalls:
                        every, sent = evidence_in_blocks(dialogue, window, model)
                        row += "  {:5.1f} in {:5.0f}  {:5.1f} in {:5.0f}".format(*every, *sent)
                    print(row, flush=True)
    if isinstance(model, MiniLM):
        model.keep()


if __name__ == "__main__":
    main()
