// `tutti agent`: starts the ranks of one host, for a launcher on another host.
#include "tools/command.hpp"

#include <CLI/CLI.hpp>

#include "tools/agent/agent.hpp"
#include "tools/options.hpp"

namespace tutti::tools {
namespace {

int run(const std::vector<std::string>& arguments) {
  CLI::App app(
      "tutti agent\nWhat `tutti run --hosts` starts on each host. It is told by its stdin what to run, and is of no "
      "use by hand.",
      "tutti agent");
  parse(app, arguments);
  return run_agent();
}

}  // namespace

extern const Command agent_command = {"what `tutti run --hosts` starts on each host", run};

}  // namespace tutti::tools
