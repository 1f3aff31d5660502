# digits: images of ten classes like those of `tutti data optdigits`, without a network to download from.
awk 'BEGIN { srand(1)
             for (class = 0; class < 10; ++class) for (i = 0; i < 64; ++i) shape[class, i] = int(17 * rand())
             for (n = 0; n < 900; ++n) { line = ""; class = n % 10
               for (i = 0; i < 64; ++i) { value = shape[class, i] + int(5 * rand()) - 2
                 line = line (value < 0 ? 0 : value > 16 ? 16 : value) "," }
               print line class } }' | gzip > digits.csv.gz
tutti data optdigits digits --from digits.csv.gz
