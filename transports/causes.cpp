// The texts of common causes.
#include "transports/causes.hpp"

#include <string>

#include "tutti/collective.hpp"

namespace tutti {

Cause mismatch(const Tag& tag, const End& sender, const End& receiver, int reporter) {
  const auto call = [](const End& end) { return describe(Signature{end.call}); };
  const std::string from = "rank " + std::to_string(sender.rank), to = "rank " + std::to_string(receiver.rank);
  Cause why;
  why.code = Code::mismatch;
  why.reporter = reporter;
  why.group = tag.group;
  if (sender.call != receiver.call)
    why.say(from + " called " + call(sender) + ", " + to + " called " + call(receiver) +
            "; make every rank of the communicator issue the same calls in the same order");
  else
    why.say(from + " sends " + std::to_string(sender.bytes) + " bytes and " + to + " expects " +
            std::to_string(receiver.bytes) + " in " + call(sender) + "; make the counts of the ranks agree");
  return why;
}

Cause ended(int peer, int reporter) {
  Cause why;
  why.code = Code::peer_lost;
  why.culprit = peer;
  why.reporter = reporter;
  why.say("rank " + std::to_string(peer) +
          " has ended (normally) and takes part in nothing more; check that all ranks make the same calls before "
          "they leave");
  return why;
}

Status check_algorithm_name(std::string_view backend, std::string_view algorithm, std::optional<Kind> kind,
                            std::span<const std::string_view> known) {
  const std::string who(backend), of_what(kind ? name(*kind) : "any collective");
  if (known.empty()) return Status::failure(Code::unsupported, who + " has no " + of_what);
  std::string names;
  for (const std::string_view one : known) {
    if (one == algorithm) return {};
    if (!one.empty()) names += (names.empty() ? ", but " : ", ") + std::string(one);
  }
  if (names.empty()) names = "; it chooses by itself: write '" + who + "'";
  return Status::failure(Code::invalid,
                         who + " has no algorithm '" + std::string(algorithm) + "' for " + of_what + names);
}

}  // namespace tutti
