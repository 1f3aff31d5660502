// growth_laws: how what tutti holds, asks and sends grows with the number of ranks.
#include <cstdio>
#include <cstring>
#include <string>

#include "benchmarks/growth/law.hpp"

using namespace tutti::growth;

int main(int argc, char** argv) {
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
                   "usage: growth_laws [--times] [--part start|memory|plans|calls|server|training]\n"
                   "Prints the table of laws; ends with 1 if one does not hold. --times also measures the rows that "
                   "are times.\n");
      return 2;
    }
  }
  std::vector<Law> laws;
  for (const auto& some : {start_laws(), memory_laws(), plan_laws(), call_laws(), server_laws(), training_laws()})
    for (const Law& law : some)
      if ((wanted.empty() || law.part == wanted) && (times || law.judged)) laws.push_back(law);
  if (laws.empty()) {
    std::fprintf(stderr, "growth_laws: there is no part '%s'; say start, memory, plans, calls, server or training\n",
                 wanted.c_str());
    return 2;
  }
  std::vector<Measured> rows;
  bool all_hold = true;
  for (const Law& law : laws) {
    rows.push_back(measure(law));
    all_hold &= rows.back().holds();
  }
  std::fputs(table_of(rows).c_str(), stdout);
  return all_hold ? 0 : 1;
}
