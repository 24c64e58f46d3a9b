package base

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInternalKeyVectorsRoundTrip(t *testing.T) {
	text, err := os.ReadFile("testdata/ikey.hex")
	require.NoError(t, err)
	var keys [][]byte
	for _, part := range strings.Split(strings.ReplaceAll(string(text), "\r", ""), "\n\n") {
		var key []byte
		for line := range strings.Lines(part) {
			digits, _, _ := strings.Cut(line, "#")
			b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
			require.NoError(t, err, line)
			key = append(key, b...)
		}
		keys = append(keys, key)
	}
	want := []struct {
		user string
		seq  uint64
		kind Kind
	}{{"ant", 3, KindSet}, {"ant", 2, KindDelete}, {"ants", 300, KindSet}}
	require.Len(t, keys, len(want))
	for i, w := range want {
		require.True(t, ValidInternalKey(keys[i]))
		require.Equal(t, w.user, string(UserKey(keys[i])))
		seq, kind := SplitTrailer(Trailer(keys[i]))
		require.Equal(t, w.seq, seq)
		require.Equal(t, w.kind, kind)
		require.Equal(t, keys[i], AppendInternalKey(nil, []byte(w.user), w.seq, w.kind))
		if i > 0 {
			require.Negative(t, CompareInternal(Bytewise, keys[i-1], keys[i]), "the order is ascending")
			require.Positive(t, CompareInternal(Bytewise, keys[i], keys[i-1]))
		}
	}
}
