"""No word of a summarizer reaches a stream of the application; tracers see its calls."""

import pytest
from langchain_core.messages import AIMessage

from langchain_tokenmem import with_token_memory
from tests.adapters.integrations import session, state_of, thread, turns
from tests.fakes import ListSummarizer, log_text, memory_of
from tests.providers import StrictModel
from tests.summarize.models import Scripted

NOTES = "## Goal\nSECRET parcel 4711 goes to Bonn and the user wants a receipt by Friday."
MODES = ["messages", "updates", "custom", "values"]


class Streaming(ListSummarizer):
    """Calls a chat model in the plainest way: the graph's callbacks are inherited."""

    def __init__(self) -> None:
        super().__init__()
        self.model = StrictModel(script=[AIMessage("SECRET SUMMARY")] * 99)

    def summarize(self, request):
        self.model.invoke("Summarize.")
        return super().summarize(request)

    async def asummarize(self, request):
        await self.model.ainvoke("Summarize.")
        return super().summarize(request)


@pytest.mark.slow
async def test_no_word_of_a_summary_of_the_turn_is_in_any_stream_mode(door):
    summarizer = Streaming()
    _, graph = door(memory_of(summarizer=summarizer))
    given, how = {"messages": turns(30)}, {"stream_mode": MODES, "subgraphs": True}
    chunks = [chunk async for chunk in graph.astream(given, thread(), **how)]
    assert summarizer.model.seen
    assert {mode for _, mode, _ in chunks} == set(MODES)
    assert "SECRET" not in repr(chunks)


@pytest.mark.slow
def test_no_word_of_a_summary_behind_the_reply_is_in_the_message_stream(door):
    writer = Scripted(answer=lambda _messages: NOTES)
    memory, chunks = memory_of(4_000, summarizer=writer), []
    _, graph = door(memory)
    for said in (turns(30), turns(20, 30)):  # below the hard limit, and over it
        chunks += graph.stream({"messages": said}, thread(), stream_mode="messages")
        memory.close()
    assert writer.requests
    assert "SECRET" in log_text(state_of(graph))
    assert "".join(str(chunk.content) for chunk, _ in chunks) == "Yes." * 2
    assert {metadata["langgraph_node"] for _, metadata in chunks} == {"model"}


async def test_nothing_of_the_memory_reaches_the_streams_of_a_chain(store):
    writer = Scripted(answer=lambda _messages: NOTES)
    memory = memory_of(summarizer=writer, background=False)
    model = Scripted(answer=lambda _messages: "one two three")
    chain = with_token_memory(model, memory, store)
    store.add("s", turns(30))
    said = "".join(chunk.content for chunk in chain.stream("Go on.", session()))
    assert said == "one two three"
    events = chain.astream_events("Go on.", session(), version="v2")
    spoken = [e["data"]["chunk"] async for e in events if e["event"] == "on_chat_model_stream"]
    assert "".join(chunk.content for chunk in spoken) == "one two three"
    assert writer.requests
