package docs_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	decisionTitle  = regexp.MustCompile(`\A# (\d+)\. (.+)\n\nStatus: (?:accepted\n\n## |superseded by \[.+\]\()`)
	decisionHeader = regexp.MustCompile(`(?m)^## (.+)$`)
)

var superseded = regexp.MustCompile(`\A# .+\n\nStatus: superseded by \[.+\]\(.+\)\n\n.+\n\z`)

// Decisions have their number as a name, the same sections in the same order, and are listed in the index in the order
// of their numbers, and nothing else is. Of a superseded one, the status and one line are left.
func TestDecisionsHaveOneForm(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs/decisions/[0-9]*.md"))
	require.NoError(t, err)
	require.Greater(t, len(files), 25)
	slices.Sort(files)
	index := read(t, "docs/decisions/README.md")
	var rows []string
	for _, file := range files {
		name := filepath.Base(file)
		text := read(t, path.Join("docs/decisions", name))
		title := decisionTitle.FindStringSubmatch(text)
		require.NotNil(t, title, "%s needs a title, a status and a section", name)
		number := name[:4]
		require.Equal(t, strings.TrimLeft(number, "0"), title[1], name)
		rows = append(rows, fmt.Sprintf("| [%s](%s) | %s |\n", number, name, title[2]))
		if superseded.MatchString(text) {
			continue // One line says what it was.
		}
		var sections []string
		for _, header := range decisionHeader.FindAllStringSubmatch(text, -1) {
			sections = append(sections, header[1])
		}
		require.Contains(t, [][]string{
			{"Decision", "Reasons"}, {"Decision", "Rejected"}, {"Decision", "Reasons", "Rejected"},
		}, sections, "%s: a decision, then its reasons, what was rejected, or both", name)
	}
	require.True(t, strings.HasSuffix(index, "\n| --- | --- |\n"+strings.Join(rows, "")), "the index has other rows than %s", rows)
	entries, err := os.ReadDir(filepath.Join(root, "docs/decisions"))
	require.NoError(t, err)
	require.Len(t, entries, len(files)+1, "only decisions and their index belong there")
}
