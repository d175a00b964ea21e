"""Rows with the settings of users."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from langchain_tokenmem.core.session_settings import SessionSettings
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.database.json_values import from_json, to_json
from langchain_tokenmem.storage.transcripts.encoded_message import checksum
from langchain_tokenmem.storage.transcripts.sessions import checked_id
from langchain_tokenmem.storage.transcripts.tables import user_settings


def settings_of_user(connection: Connection, user_id: str | None) -> SessionSettings:
    """Return the settings of a user; none for nobody.

    Raises:
        CorruptStoreError: When their row is damaged.
    """
    if user_id is None:
        return SessionSettings()
    own = user_settings.c.user_id == checked_id(user_id, "user_id")
    row = connection.execute(select(user_settings).where(own)).first()
    if row is None:
        return SessionSettings()
    if checksum([row.user_id, row.settings]) != row.checksum:
        raise CorruptStoreError(
            f"User {user_id!r}: the row with their settings is damaged. Nothing was returned; set "
            f"them again, or restore a backup."
        )
    return SessionSettings.loaded(from_json(row.settings))


def save_settings_of_user(connection: Connection, user_id: str, settings: SessionSettings) -> None:
    """Store the settings of a user in place of those before."""
    delete_settings_of_user(connection, user_id)
    stored = settings.stored()
    if stored is not None:
        columns = {"user_id": user_id, "settings": to_json(stored)[0]}
        values = {**columns, "checksum": checksum(columns.values())}
        connection.execute(insert(user_settings).values(**values))


def delete_settings_of_user(connection: Connection, user_id: str) -> int:
    """Delete the settings of a user; return how many rows there were."""
    own = user_settings.c.user_id == user_id
    return connection.execute(delete(user_settings).where(own)).rowcount
