# wrong is the page's own program.
. "$ROOT/tests/docs/frames/page"
block troubleshoot cpp 1 >wrong.cpp
c++ -std=c++20 "-I$ROOT/include" wrong.cpp -o wrong "-L$build/lib" "-Wl,-rpath,$build/lib" -ltutti -pthread
