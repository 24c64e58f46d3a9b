# Fails where a room's own tests, those in its directory alone, reach less than least % of its statements. It reads the
# lines of go test -cover.
#
#	go test -cover ./... | awk -v least=80 -v prefix=github.com/sievedb/sievedb/ -f .ci/rooms.awk

function fail(text) { print "coverage: " text; failed = 1 }

/^FAIL/ || /^---/ || /^panic:/ { print; failed = 1; next }

match($0, /coverage: [0-9.]+% of statements/) {
	percent = substr($0, RSTART + 10) + 0
	for (i = 1; i <= NF; i++) if (index($i, prefix) == 1) room = substr($i, length(prefix) + 1)
	if (percent < least) {
		fail(sprintf("the tests in %s reach %.1f %% of it, at least %d %% are wanted; write some there, or move some there", room, percent, least))
	}
	n++
	if (percent < lowest || lowest == "") { lowest = percent; where = room }
}

END {
	if (n == 0) fail("nothing was measured")
	printf "coverage: %d rooms by their own tests; the lowest is %s with %.1f %%\n", n, where, lowest
	exit failed
}
