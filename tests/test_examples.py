"""The examples run, offline, and print what they say."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
README = (ROOT / "README.md").read_text(encoding="utf-8")
TABLE = README.partition("## See it work")[2].split("```")[1].splitlines()[2:]
"""Lines of the table that `make demo` prints, without the names of the columns."""


HAS_DEEP_AGENTS = importlib.util.find_spec("deepagents") is not None
PRINTED = {
    "agent": ["All days are well.", "50 messages in the state"],
    "graph": ["60 messages in the state, none removed", "has 6 messages and no summary yet"],
    "remember": ["Saved mem_", "The second session knows: True; asked of tea: False"],
    "demo": [line for line in TABLE if line],
    "history": ["60 messages kept", "tokens of"],
    "multi_agent": ["support knows Anna's order: True; Bob sees it: False"],
    "watch_sessions": [
        "20 of 20 sessions were compacted",
        "differ from the state: 0; log and callbacks agree: True",
    ],
    "chain": ["60 messages in the transcript", "largest request"],
    "deep_agent": ["80 messages kept" if HAS_DEEP_AGENTS else "deepagents is not installed"],
}


@pytest.fixture
def run(capsys, monkeypatch):
    """Return a function that runs an example and returns its output."""

    def run(name: str) -> str:
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look it up
        spec.loader.exec_module(module)
        module.main()
        return capsys.readouterr().out

    return run


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
def test_an_example_runs(name, run):
    printed = run(name)
    assert [words for words in PRINTED[name] if words not in printed] == []


@pytest.mark.slow
def test_the_chat_server_streams_an_answer_and_the_fill(run, monkeypatch, tmp_path):
    pytest.importorskip("fastapi", reason="FastAPI is not installed (in the extra `peers`)")
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/chat.db")
    monkeypatch.delenv("MODEL", raising=False)
    lines = run("chat_server").splitlines()
    assert [line for line in lines if line[0] == ">"] == ["> My order is 4711.", "> Where is it?"]
    parts = [json.loads(line) for line in lines if line[0] == "{"]
    assert "".join(part.get("text", "") for part in parts) == "Noted.Noted."
    first, second = (part for part in parts if "tokens" in part)
    assert 0 < first["tokens"] < second["tokens"] < second["limit"]


@pytest.mark.slow
def test_the_notebook_runs(capsys):
    notebook = json.loads((EXAMPLES / "first_steps.ipynb").read_text("utf-8"))
    script = {"__name__": "first_steps"}
    for cell in notebook["cells"]:
        assert not cell.get("outputs"), "the outputs are not in git"
        if cell["cell_type"] == "code":
            exec(compile(cell["source"], "first_steps.ipynb", "exec"), script)  # noqa: S102
    printed = capsys.readouterr().out
    assert "60 messages in the thread" in printed
    assert "summarized" in printed


def test_the_recording_names_no_folder_of_the_machine_that_made_it():
    text = (EXAMPLES / "recorded_agent.jsonl").read_text("utf-8")
    assert not any(folder in text for folder in ("/work/", "/root/", "/home/"))
