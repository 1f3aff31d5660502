// growth_laws: how tutti's memory, requests and messages grow with the number of ranks.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "benchmarks/growth/law.hpp"

namespace {

using namespace tutti::growth;

std::vector<Law> all_laws() {
  std::vector<Law> laws;
  for (const auto& some : {start_laws(), memory_laws(), descriptor_laws(), late_laws(), plan_laws(), call_laws(),
                           launcher_laws(), server_laws(), training_laws(),
#ifdef TUTTI_GROWTH_CHECKPOINTS
                           checkpoint_laws()
#endif
       })
    laws.insert(laws.end(), some.begin(), some.end());
  return laws;
}

/// "start, memory, ..."
std::string parts_of(const std::vector<Law>& laws) {
  std::string parts, last;
  for (const Law& law : laws) {
    if (law.part != last) parts += (last.empty() ? "" : ", ") + law.part;
    last = law.part;
  }
  return parts;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Law> laws = all_laws();
  std::string wanted;
  bool times = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--times") {
      times = true;
    } else if (word == "--part" && i + 1 < argc) {
      wanted = argv[++i];
    } else {
      std::fprintf(stderr,
                   "usage: growth_laws [--times] [--part PART]\n"
                   "Prints the table of laws; ends with 1 if one does not hold. --times also measures the rows that "
                   "are times. Parts: %s.\n",
                   parts_of(laws).c_str());
      return 2;
    }
  }
  std::vector<Measured> rows;
  bool all_hold = true, found = false;
  for (const Law& law : laws) {
    if (!wanted.empty() && law.part != wanted) continue;
    found = true;
    if (!times && !law.judged) continue;
    try {
      rows.push_back(measure(law));
      all_hold &= rows.back().holds();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "growth_laws: %s: %s: %s\n", law.part.c_str(), law.quantity.c_str(), error.what());
      all_hold = false;
    }
  }
  if (!found) {
    std::fprintf(stderr, "growth_laws: there is no part '%s'; there are %s\n", wanted.c_str(), parts_of(laws).c_str());
    return 2;
  }
  std::fputs(table_of(rows).c_str(), stdout);
  return all_hold ? 0 : 1;
}
