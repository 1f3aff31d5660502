# average.c is the page's own program.
. "$ROOT/tests/docs/frames/page"
block embed-c c 1 >average.c
install_here
