# mixed.cpp is the page's own program.
. "$ROOT/tests/docs/frames/page"
ln -s "$ROOT/examples" .
block embed-mpi cpp 1 >mixed.cpp
install_here
ln -s "$build/lib/tutti" prefix/lib/tutti
