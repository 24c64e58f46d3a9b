package sstable

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
)

// unmarked returns a sound table without the mark of its first and last key, like those of other programs.
func unmarked(t testing.TB, o WriterOptions, es entries) []byte {
	return tableByHand(t, o, func(w *Writer) {
		addAll(t, w, es)
		endData(t, w)
		w.props.Entries = 0 // an empty table has no mark
	})
}

// A table restored under another one's name is sound in itself. Before its first and last
// keys were compared with those in the MANIFEST, its filter hid existing keys.
func TestATableUnderAWrongNameIsRejectedByOpen(t *testing.T) {
	all := plainEntries(900, 40)
	own, before, after := all[300:600], all[:300], all[600:]
	smallest, largest := own[0].Key, own[len(own)-1].Key
	otherVersion := append(entries{{Key: ikey("key00000600", 7777, base.KindSet), Value: own[0].Value}}, own[1:]...)
	for _, c := range []struct {
		name string
		es   entries
		want string
	}{
		{"the right table", own, ""},
		{"a table of smaller keys", before, "not the table that belongs"},
		{"a table of greater keys", after, "not the table that belongs"},
		{"a table that goes further", all[300:], "not the table that belongs"},
		{"a table that begins earlier", all[:600], "not the table that belongs"},
		{"a table that begins with another version", otherVersion, "not the table that belongs"},
		{"an empty table", nil, "not the table that belongs"},
	} {
		for name, o := range map[string]WriterOptions{
			"many blocks": {Filter: bloom, BlockSize: 512}, "one block": {Filter: bloom, BlockSize: 1 << 20}, "no filter": {},
		} {
			for kind, build := range map[string]func(testing.TB, WriterOptions, entries) []byte{"marked": buildTable, "unmarked": unmarked} {
				t.Run(c.name+"/"+name+"/"+kind, func(t *testing.T) {
					if len(c.es) == 0 && kind == "unmarked" {
						build = buildTable // an empty table has no mark anyway
					}
					f := &memFile{data: build(t, o, c.es)}
					r, err := Open(f, ReaderOptions{
						Policies: []filter.Policy{bloom}, Cache: newCache(), Name: "000004.ldb", Smallest: smallest, Largest: largest,
					})
					if c.want != "" {
						require.ErrorIs(t, err, base.ErrCorruption)
						require.ErrorContains(t, err, c.want)
						require.ErrorContains(t, err, "000004.ldb")
						require.NotContains(t, err.Error(), "key0", "keys stay out of errors")
						require.Equal(t, 1, f.closed)
						return
					}
					require.NoError(t, err)
					defer r.Close()
					if kind == "marked" {
						require.Nil(t, r.index.Load(), "checking the mark does not read the index")
					}
					for _, e := range c.es {
						checkGet(t, r, base.Bytewise, c.es, base.UserKey(e.Key), base.MaxSeq)
					}
				})
			}
		}
	}
}

func TestCheckingBoundsReportsADamagedTable(t *testing.T) {
	es := plainEntries(50, 40)
	data := unmarked(t, WriterOptions{}, es)
	data[3] ^= 1 // in the first data block
	_, err := Open(&memFile{data: data}, ReaderOptions{Name: "x", Smallest: es[0].Key, Largest: es[49].Key})
	require.ErrorIs(t, err, base.ErrCorruption)
	require.ErrorContains(t, err, "data block at offset 0")
}
