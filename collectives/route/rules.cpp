#include "collectives/route/rules.hpp"

#include <algorithm>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/planned_backend.hpp"
#include "transports/causes.hpp"
#include "transports/core/link_shape.hpp"
#include "tutti/provider/provider.hpp"
#include "tutti/settings.hpp"

namespace tutti {

namespace rules {

std::string_view trim(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::vector<std::string_view> words(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    if (const auto part = trim(text.substr(0, end)); !part.empty()) parts.push_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

}  // namespace rules

namespace {

using rules::trim;

constexpr std::string_view network_word = "network";

[[noreturn]] void refuse(std::string_view part, const std::string& why) {
  throw Error(Code::invalid, "cannot read the selection rule '" + std::string(part) + "': " + why +
                                 "; write for example 'allreduce: ..64K=recursive_doubling, 64K.. ranks 3..=ring'");
}

// Parses "LOW..HIGH"; either bound may be missing.
Span parse_span(std::string_view text, std::string_view part) {
  const auto dots = text.find("..");
  if (dots == std::string_view::npos) refuse(part, "a range LOW..HIGH is missing");
  Span span;
  if (const auto left = trim(text.substr(0, dots)); !left.empty())
    span.low = static_cast<std::size_t>(parse_bytes(left));
  if (const auto right = trim(text.substr(dots + 2)); !right.empty())
    span.high = static_cast<std::size_t>(parse_bytes(right));
  if (span.low > span.high) refuse(part, "the range is empty");
  return span;
}

// Removes the clause "WORD ..." from the end of `text` and returns what follows the word; nullopt if there is none.
std::optional<std::string_view> cut_clause(std::string_view& text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || text[at - 1] == ' ' || text[at - 1] == '.' || text[at - 1] == '\t';
    const std::size_t end = at + word.size();
    if (!begins || end >= text.size() || (text[end] != ' ' && text[end] != '\t')) continue;
    const std::string_view clause = trim(text.substr(end));
    text = trim(text.substr(0, at));
    return clause;
  }
  return std::nullopt;
}

std::string joined(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The algorithms of a backend for a kind; nullopt: unknown, for example because its module cannot be opened.
std::optional<std::vector<std::string_view>> algorithms_of_backend(const std::string& backend, Kind kind,
                                                                   const Settings& settings) {
  if (backend == PlannedBackend::own_name) return algorithms_of(kind);
  if (backend == rules::staged) return std::vector<std::string_view>{""};
  const Provider* const provider = find_provider(backend, settings).provider;
  if (provider == nullptr || provider->algorithms == nullptr) return std::nullopt;
  const auto known = provider->algorithms(kind);
  return std::vector<std::string_view>(known.begin(), known.end());
}

Rule parse_rule(std::optional<Kind> kind, std::string_view part, std::string_view source, const Known& known) {
  const auto equals = part.find('=');
  if (equals == std::string_view::npos) refuse(part, "'=algorithm' is missing");
  std::string_view condition = trim(part.substr(0, equals));
  Rule rule;
  rule.kind = kind;
  rule.source = source;
  // Clauses are removed from the end, in this order.
  if (const auto device = cut_clause(condition, "on")) {
    if (*device != "cpu" && *device != "cuda") refuse(part, "'on' takes cpu or cuda");
    rule.device = *device == "cpu" ? Device::Kind::cpu : Device::Kind::cuda;
  }
  if (const auto hosts = cut_clause(condition, "hosts")) rule.hosts = parse_span(*hosts, part);
  if (const auto ranks = cut_clause(condition, "ranks")) rule.ranks = parse_span(*ranks, part);
  rule.bytes = parse_span(condition, part);
  try {
    rule.target = parse_target(part.substr(equals + 1), kind, known.backends);
    rules::check_target(kind, rule.target, known.settings);
  } catch (const Error& error) {
    refuse(part, error.what());
  }
  return rule;
}

void parse_sentence(std::string_view sentence, std::string_view source, const Known& known, std::vector<Rule>& found) {
  const auto colon = sentence.find(':');
  if (colon == std::string_view::npos) refuse(sentence, "'kind:' is missing");
  const auto word = trim(sentence.substr(0, colon));
  if (word == network_word) {
    try {
      model::parse_network(sentence.substr(colon + 1));
    } catch (const Error& error) {
      refuse(sentence, error.what());
    }
    return;
  }
  const auto kind = parse_kind(word);
  if (!kind && word != "*")
    refuse(sentence,
           "there is no collective '" + std::string(word) + "', nor is it '" + std::string(network_word) + "'");
  for (const auto part : rules::words(sentence.substr(colon + 1), ','))
    found.push_back(parse_rule(kind, part, source, known));
}

std::string to_string(const Span& span) {
  return (span.low > 0 ? std::to_string(span.low) : "") + ".." +
         (span.high != SIZE_MAX ? std::to_string(span.high) : "");
}

bool everything(const Span& span) noexcept { return span.low == 0 && span.high == SIZE_MAX; }

}  // namespace

Target parse_target(std::string_view text, std::optional<Kind> kind, std::span<const std::string> backends) {
  const std::string word(trim(text));
  const std::string planned(PlannedBackend::own_name);
  const auto is_backend = [&](const std::string& name) {
    return name == planned || std::ranges::count(backends, name);
  };
  if (const auto slash = word.find('/'); slash != std::string::npos) {
    Target target{std::string(trim(word.substr(0, slash))), std::string(trim(word.substr(slash + 1)))};
    if (!is_backend(target.backend))
      throw Error(Code::invalid, "there is no backend '" + target.backend + "' here, but " + planned +
                                     (backends.empty() ? "" : ", ") + joined(backends));
    if (kind && target.backend == planned) rules::check_target(kind, target, {});
    return target;
  }
  if (kind && find_algorithm(*kind, word) != nullptr) return {planned, word};
  if (is_backend(word)) return {word, {}};
  const std::string known = planned + (backends.empty() ? "" : ", ") + joined(backends);
  const std::string others = " (and the backends " + known + ")";
  if (!kind)
    throw Error(Code::invalid, "there is no backend '" + word + "' here, but " + known +
                                   "; `tutti info` says what else could be built");
  throw Error(Code::invalid,
              std::string(name(*kind)) + " has no algorithm '" + word + "', but " + algorithm_names(*kind) + others);
}

void rules::check_target(std::optional<Kind> kind, const Target& target, const Settings& settings) {
  if (!kind && target.algorithm.empty()) return;
  std::vector<std::string_view> all;
  for (int each = 0; each < kind_count; ++each) {
    const auto one = static_cast<Kind>(each);
    if (one == Kind::send || (kind && one != *kind)) continue;
    const auto known = algorithms_of_backend(target.backend, one, settings);
    if (!known) return;
    for (const std::string_view name : *known)
      if (std::ranges::count(all, name) == 0) all.push_back(name);
  }
  // A target without an algorithm leaves the choice to the backend.
  const std::string_view name = target.algorithm.empty() && !all.empty() ? all.front() : target.algorithm;
  if (const Status able = check_algorithm_name(target.backend, name, kind, all); !able.ok())
    throw Error(Code::invalid, std::string(able.text()));
}

std::vector<Rule> parse_rules(std::string_view text, std::string_view source, const Known& known) {
  std::vector<Rule> found;
  for (const auto sentence : rules::words(text, ';')) parse_sentence(sentence, source, known, found);
  return found;
}

std::vector<Rule> rules::parse_leniently(std::string_view text, std::string_view source, const Known& known,
                                         const Unread& unread) {
  std::vector<Rule> found;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    for (const auto sentence : words(line.substr(0, line.find('#')), ';')) {
      try {
        std::vector<Rule> whole;
        parse_sentence(sentence, source, known, whole);
        std::ranges::move(whole, std::back_inserter(found));
      } catch (const Error& error) {
        unread(number, error.what());
      }
    }
  }
  return found;
}

std::optional<model::Network> rules::network_in(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    for (const auto sentence : words(line.substr(0, line.find('#')), ';')) {
      const auto colon = sentence.find(':');
      if (colon != std::string_view::npos && trim(sentence.substr(0, colon)) == network_word)
        return model::parse_network(sentence.substr(colon + 1));
    }
  }
  return std::nullopt;
}

namespace {

std::optional<model::Network> described(std::string_view text) {
  try {
    return rules::network_in(text);
  } catch (const Error&) {
    return std::nullopt;  // the functions that parse the rules report it
  }
}

}  // namespace

model::Network rules::network_of(const Settings& settings, std::string_view tuned, const model::Network& otherwise) {
  if (const auto network = described(settings.select)) return *network;
  model::Network network = described(tuned).value_or(otherwise);
  if (settings.net.empty()) return network;
  const LinkShape shape = parse_link_shape(settings.net);
  const double latency = std::chrono::duration<double>(shape.latency).count();
  for (const model::Level level : {model::Level::within, model::Level::between}) {  // `net` applies to both levels
    model::Link& link = network[level];
    link.latency += latency;
    if (shape.bits_per_second > 0) link.per_byte = std::max(link.per_byte, 8 / shape.bits_per_second);
  }
  if (network.tells_racks()) network[model::Level::beyond].latency += latency;
  return network;
}

std::string rules::before_costs(const Facts& facts, const Settings& settings, std::string_view tuned) {
  const Selector selector(settings, tuned, provider_names(settings));
  for (const Rule& rule : selector.rules())
    if (rule.source != rules::built_in_source && rule.matches(facts))
      return "'" + to_string(rule) + "' (" + rule.source + ")";
  return {};
}

std::string to_string(const Rule& rule) {
  std::string text(rule.kind ? name(*rule.kind) : "*");
  text += ": " + to_string(rule.bytes);
  if (!everything(rule.ranks)) text += " ranks " + to_string(rule.ranks);
  if (!everything(rule.hosts)) text += " hosts " + to_string(rule.hosts);
  if (rule.device) text += *rule.device == Device::Kind::cpu ? " on cpu" : " on cuda";
  const bool own = rule.kind && rule.target.backend == PlannedBackend::own_name && !rule.target.algorithm.empty();
  text += "=" + (own ? "" : rule.target.backend);
  if (rule.target.algorithm.empty()) return text;
  return text + (own ? "" : "/") + rule.target.algorithm;
}

}  // namespace tutti
