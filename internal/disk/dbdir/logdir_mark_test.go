package dbdir

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

func TestDamagedMarksAreRefused(t *testing.T) {
	for _, name := range []string{"/db/LOGDIR", "/logs/LOGS"} {
		mem, _ := twoDirs(t)
		begin(t, mem, "/db", "/logs")
		whole := content(t, mem, name)
		for _, bad := range []string{"", "x", whole + "x", whole[:len(whole)-1], strings.Replace(whole, "id ", "id g", 1), strings.Repeat("x", maxMark+1)} {
			require.NoError(t, mem.Remove(name))
			put(t, mem, name, bad)
			_, err := findLogs(mem, "/db", "/logs")
			require.ErrorIs(t, err, base.ErrCorruption)
			require.ErrorContains(t, err, "this is no mark of a log directory")
		}
		require.NoError(t, mem.Remove(name))
		require.NoError(t, mem.MkdirAll(name))
		_, err := findLogs(mem, "/db", "/logs")
		require.ErrorIs(t, err, base.ErrCorruption, "a directory")
	}
}

// A mark with more lines was damage, and the advice was to write it again.
func TestAMarkOfALaterVersionIsNewer(t *testing.T) {
	for _, name := range []string{"/db/LOGDIR", "/logs/LOGS"} {
		mem, _ := twoDirs(t)
		begin(t, mem, "/db", "/logs")
		whole := content(t, mem, name)
		require.NoError(t, mem.Remove(name))
		put(t, mem, name, whole+"mirror \"/third\"\n")
		_, err := findLogs(mem, "/db", "/logs")
		require.ErrorIs(t, err, base.ErrNewer)
		require.ErrorContains(t, err, name)
		require.False(t, isLost(err), "Repair must not abandon the logs")
	}
}

func FuzzDecodeMark(f *testing.F) {
	f.Add(mark{strings.Repeat("0f", 16), "/a \"dir\"\n"}.encode())
	f.Add(mark{strings.Repeat("0f", 16), ""}.encode())
	f.Add([]byte(markFirstLine + "\nid \nother \"\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, ok := decodeMark(data); ok {
			require.Equal(t, string(data), string(m.encode()))
			require.Len(t, m.id, 32)
		}
	})
}
