// The flags of the benchmark.
#include "tools/bench/request.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "tools/options.hpp"

namespace tutti::bench {
namespace {

Kind find_collective(const CLI::App& app, const std::string& text) {
  if (const auto kind = parse_collective(text)) return *kind;
  std::vector<std::string_view> known;
  for (int i = 0; i < kind_count; ++i) known.push_back(collective_name(static_cast<Kind>(i)));
  const std::string_view near = nearest(text, known);
  std::string list;
  for (const std::string_view name : known) list += (list.empty() ? "" : ", ") + std::string(name);
  tools::usage_error(
      app, "there is no collective '" + text +
               "': " + (near.empty() ? "it is one of " + list : "did you mean '" + std::string(near) + "'?") + "; ");
}

double factor_of(const CLI::App& app, const std::string& text) {
  if (text == "sqrt2") return std::sqrt(2.0);
  double factor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(factor))
    tools::usage_error(app, "-f wants a number or 'sqrt2', not '" + text + "'; ");
  return factor;
}

void check(const CLI::App& app, const Request& request) {
  const auto fail = [&](const std::string& what) { tools::usage_error(app, what + "; "); };
  if (request.first < 1) fail("-b must be at least 1 byte");
  if (request.first > request.last) fail("-b (first size) is larger than -e (last size)");
  if (!(request.factor >= least_factor)) fail("-f must be at least 1.05 or 'sqrt2', or the sizes would hardly grow");
  if (request.iterations < 0 || request.warmup < 0) fail("-n and -w must not be negative");
  if (request.flag_limit < 0) fail("--flag-ns must not be negative");
  if (!(request.late >= 0 && request.late <= 60)) fail("--late must be from 0 to 60 seconds");
  if (request.late > 0 && !request.overlap.empty()) fail("--overlap and --late are two measurements: choose one");
  if (request.late > 0 && request.ranks == 1) fail("--late wants at least 2 ranks");
  if (!request.overlap.empty() && request.kind == Kind::send) fail("sendrecv is not measured with --overlap");
  if (request.rounds < 1) fail("--rounds must be at least 1");
  if (request.ranks < 0 || request.ranks > 1024) fail("-np must be from 1 to 1024");
  if (request.device == "cuda" && request.memory == "allocated")
    fail("--memory allocated is memory of the host, and --device cuda has its own: choose one");
  if (request.ranks > 0 && (request.root < 0 || request.root >= request.ranks)) fail("--root is not one of the ranks");
  if (request.kind == Kind::barrier && (request.plot || !request.svg_file.empty()))
    fail("a barrier has one size and no bandwidth: there is nothing to plot");
  const bool reduces = Case{.kind = request.kind}.reduces();
  if (reduces && !supports(request.op.op, request.dtype))
    fail("the op " + std::string(name(request.op.op)) + " has no meaning for " + std::string(name(request.dtype)));
}

void add_comparison(CLI::App& app, Request& request) {
  const char* group = "Comparison";
  const auto option = [&](const char* flag, auto& to, const char* what) {
    return app.add_option(flag, to, what)->group(group);
  };
  option("--versus", request.versus, "compare with these: openmpi,mpich:best,...; help: what there is")->delimiter(',');
  option("--peer", request.peers, "NAME=MPICXX,MPIEXEC[,VARIABLE=VALUE...]: another MPI, compiled once")->take_all();
  option("--variants", request.variants, "a file with further settings of peers (as share/tutti/bench/variants.yaml)");
  option("--rounds", request.rounds, "each with all in shuffled order")->capture_default_str();
  option("--flag-ns", request.flag_limit,
         "count rounds only while a flag from core to core takes at most so many ns; tries 4 times as many rounds");
  option("--csv", request.csv_file, "write the comparison as csv");
  option("--json", request.json_file, "and as json");
  option("--svg", request.svg_file, "and as a plot: size against bus bandwidth");
  app.add_flag("--plot", request.plot, "the plot in the terminal")->group(group);
  app.add_flag("--verbose", request.verbose, "show what the peers print on stderr")->group(group);
  app.add_flag("--peers", request.list_peers, "list the peers that are here, and why others are not")->group(group);
}

}  // namespace

Request parse_request(const std::string& program, const std::vector<std::string>& arguments) {
  Request request;
  std::string collective, first = "8", last = "64M", dtype = "f32", op = "sum", factor = "2";
  CLI::App app("Measures a collective; every element of every result is checked.", program);
  app.add_option("collective", collective, "allreduce, broadcast, ..., barrier, sendrecv");
  app.add_option("--np", request.ranks, "start this many ranks (default: the job this runs in, else 2)")
      ->check(CLI::Range(1, 1024));
  app.add_option("-b,--begin", first, "first size in bytes: 8, 64K, 1M")->capture_default_str();
  app.add_option("-e,--end", last, "last size")->capture_default_str();
  app.add_option("-f,--factor", factor, "from one size to the next: 2, 1.5, sqrt2")->capture_default_str();
  app.add_option("-d,--dtype", dtype, "i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64")->capture_default_str();
  app.add_option("-o,--op", op, "sum avg prod min max band bor bxor premul_sum")->capture_default_str();
  app.add_option("--root", request.root, "of broadcast, reduce, gather, scatter")->capture_default_str();
  app.add_option("-n,--iterations", request.iterations, "timed iterations; 0: by time")->capture_default_str();
  app.add_option("-w,--warmup", request.warmup, "iterations before")->capture_default_str();
  app.add_option("-c,--check", request.check, "0: do not check the results")->capture_default_str();
  app.add_flag("--touch,!--no-touch", request.touch, "rewrite inputs and read outputs between iterations (default)");
  app.add_flag("--in-place,!--no-in-place", request.in_place, "measure in place too (default)");
  app.add_option("--format", request.format, "human, csv or json")->check(CLI::IsMember({"human", "csv", "json"}));
  app.add_option("--algorithm", request.algorithm, "instead of the one that the rules choose");
  app.add_option("--memory", request.memory, "tutti's buffers: ordinary, or allocated by communicator.allocate")
      ->check(CLI::IsMember({"ordinary", "allocated"}))
      ->capture_default_str();
  app.add_option("--device", request.device, "where tutti's buffers are: cpu, or cuda: on the rank's GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--overlap", request.overlap,
                 "compute between start and wait (idle: sleep), as long as the call takes")
      ->check(CLI::IsMember({"compute", "idle"}));
  app.add_option("--late", request.late, "the last rank comes so many seconds late: what do the others burn?");
  add_comparison(app, request);
  tools::add_settings(app, request.settings);
  request.settings = Settings::from_environment();
  tools::parse(app, arguments);

  if (request.versus == std::vector<std::string>{"help"}) request.list_peers = true;
  if (request.list_peers) return request;
  if (collective.empty()) tools::usage_error(app, "which collective? tutti bench allreduce, for example; ");
  request.kind = find_collective(app, collective);
  request.first = parse_bytes(first);
  request.last = parse_bytes(last);
  request.factor = factor_of(app, factor);
  const auto parsed_dtype = parse_dtype(dtype);
  const auto parsed_op = parse_op(op);
  if (!parsed_dtype) tools::usage_error(app, "there is no dtype '" + dtype + "'; ");
  if (!parsed_op) tools::usage_error(app, "there is no op '" + op + "'; ");
  request.dtype = *parsed_dtype;
  request.op = reduction_of(*parsed_op);
  check(app, request);
  return request;
}

}  // namespace tutti::bench
