// The flags of the benchmark, and the sizes that they ask for.
#include "tools/bench/request.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "tools/options.hpp"

namespace tutti::bench {
namespace {

Kind parse_collective(const CLI::App& app, const std::string& text) {
  if (text == "sendrecv") return Kind::send;
  const auto kind = parse_kind(text);
  if (kind && *kind != Kind::send) return *kind;
  std::vector<std::string_view> known;
  for (int i = 0; i < kind_count; ++i) known.push_back(collective_name(static_cast<Kind>(i)));
  const std::string_view near = nearest(text, known);
  std::string list;
  for (const std::string_view name : known) list += (list.empty() ? "" : ", ") + std::string(name);
  tools::usage_error(
      app, "there is no collective '" + text +
               "': " + (near.empty() ? "it is one of " + list : "did you mean '" + std::string(near) + "'?") + "; ");
}

void check(const CLI::App& app, const Request& request) {
  const auto fail = [&](const std::string& what) { tools::usage_error(app, what + "; "); };
  if (request.first < 1) fail("-b must be at least 1 byte");
  if (request.first > request.last) fail("-b (first size) is larger than -e (last size)");
  if (request.factor < 2) fail("-f must be at least 2, or the sizes would never grow");
  if (request.iterations < 0 || request.warmup < 0) fail("-n and -w must not be negative");
  if (request.rounds < 1) fail("--rounds must be at least 1");
  if (request.ranks < 0 || request.ranks > 1024) fail("-np must be from 1 to 1024");
  if (request.ranks > 0 && (request.root < 0 || request.root >= request.ranks)) fail("--root is not one of the ranks");
  const bool reduces = Case{.kind = request.kind}.reduces();
  if (reduces && !supports(request.op.op, request.dtype))
    fail("the op " + std::string(name(request.op.op)) + " has no meaning for " + std::string(name(request.dtype)));
}

}  // namespace

Request parse_request(const std::string& program, const std::vector<std::string>& arguments) {
  Request request;
  std::string collective, first = "8", last = "64M", dtype = "f32", op = "sum";
  CLI::App app("Measures a collective; every element of every result is checked.", program);
  app.add_option("collective", collective, "allreduce, broadcast, ..., barrier, sendrecv")->required();
  app.add_option("--np", request.ranks, "start this many ranks (default: the job this runs in, else 2)");
  app.add_option("-b,--begin", first, "first size in bytes: 8, 64K, 1M")->capture_default_str();
  app.add_option("-e,--end", last, "last size")->capture_default_str();
  app.add_option("-f,--factor", request.factor, "from one size to the next")->capture_default_str();
  app.add_option("-d,--dtype", dtype, "i8 u8 i16 i32 i64 f16 bf16 f32 f64")->capture_default_str();
  app.add_option("-o,--op", op, "sum avg prod min max band bor bxor premul_sum")->capture_default_str();
  app.add_option("--root", request.root, "of broadcast, reduce, gather, scatter")->capture_default_str();
  app.add_option("-n,--iterations", request.iterations, "timed iterations; 0: by time")->capture_default_str();
  app.add_option("-w,--warmup", request.warmup, "iterations before")->capture_default_str();
  app.add_option("-c,--check", request.check, "0: do not check the results")->capture_default_str();
  app.add_flag("--touch,!--no-touch", request.touch, "rewrite inputs and read outputs between iterations (default)");
  app.add_option("--format", request.format, "human, csv or json")->check(CLI::IsMember({"human", "csv", "json"}));
  app.add_option("--algorithm", request.algorithm, "instead of the one that the rules choose");
  app.add_option("--versus", request.versus, "compare with these: openmpi, gloo")->delimiter(',');
  app.add_option("--rounds", request.rounds, "of --versus, each with all in shuffled order")->capture_default_str();
  tools::add_settings(app, request.settings);
  request.settings = Settings::from_environment();
  tools::parse(app, arguments);

  request.kind = parse_collective(app, collective);
  request.first = parse_bytes(first);
  request.last = parse_bytes(last);
  const auto parsed_dtype = parse_dtype(dtype);
  const auto parsed_op = parse_op(op);
  if (!parsed_dtype) tools::usage_error(app, "there is no dtype '" + dtype + "'; ");
  if (!parsed_op) tools::usage_error(app, "there is no op '" + op + "'; ");
  request.dtype = *parsed_dtype;
  request.op = *parsed_op == Op::premul_sum ? premul_sum(2.0) : Reduction{*parsed_op};
  check(app, request);
  return request;
}

std::string_view collective_name(Kind kind) noexcept { return kind == Kind::send ? "sendrecv" : name(kind); }

bool Case::reduces() const noexcept {
  return kind == Kind::allreduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

std::size_t Case::in_count() const noexcept {
  const bool blocks = kind == Kind::reduce_scatter || kind == Kind::scatter || kind == Kind::alltoall;
  return blocks ? count * static_cast<std::size_t>(ranks) : count;
}

std::size_t Case::out_count() const noexcept {
  const bool blocks = kind == Kind::allgather || kind == Kind::gather || kind == Kind::alltoall;
  return blocks ? count * static_cast<std::size_t>(ranks) : count;
}

std::size_t Case::bytes() const noexcept { return std::max(in_count(), out_count()) * size_of(dtype); }

double Case::bus_factor() const noexcept {
  const double others = ranks > 0 ? static_cast<double>(ranks - 1) / ranks : 0;
  switch (kind) {
    case Kind::allreduce: return 2 * others;
    case Kind::allgather:
    case Kind::reduce_scatter:
    case Kind::gather:
    case Kind::scatter:
    case Kind::alltoall: return others;
    default: return 1;
  }
}

std::vector<Case> cases(const Request& request, int ranks) {
  Case next{request.kind, request.dtype, request.op, request.root, ranks};
  if (request.kind == Kind::barrier) return {next};
  next.count = 1;
  const std::size_t unit = std::max(next.in_count(), next.out_count()) * size_of(request.dtype);
  std::vector<Case> all;
  for (std::int64_t bytes = request.first; bytes <= request.last; bytes *= request.factor) {
    next.count = std::max<std::size_t>(1, static_cast<std::size_t>(bytes) / unit);
    if (all.empty() || all.back().count != next.count) all.push_back(next);
    if (bytes > request.last / request.factor) break;
  }
  return all;
}

}  // namespace tutti::bench
