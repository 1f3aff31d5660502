"""How files open: every C++ file with what it is (a .cpp may leave it to the header of its name); every algorithm also with its
rounds, its elements and where it comes from."""

import re

import common

WANTED = [
    (re.compile(r"\brounds?\b"), "its rounds"),
    (re.compile(r"\belements?\b"), "the elements that a rank sends"),
    (re.compile(r"\b(?:19|20)\d\d\b"), "a citation with its year"),
]


def opening(source):
    lines = []
    for line in source.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:].strip())
    return " ".join(lines).strip()


def main():
    problems, names = [], common.files(*common.CPP)
    algorithms = [n for n in names if re.match(r"collectives/algorithms/\w+\.cpp$", n)]
    for name in names:
        stem = name.rsplit(".", 1)[0]
        headers = {f"{stem}.hpp", f"include/tutti/{stem.rsplit('/', 1)[-1]}.hpp"}
        if headers & set(names) and not name.endswith(".hpp"):
            continue
        if len(opening(common.text(name))) < 10:
            problems.append(f"{name}:1: a file opens with a comment that says what it is")
    for name in algorithms:
        comment = opening(common.text(name))
        problems += [f"{name}:1: the opening comment does not give {what}" for pattern, what in WANTED
                     if not pattern.search(comment)]
    common.report("openings", problems, f"{len(names)} files, {len(algorithms)} algorithms")


if __name__ == "__main__":
    main()
