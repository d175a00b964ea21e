"""Where a call of a chain names its session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from langchain_core.runnables.utils import ConfigurableFieldSpec

from langchain_tokenmem.errors import ConfigurationError, ScopeError

SessionOf = Callable[..., str | tuple[str, str | None]]
"""Returns the id of a session, or a pair of it and its user's id."""

_USER = "user_id"

_FIELDS = (
    ConfigurableFieldSpec(id="session_id", annotation=str, name="Session"),
    ConfigurableFieldSpec(id=_USER, annotation=str | None, name="User", default=None),
)


@dataclass(frozen=True)
class SessionFields:
    """The fields of a chain, and how they name a session.

    Attributes:
        specs: The fields; each call names those that have no default and may not be None.
        session_of: Returns the session's id, or a pair of it and the user's id, for their values.
        label: What the session's id is called in an error.
    """

    specs: list[ConfigurableFieldSpec]
    session_of: SessionOf
    label: str

    @classmethod
    def of(
        cls,
        specs: Sequence[ConfigurableFieldSpec] | None = None,
        session_of: SessionOf | None = None,
    ) -> SessionFields:
        """Return the fields; by default `session_id` and `user_id`.

        Raises:
            ConfigurationError: When several fields could be the session's id, or none.
        """
        specs = [*(_FIELDS if specs is None else specs)]
        names = [spec.id for spec in specs if spec.id != _USER]
        if session_of is None and len(names) != 1:
            raise ConfigurationError(
                f"history_factory_config has the fields {names} besides user_id; say with "
                f"session_of= which session they name: session_of=lambda **fields: ..."
            )
        if session_of is not None:
            return cls(specs, session_of, "what session_of= returned")
        name = names[0]
        return cls(specs, lambda **given: (given[name], given.get(_USER)), name)

    def session_in(self, configurable: Mapping[str, Any]) -> tuple[str, str | None]:
        """Return the ids of the session and of its user that a call names.

        Raises:
            ScopeError: When the call names no session.
        """
        given = {spec.id: configurable.get(spec.id, spec.default) for spec in self.specs}
        needed = [spec.id for spec in self.specs if type(None) not in get_args(spec.annotation)]
        has_all = all(given[name] is not None for name in needed)
        named = self.session_of(**given) if has_all else None
        session_id, user_id = named if isinstance(named, tuple) else (named, None)
        if isinstance(session_id, str) and session_id:
            return session_id, user_id
        about = (
            ""
            if session_id is None
            else f"{self.label} is {session_id!r}; it must be a string that is not empty. "
        )
        names = ", ".join(f'"{name}": "..."' for name in needed)
        raise ScopeError(
            f"{about}This chain has a memory: name the session, "
            f'chain.invoke(input, {{"configurable": {{{names}}}}}).'
        )
