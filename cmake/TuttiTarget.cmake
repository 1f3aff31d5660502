# tutti_target(NAME): C++20, warnings (as errors where TUTTI_WERROR is on), hidden symbols off, sanitizers as configured.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
find_program(TUTTI_CCACHE ccache)
if(TUTTI_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # By default ccache declines to cache what includes a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${TUTTI_CCACHE})
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

function(tutti_target name)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
    $<$<BOOL:${TUTTI_WERROR}>:-Werror>
    # g++ 12 warns of copies in std::string that cannot happen (GCC bug 105651), and more often from precompiled headers.
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>)
  if(TUTTI_SANITIZE)
    list(JOIN TUTTI_SANITIZE "," sanitizers)
    target_compile_options(${name} PRIVATE -fsanitize=${sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${name} PRIVATE -fsanitize=${sanitizers})
    if("thread" IN_LIST TUTTI_SANITIZE)
      target_compile_options(${name} PRIVATE -Wno-tsan)
    endif()
  endif()
endfunction()

# tutti_unity(NAME [FOLDERS folder...] [ALONE file...]): where TUTTI_UNITY is on, NAME's sources are compiled several at a time: eight in
# their order, or, with FOLDERS, all of each of these folders, so that another file moves none of the others. ALONE: what has names in
# its unnamed namespace that others have too.
option(TUTTI_UNITY "Compile the libraries' sources several at a time: sooner from nothing, later after a change" OFF)
function(tutti_unity name)
  cmake_parse_arguments(arg "" "" "FOLDERS;ALONE" ${ARGN})
  if(NOT TUTTI_UNITY)
    return()
  endif()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON)
  set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(arg_FOLDERS)
    set_target_properties(${name} PROPERTIES UNITY_BUILD_MODE GROUP)
    get_target_property(sources ${name} SOURCES)
    foreach(file IN LISTS sources)
      cmake_path(GET file PARENT_PATH folder)
      cmake_path(IS_PREFIX CMAKE_CURRENT_SOURCE_DIR "${folder}" whole)
      if(whole)
        cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
      endif()
      if(folder STREQUAL "")
        set(folder .)
      endif()
      if(folder IN_LIST arg_FOLDERS)
        set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${folder})
      endif()
    endforeach()
  endif()
  # Names that one source file keeps to itself are visible to those compiled with it.
  target_compile_options(${name} PRIVATE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# tutti_precompile(NAME HEADER...): what NAME's sources include of these is parsed once. Only headers from outside the tree
# belong here: a change of one of ours would compile everything again.
option(TUTTI_PRECOMPILE "Precompiled headers of the standard library and of third parties: a cold build takes less time" ON)
set(TUTTI_STANDARD_HEADERS <algorithm> <array> <atomic> <bit> <charconv> <chrono> <condition_variable> <cstddef> <cstdint>
  <cstring> <deque> <filesystem> <functional> <map> <memory> <mutex> <optional> <set> <span> <sstream> <string> <string_view>
  <thread> <tuple> <unordered_map> <utility> <variant> <vector>)
function(tutti_precompile name)
  if(TUTTI_PRECOMPILE)
    target_precompile_headers(${name} PRIVATE ${TUTTI_STANDARD_HEADERS} ${ARGN})
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # ccache wants it
  endif()
endfunction()

# tutti_header_carrier(NAME): an object library of nothing, for precompiled headers that several targets reuse.
function(tutti_header_carrier name)
  set(nothing ${PROJECT_BINARY_DIR}/generated/${name}.cpp)
  file(CONFIGURE OUTPUT ${nothing} CONTENT "// Carries precompiled headers.\n")
  add_library(${name} OBJECT ${nothing})
endfunction()

# What most sources that use LibTorch include of it: half of the time that they take to compile.
set(TUTTI_TORCH_HEADERS <ATen/Functions.h> <torch/nn/module.h> <torch/nn/pimpl.h> <torch/utils.h>)

# tutti_reuse_precompiled(NAME FROM): NAME's sources take the precompiled headers of FROM, which is compiled with the same options.
function(tutti_reuse_precompiled name from)
  if(TUTTI_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM ${from})
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  endif()
endfunction()
