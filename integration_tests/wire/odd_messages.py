"""Odd conversations, made from a seed: every kind of block, call and result, by several providers.

What stands in them has been seen in histories that applications keep: replies that were stopped in
the middle of a call, ids that come again, results that came late or never, content of another
provider's model, marks for prompt caches by the dozen.
"""

import random
from collections.abc import Callable
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9Q"
    "DwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WORDS = (
    *("word ", "данные ", "数据", "مرحبا ", "🙂 ", "{'a': 1}\n", 'He said "yes".\n', "Error: x\n"),
    *("def f(x):\n\treturn x\n", "\\", "a/b/c ", "4711 ", "<b>", "\n"),
)
OWNERS = ("anthropic", "openai", "google_genai", "mistralai", None)
CALL_IDS = ("c1", "c2", "call_3", "functions.read:0", "toolu_01AbC", "x" * 60, "", "c1")
NAMES = ("read", "read", "write_file", "functions.read file", "mcp__git-log")
MARK = {"cache_control": {"type": "ephemeral"}}

Dice = random.Random


def block(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def text(dice: Dice, *, most: int = 20_000) -> str:
    """Return a text of any length, mostly short; now and then blank."""
    length = dice.choice([0, 1, 5, 20, 20, 100, 100, 400, 400, 2_000, dice.choice([2_000, most])])
    word = dice.choice(WORDS)
    return (word * (length // len(word) + 1))[: min(most, length)]


def image(dice: Dice) -> dict[str, Any]:
    url, png = f"data:image/png;base64,{PIXEL}", "image/png"
    return dice.choice(
        [
            block("image_url", image_url={"url": url}),
            block("image", base64=PIXEL, mime_type=png),
            block("image", source=block("base64", media_type=png, data=PIXEL)),
            block("input_image", image_url=url),
            block("media", mime_type=png, data=PIXEL),
        ]
    )


def other_media(dice: Dice) -> dict[str, Any]:
    return dice.choice(
        [
            block("audio", base64=PIXEL, mime_type="audio/wav"),
            block("input_audio", input_audio={"data": PIXEL, "format": "wav"}),
            block("file", base64=PIXEL, mime_type="application/pdf", filename="a.pdf"),
            block("document", source=block("text", media_type="text/plain", data=text(dice))),
            block("text-plain", text=text(dice), mime_type="text/plain"),
            block("video", base64=PIXEL, mime_type="video/mp4"),
        ]
    )


def text_block(dice: Dice) -> Any:
    said = text(dice)
    plain = block("text", text=said)
    return dice.choice([{**plain, **MARK}] * 4 + [said, {"text": said}] + [plain] * 14)


def unknown(dice: Dice) -> dict[str, Any]:
    return block("what-is-this", data={"deep": [1, None, text(dice, most=4_000)]})


def human(dice: Dice, key: str | None) -> BaseMessage:
    kind = dice.random()
    if kind < 0.5:
        return HumanMessage(text(dice), id=key)
    if kind < 0.55:
        return ChatMessage(role="user", content=text(dice), id=key)
    makers: list[Callable[[Dice], Any]] = [text_block, text_block, image, other_media, unknown]
    return HumanMessage([dice.choice(makers)(dice) for _ in range(dice.randint(0, 4))], id=key)


def reasoning(dice: Dice, owner: str | None) -> dict[str, Any]:
    if owner == "openai":
        key = f"rs_{dice.getrandbits(40):x}"
        summary: Any = dice.choice([[], [block("summary_text", text="I think.")]])
        encrypted = dice.choice(["x" * 900, "y" * 20])
        return block("reasoning", id=key, summary=summary, encrypted_content=encrypted)
    thought = text(dice, most=900)
    signature = "R09PR0xF" if owner == "google_genai" else f"{owner or 'none'}-signature"
    return block("thinking", thinking=thought, signature=signature)


def compaction(dice: Dice, owner: str) -> dict[str, Any]:
    """Return what a provider's own compaction leaves in a reply."""
    if owner == "openai":
        return block("compaction", id="cmp_1", encrypted_content="x" * 400)
    return block("compaction", content=dice.choice([None, text(dice, most=900) or "Notes."]))


def server_blocks(dice: Dice, owner: str | None) -> list[dict[str, Any]]:
    """Return what a tool on the provider's own server leaves in a reply."""
    key, said = f"{dice.getrandbits(40):x}", text(dice, most=4_000)
    if owner == "openai":
        search = {"type": "search", "query": said}
        logs = {"code": said, "outputs": [block("logs", logs=said)]}
        named = {"name": "search", "server_label": "wiki", "arguments": '{"q": "x"}'}
        done = {"status": "completed"}
        run = {"container_id": f"cntr_{key}", **logs, **done}
        kinds = [
            block("web_search_call", id=f"ws_{key}", action=search, **done),
            block("code_interpreter_call", id=f"ci_{key}", **run),
            block("mcp_call", id=f"mcp_{key}", **named, output=said),
            block("refusal", refusal="No."),
        ]
        return [dice.choice(kinds)]
    if owner == "google_genai":
        return [
            block("executable_code", executable_code=said, language="PYTHON"),
            block("code_execution_result", code_execution_result=said, outcome=1),
        ]
    name = dice.choice(["web_search", "bash_code_execution", "web_fetch"])
    call = block("server_tool_use", id=f"srvtoolu_{key}", name=name, input={"query": said})
    inside: Any = block("bash_code_execution_result", stdout=said, return_code=0)
    if name == "web_search":
        page = {"url": "https://example.org", "title": said[:40], "encrypted_content": "E" * 300}
        inside = [block("web_search_result", **page)]
    answer = block(f"{name}_tool_result", tool_use_id=call["id"], content=inside)
    return dice.choice([[call, answer]] * 6 + [[call], [answer]])


def standard_reply(dice: Dice, owner: str, key: str | None) -> AIMessage:
    """Return a reply in LangChain's own names (`output_version="v1"`), with a server's tool."""
    prefix = "ws_" if owner == "openai" else "srvtoolu_"
    call = f"{prefix}{dice.getrandbits(40):x}"
    page = block("web_search_result", url="https://example.org", title="y")
    result = {"status": "success", "output": [page]}
    extras = {"block_type": "web_search_tool_result"}
    content: list[Any] = [
        block("server_tool_call", id=call, name="web_search", args={"query": "x"}),
        block("server_tool_result", tool_call_id=call, **result, extras=extras),
        block("text", text="I have searched."),
    ]
    metadata = {"model_provider": owner, "output_version": "v1"}
    return AIMessage(content, response_metadata=metadata, id=key)


def calls_of(dice: Dice) -> tuple[list[Any], list[Any]]:
    """Return valid and invalid calls: long ones, with ids that come again or are empty."""
    valid, invalid = [], []
    for _ in range(dice.choice([1, 1, 1, 2, 3, 6])):
        key, name = dice.choice(CALL_IDS), dice.choice(NAMES)
        if dice.random() < 0.5:
            key = f"call_{dice.getrandbits(40):x}"
        if dice.random() < 0.75:
            args = {"q": text(dice), "more": [1, {"x": text(dice, most=500)}]}
            valid.append({"name": name, "args": args, "id": key, "type": "tool_call"})
        else:
            named = dice.choice([name, name, name, None])
            args = dice.choice(['{"q": "' + text(dice), "", None, "[1]"])
            broken = {"name": named, "args": args, "id": dice.choice([key, key, None])}
            invalid.append(block("invalid_tool_call", **broken, error="not JSON"))
    return valid, invalid


def call_blocks(calls: list[Any], owner: str | None) -> list[dict[str, Any]]:
    """Return the calls as they stand in the content of a provider's reply."""
    if owner == "anthropic":
        return [block("tool_use", id=c["id"], name=c["name"], input=c["args"]) for c in calls]
    if owner == "openai":
        return [
            block("function_call", id=f"fc_{n}", call_id=c["id"], name=c["name"], arguments="{}")
            for n, c in enumerate(calls)
        ]
    return []


def reply(dice: Dice, owner: str | None, key: str | None) -> AIMessage:
    """Return a reply of a provider's model."""
    metadata: dict[str, Any] = {"model_provider": owner} if owner else {}
    if dice.random() < 0.05:
        call = {"name": "read", "arguments": '{"q": "' + dice.choice(WORDS[:3]) * 900 + '"}'}
        extra = {"function_call": call}
        return AIMessage("", additional_kwargs=extra, response_metadata=metadata, id=key)
    if owner in {"openai", "anthropic"} and dice.random() < 0.05:
        return standard_reply(dice, owner, key)
    valid, invalid = calls_of(dice) if dice.random() < 0.6 else ([], [])
    if dice.random() < 0.4:
        content: Any = dice.choice(["", " ", "\n", text(dice)])
    else:
        content = []
        if owner is not None and dice.random() < 0.4:
            content.append(reasoning(dice, owner))
        if owner in {"openai", "anthropic"} and dice.random() < 0.04:
            content.append(compaction(dice, owner))
        for _ in range(dice.randint(0, 2)):
            content.append(text_block(dice))
        if dice.random() < 0.3:
            content += server_blocks(dice, dice.choice([owner, owner, *OWNERS]))
        if dice.random() < 0.08:
            others = [image, other_media] if owner else [image, other_media, unknown]
            content.append(dice.choice(others)(dice))
        content += call_blocks(valid, owner) if dice.random() < 0.8 else []
    return AIMessage(
        content, tool_calls=valid, invalid_tool_calls=invalid, response_metadata=metadata, id=key
    )


def result_content(dice: Dice) -> Any:
    if dice.random() < 0.8:
        return text(dice)
    makers: list[Callable[[Dice], Any]] = [text_block, text_block, image, unknown]
    return [dice.choice(makers)(dice) for _ in range(dice.randint(0, 3))]


def results(dice: Dice, call: AIMessage, new_id: Callable[[], str | None]) -> list[BaseMessage]:
    """Return the results of a reply's calls: all, some, twice, or inside a human message."""
    if "function_call" in call.additional_kwargs:
        return [FunctionMessage(name="read", content=text(dice), id=new_id())]
    keys = [c["id"] or "" for c in (*call.tool_calls, *call.invalid_tool_calls)]
    if dice.random() < 0.15:
        keys = [key for key in keys if dice.random() < 0.5]
    if dice.random() < 0.05:
        keys = [*keys, *keys[:1], "nobody"]
    if keys and dice.random() < 0.12:
        blocks: list[Any] = [
            block("tool_result", tool_use_id=key, content=result_content(dice)) for key in keys
        ]
        return [HumanMessage([*blocks, *dice.choice([[], [text_block(dice)]])], id=new_id())]
    status: Any = dice.choice(["success", "error"])
    return [
        ToolMessage(result_content(dice), tool_call_id=key, id=new_id(), status=status)
        for key in keys
    ]


def conversation(dice: Dice, turns: int) -> list[BaseMessage]:
    """Return a conversation in which the provider changes now and then."""
    number = 0

    def new_id() -> str | None:
        nonlocal number
        number += 1
        return dice.choice([f"m{number}"] * 12 + [None, "twice"])

    messages: list[BaseMessage] = []
    if dice.random() < 0.5:
        rules = dice.choice(["Be brief.", "", [{"type": "text", "text": "Rules.", **MARK}]])
        messages.append(SystemMessage(rules, id=new_id()))
    owner = dice.choice(OWNERS)
    for _ in range(turns):
        if dice.random() < 0.2:
            owner = dice.choice(OWNERS)
        if dice.random() < 0.9:
            messages.append(human(dice, new_id()))
        for _ in range(dice.choice([1, 1, 2, 4])):
            said = reply(dice, owner, new_id())
            messages += [said, *results(dice, said, new_id)]
        if dice.random() < 0.02:
            messages.append(SystemMessage("More rules.", id=new_id()))
    if dice.random() < 0.8:
        messages.append(HumanMessage("And now?", id=new_id()))
    return messages
