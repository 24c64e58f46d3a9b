package db

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/stretchr/testify/require"
)

// TestBatchBytesAreLevelDBs encodes the batch of testdata/batch.hex; this test decodes it.
//
//make:portable
func TestBatchVectorDecodes(t *testing.T) {
	text, err := os.ReadFile("testdata/batch.hex")
	require.NoError(t, err)
	var record []byte
	for line := range strings.Lines(string(text)) {
		digits, _, _ := strings.Cut(line, "#")
		b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		require.NoError(t, err, line)
		record = append(record, b...)
	}
	r, err := batch.NewReader(record)
	require.NoError(t, err)
	for i, want := range []struct {
		kind       base.Kind
		key, value string
	}{{base.KindSet, "k", "value"}, {base.KindDelete, "gone", ""}, {base.KindSet, "", ""}} {
		kind, key, value, seq, ok, err := r.Next()
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want.kind, kind)
		require.Equal(t, want.key, string(key))
		require.Equal(t, want.value, string(value))
		require.EqualValues(t, 258+i, seq)
	}
	_, _, _, _, ok, err := r.Next()
	require.NoError(t, err)
	require.False(t, ok)
}
