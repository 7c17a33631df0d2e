# SPDX-License-Identifier: GPL-2.0
"""The declarations for cffi match libtwheel.h. A compiler compares them."""
import os
import re
import subprocess

import pytest

import twheel
from twheel._ffi import CDEF, ffi, lib

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
HEADER = os.path.join(TOP, "userspace/lib/libtwheel.h")
NAME = re.compile(r"\b(twheel_[a-z_]+)\(")


def without_comments(text):
    """Return: C without comments."""
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def structs(cdef):
    """Return: the names of the structs that are not opaque."""
    return re.findall(r"^struct (\w+) \{", cdef, flags=re.MULTILINE)


def program(cdef):
    """Return: C that compiles only if @cdef agrees with the headers."""
    lines = ["#include <libtwheel.h>", "#include <libtwheel/twheel.h>"]
    for name in structs(cdef):
        struct = ffi.typeof("struct " + name)
        lines.append(f"_Static_assert(sizeof(struct {name}) == {ffi.sizeof(struct)}, \"\");")
        for field, of in struct.fields:
            lines.append(f"_Static_assert(offsetof(struct {name}, {field}) == {of.offset} && "
                         f"sizeof(((struct {name} *)0)->{field}) == {ffi.sizeof(of.type)}, "
                         f"\"\");")
    for name in re.findall(r"^#define (\w+)", cdef, flags=re.MULTILINE):
        lines.append(f"_Static_assert({name} == {getattr(lib, name)}, \"\");")
    # A second declaration with another type is an error.
    lines.append(re.sub(r"^struct \w+ \{.*?^\};|^#.*?$", "", cdef,
                        flags=re.DOTALL | re.MULTILINE))
    return "\n".join(lines)


def errors(source):
    """Return: the compiler's output."""
    done = subprocess.run(
        ["gcc", "-std=gnu11", "-fsyntax-only", "-x", "c", "-", "-Wall", "-Werror",
         "-I" + os.path.dirname(HEADER), "-I" + os.path.join(TOP, "include/uapi")],
        input=source, text=True, check=False, stderr=subprocess.PIPE)
    assert done.returncode == 0 or done.stderr
    return done.stderr


def test_agrees():
    assert errors(program(CDEF)) == ""


@pytest.mark.parametrize("right, wrong", [
    ("uint64_t id, uint64_t deadline)", "uint64_t id, uint32_t deadline)"),
    ("int twheel_read(struct", "long twheel_read(struct"),
    ("_wait(struct twheel *wheel, int64_t", "_wait(struct twheel *wheel, uint64_t"),
])
def test_a_wrong_prototype_is_found(right, wrong):
    assert right in CDEF
    assert "conflicting types" in errors(program(CDEF.replace(right, wrong)))


def test_a_wrong_struct_or_number_is_found():
    source = program(CDEF)
    for pattern in (r"sizeof\(struct twheel_stats\) == \d+", r"struct twheel_event, id\) == 0",
                    r"TWHEEL_DRAIN_CANCEL == 2"):
        found = re.search(pattern, source)
        assert found
        wrong = re.sub(r"\d+$", "1", found.group())
        assert "static assertion" in errors(source.replace(found.group(), wrong))


def test_has_every_function():
    with open(HEADER, encoding="ascii") as header:
        theirs = set(NAME.findall(without_comments(header.read())))
    assert len(theirs) > 20
    assert set(NAME.findall(CDEF)) == theirs
    for name in theirs:
        assert getattr(lib, name)


def test_has_every_struct_whole():
    for name in structs(CDEF):
        struct = ffi.typeof("struct " + name)
        assert sum(ffi.sizeof(of.type) for _, of in struct.fields) == ffi.sizeof(struct)


@pytest.mark.parametrize("ours, theirs", [
    (twheel.Info, "info"), (twheel.Stats, "stats"), (twheel.Usage, "usage")])
def test_has_every_field(ours, theirs):
    names = {name for name, _ in ffi.typeof("struct twheel_" + theirs).fields}
    assert set(ours._fields) == names - {"size", "reserved"}


def test_events_are_five_words_and_room():
    # They are unpacked without cffi.
    fields = ffi.typeof("struct twheel_event").fields
    assert [of.type.cname for _, of in fields] == ["uint64_t"] * 5 + ["uint32_t"] * 2
