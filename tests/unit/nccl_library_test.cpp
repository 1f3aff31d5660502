// The nccl module's declarations of NCCL, compared with NCCL's own header and library if these are available.
#include "transports/nccl/library.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <tuple>
#include <type_traits>

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
#endif

#include "transports/nccl/settings.hpp"

namespace tutti::nccl {
namespace {

#ifndef NCCL_VERSION_CODE
constexpr int header = 0;
#else
constexpr int header = NCCL_VERSION_CODE;

static_assert(success == static_cast<int>(ncclSuccess) && remote_error == static_cast<int>(ncclRemoteError));
static_assert(in_progress == static_cast<int>(ncclInProgress) && invalid_usage == static_cast<int>(ncclInvalidUsage));
static_assert(unhandled_cuda_error == static_cast<int>(ncclUnhandledCudaError));
static_assert(system_error == static_cast<int>(ncclSystemError) &&
              internal_error == static_cast<int>(ncclInternalError));
static_assert(invalid_argument == static_cast<int>(ncclInvalidArgument));
static_assert(int8 == static_cast<int>(ncclInt8) && uint8 == static_cast<int>(ncclUint8));
static_assert(int32 == static_cast<int>(ncclInt32) && int64 == static_cast<int>(ncclInt64));
static_assert(uint32 == static_cast<int>(ncclUint32) && uint64 == static_cast<int>(ncclUint64));
static_assert(float16 == static_cast<int>(ncclFloat16) && bfloat16 == static_cast<int>(ncclBfloat16));
static_assert(float32 == static_cast<int>(ncclFloat32) && float64 == static_cast<int>(ncclFloat64));
static_assert(op_sum == static_cast<int>(ncclSum) && op_prod == static_cast<int>(ncclProd));
static_assert(op_max == static_cast<int>(ncclMax) && op_min == static_cast<int>(ncclMin));
static_assert(op_avg == static_cast<int>(ncclAvg));
static_assert(scalar_host_immediate == static_cast<int>(ncclScalarHostImmediate));
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(offsetof(Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(Config, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(Config, split_share) == offsetof(ncclConfig_t, splitShare));

// Maps a type to how its arguments are passed.
struct Id {};
template <class T>
using Plain = std::conditional_t<
    std::is_pointer_v<T>, void*,
    std::conditional_t<std::is_enum_v<T>, int, std::conditional_t<sizeof(T) == sizeof(UniqueId), Id, T> > >;
template <class F>
struct Handed;
template <class R, class... A>
struct Handed<R (*)(A...)> {
  using Type = std::tuple<Plain<R>, Plain<A>...>;
};
template <auto own, class Theirs>
constexpr bool same_as =
    std::is_same_v<typename Handed<std::remove_cvref_t<decltype(Api{}.*own)> >::Type, typename Handed<Theirs*>::Type>;

static_assert(same_as<&Api::get_version, decltype(ncclGetVersion)>);
static_assert(same_as<&Api::get_unique_id, decltype(ncclGetUniqueId)>);
static_assert(same_as<&Api::comm_init_rank_config, decltype(ncclCommInitRankConfig)>);
static_assert(same_as<&Api::comm_finalize, decltype(ncclCommFinalize)>);
static_assert(same_as<&Api::comm_destroy, decltype(ncclCommDestroy)>);
static_assert(same_as<&Api::comm_abort, decltype(ncclCommAbort)>);
static_assert(same_as<&Api::comm_get_async_error, decltype(ncclCommGetAsyncError)>);
static_assert(same_as<&Api::comm_count, decltype(ncclCommCount)>);
static_assert(same_as<&Api::get_error_string, decltype(ncclGetErrorString)>);
static_assert(same_as<&Api::get_last_error, decltype(ncclGetLastError)>);
static_assert(same_as<&Api::red_op_create_pre_mul_sum, decltype(ncclRedOpCreatePreMulSum)>);
static_assert(same_as<&Api::red_op_destroy, decltype(ncclRedOpDestroy)>);
static_assert(same_as<&Api::reduce, decltype(ncclReduce)>);
static_assert(same_as<&Api::broadcast, decltype(ncclBroadcast)>);
static_assert(same_as<&Api::all_reduce, decltype(ncclAllReduce)>);
static_assert(same_as<&Api::reduce_scatter, decltype(ncclReduceScatter)>);
static_assert(same_as<&Api::all_gather, decltype(ncclAllGather)>);
static_assert(same_as<&Api::send, decltype(ncclSend)>);
static_assert(same_as<&Api::recv, decltype(ncclRecv)>);
static_assert(same_as<&Api::group_start, decltype(ncclGroupStart)>);
static_assert(same_as<&Api::group_end, decltype(ncclGroupEnd)>);

#endif

TEST(NcclLibrary, IsDeclaredAsTheHeaderHasIt) {
  if (header == 0)
    GTEST_SKIP() << "no nccl.h beside a cuda_runtime.h; -DTUTTI_NCCL_ROOT=/folder names one with include/ and lib/";
  EXPECT_GE(header, oldest_version);
}

TEST(NcclLibrary, TheRealOneIsFoundAndTellsItsVersion) {
  Settings settings;
  settings.set("nccl_library", TUTTI_TEST_NCCL_LIBRARY, "test");
  if (settings.of(nccl_library).empty()) GTEST_SKIP() << "no libnccl.so.2; -DTUTTI_NCCL_ROOT=/folder names one";
  const Library& found = library(settings);
  EXPECT_EQ(found.missing, "");
  EXPECT_GE(found.version, oldest_version);
  EXPECT_EQ(version_text(22703), "2.27.3");
  UniqueId id;
  EXPECT_EQ(found.call.get_unique_id(&id), success);
}

TEST(NcclLibrary, WhereThereIsNoneTheReasonNamesTheSetting) {
  Settings settings;
  settings.set("nccl_library", "/nowhere/libnccl.so.2", "test");
  const std::string why = library(settings).missing;
  EXPECT_NE(why.find("/nowhere/libnccl.so.2"), std::string::npos) << why;
  EXPECT_NE(why.find("TUTTI_NCCL_LIBRARY"), std::string::npos) << why;
}

TEST(NcclLibrary, WhatIsNamedWinsOverWhatTheProcessHas) {
  void* const present = dlopen(TUTTI_FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(present, nullptr) << dlerror();
  EXPECT_NE(library(Settings()).file, "") << "nobody has named another";
  Settings settings;
  settings.set("nccl_library", "libm.so.6", "test");
  EXPECT_EQ(library(settings).missing, "libm.so.6 is no NCCL: it does not tell its version");
  dlclose(present);
}

TEST(NcclLibrary, AnotherLibraryIsNotTakenForIt) {
  Settings settings;
  settings.set("nccl_library", "libm.so.6", "test");
  EXPECT_EQ(library(settings).missing, "libm.so.6 is no NCCL: it does not tell its version");
}

}  // namespace
}  // namespace tutti::nccl
