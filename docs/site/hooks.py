"""What the site has beside docs/: the reference, generated from a build and from the headers, and llms.txt.

tools/site sets TUTTI_SITE_BUILD to a build folder with the tutti command, Python's stubs (python/tutti) and Doxygen's pages (doxygen/html)."""

import ast
import os
import pathlib
import re
import subprocess

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TUTTI_SITE_BUILD", ROOT / "build/site"))
DOXYGEN = "/".join(("..", "cpp", "index.html"))  # written so, as lint looks for such paths in the tree, and this is generated
PROJECT = ("SECURITY", "CONTRIBUTING", "CHANGELOG")
COMMANDS = ("run", "bench", "info", "doctor", "plan", "tune", "train", "checkpoint", "plot", "data")


def on_files(files, config):
    for name, page in (("index", index), ("cpp", cpp), ("python", python), ("settings", settings), ("errors", errors), ("commands", commands)):
        files.append(File.generated(config, f"reference/{name}.md", content=page()))
    for name in PROJECT:
        files.append(File.generated(config, f"{name.lower()}.md", content=moved((ROOT / f"{name}.md").read_text())))
    files.append(File.generated(config, "llms.txt", content=for_models(config)))
    doxygen = BUILD / "doxygen/html"
    for file in sorted(doxygen.rglob("*")):
        if file.is_file() and not file.name.endswith(".md"):
            files.append(File.generated(config, f"cpp/{file.relative_to(doxygen)}", abs_src_path=str(file)))
    return files


def on_page_markdown(markdown, page, **_):
    """Pages of docs/ link to those of the repository's root, which lie beside them on the site."""
    return re.sub(rf"\]\(\.\./((?:\.\./)*)({'|'.join(PROJECT)})\.md", lambda match: f"]({match[1]}{match[2].lower()}.md", markdown)


def moved(text):
    """A page of the repository's root, as it stands beside the pages of docs/."""
    text = text.replace("](docs/", "](")
    return re.sub(rf"\]\(({'|'.join(PROJECT)})\.md", lambda match: f"]({match[1].lower()}.md", text)


def printed(*arguments):
    """What the tutti command prints."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    return subprocess.run([BUILD / "bin/tutti", *arguments], capture_output=True, text=True, check=True,
                          env={**kept, "COLUMNS": "100"}).stdout


def index():
    return """# Reference

| | |
|---|---|
| [C++ and C](cpp.md) | the public headers, by Doxygen |
| [Python](python.md) | the module `tutti`: every function and class |
| [Settings](settings.md) | every `TUTTI_*` variable: meaning, type, standard value |
| [Training keys](../book/18-configuration.md) | every key of `tutti train` |
| [Errors](errors.md) | every code, what it means, and what to do |
| [Commands](commands.md) | every option of `tutti` |

These pages are generated from the sources of this version.
"""


def cpp():
    headers = sorted((ROOT / "include/tutti").glob("*.hpp"))
    rows = "".join(f"| `tutti/{h.name}` | {opening(h)} |\n" for h in headers)
    return f"""# C++ and C

[All classes, functions and types]({DOXYGEN}), by Doxygen, from the public headers.

`#include <tutti.hpp>` includes all of these; `#include <tutti.h>` is the interface for C.

| header | what it declares |
|---|---|
{rows}"""


def opening(header):
    """The comment that a file opens with."""
    lines = []
    for line in header.read_text().splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").strip())
    return " ".join(lines).replace("|", "\\|")


def settings():
    """The table of `tutti info -c`, without what this machine has set: there, value and default are the same words."""
    rows = []
    for line in printed("info", "-c").splitlines()[1:]:
        row = re.match(r"(\w+)\s+(.+?)\s+default\s+(.*)$", line)
        if row:
            words = row[2].split()
            standard = " ".join(words[: len(words) // 2])
            if words != 2 * words[: len(words) // 2]:
                raise ValueError(f"tutti info -c: value and default of {row[1]} differ")
            meaning = row[3].replace("|", "\\|")
            rows.append(f"| `TUTTI_{row[1].upper()}` | `--{row[1].replace('_', '-')}` | {standard} | {meaning} |")
    return "# Settings\n\n" + SETTINGS + "\n".join(rows) + "\n"


SETTINGS = """Each setting is an environment variable, and an option of most commands. [The book](../book/5-settings.md) says which
ones all ranks take from rank 0. `tutti info -c` prints this table with the values that hold on a machine, and where
they come from.

| variable | option | standard value | meaning |
|---|---|---|---|
"""


def errors():
    source = (ROOT / "include/tutti/status.hpp").read_text()
    body = re.search(r"enum class Code[^{]*\{(.*?)\};", source, re.S)[1]
    rows = "".join(f"| `{name}` | {meaning} | {WHAT_NEXT[name]} |\n" for name, meaning in re.findall(r"^\s*(\w+),\s*///< (.*)$", body, re.M))
    return f"""# Errors

An error of tutti says what happened, to which rank on which host, and what to do next. All ranks of a communicator
get the same one. C++ throws `tutti::Error`, whose `code()` is one of these; Python raises `tutti.Error` with the same `code`;
C returns a status, and `tutti_last_error()` has the text.

| code | meaning | what to do |
|---|---|---|
{rows}"""


WHAT_NEXT = {
    "peer_lost": "Look at the output of the rank that is named: its own error, the signal that ended it, or its host's log.",
    "mismatch": "Compare the two calls that the text names: all ranks make the same calls in the same order.",
    "timeout": "The text names who was waited for. Raise TUTTI_TIMEOUT where the wait is legitimate.",
    "aborted": "Another rank or thread has called abort(), or left a call by an exception of its own: look for that one first.",
    "unsupported": "tutti info --algorithms lists what is available, and why the others are not.",
    "invalid": "Mend the argument that the text names.",
    "resource": "The text says how much of what is missing, and which limit or setting gives more.",
    "protocol": "Install the same version of tutti on all hosts.",
    "internal": "Report it, with the text and the output of tutti info.",
}


def python():
    """Every public function and class of the module, from its stubs and its Python files."""
    package, files = BUILD / "python/tutti", ROOT / "bindings/python/tutti"
    imports = [node for node in ast.parse((files / "__init__.py").read_text()).body if isinstance(node, ast.ImportFrom)]
    public = {name.asname or name.name for node in imports for name in node.names}
    parts = ["# Python\n\nThe module `tutti`: [the book's chapter](../book/20-python.md) explains it, this page lists it.\n"]
    for file in (package / "_core.pyi", *sorted(files.glob("_*.py"))):
        if file.name in ("__main__.py", "_place.py"):
            continue
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name in public:
                parts.append(documented(node, "##"))
    return "\n".join(parts)


def documented(node, heading):
    """A class or function: signature, docstring, and the same of a class's methods."""
    text = ast.get_docstring(node) or ""
    if isinstance(node, ast.ClassDef):
        methods = [m for m in node.body if isinstance(m, ast.FunctionDef) and not m.name.startswith("_")]
        once = {m.name: m for m in methods}  # of overloads the last
        members = "\n".join(f"- `{m.name}{'' if is_property(m) else f'({arguments(m)})'}`{returned(m)}{first_words(m)}" for m in once.values())
        return f"{heading} {node.name}\n\n{text}\n\n{members}\n"
    return f"{heading} {node.name}\n\n```text\n{node.name}({arguments(node)}){returned(node, code=False)}\n```\n\n{text}\n"


def is_property(function):
    return any(isinstance(name, ast.Name) and name.id == "property" for name in function.decorator_list)


def arguments(function):
    return ast.unparse(function.args).replace("self, ", "").replace("self", "")


def returned(function, code=True):
    if function.returns is None:
        return ""
    return f" → `{ast.unparse(function.returns)}`" if code else f" -> {ast.unparse(function.returns)}"


def first_words(function):
    text = " ".join((ast.get_docstring(function) or "").split())
    return f": {text}" if text else ""


def commands():
    parts = ["# Commands\n\nWhat each command prints for `--help`.\n"]
    for name in COMMANDS:
        parts.append(f"## tutti {name}\n\n```text\n{printed(name, '--help').strip()}\n```\n")
    return "\n".join(parts)


def for_models(config):
    """llms.txt: every page in a line, for readers that are programs (llmstxt.org)."""
    lines = ["# tutti", "", f"> {config['site_description']}: C++20, C, Python and PyTorch; shared memory, TCP, RDMA, GPUs.", ""]

    def walk(nodes):
        for node in nodes:
            for title, place in (node.items() if isinstance(node, dict) else [(None, node)]):
                if isinstance(place, list):
                    lines.extend(["", f"## {title}", ""])
                    walk(place)
                else:
                    lines.append(f"- [{title or heading_of(place)}]({place.removesuffix('.md')}.html)")

    walk(config["nav"])
    return "\n".join(lines) + "\n"


def heading_of(page):
    file = ROOT / "docs" / page
    if not file.is_file():
        return pathlib.Path(page).stem
    return re.search(r"^# (.+)$", file.read_text(), re.M)[1]
