"""The arguments of a command: a dataclass that tyro fills from the command line, its help page, and its errors.

tyro's own help page shows every option with every default, 76 lines for `fit`, and cannot keep the options that are
seldom needed for a second page. tyro's errors are boxes of ten lines; the hook that could replace them is private. So
the help page and the sentences for wrong words are made here, from the same dataclass.
"""

from __future__ import annotations

import ast
import inspect
import shlex
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")

HELP = ("-h", "--help")
HELP_ALL = "--help-all"
NARROWEST, WIDEST = 40, 110
EXAMPLE = "Example: "
# Placeholders for values of arguments that name none themselves.
PLACEHOLDERS = {int: "N", float: "X", str: "NAME", Path: "PATH"}
SEED = "--seed"
LARGEST_SEED = 2**63 - 1  # of torch's generators
# Options by their former names, which go with 0.3.
FORMER = {
    "--rollouts": "--episodes",
    "--first": "--demonstrations",
    "--well": "--handover-at",
    "--kept": "--teacher-share",
    "--begins": "--start-share",
    "--deviations": "--box",
}
TAKES = {int: "a whole number", float: "a number"}


class Option(NamedTuple):
    """One argument of a command.

    word: the option, such as `--seed`, or the name of a positional argument, such as `RECIPE`
    value: the placeholder of its value; empty for a switch
    text: what it does
    kind: the type of its value or values
    many: whether it takes any number of values
    default: the value that the help page shows as its default; empty where the text says what happens
    needed: whether it must be given
    """

    word: str
    value: str = ""
    text: str = ""
    kind: type = bool
    many: bool = False
    default: str = ""
    needed: bool = False

    @property
    def is_flag(self) -> bool:
        """Whether the argument is an option, and not positional."""
        return self.word.startswith("--")

    @property
    def shown(self) -> str:
        """The option and the placeholder of its value."""
        return f"{self.word} {self.value}".strip() if self.is_flag else self.word


def typed_command(words: Sequence[str] | None = None) -> str:
    """Returns a command without `--resume`, as records keep it.

    :param words: the words after `ncp-control`; by default those that this process was started with
    """
    words = sys.argv[1:] if words is None else words
    return shlex.join(["ncp-control", *(word for word in words if word != "--resume")])


def read(kind: type[T], command: str, words: Sequence[str], seldom: Sequence[str] = ()) -> T:
    """Reads the arguments of a command; `--help` prints its page and ends the process.

    :param kind: the dataclass of the arguments
    :param command: the command, such as `ncp-control fit`
    :param words: the words after the command
    :param seldom: fields that only `--help-all` explains
    """
    import tyro

    if any(word in (*HELP, HELP_ALL) for word in words):
        print(help_text(kind, command, () if HELP_ALL in words else seldom), flush=True)
        raise SystemExit(0)
    options = options_of(kind)
    words = respelled(options, words)
    check(options, command, words)
    return tyro.cli(kind, prog=command, args=list(words), config=(tyro.conf.FlagCreatePairsOff,))


def respelled(options: Sequence[Option], words: Sequence[str]) -> list[str]:
    """Returns words with the options' names of today in place of former ones; warns of each."""
    from ncp_control.base.progress import say

    known, changed = {option.word for option in options}, []
    for word in words:
        name, equals, value = word.partition("=")
        new = FORMER.get(name)
        if new in known and name not in known:
            say(f"{name} is now {new}; the old name will go with 0.3")
            word = f"{new}{equals}{value}"
        changed.append(word)
    return changed


def check(options: Sequence[Option], command: str, words: Sequence[str]) -> None:
    """Raises ValueError, with one sentence, for the first word that the command cannot take."""
    flags = {option.word: option for option in options if option.is_flag}
    places = [option for option in options if not option.is_flag]
    left, count, seen = list(words), 0, set()
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            count += 1
            if (count > len(places) and not any(place.many for place in places)) or is_short(word):
                raise ValueError(f"{command.split()[-1]} does not know what to do with {word} (see `{command} --help`)")
            continue
        name, equals, value = word.partition("=")
        option = flags.get(name.replace("_", "-"))  # tyro takes both
        if option is None:
            near = get_close_matches(name, flags, 1, cutoff=0.6) or [flag for flag in flags if flag.startswith(name)]
            advice = f"did you mean {near[0]}?" if near else f"`{command} --help` lists what there is"
            raise ValueError(f"{command.split()[-1]} has no option {name}; {advice}")
        seen.add(option.word)
        values = [value] if equals else []
        while option.kind is not bool and left and not left[0].startswith("--") and (option.many or not values):
            values.append(left.pop(0))
        if option.kind is not bool and not values and not option.many:
            raise ValueError(f"{name} takes {TAKES.get(option.kind, 'a value')}, and got nothing")
        for value in values:
            if not fits(value, option.kind):
                raise ValueError(f"{name} takes {TAKES.get(option.kind, 'a value')}, not {value!r}")
            if option.word == SEED and not 0 <= int(value) <= LARGEST_SEED:
                raise ValueError(f"{name} takes a whole number from 0 to {LARGEST_SEED}, not {value}")
    missing = [option for option in places if option.needed and not count]
    missing += [option for option in options if option.is_flag and option.needed and option.word not in seen]
    if missing:
        about = f"{missing[0].text[:1].lower()}{missing[0].text[1:].rstrip('.')}"
        raise ValueError(f"{missing[0].word} is missing: {about} (see `{command} --help`)")


def is_short(word: str) -> bool:
    """Whether a word looks like an option with a single dash; no command has one."""
    return word.startswith("-") and word[1:2].isalpha()


def fits(value: str, kind: type) -> bool:
    """Whether a word can be read as a value of this type."""
    if kind not in (int, float):
        return True
    try:
        kind(value)
    except ValueError:
        return False
    return True


def help_text(kind: type[Any], command: str, seldom: Sequence[str] = ()) -> str:
    """Writes the help page of a command: what it does, examples, and a line or two for each argument.

    :param seldom: fields that the page names at its end without explaining them
    """
    width = screen_width()
    about, examples = split_examples(inspect.getdoc(kind) or "")
    options = options_of(kind)
    hidden = {f"--{name.replace('_', '-')}" for name in seldom}
    shown = [option for option in options if option.word not in hidden]
    more = "; --help-all explains every option" if hidden else ""
    shown.append(Option("--help", text=f"Show this page{more}."))
    named = " ".join(option.word for option in options if not option.is_flag)
    column = min(24, max(len(option.shown) for option in shown) + 4)
    lines = [f"usage: {command} {named} [OPTIONS]".replace("  ", " "), ""]
    for paragraph in about:
        lines += [*wrapped(paragraph, width), ""]
    lines += [f"  {example}" for example in examples]
    lines += [""] if examples else []
    for option in shown:
        text = option.text + (f" [{option.default}]" if option.default else "")
        body = wrapped(text, width - column) or [""]
        head = f"  {option.shown}"
        if len(head) > column - 2:
            lines.append(head)
            head = ""
        lines.append(head.ljust(column) + body[0])
        lines += [" " * column + line for line in body[1:]]
    if hidden:
        names = ", ".join(option.word for option in options if option.word in hidden)
        lines += ["", *wrapped(f"Seldom needed: {names}.", width)]
    return "\n".join(lines)


def screen_width() -> int:
    """Returns how many characters a line of help may have; a narrower terminal breaks lines by itself."""
    return max(min(shutil.get_terminal_size().columns, WIDEST), NARROWEST)


def wrapped(text: str, width: int) -> list[str]:
    """Breaks a text into lines of at most `width` characters, but never at a hyphen."""
    return textwrap.wrap(text, width, break_on_hyphens=False)


def split_examples(text: str) -> tuple[list[str], list[str]]:
    """Splits a docstring into its paragraphs and the commands on its lines that begin with `Example:`."""
    examples = [line.removeprefix(EXAMPLE) for line in text.splitlines() if line.startswith(EXAMPLE)]
    rest = "\n".join(line for line in text.splitlines() if not line.startswith(EXAMPLE))
    return [" ".join(part.split()) for part in rest.split("\n\n") if part.strip()], examples


def options_of(kind: type[Any]) -> list[Option]:
    """Returns the fields of a dataclass as options, with the fields of the dataclasses in it."""
    hints, texts = get_type_hints(kind, include_extras=True), field_texts(kind)
    options = []
    for field in fields(kind):
        hint = hints[field.name]
        plain, extras = (get_args(hint)[0], get_args(hint)[1:]) if get_origin(hint) is Annotated else (hint, ())
        if is_dataclass(plain):
            assert isinstance(plain, type)
            options += options_of(plain)
            continue
        needed = field.default is MISSING and field.default_factory is MISSING
        # the marker that tyro puts into an annotation is of a private class
        alone = any("Positional" in repr(extra) for extra in extras)
        silent = needed or field.default is None or field.default is False or field.default in ((), "")
        default = "" if silent else told(field.default)
        named = next((extra.metavar for extra in extras if getattr(extra, "metavar", None)), None)
        value = "" if plain is bool else named or placeholder(plain)
        name = next((extra.name for extra in extras if getattr(extra, "name", None)), field.name)
        word = value if alone else f"--{name.replace('_', '-')}"
        text = next((extra.help for extra in extras if getattr(extra, "help", None)), texts.get(field.name, ""))
        text, many = " ".join(text.split()), get_origin(plain) is tuple
        options.append(Option(word, value, text, type_within(plain), many, default, needed))
    return options


def placeholder(plain: Any) -> str:
    """Returns the placeholder for a value of a type."""
    return PLACEHOLDERS[type_within(plain)] + (" ..." if get_origin(plain) is tuple else "")


def type_within(plain: Any) -> Any:
    """Returns T for `T`, `T | None` and `tuple[T, ...]`."""
    parts = [part for part in get_args(plain) if part not in (type(None), Ellipsis)]
    return parts[0] if parts else plain


def told(default: Any) -> str:
    """Returns a default as a user would type it."""
    return " ".join(map(str, default)) if isinstance(default, tuple) else str(default)


def field_texts(kind: type[Any]) -> dict[str, str]:
    """Reads the docstring below each field of a class from its source."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    texts = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):  # Python itself forgets such docstrings
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            texts[field.target.id] = str(ast.literal_eval(text.value))
    return texts


def cell_settings(words: tuple[str, ...]) -> dict[str, Any]:
    """Returns the settings of a cell that are written as KEY=VALUE."""
    if not words:
        return {}
    from ncp_control.base.plain_yaml import read_changes

    return read_changes(list(words), "unfolds=3")
