# The installation's components, and the Debian packages that CPack makes of them (tools/package deb).
#
#   runtime       libtutti                                         libtutti0.2
#   runtime-c     libtutti_c                                       libtutti-c0
#   dev           headers, CMake's and pkg-config's files          libtutti-dev
#   tools         tutti, tutti-checkpoint                          tutti
#   peers         the other libraries' programs of tutti bench     tutti-bench-peers
#   module-NAME   what needs a library from outside                libtutti-NAME
#   training      libtutti_nn, libtutti_engine, tutti-train        tutti-training
#   training-dev  their headers and CMake's files                  libtutti-training-dev
#
# `cmake --install DIR` installs all of them, `--component NAME` one.

# Before 1.0 the C++ interface changes with the minor version; the one of C keeps its soname, libtutti_c.so.0.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(TUTTI_SOVERSION 0.${PROJECT_VERSION_MINOR})
else()
  set(TUTTI_SOVERSION ${PROJECT_VERSION_MAJOR})
endif()

# tutti_package(COMPONENT NAME SECTION SUMMARY [NEEDS package...] [SUGGESTS package...]): NEEDS are packages of this version.
macro(tutti_package component name section summary)
  cmake_parse_arguments(package "" "" "NEEDS;SUGGESTS" ${ARGN})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}")
  list(TRANSFORM package_NEEDS APPEND " (= ${PROJECT_VERSION})")
  list(JOIN package_NEEDS ", " CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS)
  list(JOIN package_SUGGESTS ", " CPACK_DEBIAN_${upper}_PACKAGE_SUGGESTS)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
endmacro()

# Called once, after all install() rules.
function(tutti_packages)
  if(NOT PROJECT_IS_TOP_LEVEL OR DEFINED SKBUILD)
    return()
  endif()
  set(library libtutti${TUTTI_SOVERSION})
  tutti_package(runtime ${library} libs "collectives between processes: libraries")
  set(dev_needs ${library})
  if(TARGET tutti_c)
    list(APPEND dev_needs libtutti-c0)
    tutti_package(runtime-c libtutti-c0 libs "collectives between processes: the library for C" NEEDS ${library})
  endif()
  tutti_package(dev libtutti-dev libdevel "collectives between processes: headers for C++20 and C" NEEDS ${dev_needs})
  get_property(modules GLOBAL PROPERTY TUTTI_MODULE_NAMES)
  list(REMOVE_DUPLICATES modules)
  set(module_packages "")
  foreach(module IN LISTS modules)
    list(APPEND module_packages libtutti-${module})
    tutti_package(module-${module} libtutti-${module} libs "collectives between processes: the module ${module}" NEEDS ${library})
  endforeach()
  if(TARGET tutti_command)
    tutti_package(tools tutti net "collectives between processes: launcher, benchmark and inspection" NEEDS ${library}
      SUGGESTS ${module_packages} tutti-training tutti-bench-peers)
  endif()
  foreach(peer openmpi mpich gloo)
    if(TARGET bench_peer_${peer} AND NOT "peers" IN_LIST CPACK_COMPONENTS_ALL)
      tutti_package(peers tutti-bench-peers net "collectives between processes: other libraries, to be compared with" NEEDS tutti)
    endif()
  endforeach()
  if(TARGET tutti_nn)
    set(needs ${library})
    if(TARGET tutti_command)
      list(APPEND needs tutti)
    endif()
    tutti_package(training tutti-training science "collectives between processes: distributed training with LibTorch" NEEDS ${needs})
    tutti_package(training-dev libtutti-training-dev libdevel "collectives between processes: headers of the training libraries"
      NEEDS tutti-training libtutti-dev)
  endif()

  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME tutti)
  set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
  set(CPACK_PACKAGE_CONTACT "The tutti authors")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
  set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
  include(CPack)
endfunction()
