"""The commands for checkpointed threads, from outside."""

import shutil
import sqlite3
from decimal import Decimal

import pytest
from langchain_core.messages import HumanMessage

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from tests.adapters.integrations import at, put
from tests.cli.command import ran


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "memory.db"
    with TranscriptStore(f"sqlite:///{path}") as store:
        saver = TokenMemorySaver(store)
        for thread in ("ann", "bob"):
            parent = at(thread)
            for count in range(1, 6):
                said = [HumanMessage(f"m{n}", id=f"m{n}") for n in range(count)]
                values = {"messages": said, "n": count}
                parent = put(saver, parent, f"{thread}-{count}", values, f"{count:032}.5")
                saver.put_writes(parent, [("n", count)], "task")
    return path


def ids(path, thread):
    with TranscriptStore(f"sqlite:///{path}") as store:
        found = TokenMemorySaver(store).list(at(thread))
        return [one.config["configurable"]["checkpoint_id"] for one in found]


def change(path, statement, *given):
    raw = sqlite3.connect(path, isolation_level=None)
    count = raw.execute(statement, given).rowcount
    raw.close()
    assert count > 0


SOUND = "2 sessions, 10 checkpoints: nothing is wrong."


def test_doctor_finds_nothing_in_a_sound_store(file):
    assert SOUND in ran("doctor", file)


DAMAGES = {
    "body": "UPDATE tokenmem_checkpoints SET body = substr(body, 9) WHERE checkpoint_id = ?",
    "write": "UPDATE tokenmem_checkpoint_writes SET value = x'00' WHERE checkpoint_id = ?",
    "message": "UPDATE tokenmem_messages SET message = '' WHERE seq = 2 AND session = "
    "(SELECT session FROM tokenmem_checkpoints WHERE checkpoint_id = ?)",
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_doctor_lists_what_is_damaged_and_changes_nothing(file, damage):
    head = ids(file, "ann")[0]
    change(file, DAMAGES[damage], head)
    found = ran("doctor", file, code=1)
    assert head in found
    assert "bob" not in found
    assert ran("doctor", file, code=1) == found
    assert len(ids(file, "bob")) == 5


def test_doctor_finds_a_state_that_cannot_be_loaded(file):
    change(file, "UPDATE tokenmem_sessions SET state = ?", '{"version": 1, "kept": 0}')
    assert "state is damaged at kept" in " ".join(ran("doctor", file, code=1).split())


@pytest.mark.parametrize("command", ["doctor", "migrate-checkpoints"])
def test_a_file_that_is_none_is_said_and_not_made(tmp_path, command):
    missing, text = tmp_path / "missing.db", tmp_path / "text.db"
    text.write_text("no database at all " * 100)
    target = [tmp_path / "new.db"] if command != "doctor" else []
    ran(command, missing, *target, code=2)
    assert not missing.exists()
    said = " ".join(ran(command, text, *target, code=2).split())
    assert command != "doctor" or "text.db is not a file of langchain-tokenmem" in said
    assert "is a folder" in ran(command, tmp_path, *target, code=2)
    empty = tmp_path / "empty.db"
    empty.touch()
    assert "is empty" in ran(command, empty, *target, code=2)
    assert empty.read_bytes() == b""
    assert "is empty" in ran(command, "", *target, code=2)


@pytest.mark.slow
def test_migration_from_a_store_to_another_one(file, tmp_path):
    target = tmp_path / "new.db"
    migrate = ("migrate-checkpoints", file)
    copied = "2 threads: 10 checkpoints with 10 pending writes copied"
    assert copied in ran(*migrate, f"sqlite:///{target}")
    assert ids(target, "ann") == ids(file, "ann")
    again = ran(*migrate, target, "--thread", "bob")
    assert "0 checkpoints" in again
    assert "5 were there already" in again
    with TranscriptStore(file, shared=True) as store:
        store.add("chat", [HumanMessage("hi")])
    assert "1 session without checkpoints not copied: tokenmem export" in ran(*migrate, target)
    for wrong in (["--from", "langgraph"], ["--allow", "nonsense"], ["--thread", "bop"]):
        ran(*migrate, target, *wrong, code=2)


@pytest.mark.slow
def test_migration_back_to_langgraph(file, tmp_path):
    back, whole = tmp_path / "back.db", "2 threads: 10 checkpoints"
    command = ("migrate-checkpoints", file, back, "--to", "langgraph")
    assert f"{whole} with 10 pending writes copied" in ran(*command)
    assert "10 were there already" in ran(*command)
    # A database may have both; what is meant by default is not what it is copied into.
    assert whole in ran("migrate-checkpoints", file, file, "--to", "langgraph")
    assert whole in ran("migrate-checkpoints", file, tmp_path / "new.db")
    assert whole in ran("migrate-checkpoints", back, tmp_path / "b.db", "--to", "langgraph")


@pytest.mark.slow
def test_a_target_that_is_no_database_is_an_error(file, tmp_path):
    text = tmp_path / "text.db"
    text.write_text("no database at all " * 100)
    for target in (text, tmp_path / "no" / "folder.db"):
        said = ran("migrate-checkpoints", file, target, "--to", "langgraph", code=2)
        assert "The database: the target cannot store it" in said


class Plan(Decimal):
    """A type of the application's own, which is not allowed because its module is imported."""


@pytest.mark.slow
def test_a_type_is_allowed_in_both_stores(file, tmp_path):
    with TranscriptStore(f"sqlite:///{file}") as store:
        saver = TokenMemorySaver(store, allowed_types=[Plan])
        saver.put_writes(saver.get_tuple(at("bob")).config, [("plan", Plan(1))], "other")
    command = ("migrate-checkpoints", file, tmp_path / "new.db")
    assert f"--allow {__name__}:Plan" in " ".join(ran(*command, code=2).split())
    ran(*command, "--allow", f"{__name__}:Plan")
    with TranscriptStore(f"sqlite:///{tmp_path / 'new.db'}") as store:
        saver = TokenMemorySaver(store, allowed_types=[Plan])
        written = saver.get_tuple(at("bob")).pending_writes
        assert ("other", "plan", Plan(1)) in written
    without = ("redact", file, "1", "--pattern", "--everywhere", "--dry-run")
    assert f"--allow {__name__}:Plan to" in " ".join(ran(*without, code=1).split())
    for wrong in ("no_such_module:Plan", f"{__name__}:NoPlan"):
        assert "PYTHONPATH" in ran(*without, "--allow", wrong, code=2)


@pytest.mark.slow
def test_a_path_may_hold_any_sign(file, tmp_path):
    source, target = tmp_path / "a#? %41b.db", tmp_path / "new#? %41b.db"
    shutil.copy(file, source)
    ran("migrate-checkpoints", source, target)
    assert SOUND in ran("doctor", target)
