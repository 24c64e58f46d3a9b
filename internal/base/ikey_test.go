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

func TestFileNamesRoundTrip(t *testing.T) {
	for name, want := range map[string]struct {
		kind FileKind
		num  uint64
	}{
		"000012.log": {FileLog, 12}, "000013.ldb": {FileTable, 13}, "000013.sst": {FileOldTable, 13},
		"MANIFEST-000011": {FileManifest, 11}, "CURRENT": {FileCurrent, 0}, "LOCK": {FileLock, 0},
		"LOG": {FileInfoLog, 0}, "CLOSED": {FileClosed, 0}, "000014.dbtmp": {FileTemp, 14}, "1234567.ldb": {FileTable, 1234567},
	} {
		kind, num, ok := ParseFileName(name)
		require.True(t, ok, name)
		require.Equal(t, want.kind, kind, name)
		require.Equal(t, want.num, num, name)
		require.Equal(t, name, FileName(kind, num))
	}
	for _, name := range []string{"", "000012", "12.txt", "+12.log", "-1.log", ".log", "MANIFEST", "MANIFEST-", "current", "lost", "9223372036854775808.ldb"} {
		_, _, ok := ParseFileName(name)
		require.False(t, ok, name)
	}
}
