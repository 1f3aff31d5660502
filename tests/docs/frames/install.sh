# A program, the sources, and prefix: this build, installed.
cp "$ROOT/examples/average.cpp" .
ln -s "$ROOT" sources
build=$(dirname "$(dirname "$(command -v tutti)")")
cmake -DCMAKE_INSTALL_PREFIX="$PWD/prefix" -DCMAKE_INSTALL_LOCAL_ONLY=1 -P "$build/cmake_install.cmake" >install.log
