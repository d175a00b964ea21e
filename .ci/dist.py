"""Builds wheel and sdist, and runs the contract tests against the installed wheel.

Usage:
    python .ci/dist.py [options of pytest]

Builds from a copy of what git tracks, into `dist/`. Leaves with 1 where the files are not as PyPI
wants them, where they lack something, or where a test fails.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = ("build>=1.2,<2", "hatchling>=1.25", "twine>=6,<8")
TESTS = "tests/contract"
USE = """
from pathlib import Path
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
import langchain_tokenmem
from langchain_tokenmem import TokenMemoryMiddleware
agent = create_agent(FakeListChatModel(responses=["Hello."]), middleware=[TokenMemoryMiddleware()])
assert agent.invoke({"messages": "Hi."})["messages"][-1].content == "Hello."
print(Path(langchain_tokenmem.__file__).parent)
"""


def run(*command: str | Path, cwd: Path, printed: bool = True) -> str:
    """Run a command, and return what it printed where that is not shown."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(  # noqa: S603  # commands of this file
        [*map(str, command)],
        cwd=cwd,
        env=environment,
        stdout=None if printed else subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"failed with {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout or ""


def environment(folder: Path, *requirements: str | Path) -> Path:
    """Make a virtual environment with nothing but some packages, and return its Python."""
    venv.create(folder, with_pip=False)  # Debian's Python may lack ensurepip
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", *requirements, cwd=folder)
    return python


def copied(folder: Path) -> Path:
    """Copy what git tracks, so that nothing else of this folder gets into the files."""
    names = run("git", "ls-files", cwd=ROOT, printed=False).splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def check_contents(wheel: Path, sdist: Path) -> None:
    """Stop where a file has what it should not have, or lacks what it should have."""
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    package = {
        f"langchain_tokenmem/{path.relative_to(ROOT / 'langchain_tokenmem').as_posix()}"
        for path in (ROOT / "langchain_tokenmem").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    wanted = {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "tests/conftest.py"}
    for trouble, names in {
        "the wheel lacks": package - in_wheel,
        "the wheel should not have": in_wheel - package,
        "the sdist lacks": (package | wanted) - in_sdist,
    }.items():
        if names:
            raise SystemExit(f"{trouble} {', '.join(sorted(names))}")


def check_words() -> None:
    """Stop where the changelog has another version than the project; name dead links."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    if newest is None or newest[1] != project["version"]:
        raise SystemExit(f"CHANGELOG.md does not begin with {project['version']}")
    relative = re.findall(r"\]\((?!https?:|#)", (ROOT / "README.md").read_text("utf-8"))
    if relative and not project.get("urls"):
        print(f"note: {len(relative)} links of README.md are relative and lead nowhere on PyPI: "
              "the project has no address yet ([project.urls])")  # fmt: skip


def main(options: Sequence[str]) -> None:
    """Build, check, install, test."""
    check_words()
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="tokenmem-dist-") as name:
        folder = Path(name)
        source = copied(folder / "source")
        tools = environment(folder / "tools", *TOOLS)
        # The wheel is made from the sdist, as anyone would who only has that.
        build = ("-m", "build", "--no-isolation", "--outdir", ROOT / "dist")
        run(tools, *build, source, cwd=folder, printed=False)
        (wheel,), (sdist,) = (ROOT / "dist").glob("*.whl"), (ROOT / "dist").glob("*.tar.gz")
        run(tools, "-m", "twine", "check", "--strict", wheel, sdist, cwd=folder)
        check_contents(wheel, sdist)

        bare = environment(folder / "bare", wheel)
        print("the wheel alone:", run(bare, "-c", USE, cwd=folder, printed=False).strip())

        python = environment(folder / "tests", f"{wheel}[tests]")
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = folder.glob("langchain_tokenmem-*")
        shutil.rmtree(unpacked / "langchain_tokenmem")  # the installed package is tested
        pytest = ("-m", "pytest", TESTS, "-q", "-p", "no:cacheprovider", "--numprocesses", "auto")
        run(python, *pytest, *options, cwd=unpacked)
    for path in (wheel, sdist):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
