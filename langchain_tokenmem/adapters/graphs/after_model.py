"""`AfterModelNode`: the node behind a model's node, which starts the summary that is due."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig

from langchain_tokenmem.adapters.graphs.nodes import TurnNode
from langchain_tokenmem.turns.turn import aafter_reply, after_reply


class AfterModelNode(TurnNode):
    """Starts the summary that the next model call needs, right after the model's reply.

    It writes nothing: the summary is made in the background, beside the agent's tools or while the
    user reads, and the memory's node takes it in at the next call. `memory_nodes` puts it behind
    the model's node, where the memory makes summaries in the background; in `create_react_agent`
    it is the `post_model_hook`. Where times are shown it notes when the reply was complete.

    Args:
        memory: The memory of the node in front of the model's.
        keywords: Those of `MemoryNode`, as given to that one.

    Example:
        >>> from langchain_core.messages import AIMessage
        >>> from langchain_tokenmem import TokenMemory
        >>> AfterModelNode(TokenMemory()).invoke({"messages": [AIMessage("hi")]})
        {}
    """

    _is_last = False
    _folds = False

    def invoke(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,  # noqa: ARG002  # the signature of a Runnable
    ) -> dict[str, Any]:
        """Start the summary that is due, and return no update."""
        thread, request = self._turn(input, config)
        thread.note_reply()
        after_reply(thread, request)
        return {}

    async def ainvoke(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,  # noqa: ARG002  # the signature of a Runnable
    ) -> dict[str, Any]:
        """Do the same as `invoke` without blocking the event loop."""
        thread, request = self._turn(input, config)
        thread.note_reply()
        await aafter_reply(thread, request)
        return {}
