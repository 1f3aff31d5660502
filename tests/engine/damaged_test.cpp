// Damaged checkpoints: which ones are refused, and from which one a run resumes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <iterator>

#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "engine/checkpoint/saver.hpp"
#include "engine/checkpoint/state.hpp"
#include "engine/checkpoint/store.hpp"
#include "tests/support/contents.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::contents;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal;
using ::testing::StartsWith;

void put(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
}
std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, text.npos) << what << " in " << text;
  return at == text.npos ? text : text.replace(at, what.size(), by);
}

RunState state_at(std::size_t step) {
  RunState state;
  state.step = step;
  state.epoch = 1;
  state.optimizer = "sgd";
  state.batch = 32;
  state.losses = {0.5, 0.25};
  state.validations = {{.step = 1, .epoch = 0.5, .loss = 1, .metrics = {}}};
  state.best_validation = 1;
  return state;
}

/// Checkpoints of steps 8, 16 and 24, each with a tensor of 100 numbers.
class DamagedTest : public ::testing::Test {
 protected:
  DamagedTest() {
    Saver saver(CheckpointStore(checkpoints_, 0, true));
    const Array weight(std::vector<float>(100, 1.5F), {100});
    for (const std::size_t step : {8, 16, 24}) {
      saver.start(step,
                  {.tensors = {{"model.safetensors", {{"weight", weight}}}},
                   .texts = {{RunState::file, state_at(step).json()}}},
                  false);
    }
    saver.wait();
  }

  std::string damage(bool sums = true) const {
    return refusal([&] { verify_checkpoint(newest_, sums); });
  }
  std::string bad_state(const std::string& what, const std::string& by) const {
    put(folder_ / "state.json", replaced(state_at(24).json(), what, by));
    const std::string said = refusal([&] { RunState::read(folder_ / "state.json"); });
    EXPECT_THAT(said, StartsWith((folder_ / "state.json").string()));
    return said;
  }

  const testing::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path(), checkpoints_ = folder_ / "checkpoints";
  const fs::path newest_ = checkpoints_ / "step-24";
};

TEST_F(DamagedTest, WholeOnesPass) {
  for (const char* name : {"step-8", "step-16", "step-24"})
    EXPECT_NO_THROW(verify_checkpoint(checkpoints_ / name, true));
}

TEST_F(DamagedTest, AFlippedBitIsFound) {
  const fs::path model = newest_ / "model.safetensors";
  const std::string whole = contents(model);
  for (std::size_t at = 0; at < whole.size(); at += 7) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    put(model, flipped);
    ASSERT_THAT(damage(), AllOf(StartsWith(model.string()), HasSubstr("its checksum is wrong"))) << at;
  }
  put(model, std::string(whole).replace(whole.size() - 2, 1, "x"));
  EXPECT_NO_THROW(verify_checkpoint(newest_, false)) << "checksums are left out";
  EXPECT_THAT(refusal([&] { read_arrays(model); }),
              AllOf(StartsWith(model.string()), HasSubstr("'weight' is damaged: its checksum is wrong")));
  EXPECT_NO_THROW(read_arrays(model, false));
}

TEST_F(DamagedTest, FilesThatAreCutMissingOrElsewhereAreFound) {
  const fs::path model = newest_ / "model.safetensors";
  const std::string whole = contents(model);
  put(model, whole.substr(0, 100));
  EXPECT_THAT(damage(false), HasSubstr("has 100 bytes of " + std::to_string(whole.size())));
  fs::remove(model);
  EXPECT_THAT(damage(), HasSubstr("model.safetensors: is missing"));
  put(folder_ / "elsewhere", whole);
  fs::create_symlink(folder_ / "elsewhere", model);
  EXPECT_THAT(damage(), HasSubstr("model.safetensors: is no regular file"));
  fs::remove(model);
  fs::create_directory(model);
  EXPECT_THAT(damage(), HasSubstr("model.safetensors: is no regular file"));
}

TEST_F(DamagedTest, PipesAndHolesAreNoReasonToWait) {
  const fs::path state = newest_ / "state.json";
  fs::resize_file(state, std::uintmax_t{3} << 30);
  EXPECT_THAT(damage(), HasSubstr("state.json: has 3221225472 bytes of "));
  fs::remove(newest_ / "manifest.json");
  EXPECT_THAT(damage(), HasSubstr("state.json: has 3221225472 bytes, more than 268435456"));
  for (const char* name : {"state.json", "manifest.json"}) {
    fs::remove(newest_ / name);
    ASSERT_EQ(mkfifo((newest_ / name).c_str(), 0600), 0);
    EXPECT_THAT(damage(), HasSubstr(std::string(name) + ": is no regular file"));
  }
  fs::remove(state);
  fs::create_symlink("/dev/zero", state);
  fs::remove(newest_ / "manifest.json");
  EXPECT_THAT(damage(), HasSubstr("state.json: is no regular file"));
  EXPECT_EQ(fault_of(checkpoints_ / "step-16", true), "");
  EXPECT_THAT(fault_of(newest_, true), HasSubstr("state.json"));
}

TEST_F(DamagedTest, WhateverIsInItsPlaceIsReplaced) {
  fs::remove_all(newest_);
  fs::create_symlink("/nowhere", newest_);
  fs::remove(checkpoints_ / "last");
  fs::create_directory(checkpoints_ / "last");
  CheckpointStore store(checkpoints_, 0, true);
  store.save(
      24, [&](const fs::path& into) { put(into / "file", "x"); }, false);
  EXPECT_EQ(contents(newest_ / "file"), "x");
  EXPECT_EQ(store.last(), newest_);
}

TEST_F(DamagedTest, DamagedNewerOnesDoNotCountAsKept) {
  fs::remove(newest_ / "state.json");
  CheckpointStore store(checkpoints_, 2, true);
  store.save(
      20, [&](const fs::path& into) { put(into / "file", "x"); }, false);
  for (const char* name : {"step-16", "step-20"}) EXPECT_TRUE(fs::exists(checkpoints_ / name)) << name;
  EXPECT_FALSE(fs::exists(checkpoints_ / "step-8"));
}

TEST_F(DamagedTest, AFolderThatIsNoneOrAnothersIsFound) {
  fs::remove(newest_ / "manifest.json");
  EXPECT_THAT(damage(), HasSubstr("manifest.json: is missing"));
  fs::remove_all(newest_);
  EXPECT_THAT(damage(), HasSubstr("step-24: is missing"));
  fs::create_symlink(checkpoints_ / "step-8", newest_);
  EXPECT_THAT(damage(), HasSubstr("step-24: is a link elsewhere"));
  fs::remove(newest_);
  put(newest_, "");
  EXPECT_THAT(damage(), HasSubstr("step-24: is no folder"));
  fs::remove(newest_);
  fs::copy(checkpoints_ / "step-8", newest_, fs::copy_options::recursive);
  EXPECT_THAT(damage(), HasSubstr("step-24: has the state of step 8"));
}

TEST_F(DamagedTest, AManifestNamesFilesOfItsFolderOnly) {
  const fs::path manifest = newest_ / "manifest.json";
  const std::string whole = contents(manifest);
  put(manifest, replaced(whole, "model.safetensors", "elsewhere/model.safetensors"));
  EXPECT_THAT(damage(), HasSubstr("which is no file of this folder"));
  put(manifest, replaced(whole, "state.json", "model.safetensor"));
  EXPECT_THAT(damage(), HasSubstr("does not name the run's state"));
  put(manifest, replaced(whole, "\"files\"", "\"file\""));
  EXPECT_THAT(damage(), HasSubstr("is no manifest of a checkpoint"));
  put(manifest, whole.substr(0, whole.size() / 2));
  EXPECT_THAT(damage(), HasSubstr("manifest.json:"));
}

TEST_F(DamagedTest, AManifestOfFilesOf65536RanksIsRead) {
  const std::uint64_t state = fs::file_size(newest_ / "state.json");
  Manifest files{{"state.json", {.bytes = state, .crc32 = 0}}};
  for (int rank = 0; rank < 65'536; ++rank)
    for (const char* what : {"optimizer", "strategy"})
      files[std::string(what) + "-" + std::to_string(rank) + ".safetensors"] = {UINT64_MAX, UINT32_MAX};
  write_manifest(newest_, files);
  EXPECT_THAT(damage(false), HasSubstr("optimizer-0.safetensors: is missing")) << "all of it is read";
  ListedFiles listed(newest_);
  EXPECT_FALSE(listed.check("model.safetensors"));
  EXPECT_THAT(refusal([&] { listed.check("strategy-65535.safetensors"); }), HasSubstr("is missing"));
}

TEST_F(DamagedTest, CheckpointsOfEarlierVersionsHaveNoManifest) {
  put(newest_ / "state.json", replaced(state_at(24).json(), " \"manifest\": true,\n", ""));
  fs::remove(newest_ / "manifest.json");
  EXPECT_NO_THROW(verify_checkpoint(newest_, true));
  put(newest_ / "model.safetensors", contents(newest_ / "model.safetensors").substr(0, 100));
  EXPECT_THAT(damage(), HasSubstr("model.safetensors"));
}

TEST_F(DamagedTest, TheNewestWholeOneIsChosen) {
  const CheckpointStore store(checkpoints_, 0, false);
  EXPECT_EQ(choose_checkpoint(store, "true", true).step, 24U);
  EXPECT_EQ(choose_checkpoint(store, "step-8", true).step, 8U);
  fs::resize_file(newest_ / "state.json", 10);
  const ChosenCheckpoint chosen = choose_checkpoint(store, "true", true);
  EXPECT_EQ(chosen.step, 16U);
  EXPECT_THAT(chosen.skipped, ElementsAre(StartsWith((newest_ / "state.json:").string())));
  EXPECT_THAT(refusal([&] { choose_checkpoint(store, "step-24", true); }), HasSubstr("step-24/state.json:"));
  EXPECT_THAT(refusal([&] { choose_checkpoint(store, "step-9", true); }), HasSubstr("step-9: is missing"));
  for (const char* name : {"step-8", "step-16"}) fs::remove(checkpoints_ / name / "model.safetensors");
  EXPECT_THAT(refusal([&] { choose_checkpoint(store, "true", true); }),
              AllOf(HasSubstr("no checkpoint in"), HasSubstr("step-24"), HasSubstr("begin anew")));
  EXPECT_EQ(choose_checkpoint(CheckpointStore(folder_ / "none", 0, false), "true", true).step, std::nullopt);
}

TEST_F(DamagedTest, NumbersOfAStateAreChecked) {
  put(folder_ / "state.json", state_at(24).json());
  EXPECT_NO_THROW(RunState::read(folder_ / "state.json"));
  for (const char* number : {"-1", "12.7", "1000000000000000000", "18446744073709551616", "\"24\"", "null", "[]"})
    EXPECT_THAT(bad_state("\"step\": 24", "\"step\": " + std::string(number)), HasSubstr("'step'")) << number;
  EXPECT_THAT(bad_state("\"ranks\": 1", "\"ranks\": 0"), HasSubstr("'ranks' is 0"));
  EXPECT_THAT(bad_state("\"batch\": 32", "\"batch\": 0"), HasSubstr("'batch' is 0"));
  EXPECT_THAT(bad_state("\"best_validation\": 1", "\"best_validation\": 1000000000000"),
              HasSubstr("'best_validation' is 1000000000000 of 1 validations"));
  EXPECT_THAT(bad_state("\"step\": 24", "\"step\": 1"), HasSubstr("2 losses of 1 steps"));
  EXPECT_THAT(bad_state("\"step\": 1,", "\"step\": 25,"), HasSubstr("a validation after step 25"));
  EXPECT_THAT(bad_state("\"version\": 1", "\"version\": 2"), HasSubstr("another version"));
  EXPECT_THAT(bad_state("\"step\": 24,", ""), HasSubstr("is no state of a run"));
}

// Files that the reference implementation of safetensors refuses.
TEST_F(DamagedTest, SafetensorsAreJudgedAsTheReferenceDoes) {
  const fs::path file = folder_ / "file";
  const auto with_header = [&](const std::string& header, const std::string& data = "12345678") {
    std::string text(8, '\0');
    text[0] = static_cast<char>(header.size() & 255);
    text[1] = static_cast<char>(header.size() >> 8);
    put(file, text + header + data);
    const std::string said = refusal([&] { Safetensors read(file); });
    EXPECT_THAT(said, StartsWith(file.string())) << header;
    return said;
  };
  const auto tensor = [](const std::string& name, const std::string& shape, const std::string& offsets) {
    return "\"" + name + R"(":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  EXPECT_THAT(with_header("{" + tensor("a", "[2]", "[0,8]") + "," + tensor("b", "[1]", "[4,8]") + "}"),
              HasSubstr("'b' overlaps another tensor"));
  EXPECT_THAT(with_header("{" + tensor("a", "[1]", "[4,8]") + "}"), HasSubstr("before 'a' are bytes of no tensor"));
  EXPECT_THAT(with_header("{" + tensor("a", "[1]", "[0,4]") + "}"), HasSubstr("do not cover"));
  EXPECT_THAT(with_header("{" + tensor("a", "[2]", "[0,8]") + "," + tensor("a", "[2]", "[0,8]") + "}"),
              HasSubstr("has 'a' twice"));
  for (const char* shape : {"[2.0]", "[-2]", "[\"2\"]", "2", "[1,18446744073709551615]"})
    EXPECT_THAT(with_header("{" + tensor("a", shape, "[0,8]") + "}"), HasSubstr("'a' has not")) << shape;
  for (const char* offsets : {"[0,8.0]", "[0.5,8]", "[0]", "[0,4,8]", "[-8,8]"})
    EXPECT_THAT(with_header("{" + tensor("a", "[2]", offsets) + "}"), HasSubstr("'a' has not")) << offsets;
  EXPECT_THAT(with_header(R"({"__metadata__":{"a":1},)" + tensor("a", "[2]", "[0,8]") + "}"), HasSubstr("is no text"));
  EXPECT_THAT(with_header(std::string(1000, '[')), HasSubstr("lists and maps within one another"));
}

}  // namespace
}  // namespace tutti::engine
