// The local store and the prefix store.
#include "tests/support/store_contract.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {
namespace {

StoreUnderTest local() {
  return {[store = make_local_store()] { return store; }};
}

StoreUnderTest prefixed() {
  return {[store = make_local_store()] { return make_prefix_store(store, "job 7"); }};
}

INSTANTIATE_TEST_SUITE_P(Local, StoreContract, ::testing::Values(local));

INSTANTIATE_TEST_SUITE_P(Prefix, StoreContract, ::testing::Values(prefixed));

TEST(PrefixStore, KeysDoNotMeet) {
  auto inner = make_local_store();
  auto a = make_prefix_store(inner, "a"), b = make_prefix_store(inner, "b");
  a->set("key", "of a");
  std::string value;
  EXPECT_FALSE(b->find("key", value));
  EXPECT_EQ(inner->wait("a/key", never), "of a");
  EXPECT_EQ(make_prefix_store(a, "x")->set_once("key", "nested"), "nested");
  EXPECT_TRUE(inner->find("a/x/key", value));
}

}  // namespace
}  // namespace tutti::testing
