#include "collectives/selector.hpp"

#include <algorithm>

#include "transports/core/settings.hpp"

namespace tutti {
namespace {

// Measured on two shared cores over shared memory; `tutti bench --algorithm` compares.
constexpr std::string_view built_in =
    "allreduce: ..16K=recursive_doubling, ..@2..2=ring, ..256K=halving_doubling, ..=ring;"
    "reduce: ..64K=binomial, ..=chain; broadcast: ..64K=binomial, ..=chain;"
    "allgather: ..2K=bruck, ..=ring; reduce_scatter: ..=ring;"
    "gather: ..16K=binomial, ..=linear; scatter: ..16K=binomial, ..=linear;"
    "alltoall: ..=pairwise; barrier: ..=dissemination";

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    if (const auto part = trim(text.substr(0, end)); !part.empty()) parts.push_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

[[noreturn]] void refuse(std::string_view part, const std::string& why) {
  throw Error(Code::invalid, "cannot read the selection rule '" + std::string(part) + "': " + why +
                                 "; write for example 'allreduce: ..64K=recursive_doubling, 64K..=ring'");
}

// "LOW..HIGH", either may be missing.
void parse_span(std::string_view text, std::string_view part, std::int64_t& low, std::int64_t& high) {
  const auto dots = text.find("..");
  if (dots == std::string_view::npos) refuse(part, "a range LOW..HIGH is missing");
  if (const auto left = trim(text.substr(0, dots)); !left.empty()) low = parse_bytes(left);
  if (const auto right = trim(text.substr(dots + 2)); !right.empty()) high = parse_bytes(right);
  if (low > high) refuse(part, "the range is empty");
}

std::string names(Kind kind) {
  std::string known;
  for (const Algorithm* algorithm : catalog())
    if (algorithm->kind == kind) known += (known.empty() ? "" : ", ") + std::string(algorithm->name);
  return known;
}

Rule parse_rule(Kind kind, std::string_view part, std::string_view source) {
  const auto equals = part.find('=');
  if (equals == std::string_view::npos) refuse(part, "'=algorithm' is missing");
  const auto at = part.substr(0, equals).find('@');
  std::int64_t low = 0, high = INT64_MAX, size_low = 1, size_high = INT32_MAX;
  parse_span(part.substr(0, std::min(at, equals)), part, low, high);
  if (at != std::string_view::npos) parse_span(part.substr(at + 1, equals - at - 1), part, size_low, size_high);
  Rule rule{kind,
            static_cast<std::size_t>(low),
            high == INT64_MAX ? SIZE_MAX : static_cast<std::size_t>(high),
            static_cast<int>(size_low),
            static_cast<int>(std::min<std::int64_t>(size_high, INT32_MAX)),
            std::string(trim(part.substr(equals + 1))),
            std::string(source)};
  if (find_algorithm(kind, rule.algorithm) != nullptr) return rule;
  refuse(part, std::string(name(kind)) + " has no algorithm '" + rule.algorithm + "', but " + names(kind));
}

bool can_do(const Algorithm& algorithm, const Call& call) {
  if (call.variable && !algorithm.variable) return false;
  return algorithm.fits == nullptr || algorithm.fits({0, call.size, call.bytes, 0, {}, {}});
}

}  // namespace

std::vector<Rule> parse_rules(std::string_view text, std::string_view source) {
  std::vector<Rule> rules;
  for (const auto sentence : split(text, ';')) {
    const auto colon = sentence.find(':');
    if (colon == std::string_view::npos) refuse(sentence, "'kind:' is missing");
    const auto kind = parse_kind(trim(sentence.substr(0, colon)));
    if (!kind) refuse(sentence, "there is no collective '" + std::string(trim(sentence.substr(0, colon))) + "'");
    for (const auto part : split(sentence.substr(colon + 1), ',')) rules.push_back(parse_rule(*kind, part, source));
  }
  return rules;
}

const Algorithm& required(std::string_view wanted, const Call& call) {
  const std::string kind(name(call.kind)), quoted = "'" + std::string(wanted) + "'";
  const Algorithm* algorithm = find_algorithm(call.kind, wanted);
  if (algorithm == nullptr)
    throw Error(Code::invalid, "there is no algorithm " + quoted + " for " + kind + ", but " + names(call.kind));
  if (can_do(*algorithm, call)) return *algorithm;
  if (call.variable && !algorithm->variable)
    throw Error(Code::invalid,
                "the algorithm " + quoted + " for " + kind + " does not take counts per rank (" + kind + "v)");
  throw Error(Code::invalid, "the algorithm " + quoted + " for " + kind + " does not work on " +
                                 std::to_string(call.size) + " ranks; the others are " + names(call.kind));
}

std::string to_string(const Rule& rule) {
  std::string text(name(rule.kind));
  text += ": " + (rule.low > 0 ? std::to_string(rule.low) : "") + "..";
  if (rule.high != SIZE_MAX) text += std::to_string(rule.high);
  if (rule.size_low > 1 || rule.size_high != INT32_MAX) {
    text += "@" + std::to_string(rule.size_low) + "..";
    if (rule.size_high != INT32_MAX) text += std::to_string(rule.size_high);
  }
  return text + "=" + rule.algorithm;
}

Selector::Selector(std::string_view overrides) : rules_(parse_rules(overrides, "TUTTI_SELECT")) {
  std::ranges::move(parse_rules(built_in, "built in"), std::back_inserter(rules_));
}

const Rule* Selector::match(const Call& call) const {
  for (const Rule& rule : rules_) {
    if (rule.kind != call.kind || call.bytes < rule.low || call.bytes > rule.high) continue;
    if (call.size < rule.size_low || call.size > rule.size_high) continue;
    if (const Algorithm* algorithm = find_algorithm(rule.kind, rule.algorithm); can_do(*algorithm, call)) return &rule;
  }
  return nullptr;
}

const Algorithm* Selector::choose(const Call& call) const {
  if (const Rule* rule = match(call)) return find_algorithm(rule->kind, rule->algorithm);
  for (const Algorithm* algorithm : catalog())
    if (algorithm->kind == call.kind && can_do(*algorithm, call)) return algorithm;
  return nullptr;
}

Choice Selector::explain(const Call& call) const {
  const Algorithm* algorithm = choose(call);
  if (algorithm == nullptr) return {};
  const Rule* rule = match(call);
  std::string why(algorithm->name);
  why += rule ? ": rule '" + to_string(*rule) + "' (" + rule->source + ")" : ": no rule fits, the first that can";
  std::string others;
  for (const Algorithm* other : catalog())
    if (other->kind == call.kind && other != algorithm)
      others += (others.empty() ? "" : ", ") + std::string(other->name);
  if (!others.empty()) why += "; not chosen: " + others;
  return {algorithm, why};
}

}  // namespace tutti
