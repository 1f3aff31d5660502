# Headers of one LibTorch with the library of another are refused; one installation's own pass.
# Run with -DMODULE=cmake/TuttiTorch.cmake -DFOLDER=an empty folder.
include(${MODULE})
file(REMOVE_RECURSE ${FOLDER})

function(installation name version)
  string(REPLACE "." ";" parts ${version})
  list(GET parts 0 major)
  list(GET parts 1 minor)
  file(WRITE ${FOLDER}/${name}/include/torch/csrc/api/include/torch/version.h
    "#define TORCH_VERSION_MAJOR ${major}\n#define TORCH_VERSION_MINOR ${minor}\n")
endfunction()

function(expect what include library wanted)
  tutti_torch_mix(${FOLDER}/${include} ${FOLDER}/${library} said)
  if((wanted STREQUAL "" AND NOT said STREQUAL "") OR NOT said MATCHES "${wanted}")
    message(FATAL_ERROR "${what}: expected '${wanted}', found '${said}'")
  endif()
endfunction()

installation(debian 1.13)
file(WRITE ${FOLDER}/debian/lib/libtorch_cpu.so.1.13.0 "")
file(CREATE_LINK libtorch_cpu.so.1.13.0 ${FOLDER}/debian/lib/libtorch_cpu.so SYMBOLIC)
installation(pip 2.13)
file(WRITE ${FOLDER}/pip/lib/libtorch_cpu.so "")
file(WRITE ${FOLDER}/pip/version.py "__version__ = '2.13.0+cpu'\n")
installation(built 2.1)
file(WRITE ${FOLDER}/built/lib/libtorch_cpu.so "")
file(WRITE ${FOLDER}/none/include/readme "")

expect("Debian's own" debian/include debian/lib/libtorch_cpu.so "")
expect("pip's own" pip/include pip/lib/libtorch_cpu.so "")
expect("a build without a version file" built/include built/lib/libtorch_cpu.so "")
expect("pip's headers, Debian's library" pip/include debian/lib/libtorch_cpu.so "are 2.13, but .* is 1.13")
expect("Debian's headers, pip's library" debian/include pip/lib/libtorch_cpu.so "are 1.13, but .* is 2.13")
expect("two places, one silent" debian/include built/lib/libtorch_cpu.so "-DTUTTI_TORCH=")
expect("no version" none/include pip/lib/libtorch_cpu.so "state no version")
file(REMOVE_RECURSE ${FOLDER})
