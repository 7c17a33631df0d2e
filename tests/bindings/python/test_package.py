# SPDX-License-Identifier: GPL-2.0
"""The packages that pip gets, a wheel and a source distribution, contain both license texts."""
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parents[2] / "userspace" / "bindings" / "python"
LICENSES = {name: (HERE.parents[2] / "LICENSES" / name).read_bytes()
            for name in ("LGPL-2.1-or-later.txt", "MIT.txt")}


@pytest.fixture(scope="module", name="built")
def fixture_built(tmp_path_factory):
    """Return: a directory with a wheel and a source distribution."""
    directory = tmp_path_factory.mktemp("built")
    # The texts are links to the top of the tree.
    source = directory / "userspace" / "bindings" / "python"
    shutil.copytree(PACKAGE, source, symlinks=True)
    shutil.copytree(PACKAGE.parents[2] / "LICENSES", directory / "LICENSES")
    code = ("from setuptools import build_meta as b; import sys; to = sys.argv[1]; "
            "b.build_wheel(to); b.build_sdist(to)")
    subprocess.run([sys.executable, "-c", code, directory], cwd=source, check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": ""})
    return directory


def test_wheel_has_licenses(built):
    """They are in the directory of its metadata."""
    [path] = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        for name, text in LICENSES.items():
            [member] = [m for m in archive.namelist() if m.endswith("/" + name)]
            assert ".dist-info/" in member
            assert archive.read(member) == text


def test_sdist_has_licenses(built):
    """They are files, not dangling links."""
    [path] = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        for name, text in LICENSES.items():
            [member] = [m for m in archive.getmembers() if m.name.endswith("/" + name)]
            assert member.isfile()
            assert archive.extractfile(member).read() == text
