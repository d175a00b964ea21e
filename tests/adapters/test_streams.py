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


@pytest.mark.slow
@pytest.mark.parametrize("is_quick", [False, True])
async def test_no_word_of_a_summary_of_the_turn_is_in_any_stream_mode(door, is_quick):
    """The plainest call of a chat model: the graph's callbacks are inherited."""
    model = StrictModel(script=[AIMessage("SECRET SUMMARY")] * 99)

    class Streaming(ListSummarizer):
        def summarize(self, request):
            model.invoke("Summarize.")
            return super().summarize(request)

    summarizer = Streaming()
    summarizer.is_quick = is_quick
    _, graph = door(memory_of(summarizer=summarizer))
    given, how = {"messages": turns(30)}, {"stream_mode": MODES, "subgraphs": True}
    chunks = [chunk async for chunk in graph.astream(given, thread(), **how)]
    assert model.seen
    assert {mode for _, mode, _ in chunks} == set(MODES)
    assert "SECRET" not in repr(chunks)


@pytest.mark.slow
def test_no_word_of_a_summary_behind_the_reply_is_in_the_message_stream(door):
    writer = Scripted(answer=NOTES)
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
    writer = Scripted(answer=NOTES)
    memory = memory_of(summarizer=writer, background=False)
    model = Scripted(answer="one two three")
    chain = with_token_memory(model, memory, store)
    store.add("s", turns(30))
    said = "".join(chunk.content for chunk in chain.stream("Go on.", session()))
    assert said == "one two three"
    events = chain.astream_events("Go on.", session(), version="v2")
    spoken = [e["data"]["chunk"] async for e in events if e["event"] == "on_chat_model_stream"]
    assert "".join(chunk.content for chunk in spoken) == "one two three"
    assert writer.requests
