"""Values from every door go through one conversion; settings survive every way of writing them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deqcli import study as studies
from deqcli.cli.studies import StudyCommand
from deqcli.errors import InputError
from deqcli.reproduction import presets
from deqcli.settings import (
    Settings,
    check_keys,
    options,
    setting,
    split_activations,
    with_default,
)
from deqcli.settings_files import read_document
from deqcli.vocabulary import Kernel


@dataclass(frozen=True, kw_only=True)
class Example(Settings):
    """A field of every kind."""

    flag: bool = setting(False, "Yes or no.")
    count: int = setting(2, "A number of things.", least=1, most=9)
    any_count: int = setting(2, "A number of things without bounds.")
    size: float = setting(0.5, "A size.", above=0, below=1)
    closed: float = setting(0.5, "A size with its ends.", least=0, most=1)
    text: str = setting("a", "A text.")
    chosen: str = setting("gd", "A choice.", choices=("gd", "ode"))
    kernel: Kernel = setting(Kernel.CK, "A kernel.")
    several: tuple[int, ...] = setting((1, 2), "Several.", least=1)
    kernels: tuple[Kernel, ...] = setting((Kernel.CK,), "Several kernels.")
    maybe: int | None = setting(None, "Open.")
    maybe_several: tuple[str, ...] | None = setting(None, "Several or none.")
    acts: tuple[str, ...] = setting(("relu",), "Activations.", split=split_activations)
    derived: float = setting(None, "Rest.", above=0, derive=lambda example: 1 - example.closed)
    folder: str | None = setting(None, "Where.", identity=False, environment="EXAMPLE_FOLDER")

    def unused(self) -> tuple[str, ...]:
        return () if self.flag else ("any_count",)


def converted(name: str, value: Any) -> Any:
    (option,) = (option for option in options(Example) if option.name == name)
    return option.convert(value)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("flag", True, True),
        ("flag", "true", True),
        ("flag", "False", False),
        ("flag", "0", False),
        ("count", 1, 1),
        ("count", 9, 9),
        ("count", "3", 3),
        ("count", np.int64(4), 4),
        ("any_count", 2**63 - 1, 2**63 - 1),
        ("any_count", -(2**63) + 1, -(2**63) + 1),
        ("size", "1e-3", 0.001),
        ("size", np.float32(0.5), 0.5),
        ("closed", 0, 0.0),
        ("closed", "1", 1.0),
        ("text", 3, "3"),
        ("text", "a b,c", "a b,c"),
        ("chosen", "ode", "ode"),
        ("kernel", "preactivation_ck", Kernel.PREACTIVATION_CK),
        ("kernel", Kernel.NTK, Kernel.NTK),
        ("several", "1, 2,", (1, 2)),
        ("several", [1, "2"], (1, 2)),
        ("several", 3, (3,)),
        # Numbers and names from a closed list make the same run in any order.
        ("several", np.array([3, 1]), (1, 3)),
        ("kernels", "ntk,preactivation-ck", (Kernel.PREACTIVATION_CK, Kernel.NTK)),
        ("maybe_several", "b,a", ("b", "a")),
        ("maybe", None, None),
        ("maybe", "7", 7),
        ("maybe_several", None, None),
        ("maybe_several", "6,8", ("6", "8")),
        ("maybe_several", 6, ("6",)),
        ("acts", "htanh:a=1,c=2,relu", ("htanh:a=1,c=2", "relu")),
        ("acts", ["htanh:a=1,c=2"], ("htanh:a=1,c=2",)),
        ("derived", None, None),
        ("derived", 2, 2.0),
    ],
)
def test_values_become_the_type_of_their_field(name, value, expected):
    result = converted(name, value)
    assert result == expected
    parts = (
        zip(result, expected, strict=True) if isinstance(expected, tuple) else ((result, expected),)
    )
    assert all(type(part) is type(other) for part, other in parts)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("flag", "yes", "give true or false"),
        ("flag", 1, "give true or false"),
        ("flag", None, "give true or false"),
        ("count", 0, "give a whole number at least 1 and at most 9"),
        ("count", 10, "give a whole number at least 1 and at most 9"),
        ("count", True, "give a whole number"),
        ("count", 3.0, "give a whole number"),
        ("count", "3.0", "give a whole number"),
        ("count", math.nan, "give a whole number"),
        ("count", [3], "give a whole number"),
        ("count", None, "give a whole number"),
        ("any_count", 10**30, "give a whole number"),
        ("any_count", str(10**30), "give a whole number"),
        ("any_count", 2**63, "give a whole number"),
        ("any_count", math.inf, "give a whole number"),
        ("any_count", "9" * 5000, "give a whole number"),
        ("size", 0, "give a finite number above 0 and below 1"),
        ("size", 1, "give a finite number above 0 and below 1"),
        ("size", math.nan, "give a finite number"),
        ("size", "nan", "give a finite number"),
        ("size", "-inf", "give a finite number"),
        ("size", True, "give a finite number"),
        ("size", 10**400, "give a finite number"),
        ("size", 1j, "give a finite number"),
        ("closed", -5e-324, "give a finite number at least 0 and at most 1"),
        ("closed", np.nextafter(1, 2), "give a finite number at least 0 and at most 1"),
        ("text", "a\0b", "give a text"),
        ("text", True, "give a text"),
        ("text", 1.5, "give a text"),
        ("text", None, "give a text"),
        ("chosen", "odd", "did you mean ode?"),
        ("kernel", "nkt", "did you mean ntk?"),
        ("kernel", 3, "choose from ck, preactivation-ck"),
        ("kernel", None, "choose from ck, preactivation-ck"),
        ("several", "", "give at least one value"),
        ("several", [], "give at least one value"),
        ("several", "1,0", "give a whole number at least 1"),
        ("several", {1, 2}, "give a whole number"),
        ("several", {"a": 1}, "give a whole number"),
        ("several", b"12", "give a whole number"),
        ("several", None, "give a whole number"),
        ("kernels", "ck,nkt", "did you mean ntk?"),
        ("maybe", "", "give a whole number"),
        ("maybe", "None", "give a whole number"),
        ("maybe_several", "", "give at least one value"),
        ("derived", 0, "give a finite number above 0"),
    ],
)
def test_wrong_values_are_one_sentence_with_name_value_and_remedy(name, value, wanted):
    with pytest.raises(InputError) as caught:
        converted(name, value)
    message = str(caught.value)
    assert message.startswith(f"`{name}` is ")
    assert wanted in message
    assert "\n" not in message
    with pytest.raises(InputError):
        Example(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("several", "3,1,3", "3"),
        ("several", [1, "1"], "1"),
        ("kernels", "preactivation-ck,preactivation_ck", "preactivation-ck"),
        ("maybe_several", ("a", "a"), "a"),
    ],
)
def test_a_value_given_twice_is_refused(name, value, part):
    with pytest.raises(InputError, match=f"`{name}` has {part} twice; give each value once."):
        converted(name, value)


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(),
                 st.lists(st.text()), st.dictionaries(st.text(), st.integers())))  # fmt: skip
def test_no_value_gets_by_the_conversion(value):
    """Whatever is given, a field holds its type or it is refused; converting twice is once."""
    for option in options(Example):
        try:
            result = option.convert(value)
        except InputError:
            continue
        assert option.convert(result) == result
        parts = result if option.many and result is not None else (result,)
        assert all(part is None or isinstance(part, option.kind) for part in parts)


def test_derived_fields_follow_the_others_and_given_ones_stay():
    assert Example(closed=0.25).derived == 0.75
    assert Example(closed=0.25, derived=3).derived == 3.0


def test_the_identity_is_what_decides_the_numbers():
    example = Example(folder="/data", any_count=7)
    identity = example.identity()
    assert not {"folder", "any_count", "maybe", "maybe_several"} & identity.keys()
    assert Example(flag=True, any_count=7).identity()["any_count"] == 7
    assert identity == Example(derived=0.5).identity() == Example().identity()
    assert identity != Example(derived=0.6).identity()
    assert json.loads(json.dumps(identity)) == identity
    assert identity["several"] == [1, 2]


def test_arguments_leave_out_defaults_and_what_does_not_matter():
    assert Example().arguments() == []
    assert Example(folder="/data", any_count=7).arguments() == []
    assert Example(closed=0.25).arguments() == ["--closed", "0.25"]
    # 0.5 is what the default would be, but not what follows from closed.
    assert Example(closed=0.25, derived=0.5).arguments() == ["--closed", "0.25", "--derived", "0.5"]
    many = Example(flag=True, any_count=7, kernels="ntk,ck", acts="htanh:a=1,c=2,relu")
    assert many.arguments() == [
        *("--flag", "--any-count", "7"),
        *("--kernels", "ck,ntk", "--acts", "htanh:a=1,c=2,relu"),
    ]


def test_unknown_keys_are_named_with_the_nearest_one():
    assert Example.load({"any-count": 3, "kernel": "ntk"}) == Example(any_count=3, kernel="ntk")
    with pytest.raises(InputError, match=r"^here: unknown key 'kernal'; did you mean kernel\?$"):
        Example.load({"kernal": "ck"}, "here")
    with pytest.raises(InputError, match="unknown key '3'; choose from acts, any-count"):
        Example.load({3: 4})
    with pytest.raises(InputError, match="'any-count' is there with hyphens and with underscores"):
        check_keys(Example, {"any-count": 3, "any_count": 4})


def test_a_field_of_another_class_may_have_another_default():
    @dataclass(frozen=True, kw_only=True)
    class Other(Settings):
        count: int = with_default(Example, "count", 5)

    assert Other().count == 5
    with pytest.raises(InputError, match="at most 9"):
        Other(count=10)


# What can be written can be read: for every study and every preset, settings go through the
# command line, TOML and JSON and come back.

CASES = {
    "spectrum": [
        {},
        {"sigma_a2": 0.2, "sigma_b2": 0.9},
        {"act": "htanh:a=1,c=2", "kernel": "ntk", "estimator": "exact", "save_kernels": True},
        {"data": "mnist", "classes": "6,8", "n": 600, "estimator": ["exact"]},
        {"form": "own_norm", "components": 3},
        {"form": ["papers"], "data": "sphere"},
        {"data": "gmm", "classes": 3, "covariance": "toeplitz:0.25", "mean_norm": 1e-17, "n": 7},
        {"realizations": 3, "width": 7, "weights": "student_t", "tolerance": 1e-5, "seed": 2**40},
    ],
    "error-vs-n": [
        {},
        {"act": ["htanh:a=1,c=2", "relu"], "n": (8, 16), "sigma_b2": 0.5, "trials": 1},
        {"data": "sphere", "ratio": 1 / 3, "estimator": "monte-carlo"},
    ],
    "visible": [
        {},
        {"act": "relu", "ratio": "0.5,2", "mean_norm": (1, 2.5), "n": 64, "kernel": "ntk"},
    ],
    "predict": [
        {},
        {"against": "n", "values": "50,100", "width": 30, "kernel": "ntk", "bias": True},
        {"against": "mean-norm", "classes": 4, "nets": "deq", "covariance": "identity"},
        {"against": "sigma-a2", "values": (0.05, 0.2), "act": "tanh", "twin": "data"},
    ],
    "match": [
        {},
        {"tau0": 1, "export": "torch"},
        {"data": "sphere", "kernel": "preactivation-ck", "act": "nrelu", "layers": "1"},
        {"family": "htanh", "layers": 2, "sigma_a2": 0.1, "sigma_b2": 0.8},
    ],
    "accuracy": [
        {},
        {"data": "gmm", "p": 50, "train_size": 0, "test_size": 9, "nets": "plain,deq"},
        {"limit": "none", "scale": "own", "match": "ntk", "train": "readout", "widths": [64, 32]},
    ],
    "flow": [
        {},
        {"data": "mnist", "classes": ["0", "1"], "preprocess": "raw", "method": "ode"},
        {"data": "sphere", "widths": 3, "step": 0.1, "gamma0": 0.25, "init": "half-normal"},
    ],
    "errata": [{}, {"n": [16, 32], "trials": 1, "seed": 4}],
}  # fmt: skip


def written() -> list[Any]:
    """Return a study and its settings for each case and each preset."""
    cases = [
        pytest.param(name, studies.get(name).settings.load(values), id=f"{name} {values}")
        for name, several in CASES.items()
        for values in several
    ]
    for name in presets.names():
        preset = presets.load(name)
        cases.append(pytest.param(preset.study.name, preset.settings, id=name))
    return cases


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv("DEQCLI_DATA_DIR", raising=False)


def parsed(name: str, words: list[str]) -> Settings:
    """Return the settings that the command line makes of its words."""
    study = studies.get(name)
    known = {option.name for option in options(study.settings)}
    params = StudyCommand(study).make_context(name, list(words)).params
    return study.settings(**{key: value for key, value in params.items() if key in known})


def test_every_study_has_its_cases():
    assert set(CASES) == set(studies.names())


@pytest.mark.parametrize(("name", "settings"), written())
def test_the_command_line_gives_back_the_same_settings(name, settings):
    again = parsed(name, settings.arguments())
    unused = set(settings.unused())
    for option in options(type(settings)):
        if option.name not in unused:
            assert getattr(again, option.name) == getattr(settings, option.name), option.name
    assert again.identity() == settings.identity()
    assert again.arguments() == settings.arguments()


@pytest.mark.parametrize(("name", "settings"), written())
def test_files_give_back_the_same_settings(name, settings, tmp_path):
    identity = settings.identity()
    toml = tmp_path / "mine.toml"
    # A JSON value without null and objects is a TOML value.
    lines = [f"{key.replace('_', '-')} = {json.dumps(value)}" for key, value in identity.items()]
    toml.write_text("\n".join([f'study = "{name}"', *lines]))
    record = tmp_path / "record.json"
    record.write_text(json.dumps({"study": name, "settings": identity, "findings": {"n": 1}}))
    for path in (toml, record):
        document = read_document(path)
        assert (document.study, document.figure) == (name, {})
        assert type(settings).load(document.values).identity() == identity
        assert parsed(name, ["--config", str(path)]).identity() == identity


def test_given_options_win_over_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('study = "spectrum"\nact = "relu"\nsigma-a2 = 0.2\n')
    settings = parsed("spectrum", ["--config", str(path), "--act", "arctan"])
    assert (settings.act, settings.sigma_a2) == ("arctan", 0.2)
    with pytest.raises(InputError, match="is for deqcli spectrum, not deqcli match"):
        parsed("match", ["--config", str(path)])
    path.write_text("sigma-a = 0.2\n")
    with pytest.raises(InputError, match=r"mine\.toml: unknown key 'sigma-a'; did you mean sigma-"):
        parsed("spectrum", ["--config", str(path)])
    path.write_text("n = nan\n")
    with pytest.raises(InputError, match="--n is nan; give a whole number at least 2"):
        parsed("spectrum", ["--config", str(path)])


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("a.json", b"null", "it has no keys"),
        ("a.json", b"[1, 2]", "it has no keys"),
        ("a.json", b'"abc"', "it has no keys"),
        ("a.json", b"", "Expecting value"),
        ("a.json", b'{"options": [1, 2]}', "it has no settings"),
        ("a.json", b"{}", "it has no settings"),
        ("a.json", b'{"settings": [1, 2]}', "give a table of keys and values"),
        ("a.json", b'{"study": 3, "settings": {}}', "give the name of a study"),
        ("a.json", b"[" * 100_000, "nested too deeply"),
        ("a.json", b'{"settings": {"n": %s}}' % (b"9" * 5000), "is no settings file"),
        ("a.json", b"\x89PNG\r\n\x1a\n\0\xff", "is no settings file"),
        ("a.toml", b"\x89PNG\r\n\x1a\n\0\xff", "is no settings file"),
        ("a.toml", 'name = "é"'.encode("latin-1"), "is no settings file"),
        ("a.toml", b"n = ", "is no settings file"),
        ("a.toml", b"n = 1\nn = 2", "is no settings file"),
        ("a.toml", b"n = " + b"[" * 100_000, "nested too deeply"),
        ("a.toml", b"figure = 3", "give a table of keys and values"),
        ("a.toml", b"study = [1]", "give the name of a study"),
    ],
)  # fmt: skip
def test_a_bad_file_is_a_sentence(tmp_path, name, content, wanted):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_document(path)
    message = str(caught.value)
    assert str(path) in message
    assert wanted in message
    assert "\n" not in message
    assert message.endswith(".")


def test_a_device_that_never_ends_is_a_sentence():
    with pytest.raises(InputError, match="/dev/zero is no settings file: it is longer than"):
        read_document(Path("/dev/zero"))


def test_a_missing_file_and_a_folder_are_sentences(tmp_path):
    for path in (tmp_path / "absent.toml", tmp_path):
        with pytest.raises(InputError, match="cannot be read: "):
            read_document(path)


def test_a_preset_keeps_the_texts_of_its_figure_apart(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('study = "flow"\nn = 20\n[figure]\ntitle = "Figure 1"\n')
    document = read_document(path)
    assert (document.study, document.values) == ("flow", {"n": 20})
    assert document.figure == {"title": "Figure 1"}
