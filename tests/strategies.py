"""Hypothesis strategies: conversations as broken as they come."""

from functools import partial

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

SCRIPTS = st.sampled_from(
    ["word ", "数据", "مرحبا ", "Привет ", "🙂", "{'a': 1}\n", "ERROR x\n", " ", "\n", "aGVsbG8="]
)
# The characters of `st.text()`, which finds them by encoding each: 3 s of the first process.
any_text = partial(st.text, st.characters(exclude_categories=["Cs"]))
IDS = st.sampled_from(["a", "b", "c", "d", None])
CALL_IDS = st.sampled_from(["c1", "c2", "c3", "c4"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Texts of any script, a few of them giant."""
    times = draw(st.sampled_from([0, 1, 1, 3, 20, 200, 3_000]))
    return draw(SCRIPTS) * times + draw(st.sampled_from(["", "end", "<|endoftext|>"]))


BLOCKS = st.one_of(
    st.builds(lambda t: {"type": "text", "text": t}, texts()),
    st.just({"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5_000}}),
    st.just({"type": "reasoning", "summary": [], "encrypted_content": "x" * 3_000}),
    st.just({"type": "thinking", "thinking": "hm " * 50, "signature": "s" * 400}),
    st.just({"type": "what-is-this", "data": {"deep": [1, None, "x"]}}),
)
CONTENTS = st.one_of(texts(), st.lists(BLOCKS, max_size=3))


@st.composite
def calls(draw: st.DrawFn) -> list[dict]:
    """Tool calls, sometimes with giant arguments or a repeated id."""
    return [
        {"name": "tool", "args": {"q": draw(texts())}, "id": key, "type": "tool_call"}
        for key in draw(st.lists(CALL_IDS, max_size=4))
    ]


def messages() -> st.SearchStrategy[BaseMessage]:
    """One message of any kind, with or without an id."""
    return st.one_of(
        st.builds(HumanMessage, CONTENTS, id=IDS),
        st.builds(lambda c, k, i: AIMessage(c, tool_calls=k, id=i), CONTENTS, calls(), IDS),
        st.builds(
            lambda c, k, i, s: ToolMessage(c, tool_call_id=k, id=i, status=s),
            CONTENTS,
            CALL_IDS,
            IDS,
            st.sampled_from(["success", "error"]),
        ),
        st.builds(SystemMessage, st.sampled_from(["Be brief.", "Rules.", ""]), id=IDS),
    )


def conversations(max_size: int = 14) -> st.SearchStrategy[list[BaseMessage]]:
    """Lists of messages: orphans, duplicates, dangling calls, anything."""
    return st.lists(messages(), max_size=max_size)
