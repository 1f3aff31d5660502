// The protocol of the launcher and the agents: frames as both read them, reports of agents about ranks and hosts as the
// process above checks them, and a job as an agent parses it.
#include <unistd.h>

#include "tests/fuzz/door.hpp"
#include "tools/run/channel.hpp"
#include "tools/run/claims.hpp"
#include "tools/run/job.hpp"
#include "tools/run/job_text.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  int ends[2];
  expect(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
  const Descriptor in(ends[0]);
  Descriptor out(ends[1]);
  expect(::write(out.fd(), input.data(), input.size()) == static_cast<ssize_t>(input.size()), "a full pipe");
  tools::Channel channel(Descriptor(dup(in.fd())), std::move(out), std::string(tools::agent_greeting));
  channel.close_output();
  const std::vector<tools::Host> hosts = {{.name = "a", .ranks = {0, 1}}, {.name = "b", .ranks = {2}}};
  tools::Claims claims({{0, 2}}, hosts, 0);
  const bool refused = refuses([&] {
    channel.receive();
    while (const auto frame = channel.next()) {
      std::string folder;
      if (frame->say == tools::Say::job) refuses([&] { tools::parse_job(frame->text, folder); });
      claims.tell(*frame);
      refuses([&] { claims.take(0, *frame); });
    }
  });
  std::string folder;
  refuses([&] { tools::parse_job(std::string(text_of(input)), folder); });
  return !refused;
}

}  // namespace tutti::fuzz
