"""The packages of sightline import only earlier ones, in the order that CONTRIBUTING.md states.

Imports are read from the source with `ast`, so that those inside functions and under TYPE_CHECKING count as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sightline

ROOT = Path(__file__).parents[1]
SOURCE = Path(sightline.__file__).parent
BASE = "base modules"  # the modules directly below sightline, such as errors and files
ALLOWED = {("sightline.cameras.trajectory", "sightline.figures")}  # Trajectory.plot, a wrapper that users expect there


def package_order() -> list[str]:
    """The packages as the list in CONTRIBUTING.md orders them, after the base modules."""
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    match = re.search(r"only (?:to|towards) (?:the )?earlier (?:ones|packages): (.*?)\.(?: |$)", text)
    assert match, "CONTRIBUTING.md: expected the package order after 'imports point only to earlier packages: '."
    return [BASE, *re.findall(r"`(\w+)`", match[1])]


def violations(source: Path, order: list[str]) -> list[str]:
    """One sentence for each import of a later package, naming the file, the line and both packages."""
    modules = {module_name(source, file): file for file in sorted(source.rglob("*.py"))}
    exports = {name: target for target, name in _exports(modules["sightline"])}
    sentences = []
    for module, file in modules.items():
        if module in ("sightline", "sightline.__main__"):
            continue  # the public surface, which names everything
        package = package_of(module, modules)
        if package not in order:
            sentences.append(f"{file}: the package {package} is not in the list of CONTRIBUTING.md.")
            continue
        for line, target in imported_modules(module, file, modules, exports):
            imported = package_of(target, modules)
            if (module, target) in ALLOWED:
                continue
            if imported not in order or order.index(imported) > order.index(package):
                sentences.append(f"{file}:{line}: {package} imports {target} of the later package {imported}.")
    return sentences


def module_name(source: Path, file: Path) -> str:
    parts = ("sightline", *file.relative_to(source).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(module: str, modules: dict[str, Path]) -> str:
    """The name below sightline where that is a package, and BASE where it is a single module."""
    top = module.split(".")[1]
    file = modules.get(f"sightline.{top}")
    return BASE if file is not None and file.name != "__init__.py" else top


def imported_modules(
    module: str, file: Path, modules: dict[str, Path], exports: dict[str, str]
) -> Iterator[tuple[int, str]]:
    """The line and the name of each module below sightline that a file imports, or uses as `sightline.name`."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    roots = _names_of_the_root(tree)
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(node, module, is_package=file.name == "__init__.py")
            for alias in node.names:
                submodule = f"{origin}.{alias.name}"
                if submodule not in modules and origin == "sightline":
                    names.append(
                        exports.get(alias.name, origin)
                    )  # a public name is defined where the root imports it from
                else:
                    names.append(submodule if submodule in modules else origin)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in roots:
            submodule = f"sightline.{node.attr}"
            names = [submodule if submodule in modules else exports.get(node.attr, "sightline")]
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__") and node.args:
            names = _literal(node)
        for name in names:
            if name.startswith("sightline."):
                yield node.lineno, name


def _names_of_the_root(tree: ast.Module) -> set[str]:
    """What `import sightline` and `import sightline as sl` bind."""
    aliases = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return {alias.asname or alias.name for alias in aliases if alias.name == "sightline"}


def _exports(root: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(root.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield (f"sightline.{alias.name}" if node.module == "sightline" else node.module), alias.name


def _origin(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    parts = parts[: len(parts) - node.level + is_package]
    return ".".join([*parts, node.module] if node.module else parts)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _literal(node: ast.Call) -> list[str]:
    first = node.args[0]
    return [first.value] if isinstance(first, ast.Constant) and isinstance(first.value, str) else []


def test_packages_import_only_earlier_ones():
    order = package_order()
    assert len(set(order)) == len(order), "CONTRIBUTING.md: expected each package once in the list."
    assert not (sentences := violations(SOURCE, order)), "\n".join(sentences)


@pytest.mark.parametrize(
    "line",
    [
        "import sightline.late.thing",
        "from sightline.late import thing",
        "from sightline.late.thing import name",
        "from sightline import late",
        "from sightline import public_name",
        "from ..late import thing",
        "from .. import late",
        "def function():\n    from sightline.late.thing import name",
        "if TYPE_CHECKING:\n    from sightline.late import thing",
        "import importlib\nimportlib.import_module('sightline.late.thing')",
        "def function():\n    import sightline\n    return sightline.late.thing",
        "import sightline as sl\nsl.public_name()",
    ],
)
def test_a_planted_import_of_a_later_package_is_reported(tmp_path, line):
    for file, text in {
        "__init__.py": "if TYPE_CHECKING:\n    from sightline.late.thing import public_name\n",
        "errors.py": "",
        "early/__init__.py": "",
        "early/clean.py": "import sightline\nfrom sightline import errors\nfrom . import planted\n",
        "early/planted.py": f"from sightline.errors import SightlineError\n{line}\n",
        "late/__init__.py": "",
        "late/thing.py": "from sightline.early import planted\n",
    }.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    (sentence,) = violations(tmp_path, [BASE, "early", "late"])
    number = len(line.splitlines()) + 1
    assert sentence.startswith(f"{tmp_path / 'early/planted.py'}:{number}: early imports sightline.late")
    assert sentence.endswith("of the later package late.")


def test_a_base_module_imports_no_package(tmp_path):
    (tmp_path / "early").mkdir()
    (tmp_path / "early/__init__.py").write_text("")
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "errors.py").write_text("from sightline.early import thing\n")
    (sentence,) = violations(tmp_path, [BASE, "early"])
    assert "errors.py:1" in sentence and sentence.endswith(
        "base modules imports sightline.early of the later package early."
    )
