"""Tools that write files, run commands or only read, by the names that calls give them."""

import pytest

from langchain_tokenmem.core.working_notes.tool_kinds import ToolKinds
from langchain_tokenmem.errors import ConfigurationError


@pytest.mark.parametrize(
    "name",
    [
        *("write_file", "edit_file", "create_file", "str_replace_based_edit_tool"),
        *("str_replace_editor", "apply_patch", "move_file", "delete_file", "insert", "undo_edit"),
        *("filesystem-write_file", "mcp__fs__write_file", "fs_write_file", "WriteFile"),
    ],
)
def test_the_usual_names_of_writing_tools_are_known(name):
    assert ToolKinds().written_argument(name)


def test_the_tables_of_the_application_are_added_to_the_usual_names():
    kinds = ToolKinds(writes={"save_page": "page_path"}, commands={"run_job": "script"})
    assert kinds.written_argument("save_page") == "page_path"
    assert kinds.command_argument("run_job") == "script"
    assert kinds.written_argument("write_file") == "path"
    assert kinds.command_argument("bash") == "command"


def test_a_usual_name_can_be_made_one_that_only_reads():
    kinds = ToolKinds(reads={"edit_file"})
    assert kinds.written_argument("edit_file") is None
    assert kinds.written_argument("mcp__fs__edit_file") is None


@pytest.mark.parametrize(
    "tables",
    [
        {"writes": "write_file"},
        {"writes": {"write_file": 3}},
        {"commands": {"": "command"}},
        {"reads": "grep"},
        {"reads": [1]},
        {"reads": {"save"}, "writes": {"save": "path"}},
    ],
)
def test_a_wrong_table_is_a_configuration_error(tables):
    with pytest.raises(ConfigurationError, match=r"writes|commands|reads"):
        ToolKinds(**tables)
