package docs_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	word = regexp.MustCompile(`\S*[A-Za-z0-9]\S*`)

	// notWords are what nobody reads as text: code, names of tests with their packages, rows with two
	// figures or more, and what is between two markers. That is written by a program (figures, planted
	// bugs) or compared with the code, row by row (rooms, log records): its length follows from the code.
	notWords = regexp.MustCompile("(?ms)^```.*?^```$|^    .*?$|(?:[\\w/]+: )?`(?:Test|Fuzz|Example)[\\w/-]*`|^\\|[^\\n]*\\| *\\d[^\\n]*\\| *\\d[^\\n]*$|<!-- \\w+: begin -->.*?<!-- \\w+: end -->")
)

// countWords counts what is between spaces and has a letter or a digit, in tables too.
func countWords(text string) int {
	return len(word.FindAllString(notWords.ReplaceAllString(text, ""), -1))
}

// words returns the words of the pages that match the pattern.
func words(t *testing.T, pattern string, except ...string) (total int) {
	files, err := filepath.Glob(filepath.Join(root, pattern))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name, err := filepath.Rel(root, file)
		require.NoError(t, err)
		n := countWords(read(t, name))
		require.NotZero(t, n, name)
		t.Logf("%5d %s", n, name)
		total += n
	}
	for _, name := range except {
		total -= countWords(read(t, name))
	}
	return total
}

// Pages that only grow are read by nobody: to add to them, shorten something else. The tables of
// performance are left out, because cmd/peerbench writes them.
func TestDocumentsAreShort(t *testing.T) {
	require.LessOrEqual(t, words(t, "docs/*.md", "docs/performance-tables.md"), 34_000)
	require.LessOrEqual(t, words(t, "docs/decisions/*.md"), 6_000)
}
