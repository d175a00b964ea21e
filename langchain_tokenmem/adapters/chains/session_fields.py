"""Where a chain's call names its session: fields of `config["configurable"]`."""

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
    """The fields of a chain, and how a session is named by them.

    Attributes:
        specs: The fields; each call names those that have no default and may not be None.
        session_of: Returns the session's id, or a pair of it and the user's id, for their values.
    """

    specs: list[ConfigurableFieldSpec]
    session_of: SessionOf

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
                f"history_factory_config has the fields {names} beside user_id; say with "
                f"session_of= which session they name: session_of=lambda **fields: ..."
            )
        return cls(specs, session_of or (lambda **given: (given[names[0]], given.get(_USER))))

    def session_in(self, configurable: Mapping[str, Any]) -> tuple[str, str | None]:
        """Return the ids of the session and of its user that a call names.

        Raises:
            ScopeError: When the call names no session.
        """
        given = {spec.id: configurable.get(spec.id, spec.default) for spec in self.specs}
        lacking = [
            spec.id
            for spec in self.specs
            if given[spec.id] is None and type(None) not in get_args(spec.annotation)
        ]
        named = None if lacking else self.session_of(**given)
        session_id, user_id = named if isinstance(named, tuple) else (named, None)
        if isinstance(session_id, str) and session_id:
            return session_id, user_id
        given_id = "" if session_id is None else f"the session's id is {session_id!r}, no text. "
        names = ", ".join(f'"{name}": "..."' for name in lacking or given)
        raise ScopeError(
            f"{given_id}This chain has a memory: name the session, "
            f'chain.invoke(input, {{"configurable": {{{names}}}}}).'
        )
