// The peers that were built or named, and which of them can be run.
#include "benchmarks/versus/peer_list.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "transports/core/host.hpp"
#include "tutti/status.hpp"

namespace tutti::bench {
namespace {

constexpr double patience_with_a_version = 30;  // seconds

std::string name_of(const std::string& chosen) { return chosen.substr(0, chosen.find(':')); }

std::string variant_of(const std::string& chosen) {
  const std::size_t colon = chosen.find(':');
  return colon == std::string::npos ? "" : chosen.substr(colon + 1);
}

[[noreturn]] void bad_peer(const std::string& spec, const std::string& why) {
  throw Error(Code::invalid, fmt::format("--peer {}: {}; it is NAME=MPICXX,MPIEXEC[,VARIABLE=VALUE...]", spec, why));
}

/// Path of a built program, in bench-peers/ beside tutti or installed in libexec/tutti/bench-peers/.
std::string built_program(const std::string& name) {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const auto& place : {folder / "bench-peers", folder.parent_path() / "libexec/tutti/bench-peers"})
    if (const std::string file = find_executable((place / name).string()); !file.empty()) return file;
  return "";
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

}  // namespace

Command Selection::command(int ranks, const std::vector<std::string>& words, bool full) const {
  Command command;
  command.words = {peer.launcher};
  if (peer.family == "gloo") command.words = {std::filesystem::read_symlink("/proc/self/exe").string(), "run"};
  for (const std::string& word :
       {peer.family == "gloo" ? std::string("-np") : std::string("-n"), std::to_string(ranks), peer.program})
    command.words.push_back(word);
  command.words.insert(command.words.end(), words.begin(), words.end());
  const bool crowded = ranks > usable_cores();
  const auto unless_set = [&](const Environment& settings) {
    for (const auto& [variable, value] : settings)
      if (!std::getenv(variable.c_str())) command.environment[variable] = value;
  };
  unless_set(family.always);
  if (crowded) unless_set(family.crowded);
  for (const auto& [variable, value] : peer.environment) command.environment[variable] = value;
  if (!full) return command;
  for (const auto& [variable, value] : variant.environment) command.environment[variable] = value;
  if (crowded)
    for (const auto& [variable, value] : variant.crowded) command.environment[variable] = value;
  return command;
}

PeerList::PeerList(const Request& request) : verbose_(request.verbose) {
  read_variants(share_folder() + "/variants.yaml", families_);
  if (!request.variants.empty()) read_variants(request.variants, families_);
  add_built();
  for (const std::string& spec : request.peers) add_named(spec);
  if (request.list_peers) return;
  chosen_ = request.versus;
  for (const std::string& chosen : chosen_) check(chosen);
  for (const Peer& peer : peers_) {
    const auto is_this = [&](const std::string& chosen) { return name_of(chosen) == peer.name; };
    if (!peer.compiler.empty() && std::none_of(chosen_.begin(), chosen_.end(), is_this)) chosen_.push_back(peer.name);
  }
}

void PeerList::add_built() {
  for (const auto& entry : YAML::LoadFile(share_folder() + "/built.yaml")) {
    Peer peer;
    peer.name = peer.family = entry.first.as<std::string>();
    peer.launcher = entry.second["launcher"].as<std::string>("");
    peer.missing = entry.second["missing"].as<std::string>("");
    if (peer.missing.empty()) peer.program = built_program(peer.name);
    if (peer.missing.empty() && peer.program.empty())
      peer.missing = "its program is not there: build all of tutti, or install it again";
    else if (peer.missing.empty() && !peer.launcher.empty() && find_executable(peer.launcher).empty())
      peer.missing = "its launcher " + peer.launcher + " has gone since tutti was built: install it again";
    peers_.push_back(peer);
  }
}

void PeerList::add_named(const std::string& spec) {
  const std::size_t equals = spec.find('=');
  if (equals == std::string::npos || equals == 0) bad_peer(spec, "it has no name");
  Peer peer;
  peer.name = spec.substr(0, equals);
  const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; };
  if (!std::all_of(peer.name.begin(), peer.name.end(), fits) || peer.name == "tutti" || peer.name == "help")
    bad_peer(spec, "'" + peer.name + "' is no name for a peer");
  std::vector<std::string> parts;
  std::istringstream stream(spec.substr(equals + 1));
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  if (parts.size() < 2) bad_peer(spec, "it needs two programs, the compiler and the launcher");
  peer.compiler = find_executable(parts[0]);
  peer.launcher = find_executable(parts[1]);
  if (peer.compiler.empty()) bad_peer(spec, "there is no program '" + parts[0] + "' to compile with");
  if (peer.launcher.empty()) bad_peer(spec, "there is no program '" + parts[1] + "' to start it with");
  for (std::size_t i = 2; i < parts.size(); ++i) {
    const std::size_t at = parts[i].find('=');
    if (at == std::string::npos || at == 0) bad_peer(spec, "'" + parts[i] + "' is no VARIABLE=VALUE");
    peer.environment[parts[i].substr(0, at)] = parts[i].substr(at + 1);
  }
  const auto same = std::find_if(peers_.begin(), peers_.end(), [&](const Peer& one) { return one.name == peer.name; });
  if (same == peers_.end()) {
    peers_.push_back(peer);
  } else {
    if (!same->compiler.empty()) bad_peer(spec, "the name '" + peer.name + "' was given twice");
    *same = peer;  // replaces the one that was built
  }
}

const Peer* PeerList::find(const std::string& name) const {
  const auto found = std::find_if(peers_.begin(), peers_.end(), [&](const Peer& one) { return one.name == name; });
  return found == peers_.end() ? nullptr : &*found;
}

void PeerList::check(const std::string& chosen) const {
  const Peer* peer = find(name_of(chosen));
  if (!peer) {
    std::vector<std::string> names;
    for (const Peer& one : peers_) names.push_back(one.name);
    throw Error(Code::invalid,
                fmt::format("--versus {}: there is no such peer: there are {}; name another MPI by --peer", chosen,
                            joined(names)));
  }
  const std::string variant = variant_of(chosen);
  if (variant.empty()) return;
  std::vector<std::string> names;
  for (const auto& [family, what] : families_)
    if (peer->family.empty() || peer->family == family)
      for (const auto& [name, ignored] : what.variants) names.push_back(name);
  if (std::find(names.begin(), names.end(), variant) == names.end())
    throw Error(Code::invalid, fmt::format("--versus {}: there is no variant '{}' of it: there are {}", chosen, variant,
                                           names.empty() ? "none" : joined(names)));
}

Selection PeerList::select(const std::string& chosen) const {
  Selection selection;
  selection.label = chosen;
  selection.peer = *find(name_of(chosen));
  Peer& peer = selection.peer;
  if (!peer.missing.empty()) throw Error(Code::unsupported, peer.missing);
  if (peer.program.empty()) peer.program = compile_peer(peer, verbose_);
  const Outcome outcome = run_to_end({{peer.program, "about"}, peer.environment}, patience_with_a_version, verbose_);
  const std::size_t colon = outcome.out.find(": ");
  if (!outcome.ok() || colon == std::string::npos)
    throw Error(Code::unsupported, fmt::format("its program does not start ({}): is the library of {} complete?",
                                               outcome.why(), peer.launcher));
  peer.family = outcome.out.substr(0, colon);
  selection.version = outcome.out.substr(colon + 2, outcome.out.find('\n') - colon - 2);
  if (const auto family = families_.find(peer.family); family != families_.end()) selection.family = family->second;
  selection.variant.transport = selection.family.transport;
  if (const std::string name = variant_of(chosen); !name.empty()) {
    const auto variant = selection.family.variants.find(name);
    if (variant == selection.family.variants.end())
      throw Error(Code::unsupported, fmt::format("it is {}, of which there is no variant '{}'", peer.family, name));
    selection.variant = variant->second;
    if (selection.variant.transport.empty()) selection.variant.transport = selection.family.transport;
  }
  return selection;
}

std::string PeerList::describe() const {
  std::string text;
  for (const Peer& peer : peers_) {
    text += fmt::format("{:<12} {}\n", peer.name,
                        !peer.missing.empty()   ? "not here: " + peer.missing
                        : peer.compiler.empty() ? "here: " + peer.program
                                                : "named: to be compiled with " + peer.compiler);
    const auto family = families_.find(peer.family);
    if (family == families_.end()) continue;
    for (const auto& [name, variant] : family->second.variants)
      text += fmt::format("  {:<24} {}\n", peer.name + ":" + name, variant.about);
  }
  text += "Another MPI: --peer NAME=MPICXX,MPIEXEC[,VARIABLE=VALUE...]; its variants are those of its family:\n";
  for (const auto& [name, family] : families_) {
    std::string names;
    for (const auto& [variant, ignored] : family.variants) names += (names.empty() ? "" : ", ") + variant;
    if (name != "gloo" && !names.empty()) text += fmt::format("  {:<24} {}\n", family.title, names);
  }
  return text + "Settings: " + share_folder() + "/variants.yaml\n";
}

}  // namespace tutti::bench
