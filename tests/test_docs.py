"""The documentation names only files, links, commands, options and functions that exist. Nothing is run or imported."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sightline"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHER_OPTIONS = {
    "num_processes",
    "nproc_per_node",
    "nnodes",
    "rdzv_backend",
    "rdzv_endpoint",
    "include",
    "local_dir",
}  # of accelerate, torchrun and hf

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@each_page
def test_every_relative_link_and_image_exists(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    missing = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        if not linked.exists() or (anchor and linked.suffix == ".md" and anchor not in anchors(linked)):
            missing.append(target)
    assert not missing


@each_page
def test_every_named_file_exists(page):
    named = re.findall(
        r"(?<![\w/.-])((?:src|tests|docs|examples|benchmarks|integrations)/[\w./-]*\w)", page.read_text()
    )
    assert not [path for path in named if not (ROOT / path).exists()]


@each_page
def test_every_command_and_option_exists(page):
    unknown = []
    for command in commands(page.read_text()):
        verb, *words = command.split()
        if verb not in verbs():
            unknown.append(f"{command}: verb {verb}")
            continue
        known = subcommands(verb)
        if words and known and re.fullmatch(r"[a-z]+", words[0]) and words[0] not in known:
            unknown.append(f"{command}: subcommand {words[0]}")
        for option in re.findall(r"(?<!\S)--([a-z][\w.-]*)", command):
            if not all(part.replace("-", "_") in option_names(verb) for part in option.split(".")):
                unknown.append(f"{command}: option --{option}")
    assert not unknown


def test_the_script_of_the_pictures_uses_options_that_exist():
    calls = [
        [word.value for word in node.args if isinstance(word, ast.Constant)]
        for node in ast.walk(ast.parse((ROOT / "docs/images.py").read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "sightline"
    ]
    assert calls
    for verb, subcommand, *words in calls:
        options = {word[2:].replace("-", "_") for word in words if word.startswith("--")}
        assert options <= fields(SOURCE / "cli" / f"{verb}.py", subcommand.title())


@each_page
def test_every_option_belongs_to_some_command(page):
    """Options that a text names without their command."""
    known = set().union(*(option_names(verb) for verb in verbs())) | OTHER_OPTIONS
    scripts = " ".join(script.read_text() for script in (*(ROOT / "benchmarks").iterdir(), ROOT / "docs/images.py"))
    options = re.findall(r"(?<![\w-])--([a-z][\w.-]*\w)", page.read_text())
    unknown = {option for option in options if not set(option.replace("-", "_").split(".")) <= known}
    assert not {option for option in unknown if not re.search(rf"\b{option.replace('-', '[-_]')}\b", scripts)}


@each_page
def test_every_import_of_the_package_exists(page):
    unknown = []
    for module, names in re.findall(r"^\s*from (sightline[\w.]*) import ([\w, ]+)$", page.read_text(), flags=re.M):
        file = module_file(module)
        words = identifiers(file) if file.exists() else set()
        unknown += [f"{module}.{name.strip()}" for name in names.split(",") if name.strip() not in words]
    assert not unknown


@each_page
def test_every_function_is_defined_in_the_file_named_with_it(page):
    """`name` in `src/...py`, and `name` and `name` in it."""
    pattern = r"`([\w.]+)`(?: and `([\w.]+)`)?\s+in\s+`(src/[\w/]+\.py)`"
    wrong = []
    for *names, path in re.findall(pattern, page.read_text()):
        wrong += [f"{name} in {path}" for name in names if name and not set(name.split(".")) <= defined(ROOT / path)]
    assert not wrong


@each_page
def test_every_identifier_is_in_the_code(page):
    files = (*SOURCE.rglob("*.py"), *(ROOT / "integrations").rglob("*.py"))
    words = set().union(*(identifiers(file) for file in files)) | known_elsewhere()
    quoted = re.findall(r"`([A-Za-z_][\w.]*)(?:\(.*?\))?`", re.sub(r"```.*?```", "", page.read_text(), flags=re.S))
    assert not [code for code in quoted if not set(code.split(".")) <= words]


def test_the_default_speed_is_the_one_that_the_pages_name():
    default = re.search(r'^DEFAULT_SPEED: Speed = "(\w+)"', (SOURCE / "speed_levels.py").read_text(), re.M)
    assert default is not None
    named = {
        "docs/performance.md": f"| `{default[1]}` (the default) |",
        "docs/generation.md": f"`{default[1]}` (default)",
    }
    assert all((ROOT / page).read_text().count(words) == 1 for page, words in named.items())
    assert ("the exact default" in (ROOT / "README.md").read_text()) == (default[1] == "exact")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(text: str) -> list[str]:
    """What follows `sightline` in blocks of code and in `code`, up to a comment; continued lines are joined."""
    text = text.replace("\\\n", " ")
    lines = re.findall(r"^\s*(?:.*-m )?sightline ([a-z].*?)(?: +#.*)?$", text, flags=re.M)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.S))]
    inline = [match[1] for span in spans if (match := re.match(r"(?:.*-m )?sightline ([a-z].*)", span))]
    in_code = [line for line in lines if not re.match(r"[a-z]+ (is|are|does|has|uses|reads|writes)\b", line)]
    return in_code + inline


@cache
def verbs() -> set[str]:
    (table,) = (
        node.value
        for node in ast.parse((SOURCE / "cli" / "__init__.py").read_text()).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "VERBS"
    )
    return set(ast.literal_eval(table))


def subcommands(verb: str) -> set[str]:
    """The keys of the `commands` of a verb's file; a verb without them takes any word."""
    for node in ast.walk(ast.parse((SOURCE / "cli" / f"{verb}.py").read_text())):
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "commands":
            assert isinstance(node.value, ast.Dict)
            return {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
    return set()


@cache
def option_names(verb: str) -> set[str]:
    """The fields of dataclasses in a verb's file and in the modules of the package that it imports."""
    files = {SOURCE / "cli" / f"{verb}.py"}
    for node in ast.walk(ast.parse((SOURCE / "cli" / f"{verb}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sightline."):
            files.add(module_file(node.module or ""))
    if verb in ("generate", "trajectory"):
        files.add(SOURCE / "cameras" / "options.py")  # of moves and of trajectory files
    if verb == "train":
        files.update((SOURCE / "encodings").glob("*.py"))  # --model.encoding.SETTING
    fields = {
        node.target.id
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    return fields | {"name", "resume", "stop_after", "help", "version"}  # read by hand


def fields(file: Path, name: str) -> set[str]:
    """The fields of a dataclass of a file, with those of its bases in the same file."""
    classes = {node.name: node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)}
    if name not in classes:
        return set()
    own = {getattr(node.target, "id", "") for node in classes[name].body if isinstance(node, ast.AnnAssign)}
    return own.union(*(fields(file, getattr(base, "id", "")) for base in classes[name].bases))


def module_file(module: str) -> Path:
    stem = ROOT / "src" / Path(*module.split("."))
    return stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")


@cache
def defined(file: Path) -> set[str]:
    """The functions, classes and methods of a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, kinds)}


@cache
def identifiers(file: Path) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", file.read_text())) | set(file.relative_to(ROOT).with_suffix("").parts)


@cache
def known_elsewhere() -> set[str]:
    """Names of libraries, and of files of the repository."""
    folders = (SOURCE, ROOT / "tests", ROOT / "integrations")
    files = (
        *(file for folder in folders for file in folder.rglob("*")),
        *(ROOT / "benchmarks").iterdir(),
        *ROOT.iterdir(),
    )
    libraries = {"sl", "add_adapter", "block_level", "align_origin"}
    return libraries | {part for file in files for part in re.split(r"\W", file.name)}
