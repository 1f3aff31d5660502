mkdir -p docs/book/pictures
