"""The repository speaks of the product alone: no places of one machine, no notes to oneself, no talk of how it came about."""

import re

import common

BANNED = [
    (re.compile(r"(?<![\w.$}])/(?:home|work|root|Users|mnt)/\w"), "a path of one machine"),
    (re.compile(r"\b(?:TODO|FIXME|XXX)\b(?!\([\w ]+\): \S|: \S+ \S+)"), "a note without saying what is to be done: `TODO: text`"),
    (re.compile(r"\bissue\s+#?\d", re.I), "an issue's number: say what it is about"),
    (re.compile(r"\b(?:my|last|next|previous|earlier|later)\s+session\b", re.I), "how it came about"),
    (re.compile(r"\b(?:the|my|this)\s+brief\b|\bacceptance criteri|\bas (?:requested|instructed)\b", re.I), "how it came about"),
    (re.compile(r"\blorem ipsum\b|\bplaceholder text\b", re.I), "filler"),
]
OUTSIDE = re.compile(r"(?<![\w./$}])\.\./([A-Za-z_][\w-]*)/")
EXEMPT = {"tests/lint/words.py", "LICENSE"}


def main():
    problems, names = [], [n for n in common.files() if n not in EXEMPT]
    top = {n.split("/")[0] for n in names}
    for name in names:
        for number, line in enumerate(common.text(name).splitlines(), 1):
            problems += [f"{name}:{number}: {why}: {line.strip()[:100]}" for pattern, why in BANNED if pattern.search(line)]
            problems += [f"{name}:{number}: a path that leaves the repository: {line.strip()[:100]}"
                         for match in OUTSIDE.finditer(line) if match[1] not in top and not is_sibling(name, match[1])]
    common.report("words", problems, f"{len(names)} files")


def is_sibling(name, folder):
    parent = (common.ROOT / name).parent.parent
    return (parent / folder).is_dir() and common.ROOT in (parent / folder).parents


if __name__ == "__main__":
    main()
