// Parts of the benchmark: sizes and flags, the known results, the loop (ranks are threads here), the formats, axes, and
// a sweep as words.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tools/bench/axes.hpp"
#include "tools/bench/board.hpp"
#include "tools/bench/lines.hpp"
#include "tools/bench/measure.hpp"
#include "tools/bench/pattern.hpp"
#include "tools/bench/report.hpp"

namespace tutti::bench {
namespace {

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    (void)parse_request("tutti bench", arguments);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return {};
}

TEST(BenchRequest, TakesWhatItIsGiven) {
  const Request request = parse_request("tutti bench", {"reduce", "-np", "3", "-b", "1K", "-e", "4K", "-f", "2", "-d",
                                                        "bf16", "-o", "max", "--no-touch"});
  EXPECT_EQ(request.kind, Kind::reduce);
  EXPECT_EQ(request.ranks, 3);
  EXPECT_EQ(request.dtype, DType::bf16);
  EXPECT_EQ(request.op.op, Op::max);
  EXPECT_FALSE(request.touch);
  std::vector<std::size_t> sizes;
  for (const Case& one : cases(request, 3)) sizes.push_back(one.bytes());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{1024, 2048, 4096}));
}

TEST(BenchRequest, RefusesSizesThatMakeNoSense) {
  EXPECT_NE(refusal({"allreduce", "-b", "16", "-e", "8"}).find("larger than -e"), std::string::npos);
  EXPECT_NE(refusal({"allreduce", "-f", "1"}).find("at least 1.05"), std::string::npos);
  EXPECT_NE(refusal({"allreduce", "-f", "sqrt3"}).find("'sqrt2', not 'sqrt3'"), std::string::npos);
  EXPECT_NE(refusal({"allreduce", "-b", "0"}).find("at least 1"), std::string::npos);
  EXPECT_NE(refusal({"allreduce", "-o", "bor"}).find("no meaning"), std::string::npos);
  EXPECT_NE(refusal({"allredcue"}).find("did you mean 'allreduce'"), std::string::npos);
  EXPECT_NE(refusal({"send"}).find("sendrecv"), std::string::npos);
}

TEST(BenchCases, CountsAreOfTheKindAndSizesDoNotRepeat) {
  Request request;
  request.kind = Kind::allgather;
  request.first = 4;
  request.last = 64;
  std::vector<std::size_t> counts;
  for (const Case& one : cases(request, 4)) counts.push_back(one.count);
  EXPECT_EQ(counts, (std::vector<std::size_t>{1, 2, 4}));  // elements of 16, 32 and 64 bytes in all
  request.kind = Kind::barrier;
  EXPECT_EQ(cases(request, 4).size(), 1u);
}

TEST(BenchCases, FactorsNeedNotBeWhole) {
  const Request request = parse_request("tutti bench", {"allreduce", "-e", "128M", "-f", "sqrt2"});
  std::vector<std::size_t> sizes;
  for (const Case& one : cases(request, 2)) sizes.push_back(one.bytes());
  ASSERT_EQ(sizes.size(), 49u);
  EXPECT_EQ(std::vector(sizes.begin(), sizes.begin() + 6), (std::vector<std::size_t>{8, 12, 16, 24, 32, 44}));
  for (std::size_t i = 0; i < sizes.size(); i += 2) EXPECT_EQ(sizes[i], std::size_t{8} << i / 2);
  Sweep upper = request;
  upper.skip = 5;
  ASSERT_EQ(cases(upper, 2).size(), 44u);
  for (std::size_t i = 0; i < 44; ++i) EXPECT_EQ(cases(upper, 2)[i].bytes(), sizes[i + 5]);
  EXPECT_EQ(sizes_of({.first = 100, .last = 200, .factor = 1.5}), (std::vector<std::int64_t>{100, 150}));
}

TEST(BenchCases, BusFactors) {
  EXPECT_DOUBLE_EQ((Case{.kind = Kind::allreduce, .ranks = 4}.bus_factor()), 1.5);
  EXPECT_DOUBLE_EQ((Case{.kind = Kind::allgather, .ranks = 4}.bus_factor()), 0.75);
  EXPECT_DOUBLE_EQ((Case{.kind = Kind::broadcast, .ranks = 4}.bus_factor()), 1);
}

/// Implements allreduce by sum in f32, between threads, by its definition.
class Threads : public Implementation {
 public:
  struct Shared {
    explicit Shared(int ranks) : meet(ranks), inputs(static_cast<std::size_t>(ranks)) {}
    std::barrier<> meet;
    std::vector<const float*> inputs;
    std::size_t spoil = 0;  ///< index + 1 of an element that is wrong on rank 1; 0: none
  };
  Threads(Shared& shared, int rank) : shared_(shared), rank_(rank) {}
  std::string name() const override { return "threads"; }
  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(shared_.inputs.size()); }
  std::string refuses(const Case& what) const override { return what.in_place ? "not in place" : ""; }
  void run_beside(const Case& what, const std::byte* in, std::byte* out,
                  const std::function<void()>& compute) override {
    run(what, in, out);
    compute();
  }
  void run(const Case& what, const std::byte* in, std::byte* out) override {
    shared_.inputs[static_cast<std::size_t>(rank_)] = reinterpret_cast<const float*>(in);
    shared_.meet.arrive_and_wait();
    for (std::size_t i = 0; i < what.count; ++i) {
      float total = i + 1 == shared_.spoil && rank_ == 1 ? 1 : 0;
      for (const float* input : shared_.inputs) total += input[i];
      std::memcpy(out + i * sizeof total, &total, sizeof total);
    }
    shared_.meet.arrive_and_wait();
  }

 private:
  Shared& shared_;
  int rank_;
};

std::vector<Row> measure_with_threads(const Request& request, std::size_t spoil) {
  constexpr int ranks = 3;
  Threads::Shared shared(ranks);
  shared.spoil = spoil;
  const SharedMemory memory = make_shared_memory(ranks);
  std::array<std::vector<Row>, ranks> rows;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Threads implementation(shared, rank);
      const auto each = [](const Row& row, void* to) { static_cast<std::vector<Row>*>(to)->push_back(row); };
      measure(implementation, *open_shared_board(memory.path, rank, ranks), request, each,
              &rows[static_cast<std::size_t>(rank)]);
    });
  threads.clear();
  close(memory.fd);
  for (std::size_t i = 0; i < rows[0].size(); ++i) {  // all ranks have the same figures
    EXPECT_EQ(rows[0][i].out_of_place.median, rows[2][i].out_of_place.median);
    EXPECT_EQ(rows[0][i].out_of_place.wrong, rows[2][i].out_of_place.wrong);
  }
  return rows[0];
}

TEST(BenchLoop, MeasuresAndChecks) {
  Request request;
  request.last = 8192;
  request.factor = 32;
  request.iterations = 7;
  const std::vector<Row> rows = measure_with_threads(request, 0);
  ASSERT_EQ(rows.size(), 3u);
  for (const Row& row : rows) {
    EXPECT_EQ(row.out_of_place.wrong, 0u);
    EXPECT_EQ(row.out_of_place.iterations, 7);
    EXPECT_LE(row.out_of_place.min, row.out_of_place.median);
    EXPECT_LE(row.out_of_place.median, row.out_of_place.p99);
    EXPECT_FALSE(row.has_in_place);
  }
}

TEST(BenchLoop, MeasuresAsLongAsAskedButOnceAtLeast) {
  Request request;
  request.first = request.last = 8192;
  request.seconds = 1e-9;
  EXPECT_EQ(measure_with_threads(request, 0).front().out_of_place.iterations, 1);
  request.seconds = 1e9;
  EXPECT_EQ(measure_with_threads(request, 0).front().out_of_place.iterations, 2000);
}

TEST(BenchLoop, CountsEveryWrongElement) {
  Request request;
  request.first = request.last = 8192;
  request.iterations = 4;
  request.warmup = 2;
  EXPECT_EQ(measure_with_threads(request, 17).front().out_of_place.wrong, 6u);  // one in each iteration
  request.touch = false;
  EXPECT_EQ(measure_with_threads(request, 17).front().out_of_place.wrong, 1u);  // only in the iteration that checks
  request.check = false;
  EXPECT_EQ(measure_with_threads(request, 17).front().out_of_place.wrong, 0u);
}

TEST(BenchLoop, ComputesBesideCalls) {
  Request request;
  request.first = request.last = 8192;
  request.iterations = 4;
  request.overlap = "compute";
  const Row row = measure_with_threads(request, 0).front();
  ASSERT_EQ(row.extras.size(), extra_names(request).size());
  EXPECT_EQ(row.out_of_place.iterations, 4);
  EXPECT_FALSE(row.has_in_place);
  EXPECT_NEAR(row.extras[3], row.out_of_place.median * 1e6 / (row.extras[0] + row.extras[1]), 1e-6);
  EXPECT_GE(row.extras[2], 0);
  EXPECT_GT(measure_with_threads(request, 17).front().out_of_place.wrong, 0u);
}

TEST(BenchLoop, TheLastRankComesLate) {
  Request request;
  request.first = request.last = 8192;
  request.late = 0.01;
  const Row row = measure_with_threads(request, 0).front();
  ASSERT_EQ(row.extras.size(), extra_names(request).size());
  EXPECT_EQ(row.out_of_place.iterations, 5);
  EXPECT_GT(row.extras[0], 0);
  EXPECT_GE(row.extras[1], row.out_of_place.median * 1e6);
}

TEST(BenchPattern, NoticesStaleResultsAndWrongPlaces) {
  for (const Kind kind : {Kind::allgather, Kind::alltoall, Kind::broadcast, Kind::reduce_scatter, Kind::send}) {
    const Case what{.kind = kind, .dtype = DType::i32, .ranks = 3, .count = 100};
    const Pattern pattern(what, 1);
    std::vector<std::byte> in(what.in_count() * 4), out(what.out_count() * 4);
    pattern.fill(what, in.data(), out.data(), 1);
    EXPECT_GT(pattern.wrong(what, in.data(), out.data(), 1), 0u) << collective_name(kind);  // no call was made
  }
  const Case gather{.kind = Kind::allgather, .dtype = DType::u8, .ranks = 2, .count = 2000};
  std::vector<std::byte> in(2000), out(4000);
  for (const int rank : {0, 1}) {
    Pattern(gather, rank).fill(gather, in.data(), nullptr, 5);
    std::copy(in.begin(), in.end(), out.begin() + rank * 2000);
  }
  const Pattern pattern(gather, 0);
  EXPECT_EQ(pattern.wrong(gather, in.data(), out.data(), 5), 0u);
  EXPECT_GT(pattern.wrong(gather, in.data(), out.data(), 6), 3000u);
  std::swap_ranges(out.begin(), out.begin() + 2000, out.begin() + 2000);
  EXPECT_GT(pattern.wrong(gather, in.data(), out.data(), 5), 3000u);
}

TEST(BenchReport, CsvComesBack) {
  Request request;
  request.format = "csv";
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* memory = open_memstream(&text, &size);
  Report report("tutti", request, 2, memory);
  Row row{{.ranks = 2, .count = 256}, {1e-6, 2e-6, 5e-6, 20, 0}, {1e-6, 2e-6, 5e-6, 20, 3}};
  report.add(row);
  report.finish();
  std::fclose(memory);
  const std::vector<Line> lines = parse_csv(std::string("noise, on a line\n") + text);
  std::free(text);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].implementation, "tutti");
  EXPECT_EQ(lines[0].collective, "allreduce");
  EXPECT_EQ(lines[0].bytes, 1024u);
  EXPECT_TRUE(lines[0].extras.empty());
  EXPECT_EQ(parse_csv("a,b,f32,8,2,1,2,3,yes,4.5,6\n").at(0).extras, (std::vector<double>{4.5, 6}));
  EXPECT_TRUE(parse_csv("a,b,f32,8,2,1,2,3,yes,4.5,x\n").empty());
  EXPECT_DOUBLE_EQ(lines[0].median_us, 2);
  EXPECT_FALSE(lines[0].ok);  // the result in place is wrong
  EXPECT_EQ(report.wrong(), 3u);
}

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> all;
  for (const Tick& tick : axis.ticks()) {
    EXPECT_GE(tick.at, -1e-9);
    EXPECT_LE(tick.at, 1 + 1e-9);
    all.push_back(tick.label);
  }
  return all;
}

TEST(Axis, RoundNumbersAround) {
  using Labels = std::vector<std::string>;
  EXPECT_EQ(labels(Axis::of_sizes({8, 64, 512, 4096}, 5)), (Labels{"8 B", "64 B", "512 B", "4 KiB"}));
  EXPECT_EQ(labels(Axis::of_sizes({1 << 20}, 5)), Labels{"1 MiB"});
  EXPECT_EQ(labels(Axis::of_sizes({60}, 5)), Labels{"60 B"});
  EXPECT_EQ(labels(Axis::of_bandwidths({3, 7})), (Labels{"2", "5", "10"}));
  EXPECT_EQ(labels(Axis::of_bandwidths({0.7, 1.0})), (Labels{"0.5", "1"}));
  EXPECT_EQ(labels(Axis::of_bandwidths({1})), Labels{"1"});
  const Axis wide = Axis::of_bandwidths({0.0012, 30});
  EXPECT_DOUBLE_EQ(wide.at(0.001), 0);
  EXPECT_DOUBLE_EQ(wide.at(50), 1);
  EXPECT_EQ(labels(wide)[1], "");  // 0.002 has a line, but no label
}

TEST(Sweep, TravelsAsWords) {
  Sweep sweep{.kind = Kind::send,
              .first = 3,
              .last = 1LL << 40,
              .factor = 1.7,
              .skip = 2,
              .dtype = DType::bf16,
              .op = premul_sum(2.0)};
  sweep.root = 2;
  sweep.overlap = "idle";
  sweep.late = 0.1;
  sweep.iterations = 9;
  sweep.seconds = 0.3;
  sweep.warmup = 0;
  sweep.check = sweep.touch = sweep.in_place = false;
  const std::vector<std::string> words = words_of(sweep);
  const Sweep same = parse_sweep(words);
  EXPECT_EQ(words_of(same), words);
  EXPECT_EQ(same.kind, Kind::send);
  EXPECT_EQ(same.factor, 1.7);  // exactly equal
  EXPECT_EQ(same.seconds, 0.3);
  EXPECT_EQ(same.op.op, Op::premul_sum);
  EXPECT_EQ(same.op.factor, 2.0);
  for (const char* word :
       {"kind=send", "first=x", "first=0", "factor=1", "factor=nan", "skip=-1", "colour=red", "word"})
    EXPECT_THROW((void)parse_sweep(std::vector<std::string>{word}), Error) << word;
}

}  // namespace
}  // namespace tutti::bench
