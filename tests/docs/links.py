"""Every relative link of the repository's pages names a file that is there, and every #anchor a heading of that page."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?: \"[^\"]*\")?\)")
GENERATED = {"docs/reference", "docs/cpp"}  # by docs/site/hooks.py, when the site is built


def prose(text):
    """A page without its fenced blocks and code words."""
    kept, fence = [], None
    for line in text.splitlines():
        mark = re.match(r" *(```+)", line)
        if mark and (fence is None or line.strip() == fence):
            fence = mark[1] if fence is None else None
            line = ""
        kept.append("" if fence else re.sub(r"``.*?``|`[^`]*`", "", line))
    return kept


def anchors(file):
    """The anchors of a page's headings, as MkDocs makes them."""
    found = set()
    for line in re.sub(r"^ *```.*?^ *```", "", file.read_text(), flags=re.M | re.S).splitlines():
        heading = re.match(r"#+ (.+)$", line)
        if heading:
            text = re.sub(r"[^\w\s-]", "", heading[1].lower())
            name = base = re.sub(r"[-\s]+", "-", text).strip("-")
            number = 0
            while name in found:
                number += 1
                name = f"{base}_{number}"
            found.add(name)
    return found


def problems_of(page):
    text = "\n".join(prose((ROOT / page).read_text()))
    for link in LINK.finditer(text):
        number, target = text.count("\n", 0, link.start()) + 1, link[1]
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        file = (ROOT / page).parent / place if place else ROOT / page
        name = str(file.resolve().relative_to(ROOT)) if file.resolve().is_relative_to(ROOT) else None
        if name is None:
            yield f"{page}:{number}: {target} leaves the repository"
        elif any(name.startswith(folder) for folder in GENERATED):
            continue
        elif not file.exists():
            yield f"{page}:{number}: {target} is not there"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            yield f"{page}:{number}: {target}: no heading of that name there"


def main():
    pages = [str(p.relative_to(ROOT)) for p in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md"))]
    problems = [problem for page in sorted(pages) for problem in problems_of(page)]
    print("\n".join(problems))
    print(f"links: {len(pages)} pages, {len(problems)} problem(s)")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
