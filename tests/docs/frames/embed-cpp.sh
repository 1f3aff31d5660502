# average.cpp is the page's own program; prefix is this build, installed.
block() { awk -v fence="\`\`\`$2" -v nth="$3" '$0 == fence { ++at; if (at == nth) { inside = 1; next } } /^```/ { inside = 0 } inside' "$ROOT/docs/guides/$1.md"; }
block embed-cpp cpp 1 > average.cpp
build=$(dirname "$(dirname "$(command -v tutti)")")
cmake -DCMAKE_INSTALL_PREFIX="$PWD/prefix" -DCMAKE_INSTALL_LOCAL_ONLY=1 -P "$build/cmake_install.cmake" >install.log
