package interop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// Bug: goleveldb's RecoverFile gives its MANIFEST a number above those of the tables alone and leaves ours, which may
// have a greater one. CLOSED named ours, so the sound directory was refused as one whose CURRENT had been exchanged.
func TestTheMarkOfACloseDoesNotRefuseWhatAnotherEngineRepaired(t *testing.T) {
	forEachOther(t, func(t *testing.T, other Engine, reuse bool) {
		for opens := range 4 {
			for flushes := range 3 {
				for _, turn := range []string{"nothing", "close", "kill"} {
					t.Run(fmt.Sprintf("%d opens, %d flushes, %s", opens, flushes, turn), func(t *testing.T) {
						s := closedAfter(t, opens, flushes)
						require.NoError(t, other.(Repairer).Repair(s.dir, Options{}))
						s.opts.ReuseLogs = reuse
						s.takeTurn(other, turn)
						s.continueWith(SieveDB{})
						s.put("after", "v")
						s.close()
						require.True(t, s.reopened())
						s.verify()
						s.close()
						s.check(other)
					})
				}
			}
		}
	})
}

// closedAfter is a session whose database SieveDB opened and flushed so often, and has closed.
func closedAfter(t *testing.T, opens, flushes int) *session {
	s := newSession(t, SieveDB{}, Options{})
	for range opens {
		s.put(fmt.Sprint("opened", opens), "v")
		s.close()
		s.openExisting(SieveDB{})
	}
	for i := range flushes {
		s.put(fmt.Sprint("flushed", i), "v")
		s.flush()
	}
	s.put("in the log", "v")
	s.close()
	return s
}

// takeTurn lets the other engine write and then be closed or killed, or do nothing.
func (s *session) takeTurn(other Engine, turn string) {
	if turn == "nothing" {
		return
	}
	s.openExisting(other)
	s.put("by another engine", "v")
	switch turn {
	case "close":
		s.close()
	case "kill":
		s.kill()
	}
}

// Bug: goleveldb's RecoverFile removes the tables of a database with separated values, without an error. Repair found
// nothing in the value tables that it leaves.
func TestRepairFindsTheValuesThatGoLevelDBLeaves(t *testing.T) {
	dir := t.TempDir()
	d, err := db.Open(dir, &db.Options{Tables: db.TableOptions{SeparateValues: 1000}})
	require.NoError(t, err)
	want := map[string]string{}
	for i := range 100 {
		want[fmt.Sprint("k", i)] = strings.Repeat(fmt.Sprint(i), 5000)
		require.NoError(t, d.Put([]byte(fmt.Sprint("k", i)), []byte(want[fmt.Sprint("k", i)]), db.NoSync))
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.NoError(t, d.Close())
	require.NoError(t, GoLevelDB{}.Repair(dir, Options{}))
	reader, err := db.Open(dir, &db.Options{ReadOnly: true})
	require.NoError(t, err)
	require.NotEmpty(t, reader.OpenReport().Losses)
	require.NoError(t, reader.Close())
	require.NoError(t, db.Repair(dir, nil))
	require.Equal(t, want, everything(t, SieveDB{}, dir))
}
