package recorder

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/vfstest"
	"github.com/sievedb/sievedb/vfs"
)

// logSteps writes a log: a and b are synced, c to g are not. The letters before the number are in cut states.
func logSteps(t *testing.T) *FS {
	t.Helper()
	r := New(Image{})
	f, err := r.CreateLog("log")
	require.NoError(t, err)
	require.NoError(t, r.SyncDir("."))
	for _, b := range "abcdefg" {
		_, err = f.Write([]byte(strings.Repeat(string(b), 4096)))
		require.NoError(t, err)
		if b == 'b' {
			require.NoError(t, f.Sync())
		}
	}
	require.NoError(t, f.(vfs.LogFile).Cut())
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	return r
}

// shape has a letter for each page of a log, "." for one of zeros, and "?" for one that is neither.
func shape(data []byte) string {
	var b strings.Builder
	for len(data) > 0 {
		page := data[:min(pageSize, len(data))]
		data = data[len(page):]
		switch {
		case strings.Trim(string(page), string(page[:1])) != "":
			b.WriteByte('?')
		case page[0] == 0:
			b.WriteByte('.')
		default:
			b.WriteByte(page[0])
		}
	}
	return b.String()
}

func logStates(t *testing.T, r *FS, cut int, model Model, seeds uint64) (shapes []string) {
	t.Helper()
	c := r.Trace().Cursor()
	c.Seek(cut)
	for seed := range seeds {
		for s := range c.States(model, seed) {
			require.Len(t, s.Files, 1)
			if got := shape(s.Files[0].Data); !slices.Contains(shapes, got) {
				shapes = append(shapes, got)
			}
		}
	}
	return shapes
}

const dots = "................" // 64 KiB

func TestTheTraceOfALogHasItsReservationsAndItsEnd(t *testing.T) {
	r := logSteps(t)
	var ops []string
	for _, op := range r.Trace().Ops {
		if op.Kind != wrap.OpWrite {
			ops = append(ops, op.String())
		}
	}
	require.Equal(t, []string{
		"create log", "sync directory .", "reserve 65536 bytes at 0 of log", "sync log", "cut log", "sync log",
	}, ops)
	c := r.Trace().Cursor()
	for c.Next() {
		require.Len(t, slices.Collect(c.States(M0, 1)), 1)
	}
	require.Equal(t, vfstest.Tree(t, r.Mem().Crash(), "."), vfstest.Tree(t, slices.Collect(c.States(M0, 1))[0].Mem(), "."))
	require.Equal(t, vfstest.Tree(t, r.Mem(), "."), vfstest.Tree(t, slices.Collect(c.States(M1, 1))[0].Mem(), "."))
}

func TestStatesOfALogHaveZerosBehindItsBytes(t *testing.T) {
	r := logSteps(t)
	const reserved, synced, written, cut, ended = 3, 6, 11, 12, 13
	for _, c := range []struct {
		cut   int
		model Model
		want  []string
	}{
		{reserved - 1, M0, []string{""}},
		{reserved, M0, []string{""}},
		{reserved, M1, []string{dots, "?" + dots[1:]}},
		{synced, M0, []string{"ab" + dots[2:]}},
		{written, M0, []string{"ab" + dots[2:]}},
		{written, M1, []string{"abcdefg" + dots[7:]}},
		{cut, M0, []string{"ab" + dots[2:]}},
		{cut, M1, []string{"abcdefg"}},
		{ended, M0, []string{"abcdefg"}},
		{ended, M3, []string{"abcdefg"}},
	} {
		require.Equal(t, c.want, logStates(t, r, c.cut, c.model, 20), "%v at %d", c.model, c.cut)
	}
	torn := logStates(t, r, written, M2, 1)
	require.Contains(t, torn, "abcdef?"+dots[7:], "zeros replace what is cut off")
	for _, s := range torn {
		require.Len(t, s, 16)
	}
}

func TestAnySubsetOfThePagesOfALogMayBeThere(t *testing.T) {
	r := logSteps(t)
	const written, cut = 11, 12
	before, after := logStates(t, r, written, M3, 1000), logStates(t, r, cut, M3, 1000)
	subsets := map[string]bool{}
	for _, s := range before {
		require.Len(t, s, 16, "the length is durable since the sync")
		require.Equal(t, "ab", s[:2])
		subsets[s] = true
	}
	require.Len(t, subsets, 32, "of five pages")
	lengths := map[int]bool{}
	for _, s := range after {
		lengths[len(s)] = true
	}
	require.Subset(t, lengths, map[int]bool{2: true, 5: true, 7: true, 16: true}, "the cut may be durable before the pages")
	require.Contains(t, strings.Join(logStates(t, r, written, M4, 100), " "), "ab?")
	garbage := slices.ContainsFunc(logStates(t, r, written, M4, 100), func(s string) bool { return s[7] == '?' })
	require.True(t, garbage, "behind the bytes written")
}

// A killed process leaves no head of a record without the rest.
func TestAKilledWriteToALogHasNoHead(t *testing.T) {
	r := New(Image{})
	f, err := r.CreateLog("log")
	require.NoError(t, err)
	for _, s := range []string{"first record", "0123456789abc"} {
		_, err = f.Write([]byte(s))
		require.NoError(t, err)
	}
	c := r.Trace().Cursor()
	c.Seek(r.Len() - 1)
	seen := map[string]bool{}
	for seed := range uint64(300) {
		states := slices.Collect(c.States(M1, seed))
		require.Len(t, states, 2)
		require.Equal(t, "first record", strings.TrimRight(string(states[0].Files[0].Data), "\x00"))
		got := string(states[1].Files[0].Data)
		require.Len(t, got, 64<<10)
		require.Equal(t, "first record\x00\x00\x00\x00\x00\x00\x00", got[:19])
		seen[strings.ReplaceAll(strings.TrimRight(got[19:], "\x00"), "\x00", ".")] = true
		require.Contains(t, states[1].Detail, "but not its head")
	}
	for _, body := range []string{"789abc", "7", ".....c", "..9a"} {
		require.Contains(t, seen, body, fmt.Sprint(seen))
	}
}
