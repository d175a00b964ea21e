"""A conversation taken apart under a state: what is covered, what stays visible, what is tail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_tokenmem.core.legality import OPENING, Dangling, Mended, mend
from langchain_tokenmem.core.messages import SPOKEN_TYPES, groups, is_pinned, role_of, with_ids
from langchain_tokenmem.core.profiles import COMMON, LegalityProfile
from langchain_tokenmem.core.render import left_out_text, merged_system, summary_text, with_text
from langchain_tokenmem.core.results import group_tokens, shown_messages
from langchain_tokenmem.core.shaping import BRIDGE, CLOSING, fitting, shaped
from langchain_tokenmem.state import Cut, MemoryState, RunningSummary

REPLY_PRIMING = 3
"""Tokens that every request adds for the start of the reply (OpenAI's published formula)."""


@dataclass(frozen=True, slots=True)
class Meter:
    """How a request is counted.

    Attributes:
        message: Tokens of one message.
        tools: Tokens of the tool schemas.
        overhead: Tokens around the conversation that the memory does not see.
    """

    message: Callable[[BaseMessage], int]
    tools: int = 0
    overhead: int = 0


def remembered(count: Callable[[BaseMessage], int]) -> Callable[[BaseMessage], int]:
    """Return a count that knows each message object after the first time.

    For one call, in which nobody changes a message and each is counted several times. The message
    is kept beside its count, so that its identity belongs to no other meanwhile.
    """
    known: dict[int, tuple[BaseMessage, int]] = {}

    def counted(message: BaseMessage) -> int:
        found = known.get(id(message))
        if found is None:
            found = known[id(message)] = (message, count(message))
        return found[1]

    return counted


@dataclass(frozen=True, slots=True)
class Scene:
    """A conversation as the next request would show it.

    Attributes:
        system: The application's own system text, as one message.
        summary: The running summary.
        kept: Covered groups that stay visible, oldest first.
        tail: Groups after the pointer, oldest first.
        cuts: Shortened forms by message id.
        first_request: Id of the pinned first human message.
        newest_human: Id of the newest human message.
        left_out: Messages that a marker stands for, because they did not fit.
        notes: What was repaired.
        profile: What the provider asks of the list.
        system_ids: Ids of the system messages that stand in the conversation.
    """

    system: BaseMessage | None
    summary: RunningSummary | None
    kept: tuple[Mended, ...]
    tail: tuple[Mended, ...]
    cuts: Mapping[str, Cut]
    first_request: str | None
    newest_human: str | None
    left_out: int = 0
    notes: tuple[str, ...] = ()
    profile: LegalityProfile = COMMON
    system_ids: tuple[str, ...] = ()

    def shown(self, group: Mended) -> tuple[BaseMessage, ...]:
        """Return a group as this scene shows it."""
        return shown_messages(group.messages, self.cuts)

    def front(self) -> BaseMessage | None:
        """Return the system message with everything that rides in it."""
        system = self.system
        if self.summary is not None and self.summary["text"]:
            system = with_text(system, summary_text(self.summary))
        if self.left_out:
            system = with_text(system, left_out_text(self.left_out))
        return system

    def body(self) -> list[BaseMessage]:
        """Return the messages after the system text."""
        shown = [message for group in (*self.kept, *self.tail) for message in self.shown(group)]
        if shown and role_of(shown[0]) != "human":
            shown.insert(0, OPENING)
        return shaped(shown, self.profile)

    def sizes(self, found: Sequence[Mended], meter: Meter) -> list[int]:
        """Return the tokens of groups as this scene shows them."""
        return [group_tokens(group.messages, self.cuts, meter.message) for group in found]

    def parts(self, meter: Meter) -> dict[str, int]:
        """Return the tokens of each part of the request."""
        own = meter.message(self.system) if self.system is not None else 0
        front = self.front()
        kept, tail = sum(self.sizes(self.kept, meter)), sum(self.sizes(self.tail, meter))
        body = self.body()
        added = meter.message(OPENING) if body[:1] == [OPENING] else 0
        if self.profile.shapes:
            added = sum(map(meter.message, body)) - kept - tail
        return {
            "system": own + meter.overhead + REPLY_PRIMING,
            "tools": meter.tools,
            "pinned": kept,
            "summary": (meter.message(front) if front is not None else 0) - own,
            "tail": tail + added,
        }

    def most_added(self, meter: Meter) -> int:
        """Return the most tokens that the provider's shape adds, however much is folded.

        Every bridge that stands now may stay, and every group that is kept when its neighbours
        go may need another one.
        """
        if not self.profile.shapes:
            return 0
        standing = sum(str(message.id).endswith("~bridge") for message in self.body())
        seams = 2 + len(self.kept) + sum(map(self.is_required, self.tail))
        bridge = max(meter.message(AIMessage(BRIDGE)), meter.message(HumanMessage(BRIDGE)))
        return (standing + seams) * bridge + meter.message(CLOSING)

    def is_required(self, group: Mended) -> bool:
        """Return whether a group stays visible when it is covered."""
        return any(
            message.id in {self.first_request, self.newest_human} or is_pinned(message)
            for message in group.source.messages
        )

    def folded(self, count: int) -> Scene:
        """Return the scene after its oldest `count` tail groups were covered."""
        required = [g for g in (*self.kept, *self.tail[:count]) if self.is_required(g)]
        return replace(self, kept=tuple(required), tail=self.tail[count:])


def scene_of(
    messages: Sequence[BaseMessage],
    state: MemoryState,
    *,
    system: str | BaseMessage | None = None,
    pin_first: bool = True,
    dangling: Dangling = "answer",
    profile: LegalityProfile = COMMON,
) -> Scene:
    """Return the conversation under `state`.

    Messages up to the summary's pointer are covered: of them only the kept ones are shown. Where
    the pointer's message is not among `messages`, all of them are tail: showing something twice
    is a smaller fault than losing it.
    """
    own: list[BaseMessage] = [system] if isinstance(system, BaseMessage) else []
    if isinstance(system, str) and system:
        own.append(SystemMessage(system))
    given = len(own)
    unique = with_ids(messages)
    summary = state["summary"]
    start = _after(unique, summary["covers_to"]) if summary else 0
    ids = set(state["kept"])
    # Of what is covered only this is looked at: a turn costs what is new, not what is old.
    visible, tail = (
        _spoken(part, own)
        for part in (
            [m for m in unique[:start] if m.id in ids or m.type not in SPOKEN_TYPES],
            unique[start:],
        )
    )
    visible = [message for message in visible if message.id in ids]
    humans = [m.id for m in (*visible, *tail) if role_of(m) == "human"]
    kept_groups, tail_groups = groups(visible), groups(tail)
    mended, notes = mend([*kept_groups, *tail_groups], dangling=dangling)
    if profile.fits:
        mended = [_fitting(group, profile) for group in mended]
    return Scene(
        system=merged_system(own),
        summary=summary,
        kept=tuple(mended[: len(kept_groups)]),
        tail=tuple(mended[len(kept_groups) :]),
        cuts=state["cuts"],
        first_request=humans[0] if humans and pin_first else None,
        newest_human=humans[-1] if humans else None,
        notes=tuple(notes),
        profile=profile,
        system_ids=tuple(message.id or "" for message in own[given:]),
    )


def _fitting(group: Mended, profile: LegalityProfile) -> Mended:
    messages = tuple(fitting(message, profile) for message in group.messages)
    same = all(one is other for one, other in zip(messages, group.messages, strict=True))
    return group if same else replace(group, messages=messages)


def _spoken(messages: Sequence[BaseMessage], own: list[BaseMessage]) -> list[BaseMessage]:
    """Return what was said; system messages go to `own`, orders to remove one go nowhere."""
    spoken = []
    for message in messages:
        role = role_of(message)
        if role == "system":
            own.append(message)
        elif role != "remove":
            spoken.append(message)
    return spoken


def _after(messages: Sequence[BaseMessage], pointer: str) -> int:
    """Return the index behind the message with the id `pointer`; 0 where it is missing."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].id == pointer:
            return index + 1
    return 0
