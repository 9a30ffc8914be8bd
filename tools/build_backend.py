"""How pip builds the package: fetches MuJoCo's library, which is linked with, then leaves it to maturin."""

import pathlib
import subprocess

import maturin
from maturin import get_requires_for_build_editable, get_requires_for_build_sdist, get_requires_for_build_wheel
from maturin import build_sdist, prepare_metadata_for_build_editable, prepare_metadata_for_build_wheel

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def fetch_mujoco():
    subprocess.run([str(pathlib.Path(__file__).parent / "fetch-mujoco")], check=True)


def build_wheel(*arguments, **keywords):
    fetch_mujoco()
    return maturin.build_wheel(*arguments, **keywords)


def build_editable(*arguments, **keywords):
    fetch_mujoco()
    return maturin.build_editable(*arguments, **keywords)
