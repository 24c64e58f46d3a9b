# Adds up a profile of go test -coverprofile and fails where the tests, those of
# all packages together, reach less than least % of a package's statements. A
# block stands in the profile once for each test binary.
#
#	awk -v least=90 -v packages="util internal/disk/wal" -f .ci/coverage.awk coverage.out

/^mode:/ { next }

{
	statements[$1] = $2
	if ($3 > 0) reached[$1] = 1
}

END {
	for (block in statements) {
		package = block
		sub(/\/[^\/]*$/, "", package) # file and lines
		total[package] += statements[block]
		if (block in reached) covered[package] += statements[block]
	}
	count = split(packages, wanted, " ")
	for (i = 1; i <= count; i++) {
		percent = 0
		for (package in total) {
			if (substr(package, length(package) - length(wanted[i])) == "/" wanted[i]) {
				percent = 100 * covered[package] / total[package]
			}
		}
		printf "coverage %-18s %5.1f %%\n", wanted[i], percent
		if (percent < least) {
			print "coverage: the tests must reach " least " % of " wanted[i] "; go tool cover -html coverage.out shows what they miss"
			failed = 1
		}
	}
	exit failed
}
