package testseed

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	testFunc = regexp.MustCompile(`(?m)((?:^//.*\n)*)^func (\w+)\((?:t \*testing\.T|t testing\.TB).*\{\n(?s:.*?)^\}`)
	newSeed  = regexp.MustCompile(`\b(?:newRand|filtertest\.NewRand)\(t\)|\bseedFor\(t\)|\brand\.Uint64\(\)|UnixNano\(\)`)
	judgment = regexp.MustCompile(`\b(InDelta|InEpsilon)\(`)
)

// A test with a new seed on each run failed in 5 of 120 runs, for its tolerance was narrower than chance is. This finds
// what compares within a tolerance what it measured with a new seed.
func TestStatisticsHaveFixedSeedsOrDerivedBounds(t *testing.T) {
	found := 0
	require.NoError(t, filepath.WalkDir("../../..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, f := range testFunc.FindAllStringSubmatch(string(text), -1) {
			found++
			if newSeed.MatchString(f[0]) && judgment.MatchString(f[0]) {
				require.Contains(t, f[1], "// False alarms:", "%s in %s judges by statistics with a new seed on each run; see the comment of package testseed", f[2], name)
			}
		}
		return nil
	}))
	require.Greater(t, found, 1000, "the expression must see the tests")
}

func TestTheSeedIsTheSameOnEveryRun(t *testing.T) {
	if *seedFlag != 0 {
		require.Equal(t, *seedFlag, Statistical(t))
		require.Equal(t, Statistical(t), Statistical(t))
	}
}
