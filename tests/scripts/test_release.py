"""What a release promises: a wheel without its kernels, and kernels that compute something else, do not get through."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from ncp_control.ops.cpu import library
from scripts.release import check_installed
from scripts.release.wheels import MACHINES, NEEDED, ROOT, check_contents

pytestmark = pytest.mark.system


def wheel_with(folder: Path, names: list[str]) -> Path:
    path = folder / "some.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


def test_a_wheel_that_lacks_a_level_is_refused(tmp_path: Path) -> None:
    kernels = [library.path_of(level).relative_to(ROOT).as_posix() for level in library.LEVELS]
    kernels += ["ncp_envs/_physics.so"]
    check_contents(wheel_with(tmp_path, [*NEEDED, *kernels]), "x86_64")
    with pytest.raises(SystemExit, match=r"^some\.whl lacks ncp_control/ops/cpu/_kernels_avx512\.so$"):
        check_contents(wheel_with(tmp_path, [*NEEDED, *kernels[1:]]), "x86_64")
    check_contents(wheel_with(tmp_path, [*NEEDED, *kernels[-2:]]), "aarch64")
    with pytest.raises(SystemExit, match="halfcheetah-positions"):
        check_contents(wheel_with(tmp_path, kernels), "aarch64")


def test_every_level_of_the_library_is_in_a_wheel() -> None:
    assert MACHINES["x86_64"] == library.LEVELS


@pytest.mark.parametrize("wrong", [1.001, float("nan")])
def test_kernels_that_compute_something_else_are_found_out(wrong: float) -> None:
    expected = {"states": torch.tensor([[0.5, -2.0]]), "d inputs": torch.tensor([3.0])}
    allowed = check_installed.ALLOWED[torch.float32]
    assert check_installed.difference(expected, expected) == 0
    assert not check_installed.difference(expected | {"d inputs": torch.tensor([3.0 * wrong])}, expected) <= allowed
    with pytest.raises(SystemExit, match="d inputs"):
        check_installed.difference({"states": expected["states"]}, expected)


def test_another_version_than_the_wanted_one_is_refused() -> None:
    program = ROOT / "scripts" / "release" / "check_installed.py"
    command = [sys.executable, program, "--version", "9.9.9"]
    found = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    assert found.returncode == 1
    assert "wanted were version 9.9.9" in found.stderr


def test_its_help_names_every_step() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "scripts.release", "--help"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    for word in ("auditwheel", "twine", "QEMU", "--pythons"):
        assert word in found.stdout
