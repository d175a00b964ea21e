"""Tries the package where one of its optional parts cannot be imported: everything else works.

Usage:
    python .ci/without.py chromadb

The library was uninstalled before. Leaves with 1 and says what does not work.
"""

import asyncio
import importlib
import pkgutil
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from typer.testing import CliRunner

import langchain_tokenmem
from langchain_tokenmem import (
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
    with_token_memory,
)
from langchain_tokenmem.adapters.importing import sql_histories
from langchain_tokenmem.errors import TokenMemoryError
from langchain_tokenmem.recall import ChromaIndex
from langchain_tokenmem.storage.import_sources import history_engine

SAID = [HumanMessage("Parcel 4711 is in Berlin.", id="h"), AIMessage("Noted.", id="a")]
MODEL = FakeListChatModel(responses=["Yes."])


def check(is_right: object, what: str) -> None:
    """Leave with 1 where something is wrong."""
    if not is_right:
        raise SystemExit(f"Without {sys.argv[1]}: {what}")


def modules() -> None:
    """Import every module of the package."""
    for module in pkgutil.walk_packages(langchain_tokenmem.__path__, "langchain_tokenmem."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def chain(folder: Path) -> None:
    """Take turns of a chain with recall by words, sync and async."""
    with TranscriptStore(folder / "chain.db") as store:
        recall = Recall(store)
        memory = TokenMemory(TokenBudget(context_window=2_000), recall=recall)
        talk = with_token_memory(MODEL, memory, store)
        config = {"configurable": {"session_id": "s"}}
        talk.invoke("Where is parcel 4711?", config)
        asyncio.run(talk.ainvoke("And 4712?", config))
        check(store.count("s") == 2 * len(SAID), "a chain's turns are not stored")
        hits = recall.search("parcel 4711", session_id="s")
        check(hits and "4711" in hits[0].text, "recall by words finds nothing")


def agent(folder: Path) -> None:
    """Run an agent with middleware and checkpointer."""
    from langchain.agents import create_agent  # noqa: PLC0415  slow

    with TranscriptStore(folder / "agent.db") as store:
        memory = TokenMemory(TokenBudget(context_window=2_000))
        made = create_agent(
            MODEL,
            middleware=[TokenMemoryMiddleware(memory)],
            checkpointer=TokenMemorySaver(store),
        )
        config = {"configurable": {"thread_id": "t"}}
        found = made.invoke({"messages": SAID[:1]}, config)
        check(found["messages"][-1].content == "Yes.", "an agent does not answer")


def imports(folder: Path) -> None:
    """Import messages and files, export, and import the export."""
    from langchain_tokenmem.cli.app import app  # noqa: PLC0415  slow

    file, old, new = (folder / name for name in ("out.jsonl", "old.db", "new.db"))
    with TranscriptStore(old) as store:
        store.import_history(SAID, "s")
    for given in (("export", old, "--out", file), ("import", file, new)):
        done = CliRunner().invoke(app, [str(one) for one in given])
        check(done.exit_code == 0, f"tokenmem {given[0]}: {done.output}")
    with TranscriptStore(new) as store:
        check(store.messages("s") == SAID, "an export is imported as something else")


def chromadb(folder: Path) -> None:
    """Ask for vectors in Chroma."""
    index = ChromaIndex(str(folder / "chroma"), embeddings=DeterministicFakeEmbedding(size=8))
    with TranscriptStore(folder / "chroma.db") as store:
        store.add("s", SAID)
        Recall(store, chroma=index).rebuild()


def langchain_community(folder: Path) -> None:
    """Ask for the histories in a SQL table."""
    import sqlite3  # noqa: PLC0415

    path = folder / "histories.db"
    made = sqlite3.connect(path)
    made.execute("CREATE TABLE message_store (id INTEGER, session_id TEXT, message TEXT)")
    made.close()
    with history_engine(f"sqlite:///{path}") as engine:
        list(sql_histories(engine))


NEEDING: dict[str, Callable[[Path], None]] = {
    "chromadb": chromadb,
    "langchain_community": langchain_community,
}


def main() -> None:
    """Try everything, then what needs the library."""
    missing = sys.argv[1].replace("-", "_")
    check(find_spec(missing) is None, "it is installed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        modules()
        for one in (chain, agent, imports):
            one(folder)
        try:
            NEEDING[missing](folder)
        except TokenMemoryError as error:
            check("pip install" in str(error), f"the error says not what to do: {error}")
        else:
            check(is_right=False, what="what needs it raises no error")
    sys.stdout.write(f"Without {missing}: everything else works.\n")


if __name__ == "__main__":
    main()
