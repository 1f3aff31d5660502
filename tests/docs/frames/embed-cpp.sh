# average.cpp is the page's own program.
. "$ROOT/tests/docs/frames/page"
block embed-cpp cpp 1 >average.cpp
install_here
