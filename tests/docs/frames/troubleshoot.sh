# wrong is the page's own program.
awk '$0 == "```cpp" { inside = 1; next } /^```/ { inside = 0 } inside' "$ROOT/docs/guides/troubleshoot.md" > wrong.cpp
lib=$(dirname "$(dirname "$(command -v tutti)")")/lib
c++ -std=c++20 "-I$ROOT/include" wrong.cpp -o wrong "-L$lib" "-Wl,-rpath,$lib" -ltutti -pthread
