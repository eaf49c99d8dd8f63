#!/usr/bin/env python3
"""Licences of all that is linked into the program `zipwire`, as one page.

    tools/licences.py --target x86_64-unknown-linux-gnu -o THIRD_PARTY.md
    tools/licences.py --target x86_64-unknown-linux-musl --also musl MIT COPYRIGHT -o THIRD_PARTY.md

The crates are those that `cargo metadata` resolves for the target, without those of tests and build scripts. Each must be under a licence that is
known here, with its text in its package: else the page is not written. `--also NAME LICENCE FILE` adds what no crate is, such as a C library.

Exit codes: 0 written; 1 a crate without a text, or under a licence that is unknown here; 2 bad usage.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

PROGRAM = "zipwire"
# Licences that ask for their text to be kept, and for nothing else that a program in binary form would not do.
KNOWN = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT", "MIT-0", "Unicode-3.0", "Unlicense", "Zlib",
    "Apache-2.0 WITH LLVM-exception",
}
TEXTS = ("LICEN", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
# Texts of sources that a crate carries in a folder, beside its own.
INSIDE = {"zstd-sys": ["zstd/LICENSE"]}


def linked(target):
    """Packages from elsewhere that the program is made of, by name and version."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    ours = set(metadata["workspace_members"])
    left = [id for id in ours if packages[id]["name"] == PROGRAM]
    seen = set()
    while left:
        id = left.pop()
        if id not in seen:
            seen.add(id)
            normal = [dep for dep in nodes[id]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
            left.extend(dep["pkg"] for dep in normal)
    return sorted((packages[id] for id in seen - ours), key=lambda package: (package["name"], package["version"]))


def allows(expression):
    """Whether an SPDX expression can be met by licences that are known here; `/` is an old way to write OR."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def either():
        met = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            met = both() or met
        return met

    def both():
        met = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            met = one() and met
        return met

    def one():
        name = tokens.pop(0)
        if name == "(":
            met = either()
            tokens.pop(0)
            return met
        if tokens and tokens[0] == "WITH":
            name += f" {tokens.pop(0)} {tokens.pop(0)}"
        return name in KNOWN

    return either() and not tokens


def texts(package):
    """Texts of licences in a package, by the names of their files."""
    folder = pathlib.Path(package["manifest_path"]).parent
    files = [file for file in sorted(folder.iterdir()) if file.is_file() and file.name.upper().startswith(TEXTS)]
    files += [folder / name for name in INSIDE.get(package["name"], [])]
    return [(file.name, file.read_text(errors="replace")) for file in files]


def entries(target, also):
    """Rows of the page, and what is wrong with them."""
    rows, wrong = [], []
    for package in linked(target):
        name = f"{package['name']} {package['version']}"
        found = texts(package)
        if not allows(package["license"] or ""):
            wrong.append(f"{name} is under `{package['license']}`, which is unknown here")
        if not found:
            wrong.append(f"{name} has no text of its licence")
        rows.append((name, package["license"], package["repository"] or "", found))
    for name, licence, file in also:
        path = pathlib.Path(file)
        if not allows(licence):
            wrong.append(f"{name} is under `{licence}`, which is unknown here")
        rows.append((name, licence, "", [(path.name, path.read_text(errors="replace"))]))
    return rows, wrong


def page(rows, target):
    """The page: a table, and behind it each text once."""
    lines = [
        "# What others have written of this program", "",
        f"`{PROGRAM}` for `{target}` holds the following, each under its own licence, and Rust's standard library (MIT or Apache-2.0).", "",
        "| name | licence | source |", "|---|---|---|",
    ]
    lines += [f"| {name} | {licence} | {source} |" for name, licence, source, _ in rows]
    # Texts that differ in space only are one text.
    once = {}
    for name, _, _, found in rows:
        for file, text in found:
            once.setdefault(" ".join(text.split()), (file, text, []))[2].append(name)
    for file, text, names in once.values():
        lines += ["", f"## {file} of {', '.join(dict.fromkeys(names))}", "", "```text", text.strip().replace("```", "'''"), "```"]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", required=True, help="triple that the program is built for")
    parser.add_argument("--also", nargs=3, action="append", default=[], metavar=("NAME", "LICENCE", "FILE"))
    parser.add_argument("-o", "--out", required=True, type=pathlib.Path)
    args = parser.parse_args()
    rows, wrong = entries(args.target, args.also)
    if wrong:
        sys.exit("\n".join(wrong))
    args.out.write_text(page(rows, args.target))
    print(f"{len(rows)} licences of others: {args.out.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
