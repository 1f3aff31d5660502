option(TUTTI_DEBUG_TESTS "Compile test programs with the build type's own options, for a debugger" OFF)

# tutti_test_target(NAME): tutti_target(), but compiled with little optimisation and with line numbers alone, as what is
# tested is in the libraries.
function(tutti_test_target name)
  tutti_target(${name})
  if(NOT TUTTI_DEBUG_TESTS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE -O1 -g1)
  endif()
endfunction()

# tutti_test(NAME LABEL SOURCES file... [LIBRARIES lib...] [TIMEOUT s] [PROCESSORS n] [ARGS ...])
#
# One GoogleTest program, run as one ctest case with the given label. A case
# prints why it skips; a hang ends as a failure after TIMEOUT seconds (default 120).
function(tutti_test name label)
  cmake_parse_arguments(arg "" "TIMEOUT;PROCESSORS" "SOURCES;LIBRARIES;ARGS;ENVIRONMENT" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 1)
  endif()
  if(NOT TARGET tutti_test_headers)
    set(nothing ${PROJECT_BINARY_DIR}/generated/test_headers.cpp)
    file(CONFIGURE OUTPUT ${nothing} CONTENT "// Carries the precompiled headers of all tests.\n")
    add_library(tutti_test_headers OBJECT ${nothing})
    tutti_test_target(tutti_test_headers)
    set_target_properties(tutti_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(tutti_test_headers PRIVATE -fPIE)  # as programs are compiled
    target_link_libraries(tutti_test_headers PRIVATE GTest::gtest GTest::gmock Threads::Threads)
    tutti_precompile(tutti_test_headers <gtest/gtest.h> <gmock/gmock.h>)
  endif()
  add_executable(${name} ${arg_SOURCES})
  tutti_test_target(${name})
  tutti_reuse_precompiled(${name} tutti_test_headers)
  target_link_libraries(${name} PRIVATE tutti::tutti GTest::gtest GTest::gmock GTest::gtest_main ${arg_LIBRARIES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(TARGET ${label}_tests)
    add_dependencies(${label}_tests ${name})
  endif()
  add_test(NAME ${label}.${name} COMMAND ${name} ${arg_ARGS})
  set_tests_properties(${label}.${name} PROPERTIES LABELS ${label} TIMEOUT ${arg_TIMEOUT} PROCESSORS ${arg_PROCESSORS}
    ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()
