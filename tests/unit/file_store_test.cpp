// The store in a folder.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/store_contract.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {
namespace {

struct Folder {
  Folder() { path = mkdtemp(name.data()); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string name = ::testing::TempDir() + "tutti-store-XXXXXX";
  std::string path;
};

StoreUnderTest folder() {
  return {[folder = std::make_shared<Folder>()] { return make_file_store(folder->path + "/made/here"); }};
}

INSTANTIATE_TEST_SUITE_P(File, StoreContract, ::testing::Values(folder));

TEST(FileStore, LeavesNoDraftsBehind) {
  const Folder folder;
  auto store = make_file_store(folder.path);
  store->set("a", "1");
  store->set_once("a", "2");
  store->set_once("b", "3");
  store->add("c", 1);
  store->erase("b");
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"k-a", "k-c", "lock"}));
}

// Locks of another host may be invisible here, so processes of other hosts are not considered ended.
TEST(FileStore, JudgesProcessesOfThisHostOnly) {
  const Folder folder;
  std::string value;
  make_file_store(folder.path)->set_at_end("gone", "has ended");  // the client is destroyed at once
  auto store = make_file_store(folder.path);
  EXPECT_TRUE(store->find("gone", value));
  EXPECT_EQ(value, "has ended");
  std::ofstream(folder.path + "/end-k-gone") << "another host\nhas ended";
  EXPECT_FALSE(store->find("gone", value));
  auto living = make_file_store(folder.path);
  living->set_at_end("gone", "will end");
  EXPECT_FALSE(store->find("gone", value));
  living.reset();
  EXPECT_TRUE(store->find("gone", value));
  EXPECT_EQ(value, "will end");
}

TEST(FileStore, SaysWhenTheFolderIsGone) {
  auto folder = std::make_unique<Folder>();
  auto store = make_file_store(folder->path);
  const std::string path = folder->path;
  folder.reset();
  for (const auto& error : {caught([&] { store->set("key", "value"); }), caught([&] { store->wait("key", never); })}) {
    EXPECT_EQ(error.code(), Code::peer_lost);
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("'key'"), std::string::npos) << error.what();
  }
}

TEST(FileStore, RefusesWhatIsNoFolder) {
  const Folder folder;
  std::ofstream(folder.path + "/file") << "x";
  const Error error = caught([&] { make_file_store(folder.path + "/file"); });
  EXPECT_EQ(error.code(), Code::resource);
  EXPECT_NE(std::string(error.what()).find(folder.path + "/file"), std::string::npos) << error.what();
}

Error refused(const std::string& path) {
  return caught([&] { make_file_store(path); });
}
void expect_in(const Error& error, Code code, const std::string& text) {
  EXPECT_EQ(error.code(), code);
  EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
}

TEST(FileStore, IsForItsUserAlone) {
  const Folder folder;
  const std::string made = folder.path + "/made";
  struct stat about {};
  for (const std::string& name : {folder.path + "/slash/", made}) {
    const mode_t before = umask(0);
    make_file_store(name)->set("a", "1");
    umask(before);
    ASSERT_EQ(stat(name.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777U, 0700U) << name;
  }
  ASSERT_EQ(chmod(made.c_str(), 0770), 0);
  expect_in(refused(made), Code::invalid, "other users may write to it");
  ASSERT_EQ(chmod(made.c_str(), 0777), 0);
  expect_in(refused(made), Code::invalid, "other users may write to it; say chmod go-w " + made);
  ASSERT_EQ(chmod(made.c_str(), 0755), 0);
  EXPECT_EQ(make_file_store(made)->wait("a", never), "1");
  if (geteuid() != 0) return;  // only root can give a folder to another user
  ASSERT_EQ(chown(made.c_str(), 12345, 12345), 0);
  expect_in(refused(made), Code::invalid, "it belongs to user id 12345; name a folder of your own");
}

TEST(FileStore, FollowsNoLinkAndWaitsForNoPipe) {
  const Folder folder;
  const std::string elsewhere = folder.path + "/elsewhere", path = folder.path + "/store";
  auto store = make_file_store(path);
  store->set("a", "1");
  std::filesystem::remove(path + "/lock");
  std::filesystem::create_symlink(elsewhere, path + "/lock");
  expect_in(caught([&] { make_file_store(path)->add("count", 1); }), Code::invalid, "a link or a pipe is there");
  EXPECT_FALSE(std::filesystem::exists(elsewhere)) << "made through the link";
  std::filesystem::remove(path + "/lock");
  std::filesystem::remove(path + "/k-a");
  ASSERT_EQ(mkfifo((path + "/k-a").c_str(), 0600), 0);
  std::string value;
  expect_in(caught([&] { make_file_store(path)->find("a", value); }), Code::invalid, "a link or a pipe is there");
}

TEST(OpenStore, TakesFoldersAndRefusesTheRest) {
  const Folder folder;
  open_store("file://" + folder.path, "", never)->set("key", "value");
  EXPECT_EQ(make_file_store(folder.path)->wait("key", never), "value");
  for (const char* url : {"", "tcp://", "tcp://host", "tcp://host:", "tcp://:1", "tcp://host:0", "tcp://host:65536",
                          "tcp://host:12x", "tcp://::1:80", "http://host:1", "file://relative", "/folder"}) {
    const Error error = caught([&] { open_store(url, "", Clock::now()); });
    EXPECT_EQ(error.code(), Code::invalid) << url;
    EXPECT_NE(std::string(error.what()).find("tcp://HOST:PORT"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tutti::testing
