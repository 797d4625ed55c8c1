"""Completion of command lines in bash, zsh and fish.

The scripts know nothing of `dwd`: at each Tab they call `dwd __complete WORD…` with all words up to the cursor, and it
prints candidates for the last one, each with a tab and a description, and last `:4`, or `:0` where the shell is to
complete names of files. That is how cobra's programs do it, and what kubectl asks of `kubectl_complete-dwd`.

Candidates come from the declarations that parse the command line: commands from `app.commands`, their arguments,
flags and values from the settings. Names of shoots and what belongs to them come from the API, if it answers at once.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from app import commands
from app.core.config.client_settings import ClientSettings
from app.core.config.flags import (
    CommandSettings,
    flag_name,
    read_flags,
    shown_type,
    take_apart,
)
from app.core.config.settings import Shell
from app.core.docstrings import described
from app.core.errors import ConfigurationError, WatchdogError, trimmed

_MOST: Final = 100
"""Most names that the API is asked for."""
_PATIENCE: Final = 3.0
"""Seconds that the API is waited for."""
_FILE: Final = "FILE"
_ABOUT: Final = 80

Names = Callable[[str, Sequence[str], ClientSettings, Mapping[str, str]], Sequence[str]]
"""Looks up the names for a positional argument such as `NAME`; the words are those before it, and the typed part."""


class Candidate(NamedTuple):
    """A word that may stand in the place of the last one."""

    word: str
    about: str = ""


class Candidates(NamedTuple):
    """The candidates for the last word."""

    found: Sequence[Candidate] = ()
    files: bool = False
    """Whether names of files may stand there, too."""


def candidates(words: Sequence[str], environ: Mapping[str, str], names: Names) -> Candidates:
    """Return the candidates for the last of `words`, which are all that was typed after the program's name."""
    before, typed = list(words[:-1]), words[-1] if words else ""
    if not before:
        known = (Candidate(name, model.about) for name, model in commands.known_commands().items())
        return Candidates(_beginning(typed, known))
    model, arguments = commands.known_commands().get(before[0]), before[1:]
    if model is None:
        return Candidates()
    parsed = take_apart(arguments, model)
    if "--" not in arguments:
        if parsed.awaits is not None:
            return _values(model, parsed.awaits, typed)
        if typed.startswith("-"):
            flag, equals, part = typed.partition("=")
            if not equals:
                fields = described(model).items()
                flags = [Candidate(f"--{flag_name(n)}", f.description or "") for n, f in fields]
                flags.append(Candidate("--help", "Prints the help of this command."))
                return Candidates(_beginning(typed, flags))
            found, files = _values(model, flag.lstrip("-"), part)
            return Candidates([Candidate(f"{flag}={each.word}") for each in found], files)
    argument = _argument(model, len(parsed.rest))
    looked_up = argument.isupper() and argument != _FILE
    if looked_up and (settings := _settings(model, parsed.flags, environ)) is not None:
        offered = names(argument, [*parsed.rest, typed], settings, environ)
        return Candidates(_beginning(typed, map(Candidate, offered)))
    return _declared(argument, typed)


def _beginning(typed: str, found: Iterable[Candidate]) -> list[Candidate]:
    return [each for each in found if each.word.startswith(typed)]


def _values(model: type[CommandSettings], flag: str, typed: str) -> Candidates:
    name = model.aliases().get(flag, flag).replace("-", "_")
    field = model.model_fields.get(name)
    return _declared("" if field is None else shown_type(field) or "true|false", typed)


def _declared(kind: str, typed: str) -> Candidates:
    """What may stand where `kind` is declared: `FILE`, `table|json`, or a word such as `TEXT`, which may be any."""
    choices = (Candidate(each) for each in kind.split("|") if each and not each.isupper())
    return Candidates(_beginning(typed, choices), files=_FILE in kind)


def _settings(
    model: type[CommandSettings], flags: Mapping[str, str], environ: Mapping[str, str]
) -> ClientSettings | None:
    """Return how the API is reached, as far as it was typed; None if the command does not call it."""
    if not issubclass(model, ClientSettings):
        return None
    shared = {flag_name(name) for name in ClientSettings.model_fields} - {"output"}
    typed = [f"--{name}={value}" for name, value in flags.items() if name in shared]
    try:
        return read_flags(ClientSettings, typed, environ, "dwd").settings
    except ConfigurationError:
        return None


def _argument(model: type[CommandSettings], index: int) -> str:
    """Return the positional argument in this place, as the usage line of the command declares it; empty if none is."""
    declared = [each.strip("[]") for each in model.arguments()]
    if declared and declared[-1].endswith("…"):
        index = min(index, len(declared) - 1)
    return "".join(declared[index : index + 1]).partition("|--")[0].strip("…")


def shown(found: Candidates) -> str:
    """Candidates as the scripts read them."""
    lines = [
        f"{word}\t{trimmed(about, _ABOUT)}\n"
        for word, about in found.found
        if word.isprintable() and not re.search(r"\s", word)
    ]
    return "".join([*lines, ":0\n" if found.files else ":4\n"])


def names_of_api(
    argument: str, words: Sequence[str], settings: ClientSettings, environ: Mapping[str, str]
) -> Sequence[str]:
    """Ask the API for the names that may stand for a positional argument; none where it does not answer in time.

    The user is typing: there is no message, and nothing is asked with `--service-account`, as a login plugin could ask
    questions of its own.
    """
    # Imported here: commands and flags are completed without the HTTP client, whose import takes a while.
    from app.api import schemas  # noqa: PLC0415 - see above
    from app.cli import answers, client, program, session  # noqa: PLC0415 - see above

    # The schema of an item, its name, the path of the list, and what is asked for of it.
    lists: Mapping[str, tuple[Any, str, tuple[str, ...], dict[str, str]]] = {
        "NAME": (schemas.Shoot, "{0.namespace}", ("shoots",), {"q": words[-1]}),
        "ID": (schemas.Operation, "{0.id}", ("operations",), {}),
        "SERVICE": (schemas.Weeder, "{0.service}", ("weeders",), {"namespace": words[0]}),
        "RESOURCE": (schemas.Resource, "{0.kind}/{0.name}", ("shoots", words[0], "resources"), {}),
    }
    if argument not in lists or settings.service_account is not None:
        return ()
    kind, name, path, query = lists[argument]

    async def ask(api: client.Client) -> Sequence[str]:
        call = client.ApiCall("GET", session.path(*path), {**query, "limit": str(_MOST)})
        async with asyncio.timeout(_PATIENCE), api:
            page = answers.of(answers.Page, answers.decode(await api.ask(call)))
        return [name.format(answers.of(kind, each)) for each in page.items]

    try:
        with asyncio.Runner() as runner:
            return runner.run(ask(program.client_of(settings, environ)))
    except (WatchdogError, TimeoutError, KeyboardInterrupt):
        return ()


# The scripts.


_BASH: Final = r"""# bash completion of dwd: source <(dwd completion bash)
_dwd() {
  local -a words
  local line value prefix directive=4
  read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
  [[ "${COMP_LINE:0:COMP_POINT}" == *[[:space:]] ]] && words+=("")
  # bash replaces only what follows the last = or :
  value="${words[${#words[@]} - 1]}"
  prefix="${value%"${value##*[=:]}"}"
  COMPREPLY=()
  while IFS= read -r line; do
    case "$line" in
      :[0-9]*) directive="${line#:}" ;;
      *) value="${line%%$'\t'*}"; COMPREPLY+=("${value#"$prefix"}") ;;
    esac
  done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
  if ((directive == 0)); then compopt -o default; fi
}
complete -F _dwd dwd dependency-watchdog kubectl-dwd
"""
_ZSH: Final = r"""#compdef dwd dependency-watchdog kubectl-dwd
# zsh completion of dwd: source <(dwd completion zsh)
_dwd() {
  local -a found
  local line directive=4
  while IFS= read -r line; do
    case "$line" in
      :[0-9]*) directive="${line#:}" ;;
      *) found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
    esac
  done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
  (( $#found )) && _describe -t values dwd found
  if (( directive == 0 )); then
    compset -P '*='
    _files
  fi
}
(( $+functions[compdef] )) && compdef _dwd dwd dependency-watchdog kubectl-dwd
"""
_FISH: Final = r"""# fish completion of dwd: dwd completion fish | source
function __dwd_complete
  set -l before (commandline -opc)
  set -l typed (commandline -ct)
  set -l found ($before[1] __complete $before[2..-1] "$typed" 2>/dev/null)
  string match -v -r '^:\d$' -- $found
  if contains -- :0 $found
    set -l flag (string match -r '^-[^=]*=' -- "$typed")
    for path in (complete -C "__dwd_no_command "(string replace -- "$flag" '' "$typed"))
      echo -- "$flag$path"
    end
  end
end
for program in dwd dependency-watchdog kubectl-dwd
  complete -c $program -f -a '(__dwd_complete)'
end
"""
SCRIPTS: Final[Mapping[Shell, str]] = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}
"""The script for each shell."""
