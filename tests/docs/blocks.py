"""Tries every fenced block of the README and of docs/: programs are compiled and run, fragments compiled inside a frame, commands
executed. What cannot be tried says why, on the line before its fence, and the count of all of them closes the run.

  blocks.py --build DIR                    all but Python's, which are only parsed
  blocks.py --python PYTHON --only python  Python's, in an interpreter that has tutti

Marks on the lines before a fence:

  <!-- not run: REASON -->   nothing of the block is tried
  <!-- frame: NAME -->       the fragment stands in frames/NAME.cpp, .c or .py, at the line that says `the block`
  <!-- exact -->             a console's commands print just what is below them
  <!-- try: COMMAND -->      a file of yaml, json or cmake is what COMMAND, with {} for its name, takes
  <!-- exit: CODE -->        the commands end with this code, not with 0

The commands of a page run in its order in one folder, after those of frames/PAGE.sh where that is there."""

import argparse
import collections
import contextlib
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FRAMES = pathlib.Path(__file__).resolve().parent / "frames"
MARK = re.compile(r"<!-- (?:(not run|frame|try|exit): (.+?)|(exact)) -->$")
LACKING = 77  # the exit code of a program in Python that wants a package that is not there
PLACE = "the block"  # the line of a frame where the block goes
LANGUAGES = {"cpp", "c", "python", "cmake", "yaml", "json", "sh", "console", "text", "dockerfile"}


class Block:
    def __init__(self, page, line, language, text, marks):
        self.page, self.line, self.language, self.text, self.marks = page, line, language, text, marks

    def __str__(self):
        return f"{self.page}:{self.line} ({self.language or 'no language'})"


def pages():
    return ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


def blocks_of(page, text):
    """The fenced blocks of a page, with the marks before them."""
    found, marks, fence = [], {}, None
    for number, line in enumerate(text.splitlines(), 1):
        if fence is not None:
            if re.fullmatch(rf"{fence.closing}`*", line.strip()):
                found.append(Block(page, fence.line, fence.language, "".join(fence.lines), marks))
                fence, marks = None, {}
            else:
                fence.lines.append(line.removeprefix(fence.indent) + "\n")
            continue
        opening = re.match(r"( *)(```+)([^`\s]*)$", line)
        if re.match(r" *(~~~|> *```)", line):
            raise ValueError(f"{page}:{number}: a block that this test does not read: fence it by ``` alone")
        mark = MARK.match(line.strip())
        if opening:
            fence = argparse.Namespace(line=number, indent=opening[1], closing=opening[2], language=opening[3], lines=[])
        elif mark:
            marks[mark[1] or mark[3]] = mark[2] or ""
        elif line.strip():
            marks = {}
    if fence is not None:
        raise ValueError(f"{page}:{fence.line}: the block has no end")
    return found


class Compiler:
    """The options with which this build compiles the examples, with and without LibTorch."""

    def __init__(self, build):
        self.build = pathlib.Path(build)
        self.entries = json.loads((self.build / "compile_commands.json").read_text())

    def options(self, source):
        for entry in self.entries:
            if entry["file"].endswith(source):
                words = iter(shlex.split(entry["command"]))
                kept = []
                for word in words:
                    if word == "-isystem":
                        kept += [word, next(words)]
                    elif word.startswith(("-I", "-D", "-std", "-isystem")):
                        kept.append(word)
                return kept
        return None

    def check(self, language, text, source):
        """Compiles without writing anything; the compiler's words where it refuses, else an empty text."""
        options = self.options(source)
        if options is None:
            return f"this build has no {source}"
        with tempfile.NamedTemporaryFile("w", suffix=".c" if language == "c" else ".cpp") as file:
            file.write(text)
            file.flush()
            if language == "c":
                command = ["cc", "-std=c11", f"-I{ROOT}/bindings/c", *(word for word in options if not word.startswith("-std"))]
            else:
                command = ["c++", *options, f"-I{ROOT}"]
            return refused([*command, "-Wall", "-Wno-unused", "-fsyntax-only", file.name], self.build)

    def program(self, language, text, folder):
        """Compiles and links a program."""
        file = pathlib.Path(folder) / ("program.c" if language == "c" else "program.cpp")
        file.write_text(text)
        lib = self.build / "lib"
        if language == "c":
            command = ["cc", "-std=c11", f"-I{ROOT}/bindings/c", file, "-ltutti_c"]
        else:
            command = ["c++", "-std=c++20", f"-I{ROOT}/include", file, "-ltutti", "-pthread"]
        return refused([*command, f"-L{lib}", f"-Wl,-rpath,{lib}", "-o", file.with_suffix("")], folder)


def tried(command, cwd, timeout=240, env=None):
    """(exit code, what it printed); what still runs after the time-out is ended."""
    process = subprocess.Popen(list(map(str, command)), cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=timeout)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        return 124, f"it takes longer than {timeout} s"
    finally:
        with contextlib.suppress(ProcessLookupError):  # none is left, as it ought to be
            os.killpg(process.pid, signal.SIGKILL)


def refused(command, cwd, **more):
    """What a command prints if it fails, else an empty text."""
    code, output = tried(command, cwd, **more)
    return f"exit code {code}\n{output[-3000:]}" if code else ""


def framed(block):
    """The frame's lines with the fragment in its place, known to the compiler by page and line."""
    name = block.marks.get("frame")
    if name is None:
        raise ValueError("a fragment wants a frame: <!-- frame: NAME --> before it, and tests/docs/frames/NAME")
    file = FRAMES / f"{name}.{ {'cpp': 'cpp', 'c': 'c', 'python': 'py'}[block.language]}"
    if not file.is_file():
        raise ValueError(f"tests/docs/frames/{file.name} is missing")
    lines = file.read_text().splitlines()
    at = [number for number, line in enumerate(lines) if line.strip(" /#*") == PLACE]
    if len(at) != 1:
        raise ValueError(f"tests/docs/frames/{file.name} wants one line of `{PLACE}` alone, as a comment")
    indent = re.match(r" *", lines[at[0]])[0]
    inside = [indent + line for line in block.text.splitlines()]
    if block.language != "python":
        inside = [f'#line {block.line + 1} "{block.page}"', *inside, f'#line {at[0] + 2} "tests/docs/frames/{file.name}"']
    return [*lines[:at[0]], *inside, *lines[at[0] + 1:]]


def joined(fragments):
    """All fragments of C++ as one source, as their headers take longer than they do: each in a namespace, without its includes."""
    includes, bodies = [], []
    for number, block in enumerate(fragments):
        body = []
        for line in framed(block):
            (includes if line.lstrip().startswith("#include") else body).append(line)
        bodies += [f"namespace fragment_{number} {{", *body, "}"]
    return "\n".join([*dict.fromkeys(line.strip() for line in includes), *bodies, ""])


# Where a frame's first line has the word, the fragment is compiled with the options of that source.
LIKE = {"LibTorch": "train_quadrants.cpp", "MPI": "bindings/mpi/types.cpp", "": "examples/average.cpp"}


def like(block):
    opening = framed(block)[0]
    return next(source for word, source in LIKE.items() if word in opening)


def take_fragments(fragments, given):
    """Compiles fragments of C and C++; the problem or an empty text."""
    if not fragments:
        return ""
    compiler = Compiler(given.build)
    problems = [compiler.check("c", "\n".join(framed(block)), like(block)) for block in fragments if block.language == "c"]
    for example in LIKE.values():
        some = [block for block in fragments if block.language == "cpp" and like(block) == example]
        if some:
            problems.append(compiler.check("cpp", joined(some), example))
    return "\n".join(filter(None, problems))


def take_code(block, given):
    """cpp and c: a program runs, alone and with two ranks; a fragment is compiled in its frame."""
    compiler = Compiler(given.build)
    if re.search(r"\bint main\(", block.text):
        with tempfile.TemporaryDirectory() as folder:
            problem = compiler.program(block.language, block.text, folder)
            if problem:
                return "run", problem
            for command in ([f"{folder}/program"], ["tutti", "run", "-np", "2", f"{folder}/program"]):
                if problem := refused(command, folder, env=environment(given)):
                    return "run", problem
        return "run", ""
    framed(block)
    return "compiled", ""  # by take_fragments(), all at once


def take_python(block, given):
    text = block.text if "frame" not in block.marks else "\n".join(framed(block))
    compile(text, str(block), "exec")
    if not given.python:
        return "parsed", ""
    path = os.pathsep.join(filter(None, [str(FRAMES), os.environ.get("PYTHONPATH")]))  # frames import modules beside them
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "program.py").write_text(text)
        for command in ([given.python, "program.py"], ["tutti", "run", "-np", "2", given.python, "program.py"]):
            code, output = tried(command, folder, env={**environment(given), "PYTHONPATH": path})
            if code == LACKING:
                return "lacking a package", ""
            if code:
                return "run", f"exit code {code}\n{output}"
    return "run", ""


def environment(given):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    bin = f"{given.build}/bin:" if given.build else ""
    return {**kept, "PATH": f"{bin}{os.environ['PATH']}", "TUTTI_TUNING": "off", "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}


def commands_of(block):
    """[(command, what it prints or None)]"""
    if block.language == "sh":
        return [(block.text, None)]
    found = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1][0] += "\n" + line[2:]
        elif found:
            found[-1][1].append(line)
    return [(command, "\n".join(output).strip()) for command, output in found]


def take_commands(block, given, folder):
    wanted = int(block.marks.get("exit", "0"))
    if not commands_of(block):
        return "", "a console wants a command, after `$ `"
    for command, output in commands_of(block):
        code, printed = tried(["bash", "-euo", "pipefail", "-c", command], folder, timeout=300, env=environment(given))
        if code != wanted:
            return "executed", f"{command}: exit code {code}\n{printed[-2000:]}"
        if "exact" in block.marks and printed.strip() != output:
            return "executed", f"{command}: the page has other output; now it is\n{printed}"
    return "executed", ""


def take_file(block, given, folder):
    command = block.marks.get("try")
    if command is None:
        return "", f"a file of {block.language} wants a mark: <!-- try: COMMAND --> with {{}} for its name, or <!-- not run: REASON -->"
    file = pathlib.Path(folder) / f"block-{block.line}.{block.language}"
    if block.language == "cmake":
        (pathlib.Path(folder) / f"block-{block.line}").mkdir()
        file = pathlib.Path(folder) / f"block-{block.line}/CMakeLists.txt"
    file.write_text(block.text)
    problem = refused(["bash", "-euc", command.replace("{}", str(file))], folder, env=environment(given))
    return "executed", f"{command}: {problem}" if problem else ""


def take(block, given, folder):
    """(what was done, the problem or an empty text)"""
    if block.language not in LANGUAGES:
        return "", f"a fence wants a language: one of {', '.join(sorted(LANGUAGES))}"
    if "not run" in block.marks:
        return "not run", "" if len(block.marks["not run"]) > 10 else "say why it is not run, in some words"
    try:
        if block.language in ("cpp", "c"):
            return take_code(block, given)
        if block.language == "python":
            return take_python(block, given)
        if block.language in ("sh", "console"):
            return take_commands(block, given, folder)
        if block.language in ("yaml", "json", "cmake", "dockerfile"):
            return take_file(block, given, folder)
    except (ValueError, SyntaxError) as problem:
        return "", str(problem)
    return "text", ""


def take_page(page, given):
    """[(block, what was done, problem, seconds)] of a page."""
    done = []
    with tempfile.TemporaryDirectory() as folder:
        prepared = FRAMES / f"{re.sub(r'^[0-9]+-', '', pathlib.Path(page).stem)}.sh"
        if prepared.is_file() and not given.python:
            problem = refused(["bash", "-eu", prepared], folder, env={**environment(given), "ROOT": str(ROOT)})
            if problem:
                return [(Block(str(prepared.relative_to(ROOT)), 1, "sh", "", {}), "executed", problem, 0)]
        try:
            blocks = blocks_of(page, (ROOT / page).read_text())
        except ValueError as problem:
            return [(Block(page, 1, "", "", {}), "", str(problem), 0)]
        for block in blocks:
            if given.only and block.language != given.only:
                continue
            begin = time.monotonic()
            done.append((block, *take(block, given, folder), time.monotonic() - begin))
    return done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", help="a build folder of tutti with its command and examples")
    parser.add_argument("--python", help="an interpreter that has tutti")
    parser.add_argument("--only", help="blocks of this language alone")
    parser.add_argument("pages", nargs="*", help="from the repository's root; all where there is none")
    given = parser.parse_args()
    given.build = given.build and str(pathlib.Path(given.build).resolve())
    count, problems, fragments = collections.Counter(), 0, []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in pool.map(lambda page: take_page(page, given), given.pages or pages()):
            for block, what, problem, seconds in done:
                count[f"{block.language} {what}"] += 1
                if what == "compiled" and not problem:
                    fragments.append(block)
                if problem:
                    problems += 1
                    print(f"{block}: {problem.strip()}", flush=True)
                elif what == "not run":
                    print(f"{block}: not run: {block.marks['not run']}")
                elif what.startswith("lacking"):
                    print(f"{block}: {what}")
                elif seconds > 10:
                    print(f"{block}: {seconds:.0f} s")
    if problem := take_fragments(fragments, given):
        problems += 1
        print(problem)
    print(", ".join(f"{number} of {name}" for name, number in sorted(count.items())))
    print(f"blocks: {sum(count.values())}, {problems} problem(s)")
    sys.exit(problems > 0)


if __name__ == "__main__":
    main()
