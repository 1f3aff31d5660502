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
  add_executable(${name} ${arg_SOURCES})
  tutti_target(${name})
  target_link_libraries(${name} PRIVATE tutti::tutti GTest::gtest GTest::gmock GTest::gtest_main ${arg_LIBRARIES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(label STREQUAL "unit" AND TARGET unit_tests)  # all of them, to be built alone
    add_dependencies(unit_tests ${name})
  endif()
  add_test(NAME ${label}.${name} COMMAND ${name} ${arg_ARGS})
  set_tests_properties(${label}.${name} PROPERTIES LABELS ${label} TIMEOUT ${arg_TIMEOUT} PROCESSORS ${arg_PROCESSORS}
    ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()
