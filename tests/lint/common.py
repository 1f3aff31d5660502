"""What the lint checks share: the repository's files, C++ without its comments, the exceptions, the report."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CPP = (".hpp", ".cpp", ".h", ".c", ".cc", ".cu")


def files(*suffixes):
    """Files of the repository, tracked or new but not ignored, with one of the suffixes (none: all), sorted."""
    listing = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z"],
                             capture_output=True, text=True)
    if listing.returncode == 0:
        names = set(listing.stdout.split("\0")) - {""}
    else:  # an unpacked archive
        names = {str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()}
        names = {n for n in names if not n.startswith(("build/", "build-", "data/", "out/", ".git/"))}
    return sorted(n for n in names if (ROOT / n).is_file() and (not suffixes or n.endswith(suffixes)))


def text(name):
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


_TOKENS = re.compile(r'R"(?P<d>[^(\s]*)\((?s:.*?)\)(?P=d)"|//[^\n]*|/\*(?s:.*?)\*/|"(?:\\.|[^"\\\n])*"'
                     r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'")


def code_only(source):
    """C++ with comments, strings and characters blanked; lines stay where they are."""
    def blank(match):
        token = match.group(0)
        kept = "\n" * token.count("\n")
        return kept if token.startswith("/") else '""' + kept
    return _TOKENS.sub(blank, source)


def exceptions(kind):
    """{subject: reason} of the lines `kind subject -- reason` in exceptions.txt; a short reason is an error."""
    found, bad = {}, []
    for number, line in enumerate(text("tests/lint/exceptions.txt").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        head, _, reason = line.partition(" -- ")
        words = head.split(maxsplit=1)
        if len(words) != 2 or len(reason.strip()) < 15:
            bad.append(f"tests/lint/exceptions.txt:{number}: wants `kind subject -- reason`, and a reason that says why")
        elif words[0] == kind:
            found[words[1].strip()] = reason.strip()
    return found, bad


def report(check, problems, checked):
    """Prints the outcome and ends the program."""
    for problem in problems:
        print(problem)
    print(f"{check}: {checked}, {len(problems)} problem(s)")
    sys.exit(1 if problems else 0)
