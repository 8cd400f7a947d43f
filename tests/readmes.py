#!/usr/bin/env python3
"""Every link, path, file and option that a README names exists.   readmes.py [ROOT]

Links are resolved from the README. A path or file in backticks is looked for beside the README, at the root, under compiler/ and
runtime/include/, and as the end of any file's path; `*` stands for any name. An option (--name) must stand in some file that is no README.
README.md itself has at most 900 words. Exit 1 with a line for each that is missing.
"""
import fnmatch
import os
import re
import sys

SKIP = {".git", "build", "out", "__pycache__"}
SOURCE = (".cpp", ".cc", ".h", ".hpp", ".cuh", ".c", ".py", ".sh", ".def", ".cmake", ".graph", ".md", ".svg", ".txt", ".map")
# Files of the reader's own that examples name, and what builds and installations make.
EXAMPLES = re.compile(r"(^|/)(my_\w+|cumprod|model|net|main|server|tables|file|divide_by_power_of_two)\.\w+$|^(lib|share|build)/|^NAME")
# Options of other programs.
FOREIGN = {"--help", "--config", "--tool", "--target-processes"}


def walk(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIP)
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), root)


def main():
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), ".."))
    files = sorted(walk(root))
    folders = {os.path.dirname(f) for f in files}
    folders |= {"/".join(f.split("/")[:n]) for f in folders for n in range(1, f.count("/") + 2)}
    readmes = [f for f in files if os.path.basename(f) == "README.md"]
    words = set()
    for f in files:
        if f in readmes or f.endswith((".pt2", ".jsonl", ".svg", ".png")):
            continue
        with open(os.path.join(root, f), "rb") as source:
            words |= set(re.findall(rb"(?<![\w-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)", source.read()))

    def exists(name, here):
        for base in (here, "", "compiler", "runtime/include", "runtime", "tests", "cli"):
            path = os.path.normpath(os.path.join(base, name)) if base else os.path.normpath(name)
            if path in folders or any(fnmatch.fnmatch(f, path) for f in ([path] if path in known else files if "*" in path else [])) or path in known:
                return True
        return any(fnmatch.fnmatch(f, "*/" + name.rstrip("/")) for f in files) or any(f.endswith("/" + name.rstrip("/")) for f in folders)

    known = set(files)
    missing = []
    for readme in readmes:
        here = os.path.dirname(readme)
        with open(os.path.join(root, readme)) as text:
            lines = text.read().split("\n")
        for number, line in enumerate(lines, 1):
            for link in re.findall(r"\]\(([^)#]+)[^)]*\)", line):
                if "://" not in link and os.path.normpath(os.path.join(here, link)) not in known | folders:
                    missing.append(f"{readme}:{number}: the link {link} leads nowhere")
            for name in re.findall(r"`([\w.*/-]+)`", line):
                path_like = name.endswith("/") or (name.endswith(SOURCE) and not name.startswith("."))
                if path_like and not EXAMPLES.search(name) and not name.startswith(("/", "~", "-")) and not exists(name, here):
                    missing.append(f"{readme}:{number}: there is no {name}")
            for option in re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]*)", line):
                if option not in FOREIGN and option[2:].encode() not in words:
                    missing.append(f"{readme}:{number}: nothing knows the option {option}")
    with open(os.path.join(root, "README.md")) as text:
        count = len(text.read().split())
    if count > 900:
        missing.append(f"README.md: {count} words; at most 900, the rest belongs into the READMEs that it names")
    print("\n".join(missing) if missing else f"readmes: {len(readmes)} READMEs, all that they name exists")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
