"""The parts of a chain: its model and its prompts, found and replaced wherever they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.prompts import BasePromptTemplate
from langchain_core.runnables import (
    Runnable,
    RunnableBranch,
    RunnableConfig,
    RunnableSequence,
    RunnableSerializable,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable

from langchain_tokenmem.core.chat_models import window_of


def bound_kwarg(runnable: Runnable[Any, Any], name: str) -> Any:
    """Return a keyword that is bound to the model nearest to a chain's end, such as its tools."""
    own = runnable.kwargs.get(name) if isinstance(runnable, RunnableBindingBase) else None
    if own:
        return own
    parts = _parts(runnable)
    return next((found for part in parts if (found := bound_kwarg(part, name))), None)


def bound_model(runnable: Runnable[Any, Any], config: RunnableConfig | None = None) -> Any:
    """Return the last chat model of a chain, with its fallbacks; None if it has none.

    Of the models of a `RunnableBranch` it is the one with the smallest window.

    Args:
        runnable: The chain.
        config: The call's config, which may choose the model (`configurable_alternatives`,
            `configurable_fields`, `init_chat_model` without a model).
    """
    if isinstance(runnable, BaseLanguageModel):
        return runnable
    if isinstance(runnable, DynamicRunnable):
        return bound_model(runnable.prepare(config)[0], config)
    if is_configurable(runnable):
        return _configured_name(runnable, config)
    if isinstance(runnable, RunnableWithFallbacks) and bound_model(runnable.runnable, config):
        return runnable
    found = (model for part in _parts(runnable) if (model := bound_model(part, config)))
    if isinstance(runnable, RunnableBranch):  # the request has to fit whichever is chosen
        return min(found, key=lambda model: window_of(model) or math.inf, default=None)
    return next(found, None)


def _configured_name(model: Any, config: RunnableConfig | None) -> str | None:
    """Return the name that a call chooses for `init_chat_model`; making the model takes longer."""
    chosen = {**model._default_config, **model._model_params(config)}  # noqa: SLF001
    name, provider = chosen.get("model"), chosen.get("model_provider")
    return f"{provider}:{name}" if name and provider else name


def has_prompt(runnable: Runnable[Any, Any]) -> bool:
    """Return whether a chain contains a prompt."""
    return isinstance(runnable, BasePromptTemplate) or any(map(has_prompt, _parts(runnable)))


def replace_prompts(
    runnable: Runnable[Any, Any],
    replacement: Callable[[BasePromptTemplate[Any]], Runnable[Any, Any]],
) -> Runnable[Any, Any]:
    """Return a chain with each of its prompts replaced; the given one if it has none."""
    if isinstance(runnable, BasePromptTemplate):
        return replacement(runnable)
    return _with_parts(runnable, lambda part: replace_prompts(part, replacement))


def replace_model(
    runnable: Runnable[Any, Any], replacement: Callable[[Any], Runnable[Any, Any]]
) -> Runnable[Any, Any] | None:
    """Return a chain with the model nearest to its end replaced; None if it has none.

    Fallbacks are replaced with it, and every model of parts that run side by side.
    """
    if isinstance(runnable, BaseLanguageModel) or is_configurable(runnable):
        return replacement(runnable)
    if isinstance(runnable, DynamicRunnable):  # only a call shows which model it is
        return replacement(runnable) if bound_model(runnable) else None
    if isinstance(runnable, RunnableSequence):
        steps = list(runnable.steps)
        for place in range(len(steps) - 1, -1, -1):
            if (step := replace_model(steps[place], replacement)) is not None:
                steps[place] = step
                update = {"first": steps[0], "middle": steps[1:-1], "last": steps[-1]}
                return runnable.model_copy(update=update)
        return None

    changed = _with_parts(runnable, lambda part: replace_model(part, replacement) or part)
    return None if changed is runnable else changed


def is_configurable(runnable: Any) -> bool:
    """Return whether a runnable is `init_chat_model` without a model, which a call chooses."""
    return type(runnable).__name__ == "_ConfigurableModel"


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of a composed runnable; empty for a model or anything else."""
    is_composed = isinstance(value, RunnableSerializable)
    if not is_composed or isinstance(value, (BaseLanguageModel, BasePromptTemplate)):
        return {}
    return {name: getattr(value, name) for name in type(value).model_fields}


def _parts(runnable: Any) -> list[Runnable[Any, Any]]:
    """Return the runnables in the fields of a composed one, the one nearest to the model first."""
    parts = [part for value in _fields(runnable).values() for part in _runnables(value)]
    return parts[::-1] if isinstance(runnable, RunnableSequence) else parts


def _runnables(value: Any) -> Iterator[Runnable[Any, Any]]:
    """Yield the runnables in a field's value."""
    if isinstance(value, Runnable):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _runnables(item)


def _with_parts(
    runnable: Any, change: Callable[[Runnable[Any, Any]], Runnable[Any, Any]]
) -> Runnable[Any, Any]:
    """Return a composed runnable with its parts changed; the given one if none is."""

    def changed(value: Any) -> Any:
        if isinstance(value, Runnable):
            return change(value)
        if isinstance(value, (list, tuple)):
            return type(value)(map(changed, value))
        return {k: changed(v) for k, v in value.items()} if isinstance(value, dict) else value

    update = {}
    for name, value in _fields(runnable).items():
        new = changed(value)
        if any(a is not b for a, b in zip(_runnables(new), _runnables(value), strict=True)):
            update[name] = new
    copy: Runnable[Any, Any] = runnable.model_copy(update=update) if update else runnable
    return copy
