// Files are written completely or not at all; safetensors; which checkpoints a folder has if a process is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>

#include "engine/checkpoint/atomic_file.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "engine/checkpoint/store.hpp"
#include "tests/support/contents.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using testing::contents;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal;

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

class CheckpointTest : public ::testing::Test {
 protected:
  const testing::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(CheckpointTest, AFileIsThereWholeOrNotAtAll) {
  const fs::path file = folder_ / "file";
  {
    AtomicFile out(file);
    out.write("first");
  }
  EXPECT_EQ(entries(folder_), 0U);  // nothing was committed
  for (const char* text : {"first", "second"}) {
    AtomicFile out(file);
    out.write(text);
    EXPECT_EQ(fs::exists(file) ? contents(file) : "", *text == 's' ? "first" : "");
    out.commit();
    EXPECT_EQ(contents(file), text);
  }
  EXPECT_EQ(entries(folder_), 1U);
  EXPECT_THAT(refusal([&] { AtomicFile(folder_ / "none" / "file"); }, Code::resource),
              AllOf(HasSubstr("none/file"), HasSubstr("cannot be made")));
}

TEST_F(CheckpointTest, AFullDiskIsAnErrorAndTheFileBeforeStays) {
  const fs::path file = folder_ / "file";
  {
    AtomicFile out(file);
    out.write("before");
    out.commit();
  }
  struct rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string said = refusal(
      [&] {
        AtomicFile out(file);
        out.write(std::string(5000, 'x'));
        out.commit();
      },
      Code::resource);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(said, AllOf(HasSubstr("cannot be written"), HasSubstr("is still there")));
  EXPECT_EQ(contents(file), "before");
  EXPECT_EQ(entries(folder_), 1U);
}

TEST_F(CheckpointTest, SafetensorsAreReadAsTheyWereWritten) {
  const std::vector<float> weight = {1, -2, 3.5F, 0, 1e-38F, -0.0F};
  const std::vector<std::int64_t> count = {1LL << 40};
  const std::vector<SavedTensor> saved = {{"net.weight", DType::f32, {2, 3}, std::as_bytes(std::span(weight))},
                                          {"empty", DType::f64, {0, 7}, {}},
                                          {"count", DType::i64, {}, std::as_bytes(std::span(count))}};
  const fs::path file = folder_ / "model.safetensors";
  write_safetensors(file, saved, {{"format", "pt"}});
  const Safetensors read(file);
  EXPECT_EQ(read.metadata().at("format"), "pt");
  ASSERT_EQ(read.tensors().size(), 3U);
  for (const SavedTensor& each : saved) {
    const SavedTensor& found = read.at(each.name);
    EXPECT_EQ(found.dtype, each.dtype) << each.name;
    EXPECT_EQ(found.shape, each.shape) << each.name;
    ASSERT_EQ(found.bytes.size(), each.bytes.size()) << each.name;
    EXPECT_TRUE(std::equal(found.bytes.begin(), found.bytes.end(), each.bytes.begin())) << each.name;
  }
  EXPECT_THAT(refusal([&] { read.at("net.wight"); }), AllOf(HasSubstr("'net.wight'"), HasSubstr("'net.weight'")));
  EXPECT_EQ(contents(file).size() % 8, 0U);
}

// The expected bytes are written out by hand from the format's description.
TEST_F(CheckpointTest, SafetensorsHaveTheBytesOfTheFormat) {
  const std::vector<std::int16_t> values = {1, 2};
  write_safetensors(folder_ / "file",
                    std::vector<SavedTensor>{{"a", DType::i16, {2}, std::as_bytes(std::span(values))}});
  const std::string header =
      R"({"__metadata__":{"crc32":"{\"a\":2882460411}"},"a":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}}    )";
  std::string expected(8, '\0');
  expected[0] = static_cast<char>(header.size());
  expected += header + std::string("\1\0\2\0", 4);
  EXPECT_EQ(contents(folder_ / "file"), expected);
}

TEST_F(CheckpointTest, DamagedSafetensorsAreRefused) {
  const std::vector<float> values(100, 1);
  const fs::path file = folder_ / "file";
  const std::vector<SavedTensor> saved = {{"a", DType::f32, {100}, std::as_bytes(std::span(values))}};
  write_safetensors(file, saved);
  const std::string whole = contents(file);
  for (std::size_t length = 0; length < whole.size(); length += length < 90 ? 1 : 37) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << whole.substr(0, length);
    EXPECT_THAT(refusal([&] { Safetensors read(file); }), HasSubstr(file.string())) << length;
  }
  const auto with_header = [&](const std::string& header) {
    std::string text(8, '\0');
    text[0] = static_cast<char>(header.size());
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text << header << "1234";
    return refusal([&] { Safetensors read(file); });
  };
  EXPECT_THAT(with_header("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(with_header(R"({"a":{"dtype":"F8","shape":[4],"data_offsets":[0,4]}})"), HasSubstr("F8"));
  EXPECT_THAT(with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})"), HasSubstr("beyond its end"));
  EXPECT_THAT(with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})"), HasSubstr("its shape"));
  EXPECT_THAT(with_header(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}})"),
              HasSubstr("its shape"));
  EXPECT_THAT(with_header(R"({"a":{"dtype":"I16","shape":[1],"data_offsets":[0,2]}})"), HasSubstr("do not cover"));
  EXPECT_THAT(with_header(R"({"a":7})"), HasSubstr("'a' has not a type, a shape"));
  EXPECT_THAT(refusal([&] { Safetensors read(folder_ / "none"); }), HasSubstr("cannot be read"));
  EXPECT_THAT(refusal([&] {
                write_safetensors(file, std::vector<SavedTensor>{saved[0], saved[0]});
              }),
              HasSubstr("'a'"));
}

void fill(const fs::path& folder, const std::string& text) {
  AtomicFile out(folder / "file");
  out.write(text);
  out.commit();
}

TEST_F(CheckpointTest, TheNewestAndTheBestStay) {
  CheckpointStore store(folder_ / "checkpoints", 2, true);
  EXPECT_EQ(store.last(), std::nullopt);
  EXPECT_EQ(store.best(), std::nullopt);
  for (std::uint64_t step = 5; step <= 25; step += 5)
    store.save(
        step, [&](const fs::path& into) { fill(into, std::to_string(step)); }, step == 10);
  EXPECT_EQ(store.last()->filename(), "step-25");
  EXPECT_EQ(store.best()->filename(), "step-10");
  std::vector<std::string> kept;
  for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints")) kept.push_back(entry.path().filename());
  std::sort(kept.begin(), kept.end());
  EXPECT_THAT(kept, ElementsAre("best", "last", "step-10", "step-20", "step-25"));
  store.save(
      25, [&](const fs::path& into) { fill(into, "again"); }, false);
  EXPECT_EQ(contents(*store.last() / "file"), "again");
  EXPECT_THROW(store.save(
                   30, [](const fs::path&) { throw Error(Code::resource, "no space"); }, false),
               Error);
  EXPECT_EQ(CheckpointStore(folder_ / "checkpoints", 2, false).last()->filename(), "step-25");
  EXPECT_EQ(entries(folder_ / "checkpoints"), 5U);
}

/// Runs `body` in a child and kills it at its `stop`-th entry to or exit from a system call; false if it has fewer.
bool killed_at(int stop, const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);  // the test then counts too few system calls
    raise(SIGSTOP);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  for (int i = 0; i < stop && WIFSTOPPED(status); ++i) {
    ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    waitpid(child, &status, 0);
  }
  const bool stopped = WIFSTOPPED(status);
  if (stopped) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  return stopped;
}

TEST_F(CheckpointTest, AKillAtAnySystemCallLeavesAWholeOne) {
  const fs::path folder = folder_ / "checkpoints";
  const auto save = [&](int step) {
    CheckpointStore(folder, 1, true)
        .save(
            static_cast<std::uint64_t>(step), [&](const fs::path& into) { fill(into, std::to_string(step)); }, true);
  };
  save(1);
  int step = 2;
  for (int before = 1; killed_at(step, [&] { save(step); }); ++step) {
    const CheckpointStore store(folder, 1, false);
    ASSERT_TRUE(store.last().has_value() && store.best().has_value()) << step;
    for (const auto& found : {store.last(), store.best()})
      EXPECT_EQ("step-" + contents(*found / "file"), found->filename()) << step;
    EXPECT_THAT(contents(*store.last() / "file"), AnyOf(std::to_string(before), std::to_string(step)));
    if (store.last()->filename() == "step-" + std::to_string(step)) before = step;
    ASSERT_LT(step, 2000);
  }
  EXPECT_GT(step, 40);  // a checkpoint makes at least so many entries and exits
  EXPECT_EQ(CheckpointStore(folder, 1, false).last()->filename(), "step-" + std::to_string(step));
}

}  // namespace
}  // namespace tutti::engine
