package changes

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
)

// The worked bytes of docs/format.md.
func TestVectorsOfTheFormat(t *testing.T) {
	text, err := os.ReadFile("testdata/event.hex")
	require.NoError(t, err)
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.ReplaceAll(strings.TrimSpace(line), " ", ""))
	}
	raw, err := hex.DecodeString(digits.String())
	require.NoError(t, err)
	own := batch.Batch{}
	own.Add(base.KindSet, []byte("k"), []byte("v"))
	want := Event{
		Manifest: 11, Ranges: []Range{{Start: []byte("a"), Limit: []byte("m")}, {Start: []byte("x")}},
		Own: own.Record(1), Tables: []string{"000013.ldb"},
	}
	require.Equal(t, raw, want.encode(), "%x", want.encode())
	got, err := decodeEvent(raw)
	require.NoError(t, err)
	require.Equal(t, want, *got)

	text, err = os.ReadFile("testdata/cursors.txt")
	require.NoError(t, err)
	cursors := map[string]uint64{"mirror": 258, "größe": 7}
	require.Equal(t, string(text), string(encodeCursors(cursors)))
	again, err := decodeCursors(text)
	require.NoError(t, err)
	require.Equal(t, cursors, again)
}
