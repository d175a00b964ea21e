"""Facts of many kinds to plant into recorded runs: by the user, the assistant or a tool.

Each kind has several phrasings, English and German. A fact is kept where all its literals stand in
a summary word for word.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_FIRST = ("Priya", "Tomasz", "Ingrid", "Mateo", "Yuki", "Oluwaseun", "Chloe", "Dmitri", "Leila")
_LAST = ("Raman", "Kowalski", "Lindqvist", "Fernandez", "Tanaka", "Adeyemi", "Martin", "Volkov")
_AREAS = ("billing", "payroll", "search", "inventory", "ledger", "archive", "checkout", "reporting")
_STORES = ("Postgres", "SQLite", "Redis", "MongoDB", "DuckDB", "Kafka", "RabbitMQ", "Celery")
_MONTHS = ("March", "April", "June", "July", "October", "December")
_PREFERRED = (
    ("tabs", "spaces"),
    ("British spelling", "American spelling"),
    ("bullet points", "long paragraphs"),
    ("a dark theme", "a bright one"),
    ("short commit messages", "essays"),
)


@dataclass(frozen=True)
class Fact:
    """A fact that is planted.

    Attributes:
        kind: A key of `KINDS`.
        literals: What of it must be kept, all of it.
        said: How a person or a model says it.
        shown: How it stands in the output of a tool; empty where tools do not say such things.
    """

    kind: str
    literals: tuple[str, ...]
    said: tuple[str, ...]
    shown: tuple[str, ...] = ()


def _area(rng: random.Random) -> str:
    return rng.choice(_AREAS)


def _person(rng: random.Random) -> str:
    return f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"


def _day(rng: random.Random) -> str:
    day, month = rng.randint(1, 28), rng.randint(0, 5)
    forms = (
        f"2026-{month + 1:02}-{day:02}",
        f"{day} {_MONTHS[month]} 2026",
        f"{_MONTHS[month]} {day}",
        f"{day:02}.{month + 1:02}.2026",
    )
    return rng.choice(forms)


def _port(rng: random.Random) -> Fact:
    port, area = str(rng.randint(1_025, 65_535)), _area(rng)
    said = (
        f"The {area} service listens on port {port}.",
        f"Just so you know, the {area} proxy is on {port} here, not on the usual one.",
        f"Der {area}-Dienst läuft bei uns auf Port {port}.",
        f"Use {port} for the {area} tunnel.",
    )
    return Fact("port", (port,), said, (f"{area} listening on 0.0.0.0:{port}", f"port: {port}"))


def _version(rng: random.Random) -> Fact:
    number = f"{rng.randint(1, 19)}.{rng.randint(0, 30)}.{rng.randint(0, 19)}"
    version = rng.choice((number, f"v{number}", f"{number}-rc{rng.randint(1, 4)}"))
    area = _area(rng)
    said = (
        f"Production is still on {version} of the {area} broker.",
        f"The regression came in with {version}, as far as I can tell.",
        f"Auf dem Kundensystem ist noch {version} installiert.",
        f"We pinned the {area} client to {version}.",
    )
    return Fact("version", (version,), said, (f"{area}-client {version}", f"version = {version}"))


def _uuid(rng: random.Random) -> Fact:
    one = str(uuid.UUID(int=rng.getrandbits(128), version=4))
    said = (
        f"The tenant that complained is {one}, in case support asks again.",
        f"Their order shows up as {one} in the back office.",
        f"Die Lauf-ID, mit der wir vergleichen, ist {one}.",
    )
    return Fact("uuid", (one,), said, (f"tenant_id: {one}", f'"run_id": "{one}"'))


def _ticket(rng: random.Random) -> Fact:
    ticket = f"{rng.choice(('OPS', 'PAY', 'INFRA', 'SUP'))}-{rng.randint(100, 9_999)}"
    said = (
        f"This is tracked in {ticket}.",
        f"Link everything to {ticket} when you are through.",
        f"Das Ganze gehört zu Ticket {ticket}.",
        f"{ticket} has the customer's screenshots.",
    )
    return Fact("ticket", (ticket,), said, (f"ref: {ticket}",))


def _name(rng: random.Random) -> Fact:
    name, area = _person(rng), _area(rng)
    said = (
        f"It was {name} who wrote the first version, so ask there when in doubt.",
        f"Our contact at the bank is {name}, usually reachable in the morning.",
        f"{name} owns the {area} module now.",
        f"Bei Fragen zu {area} ist {name} zuständig.",
        f"I talked to {name} about the rollout and there were no objections.",
    )
    return Fact("name", (name,), said, (f"owner: {name}",))


def _email(rng: random.Random) -> Fact:
    area = _area(rng)
    address = f"{rng.choice(_LAST).lower()}.{area}@{rng.choice(('acme.example', 'nordbank.eu'))}"
    said = (
        f"Send the report to {address} once it is there.",
        f"The on-call mailbox is {address}.",
        f"Die Rechnung geht an {address}.",
    )
    return Fact("email", (address,), said, (f"contact: {address}",))


def _path(rng: random.Random) -> Fact:
    area, other = rng.sample(_AREAS, 2)
    forms = (f"src/{area}/{other}_worker.py", f"/etc/{area}/{other}.yaml", f"{area}/{other}.ts")
    path = rng.choice(forms)
    said = (
        f"The parser that keeps tripping us up lives in {path}, next to the old one.",
        f"Have a look at {path} before you change anything else.",
        f"Die Zugangsdaten liegen in {path}.",
        f"I moved the retry logic over to {path} yesterday evening.",
    )
    return Fact("path", (path,), said, (f"config loaded from {path}",))


def _host(rng: random.Random) -> Fact:
    area = _area(rng)
    forms = (
        f"{area}-{rng.randint(1, 9)}.internal.acme.example",
        f"10.{rng.randint(0, 255)}.{rng.randint(0, 255)}.{rng.randint(1, 254)}",
        f"https://{area}.acme.example/api/v{rng.randint(2, 9)}",
    )
    host = rng.choice(forms)
    said = (
        f"The staging box is {host}.",
        f"Point the {area} client at {host} for now.",
        f"Erreichbar ist das Testsystem unter {host}.",
    )
    return Fact("host", (host,), said, (f"upstream {area} = {host}",))


def _deadline(rng: random.Random) -> Fact:
    day, area = _day(rng), _area(rng)
    said = (
        f"We promised the customer a working demo by {day}.",
        f"The contract with the hosting company runs out on {day}.",
        f"The {area} release has to be out before {day}.",
        f"Abgabetermin für den {area}-Umbau ist der {day}.",
        f"The freeze starts on {day}, nothing gets merged after that.",
    )
    return Fact("deadline", (day,), said)


def _price(rng: random.Random) -> Fact:
    amount = rng.randint(1_000, 99_999)
    price = rng.choice((f"${amount:,}.50", f"€{amount:,}", f"{amount} EUR", f"£{amount / 100:.2f}"))
    said = (
        f"Finance signed off on {price} for the whole migration, not a cent more.",
        f"The vendor now asks for {price} per seat, which is less than last year.",
        f"Das Budget liegt bei {price}.",
        f"We ended up paying {price} for the extra storage.",
    )
    return Fact("price", (price,), said, (f"invoice total: {price}",))


def _decision(rng: random.Random) -> Fact:
    taken, rejected = rng.sample(_STORES, 2)
    area = _area(rng)
    said = (
        f"We go with {taken} for the {area} data; {rejected} was rejected for its locking.",
        f"I decided against {rejected}, so {taken} it is for {area}.",
        f"Wir haben uns für {taken} statt {rejected} entschieden.",
        f"After a long talk the team picked {taken} over {rejected}.",
    )
    return Fact("decision", (taken, rejected), said)


def _forbidden(rng: random.Random) -> Fact:
    area = _area(rng)
    rule, said = rng.choice(
        (
            (f"never deploy to {area} on a Friday", "Whatever else you do, {}."),
            (f"do not touch the {area} schema", "One more thing: {}, the auditors look at it."),
            (f"the {area} backups must not leave the building", "Remember: {}."),
            (f"no new dependencies in the {area} module", "Please keep in mind: {}."),
            (f"niemals direkt auf die {area}-Datenbank schreiben", "Bitte {}."),
            (f"leave the {area} table alone", "And {}, someone else is working on it."),
        )
    )
    return Fact("forbidden", (rule,), (said.format(rule),))


def _only(rng: random.Random) -> Fact:
    name, area = _person(rng), _area(rng)
    first = name.split()[0]
    rule, said = rng.choice(
        (
            (f"only {first} may approve a release of {area}", "By the way, {}."),
            (f"only touch files under {area}/", "Please {}."),
            (f"{area} runs are allowed only between 22:00 and 04:00", "Note that {}."),
            (f"an {area} dürfen nur {first} und ich etwas ändern", "Übrigens: {}."),
            (f"use nothing but the standard library in {area}", "Oh, and {}."),
        )
    )
    return Fact("only", (rule,), (said.format(rule),))


def _fixed(rng: random.Random) -> Fact:
    code = rng.choice((f"E{rng.randint(1000, 9999)}", "ERR_LEASE_LOCKED", "HTTP 507", "ORA-01555"))
    fix = rng.choice(("KEEPALIVE=45", "ulimit -n 8192", "--no-sandbox", "fsck.ext4", "LC_ALL=C"))
    said = (
        f"The job died with {code} until I set {fix}, then it went through.",
        f"If you run into {code}: {fix} solved it last time.",
        f"Den Fehler {code} haben wir mit {fix} behoben.",
    )
    return Fact("fix", (code, fix), said)


def _error(rng: random.Random) -> Fact:
    area = _area(rng)
    code = rng.choice((f"E{rng.randint(1000, 9999)}", f"ERR_{area.upper()}_LOCKED", "ORA-00060"))
    said = (
        f"Users on the old client see {code} when they log in.",
        f"What I get back from the gateway is {code}, without any details.",
        f"Seit gestern bricht der {area}-Lauf mit {code} ab.",
    )
    return Fact("error", (code,), said, (f"last error: {code}",))


def _preference(rng: random.Random) -> Fact:
    wanted, other = rng.choice(_PREFERRED)
    said = (
        f"I like {wanted} better than {other}, by the way.",
        f"I would rather have {wanted} than {other}.",
        f"My team is used to {wanted}, so stick to that.",
        f"Mir ist {wanted} lieber als {other}.",
    )
    return Fact("preference", (wanted,), said)


def _setting(rng: random.Random) -> Fact:
    key = f"{_area(rng).upper()}_{rng.choice(('TIMEOUT', 'RETRIES', 'POOL_SIZE', 'BATCH'))}"
    setting = f"{key}={rng.randint(3, 900)}"
    said = (
        f"On the cluster we run with {setting}.",
        f"Set {setting} before you start it.",
        f"In der Umgebung ist {setting} gesetzt.",
    )
    return Fact("setting", (setting,), said, (f"export {setting}",))


def _branch(rng: random.Random) -> Fact:
    branch = f"{rng.choice(('fix', 'feature', 'release'))}/{_area(rng)}-{rng.randint(10, 999)}"
    said = (
        f"My half-finished work is on {branch}.",
        f"Please push to {branch}, the main branch is protected.",
        f"Der Stand vom Kollegen liegt auf {branch}.",
    )
    return Fact("branch", (branch,), said, (f"On branch {branch}",))


def _measure(rng: random.Random) -> Fact:
    unit = rng.choice(("seconds", "MB", "rows", "requests", "ms", "%"))
    amount = f"{rng.randint(12, 980)} {unit}".replace(" %", "%")
    area = _area(rng)
    said = (
        f"Anything above {amount} gets cut off by the {area} gateway.",
        f"The {area} limit we agreed on with the customer is {amount}.",
        f"Mehr als {amount} verträgt der {area}-Server nicht.",
    )
    return Fact("measure", (amount,), said, (f"{area} quota: {amount}",))


def _commit(rng: random.Random) -> Fact:
    commit = f"{rng.getrandbits(40):010x}"
    said = (
        f"The last good commit is {commit}.",
        f"It broke right after {commit}, everything before is fine.",
        f"Bis {commit} war noch alles in Ordnung.",
    )
    return Fact("commit", (commit,), said, (f"HEAD is now at {commit}",))


_MAKERS: Mapping[str, Callable[[random.Random], Fact]] = {
    "port": _port,
    "version": _version,
    "uuid": _uuid,
    "ticket": _ticket,
    "name": _name,
    "email": _email,
    "path": _path,
    "host": _host,
    "deadline": _deadline,
    "price": _price,
    "decision": _decision,
    "forbidden": _forbidden,
    "only": _only,
    "fix": _fixed,
    "error": _error,
    "preference": _preference,
    "setting": _setting,
    "branch": _branch,
    "measure": _measure,
    "commit": _commit,
}
KINDS = tuple(_MAKERS)
_OPENINGS = ("", "", "", "By the way: ", "Before I forget, ", "FYI: ", "Ah, and one thing. ")
_CLOSINGS = ("", "", "", " Anyway, please go on.", " Thanks!", " Now back to the task.")
_NOTED = ("", "", "Understood. ", "From what I can see so far: ", "One finding: ", "Noted. ")


def make_facts(rng: random.Random, count: int = 8) -> list[Fact]:
    """Return facts of so many different kinds."""
    return [_MAKERS[kind](rng) for kind in rng.sample(KINDS, count)]


def as_user(fact: Fact, rng: random.Random) -> str:
    """Return what a user says to tell a fact, with some talk around it."""
    return rng.choice(_OPENINGS) + rng.choice(fact.said) + rng.choice(_CLOSINGS)


def as_assistant(fact: Fact, rng: random.Random) -> str:
    """Return what an assistant says to tell a fact."""
    return rng.choice(_NOTED) + rng.choice(fact.said)
