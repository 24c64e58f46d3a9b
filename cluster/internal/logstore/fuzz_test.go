package logstore

import (
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// A store opens with any key in it, or says what is wrong; then it has the group of the key.
func FuzzParseGroup(f *testing.F) {
	g := &Group{id: 7}
	f.Add(g.logKey(12))
	f.Add(g.stableKey([]byte("CurrentTerm")))
	f.Add((&Group{id: 1<<32 - 1}).logKey(1<<64 - 1))
	f.Add([]byte{0, 0, 0, 1, logTag})
	f.Add([]byte{0, 0, 0, 1, logTag + 1, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, key []byte) {
		if len(key) > db.MaxKeySize {
			return
		}
		id, parseErr := parseGroup(key)
		mem := vfs.NewMem()
		d, err := db.Open("log", &db.Options{FS: mem})
		require.NoError(t, err)
		require.NoError(t, d.Put(key, []byte("x"), db.Sync))
		require.NoError(t, d.Close())
		s, err := Open("log", Options{FS: mem})
		if parseErr != nil {
			require.ErrorContains(t, err, parseErr.Error())
			return
		}
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		ids, err := s.Groups()
		require.NoError(t, err)
		require.Equal(t, id, ids[0])
		require.Len(t, ids, 1)
		g := s.Group(id)
		last, err := g.LastIndex()
		require.NoError(t, err)
		if key[4] == logTag {
			require.Equal(t, key, g.logKey(last))
			require.Error(t, g.GetLog(last, new(raft.Log)), "x is no entry")
		}
	})
}
