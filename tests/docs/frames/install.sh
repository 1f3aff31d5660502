# A program, the sources, and prefix.
. "$ROOT/tests/docs/frames/page"
cp "$ROOT/examples/average.cpp" .
ln -s "$ROOT" sources
install_here
