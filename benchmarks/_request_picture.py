"""Draws docs/request.svg: 24 requests of one conversation, and what each consists of.

The figures are those of a real run: an agent's turns of about 280 tokens in a window of 4,000.
What is cached is the text that a request has in common with the one before.

Run: python benchmarks/_request_picture.py
"""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

from _talk import Talk
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import TokenMemory

PAGE = Path(__file__).parents[1] / "docs" / "request.svg"
WINDOW, CALLS = 4_000, 24
WIDTH, HEIGHT, LEFT, TOP, STEP, BAR = 720, 250, 56, 34, 27, 19
COLOURS = {"system": "#5b6b7f", "summary": "#e09f3e", "tail": "#5b8def"}
NAMES = {"system": "system text", "summary": "summary of what was folded", "tail": "messages"}
SYSTEM = "You are a clerk. " * 40


def requests() -> list[tuple[dict[str, int], float]]:
    """Return tokens by part of each request, and its share that the one before begins with."""
    talk, memory = Talk(), TokenMemory(WINDOW, background=False)
    messages: list[BaseMessage] = []
    state, before = None, ""
    found = []
    for call in range(CALLS):
        messages.append(HumanMessage(" ".join(talk.words(35)), id=f"h{call}"))
        state = memory.compact(messages, state, system=SYSTEM)
        view = memory.view(messages, state, system=SYSTEM)
        text = "\n".join(message.text for message in view.messages)
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, text, strict=False))
        share = sum(1 for _ in same) / len(text)
        found.append(({part: view.usage.parts[part] for part in COLOURS}, share))
        before = text
        messages.append(AIMessage(" ".join(talk.words(55)), id=f"a{call}"))
    return found


def height(tokens: float) -> float:
    """Return pixels."""
    return (HEIGHT - TOP - 40) * tokens / WINDOW


def main() -> None:
    """Write the file."""
    floor = HEIGHT - 40
    style = 'font-family="system-ui, sans-serif" font-size="12" fill="#444"'
    title = "The window fills, old messages are folded, and what comes before stays cached."
    red = 'stroke="#c33" stroke-dasharray="5 4"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + 20}" {style}>',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT + 20}" fill="#fff"/>',
        f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{TOP}" y2="{TOP}" {red}/>',
        f'<text x="{LEFT}" y="{TOP - 8}" fill="#c33">the window: {WINDOW:,} tokens</text>',
        f'<text x="{LEFT}" y="{floor + 18}">call 1</text>',
        f'<text x="{WIDTH - 50}" y="{floor + 18}">call {CALLS}</text>',
    ]
    for call, (parts, share) in enumerate(requests()):
        x, y = LEFT + call * STEP, float(floor)
        for part, tokens in parts.items():
            y -= height(tokens)
            lines.append(
                f'<rect x="{x}" y="{y:.1f}" width="{BAR}" height="{height(tokens):.1f}" '
                f'fill="{COLOURS[part]}"/>'
            )
        cached = height(share * sum(parts.values()))
        lines.append(
            f'<rect x="{x - 5}" y="{floor - cached:.1f}" width="3" height="{cached:.1f}" '
            'fill="#2a9d5c"/>'
        )
    named = [(COLOURS[part], NAMES[part]) for part in COLOURS]
    for place, (colour, name) in enumerate([*named, ("#2a9d5c", "cached by the provider")]):
        x = LEFT + (0, 110, 310, 410)[place]
        lines.append(f'<rect x="{x}" y="{HEIGHT}" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{x + 15}" y="{HEIGHT + 10}">{name}</text>')
    PAGE.write_text("\n".join([*lines, "</svg>", ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
