"""Compiles a snippet twice: as it is it must compile, with -DWRONG it must not, and the compiler must say what the
snippet's `// expect:` line says (a regular expression)."""

import re
import subprocess
import sys


def main():
    snippet, compiler, *flags = sys.argv[1:]
    expect = re.search(r"^// expect: (.+)$", open(snippet, encoding="utf-8").read(), re.M)
    if not expect:
        sys.exit(f"{snippet}: has no line `// expect: regular expression`")
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *flags, snippet]
    right = subprocess.run(command, capture_output=True, text=True)
    if right.returncode != 0:
        sys.exit(f"{snippet}: the right form must compile, but:\n{right.stderr}")
    wrong = subprocess.run([*command, "-DWRONG"], capture_output=True, text=True)
    if wrong.returncode == 0:
        sys.exit(f"{snippet}: the wrong form must not compile, but it does")
    if not re.search(expect[1], wrong.stderr):
        sys.exit(f"{snippet}: the compiler was expected to say /{expect[1]}/, but said:\n{wrong.stderr}")
    print(f"{snippet}: refused, as expected: {expect[1]}")


main()
