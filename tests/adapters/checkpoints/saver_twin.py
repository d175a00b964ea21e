"""A checkpointer that is two: one that is trusted, and one that must say the same at every step."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver


def plain(value: Any) -> Any:
    """Return a value with every type in it spelled out, so that equal means the same."""
    if isinstance(value, BaseMessage):
        return [type(value).__name__, plain(value.__dict__)]
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    # A text that carries a mark, as ids of checkpoints may, is a text.
    return ["str" if isinstance(value, str) else type(value).__name__, value]


def read(found: CheckpointTuple | None, thread: str | None = None) -> Any:
    """Return what a checkpoint tuple says; `thread` stands for the name of its thread."""
    if found is None:
        return None
    places = []
    for config in (found.config, found.parent_config):
        given = (config or {}).get("configurable", {})
        names = ("thread_id", "checkpoint_ns", "checkpoint_id")
        places.append({name: given.get(name) for name in names if name in given})
        if thread is not None and "thread_id" in places[-1]:
            places[-1]["thread_id"] = thread
    checkpoint = {name: one for name, one in found.checkpoint.items() if one not in (None, [])}
    writes = list(found.pending_writes or ())
    return plain([places, checkpoint, dict(found.metadata), writes])


def frozen(value: Any) -> Any:
    """Return a copy; messages with ids are the same objects, savers may know them again."""
    if isinstance(value, dict):
        return {name: frozen(one) for name, one in value.items()}
    if type(value) in {list, tuple, set}:
        return type(value)(frozen(one) for one in value)
    if isinstance(value, BaseMessage) and value.id is None:
        return value.model_copy()
    return value


def everything(saver: BaseCheckpointSaver[Any], thread: str, name: str | None = None) -> list[Any]:
    """Return all checkpoints of a thread in all namespaces, in one order for all savers."""
    found = [read(one, name) for one in saver.list({"configurable": {"thread_id": thread}})]
    return sorted(found, key=lambda one: (str(one[0][0]["checkpoint_ns"]), str(one[0][0])))


class Twin(BaseCheckpointSaver[Any]):
    """Writes to both savers, reads from both, and compares.

    What is written is frozen first: with `durability="async"`, LangGraph goes on changing sets in
    place, and gives messages of writes their ids, while a saver is at work in another thread.
    """

    def __init__(self, tested: BaseCheckpointSaver[Any]) -> None:
        super().__init__(serde=tested.serde)
        self.trusted = InMemorySaver()
        self.tested = tested
        self.reads = 0

    def _compared(self, right: Any, answer: Any) -> None:
        self.reads += 1
        assert answer == right

    def get_next_version(self, current: Any, channel: None) -> Any:
        # The trusted one keeps values by version: two branches must not share one.
        return self.trusted.get_next_version(current, channel)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        given = (config, frozen(checkpoint), metadata, new_versions)
        right, answer = self.trusted.put(*given), self.tested.put(*given)
        self._compared(right, answer)
        return answer

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        given = (config, frozen(checkpoint), metadata, new_versions)
        right, answer = self.trusted.put(*given), await self.tested.aput(*given)
        self._compared(right, answer)
        return answer

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        same = deepcopy(list(writes))
        self.trusted.put_writes(config, same, task_id, task_path)
        self.tested.put_writes(config, same, task_id, task_path)

    async def aput_writes(
        self, config: Any, writes: Any, task_id: str, task_path: str = ""
    ) -> None:
        same = deepcopy(list(writes))
        self.trusted.put_writes(config, same, task_id, task_path)
        await self.tested.aput_writes(config, same, task_id, task_path)

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        right, answer = self.trusted.get_tuple(config), self.tested.get_tuple(config)
        self._compared(read(right), read(answer))
        return answer

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        right, answer = self.trusted.get_tuple(config), await self.tested.aget_tuple(config)
        self._compared(read(right), read(answer))
        return answer

    def list(self, config: Any, **given: Any) -> Iterator[CheckpointTuple]:
        right, answer = (list(one.list(config, **given)) for one in (self.trusted, self.tested))
        self._compared([read(one) for one in right], [read(one) for one in answer])
        yield from answer

    async def alist(self, config: Any, **given: Any) -> AsyncIterator[CheckpointTuple]:
        right = list(self.trusted.list(config, **given))
        answer = [one async for one in self.tested.alist(config, **given)]
        self._compared([read(one) for one in right], [read(one) for one in answer])
        for one in answer:
            yield one

    def get_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Any:
        right, answer = (
            one.get_delta_channel_history(config=config, channels=channels)
            for one in (self.trusted, self.tested)
        )
        self._compared(plain(right), plain(answer))
        return answer

    async def aget_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Any:
        right = self.trusted.get_delta_channel_history(config=config, channels=channels)
        answer = await self.tested.aget_delta_channel_history(config=config, channels=channels)
        self._compared(plain(right), plain(answer))
        return answer
