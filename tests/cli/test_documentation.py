"""docs/cli.md says what the commands do."""

from pathlib import Path

from app.cli.problems import Exit
from app.core.config.client_settings import CLIENT_SETTINGS, ClientSettings
from app.core.config.flags import environment_name, flag_name, flag_only, shown_default, shown_type
from app.core.docstrings import described

DOCUMENT = (Path(__file__).parents[2] / "docs/cli.md").read_text()


def rows(heading):
    """The cells of the table below a heading."""
    body = DOCUMENT.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in body.splitlines() if line.startswith("| ")][1:]
    return [
        [cell.strip().replace("\\|", "|") for cell in line.strip("|").split(" | ")]
        for line in lines
    ]


def told(name, field):
    return [f"`--{flag_name(name)}`", shown_type(field) or "boolean", shown_default(field)]


def test_the_flags_of_all_commands_are_as_they_are():
    assert rows("The flags of all of them") == [
        [
            *told(name, field),
            "–" if flag_only(field) else f"`{environment_name(name)}`",
            field.description,
        ]
        for name, field in described(ClientSettings).items()
    ]


def test_the_flags_of_each_command_are_as_they_are():
    assert rows("The flags of each") == [
        [f"`{command}`", *told(name, field), field.description]
        for command, model in CLIENT_SETTINGS.items()
        for name, field in described(model).items()
        if name not in ClientSettings.model_fields
    ]


def test_what_a_command_has_of_its_own_is_given_by_its_flag_alone():
    for model in CLIENT_SETTINGS.values():
        for name, field in model.model_fields.items():
            assert name in ClientSettings.model_fields or flag_only(field), name


def test_every_exit_code_is_explained():
    codes = {int(code) for cells in rows("For scripts") for code in cells[0].split(",")}
    assert codes == {int(each) for each in Exit} | {129}


def test_every_command_is_named():
    assert all(f"`dwd {name}" in DOCUMENT for name in CLIENT_SETTINGS)
