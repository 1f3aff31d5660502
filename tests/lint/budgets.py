"""Budgets that keep taste: lines of a file and of a function, virtuals of an interface, macros of the project.

What exceeds a budget stands in exceptions.txt with its reason; an exception that is no longer needed is a failure.
"""

import re

import common

FILE_LINES, FUNCTION_LINES, VIRTUALS, MACROS = 400, 60, 10, 5
SCOPE = re.compile(r'\b(namespace|class|struct|union|enum)\b|\bextern\s*""\s*$')
NAME = re.compile(r"([~\w:]+|operator\s*[^\s(]+)\s*\(")


def scope_kind(head):
    """What a brace after `head`, seen outside functions, opens."""
    if re.search(r"\b(namespace|extern)\b", head) and "(" not in head:
        return "scope"
    if SCOPE.search(re.sub(r"\btemplate\s*<[^{;]*>", "", head)) and not re.search(r"\)\s*(const|noexcept|->.*)?\s*$", head):
        return "scope"
    return "function" if "(" in head else "other"


def blocks(code):
    """(kind, head, first line, last line, body) of every brace block outside functions."""
    stack, head, head_at, i = [], "", None, 0
    found = []
    code = re.sub(r"^[ \t]*#(?:\\\n|.)*$", lambda m: "\n" * m[0].count("\n"), code, flags=re.M)
    line = 1
    while i < len(code):
        c = code[i]
        inside = bool(stack) and stack[-1][0] != "scope"
        if c == "{":
            stack.append(("inner" if inside else scope_kind(head), head, head_at or line, i))
            if not inside:
                head, head_at = "", None
        elif c == "}" and stack:
            kind, opened, at, start = stack.pop()
            if kind != "inner":
                found.append((kind, opened, at, line, code[start:i]))
                rest = code[i + 1:].lstrip()
                continues = kind != "scope" and rest[:1] in (",", "{")  # a member's initialiser, not the body
                head, head_at = (opened + "{}", at) if continues else ("", None)
        elif not inside:
            if c == ";" and head.count("(") == head.count(")"):
                head, head_at = "", None
            else:
                head += c
                if head_at is None and not c.isspace():
                    head_at = line
        line += c == "\n"
        i += 1
    return found


def measure(name, source):
    """(exception kind, subject, text, over budget) of everything measured in a C++ file."""
    code = common.code_only(source)
    for kind, head, first, last, body in blocks(code):
        if kind == "function":
            match = NAME.search(head)
            label = match[1] if match else "?"
            if label in ("TEST", "TEST_F", "TEST_P", "TYPED_TEST"):
                label = "".join(head[match.end() - 1:].split())
            length = last - first + 1
            yield "function", f"{name} {label}", f"{name}:{first}: {label} has {length} lines, budget {FUNCTION_LINES}", \
                length > FUNCTION_LINES
        elif kind == "scope" and "virtual" in body:
            label = (re.findall(r"\b(?:class|struct)\s+(\w+)", head) or [""])[-1]
            count = len(re.findall(r"\bvirtual\b(?!\s+~)", body))
            if label:
                yield "interface", f"{name} {label}", f"{name}:{first}: {label} has {count} virtual functions, budget {VIRTUALS}", \
                    count > VIRTUALS


def main():
    over, macros, problems = {}, [], []
    names = [n for n in common.files() if n.endswith(common.CPP + (".py", ".cmake", "CMakeLists.txt")) or
             common.text(n).startswith("#!")]
    for name in names:
        source = common.text(name)
        lines = source.count("\n")
        if lines > FILE_LINES:
            over["file", name] = f"{name}: {lines} lines, budget {FILE_LINES}"
        if name.endswith(common.CPP):
            macros += [f"{name}: {m}" for m in re.findall(r"^\s*#\s*define\s+(\w+)", source, re.M)]
            for kind, subject, message, exceeds in measure(name, source):
                if exceeds:
                    over[kind, subject] = message
    if len(macros) > MACROS:
        problems.append(f"{len(macros)} macros, budget {MACROS}: " + ", ".join(macros))
    for kind in ("file", "function", "interface"):
        allowed, bad = common.exceptions(kind)
        problems += bad if kind == "file" else []
        problems += [m for (k, subject), m in over.items() if k == kind and subject not in allowed]
        problems += [f"tests/lint/exceptions.txt: `{kind} {subject}` is within the budget; remove the line"
                     for subject in allowed if (kind, subject) not in over]
    common.report("budgets", problems, f"{len(names)} files, {len(macros)} macros, {len(over)} over budget")


if __name__ == "__main__":
    main()
