"""Encodings from outside the package: registered by hand, by SIGHTLINE_PLUGINS or by an entry point, and used by name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import sightline as sl
from sightline.backbones.tiny import tiny_transformer
from sightline.bench.models import Setting, call_arguments, random_base, variant
from sightline.encodings import (
    ENCODINGS,
    Encoding,
    EncodingLayer,
    encoding_from_config,
    encoding_names,
    get_encoding,
    registry,
)
from sightline.errors import SightlineError
from sightline.training.overrides import override_encoding
from tests.processes import call_in_process

EXAMPLE = Path(__file__).parents[2] / "examples" / "06_add_an_encoding.py"


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """Each test registers into a copy."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    monkeypatch.setattr(registry, "_loaded_plugins", set(registry._loaded_plugins))
    monkeypatch.delenv(registry.PLUGINS_VARIABLE, raising=False)


class Nothing(EncodingLayer):
    """Adds a parameter and changes no stage."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.add_parameter("unused", size)
        self.reset_parameters()

    def init_weights(self) -> None:
        torch.nn.init.ones_(self._parameters["unused"])


def an_encoding(encoding_name: Any = "nothing") -> type[Encoding]:
    @dataclass(frozen=True)
    class Own(Encoding):
        name: ClassVar[str] = encoding_name
        size: int = 3

        def layer(self, dim: int, heads: int) -> EncodingLayer:
            return Nothing(self.size)

    return Own


def test_a_registered_name_is_known_and_its_settings_travel():
    own = sl.encodings.register(an_encoding())
    assert get_encoding("nothing") is own and "nothing" in encoding_names()
    assert set(encoding_names()) == {*ENCODINGS, "nothing"}
    assert encoding_from_config({"name": "nothing", "size": 5}) == own(size=5)  # type: ignore[call-arg]
    assert sl.encodings.register(own) is own  # again is no error


def test_what_cannot_be_registered_is_refused():
    for encoding in (EncodingLayer, an_encoding()(), "scope", None):
        with pytest.raises(SightlineError, match=r"expected a subclass of sightline\.encodings\.Encoding"):
            sl.encodings.register(encoding)  # type: ignore[type-var]
    for name in ("", "two words", None, 3):
        with pytest.raises(SightlineError, match="expected letters, digits and underscores"):
            sl.encodings.register(an_encoding(name))
    with pytest.raises(SightlineError, match=r"'scope' is taken by sightline\.encodings\.scope\.Scope"):
        sl.encodings.register(an_encoding("scope"))
    sl.encodings.register(an_encoding())
    with pytest.raises(SightlineError, match="'nothing' is taken by"):
        sl.encodings.register(an_encoding())

    class Plain(an_encoding("plain")):  # type: ignore[misc]
        pass

    with pytest.raises(SightlineError, match=r"expected @dataclass\(frozen=True\) on"):
        sl.encodings.register(Plain)


def test_an_unknown_name_lists_the_known_ones_and_says_how_to_register():
    with pytest.raises(SightlineError, match=r"'nope': expected one of \['cameractrl'.*SIGHTLINE_PLUGINS.*register"):
        get_encoding("nope")


def test_plugins_are_modules_or_files(tmp_path, monkeypatch):
    monkeypatch.setenv(registry.PLUGINS_VARIABLE, f" {EXAMPLE} ,")
    assert get_encoding("ray_input").__name__ == "RayInput"
    assert get_encoding("ray_input") is get_encoding("ray_input")  # imported once
    (tmp_path / "module_of_a_plugin.py").write_text(EXAMPLE.read_text().replace('"ray_input"', '"ray_module"'))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(registry.PLUGINS_VARIABLE, "module_of_a_plugin")
    assert get_encoding("ray_module").__module__ == "module_of_a_plugin"


@pytest.mark.parametrize("plugin", ["no.such.module", "no_such_file.py", "broken.py"])
def test_a_plugin_that_cannot_be_imported_is_named(plugin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text("raise ValueError('broken on purpose')")
    monkeypatch.setenv(registry.PLUGINS_VARIABLE, plugin)
    with pytest.raises(SightlineError, match=f"SIGHTLINE_PLUGINS names '{plugin}', which cannot be imported"):
        get_encoding("nope")
    assert get_encoding("scope") is sl.Scope  # a known name needs no plugin


def installed_package(folder: Path) -> Path:
    """A folder on sys.path as pip leaves it: a module, and metadata with an entry point."""
    metadata = folder / "rays_package-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "rays_package.py").write_text(EXAMPLE.read_text().replace("@sl.encodings.register\n", ""))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: rays-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[sightline.encodings]\nray_input = rays_package:RayInput\n")
    return folder


def test_the_entry_point_of_an_installed_package(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(installed_package(tmp_path)))
    assert get_encoding("ray_input").__module__ == "rays_package"
    (tmp_path / "rays_package-1.0.dist-info" / "entry_points.txt").write_text(
        "[sightline.encodings]\nother = rays_package:Missing\n"
    )
    with pytest.raises(SightlineError, match=r"other = 'rays_package:Missing'.*cannot be loaded"):
        get_encoding("nope")


def test_recipes_and_the_bench_take_a_registered_name(monkeypatch):
    monkeypatch.setenv(registry.PLUGINS_VARIABLE, str(EXAMPLE))
    settings = override_encoding(None, {"name": "ray_input", "scale": "0.25"})
    assert settings == {"name": "ray_input", "scale": 0.25}
    setting = Setting.from_options("5b", tiny=True)
    base = random_base(setting, torch.device("cpu"))
    model = variant(base, "ray_input", "eager", setting)
    arguments = call_arguments(model, setting, torch.device("cpu"), setting.dtype)
    with torch.no_grad():
        assert torch.isfinite(model(**arguments)[0]).all()
    with pytest.raises(SightlineError, match="encoding name is 'nope'"):
        variant(base, "nope", "eager", setting)


def load_both(folder):
    weights = sl.load_camera(tiny_transformer("ti2v-5b"), folder / "camera.safetensors")
    model = sl.CameraWanTransformer3DModel.from_pretrained(folder / "model")
    print(json.dumps([weights.encoding.to_config(), model.encoding.to_config()]))


@pytest.mark.parametrize("how", ["plugin", "entry point", None])
def test_a_new_process_loads_the_weights_of_an_encoding_from_outside(how, tmp_path, monkeypatch):
    monkeypatch.setenv(registry.PLUGINS_VARIABLE, str(EXAMPLE))
    encoding = encoding_from_config({"name": "ray_input", "scale": 0.5})
    model = sl.CameraWanTransformer3DModel.from_transformer(tiny_transformer("ti2v-5b"), encoding)
    sl.save_camera(model, tmp_path / "camera.safetensors")
    model.save_pretrained(tmp_path / "model")
    if how != "plugin":
        monkeypatch.delenv(registry.PLUGINS_VARIABLE)
    path = [str(installed_package(tmp_path / "site"))] if how == "entry point" else []
    ran = call_in_process(load_both, tmp_path, path=path)
    if how is None:
        assert ran.returncode != 0 and "encoding name is 'ray_input': expected one of" in ran.stderr
        return
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == [{"name": "ray_input", "scale": 0.5}] * 2
