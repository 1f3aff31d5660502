# Install rules and the package config: find_package(tutti) gives tutti::tutti, and tutti::c, tutti::nn and tutti::engine
# where they are asked for (COMPONENTS c nn engine). pkg-config knows libtutti_c as tutti, and libtutti, for C++, as tutti-cxx.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)

# A wheel has no symbolic links, so each library is there under the one name that programs look for.
set(namelink "")
if(DEFINED SKBUILD)
  set_target_properties(tutti PROPERTIES VERSION ${TUTTI_SOVERSION})
  set(namelink NAMELINK_SKIP)
endif()

install(TARGETS tutti EXPORT tutti-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev ${namelink}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(EXPORT tutti-targets NAMESPACE tutti:: DESTINATION ${package_dir} COMPONENT dev)

# tutti_pkg_config(NAME PURPOSE HEADERS LIBRARY PRIVATE): NAME.pc. HEADERS is a folder below the prefix; PRIVATE is what a static
# LIBRARY needs besides.
file(RELATIVE_PATH TUTTI_UP_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)  # it may be moved
function(tutti_pkg_config name purpose headers library private)
  if(BUILD_SHARED_LIBS)
    set(libraries ${library})
  else()
    set(libraries "${library} ${private}")
  endif()
  configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/tutti.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endfunction()
tutti_pkg_config(tutti-cxx "for C++20" ${CMAKE_INSTALL_INCLUDEDIR} -ltutti "-lm -lpthread -ldl")

# The public headers, with those of providers: a program includes tutti.hpp, or tutti/NAME.hpp of what it needs.
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev FILES_MATCHING PATTERN "*.hpp")

# A component has a file of targets of its own, which the config includes; those of nn and engine when LibTorch is found.
set(TUTTI_COMPONENTS "")
if(TARGET tutti_c)
  list(APPEND TUTTI_COMPONENTS c)
  if(DEFINED SKBUILD)
    set_target_properties(tutti_c PROPERTIES VERSION 0)
  endif()
  install(TARGETS tutti_c EXPORT tutti-c-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime-c NAMELINK_COMPONENT dev ${namelink}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
  install(EXPORT tutti-c-targets NAMESPACE tutti:: DESTINATION ${package_dir} COMPONENT dev)
  install(FILES bindings/c/tutti.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti COMPONENT dev)
  tutti_pkg_config(tutti "for C" ${CMAKE_INSTALL_INCLUDEDIR}/tutti -ltutti_c "-ltutti -lstdc++ -lm -lpthread -ldl")
else()
  get_property(TUTTI_WHY_NO_c GLOBAL PROPERTY TUTTI_REASON_C)
endif()
foreach(component nn engine)
  if(TARGET tutti_${component})
    list(APPEND TUTTI_COMPONENTS ${component})
    install(TARGETS tutti_${component} EXPORT tutti-${component}-targets
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT training NAMELINK_COMPONENT training-dev)
    install(EXPORT tutti-${component}-targets NAMESPACE tutti:: DESTINATION ${package_dir} COMPONENT training-dev)
    install(DIRECTORY ${component} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti COMPONENT training-dev FILES_MATCHING PATTERN "*.hpp")
  endif()
endforeach()
set(TUTTI_BUILT_TORCH_VERSION "")
set(TUTTI_BUILT_TORCH_ROOT "")
if(TUTTI_HAVE_TORCH)
  get_target_property(TUTTI_BUILT_TORCH_VERSION tutti_torch TUTTI_VERSION)
  get_target_property(TUTTI_BUILT_TORCH_ROOT tutti_torch TUTTI_ROOT)
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/TuttiTorch.cmake DESTINATION ${package_dir} COMPONENT dev)
  get_property(TUTTI_WHY_NO_engine GLOBAL PROPERTY TUTTI_REASON_ENGINE)
else()
  get_property(TUTTI_WHY_NO_nn GLOBAL PROPERTY TUTTI_REASON_TORCH)
  set(TUTTI_WHY_NO_engine "${TUTTI_WHY_NO_nn}")
endif()

# In a folder that CMake does not search: the build folder is one that it does, where its bin/ is in PATH.
set(config_dir ${PROJECT_BINARY_DIR}/generated/package)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tutti-config.cmake.in ${config_dir}/tutti-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${config_dir}/tutti-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${config_dir}/tutti-config.cmake ${config_dir}/tutti-config-version.cmake
  DESTINATION ${package_dir} COMPONENT dev)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev)  # two versions of runtime may be installed
install(FILES ${CMAKE_CURRENT_LIST_DIR}/tsan.supp DESTINATION ${CMAKE_INSTALL_DATADIR}/tutti COMPONENT dev)

# What is installed, without tests and examples: `cmake --build DIR --target product`.
get_property(modules GLOBAL PROPERTY TUTTI_MODULES)
get_property(preloads GLOBAL PROPERTY TUTTI_PRELOADS)
get_property(programs GLOBAL PROPERTY TUTTI_PROGRAMS)
add_custom_target(product)
foreach(target IN LISTS modules preloads programs ITEMS tutti tutti_c tutti_nn tutti_engine tutti_command bench_peer_openmpi
    bench_peer_mpich bench_peer_gloo)
  if(TARGET ${target})
    add_dependencies(product ${target})
  endif()
endforeach()
