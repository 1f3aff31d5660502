"""Who may include whom: the floors of the building, the places for libraries, no feature tests in the logic."""

import re

import common

# Floor: the prefixes that its files may include by a quoted path. The first matching floor counts;
# `{folder}` is the provider's own folder. None: everything.
# What users include has floors of its own: what core has, what providers have, what is above.
CORE_FACE = r"tutti/(accelerator|buffer|clock|collective|dtype|fork|log|memory|reduce|settings|status|store|threads|work)\.hpp$"
CORE, VOCABULARY = f"transports/core/|{CORE_FACE}", r"transports/[^/]+\.hpp$|tutti/provider/"
STREAM = "transports/stream/"  # the protocol of every medium that is a stream of bytes
TOPOLOGY, BOOTSTRAP = r"tutti/topology\.hpp$", r"tutti/(bootstrap|topology|turns)\.hpp$"
PLAN, BELOW = f"collectives/plan/|{TOPOLOGY}", f"collectives/(bootstrap|plan)/|{BOOTSTRAP}"
COMMUNICATOR = r"tutti/communicator\.hpp$"
USED = "(?!benchmarks/)"  # all that is no laboratory
NO_MEDIUM = "transports/(decorators|staged)/"  # these two have no medium of their own
FLOORS = [
    (r"include/" + CORE_FACE, [CORE_FACE]),
    (r"include/tutti/provider/", [CORE_FACE, TOPOLOGY, "tutti/provider/"]),
    (r"include/", ["tutti/(?!provider/)"]),
    (r"transports/core/", [CORE]),
    (r"transports/[^/]+$", [CORE, VOCABULARY]),
    (r"transports/[^/]+/settings\.hpp$", [CORE]),  # which libtutti has in every build
    (NO_MEDIUM, [CORE, VOCABULARY, "{folder}"]),
    (r"transports/[^/]+/", [CORE, VOCABULARY, STREAM, "{folder}"]),
    (r"collectives/algorithms/", [CORE, VOCABULARY, PLAN, "collectives/algorithms/"]),
    (r"collectives/plan/", [CORE, VOCABULARY, PLAN]),
    (r"collectives/model/", [CORE, VOCABULARY, PLAN, "collectives/model/"]),
    (r"collectives/bootstrap/", [CORE, VOCABULARY, PLAN, BOOTSTRAP, "collectives/bootstrap/"]),
    (r"collectives/runtime/", [CORE, VOCABULARY, BELOW, r"collectives/doctor/opinion\.hpp$", "collectives/runtime/", NO_MEDIUM]),
    (r"collectives/route/", [CORE, VOCABULARY, BELOW, "collectives/(model|route|runtime)/"]),
    (r"collectives/api/", [CORE, VOCABULARY, BELOW, COMMUNICATOR, r"collectives/doctor/opinion\.hpp$", "collectives/(api|route|runtime)/", NO_MEDIUM]),
    (r"collectives/doctor/", [CORE, "tutti/(?!provider/)", "collectives/doctor/"]),
    (r"collectives/", [CORE, VOCABULARY, "collectives/", "tutti/"]),
    (r"nn/", [CORE, "collectives/", "tutti(_mpi)?.hpp$", "tutti/(?!provider/)", "nn/"]),
    (r"engine/", [CORE, "collectives/", "tutti(_mpi)?.hpp$", "tutti/(?!provider/)", "nn/", "engine/"]),
    (r"benchmarks/growth/", None),  # it asks every floor how it grows
    (r"benchmarks/", [CORE, "collectives/", "tutti(_mpi)?.hpp$", "tutti/(?!provider/)", "tools/bench/", r"tools/command\.hpp$", "benchmarks/"]),
    (r"tools/bench/", [r"benchmarks/versus/versus\.hpp$", USED]),
    (r"(tools|bindings|examples)/", [USED]),
    (r"tests/", None),
]

# The rooms of the engine, from the ground up: a file may include its own room and those before it. A header that stands
# in no room is the door of one. So many pairs of rooms may know each other, and so many files may stand in no room.
ROOMS = ["config", "report", "data", "data/formats", "models", "models/parallel", "optimizers", "checkpoint",
         "strategies", "loop", "server"]
DOORS = {"engine/config.hpp": "config", "engine/trainer.hpp": "loop"}
MOST_ARROWS, MOST_DOORS = 30, 6

# Libraries: the header's prefix, and where it may be included.
LIBRARIES = [
    (r"(torch|ATen|c10)/", r"(nn|engine|tools|bindings|examples|tests)/"),
    (r"boost/", r"transports/tcp/"),
    (r"infiniband/", r"(transports/ibverbs|tests)/"),
    (r"mpi\.h$", r"(transports/mpi/|bindings/mpi/|include/tutti_mpi\.hpp|benchmarks/peers/|tests/|examples/)"),
    (r"gloo/", r"(transports/gloo|benchmarks/peers|tests)/"),
    (r"(CLI|fmt)/", r"(engine|tools|benchmarks|examples|tests)/"),
    (r"(nlohmann|yaml-cpp)/", r"(engine|benchmarks|tests)/"),
    (r"(hdf5|jpeglib|png)\.h$", r"(engine/data|tests)/"),
    (r"zlib\.h$", r"(engine|tools|tests)/"),
    (r"(gtest|gmock)/", r"tests/"),
    (r"benchmark/", r"tests/"),
]
SYSTEM = re.compile(r"(sys|linux|net|netinet|arpa|asm|bits)/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
FEATURE_TEST = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b.*\bHAVE_\w+", re.M)
THIRD_PARTY = (".txt", ".cmake", ".md", "third_party/install")


def quoted_problem(name, target):
    for floor, allowed in FLOORS:
        if not re.match(floor, name):
            continue
        if allowed is None:
            return None
        folder = re.escape(name.rsplit("/", 1)[0] + "/")
        if any(re.match(prefix.replace("{folder}", folder), target) for prefix in allowed):
            return None
        return f'a file of {floor.rstrip("$")} must not include "{target}"'
    return None


def room_of(name):
    """The room of a file of the engine; None for one that stands in no room and is no door."""
    folder = name.removeprefix("engine/").rpartition("/")[0]
    return DOORS.get(name, folder if folder in ROOMS else None)


def rooms_problems(includes):
    """What is wrong with the rooms of the engine; `includes` has pairs of a file and what it includes by a quoted path."""
    problems, arrows = [], set()
    for name, target in includes:
        if not (name.startswith("engine/") and target.startswith("engine/")):
            continue
        here, there = room_of(name), room_of(target)
        if here is None or there is None:
            problems.append(f"{name} includes {target}: one of them is in no room (ROOMS and DOORS in tests/lint/floors.py)")
        elif ROOMS.index(there) > ROOMS.index(here):
            problems.append(f"{name}: the room {here} must not include {target}, as {there} is above it")
        elif here != there:
            arrows.add((here, there))
    if len(arrows) > MOST_ARROWS:
        problems.append(f"engine: {len(arrows)} pairs of rooms know each other, budget {MOST_ARROWS}")
    return problems


def angled_problem(name, target):
    for library, places in LIBRARIES:
        if re.match(library, target):
            return None if re.match(places, name) else f"<{target}> belongs in {places} only"
    upper = re.match(r"(tools|benchmarks|bindings|examples|tests|engine|nn)/", name)
    if "/" in target and not SYSTEM.match(target) and not upper:
        return f"<{target}>: this floor knows std and POSIX only"
    return None


def installed_problems(names):
    """Headers that an installed one includes, and that are not installed."""
    # The sources of the PyTorch backend are part of a wheel, and compiled beside what it installs.
    shipped = {name for name in names if re.match(r"(include|nn|engine)/.*\.hpp$|bindings/torch/\w+\.[ch]pp$", name)}
    problems = []
    for name in sorted(shipped):
        for kind, target in INCLUDE.findall(common.text(name)):
            if kind == '"' and target in names and target not in shipped:
                problems.append(f'{name}: is installed, but "{target}", which it includes, is not (cmake/TuttiInstall.cmake)')
    return problems


def main():
    problems, names = [], common.files(*common.CPP)
    for name in names:
        source = common.text(name)
        for match in INCLUDE.finditer(source):
            check = quoted_problem if match[1] == '"' else angled_problem
            problem = check(name, match[2])
            if problem:
                problems.append(f"{name}:{source.count(chr(10), 0, match.start(2)) + 1}: {problem}")
        for match in FEATURE_TEST.finditer(source):
            line = source.count("\n", 0, match.start()) + 1
            problems.append(f"{name}:{line}: no HAVE_ tests in the logic; make it a part of its own (cmake/TuttiOptions.cmake)")
    problems += installed_problems(names)
    problems += rooms_problems((name, target) for name in names if name.startswith("engine/")
                               for kind, target in INCLUDE.findall(common.text(name)) if kind == '"')
    loose = [name for name in common.files() if re.fullmatch(r"engine/[^/]+", name)]
    if len(loose) > MOST_DOORS:
        problems.append(f"engine: {len(loose)} files stand in no room, budget {MOST_DOORS}: {', '.join(loose)}")
    for name in common.files():
        if name.startswith("third_party/") and not name.endswith(THIRD_PARTY):
            problems.append(f"{name}: third_party holds finders and lists, no library sources")
    common.report("floors", problems, f"{len(names)} files")


if __name__ == "__main__":
    main()
