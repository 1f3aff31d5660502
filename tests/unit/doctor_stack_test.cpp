// How the function is found in which a process is: maps, symbols, names, calls, tables for unwinding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ucontext.h>
#include <unistd.h>

#include <fstream>
#include <utility>
#include <vector>

#include "collectives/doctor/call_sites.hpp"
#include "collectives/doctor/elf_file.hpp"
#include "collectives/doctor/function_name.hpp"
#include "collectives/doctor/memory_map.hpp"
#include "collectives/doctor/sample.hpp"
#include "collectives/doctor/unwind.hpp"
#include "collectives/doctor/unwind_table.hpp"
#include "tests/support/temporary_folder.hpp"

namespace training {

[[gnu::noinline]] int step(int number) { return ::getppid() + number; }

}  // namespace training

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The registers as getcontext() has seen them.
doctor::Sample sample_of(const ucontext_t& context) {
  doctor::Sample sample;
#ifdef __x86_64__
  const auto& registers = context.uc_mcontext.gregs;
  sample.at = static_cast<std::uint64_t>(registers[REG_RIP]);
  sample.top = static_cast<std::uint64_t>(registers[REG_RSP]);
  constexpr std::pair<std::size_t, int> kept[] = {{3, REG_RBX},  {6, REG_RBP},  {12, REG_R12},
                                                  {13, REG_R13}, {14, REG_R14}, {15, REG_R15}};
  for (const auto& [number, index] : kept) sample.registers[number] = static_cast<std::uint64_t>(registers[index]);
#else
  sample.at = context.uc_mcontext.pc;
  sample.top = context.uc_mcontext.sp;
  for (std::size_t i = 19; i <= 30; ++i) sample.registers[i] = context.uc_mcontext.regs[i];
#endif
  sample.known = true;
  return sample;
}

std::vector<doctor::Mapping> own_maps() {
  std::ifstream file("/proc/self/maps");
  return doctor::parse_maps(std::string((std::istreambuf_iterator<char>(file)), {}));
}

// The stack between the variables is no memory of the program's to a sanitizer.
[[gnu::no_sanitize_address]] void copy_words(std::uint64_t from, std::vector<std::uint64_t>& into) {
  const auto* const words = reinterpret_cast<const volatile std::uint64_t*>(static_cast<std::uintptr_t>(from));
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = words[i];
}

TEST(DoctorStackTest, UnwindsItself) {
  const auto maps = own_maps();
  ucontext_t context;
  ASSERT_EQ(::getcontext(&context), 0);
  doctor::Sample sample = sample_of(context);
  const doctor::Mapping* const stack = doctor::mapping_at(maps, sample.top);
  if (stack == nullptr) GTEST_SKIP() << "the map of this process lacks its stack";
  sample.stack.resize((stack->end - sample.top) / sizeof(std::uint64_t));
  copy_words(sample.top, sample.stack);
  bool complete = false;
  const auto active = doctor::unwind(::getpid(), maps, sample, complete);
  EXPECT_TRUE(complete);
  EXPECT_GT(active.size(), 8u);  // this function, GoogleTest, main(), what calls it
}

TEST(DoctorStackTest, TheRulesOfAFunctionsStart) {
  const auto maps = own_maps();
  const auto at = reinterpret_cast<std::uintptr_t>(&training::step);
  const doctor::Mapping* const mapping = doctor::mapping_at(maps, at);
  if (mapping == nullptr) GTEST_SKIP() << "the map of this process lacks its program";
  const doctor::ElfFile file("/proc/self/exe");
  const auto address = file.address_at(at - mapping->start + mapping->offset);
  ASSERT_TRUE(address);
  EXPECT_THAT(file.functions_at({*address})[0].name, HasSubstr("training4step"));
  const auto rules = doctor::frame_rules(file, *address);
  ASSERT_TRUE(rules);
  EXPECT_EQ(rules->base, doctor::stack_register);
  EXPECT_FALSE(rules->is_signal);
  EXPECT_FALSE(doctor::frame_rules(file, 1));
  using Kind = doctor::RegisterRule::Kind;
#ifdef __x86_64__
  EXPECT_EQ(rules->offset, 8);
  EXPECT_EQ(rules->registers[rules->return_register].kind, Kind::stored);
#else
  EXPECT_EQ(rules->offset, 0);
  EXPECT_EQ(rules->registers[rules->return_register].kind, Kind::same);
#endif
}

TEST(DoctorStackTest, MapsAreParsed) {
  const auto maps = doctor::parse_maps(
      "7f20-7f30 r-xp 00001000 08:01 12   /usr/lib/libc.so.6\n"
      "zzz\n7f40-7f30 r-xp 0 0 0\n7f50-\n"
      "5510-5520 r-xp 00002000 08:01 13                         /data/my train (deleted)\n"
      "ffff-10fff rw-p 00000000 00:00 0");
  ASSERT_EQ(maps.size(), 3u);
  EXPECT_EQ(maps[0].path, "/data/my train (deleted)");
  EXPECT_EQ(maps[0].offset, 0x2000u);
  EXPECT_EQ(doctor::file_name(maps[0].path), "my train");
  EXPECT_EQ(doctor::mapping_at(maps, 0x7f2f), &maps[1]);
  EXPECT_EQ(doctor::mapping_at(maps, 0x7f30), nullptr);
  EXPECT_EQ(doctor::mapping_at(maps, 0), nullptr);
  EXPECT_FALSE(maps[2].executable);
  EXPECT_TRUE(maps[2].path.empty());
}

TEST(DoctorStackTest, OwnersOfCode) {
  using doctor::Owner;
  EXPECT_EQ(doctor::owner_of("/usr/lib/libc.so.6"), Owner::library);
  EXPECT_EQ(doctor::owner_of("/opt/lib/libtutti.so.0"), Owner::library);
  EXPECT_EQ(doctor::owner_of("[vdso]"), Owner::library);
  EXPECT_EQ(doctor::owner_of("[stack]"), Owner::nobody);
  EXPECT_EQ(doctor::owner_of(""), Owner::nobody);
  EXPECT_EQ(doctor::owner_of("/usr/bin/python3.11"), Owner::interpreter);
  EXPECT_EQ(doctor::owner_of("/data/libc.so_trainer/train"), Owner::program);
  EXPECT_EQ(doctor::owner_of("/data/libconv.so"), Owner::program);
  EXPECT_EQ(doctor::owner_of("/usr/lib/x86_64-linux-gnu/libxml2.so.2"), Owner::library);
  EXPECT_EQ(doctor::owner_of("/usr/lib/x86_64-linux-gnu/libpython3.11.so.1"), Owner::interpreter);
  EXPECT_EQ(doctor::owner_of("/usr/lib/python3/dist-packages/model.so"), Owner::program);
  EXPECT_EQ(doctor::owner_of("/usr/lib/trainer/train"), Owner::program);
  EXPECT_EQ(doctor::owner_of("/opt/mpi/lib/libmpi.so.40"), Owner::library);
}

TEST(DoctorStackTest, NamesOfFunctions) {
  using doctor::is_library_function;
  using doctor::readable_function;
  EXPECT_EQ(readable_function("main"), "main");
  EXPECT_EQ(readable_function("_Z4stepid"), "step()");
  EXPECT_EQ(readable_function("_Z4stepid.part.0.cold"), "step()");
  EXPECT_EQ(readable_function("_ZNK3net5Layer7forwardERKSt6vectorIfSaIfEE"), "net::Layer::forward()");
  EXPECT_EQ(readable_function("_Z3addIiET_S0_S0_"), "add<int>()");
  EXPECT_EQ(readable_function("_ZN12_GLOBAL__N_14workEv"), "(anonymous namespace)::work()");
  EXPECT_EQ(readable_function("_ZN3netlsIcEERNS_3LogES1_T_"), "net::operator<<<char>()");
  EXPECT_EQ(readable_function("_ZN3net5LayercvbEv"), "net::Layer::operator bool()");
  EXPECT_EQ(readable_function("_Z3addIiEDTplfp_fp_ET_"), "add<int>()");  // its result is a decltype
  EXPECT_EQ(readable_function("_Znot a name"), "_Znot a name");
  EXPECT_EQ(readable_function("a\x1b[2Jb"), "a\\x1b[2Jb");
  std::string bomb = "_Z1fI1aE";
  for (int i = 0; i < 60; ++i) bomb += "S" + std::to_string(i % 10) + "_S_";
  EXPECT_THAT(readable_function(bomb), StartsWith("_Z1fI1aE"));
  EXPECT_TRUE(is_library_function("_ZN5tutti12Communicator7barrierEv"));
  EXPECT_TRUE(is_library_function("MPI_Barrier"));
  EXPECT_TRUE(is_library_function("_ZNSt6thread4joinEv"));
  EXPECT_FALSE(is_library_function("_ZN6tuttis1fEv"));
  EXPECT_FALSE(is_library_function("main"));
  EXPECT_FALSE(is_library_function(""));
}

TEST(DoctorStackTest, FilesThatAreNoElfHaveNoFunctions) {
  const TemporaryFolder folder;
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::string head(4096, '\0');
  self.read(head.data(), static_cast<std::streamsize>(head.size()));
  const auto functions = [&](const std::string& content) {
    const std::string path = folder.path() + "/file";
    std::ofstream(path, std::ios::binary) << content;
    return doctor::ElfFile(path).functions_at({0x1000, 0})[0].name;
  };
  EXPECT_EQ(functions(""), "");
  EXPECT_EQ(functions("#!/bin/sh\n"), "");
  EXPECT_EQ(functions(head), "");  // its table is beyond the end
  for (std::size_t i = 16; i < 64; ++i) {
    std::string wrong = head;
    wrong[i] = '\xff';
    EXPECT_EQ(functions(wrong), "") << i;
  }
  EXPECT_EQ(doctor::ElfFile("/").address_at(0), std::nullopt);
  EXPECT_EQ(doctor::ElfFile("/proc/self/exe").address_at(UINT64_MAX), std::nullopt);
}

#ifdef __x86_64__
TEST(DoctorStackTest, CallsAreRecognized) {
  const auto ends = [](std::initializer_list<int> bytes) {
    doctor::CodeBefore code{};
    std::size_t at = code.size() - bytes.size();
    for (const int byte : bytes) code[at++] = static_cast<std::uint8_t>(byte);
    return doctor::ends_with_call(code);
  };
  EXPECT_TRUE(ends({0xe8, 1, 2, 3, 4}));              // call function
  EXPECT_TRUE(ends({0xff, 0xd0}));                    // call *%rax
  EXPECT_TRUE(ends({0x41, 0xff, 0x54, 0x24, 0x10}));  // call *0x10(%r12)
  EXPECT_TRUE(ends({0xff, 0x15, 1, 2, 3, 4}));        // call *slot(%rip)
  EXPECT_TRUE(ends({0xff, 0x50, 0x18}));              // call *0x18(%rax)
  EXPECT_FALSE(ends({0xe9, 1, 2, 3, 4}));             // jmp
  EXPECT_FALSE(ends({0xff, 0xe0}));                   // jmp *%rax
  EXPECT_FALSE(ends({0xff, 0x50}));                   // half a call
}
#endif

}  // namespace
}  // namespace tutti::testing
