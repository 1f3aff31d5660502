"""The checks themselves: each finds what is planted for it, and leaves the rest alone."""

import unittest
import unittest.mock

import budgets
import ci_table
import common
import floors
import openings
import words


class Floors(unittest.TestCase):
    def test_arrows(self):
        allowed = [("transports/core/a.cpp", "transports/core/b.hpp"), ("transports/shm/a.cpp", "tutti/provider/transport.hpp"),
                   ("transports/shm/a.cpp", "transports/shm/ring.hpp"), ("transports/shm/a.cpp", "transports/stream/transport.hpp"),
                   ("collectives/plan/x.cpp", "tutti/provider/backend.hpp"),
                   ("collectives/api/x.cpp", "collectives/route/rules.hpp"), ("collectives/mesh/x.cpp", "tutti/communicator.hpp"),
                   ("nn/x.cpp", "tutti.hpp"), ("engine/a/x.cpp", "nn/bucket.hpp"), ("tools/x.cpp", "transports/shm/ring.hpp"),
                   ("transports/tcp/settings.hpp", "tutti/settings.hpp"), ("transports/tcp/x.cpp", "transports/tcp/settings.hpp"),
                   ("tools/bench/x.cpp", "benchmarks/versus/versus.hpp"), ("benchmarks/versus/x.cpp", "tools/bench/sweep.hpp")]
        forbidden = [("transports/core/a.cpp", "tutti/provider/transport.hpp"), ("transports/transport.cpp", "transports/shm/ring.hpp"),
                     ("transports/staged/a.cpp", "transports/stream/transport.hpp"), ("transports/stream/a.cpp", "transports/tcp/wire.hpp"),
                     ("transports/shm/a.cpp", "transports/tcp/link.hpp"), ("transports/shm/a.cpp", "collectives/plan/schedule.hpp"),
                     ("transports/tcp/settings.hpp", "tutti/provider/provider.hpp"), ("transports/tcp/settings.hpp", "transports/tcp/link.hpp"),
                     ("collectives/api/x.cpp", "transports/shm/ring.hpp"), ("nn/x.cpp", "engine/loop.hpp"),
                     ("engine/x.cpp", "tools/command.hpp"), ("collectives/plan/x.cpp", "collectives/runtime/context.hpp"),
                     ("collectives/runtime/x.cpp", "collectives/route/rules.hpp"), ("collectives/api/x.cpp", "tutti/mesh.hpp"),
                     ("tools/bench/x.cpp", "benchmarks/versus/comparison.hpp"), ("tools/tune/x.cpp", "benchmarks/versus/versus.hpp"),
                     ("benchmarks/versus/x.cpp", "tools/run/job.hpp"), ("benchmarks/versus/x.cpp", "transports/shm/ring.hpp")]
        for name, target in allowed:
            self.assertIsNone(floors.quoted_problem(name, target), (name, target))
        for name, target in forbidden:
            self.assertIsNotNone(floors.quoted_problem(name, target), (name, target))

    def test_rooms(self):
        right = [("engine/loop/x.cpp", "engine/config.hpp"), ("engine/server/x.cpp", "engine/trainer.hpp"),
                 ("engine/data/formats/x.cpp", "engine/data/array.hpp"), ("engine/loop/x.cpp", "nn/bucket.hpp")]
        wrong = [("engine/config/x.cpp", "engine/models/model.hpp"), ("engine/data/x.cpp", "engine/data/formats/idx.hpp"),
                 ("engine/strategies/x.cpp", "engine/trainer.hpp"), ("engine/loop/x.cpp", "engine/x.hpp")]
        self.assertEqual(floors.rooms_problems(right), [])
        for pair in wrong:
            self.assertEqual(len(floors.rooms_problems([pair])), 1, pair)
        with unittest.mock.patch.object(floors, "MOST_ARROWS", 2):
            self.assertEqual(len(floors.rooms_problems(right)), 1)

    def test_libraries(self):
        self.assertIsNone(floors.angled_problem("transports/tcp/x.cpp", "boost/asio.hpp"))
        self.assertIsNone(floors.angled_problem("transports/core/x.cpp", "sys/mman.h"))
        self.assertIsNotNone(floors.angled_problem("transports/shm/x.cpp", "boost/asio.hpp"))
        self.assertIsNotNone(floors.angled_problem("collectives/x.cpp", "torch/torch.h"))
        self.assertIsNotNone(floors.angled_problem("collectives/x.cpp", "fmt/format.h"))

    def test_what_is_installed_is_complete(self):
        self.assertEqual(floors.installed_problems(common.files(*common.CPP)), [])
        header, inner = "include/tutti/status.hpp", common.files("transports/core/host.hpp")
        with unittest.mock.patch.object(common, "text", lambda name: f'#include "{inner[0]}"' if name == header else ""):
            self.assertEqual(len(floors.installed_problems([header, *inner])), 1)

    def test_feature_tests(self):
        self.assertTrue(floors.FEATURE_TEST.search("#if" + "def HAVE_SHM"))
        self.assertFalse(floors.FEATURE_TEST.search("#ifdef __linux__"))


class Budgets(unittest.TestCase):
    @staticmethod
    def over(source):
        return [subject for kind, subject, _, exceeds in budgets.measure("x.cpp", source) if exceeds]

    def test_functions(self):
        body = "  step();\n" * 70
        self.assertEqual(self.over("namespace a {\nint f(int x) {\n" + body + "}\n}\n"), ["x.cpp f"])
        self.assertEqual(self.over("struct A {\n  A() : x_{1}, y_{2} {\n" + body + "  }\n};\n"), ["x.cpp A"])
        self.assertEqual(self.over("TEST(Ring, Turns) {\n" + body + "}\n"), ["x.cpp (Ring,Turns)"])
        self.assertEqual(self.over("int f() {\n  if (x) {\n  }\n}\n" * 30), [])
        self.assertEqual(self.over("const int table[] = {\n" + "  1,\n" * 90 + "};\nenum class E {\n" + "  a,\n" * 90 + "};\n"), [])
        self.assertEqual(self.over("// void f() {\nconst char* s = \"{\";\n" + "int x;\n" * 90), [])

    def test_interfaces(self):
        methods = "  virtual void f() = 0;\n"
        self.assertEqual(self.over("class I {\n  virtual ~I();\n" + methods * 10 + "};\n"), [])
        self.assertEqual(self.over("class I {\n" + methods * 11 + "};\n"), ["x.cpp I"])


class Words(unittest.TestCase):
    def found(self, line):
        return [why for pattern, why in words.BANNED if pattern.search(line)]

    def test_banned(self):
        for line in ("see /ho" + "me/me/x", "// TO" + "DO", "fixes iss" + "ue #3", "in an earlier ses" + "sion"):
            self.assertTrue(self.found(line), line)

    def test_allowed(self):
        for line in ("setsid() starts a new session", "// TO" + "DO: fold from the peer's memory", "the frame/work unit", "an issue of order"):
            self.assertFalse(self.found(line), line)


class CiTable(unittest.TestCase):
    TABLE = ci_table.HEADING + "\n\n| part | job |\n|---|---|\n| `a` | `parts` |\n| `b` | `parts` |\n| g++ | `others` |\n\n## Next\n\n| c | parts |\n"
    WORKFLOW = ("on:\n  push:\njobs:\n  parts:\n    strategy:\n      matrix:\n        part: [a, b]\n    steps:\n"
                "      - run: tests/run --part ${{ matrix.part }}\n  others:\n    steps: []\n")

    def test_alike(self):
        self.assertEqual(ci_table.differences(self.TABLE, self.WORKFLOW, ["a", "b"]), [])

    def test_different(self):
        for table, workflow, parts, problems in (
                (self.TABLE.replace("`b`", "`d`"), self.WORKFLOW, ["a", "b"], 2), (self.TABLE, self.WORKFLOW.replace("a, b", "a"), ["a", "b"], 1),
                (self.TABLE, self.WORKFLOW, ["a", "b", "c"], 2), (self.TABLE, self.WORKFLOW.replace("others", "more"), ["a", "b"], 2),
                (self.TABLE, self.WORKFLOW.replace("--part $", "--full $"), ["a", "b"], 1), ("", self.WORKFLOW, ["a", "b"], 1),
                (self.TABLE, self.WORKFLOW.replace("a, b", "a, b, b"), ["a", "b"], 1)):
            self.assertEqual(len(ci_table.differences(table, workflow, parts)), problems, (table, workflow, parts))


class Openings(unittest.TestCase):
    def test_opening(self):
        self.assertEqual(openings.opening("// Ring: two phases.\n// rounds 2(p-1)\n\nint x;"), "Ring: two phases. rounds 2(p-1)")
        self.assertEqual(openings.opening("#include <x>\n// late"), "")

    def test_code_only_keeps_lines(self):
        source = "a /* x\ny */ b\n\"//no\" 'c' 1'000'000 R\"(raw {\n)\"\n"
        self.assertEqual(common.code_only(source).count("\n"), source.count("\n"))
        self.assertNotIn("{", common.code_only(source))
        self.assertIn("1'000'000", common.code_only(source))


if __name__ == "__main__":
    unittest.main()
