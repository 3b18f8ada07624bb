"""The registry of encodings by name, and how to add one from outside the package.

    from dataclasses import dataclass
    from typing import ClassVar
    import sightline as sl

    @sl.encodings.register
    @dataclass(frozen=True)
    class MyEncoding(sl.encodings.Encoding):
        name: ClassVar[str] = "my_encoding"
        width: int = 16                                    # the settings, with defaults

        def layer(self, dim, heads):
            return MyLayer(self, dim, heads)               # an sl.encodings.EncodingLayer

A registered name works in `model.encoding` of a recipe, in `from_pretrained` and in camera weights, and thus in generation
and evaluation, and as a method of the bench. `protocol.py` describes the two base classes; examples/06_add_an_encoding.py is
a complete encoding.

A process knows an encoding of another package only after its module was imported. Weights name their encoding but never the
code to run, so a new process finds that code in one of two ways, whichever suits:

- an installed package declares an entry point, and nothing else is needed:
      [project.entry-points."sightline.encodings"]
      my_encoding = "my_package.my_encoding:MyEncoding"
- the environment variable SIGHTLINE_PLUGINS names modules, or .py files, to import; a comma separates several:
      SIGHTLINE_PLUGINS=my_package.my_encoding sightline train my_recipe.yaml

Both are read when a name is looked up that is not registered yet.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

import torch

from sightline.encodings.protocol import Encoding
from sightline.errors import SightlineError

ENTRY_POINT_GROUP = "sightline.encodings"
PLUGINS_VARIABLE = "SIGHTLINE_PLUGINS"

_registered: dict[str, type[Encoding]] = {}
_loaded_plugins: set[str] = set()

AnyEncoding = TypeVar("AnyEncoding", bound=type[Encoding])


def register(encoding: AnyEncoding) -> AnyEncoding:
    """Make an encoding available by its name. Returns the class, so that it works as a decorator.

    encoding: a subclass of `Encoding`, a dataclass with the class variable `name`. Registering the same class again does
    nothing; another class with a registered name is refused.
    """
    if not (isinstance(encoding, type) and issubclass(encoding, Encoding)):
        raise SightlineError(f"encoding is {encoding!r}: expected a subclass of sightline.encodings.Encoding.")
    name = getattr(encoding, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise SightlineError(
            f"encoding {encoding.__qualname__} has the name {name!r}: expected letters, digits and underscores, set as the "
            "class variable `name`."
        )
    if "__dataclass_fields__" not in vars(encoding):  # inherited fields alone would lose the class's own settings
        raise SightlineError(
            f"encoding {name!r} is no dataclass: expected @dataclass(frozen=True) on {encoding.__qualname__}."
        )
    taken = _registered.setdefault(name, encoding)
    if taken is not encoding:
        raise SightlineError(
            f"encoding name {name!r} is taken by {taken.__module__}.{taken.__qualname__}: expected another name for "
            f"{encoding.__module__}.{encoding.__qualname__}."
        )
    return encoding


def encoding_names() -> list[str]:
    """The names of all encodings, those of plugins included, sorted."""
    _load_plugins()
    return sorted(_registered)


def get_encoding(name: Any) -> type[Encoding]:
    """The encoding of this name. An unknown name is refused with those that are known."""
    if isinstance(name, str) and name not in _registered:
        _load_plugins()
    if not isinstance(name, str) or name not in _registered:
        raise SightlineError(
            f"encoding name is {name!r}: expected one of {sorted(_registered)}, or one that a module in {PLUGINS_VARIABLE} "
            "or an installed package registers (see sightline.encodings.register)."
        )
    return _registered[name]


def encoding_from_config(config: dict[str, Any]) -> Encoding:
    """The encoding that a config names, e.g. {"name": "scope", "gate_hidden": 16}; omitted settings take their default."""
    if not isinstance(config, dict):
        raise SightlineError(f"encoding is {config!r}: expected settings such as {{'name': 'scope'}}.")
    return get_encoding(config.get("name")).from_config(config)


def _load_plugins() -> None:
    """Import the modules of SIGHTLINE_PLUGINS and the entry points that were not imported yet."""
    for plugin in os.environ.get(PLUGINS_VARIABLE, "").split(","):
        if (plugin := plugin.strip()) and plugin not in _loaded_plugins:
            try:
                _import_plugin(plugin)
            except SightlineError:
                raise
            except Exception as error:
                raise SightlineError(
                    f"{PLUGINS_VARIABLE} names {plugin!r}, which cannot be imported ({type(error).__name__}: {error}): "
                    "expected importable modules or .py files, separated by commas."
                ) from error
            _loaded_plugins.add(plugin)
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.value not in _loaded_plugins:
            try:
                target = point.load()
            except SightlineError:
                raise
            except Exception as error:
                raise SightlineError(
                    f"the entry point {point.name} = {point.value!r} of {ENTRY_POINT_GROUP} cannot be loaded "
                    f"({type(error).__name__}: {error}): expected module:Class, or a module that registers encodings."
                ) from error
            if isinstance(target, type):
                register(target)
            _loaded_plugins.add(point.value)


def _import_plugin(plugin: str) -> None:
    if not plugin.endswith(".py"):
        importlib.import_module(plugin)
        return
    path = Path(plugin).resolve()
    spec = importlib.util.spec_from_file_location(f"sightline_plugin_{path.stem}", path)
    assert spec is not None and spec.loader is not None  # as for every name that ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module by name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise


def has_parameters(config: dict[str, Any] | None) -> bool:
    """Whether the encoding of a config adds parameters to a layer. One that no such layer can have is taken to."""
    if config is None:
        return False
    try:
        with torch.device("meta"):
            layer = encoding_from_config(config).layer(40 * 128, 40)  # as large as those of Wan2.2 A14B
    except SightlineError:
        return True
    return any(True for _ in layer.parameters())
