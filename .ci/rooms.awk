# Fails where a room's own tests, those in its directory alone, reach less than least % of its statements. It reads the
# lines of go test -cover and those of the list of exceptions: a package and the reason. An exception that is not needed
# any more is an error as well.
#
#	go test -cover ./... | awk -v least=80 -v prefix=github.com/sievedb/sievedb/ -f .ci/rooms.awk .ci/rooms.except -

function fail(text) { print "coverage: " text; failed = 1 }

FILENAME != "-" && FILENAME != "" && FILENAME ~ /rooms\.except$/ {
	if ($0 ~ /^#/ || NF == 0) next
	room = $1
	if (NF < 3) fail(room ": .ci/rooms.except has no reason for it")
	except[room] = 1
	next
}

/^FAIL/ || /^---/ || /^panic:/ { print; failed = 1; next }

{
	for (i = 1; i <= NF; i++) if (index($i, prefix) == 1) room = substr($i, length(prefix) + 1)
	if (match($0, /coverage: [0-9.]+% of statements/)) {
		percent = substr($0, RSTART + 10) + 0
		measured[room] = 1
		if (percent < least && !(room in except)) {
			fail(sprintf("the tests in %s reach %.1f %% of it, at least %d %% are wanted; write some there, or move some there", room, percent, least))
		} else if (percent >= least && room in except) {
			fail(sprintf("the tests in %s reach %.1f %% of it; remove it from .ci/rooms.except", room, percent))
		}
		if (percent < lowest || lowest == "") { lowest = percent; where = room }
	}
}

END {
	for (room in except) if (!(room in measured)) fail(room ": .ci/rooms.except names it, but it was not measured")
	n = 0
	for (room in measured) n++
	if (n == 0) fail("nothing was measured")
	printf "coverage: %d rooms by their own tests; the lowest is %s with %.1f %%\n", n, where, lowest
	exit failed
}
