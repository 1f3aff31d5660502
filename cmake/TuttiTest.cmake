option(TUTTI_DEBUG_TESTS "Compile test programs with the build type's own options, for a debugger" OFF)

# tutti_test_target(NAME): tutti_target(), but compiled with little optimisation and with line numbers alone, as what is
# tested is in the libraries.
function(tutti_test_target name)
  tutti_target(${name})
  if(NOT TUTTI_DEBUG_TESTS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE -O1 -g1)
  endif()
endfunction()

# tutti_timeout(VARIABLE SECONDS): after how long a test counts as hung; 120 s where SECONDS is empty. Under a sanitizer
# a test takes several times as long, and has three times as long.
function(tutti_timeout variable seconds)
  if(NOT seconds)
    set(seconds 120)
  endif()
  if(TUTTI_SANITIZE)
    math(EXPR seconds "3 * ${seconds}")
  endif()
  set(${variable} ${seconds} PARENT_SCOPE)
endfunction()

# tutti_test(NAME LABEL SOURCES file... [LIBRARIES lib...] [TIMEOUT s] [PROCESSORS n] [ARGS ...])
#
# One GoogleTest program, run as one ctest case with the given label. A case prints why it skips; a hang ends as a
# failure after TIMEOUT seconds, as tutti_timeout() has it. What may take long begins first, so that no test is left to
# run alone in the end.
function(tutti_test name label)
  cmake_parse_arguments(arg "" "TIMEOUT;PROCESSORS" "SOURCES;LIBRARIES;ARGS;ENVIRONMENT" ${ARGN})
  tutti_timeout(arg_TIMEOUT "${arg_TIMEOUT}")
  if(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 1)
  endif()
  set(headers tutti_test_headers)
  set(torch "")
  if("tutti_torch" IN_LIST arg_LIBRARIES)
    set(headers tutti_torch_test_headers)
    set(torch ${TUTTI_TORCH_HEADERS})
  endif()
  if(NOT TARGET ${headers})
    tutti_header_carrier(${headers})
    tutti_test_target(${headers})
    set_target_properties(${headers} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${headers} PRIVATE -fPIE)  # as programs are compiled
    target_link_libraries(${headers} PRIVATE GTest::gtest GTest::gmock Threads::Threads)
    if(torch)
      target_link_libraries(${headers} PRIVATE tutti_torch)
    endif()
    tutti_precompile(${headers} <gtest/gtest.h> <gmock/gmock.h> ${torch})
  endif()
  add_executable(${name} ${arg_SOURCES})
  tutti_test_target(${name})
  tutti_reuse_precompiled(${name} ${headers})
  if(torch)  # whose headers take as long as what is tested
    tutti_unity(${name})
  endif()
  target_link_libraries(${name} PRIVATE tutti::tutti GTest::gtest GTest::gmock GTest::gtest_main ${arg_LIBRARIES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(TARGET ${label}_tests)
    add_dependencies(${label}_tests ${name})
  endif()
  add_test(NAME ${label}.${name} COMMAND ${name} ${arg_ARGS})
  set_tests_properties(${label}.${name} PROPERTIES LABELS ${label} TIMEOUT ${arg_TIMEOUT} PROCESSORS ${arg_PROCESSORS}
    COST ${arg_TIMEOUT} ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()
