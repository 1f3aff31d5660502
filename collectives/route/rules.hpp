// Parsing and printing of selection rules.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/model/network.hpp"
#include "collectives/route/selector.hpp"

namespace tutti::rules {

/// The backend that stages device memory through host memory. Every communicator has it, as it has the built-in plans.
inline constexpr std::string_view staged = "staged";
/// Rule::source of the built-in rules.
inline constexpr std::string_view built_in_source = "built in";

/// `text` without leading and trailing blanks.
std::string_view trim(std::string_view text) noexcept;

/// The non-empty parts of `text` between separators, each trimmed.
std::vector<std::string_view> words(std::string_view text, char separator);

/// True for transports that only connect ranks of the same host.
constexpr bool stays_on_a_host(std::string_view transport) noexcept {
  return transport == "shm" || transport == "inproc";
}

/// Called for each skipped line, with its number from 1 and the reason.
using Unread = std::function<void(int line, std::string_view why)>;

/// As parse_rules(), but skips lines that cannot be parsed or that name an unknown backend: for files written by
/// another installation. '#' starts a comment.
std::vector<Rule> parse_leniently(std::string_view text, std::string_view source, const Known& known,
                                  const Unread& unread);

/// The network that the first sentence "network: ..." of the text describes; nullopt if there is none. Throws
/// Error{invalid} if it cannot be parsed.
std::optional<model::Network> network_in(std::string_view text);

/// Returns the network by which costs are estimated. The first sentence "network: ..." of the setting `select` decides.
/// Without one, the first of `tuned` does, or else `otherwise` (by default: hosts joined by TCP); the setting `net`
/// then changes the links of this network. Ignores an invalid sentence. Throws Error{invalid} for an invalid `net`.
model::Network network_of(const Settings& settings, std::string_view tuned,
                          const model::Network& otherwise = model::default_network());

/// Returns the first rule for calls with these facts from the settings or the measured rules, as text with its source.
/// A job on this machine follows that rule and does not choose by cost. Empty: there is none. Throws Error{invalid} for
/// invalid settings.
std::string before_costs(const Facts& facts, const Settings& settings, std::string_view tuned);

/// Throws Error{invalid} if the target's backend does not have the target's algorithm for the kind, or does not have
/// the kind at all. Without a kind it is enough if the backend has the algorithm for some kind. Opens the backend's
/// module if there is one. If the module cannot be opened, checks nothing: communicators that use the backend report
/// the reason.
void check_target(std::optional<Kind> kind, const Target& target, const Settings& settings);

}  // namespace tutti::rules
