"""The commands for checkpointed threads, from outside."""

from __future__ import annotations

import shutil
import sqlite3
from decimal import Decimal

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver
from typer.testing import CliRunner

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.cli.app import app
from langchain_tokenmem.storage import doctor

RUN = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})


def put(saver, parent, count):
    """Put a checkpoint of so many messages, its id behind that of the one before."""
    values = {"messages": [HumanMessage(f"m{n}", id=f"m{n}") for n in range(count)], "n": count}
    versions = dict.fromkeys(values, f"{count:032}.5")
    made = {
        "v": 4,
        "id": str(uuid6(clock_seq=count)),
        "ts": "2026-11-21T12:00:00+00:00",
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": {},
        "updated_channels": None,
    }
    return saver.put(parent, made, {"source": "loop", "step": count, "parents": {}}, versions)


def at(thread):
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "memory.db"
    with TranscriptStore(f"sqlite:///{path}") as store:
        saver = TokenMemorySaver(store)
        for thread in ("ann", "bob"):
            parent = at(thread)
            for count in range(1, 6):
                parent = put(saver, parent, count)
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


def test_doctor_finds_nothing_in_a_sound_store(file):
    done = RUN.invoke(app, ["doctor", str(file)])
    assert done.exit_code == 0, done.output
    assert "2 threads, 10 checkpoints: nothing is wrong." in done.output


DAMAGES = {
    "body": "UPDATE tokenmem_checkpoints SET checkpoint = substr(checkpoint, 9) "
    "WHERE checkpoint_key = ?",
    "key": "UPDATE tokenmem_checkpoints SET checkpoint_key = checkpoint_key || 'x' "
    "WHERE checkpoint_key = ?",
    "bytes": "UPDATE tokenmem_checkpoints SET checkpoint_key = CAST(checkpoint_key AS BLOB) "
    "WHERE checkpoint_key = ?",
    "gone": "DELETE FROM tokenmem_checkpoints WHERE checkpoint_key = ?",
    "write": "DELETE FROM tokenmem_checkpoint_writes WHERE checkpoint_key = ?",
    "value": "UPDATE tokenmem_checkpoint_writes SET value = x'00' WHERE checkpoint_key = ?",
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("which", [0, 2])
def test_doctor_names_what_is_damaged_and_repairs_it(file, damage, which):
    before = {thread: ids(file, thread) for thread in ("ann", "bob")}
    change(file, DAMAGES[damage], f"={before['ann'][which]}")
    found = RUN.invoke(app, ["doctor", str(file)])
    assert found.exit_code == 1, found.output
    assert "ann" in found.output
    assert "bob" not in found.output
    if damage != "gone":
        assert before["ann"][which] in found.output
    again = RUN.invoke(app, ["doctor", str(file)])
    assert again.output == found.output, "looking changes nothing"
    mended = RUN.invoke(app, ["doctor", str(file), "--repair"])
    assert mended.exit_code == 0, mended.output
    assert file.with_name("memory.db.before-repair").is_file()
    assert RUN.invoke(app, ["doctor", str(file)]).exit_code == 0
    left = [one for place, one in enumerate(before["ann"]) if place != which]
    assert ids(file, "ann") == left
    assert ids(file, "bob") == before["bob"]
    with TranscriptStore(f"sqlite:///{file}") as store:
        saver = TokenMemorySaver(store)
        head = saver.get_tuple(at("ann"))
        assert head.config["configurable"]["checkpoint_id"] == left[0]
        put(saver, head.config, 6)
        assert len(ids(file, "ann")) == 5


def test_doctor_goes_on_behind_a_key_that_is_no_text(file):
    key = f"={ids(file, 'ann')[2]}"
    change(
        file,
        "UPDATE tokenmem_checkpoints SET checkpoint_key = CAST(x'3dff' AS TEXT) "
        "WHERE checkpoint_key = ?",
        key,
    )
    found = RUN.invoke(app, ["doctor", str(file)])
    assert found.exit_code == 1, found.output
    assert "2 threads" in found.output
    assert "ann" in found.output
    assert "bob" not in found.output


@pytest.mark.slow
def test_doctor_puts_rows_in_order_before_it_deletes_any(file):
    before = ids(file, "ann")
    place = file.read_bytes().rindex(f"={before[2]}".encode()) + 1
    data = bytearray(file.read_bytes())
    data[place] = ord("9")  # behind all others: those are not found by their keys any more
    file.write_bytes(data)
    found = RUN.invoke(app, ["doctor", str(file)])
    assert "puts rows and indexes in order" in found.output, found.output
    mended = RUN.invoke(app, ["doctor", str(file), "--repair"])
    assert mended.exit_code == 0, mended.output
    assert ids(file, "ann") == [*before[:2], *before[3:]]


def test_doctor_deletes_no_rows_of_a_thread_whose_own_row_is_damaged(file):
    change(
        file,
        "UPDATE tokenmem_checkpoint_namespaces SET namespace_id = 77 WHERE thread_key = '=bob'",
    )
    found = RUN.invoke(app, ["doctor", str(file), "--repair"])
    assert found.exit_code == 1
    assert "5 rows of tokenmem_checkpoints belong to no thread" in found.output
    change(
        file, "UPDATE tokenmem_checkpoint_namespaces SET namespace_id = 2 WHERE thread_key = '=bob'"
    )
    assert len(ids(file, "bob")) == 5


@pytest.mark.slow
def test_doctor_deletes_a_row_that_lost_a_value(file):
    before = ids(file, "ann")
    must, may = "write_count BIGINT NOT NULL", "write_count BIGINT"
    raw = sqlite3.connect(file, isolation_level=None)
    raw.executescript(
        f"""PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET sql = replace(sql, '{must}', '{may}');"""  # noqa: S608
    )
    raw.close()
    damage = "UPDATE tokenmem_checkpoints SET write_count = NULL WHERE checkpoint_key = ?"
    change(file, damage, f"={before[2]}")
    raw = sqlite3.connect(file, isolation_level=None)
    raw.executescript(
        f"""PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET sql = replace(sql, '{may}', '{must}');"""  # noqa: S608
    )
    raw.close()
    found = RUN.invoke(app, ["doctor", str(file)])
    assert "NULL value in tokenmem_checkpoints.write_count" in found.output
    assert RUN.invoke(app, ["doctor", str(file), "--repair"]).exit_code == 0
    assert ids(file, "ann") == [*before[:2], *before[3:]]


def test_doctor_deletes_nothing_for_an_error_that_may_pass(file, monkeypatch):
    change(file, DAMAGES["body"], f"={ids(file, 'ann')[2]}")
    before, find = ids(file, "bob"), doctor.find_checkpoint

    def failing(*given):
        if given[-1] == f"={before[2]}":
            raise sqlite3.OperationalError("disk I/O error")
        return find(*given)

    with monkeypatch.context() as patch:
        patch.setattr(doctor, "find_checkpoint", failing)
        found = RUN.invoke(app, ["doctor", str(file), "--repair"])
        assert found.exit_code == 2, found.output
    assert ids(file, "bob") == before


@pytest.mark.slow
def test_doctor_keeps_the_copies_of_earlier_repairs(file):
    for thread in ("ann", "bob"):
        change(file, DAMAGES["body"], f"={ids(file, thread)[0]}")
        assert RUN.invoke(app, ["doctor", str(file), "--repair"]).exit_code == 0
    copies = {copy.name for copy in file.parent.glob("*.before-repair*")}
    assert copies >= {"memory.db.before-repair", "memory.db.before-repair1"}


def test_doctor_repairs_nothing_where_nothing_whole_is_left(file):
    change(
        file,
        "UPDATE tokenmem_checkpoints SET checkpoint = substr(checkpoint, 9) WHERE namespace_id = 1",
    )
    found = RUN.invoke(app, ["doctor", str(file), "--repair"])
    assert found.exit_code == 1
    raw = sqlite3.connect(file)
    assert raw.execute("SELECT count(*) FROM tokenmem_checkpoints").fetchone() == (10,)
    raw.close()


@pytest.mark.slow
def test_doctor_with_the_wrong_key_deletes_nothing(tmp_path):
    path = tmp_path / "sealed.db"
    with TranscriptStore(f"sqlite:///{path}") as store:
        saver = TokenMemorySaver(store, key="a key of thirty-two characters...")
        put(saver, put(saver, at("ann"), 1), 2)
    for extra, env in (
        ([], {}),
        (["--key-env", "MY_KEY"], {"MY_KEY": "another one, of this length"}),
    ):
        done = RUN.invoke(app, ["doctor", str(path), "--repair", *extra], env=env)
        assert done.exit_code == 1, done.output
    right = {"MY_KEY": "a key of thirty-two characters..."}
    done = RUN.invoke(app, ["doctor", str(path), "--key-env", "MY_KEY"], env=right)
    assert done.exit_code == 0, done.output
    assert "1 threads, 2 checkpoints" in done.output
    assert RUN.invoke(app, ["doctor", str(path), "--key-env", "NOT_SET"]).exit_code == 2


def test_doctor_says_when_a_transcript_is_damaged_and_leaves_it(file):
    change(file, "UPDATE tokenmem_messages SET message = '' WHERE seq = 2 AND session_key = '=ann'")
    done = RUN.invoke(app, ["doctor", str(file), "--repair"])
    assert done.exit_code == 1
    assert "transcript" in done.output
    # What came before the damaged message is whole, and the thread goes on from there.
    assert len(ids(file, "ann")) == 1
    assert len(ids(file, "bob")) == 5


@pytest.mark.parametrize("command", [["doctor"], ["migrate-checkpoints"]])
def test_a_file_that_is_none_is_said_and_not_made(tmp_path, command):
    missing = tmp_path / "missing.db"
    target = [str(tmp_path / "new.db")] if command[0] != "doctor" else []
    done = RUN.invoke(app, [*command, str(missing), *target])
    assert done.exit_code == 2
    assert not missing.exists()
    text = tmp_path / "text.db"
    text.write_text("no database at all " * 100)
    assert RUN.invoke(app, [*command, str(text), *target]).exit_code == 2


@pytest.mark.slow
def test_migration_from_a_store_to_another_one(file, tmp_path):
    target = tmp_path / "new.db"
    done = RUN.invoke(app, ["migrate-checkpoints", str(file), f"sqlite:///{target}"])
    assert done.exit_code == 0, done.output
    assert "2 threads: 10 checkpoints with 10 pending writes copied" in done.output
    assert ids(target, "ann") == ids(file, "ann")
    shutil.copy(file, tmp_path / "copy.db")
    again = RUN.invoke(app, ["migrate-checkpoints", str(file), str(target), "--thread", "bob"])
    assert "0 checkpoints" in again.output
    assert "5 were there already" in again.output
    refused = RUN.invoke(
        app, ["migrate-checkpoints", str(file), str(target), "--from", "langgraph"]
    )
    assert refused.exit_code == 2
    refused = RUN.invoke(
        app, ["migrate-checkpoints", str(file), str(target), "--allow", "nonsense"]
    )
    assert refused.exit_code == 2


def test_a_thread_that_is_not_there_is_no_migration(file, tmp_path):
    done = RUN.invoke(
        app, ["migrate-checkpoints", str(file), str(tmp_path / "new.db"), "--thread", "bop"]
    )
    assert done.exit_code == 2
    assert "'bop' has no checkpoints in the source" in done.output
    assert ids(tmp_path / "new.db", "ann") == []
    one = RUN.invoke(
        app, ["migrate-checkpoints", str(file), str(tmp_path / "new.db"), "--thread", "bob"]
    )
    assert one.exit_code == 0, one.output
    assert ids(tmp_path / "new.db", "bob") == ids(file, "bob") != []


class Plan(Decimal):
    """A type of the application's own, which is not allowed because its module is imported."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["auto", "tokenmem"])
def test_a_type_is_allowed_in_both_stores(file, tmp_path, kind):
    with TranscriptStore(f"sqlite:///{file}") as store:
        saver = TokenMemorySaver(store, allowed_types=[Plan])
        saver.put_writes(saver.get_tuple(at("bob")).config, [("plan", Plan(1))], "other")
    command = ["migrate-checkpoints", str(file), str(tmp_path / "new.db"), "--from", kind]
    refused = RUN.invoke(app, command)
    assert refused.exit_code == 2
    assert f"--allow {__name__}:Plan" in " ".join(refused.output.split())
    done = RUN.invoke(app, [*command, "--allow", f"{__name__}:Plan"])
    assert done.exit_code == 0, done.output
    with TranscriptStore(f"sqlite:///{tmp_path / 'new.db'}") as store:
        saver = TokenMemorySaver(store, allowed_types=[Plan])
        written = saver.get_tuple(at("bob")).pending_writes
        assert ("other", "plan", Plan(1)) in written


@pytest.mark.slow
@pytest.mark.parametrize("sign", ["#", "?", "%41", " "])
@pytest.mark.parametrize("kind", ["auto", "tokenmem"])
def test_a_path_may_hold_any_sign(file, tmp_path, sign, kind):
    source, target = tmp_path / f"a{sign}b.db", tmp_path / f"new{sign}b.db"
    shutil.copy(file, source)
    done = RUN.invoke(app, ["migrate-checkpoints", str(source), str(target), "--from", kind])
    assert done.exit_code == 0, done.output
    found = RUN.invoke(app, ["doctor", str(target)])
    assert "2 threads, 10 checkpoints: nothing is wrong." in found.output


def test_a_blank_thread_is_left_out_and_said(tmp_path):
    path, target = tmp_path / "a#?%41.db", str(tmp_path / "new.db")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for thread in ("", "ann"):
            put(saver, at(thread), 1)
    done = RUN.invoke(app, ["migrate-checkpoints", str(path), target])
    assert done.exit_code == 0, done.output
    assert "1 threads: 1 checkpoints" in done.output
    assert "1 left out, no thread can be named so here: ''." in done.output
    assert (
        RUN.invoke(app, ["migrate-checkpoints", str(path), target, "--thread", ""]).exit_code == 2
    )
