"""`ncp-control doctor`: what is installed, what can run, and how to fix what cannot."""

import json

import pytest

import ncp_control as nc
from helpers.command_line import ROOT, printed
from ncp_control.cli import main
from ncp_control.cli.packages import PACKAGES, package_of


def test_doctor_reports_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(printed(capsys, "doctor", "--json"))
    assert report["ok"] is True
    assert report["ncp_control"] == nc.__version__
    packages = {package["name"]: package for package in report["packages"]}
    import numpy
    import torch

    assert packages["numpy"]["version"] == numpy.__version__
    assert packages["torch"]["required"] is True
    assert packages["torch"]["problem"] == ""
    assert report["threads"]["torch"] == torch.get_num_threads()
    assert bool(report["cuda"]["devices"]) == torch.cuda.is_available()
    assert report["backends"]["reference"]["ok"] is True
    assert all(backend["reason"] for backend in report["backends"].values())


def test_doctor_in_words(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    text = printed(capsys, "doctor")
    for word in ("torch", "safetensors", "reference", "MUJOCO_GL", "osmesa", "GPU"):
        assert word in text


def test_doctor_says_how_to_get_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ncp_control.cli import doctor

    find = doctor.find_spec
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "sb3_contrib" else find(name))
    monkeypatch.setenv("COLUMNS", "200")
    assert 'pip install "ncp-control[rl]"' in printed(capsys, "doctor")
    report = json.loads(printed(capsys, "doctor", "--json"))
    (missing,) = [package for package in report["packages"] if package["name"] == "sb3-contrib"]
    assert (missing["version"], missing["problem"]) == (None, "not installed")


def test_doctor_fails_when_the_core_is_incomplete(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ncp_control.cli import doctor

    find = doctor.find_spec
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "torchdiffeq" else find(name))
    assert main(["doctor", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    (missing,) = [package for package in report["packages"] if package["name"] == "torchdiffeq"]
    assert missing["fix"] == "pip install ncp-control"
    assert main(["doctor"]) == 1
    assert "does not work" in capsys.readouterr().out


def test_the_doctors_packages_are_the_extras_of_the_project() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no reader of TOML")
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {None: project["dependencies"], **project["optional-dependencies"]}
    declared = {
        (requirement.name, extra)
        for extra, lines in groups.items()
        if extra not in ("all", "dev", "docs")
        for requirement in map(Requirement, lines)
        if requirement.name != project["name"]
    }
    known = {(package.distribution, package.extra) for package in PACKAGES}
    assert declared <= known
    assert known - declared == {("mujoco", "envs"), ("h5py", "data")}  # the extras of gymnasium and minari


def test_a_module_is_traced_to_its_package() -> None:
    package = package_of("stable_baselines3.common.env_util")
    assert package is not None
    assert package.fix == 'pip install "ncp-control[rl]"'
    assert package_of("somebody_elses") is None
