package docs_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var word = regexp.MustCompile(`\S*[A-Za-z0-9]\S*`)

// countWords counts what is separated by spaces and contains a letter or a digit, also in tables and code.
func countWords(text string) int { return len(word.FindAllString(text, -1)) }

// Nobody reads pages that only grow. Anyone who adds to them shortens something else.
func TestDecisionsAreShort(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs/decisions/*.md"))
	require.NoError(t, err)
	words := 0
	for _, file := range files {
		words += countWords(read(t, "docs/decisions/"+filepath.Base(file)))
	}
	t.Logf("decisions: %d words", words)
	require.LessOrEqual(t, words, 10_000)
}
