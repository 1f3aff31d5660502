// Configuration: files, words key=value, which mistakes are refused with which text; the learning rate.
#include "engine/config.hpp"
#include "engine/optimizers/schedules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::refusal;

class ConfigTest : public ::testing::Test {
 protected:
  fs::path write(const std::string& text) const {
    std::ofstream(folder_ / "my.yaml") << text;
    return folder_ / "my.yaml";
  }

  const testing::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  Config config_;
};

TEST_F(ConfigTest, WordsSetValuesOfEveryType) {
  config_.set("model=mlp");
  config_.set("epochs=7");
  config_.set("lr=0.25");
  config_.set("bucket_bytes=64K");
  config_.set("data=a=b");
  EXPECT_EQ(config_.model.name, "mlp");
  EXPECT_EQ(config_.epochs, 7);
  EXPECT_EQ(base_learning_rate(config_), 0.25);
  EXPECT_EQ(config_.sync.bucket_bytes, 64 << 10);
  EXPECT_EQ(config_.data.source, "a=b");
}

TEST_F(ConfigTest, TimesAreReadAsPeopleWriteThem) {
  const std::pair<const char*, double> known[] = {
      {"90", 90},         {"90s", 90},           {"1.5h", 5400}, {"90m", 5400}, {"2d", 172800},
      {"01:30:00", 5400}, {"1:00:00:00", 86400}, {"02:30", 150}, {"0", 0}};
  for (const auto& [text, seconds] : known) {
    config_.set("max_time", text);
    EXPECT_EQ(config_.max_time, seconds) << text;
  }
  for (const char* bad : {"", "h", "1:2:3:4:5", "1:-2", "an hour", "-1", ":", "1h30m", "inf"})
    EXPECT_THAT(refusal([&] { config_.set("max_time", bad); }), HasSubstr("90m, 8h or 01:30:00")) << bad;
}

TEST_F(ConfigTest, KeysOfOtherTrainersWorkOrAreAnsweredWithThoseOfHere) {
  for (const char* word : {"max_epochs=3", "max-epochs=3", "n_epochs=3"}) {
    config_.set(word);
    EXPECT_EQ(config_.epochs, 3) << word;
    config_.epochs = 10;
  }
  config_.set("gradient_clip_val=0.5");
  config_.set("drop-last=true");
  EXPECT_EQ(config_.optimizer.clip, 0.5);
  EXPECT_EQ(config_.data.last, "drop");
  const std::pair<const char*, const char*> known[] = {
      {"accumulate_grad_batches", "batch.micro=N"}, {"devices", "-np N"},      {"ckpt_path", "--resume DIR"},
      {"early-stopping", "stop.patience=N"},        {"trial_name", "run=DIR"}, {"save_top_k", "checkpoint.keep=N"}};
  for (const auto& [key, advice] : known)
    EXPECT_THAT(refusal([&] { config_.set(key, "1"); }), HasSubstr(advice)) << key;
}

TEST_F(ConfigTest, RefusalsSayWhatIsAllowed) {
  EXPECT_THAT(refusal([&] { config_.set("epoch=3"); }), AllOf(HasSubstr("'epoch'"), HasSubstr("'epochs'")));
  EXPECT_THAT(refusal([&] { config_.set("momentun=3"); }), HasSubstr("'momentum'"));
  EXPECT_THAT(refusal([&] { config_.set("zzzzzzzzzzzz=3"); }), HasSubstr("--help-config"));
  EXPECT_THAT(refusal([&] { config_.set("epochs"); }), HasSubstr("key=value"));
  EXPECT_THAT(refusal([&] { config_.set("device=gpu"); }), HasSubstr("auto or cpu or cuda"));
  for (const char* bad : {"epochs=0", "epochs=-1", "epochs=1.5", "epochs=", "epochs=ten", "batch=0", "seed=1K",
                          "epochs=99999999999999999999"})
    EXPECT_THAT(refusal([&] { config_.set(bad); }), HasSubstr("expected a whole number")) << bad;
  for (const char* bad :
       {"optimizer.clip=-1", "optimizer.clip=nan", "optimizer.clip=inf", "optimizer.clip=big", "optimizer.clip=0.1x"})
    EXPECT_THAT(refusal([&] { config_.set(bad); }), HasSubstr("expected a number")) << bad;
  EXPECT_EQ(config_.epochs, Config{}.epochs);
}

TEST_F(ConfigTest, FilesAreReadAndTheirErrorsHaveALine) {
  config_.read(write("# a comment\nmodel: mlp\nepochs: 12\nlr: 0.5\n"));
  EXPECT_EQ(config_.model.name, "mlp");
  EXPECT_EQ(config_.epochs, 12);
  EXPECT_THAT(refusal([&] { config_.read(write("model: mlp\nepoch: 1\n")); }),
              AllOf(HasSubstr("my.yaml:2: "), HasSubstr("'epochs'")));
  EXPECT_THAT(refusal([&] { config_.read(write("epochs: 1\nepochs: 2\n")); }),
              AllOf(HasSubstr("my.yaml:2: 'epochs' is set twice"), HasSubstr("my.yaml:1)")));
  EXPECT_THAT(refusal([&] { config_.read(write("- a\n- b\n")); }), HasSubstr("`key: value`"));
  EXPECT_THAT(refusal([&] { config_.read(write("a: [1\n")); }), HasSubstr("my.yaml:"));
  EXPECT_THAT(refusal([&] { config_.read(folder_ / "none.yaml"); }), HasSubstr("cannot be read"));
  config_.read(write(""));
}

TEST_F(ConfigTest, NestedMapsDottedKeysAndOtherNamesAreOneValue) {
  for (const char* text : {"optimizer:\n  lr: 0.5\n", "optimizer.lr: 0.5\n", "lr: 0.5\n", "learning_rate: 0.5\n",
                           "{\"optimizer\": {\"lr\": 0.5}}"}) {
    Config config;
    config.read(write(text));
    EXPECT_EQ(base_learning_rate(config), 0.5) << text;
    EXPECT_THAT(config.sources.at("optimizer.lr"), HasSubstr("my.yaml:")) << text;
  }
  config_.read(write("model: {name: mlp, hidden: [32, 16]}\nbatch: {global: 8}\n"));
  EXPECT_EQ(config_.model.name, "mlp");
  EXPECT_EQ(config_.model.options.at("hidden"), "32,16");
  EXPECT_EQ(config_.batch.global, 8);
  EXPECT_THAT(refusal([&] { config_.read(write("optimizer: {lr: 1}\nlr: 2\n")); }),
              AllOf(HasSubstr("my.yaml:2: 'lr' is set twice"), HasSubstr("'optimizer.lr'"), HasSubstr("my.yaml:1")));
  EXPECT_THAT(refusal([&] { config_.read(write("optimizer:\n  momentun: 1\n")); }),
              AllOf(HasSubstr("my.yaml:2: "), HasSubstr("'optimizer.momentun'"), HasSubstr("'optimizer.momentum'")));
  EXPECT_THAT(refusal([&] { config_.read(write("epochs: {a: 1}\n")); }), HasSubstr("'epochs.a'"));
  EXPECT_THAT(refusal([&] { config_.read(write("hidden: [[1], 2]\n")); }), HasSubstr("a value or a list of values"));
}

TEST_F(ConfigTest, TheResolvedOneIsReadAgainAndSaysWhereValuesComeFrom) {
  config_.read(write("model: mlp\nhidden: [32, 16]\ndata: \"a \\\"b\\\" c\"\n"));
  config_.set("lr=0.1");
  const std::string text = config_.resolved();
  EXPECT_THAT(text, AllOf(HasSubstr("  lr: 0.1"), HasSubstr("# the command line"), HasSubstr("my.yaml:1\n"),
                          HasSubstr("# default\n")));
  Config again;
  again.read(write(text));
  for (const ConfigInfo& info : config_table())
    EXPECT_EQ(value_text(again, info), value_text(config_, info)) << info.key;
}

TEST(ConfigTable, HasEveryNameOnce) {
  std::set<std::string> names;
  for (const ConfigInfo& info : config_table()) {
    EXPECT_TRUE(names.emplace(info.key).second) << info.key;
    EXPECT_FALSE(info.meaning.empty()) << info.key;
    std::istringstream aliases{std::string(info.aliases)};
    for (std::string alias; aliases >> alias;) EXPECT_TRUE(names.insert(alias).second) << alias;
  }
}

TEST(ConfigTable, IsTheOneInTheBook) {
  std::ifstream file(TUTTI_BOOK "/18-configuration.md");
  const std::string chapter{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(chapter, HasSubstr(config_markdown())) << "docs/book/18-configuration.md has another table of keys";
}

TEST_F(ConfigTest, NamesAreFoundInFolders) {
  const fs::path file = write("model: mlp\n");
  const fs::path folders[] = {folder_ / "absent", folder_};
  EXPECT_EQ(find_config("my", folders), file);
  EXPECT_EQ(find_config("my.yaml", folders), file);
  EXPECT_EQ(find_config(file, {}), file);
  EXPECT_THAT(refusal([&] { find_config("your", folders); }), AllOf(HasSubstr("'your'"), HasSubstr("one of my")));
}

TEST_F(ConfigTest, ChecksWhatBelongsTogether) {
  EXPECT_THAT(refusal([&] { config_.check(); }), HasSubstr("tutti data optdigits"));
  config_.data.source = "somewhere";
  config_.check();
  config_.schedule.warmup = 11;
  EXPECT_THAT(refusal([&] { config_.check(); }), HasSubstr("warmup"));
}

TEST_F(ConfigTest, TheConfigurationsThatComeWithTuttiAreValid) {
  int found = 0;
  for (const auto& entry : fs::directory_iterator(TUTTI_CONFIGS)) {
    Config config;
    config.read(entry.path());
    config.check();
    ++found;
  }
  EXPECT_GE(found, 3);
}

TEST_F(ConfigTest, OptionsAreThoseOfTheChoice) {
  config_.set("data=random:1x8x8");
  config_.set("optimizer=adamw");
  config_.set("optimizer.beta1=0.8");
  config_.set("schedule.name=step");
  config_.set("lr_step=20,40");
  config_.set("model=mlp");
  config_.set("hidden=32,16");
  config_.check();
  EXPECT_EQ(base_learning_rate(config_), 0.001);  // the optimizer's usual rate
  EXPECT_EQ(config_.schedule.options.at("milestones"), "20,40");
  EXPECT_THAT(config_.resolved(),
              AllOf(HasSubstr("  beta1: 0.8"), HasSubstr("  beta2: 0.999"), HasSubstr("  hidden: \"32,16\"")));
  config_.set("optimizer.rho=0.5");
  EXPECT_THAT(refusal([&] { config_.check(); }), AllOf(HasSubstr("optimizer.name=adamw"), HasSubstr("rho")));
  EXPECT_THAT(refusal([&] { config_.set("optimizer.betta1=0.5"); }), HasSubstr("'optimizer.beta1'"));
  config_.read(write("epochs: 5\noptimizer: {name: sgd, lr: fast}\n"));
  config_.optimizer.options.erase("beta1");
  config_.optimizer.options.erase("rho");
  EXPECT_THAT(refusal([&] { config_.check(); }), AllOf(HasSubstr("my.yaml:2: "), HasSubstr("fast")));
  Config other;
  other.set("data=random:1x8x8");
  other.set("model=lenett");
  EXPECT_THAT(refusal([&] { other.check(); }), HasSubstr("lenet"));
}

TEST_F(ConfigTest, CheckpointsNeedAFolder) {
  config_.set("data=random:1x8x8");
  config_.set("checkpoint.every_epochs=1");
  EXPECT_THAT(refusal([&] { config_.check(); }), HasSubstr("run=DIR"));
  config_.set("run=somewhere");
  config_.check();
}

TEST_F(ConfigTest, RulesOfExchangeHaveOptionsAndLimits) {
  config_.set("data=random:1x8x8");
  config_.set("avg_freq=4");
  EXPECT_THAT(refusal([&] { config_.check(); }), HasSubstr("gradients travel in every step"));
  config_.set("sync.rule=avg");
  config_.set("sync.scale_lr=false");
  config_.check();
  EXPECT_THAT(config_.resolved(), AllOf(HasSubstr("  name: avg"), HasSubstr("  every: 4"), HasSubstr("  scale_lr: ")));
  config_.set("sync.rule=averages");
  EXPECT_THAT(refusal([&] { config_.check(); }), HasSubstr("no strategy 'averages'"));
}

TEST_F(ConfigTest, WhatIsForAllreducedGradientsIsForNoMasters) {
  for (const char* const word : {"deterministic=membership", "sync.batch_norm=true"}) {
    Config config;
    for (const char* const each : {"data=random:1x8x8", "strategy=downpour", word}) config.set(each);
    EXPECT_THAT(refusal([&] { config.check(); }), HasSubstr("is for strategy=bsp")) << word;
  }
}

TEST_F(ConfigTest, GrainsHaveLimits) {
  config_.set("data=random:1x8x8");
  EXPECT_EQ(grains_of(config_), 0U);
  config_.set("batch.grains=4");
  EXPECT_THAT(refusal([&] { config_.check(); }), HasSubstr("deterministic=membership"));
  config_.set("deterministic=membership");
  config_.check();
  EXPECT_EQ(grains_of(config_), 4U);
  config_.set("batch.grains=0");
  EXPECT_EQ(grains_of(config_), 16U);
  config_.set("batch=13");
  EXPECT_EQ(grains_of(config_), 8U);
  for (const auto& [bad, what] : {std::pair{"batch.grains=6", "a power of two"},
                                  {"batch.grains=16", "at most batch"},
                                  {"batch.micro=2", "batch.micro"},
                                  {"data.way=strided", "data.way"},
                                  {"sync.rule=cdd", "strategy=bsp"}}) {
    Config config = config_;
    config.set(bad);
    EXPECT_THAT(refusal([&] { config.check(); }), HasSubstr(what)) << bad;
  }
}

TEST(LearningRate, IsThatOfTheSchedule) {
  Config config;
  config.set("lr=1");
  config.set("warmup=1");
  const Schedule cosine = make_schedule(config);
  const auto rate = [&](std::size_t step) {
    return cosine.rate({.step = step, .steps_per_epoch = 9, .total_steps = 109});
  };
  EXPECT_DOUBLE_EQ(rate(0), 0.1);
  EXPECT_DOUBLE_EQ(rate(8), 0.9);
  EXPECT_DOUBLE_EQ(rate(9), 1);
  EXPECT_NEAR(rate(59), 0.5, 1e-12);
  EXPECT_LT(rate(108), 0.001);
  config.set("schedule=constant");
  EXPECT_EQ(make_schedule(config).rate({.step = 108, .steps_per_epoch = 9, .total_steps = 109}), 1);
}

}  // namespace
}  // namespace tutti::engine
