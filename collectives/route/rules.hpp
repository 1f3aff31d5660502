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

/// The backend for device memory by way of the host. It exists in every communicator, like the built-in plans.
inline constexpr std::string_view staged = "staged";
/// The source of the rules that tutti brings.
inline constexpr std::string_view built_in_source = "built in";

/// `text` without leading and trailing blanks.
std::string_view trim(std::string_view text) noexcept;

/// The non-empty parts of `text` between separators, each trimmed.
std::vector<std::string_view> words(std::string_view text, char separator);

/// True for transports that connect ranks of one host alone.
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

/// What messages cost: by the first sentence "network: ..." of the setting `select`; or else of `tuned`, or `otherwise`
/// (hosts joined by TCP), with the links that the setting `net` gives to all ranks. Sentences of `tuned` that cannot be
/// parsed are passed over. Throws Error{invalid} for one of `select`.
model::Network network_of(const Settings& settings, std::string_view tuned,
                          const model::Network& otherwise = model::default_network());

/// The first rule of the settings or of measured rules, as text and with its source, that a job on this machine takes
/// for such calls before it chooses by cost; empty: none. Throws Error{invalid} for settings that jobs refuse.
std::string before_costs(const Facts& facts, const Settings& settings, std::string_view tuned);

/// Throws Error{invalid} if the target's backend does not have its algorithm for the kind (nullopt: for no kind), or
/// does not have the kind at all. Opens the backend's module if there is one; if it cannot be opened, nothing is
/// checked, and the communicators that name the backend say why it cannot be used.
void check_target(std::optional<Kind> kind, const Target& target, const Settings& settings);

}  // namespace tutti::rules
