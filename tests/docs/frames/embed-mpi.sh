# mixed.cpp is the page's own program; prefix is this build, installed.
ln -s "$ROOT/examples" .
awk '$0 == "```cpp" { inside = 1; next } /^```/ { inside = 0 } inside' "$ROOT/docs/guides/embed-mpi.md" > mixed.cpp
build=$(dirname "$(dirname "$(command -v tutti)")")
cmake -DCMAKE_INSTALL_PREFIX="$PWD/prefix" -DCMAKE_INSTALL_LOCAL_ONLY=1 -P "$build/cmake_install.cmake" >install.log
ln -s "$build/lib/tutti" prefix/lib/tutti
