#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the bytes of a program are, by GNU ld's map, and whether they stay within the budget.

usage: sizes.py MAP...              the share of each owner (Hone, each library)
       sizes.py --objects N MAP     the N object files with the most bytes
       sizes.py --sections N MAP    the N sections (functions, tables) with the most bytes
       sizes.py --budget FILE --row ROW [--strip TOOL] PROGRAM...
                                    a table of programs that have PROGRAM.map beside them; exit status 1
                                    where one exceeds its line of FILE: ROW NAME HONE_KB TOTAL_KB
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

# What a stripped file has on disk: code and constants, tables with pointers, and data that is not zero.
KEPT = re.compile(r"\.(text|rodata|data|tdata|init|fini|init_array|fini_array|eh_frame|gcc_except_table)")
HEAD = re.compile(r"^ (\.[^ ]+)(?: +0x([0-9a-f]+) +0x([0-9a-f]+) (.+))?$")
TAIL = re.compile(r"^ +0x([0-9a-f]+) +0x([0-9a-f]+) (.+)$")


def sections(path):
    """(section, bytes, file) of everything that the linker kept."""
    name = None
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("Linker script and memory map"):
                break
        for line in lines:
            head = HEAD.match(line)
            if head:
                name, address, size, file = head.groups()
            elif name and (tail := TAIL.match(line)):
                address, size, file = tail.groups()
            else:
                name = None
                continue
            if size is None:
                continue
            if int(address, 16) and int(size, 16) and KEPT.match(name):
                yield name, int(size, 16), file.strip()
            name = None


def owner(file):
    """The part of Hone, or the library, that an object file of the map belongs to."""
    library = re.search(r"([^/]+)\.a(?:\(|:)", file)
    if library is None:
        return "start files" if "/crt" in file else "the program itself"
    return library.group(1)


def shares(path):
    """Bytes by owner."""
    total = collections.Counter()
    for _, size, file in sections(path):
        total[owner(file)] += size
    return total


def largest(path, key, count):
    total = collections.Counter()
    for name, size, file in sections(path):
        total[key(name, file)] += size
    for what, size in total.most_common(count):
        print(f"{size:8} {what}")


def stripped(program, strip):
    """Bytes of the program's file without symbols."""
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "stripped")
        subprocess.run([strip, "-o", copy, program], check=True)
        return os.path.getsize(copy)


def read_budget(path, row):
    """{program: (KB of Hone's own share, KB of the file)}"""
    with open(path, encoding="utf-8") as lines:
        fields = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return {f[1]: (int(f[2]), int(f[3])) for f in fields if f[0] == row}


def compare(programs, budget, strip):
    """Prints the table; how many numbers are over the budget, or lack one."""
    over = 0
    print("| program | Hone, KB | budget | libraries, KB | file, KB | budget |\n|---|---|---|---|---|---|")
    for program in programs:
        name = os.path.basename(program).removeprefix("hone_size_")
        parts = shares(program + ".map")
        hone = parts["libhone"] + parts["the program itself"]
        total = stripped(program, strip)
        libraries = sum(parts.values()) - hone
        limits = budget.get(name)
        if limits is None or hone == 0:
            print(f"{name}: {'no budget' if limits is None else 'nothing of Hone in its map'}", file=sys.stderr)
            over += 1
            continue
        for what, size, limit in (("Hone's share", hone, limits[0]), ("the file", total, limits[1])):
            if size > limit * 1000:
                print(f"{name}: {what} takes {size} bytes, more than {limit} KB", file=sys.stderr)
                over += 1
        print(f"| {name} | {hone / 1000:.0f} | {limits[0]} | {libraries / 1000:.0f} | {total / 1000:.0f} | {limits[1]} |")
    return over


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--objects", type=int, default=0)
    parser.add_argument("--sections", type=int, default=0)
    parser.add_argument("--budget")
    parser.add_argument("--row")
    parser.add_argument("--strip", default="strip")
    parser.add_argument("files", nargs="+")
    a = parser.parse_args()
    if a.budget:
        return 1 if compare(a.files, read_budget(a.budget, a.row), a.strip) else 0
    for path in a.files:
        if a.objects:
            largest(path, lambda _, file: file.rsplit("/", 1)[-1], a.objects)
        elif a.sections:
            largest(path, lambda name, file: f"{name} {file.rsplit('/', 1)[-1]}", a.sections)
        else:
            parts = shares(path)
            print(path, sum(parts.values()), dict(parts.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
