"""A checkpointer that is two: one that is trusted, and one that must say the same at every step."""

from collections.abc import AsyncIterator, Iterator, Mapping
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


def shown(answer: Any) -> Any:
    """Return what a saver has answered, to be compared."""
    if isinstance(answer, CheckpointTuple):
        return read(answer)
    if isinstance(answer, list):
        return [shown(one) for one in answer]
    return plain(answer)


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

    def _same(self, right: Any, answer: Any) -> Any:
        self.reads += 1
        if isinstance(answer, Iterator):
            right, answer = list(right), list(answer)
        assert shown(answer) == shown(right)
        return answer

    def _both(self, name: str, *given: Any, **more: Any) -> Any:
        given = tuple(map(frozen, given))
        right = getattr(self.trusted, name)(*given, **more)
        return self._same(right, getattr(self.tested, name)(*given, **more))

    async def _aboth(self, name: str, *given: Any, **more: Any) -> Any:
        given = tuple(map(frozen, given))
        right = getattr(self.trusted, name)(*given, **more)
        return self._same(right, await getattr(self.tested, f"a{name}")(*given, **more))

    def get_next_version(self, current: Any, channel: None) -> Any:
        # The trusted one keeps values by version: two branches must not share one.
        return self.trusted.get_next_version(current, channel)

    def put(self, *given: Any) -> Any:
        return self._both("put", *given)

    async def aput(self, *given: Any) -> Any:
        return await self._aboth("put", *given)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self._both("put_writes", config, list(writes), task_id, task_path)

    async def aput_writes(
        self, config: Any, writes: Any, task_id: str, task_path: str = ""
    ) -> None:
        await self._aboth("put_writes", config, list(writes), task_id, task_path)

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        return self._both("get_tuple", config)

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        return await self._aboth("get_tuple", config)

    def list(self, config: Any, **given: Any) -> Iterator[CheckpointTuple]:
        yield from self._both("list", config, **given)

    async def alist(self, config: Any, **given: Any) -> AsyncIterator[CheckpointTuple]:
        found = [one async for one in self.tested.alist(config, **given)]
        for one in self._same([*self.trusted.list(config, **given)], found):
            yield one

    def get_delta_channel_history(self, **given: Any) -> Any:
        return self._both("get_delta_channel_history", **given)

    async def aget_delta_channel_history(self, **given: Any) -> Any:
        return await self._aboth("get_delta_channel_history", **given)
