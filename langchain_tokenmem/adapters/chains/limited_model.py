"""A model whose answer has room in the window: its maximum of output tokens, set for each call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.configurable import DynamicRunnable

from langchain_tokenmem.adapters.chains.composition import is_configurable, replace_model
from langchain_tokenmem.core.output_limit import output_setting
from langchain_tokenmem.core.view import View


def limited_model(
    model: Runnable[Any, Any], *, views: Sequence[View], name: str | Literal[True]
) -> Runnable[Any, Any]:
    """Return a model that is told how many tokens the newest view leaves for its answer.

    Args:
        model: A chat model, or one that the call's config chooses.
        views: The views of the call, in order; it grows as prompts are rendered.
        name: Name of the setting, or True to choose it by the provider.
    """

    def chosen(_value: Any, config: RunnableConfig, **kwargs: Any) -> Runnable[Any, Any]:
        if isinstance(model, DynamicRunnable):
            inner, _ = model.prepare(config)
            limited = partial(limited_model, views=views, name=name)
            return (replace_model(inner, limited) or inner).bind(**kwargs)
        # What a call chooses of `init_chat_model` is made for it.
        made: Any = getattr(model, "_model", None) if is_configurable(model) else None
        settled = made(config) if made else model
        return model.bind(**output_setting(settled, kwargs, views[-1].output_left, name))

    async def achosen(value: Any, config: RunnableConfig, **kwargs: Any) -> Runnable[Any, Any]:
        return chosen(value, config, **kwargs)

    return RunnableLambda(chosen, afunc=achosen, name="limit_output")
